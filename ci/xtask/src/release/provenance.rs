//! The provenance: an in-toto statement with the predicate of SLSA 1. It names the commit and the
//! command that gave the files. `SHA256SUMS` has its sum, and the signature covers that.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::plan::Plan;
use super::target::Target;

/// Where a person reads what the parameters mean.
const BUILD_TYPE_PAGE: &str = "CONTRIBUTING.md";

/// The name of the file.
pub fn file_name(version: &str) -> String {
    format!("cilium-ipam-{version}.intoto.json")
}

/// The statement about all files with these sums.
pub fn statement(
    plan: &Plan,
    targets: &[Target],
    builder: &str,
    sums: &BTreeMap<String, String>,
) -> Value {
    let subject: Vec<Value> = sums
        .iter()
        .map(|(name, sum)| json!({"name": name, "digest": {"sha256": sum}}))
        .collect();
    let targets: Vec<&str> = targets.iter().map(|target| target.triple()).collect();
    json!({
        "_type": "https://in-toto.io/Statement/v1",
        "subject": subject,
        "predicateType": "https://slsa.dev/provenance/v1",
        "predicate": {
            "buildDefinition": {
                "buildType": format!("{}/blob/v{}/{BUILD_TYPE_PAGE}", plan.repository, plan.version),
                "externalParameters": {
                    "command": "cargo xtask release",
                    "version": plan.version,
                    "targets": targets,
                    "sourceDateEpoch": plan.commit.time,
                },
                "resolvedDependencies": [{
                    "uri": format!("git+{}", plan.repository),
                    "digest": {"gitCommit": plan.commit.id},
                }],
            },
            "runDetails": {"builder": {"id": builder}},
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::{Commit, Source};

    #[test]
    fn the_statement_has_each_file_and_the_commit() {
        let plan = Plan {
            source: Source::here(),
            commit: Commit {
                id: "c0ffee".to_owned(),
                time: 7,
            },
            version: "1.2.3".to_owned(),
            changes: String::new(),
            repository: "https://git.example/cilium-ipam".to_owned(),
            downloads: String::new(),
            maintainer: String::new(),
            dist: std::path::PathBuf::new(),
        };
        let sums = [("a.deb".to_owned(), "aa".to_owned())].into();
        let statement = statement(&plan, &[Target::Aarch64], "https://ci.example/1", &sums);
        let subject = json!([{"name": "a.deb", "digest": {"sha256": "aa"}}]);
        assert_eq!(statement["subject"], subject);
        let definition = &statement["predicate"]["buildDefinition"];
        let source = &definition["resolvedDependencies"][0];
        assert_eq!(source["digest"]["gitCommit"], "c0ffee");
        assert_eq!(source["uri"], "git+https://git.example/cilium-ipam");
        let parameters = &definition["externalParameters"];
        assert_eq!(parameters["sourceDateEpoch"], 7);
        assert_eq!(parameters["targets"][0], "aarch64-unknown-linux-musl");
        let builder = &statement["predicate"]["runDetails"]["builder"]["id"];
        assert_eq!(builder, "https://ci.example/1");
    }
}
