//! The outputs that the page describes, and commands that print each of them.

use serde_json::Value;

use crate::support::{Folder, repository, run};

/// An output in JSON.
pub struct Output {
    /// The heading.
    pub title: &'static str,
    /// Where its type is.
    pub file: &'static str,
    pub root: &'static str,
    /// Commands that print it. `POOLS` and `CLUSTER` are those of every example.
    commands: &'static [&'static str],
}

const CALICO: &str = "\
apiVersion: crd.projectcalico.org/v1
kind: IPPool
metadata: {name: rack-a}
spec: {cidr: 10.20.0.0/16, blockSize: 26, nodeSelector: rack == 'a'}
";

const DOCUMENT: &str = "crates/ipam-plan/src/plan/document/mod.rs";

pub const OUTPUTS: &[Output] = &[
    Output {
        title: "`plan`, `show PLANFILE`, saved plans",
        file: DOCUMENT,
        root: "PlanDocument",
        commands: &[
            "plan POOLS --cluster-file CLUSTER --fail-on never",
            "plan POOLS --cluster-file CLUSTER --fail-on never --limit assign-count=0 --target pool/rack-a",
        ],
    },
    Output {
        title: "`validate`, and `plan` with invalid files",
        file: "src/cli/validate.rs",
        root: "Report",
        commands: &["validate POOLS"],
    },
    Output {
        title: "`policy test`",
        file: "src/render/policy_test.rs",
        root: "PolicyTestDocument",
        commands: &["policy test POOLS"],
    },
    Output {
        title: "`import`",
        file: "src/cli/import/report.rs",
        root: "Document",
        commands: &[
            "import new --cluster-file CLUSTER --allow-changes --dry-run",
            "import new --from calico --objects calico.yaml --dry-run",
        ],
    },
    Output {
        title: "`lb freeze`, `lb thaw`",
        file: "src/cli/lb/report.rs",
        root: "Document",
        commands: &["lb freeze POOLS --cluster-file CLUSTER --dry-run"],
    },
    Output {
        title: "`apply`",
        file: "src/cli/apply_report.rs",
        root: "Report",
        commands: &["apply POOLS --cluster-file CLUSTER --auto-approve"],
    },
    Output {
        title: "`migrate plan`, saved schedules",
        file: "crates/ipam-migrate/src/migration/document.rs",
        root: "ScheduleDocument",
        commands: &["migrate plan POOLS --cluster-file CLUSTER"],
    },
    Output {
        title: "`migrate status`, `migrate apply`, `migrate resume`, `migrate undo`",
        file: "src/cli/migrate/status.rs",
        root: "StatusDocument",
        commands: &[],
    },
    Output {
        title: "`doctor`",
        file: "src/render/examination.rs",
        root: "ExaminationDocument",
        commands: &["doctor --cluster-file CLUSTER --fail-on never"],
    },
    Output {
        title: "`capacity`",
        file: "crates/ipam-plan/src/capacity/document.rs",
        root: "CapacityDocument",
        commands: &["capacity POOLS --cluster-file CLUSTER"],
    },
    Output {
        title: "`simulate`",
        file: "crates/ipam-plan/src/simulate/document.rs",
        root: "SimulationDocument",
        commands: &["simulate POOLS --cluster-file CLUSTER --add 2 --label rack=a"],
    },
    Output {
        title: "`upgrade`",
        file: "crates/ipam-doctor/src/upgrade/document.rs",
        root: "UpgradeDocument",
        commands: &["upgrade --to 1.20 --cluster-file CLUSTER --no-pools"],
    },
    Output {
        title: "`show pools`: each of `items`",
        file: "src/cli/show_pools.rs",
        root: "PoolRow",
        commands: &["show pools POOLS --cluster-file CLUSTER"],
    },
    Output {
        title: "`show nodes`: each of `items`",
        file: "src/cli/show_nodes.rs",
        root: "NodeRow",
        commands: &["show nodes POOLS --cluster-file CLUSTER"],
    },
    Output {
        title: "`show lb`",
        file: "src/cli/show_lb.rs",
        root: "Tables",
        commands: &["show lb --cluster-file CLUSTER"],
    },
    Output {
        title: "`explain NODE`",
        file: "crates/ipam-doctor/src/explain/node.rs",
        root: "NodeExplanation",
        commands: &["explain worker-1 POOLS --cluster-file CLUSTER"],
    },
    Output {
        title: "`explain POOL`",
        file: "crates/ipam-doctor/src/explain/mod.rs",
        root: "PoolExplanation",
        commands: &["explain rack-a POOLS --cluster-file CLUSTER"],
    },
    Output {
        title: "`explain ADDRESS`, `explain CIDR`",
        file: "crates/ipam-doctor/src/explain/range.rs",
        root: "RangeExplanation",
        commands: &["explain 10.20.0.0/16 POOLS --cluster-file CLUSTER"],
    },
    Output {
        title: "`explain NAMESPACE/SERVICE`",
        file: "crates/ipam-doctor/src/explain/service.rs",
        root: "ServiceExplanation",
        commands: &["explain default/cni POOLS --cluster-file CLUSTER"],
    },
    Output {
        title: "`explain NAMESPACE/SERVICE --with NAMESPACE/SERVICE`",
        file: "crates/ipam-doctor/src/explain/answers.rs",
        root: "SharingExplanation",
        commands: &["explain default/cni --with default/shop POOLS --cluster-file CLUSTER"],
    },
    Output {
        title: "`history`",
        file: "crates/ipam-doctor/src/history/document.rs",
        root: "HistoryDocument",
        commands: &[],
    },
    Output {
        title: "`explain CODE`",
        file: "crates/ipam-core/src/rules/mod.rs",
        root: "RulePage",
        commands: &["explain policy-limit"],
    },
    Output {
        title: "`version`",
        file: "src/cli/version.rs",
        root: "Versions",
        commands: &["version"],
    },
];

