//! Every example, and `pools/`: planned, applied, and planned again.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::support::{Folder, Ran, TextAssertions, args, repository, run};

fn examples() -> Vec<PathBuf> {
    let entries = std::fs::read_dir(repository().join("examples")).unwrap();
    // Those without pools are there for `doctor`, whose tests run them.
    let mut folders: Vec<PathBuf> = entries
        .map(|entry| entry.unwrap().path())
        .filter(|f| f.join("pools").is_dir())
        .collect();
    folders.sort();
    folders
}

pub fn copy(example: &Path) -> Folder {
    let folder = Folder::new(&[]);
    folder.write(
        "cluster.yaml",
        std::fs::read(example.join("cluster.yaml")).unwrap(),
    );
    if let Ok(recorded) = std::fs::read(example.join("neutron.json")) {
        folder.write("neutron.json", recorded);
    }
    for entry in std::fs::read_dir(example.join("pools")).unwrap() {
        let path = entry.unwrap().path();
        folder.write(
            &format!("pools/{}", path.file_name().unwrap().to_str().unwrap()),
            std::fs::read(&path).unwrap(),
        );
    }
    folder
}

/// Runs a command on the example's cluster, and on its Neutron if it has one.
fn on(folder: &Folder, command: &[&str]) -> Ran {
    let neutron: &[&str] = match folder.path().join("neutron.json").exists() {
        true => &["--neutron-file", "neutron.json"],
        false => &[],
    };
    folder.run(&[command, &["--cluster", "cluster.yaml"], neutron].concat())
}

#[test]
fn every_example_gives_its_plan_and_applies() {
    let examples = examples();
    assert!(examples.len() >= 6, "{examples:?}");
    for example in examples {
        let name = example.file_name().unwrap().to_str().unwrap();
        let folder = copy(&example);
        let plan = on(&folder, &["plan", "--fail-on", "never"]).expect(0);
        insta::assert_snapshot!(format!("example_{name}"), plan.all());
        on(&folder, &["apply", "--auto-approve"]).expect(0);
        let again = ["plan", "--detailed-exitcode", "--fail-on", "never"];
        let again = on(&folder, &again).expect(0);
        // With blocked changes, those come first.
        let headline = again.stdout.lines().next().unwrap_or_default();
        assert!(
            headline.starts_with("No changes.") || headline.contains("no changes can be made now"),
            "{name}: {}",
            again.stdout
        );
    }
}

#[test]
fn plan_as_markdown() {
    let plan = copy(&repository().join("examples/fall-over")).run(&args(
        "plan --cluster cluster.yaml -o markdown --fail-on never",
    ));
    insta::assert_snapshot!(plan.expect(0).stdout);
}

#[test]
fn plan_as_json_has_what_it_promises() {
    let plan =
        copy(&repository().join("examples/pins")).run(&args("plan --cluster cluster.yaml -o json"));
    insta::assert_snapshot!(plan.expect(0).stdout);
}

#[test]
fn tables() {
    let folder = copy(&repository().join("examples/racks"));
    let pools = folder.expect("show pools --cluster cluster.yaml", 0).stdout;
    let nodes = folder.expect("show nodes --cluster cluster.yaml", 0).stdout;
    insta::assert_snapshot!(format!("{pools}\n{nodes}"));
    let json = folder.json("show pools --cluster cluster.yaml -o json");
    assert_eq!(json["items"][1]["name"], "rack-a");
    assert_eq!(json["items"][1]["reserved"], 4);
    assert_eq!(json["items"][1]["free"], 251);
}

#[test]
fn the_default_pools_are_valid() {
    let ran = run(repository(), &["validate"]).expect(0);
    assert_eq!(ran.stdout, "valid: 1 pool, 0 pins, 0 warnings\n");
}

#[test]
fn schema_accepts_every_example_and_refuses_what_validate_refuses() {
    let schema = run(repository(), &["schema"]).expect(0).json();
    let validator = jsonschema::validator_for(&schema).unwrap();
    for example in examples() {
        for entry in std::fs::read_dir(example.join("pools")).unwrap() {
            let text = std::fs::read_to_string(entry.unwrap().path()).unwrap();
            for document in serde_yaml::from_multiple::<serde_json::Value>(&text).unwrap() {
                assert!(validator.is_valid(&document), "{document}");
            }
        }
    }
    let faulty = serde_json::json!({"apiVersion": "cilium-ipam.io/v1alpha1", "kind": "IPPool", "metadata": {"name": "a"}, "spec": {"cidr": []}});
    assert!(!validator.is_valid(&faulty));
    for kind in ["IPPool", "NodeAssignment", "IPAMPolicy"] {
        assert_eq!(
            run(repository(), &["schema", kind]).expect(0).json()["title"],
            kind
        );
    }
}

/// `apply` writes into the recorded Neutron as into a real one.
#[test]
fn a_recorded_neutron_keeps_what_apply_writes() {
    let folder = copy(&repository().join("examples/openstack"));
    let pairs = || -> Vec<Vec<String>> {
        let recorded: Value = serde_json::from_str(&folder.read("neutron.json")).unwrap();
        let ports = recorded["ports"].as_array().unwrap().iter();
        let of_port = |port: &Value| {
            let pairs = port["allowed_address_pairs"].as_array().unwrap().iter();
            let texts = pairs.map(|pair| pair["ip_address"].as_str().unwrap().to_owned());
            texts.collect()
        };
        ports.map(of_port).collect()
    };
    let told = on(&folder, &["doctor", "pools", "--fail-on", "never"])
        .expect(0)
        .all();
    for rule in ["address-pairs-missing", "address-pairs-stale"] {
        told.assert_has(rule);
    }
    on(&folder, &["apply", "--auto-approve"]).expect(0);
    assert_eq!(
        pairs(),
        [
            vec!["10.9.0.200", "10.20.0.0/24"],
            vec!["10.20.1.0/24", "10.9.0.200"],
            vec!["10.20.2.0/24"]
        ]
    );
    let missing = args("plan --cluster cluster.yaml --neutron-file none.json");
    let told = folder.run(&missing).expect(8).all();
    told.assert_has("none.json");
    let both = args("plan --neutron-file neutron.json --os-cloud lab");
    assert!(folder.run(&both).code != 0);
}
