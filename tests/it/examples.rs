//! Every example, and `pools/`: planned, applied, and planned again.

use std::path::{Path, PathBuf};

use super::support::{Folder, repository, run};

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
    for entry in std::fs::read_dir(example.join("pools")).unwrap() {
        let path = entry.unwrap().path();
        folder.write(
            &format!("pools/{}", path.file_name().unwrap().to_str().unwrap()),
            std::fs::read(&path).unwrap(),
        );
    }
    folder
}

#[test]
fn every_example_gives_its_plan_and_applies() {
    let examples = examples();
    assert!(examples.len() >= 6, "{examples:?}");
    for example in examples {
        let name = example.file_name().unwrap().to_str().unwrap();
        let folder = copy(&example);
        let plan = folder
            .run(&["plan", "--cluster", "cluster.yaml", "--fail-on", "never"])
            .expect(0);
        insta::assert_snapshot!(format!("example_{name}"), plan.all());
        folder
            .run(&["apply", "--cluster", "cluster.yaml", "--auto-approve"])
            .expect(0);
        let again = folder
            .run(&[
                "plan",
                "--cluster",
                "cluster.yaml",
                "--detailed-exitcode",
                "--fail-on",
                "never",
            ])
            .expect(0);
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
    let plan = copy(&repository().join("examples/fall-over")).run(&[
        "plan",
        "--cluster",
        "cluster.yaml",
        "-o",
        "markdown",
        "--fail-on",
        "never",
    ]);
    insta::assert_snapshot!(plan.expect(0).stdout);
}

#[test]
fn plan_as_json_has_what_it_promises() {
    let plan = copy(&repository().join("examples/pins")).run(&[
        "plan",
        "--cluster",
        "cluster.yaml",
        "-o",
        "json",
    ]);
    insta::assert_snapshot!(plan.expect(0).stdout);
}

#[test]
fn tables() {
    let folder = copy(&repository().join("examples/racks"));
    let pools = folder
        .run(&["show", "pools", "--cluster", "cluster.yaml"])
        .expect(0)
        .stdout;
    let nodes = folder
        .run(&["show", "nodes", "--cluster", "cluster.yaml"])
        .expect(0)
        .stdout;
    insta::assert_snapshot!(format!("{pools}\n{nodes}"));
    let json = folder
        .run(&["show", "pools", "--cluster", "cluster.yaml", "-o", "json"])
        .expect(0)
        .json();
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
    for kind in ["IPPool", "NodeAssignment", "Policy"] {
        assert_eq!(
            run(repository(), &["schema", kind]).expect(0).json()["title"],
            kind
        );
    }
}