impl Output {
    /// Its type.
    pub fn key(&self) -> super::types::Key {
        (self.file.to_owned(), self.root.to_owned())
    }

    /// What the commands print for those examples where they succeed, without the kind of an
    /// explanation.
    pub fn values(&self) -> Vec<Value> {
        if self.root == "StatusDocument" {
            // Only a live cluster has records.
            return vec![crate::migrate_status::status_document()];
        }
        if self.root == "HistoryDocument" {
            return vec![crate::history::document()];
        }
        let folder = Folder::new(&[("calico.yaml", CALICO)]);
        let examples = repository().join("examples");
        super::super::running::copy(&examples, &folder.join("examples"));
        let mut names: Vec<String> = std::fs::read_dir(examples)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        let mut values = Vec::new();
        for command in self.commands {
            for name in &names {
                let command = command
                    .replace("POOLS", &format!("examples/{name}/pools"))
                    .replace("CLUSTER", &format!("examples/{name}/cluster.yaml"));
                let words: Vec<&str> = command.split(' ').chain(["-o", "json"]).collect();
                let ran = run(folder.path(), &words);
                // `upgrade` ends with 2 if something would change.
                if ran.code == 0 || ran.code == 2 && command.starts_with("upgrade") {
                    values.push(ran.json());
                }
            }
        }
        let mut values: Vec<Value> = values
            .into_iter()
            .flat_map(|value| self.parts(value))
            .collect();
        if self.root.ends_with("Explanation") {
            for value in &mut values {
                let kind = value.as_object_mut().unwrap().remove("kind");
                assert!(kind.is_some(), "{value}");
            }
        }
        values
    }

    /// The value, or each of its items.
    fn parts(&self, mut value: Value) -> Vec<Value> {
        if !self.title.ends_with("`items`") {
            return vec![value];
        }
        let object = value.as_object_mut().unwrap();
        let Some(Value::Array(items)) = object.remove("items") else {
            panic!("{object:?}");
        };
        let rest: Vec<&String> = object.keys().collect();
        assert_eq!(rest, ["format_version"]);
        items
    }
}
