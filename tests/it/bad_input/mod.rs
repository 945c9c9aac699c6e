//! Faulty files: each gives a diagnostic with its rule, file and line, exit 3, and nothing is
//! written.

mod empty_fields;
mod faults;
mod load_balancer;
mod messages;
mod places;
mod several_faults;

use crate::support::{Folder, KUBERNETES, address_pool, cluster, node};

const GOOD: &str = "{cidrs: [10.20.0.0/16], blockSize: 24}";

fn folder() -> Folder {
    Folder::new(&[(
        "cluster.json",
        &cluster("1.19.3", KUBERNETES, &[node("n", "a", "")]),
    )])
}

/// A description, the text of a file, the rule that it breaks, and the line.
type Case = (&'static str, String, &'static str, u64);

fn assert_named(cases: Vec<Case>) {
    for (what, text, rule, line) in cases {
        let folder = folder();
        folder.write("pools/faulty.yaml", &text);
        let before = folder.read("cluster.json");
        let ran = folder.run(&["validate", "-o", "json"]).expect(3);
        let report = ran.json();
        let found = report["findings"]
            .as_array()
            .unwrap()
            .iter()
            .find(|finding| finding["rule"] == rule);
        let finding = found.unwrap_or_else(|| panic!("{what}: no {rule} in {report:#}"));
        assert_eq!(finding["origin"]["file"], "pools/faulty.yaml", "{what}");
        assert_eq!(finding["origin"]["line"], line, "{what}: {finding:#}");
        assert!(
            finding["help"]
                .as_str()
                .is_some_and(|help| !help.is_empty()),
            "{what}: {finding:#}"
        );
        let human = folder
            .run(&["apply", "--cluster", "cluster.json", "--auto-approve"])
            .expect(3);
        assert!(
            human.stderr.contains(&format!("cilium-ipam::{rule}")),
            "{what}: {}",
            human.stderr
        );
        assert!(
            human.stderr.contains(&format!("faulty.yaml:{line}")),
            "{what}: {}",
            human.stderr
        );
        assert_eq!(folder.read("cluster.json"), before, "{what}");
    }
}
