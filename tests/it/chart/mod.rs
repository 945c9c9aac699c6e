//! The Helm chart, installed by `make` with the real helm on a real API server; the operator then
//! runs with the chart's own ServiceAccount, and the server's audit log tells which of its rights
//! were used.

mod monitoring;
mod observe;
mod rights;

use std::collections::BTreeSet;
use std::process::Command;

use serde_json::{Value, json};
use testbed::{CiliumInstallation, Options, Program, User};

use crate::operator::{GROUP, condition, object, pool, until};
use crate::running::Running;
use crate::server::Server;
use crate::support::{Folder, args, repository};

const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";
const ACCOUNT: &str = "system:serviceaccount:kube-system:cilium-ipam";
const KUBELET: &str = "system:node:n1";
const VIEWER: &str = "viewer";

/// Logs every request, without bodies.
pub const AUDIT_POLICY: &str = r#"{"apiVersion":"audit.k8s.io/v1","kind":"Policy","omitStages":["RequestReceived"],"rules":[{"level":"Metadata"}]}"#;

/// A server that logs every request, and its audit log.
pub struct Installed {
    pub server: Server,
    audit: Folder,
}

impl Installed {
    /// Installs the chart with these additional flags.
    pub fn new(cilium: &CiliumInstallation, flags: &str) -> Installed {
        let installed = Installed::without_our_kinds(cilium, flags);
        until("our kinds are served", || {
            let kinds = format!("{GROUP}/ipampolicies");
            installed.server.plane.list(&kinds).is_ok()
        });
        installed
    }

    /// The same, without waiting for our CustomResourceDefinitions.
    fn without_our_kinds(cilium: &CiliumInstallation, flags: &str) -> Installed {
        let audit = Folder::new(&[]);
        audit.write("policy.json", AUDIT_POLICY);
        let path = |name: &str| audit.join(name).display().to_string();
        let mut kubelet = User::named(KUBELET);
        kubelet.groups = vec!["system:nodes".to_owned()];
        let options = Options {
            apiserver_flags: vec![
                format!("--audit-policy-file={}", path("policy.json")),
                format!("--audit-log-path={}", path("audit.log")),
                "--authorization-mode=Node".to_owned(),
                "--enable-admission-plugins=NodeRestriction".to_owned(),
            ],
            users: vec![kubelet, User::named(VIEWER)],
            ..Options::default()
        };
        let server = Server::start(cilium, Some("1.19.3"), options, &[Program::Helm]);
        let installed = Installed { server, audit };
        installed.make("cilium-ipam-install", flags);
        installed
    }

