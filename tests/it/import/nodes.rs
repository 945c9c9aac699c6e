//! Pools and pins of nodes.

use serde_json::{Value, json};

use super::{
    CLUSTER_POOL, changes_nothing, cilium_node, documents, import, is_as_the_files_say, operator,
    pools, with,
};
use crate::support::{KUBERNETES, holds, node};

#[test]
fn cluster_pool_keeps_the_range_of_its_settings() {
    let mut items = vec![operator("cluster-pool")];
    for (number, rack) in ["a", "a", "b", "b"].iter().enumerate() {
        let name = format!("n{number}");
        items.push(node(&name, rack, ""));
        items.push(cilium_node(&name, &[&format!("10.0.{number}.0/24")]));
    }
    let folder = with(CLUSTER_POOL, &items);
    let ran = import(&folder, &[]).expect(0);
    assert!(
        ran.stdout.contains("No changes. 4 nodes as the files say"),
        "{}",
        ran.all()
    );
    is_as_the_files_say(&folder);
    folder.run(&["validate", "--strict"]).expect(0);
    // The operator gives the next block without regard to racks, although these lie apart.
    let pools = pools(&folder);
    assert_eq!(
        pools["default"],
        json!({"cidrs": ["10.0.0.0/8"], "blockSize": {"ipv4": 24}})
    );
    let text = folder.read("pools/ippools.yaml");
    for part in [
        "# The CIDRs are those of `cluster-pool-ipv4-cidr`",
        "4 nodes (n0, n1, n2, n3) hold 10.0.0.0/24 to",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert_eq!(
        documents(&folder, "policy.yaml")[0]["spec"]["writePath"],
        "auto"
    );
    assert!(!folder.join("pools/node-assignments.yaml").exists());
    // Settings that name one CIDR twice still give files that can be read.
    let twice = CLUSTER_POOL.replace("10.0.0.0/8", "10.0.0.0/8 10.9.0.0/16");
    assert_ne!(twice, CLUSTER_POOL);
    let folder = with(&twice, &items);
    import(&folder, &[]).expect(0);
    is_as_the_files_say(&folder);
}

#[test]
fn a_label_that_separates_the_blocks_gives_a_pool_each() {
    let at = |name: &str, rack: &str, block: &str| node(name, rack, &holds(block));
    let items = [
        at("n1", "a", "10.20.0.0/24"),
        at("n2", "a", "10.20.1.0/24"),
        at("n3", "b", "10.21.7.0/24"),
        at("n4", "b", "10.21.4.0/24"),
    ];
    let folder = with(KUBERNETES, &items);
    import(&folder, &[]).expect(0);
    is_as_the_files_say(&folder);
    let both = pools(&folder);
    assert_eq!(both["rack-a"]["cidrs"], json!(["10.20.0.0/23"]));
    assert_eq!(
        both["rack-a"]["nodeSelector"],
        json!({"matchLabels": {"rack": "a"}})
    );
    assert_eq!(both["rack-b"]["cidrs"], json!(["10.21.4.0/22"]));
    assert_eq!(
        documents(&folder, "policy.yaml")[0]["spec"]["writePath"],
        "node-spec"
    );

    let folder = with(KUBERNETES, &items);
    import(&folder, &["--by-label", "none"]).expect(0);
    is_as_the_files_say(&folder);
    assert_eq!(pools(&folder).keys().collect::<Vec<_>>(), ["default"]);

    // Racks that alternate have no supernets of their own.
    let mixed = [
        at("n1", "a", "10.20.0.0/24"),
        at("n2", "b", "10.20.1.0/24"),
        at("n3", "a", "10.20.2.0/24"),
        at("n4", "b", "10.20.3.0/24"),
    ];
    let folder = with(KUBERNETES, &mixed);
    import(&folder, &[]).expect(0);
    is_as_the_files_say(&folder);
    assert_eq!(pools(&folder)["default"]["cidrs"], json!(["10.20.0.0/22"]));
    // A person may ask for them anyway.
    let folder = with(KUBERNETES, &mixed);
    import(&folder, &["--by-label", "rack"]).expect(0);
    is_as_the_files_say(&folder);
    assert_eq!(
        pools(&folder)["rack-b"]["cidrs"],
        json!(["10.20.1.0/24", "10.20.3.0/24"])
    );
    let ran = import(&with(KUBERNETES, &mixed), &["--by-label", "zone"]).expect(1);
    assert!(
        ran.stderr
            .contains("no node has the label `zone`: use one that divides the nodes, such as rack"),
        "{}",
        ran.all()
    );
}

#[test]
fn only_labels_of_places_divide_the_nodes() {
    let items: Vec<String> = (0..6)
        .map(|number: usize| {
            let block = holds(&format!("10.{}.{number}.0/24", 20 + number / 3));
            let mut item: Value =
                serde_json::from_str(&node(&format!("n{number}"), "a", &block)).unwrap();
            item["metadata"]["labels"] = json!({
                "kubernetes.io/hostname": format!("n{number}"),
                "kubernetes.io/arch": (if number < 3 { "arm64" } else { "amd64" }),
                "example.com/serial": format!("s{number}"),
            });
            item.to_string()
        })
        .collect();
    let folder = with(KUBERNETES, &items);
    import(&folder, &[]).expect(0);
    is_as_the_files_say(&folder);
    assert_eq!(
        pools(&folder)["default"]["cidrs"],
        json!(["10.20.0.0/22", "10.21.0.0/21"])
    );

    // Any other label may name places, if its values have several nodes each.
    let renamed: Vec<String> = items
        .iter()
        .map(|item| item.replace("kubernetes.io/arch", "example.com/hall"))
        .collect();
    let folder = with(KUBERNETES, &renamed);
    import(&folder, &[]).expect(0);
    is_as_the_files_say(&folder);
    let pools = pools(&folder);
    assert_eq!(pools["hall-arm64"]["cidrs"], json!(["10.20.0.0/22"]));
    assert_eq!(pools["hall-amd64"]["cidrs"], json!(["10.21.0.0/21"]));
}

#[test]
fn dual_stack_keeps_both_blocks() {
    let both = |name: &str, number: u8| {
        let (v4, v6) = (
            format!("10.20.{number}.0/24"),
            format!("fd00:20:0:{number}::/64"),
        );
        node(
            name,
            "a",
            &format!(r#""podCIDR":"{v4}","podCIDRs":["{v4}","{v6}"]"#),
        )
    };
    let settings = r#""ipam":"kubernetes","enable-ipv4":"true","enable-ipv6":"true""#;
    let folder = with(settings, &[both("n1", 0), both("n2", 1), both("n3", 3)]);
    import(&folder, &[]).expect(0);
    is_as_the_files_say(&folder);
    assert_eq!(
        pools(&folder)["default"],
        json!({"cidrs": ["10.20.0.0/22", "fd00:20::/62"], "blockSize": {"ipv4": 24, "ipv6": 64}})
    );
}

#[test]
fn blocks_of_another_size_are_pinned() {
    let items = [
        node("n1", "a", &holds("10.20.0.0/24")),
        node("n2", "a", &holds("10.20.1.0/24")),
        node("n3", "a", &holds("10.20.2.0/25")),
    ];
    let folder = with(KUBERNETES, &items);
    import(&folder, &[]).expect(0);
    is_as_the_files_say(&folder);
    let pools = pools(&folder);
    assert_eq!(pools["default"]["cidrs"], json!(["10.20.0.0/23"]));
    assert_eq!(pools["default-25"]["disabled"], true);
    let pins = documents(&folder, "node-assignments.yaml");
    assert_eq!(pins[0]["metadata"]["name"], "n3");
    assert_eq!(
        pins[0]["spec"],
        json!({"pool": "default-25", "podCIDRs": ["10.20.2.0/25"]})
    );
}

#[test]
fn nodes_that_share_a_block_of_another_size_have_no_pin() {
    let items = [
        node("n1", "a", &holds("10.20.0.0/24")),
        node("n2", "a", &holds("10.20.1.0/24")),
        node("n5", "a", &holds("10.20.4.0/24")),
        node("n3", "a", &holds("10.20.2.0/25")),
        node("n4", "a", &holds("10.20.2.0/25")),
    ];
    let folder = with(KUBERNETES, &items);
    let ran = import(&folder, &[]).expect(2);
    assert!(ran.all().contains("10.20.2.0/25"), "{}", ran.all());
    assert!(!folder.join("pools/node-assignments.yaml").exists());
    changes_nothing(&folder);
}

#[test]
fn nodes_without_a_block_wait_as_before() {
    let items = [
        node("n1", "a", &holds("10.20.0.0/24")),
        node("n2", "a", &holds("10.20.2.0/24")),
        node("new", "a", ""),
    ];
    let folder = with(KUBERNETES, &items);
    import(&folder, &[]).expect(0);
    let plan = changes_nothing(&folder);
    assert_eq!(plan["blocked"][0]["name"], "new", "{plan:#}");
    assert_eq!(plan["blocked"].as_array().unwrap().len(), 1);
    assert_eq!(pools(&folder)["default"]["disabled"], true);
    let text = folder.read("pools/ippools.yaml");
    assert!(
        text.contains("# Disabled, so that nothing changes: 1 node (new) holds no block"),
        "{text}"
    );
    // On request, the first apply serves it.
    let folder = with(KUBERNETES, &items);
    let ran = import(&folder, &["--allow-changes"]).expect(0);
    assert!(
        ran.stdout
            .contains("Plan: 1 to assign, 0 moved; 2 unchanged."),
        "{}",
        ran.all()
    );
}

#[test]
fn only_pools_of_waiting_nodes_are_disabled() {
    let at = |name: &str, rack: &str, block: &str| node(name, rack, &holds(block));
    let items = [
        at("n1", "a", "10.20.0.0/24"),
        at("n2", "a", "10.20.2.0/24"),
        at("n3", "b", "10.21.0.0/24"),
        at("n4", "b", "10.21.2.0/24"),
        node("new", "a", ""),
    ];
    let folder = with(KUBERNETES, &items);
    import(&folder, &[]).expect(0);
    let plan = changes_nothing(&folder);
    assert_eq!(plan["blocked"].as_array().unwrap().len(), 1, "{plan:#}");
    let pools = pools(&folder);
    assert_eq!(pools["rack-a"]["disabled"], true);
    assert_eq!(pools["rack-b"].get("disabled"), None);
}

#[test]
fn a_label_value_that_no_selector_can_have_is_named() {
    let items = [
        node("n1", "a", &holds("10.20.0.0/24")),
        node("n2", "not a value", &holds("10.21.0.0/24")),
    ];
    let folder = with(KUBERNETES, &items);
    let ran = import(&folder, &[]).expect(0);
    assert!(
        ran.stderr
            .contains("1 node has a value of the label `rack` that no selector can have"),
        "{}",
        ran.all()
    );
    is_as_the_files_say(&folder);
}

#[test]
fn duplicates_are_findings_and_stay() {
    let items = [
        node("n1", "a", &holds("10.20.0.0/24")),
        node("n2", "a", &holds("10.20.0.0/24")),
    ];
    let folder = with(KUBERNETES, &items);
    let ran = import(&folder, &[]).expect(2);
    assert!(
        ran.stderr
            .contains("nodes `n1` and `n2` hold overlapping blocks"),
        "{}",
        ran.all()
    );
    changes_nothing(&folder);

    // No files give both of these blocks.
    let items = [
        node("n1", "a", &holds("10.20.0.0/24")),
        node("n2", "a", &holds("10.20.0.0/25")),
    ];
    let folder = with(KUBERNETES, &items);
    let ran = import(&folder, &[]).expect(1);
    assert!(
        ran.stderr
            .contains("nodes `n1` and `n2` hold overlapping blocks: 10.20.0.0/24 and 10.20.0.0/25. No pool gives both"),
        "{}",
        ran.all()
    );
    assert!(!folder.join("pools").exists());
}

#[test]
fn a_block_that_cilium_does_not_read_is_no_import() {
    let items = [
        node("n1", "a", &holds("10.20.0.0/24")),
        node("n2", "a", ""),
        cilium_node("n2", &["10.20.1.0/24"]),
    ];
    let folder = with(KUBERNETES, &items);
    let ran = import(&folder, &[]).expect(1);
    assert!(
        ran.stderr
            .contains("the plan would change Node/n2; --allow-changes"),
        "{}",
        ran.all()
    );
    assert!(!folder.join("pools").exists());
    import(&folder, &["--allow-changes"]).expect(0);
}

#[test]
fn blocks_outside_of_the_settings_are_named() {
    let items = [
        operator("cluster-pool"),
        node("n1", "a", ""),
        cilium_node("n1", &["10.0.0.0/24"]),
        node("n2", "a", ""),
        cilium_node("n2", &["172.20.3.0/24"]),
    ];
    let folder = with(CLUSTER_POOL, &items);
    let ran = import(&folder, &[]).expect(0);
    assert!(
        ran.stderr
            .contains("1 block of nodes outside the given CIDRs"),
        "{}",
        ran.all()
    );
    is_as_the_files_say(&folder);
    assert_eq!(
        pools(&folder)["default"]["cidrs"],
        json!(["10.0.0.0/8", "172.20.3.0/24"])
    );
    let text = folder.read("pools/ippools.yaml");
    assert!(
        text.contains("# Nodes hold blocks outside of these: 172.20.3.0/24."),
        "{text}"
    );
}

#[test]
fn a_stray_block_has_a_range_of_its_own() {
    let mut items: Vec<String> = (0..5)
        .map(|number| {
            node(
                &format!("n{number}"),
                "a",
                &holds(&format!("10.20.{number}.0/24")),
            )
        })
        .collect();
    items.push(node("stray", "a", &holds("10.20.200.0/24")));
    let folder = with(KUBERNETES, &items);
    import(&folder, &[]).expect(0);
    is_as_the_files_say(&folder);
    assert_eq!(
        pools(&folder)["default"]["cidrs"],
        json!(["10.20.0.0/21", "10.20.200.0/24"])
    );
    let text = folder.read("pools/ippools.yaml");
    assert!(
        text.contains("# Nodes hold blocks outside of these: 10.20.200.0/24."),
        "{text}"
    );
}

#[test]
fn a_large_cluster_is_imported() {
    let items: Vec<String> = (0..3000)
        .map(|number| {
            let block = format!("10.{}.{}.0/24", 20 + number % 40, number / 40);
            node(
                &format!("n{number:04}"),
                &format!("r{}", number % 40),
                &holds(&block),
            )
        })
        .collect();
    let folder = with(KUBERNETES, &items);
    import(&folder, &[]).expect(0);
    is_as_the_files_say(&folder);
    assert_eq!(pools(&folder).len(), 40);
}

#[test]
fn nodes_without_the_label_have_a_pool_of_their_own() {
    let items = [
        node("n1", "a", &holds("10.20.0.0/24")),
        node("n2", "b", &holds("10.21.0.0/24")),
        node("x", "", &holds("10.22.0.0/24")).replace(r#""rack":"""#, ""),
    ];
    let folder = with(KUBERNETES, &items);
    import(&folder, &["--by-label", "rack"]).expect(0);
    is_as_the_files_say(&folder);
    let pools = pools(&folder);
    assert_eq!(pools["fallback"]["cidrs"], json!(["10.22.0.0/24"]));
    assert_eq!(pools["fallback"]["nodeSelector"], Value::Null);
}

#[test]
fn a_block_in_other_use_is_no_import() {
    // The Service CIDR of these clusters is 10.96.0.0/16.
    let items = [
        node("n1", "a", &holds("10.20.0.0/24")),
        node("n2", "a", &holds("10.96.3.0/24")),
    ];
    let folder = with(KUBERNETES, &items);
    let ran = import(&folder, &[]).expect(1);
    let why = "node `n2` would be misplaced, even with a pin: 10.96.3.0/24: something else uses";
    assert!(ran.stderr.contains(why), "{}", ran.all());
    assert!(!ran.stderr.contains("`n1`"), "{}", ran.all());
    assert!(!folder.join("pools").exists());
}
