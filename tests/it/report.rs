//! Reports as one HTML file, in a real browser: they say everything, run nothing and ask no server.

use std::collections::BTreeSet;

use serde_json::Value;
use testbed::{Browser, ColourScheme, or_skip};

use super::examples;
use super::hostile_text::{HOSTILE, folder as hostile_folder};
use super::support::{Folder, KUBERNETES, TextAssertions, cluster, node, pool, repository};

const ON_CLUSTER: [&str; 2] = ["--cluster-file", "cluster.yaml"];

fn page(folder: &Folder, command: &[&str], code: i32) -> String {
    let ran = folder.run(&[command, &["-o", "html"], &ON_CLUSTER].concat());
    let page = ran.expect(code).stdout;
    folder.write("report.html", &page);
    page
}

fn shown(browser: &Browser, folder: &Folder) -> String {
    browser.open(&folder.join("report.html"), "").unwrap();
    // Without the script that a page may not run, the test opens what is folded.
    let script = "document.querySelectorAll('details').forEach((one) => { one.open = true; });
        return document.body.innerText";
    let text = browser.evaluate(script).unwrap();
    assert_eq!(browser.complaints().unwrap(), Vec::<String>::new());
    text.as_str().unwrap().to_owned()
}

fn names(browser: &Browser, script: &str) -> BTreeSet<String> {
    let found = browser.evaluate(script).unwrap();
    let found = found.as_array().unwrap().iter();
    found
        .map(|name| name.as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn each_report_is_one_page_that_says_everything() {
    let browser = or_skip!(Browser::start(ColourScheme::Light));
    let folder = examples::copy(&repository().join("examples/move"));
    let command = ["plan", "--fail-on", "never"];
    let plan_page = page(&folder, &command, 0);
    let text = shown(&browser, &folder);
    let plan = folder.run(&[&command[..], &["-o", "json"], &ON_CLUSTER].concat());
    let plan: Value = serde_json::from_str(&plan.expect(0).stdout).unwrap();
    let listed = ["changes", "blocked", "misplaced"];
    let listed = listed.map(|key| plan[key].as_array().unwrap().clone());
    let names: Vec<Value> = listed
        .concat()
        .iter()
        .map(|one| one["name"].clone())
        .collect();
    assert!(!names.is_empty());
    for name in names {
        let name = name.as_str().unwrap();
        assert!(text.contains(name), "{name}: {text}");
    }
    let title = browser.evaluate("return document.title").unwrap();
    assert_eq!(title, "Plan of pools");
    plan_page.assert_lacks("<script");
    let header = browser.evaluate("return document.querySelector('dl').innerText");
    let header = header.unwrap();
    let version = env!("CARGO_PKG_VERSION");
    for part in ["cluster.yaml", "1.19.3", "Time", version] {
        header.as_str().unwrap().assert_has(part);
    }

    for (command, title, code) in [
        (&["doctor", "--fail-on", "never"][..], "Doctor: ", 0),
        (&["upgrade", "--to", "1.20"], "Cilium 1.19.3 to 1.20", 0),
        (&["migrate", "plan"], "Migration", 0),
    ] {
        let ran = folder.run(&[command, &["-o", "html"], &ON_CLUSTER].concat());
        assert!([code, 2].contains(&ran.code), "{}", ran.all());
        folder.write("report.html", &ran.stdout);
        shown(&browser, &folder);
        let heading = browser.evaluate("return document.querySelector('h1').innerText");
        let heading = heading.unwrap();
        let heading = heading.as_str().unwrap();
        assert!(heading.starts_with(title), "{heading}");
    }
}

/// The first lines of a comment, which tell the verdict and the risks.
#[test]
fn a_report_has_the_risks_of_the_comment() {
    let browser = or_skip!(Browser::start(ColourScheme::Light));
    let folder = examples::copy(&repository().join("examples/move"));
    let html = page(&folder, &["plan", "--fail-on", "never"], 0);
    html.assert_has("<details open><summary>pool <code>rack-b</code>, 1 change</summary>");
    browser.resize(400, 800).unwrap();
    let text = shown(&browser, &folder);
    let comment = folder.run(&[&["comment", "--dry-run"], &ON_CLUSTER[..]].concat());
    let comment = comment.expect(0).stdout.replace(['`', '*'], "");
    let lines = comment.lines().map(|line| line.trim_start_matches("- "));
    let of_move = |line: &&str| {
        ["Look at first: ", "Pods: ", "How: ", "Way back: "]
            .iter()
            .any(|start| line.starts_with(start))
    };
    let told: Vec<&str> = lines.filter(of_move).collect();
    assert_eq!(told.len(), 4, "{comment}");
    for line in told {
        text.assert_has(line);
    }
    let beyond = "const { scrollWidth, clientWidth } = document.documentElement;
        return scrollWidth - clientWidth";
    assert_eq!(browser.evaluate(beyond).unwrap(), 0);
}

#[test]
fn text_of_the_cluster_is_text_in_a_report() {
    let browser = or_skip!(Browser::start(ColourScheme::Dark));
    let folder = hostile_folder(HOSTILE);
    for (command, code) in [("plan", 5), ("doctor", 2)] {
        let ran = folder.run(&[command, "-o", "html", "--cluster", "cluster.json"]);
        let page = ran.expect(code).stdout;
        assert!(
            page.contains("&lt;script&gt;"),
            "the test reaches it: {page}"
        );
        folder.write("report.html", &page);
        shown(&browser, &folder);
        let tags = names(
            &browser,
            "return [...document.querySelectorAll('*')].map((one) => one.tagName)",
        );
        let ours = "BODY CODE DD DETAILS DL DT H1 H2 HEAD HR HTML LI MAIN META P PRE STRONG STYLE SUMMARY TABLE TBODY TD TH THEAD TITLE TR UL";
        let ours = ours.split(' ').map(str::to_owned).collect();
        let foreign: Vec<_> = tags.difference(&ours).collect();
        assert!(foreign.is_empty(), "{command}: {foreign:?}");
    }
}

#[test]
fn a_large_plan_leaves_nothing_out() {
    const NODES: usize = 3_000;
    let nodes: Vec<String> = (0..NODES)
        .map(|number| node(&format!("worker-{number:04}"), "a", ""))
        .collect();
    let folder = Folder::new(&[
        ("cluster.yaml", &cluster("1.19.3", KUBERNETES, &nodes)),
        (
            "pools/a.yaml",
            &pool("a", "{cidrs: [10.0.0.0/8], blockSize: {ipv4: 24}}"),
        ),
    ]);
    let page = page(&folder, &["plan"], 0);
    for number in [0, NODES / 2, NODES - 1] {
        assert!(page.contains(&format!("<code>worker-{number:04}</code>")));
    }
    assert_eq!(page.matches("<tr><td><code>worker-").count(), NODES);
    assert!(!page.contains("left out"), "something is missing");
}

#[test]
fn invalid_files_are_a_report_as_well() {
    let browser = or_skip!(Browser::start(ColourScheme::Light));
    let folder = Folder::new(&[
        (
            "cluster.yaml",
            &cluster("1.19.3", KUBERNETES, &[node("n1", "a", "")]),
        ),
        ("pools/a.yaml", &pool("a", "{cidr: 10.0.0.0/8}")),
    ]);
    page(&folder, &["plan"], 3);
    let text = shown(&browser, &folder);
    text.assert_has("No plan: the files are invalid");
    text.assert_has("pools/a.yaml:");
}