    /// As a person runs it.
    pub fn make(&self, target: &str, flags: &str) -> String {
        let helm = self.server.programs.path(Program::Helm).unwrap();
        let mut make = Command::new("make");
        make.arg("-C")
            .arg(repository())
            .arg(target)
            .arg(format!("HELM={}", helm.display()));
        make.arg(format!("HELM_FLAGS={flags}"))
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap());
        make.env("HOME", self.audit.path())
            .env("KUBECONFIG", self.server.plane.kubeconfig());
        let output = make.output().unwrap();
        let (stdout, stderr) = (
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr),
        );
        assert!(output.status.success(), "{stdout}\n{stderr}");
        stdout.into_owned()
    }

    /// The operator, with the rights that the chart gives and no others.
    fn operator(&self) -> Running {
        self.run("operator --listen 127.0.0.1:0 --cilium-namespace kube-system")
    }

    fn run(&self, arguments: &str) -> Running {
        let kubeconfig = self
            .server
            .plane
            .kubeconfig_for_service_account("kube-system", "cilium-ipam")
            .unwrap();
        Running::start(self.server.folder.path(), &kubeconfig, &args(arguments))
    }

    fn create(&self, plural: &str, object: &Value) {
        self.server
            .plane
            .create(&format!("{GROUP}/{plural}"), object)
            .unwrap();
    }

    /// One of each kind, so that each has a status.
    fn one_of_each(&self, policy: Value) {
        self.create("ippools", &pool("a", "10.20.0.0/16", "a"));
        self.create(
            "nodeassignments",
            &object(
                "NodeAssignment",
                "n9",
                json!({"podCIDRs": ["10.20.9.0/24"]}),
            ),
        );
        let service = json!({"service": "default/web", "ips": ["20.0.10.9"]});
        self.create(
            "serviceassignments",
            &object("ServiceAssignment", "web", service),
        );
        self.create("ipampolicies", &object("IPAMPolicy", "default", policy));
    }

    fn all_is_told(&self) {
        condition(&self.server, "ippools/a", "Ready", "Applied");
        condition(&self.server, "nodeassignments/n9", "Ready", "Applied");
        condition(&self.server, "serviceassignments/web", "Ready", "Applied");
        condition(&self.server, "ipampolicies/default", "Ready", "Applied");
        // Where an object vanishes, it looks whether the definition stays.
        self.create(
            "nodeassignments",
            &object(
                "NodeAssignment",
                "n8",
                json!({"podCIDRs": ["10.20.8.0/24"]}),
            ),
        );
        self.server
            .plane
            .delete(&format!("{GROUP}/nodeassignments/n8"))
            .unwrap();
        let looks = |request: &Right| {
            request.verb == "get" && request.resource == "customresourcedefinitions"
        };
        until("it looks for the definition", || {
            self.requests().iter().any(looks)
        });
        let tells = |request: &Right| request.verb == "create" && request.resource == "events";
        until("it creates an Event", || self.requests().iter().any(tells));
    }

    /// Verb, group, resource and namespace of every request of the account; the server must have
    /// allowed all of them.
    fn requests(&self) -> BTreeSet<Right> {
        let mut requests = BTreeSet::new();
        for line in self.audit.read("audit.log").lines() {
            let Ok(event) = serde_json::from_str::<Value>(line) else {
                continue;
            };
            if event["user"]["username"] != ACCOUNT {
                continue;
            }
            assert_ne!(
                event["annotations"]["authorization.k8s.io/decision"], "forbid",
                "{event:#}"
            );
            requests.insert(Right::of(&event));
        }
        requests
    }

    /// Every rule that the chart gives to the account, as one right for each verb and resource.
    fn rights(&self) -> BTreeSet<Right> {
        let plane = &self.server.plane;
        let mut rights = BTreeSet::new();
        for kind in ["clusterroles", "roles"] {
            let ours = plane.list(&format!("{RBAC}/{kind}")).unwrap();
            let labels = |role: &Value| role["metadata"]["labels"].clone();
            let is_for_people =
                |role: &Value| labels(role)["app.kubernetes.io/component"] == "people";
            let is_its_own = |role: &&Value| {
                labels(role)["app.kubernetes.io/name"] == "cilium-ipam" && !is_for_people(role)
            };
            for role in ours.iter().filter(is_its_own) {
                let namespace = role["metadata"]["namespace"].as_str().unwrap_or_default();
                for rule in role["rules"].as_array().unwrap() {
                    for verb in texts(&rule["verbs"]) {
                        for resource in texts(&rule["resources"]) {
                            let group = rule["apiGroups"][0].as_str().unwrap().to_owned();
                            rights.insert(Right {
                                verb: verb.clone(),
                                group,
                                resource,
                                namespace: namespace.to_owned(),
                            });
                        }
                    }
                }
            }
        }
        assert!(rights.len() > 20, "{rights:?}");
        rights
    }

    #[track_caller]
    fn every_right_is_used_and_none_is_missing(&self) {
        let (rights, requests) = (self.rights(), self.requests());
        let unused: Vec<&Right> = rights
            .iter()
            .filter(|right| !requests.iter().any(|request| right.allows(request)))
            .collect();
        assert!(unused.is_empty(), "nobody uses {unused:#?}");
    }
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Right {
    pub verb: String,
    pub group: String,
    pub resource: String,
    /// Empty for cluster-wide rights.
    pub namespace: String,
}

impl Right {
    pub fn of(event: &Value) -> Right {
        let reference = &event["objectRef"];
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let subresource = text(&reference["subresource"]);
        let resource = text(&reference["resource"]);
        let resource = if subresource.is_empty() {
            resource
        } else {
            format!("{resource}/{subresource}")
        };
        Right {
            verb: text(&event["verb"]),
            group: text(&reference["apiGroup"]),
            resource,
            namespace: text(&reference["namespace"]),
        }
    }

    pub fn allows(&self, request: &Right) -> bool {
        let of_cluster = Right {
            namespace: String::new(),
            ..request.clone()
        };
        self == request || *self == of_cluster
    }
}

pub fn texts(list: &Value) -> Vec<String> {
    list.as_array()
        .unwrap()
        .iter()
        .map(|one| one.as_str().unwrap().to_owned())
        .collect()
}
