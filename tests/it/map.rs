//! `map`: the page shows every block and address with its use, and in a real browser
//! they can be searched, zoomed and linked to.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use testbed::{Browser, ColourScheme, or_skip};

use super::examples;
use super::support::{
    Folder, KUBERNETES, TextAssertions, cluster, holds, node, pool, repository, run,
};

/// The data of a page.
fn data(page: &str) -> Value {
    let (_, rest) = page
        .split_once("<script type=\"application/json\" id=\"data\">")
        .unwrap();
    serde_json::from_str(rest.split_once("</script>").unwrap().0).unwrap()
}

/// The areas, a line each: CIDR, use, owner, and what is special.
fn areas(page: &str) -> Vec<String> {
    let data = data(page);
    let columns = &data["areas"];
    let text = |column: &str, place: usize| {
        let number = columns[column][place].as_i64().unwrap();
        usize::try_from(number).map_or("", |number| data["texts"][number].as_str().unwrap())
    };
    let line = |place: usize| {
        let kind = columns["kind"][place].as_u64().unwrap();
        let mut line = format!(
            "{} {} {}",
            columns["cidr"][place].as_str().unwrap(),
            data["kinds"][usize::try_from(kind).unwrap()]
                .as_str()
                .unwrap(),
            text("owner", place)
        );
        let presence = columns["presence"][place].as_u64().unwrap();
        line += ["", ", added", ", removed"][usize::try_from(presence).unwrap()];
        for (column, name) in [
            ("pool", "pool"),
            ("domain", "domain"),
            ("misplaced", "misplaced"),
            ("shared", "also held by"),
        ] {
            if !text(column, place).is_empty() {
                line += &format!(", {name} {}", text(column, place));
            }
        }
        line
    };
    (0..columns["cidr"].as_array().unwrap().len())
        .map(line)
        .collect()
}

fn page(folder: &Folder) -> String {
    folder.expect("map --cluster-file cluster.yaml --out map.html", 0);
    folder.read("map.html")
}

fn two_racks() -> Folder {
    let rack = |name: &str, cidr: &str, more: &str| {
        let selector = format!("{{matchLabels: {{rack: {name}}}}}");
        pool(
            &format!("rack-{name}"),
            &format!(
                "{{cidrs: [{cidr}], blockSize: {{ipv4: 24}}, nodeSelector: {selector}{more}}}"
            ),
        )
    };
    let service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "web", "namespace": "shop"},
        "spec": {"type": "LoadBalancer", "ports": [{"port": 80}]},
        "status": {"loadBalancer": {"ingress": [{"ip": "203.0.113.7"}]}},
    });
    let balancer = json!({
        "apiVersion": "cilium.io/v2", "kind": "CiliumLoadBalancerIPPool",
        "metadata": {"name": "public"}, "spec": {"blocks": [{"cidr": "203.0.113.0/28"}]},
    });
    let items = [
        node("held", "a", &holds("10.20.4.0/24")),
        node("elsewhere", "b", &holds("10.20.5.0/24")),
        node("twin-1", "a", &holds("10.20.6.0/24")),
        node("twin-2", "a", &holds("10.20.6.0/24")),
        node("new", "b", ""),
        service.to_string(),
        balancer.to_string(),
    ];
    let racks = [
        rack("a", "10.20.0.0/20", ", reserved: [10.20.0.0/22]"),
        rack("b", "10.20.16.0/20", ""),
    ];
    Folder::new(&[
        ("cluster.yaml", &cluster("1.19.3", KUBERNETES, &items)),
        ("pools/racks.yaml", &racks.join("---\n")),
    ])
}

#[test]
fn a_map_shows_what_is_held_what_is_wrong_and_what_the_plan_changes() {
    insta::assert_snapshot!(areas(&page(&two_racks())).join("\n"));
}

#[test]
fn a_moved_node_a_new_pool_and_pins_are_on_the_map() {
    for example in ["move", "load-balancer", "multi-pool"] {
        let folder = examples::copy(&repository().join("examples").join(example));
        insta::assert_snapshot!(format!("map_{example}"), areas(&page(&folder)).join("\n"));
    }
}

/// Against the table of the same cluster.
#[test]
fn every_block_of_every_example_is_on_its_map() {
    let mut seen = 0;
    for example in [
        "racks",
        "dual-stack",
        "cluster-pool",
        "multi-pool",
        "move",
        "pins",
    ] {
        let place = |name: &str| format!("examples/{example}/{name}");
        let (pools, cluster) = (place("pools"), place("cluster.yaml"));
        let nodes = run(
            repository(),
            &[
                "show",
                "nodes",
                &pools,
                "--cluster-file",
                &cluster,
                "-o",
                "json",
            ],
        )
        .expect(0)
        .json();
        let folder = Folder::new(&[]);
        let out = folder.join("map.html");
        run(
            repository(),
            &[
                "map",
                &pools,
                "--cluster-file",
                &cluster,
                "--out",
                out.to_str().unwrap(),
            ],
        )
        .expect(0);
        let shown: BTreeSet<String> = areas(&folder.read("map.html")).into_iter().collect();
        for node in nodes["items"].as_array().unwrap() {
            for block in node["pod_cidrs"].as_array().unwrap() {
                let start = format!(
                    "{} node block {}",
                    block.as_str().unwrap(),
                    node["name"].as_str().unwrap()
                );
                assert!(
                    shown.iter().any(|line| line.starts_with(&start)),
                    "{example}: {start}\n{shown:#?}"
                );
                seen += 1;
            }
        }
    }
    assert!(seen >= 8, "{seen} blocks");
}

#[test]
fn a_file_of_another_format_is_refused() {
    for name in ["map.svg", "map"] {
        let refused = two_racks()
            .run(&["map", "--cluster-file", "cluster.yaml", "--out", name])
            .expect(1);
        let expected = format!("`{name}` does not end with `.html`");
        refused.stderr.assert_has(&expected);
    }
}

/// The text of the details panel.
fn details(browser: &Browser) -> String {
    let text = browser
        .evaluate("return document.getElementById('details').innerText")
        .unwrap();
    text.as_str().unwrap().to_owned()
}

/// The image of the canvas, once drawing has ended.
fn drawn(browser: &Browser) -> String {
    // A move of the view takes 220 ms. It has ended when consecutive frames are equal.
    let script = "const canvas = document.getElementById('map');
        return new Promise((done) => {
            let last = '', same = 0;
            const look = () => {
                const now = canvas.toDataURL();
                same = now === last ? same + 1 : 0;
                last = now;
                if (same > 3) done(now); else requestAnimationFrame(look);
            };
            requestAnimationFrame(look);
        })";
    browser
        .evaluate(script)
        .unwrap()
        .as_str()
        .unwrap()
        .to_owned()
}

#[test]
fn a_browser_searches_zooms_and_follows_links() {
    let browser = or_skip!(Browser::start(ColourScheme::Light));
    let folder = two_racks();
    page(&folder);
    browser.open(&folder.join("map.html"), "").unwrap();
    let all = drawn(&browser);
    assert_eq!(details(&browser), "");

    // The keyboard alone: search, then zoom in and out again.
    browser.press("/elsewhere\u{e007}").unwrap();
    let found = drawn(&browser);
    assert!(found != all, "the view did not move");
    let text = details(&browser);
    for part in [
        "10.20.5.0/24",
        "node block",
        "elsewhere",
        "rack-a",
        "does not select",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let hash = browser.evaluate("return location.hash").unwrap();
    assert_eq!(hash, "#10.20.5.0%2F24,elsewhere");
    browser.press("+").unwrap();
    assert!(drawn(&browser) != found, "the view did not zoom");
    browser.press("0").unwrap();
    let fitted = drawn(&browser);
    assert!(
        fitted != found && fitted != all,
        "the selection stays outlined"
    );

    // A link to an address leads to the innermost area around it.
    browser
        .open(&folder.join("map.html"), "#10.20.6.77")
        .unwrap();
    drawn(&browser);
    let text = details(&browser);
    text.assert_has("10.20.6.0/24");
    text.assert_has("Also held by");

    // The view `now` hides the additions of the plan.
    browser.open(&folder.join("map.html"), "").unwrap();
    let both = drawn(&browser);
    let choose = "const state = document.getElementById('state'); state.value = 'now';
        state.dispatchEvent(new Event('change'))";
    browser.evaluate(choose).unwrap();
    assert!(drawn(&browser) != both, "the planned block is still there");
    assert_eq!(browser.complaints().unwrap(), Vec::<String>::new());
}

/// Twelve pools of both families, with three nodes each.
fn twelve_racks() -> Folder {
    let rack = |number: usize| {
        pool(
            &format!("rack-{number}"),
            &format!(
                "{{cidrs: [10.{}.0.0/16, \"fd00:{number}::/48\"], blockSize: {{ipv4: 24, ipv6: 64}}, nodeSelector: {{matchLabels: {{rack: r{number}}}}}}}",
                20 + number
            ),
        )
    };
    let nodes = (1..=12).flat_map(|rack| {
        (0..3).map(move |block| {
            let blocks = format!(
                r#""podCIDRs":["10.{}.{block}.0/24","fd00:{rack}:0:{block}::/64"]"#,
                20 + rack
            );
            let name = format!("node-{rack}-{block}");
            node(&name, &format!("r{rack}"), &blocks)
        })
    });
    let nodes: Vec<String> = nodes.collect();
    let racks: Vec<String> = (1..=12).map(rack).collect();
    let settings = r#""ipam":"kubernetes","enable-ipv4":"true","enable-ipv6":"true""#;
    Folder::new(&[
        ("cluster.yaml", &cluster("1.19.3", settings, &nodes)),
        ("pools/racks.yaml", &racks.join("---\n")),
    ])
}

/// The texts that the canvas draws, with their rectangles.
const WRITTEN: &str = "const written = [];
    const drawing = CanvasRenderingContext2D.prototype, write = drawing.fillText;
    drawing.fillText = function (text, x, y) {
        const { width, actualBoundingBoxAscent: above } = this.measureText(text);
        if (this.canvas.id === 'map') written.push([text, x, y - above, width, above]);
        write.call(this, text, x, y);
    };
    dispatchEvent(new Event('resize'));
    return new Promise((done) => {
        requestAnimationFrame(() => requestAnimationFrame(() => done(written)));
    })";

#[test]
fn no_label_covers_another_and_each_pool_looks_different() {
    let browser = or_skip!(Browser::start(ColourScheme::Light));
    let folder = twelve_racks();
    page(&folder);
    for (width, after) in [(1300, ""), (1300, "#10.21.1.0/24"), (400, "")] {
        browser.resize(width, 800).unwrap();
        browser.open(&folder.join("map.html"), after).unwrap();
        drawn(&browser);
        let written = browser.evaluate(WRITTEN).unwrap();
        let written: Vec<(String, f64, f64, f64, f64)> = serde_json::from_value(written).unwrap();
        let overlap = written.iter().enumerate().find_map(|(place, one)| {
            let (_, x, y, w, h) = one;
            let covers = |other: &&(String, f64, f64, f64, f64)| {
                let (_, ox, oy, ow, oh) = other;
                x < &(ox + ow) && ox < &(x + w) && y < &(oy + oh) && oy < &(y + h)
            };
            written[place + 1..]
                .iter()
                .find(covers)
                .map(|other| (one, other))
        });
        assert_eq!(overlap, None, "{width} {after}");
        let has = |text: &str| written.iter().any(|one| one.0 == text);
        let labels: &[&str] = match after {
            "" => &["IPv4", "rack-1: 3 of 256 blocks"],
            _ => &["node-1-1", "10.21.1.0/24"],
        };
        for label in labels {
            assert!(has(label), "{width} {after}: {label} in {written:?}");
        }
        let width_of_page = browser.evaluate("return document.documentElement.scrollWidth");
        assert_eq!(width_of_page.unwrap(), width);
    }
    let swatches = "return [...document.querySelectorAll('#legend li')]
        .filter((row) => row.innerText.startsWith('rack-'))
        .map((row) => row.querySelector('canvas').toDataURL())";
    let swatches = browser.evaluate(swatches).unwrap();
    let swatches = swatches.as_array().unwrap();
    let different: BTreeSet<&str> = swatches.iter().filter_map(Value::as_str).collect();
    assert_eq!((swatches.len(), different.len()), (12, 12));
}

#[test]
fn empty_space_of_ipv6_is_not_drawn() {
    let data = data(&page(&twelve_racks()));
    let panels = data["panels"].as_array().unwrap().iter();
    let drawn: Vec<(&str, &str)> = panels
        .filter(|panel| panel["family"] == "IPv6")
        .map(|panel| {
            (
                panel["cidr"].as_str().unwrap(),
                panel["within"].as_str().unwrap_or_default(),
            )
        })
        .collect();
    assert_eq!(drawn[0], ("fd00:1::/56", "fd00:1::/48"));
    assert_eq!(drawn.len(), 12, "{drawn:?}");
}

#[test]
fn a_search_for_an_address_selects_the_innermost_area() {
    let browser = or_skip!(Browser::start(ColourScheme::Light));
    // The block of the node is the whole pool.
    let folder = Folder::new(&[
        (
            "cluster.yaml",
            &cluster(
                "1.19.3",
                KUBERNETES,
                &[node("n1", "a", &holds("10.20.4.0/24"))],
            ),
        ),
        (
            "pools/a.yaml",
            &pool("a", "{cidrs: [10.20.4.0/24], blockSize: {ipv4: 24}}"),
        ),
    ]);
    page(&folder);
    browser.open(&folder.join("map.html"), "").unwrap();
    browser.press("/10.20.4.7\u{e007}").unwrap();
    drawn(&browser);
    details(&browser).assert_has("node block");
}

#[test]
fn hostile_names_stay_text_and_dark_is_another_picture() {
    let browser = or_skip!(Browser::start(ColourScheme::Light));
    let folder = two_racks();
    let hostile = "</script><script>document.title='owned'</script><img src=x onerror=alert(1)>";
    let label = json!({"rack": "b", "topology.kubernetes.io/zone": hostile}).to_string();
    let labelled = folder
        .read("cluster.yaml")
        .replace(r#"{"rack":"b"}"#, &label);
    folder.write("cluster.yaml", labelled);
    let page = page(&folder);
    assert!(
        !page.contains("<img"),
        "markup of the cluster is in the page"
    );
    browser
        .open(&folder.join("map.html"), "#10.20.5.0/24")
        .unwrap();
    let light = drawn(&browser);
    assert!(details(&browser).contains(hostile), "{}", details(&browser));
    let title = browser.evaluate("return document.title").unwrap();
    assert_eq!(title, "Address map");
    assert_eq!(browser.complaints().unwrap(), Vec::<String>::new());

    let dark = or_skip!(Browser::start(ColourScheme::Dark));
    dark.open(&folder.join("map.html"), "#10.20.5.0/24")
        .unwrap();
    assert!(drawn(&dark) != light, "dark is as light");
}
