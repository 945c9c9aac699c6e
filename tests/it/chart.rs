//! The Helm chart, installed by `make` with the real helm on a real API server; the operator then
//! runs with the chart's own ServiceAccount, and the server's audit log tells which of its rights
//! were used.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use serde_json::{Value, json};
use testbed::{CiliumInstallation, Client, Options, Program, User};

use super::operator::{GROUP, condition, in_rack, object, pool, until};
use super::running::Running;
use super::server::{Server, kubernetes, node};
use super::support::{Folder, repository};

const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";
const ACCOUNT: &str = "system:serviceaccount:kube-system:cilium-ipam";
const KUBELET: &str = "system:node:n1";
const VIEWER: &str = "viewer";

/// A server that notes every request, and the file that it notes them in.
pub struct Installed {
    pub server: Server,
    audit: Folder,
}

impl Installed {
    /// Installs the chart, with these flags besides.
    pub fn new(cilium: &CiliumInstallation, flags: &str) -> Installed {
        let audit = Folder::new(&[]);
        audit.write("policy.json", r#"{"apiVersion":"audit.k8s.io/v1","kind":"Policy","omitStages":["RequestReceived"],"rules":[{"level":"Metadata"}]}"#);
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
        until("our kinds are served", || {
            installed
                .server
                .plane
                .list(&format!("{GROUP}/policies"))
                .is_ok()
        });
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
        let kubeconfig = self
            .server
            .plane
            .kubeconfig_for_service_account("kube-system", "cilium-ipam")
            .unwrap();
        Running::start(
            self.server.folder.path(),
            &kubeconfig,
            &["operator", "--listen", "127.0.0.1:0"],
        )
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
        self.create("policies", &object("Policy", "default", policy));
    }

    fn all_is_told(&self) {
        condition(&self.server, "ippools/a", "Ready", "InForce");
        condition(&self.server, "nodeassignments/n9", "Ready", "InForce");
        condition(&self.server, "serviceassignments/web", "Ready", "InForce");
        condition(&self.server, "policies/default", "Ready", "InForce");
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
        until("an Event is there", || {
            !self
                .server
                .plane
                .list("/api/v1/namespaces/default/events")
                .unwrap()
                .is_empty()
        });
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
struct Right {
    verb: String,
    group: String,
    resource: String,
    /// Empty where it is of the whole cluster.
    namespace: String,
}

impl Right {
    fn of(event: &Value) -> Right {
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

    fn allows(&self, request: &Right) -> bool {
        let of_cluster = Right {
            namespace: String::new(),
            ..request.clone()
        };
        self == request || *self == of_cluster
    }
}

fn texts(list: &Value) -> Vec<String> {
    list.as_array()
        .unwrap()
        .iter()
        .map(|one| one.as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn the_definitions_of_the_chart_are_those_of_the_types() {
    let folder = Folder::new(&[]);
    let printed = folder.run(&["schema", "--crds"]).expect(0).stdout;
    let kept = std::fs::read_to_string(repository().join("ci/chart/crds.json")).unwrap();
    assert!(
        printed == kept,
        "run `cargo run -- schema --crds > ci/chart/crds.json`"
    );
}

#[test]
fn alerts_and_the_dashboard_name_metrics_that_there_are() {
    // A metric without a value is not printed, so the names are read where they are registered.
    let source =
        std::fs::read_to_string(repository().join("crates/ipam-controller/src/telemetry/metrics.rs")).unwrap();
    let registered = source
        .split("registry.register")
        .skip(1)
        .filter_map(|call| call.split('"').nth(1));
    let known: BTreeSet<String> = registered
        .map(|name| format!("cilium_ipam_{name}"))
        .collect();
    assert!(known.len() > 15, "{known:?}");
    for file in ["alerts.yaml", "dashboard.json"] {
        let text = std::fs::read_to_string(repository().join("ci/chart/files").join(file)).unwrap();
        let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let mut named = 0;
        for (at, _) in text.match_indices("cilium_ipam_") {
            let name: String = text[at..].chars().take_while(|c| is_word(*c)).collect();
            let family = ["_total", "_seconds_bucket"]
                .iter()
                .find_map(|end| name.strip_suffix(end))
                .unwrap_or(&name);
            assert!(
                known.contains(family.trim_end_matches("_total")),
                "{file} names {name}, of {known:?}"
            );
            named += 1;
        }
        assert!(named > 8, "{file}");
        // A store that went back in time is rare, and nothing else on the page tells of it.
        assert!(text.contains("cilium_ipam_rollbacks_total"), "{file}");
    }
}

#[test]
fn alerts_fire_when_they_should() {
    let promtool = testbed::or_skip!(testbed::debian("prometheus", "promtool"));
    let folder = Folder::new(&[]);
    for (name, path) in [
        ("alerts.yaml", "ci/chart/files/alerts.yaml"),
        ("test.yaml", "tests/it/alerts.yaml"),
    ] {
        folder.write(
            name,
            std::fs::read_to_string(repository().join(path)).unwrap(),
        );
    }
    for arguments in [
        ["check", "rules", "alerts.yaml"],
        ["test", "rules", "test.yaml"],
    ] {
        let output = Command::new(&promtool)
            .args(arguments)
            .current_dir(folder.path())
            .output()
            .unwrap();
        let (stdout, stderr) = (
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr),
        );
        assert!(output.status.success(), "{stdout}\n{stderr}");
    }
}

#[test]
fn installed_and_upgraded_with_what_it_needs_and_no_more() {
    let installed = Installed::new(&kubernetes("1.19.3", None), "--set writePaths.service=true");
    let plane = &installed.server.plane;
    let spec = json!({"type": "LoadBalancer", "ports": [{"port": 80}]});
    let service =
        json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"}, "spec": spec});
    plane
        .create("/api/v1/namespaces/default/services", &service)
        .unwrap();
    let balancer = json!({"apiVersion": "cilium.io/v2", "kind": "CiliumLoadBalancerIPPool", "metadata": {"name": "edge"},
        "spec": {"blocks": [{"cidr": "20.0.10.0/24"}]}});
    plane
        .create("/apis/cilium.io/v2/ciliumloadbalancerippools", &balancer)
        .unwrap();
    installed.one_of_each(json!({"unattended": "destructive"}));
    let operator = installed.operator();
    operator.until("leads", json!({}));
    let second = installed.operator();
    second.until("stands-by", json!({}));
    installed.server.nodes([in_rack("n1", "a")]);
    assert_eq!(operator.written("n1"), json!(["10.20.0.0/24"]));
    let path = "/api/v1/namespaces/default/services/web";
    until("the Service asks for its address", || {
        plane.get(path).unwrap()["metadata"]["annotations"].is_object()
    });
    installed.all_is_told();
    the_server_refuses(&installed, &plane.client_for(KUBELET).unwrap());
    a_viewer_may_look(&installed);

    let before = plane.get(&format!("{GROUP}/ippools/a")).unwrap()["metadata"]["uid"].clone();
    let told = installed.make(
        "cilium-ipam-upgrade",
        "--set writePaths.service=true --set replicas=3",
    );
    assert!(told.contains("REVISION: 2"), "{told}");
    let deployment = plane
        .get("/apis/apps/v1/namespaces/kube-system/deployments/cilium-ipam")
        .unwrap();
    assert_eq!(deployment["spec"]["replicas"], 3);
    assert_eq!(
        plane.get(&format!("{GROUP}/ippools/a")).unwrap()["metadata"]["uid"],
        before
    );
    installed.server.nodes([in_rack("n2", "a")]);
    assert_eq!(operator.written("n2"), json!(["10.20.1.0/24"]));
    assert_eq!(operator.end(), 0);
    second.until("leads", json!({}));
    installed.every_right_is_used_and_none_is_missing();
    installed.make("cilium-ipam-uninstall", "");
    plane.get(&format!("{GROUP}/ippools/a")).unwrap();
}

/// The role that the cluster's own role `view` takes in.
fn a_viewer_may_look(installed: &Installed) {
    let plane = &installed.server.plane;
    let role = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cilium-ipam-view"});
    let subject = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": VIEWER});
    let binding = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
        "metadata": {"name": VIEWER}, "roleRef": role, "subjects": [subject]});
    plane
        .create(&format!("{RBAC}/clusterrolebindings"), &binding)
        .unwrap();
    let viewer = plane.client_for(VIEWER).unwrap();
    let labels = |name: &str| {
        plane.get(&format!("{RBAC}/clusterroles/{name}")).unwrap()["metadata"]["labels"].clone()
    };
    let taken_in = |name: &str, role: &str| {
        labels(name)[format!("rbac.authorization.k8s.io/aggregate-to-{role}")] == "true"
    };
    assert!(
        ["view", "edit", "admin"]
            .iter()
            .all(|role| taken_in("cilium-ipam-view", role))
    );
    assert_eq!(
        ["view", "edit", "admin"].map(|role| taken_in("cilium-ipam-edit", role)),
        [false, false, true]
    );
    until("a viewer may look", || {
        viewer.list(&format!("{GROUP}/ippools")).is_ok()
    });
    let error = viewer
        .delete(&format!("{GROUP}/ippools/a"))
        .unwrap_err()
        .to_string();
    assert!(error.contains("forbidden"), "{error}");
}

/// What its admission policies say no to.
fn the_server_refuses(installed: &Installed, kubelet: &Client) {
    let plane = &installed.server.plane;
    let annotation =
        json!({"metadata": {"annotations": {"network.cilium.io/ipv4-pod-cidr": "10.99.0.0/24"}}});
    let refused = |path: &str, change: &Value| {
        let error = kubelet
            .patch(&format!("{path}?dryRun=All"), change)
            .err()
            .map(|error| error.to_string());
        error.is_some_and(|error| error.contains("may not set or change the pod-CIDR annotations"))
    };
    until("a kubelet's annotation is refused", || {
        refused("/api/v1/nodes/n1", &annotation)
    });
    assert!(
        refused("/api/v1/nodes/n1/status", &annotation),
        "through the status, too"
    );
    let old =
        json!({"metadata": {"annotations": {"io.cilium.network.ipv6-pod-cidr": "fd00::/64"}}});
    assert!(refused("/api/v1/nodes/n1", &old));
    let heartbeat = json!({"metadata": {"annotations": {"volumes.kubernetes.io/controller-managed-attach-detach": "true"}},
        "status": {"conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}]}});
    kubelet
        .patch("/api/v1/nodes/n1/status", &heartbeat)
        .unwrap();
    assert!(
        plane
            .patch("/api/v1/nodes/n1?dryRun=All", &annotation)
            .is_err(),
        "not even an administrator"
    );
    let own = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}, "spec": {"podCIDR": "10.99.0.0/24", "podCIDRs": ["10.99.0.0/24"]}});
    plane.delete("/api/v1/nodes/n1").unwrap();
    let error = kubelet
        .create("/api/v1/nodes?dryRun=All", &own)
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("a kubelet may not set the pod CIDRs of its own Node"),
        "{error}"
    );

    let pools = format!("{GROUP}/ippools?dryRun=All");
    let refusal = |name: &str, spec: Value| {
        plane
            .create(&pools, &object("IPPool", name, spec))
            .err()
            .map(|error| error.to_string())
            .unwrap_or_default()
    };
    let overlaps = || {
        refusal(
            "b",
            json!({"cidrs": ["10.30.0.0/16", "10.20.128.0/17"], "blockSize": 24}),
        )
    };
    until("pools that overlap are refused", || {
        overlaps().contains("10.20.128.0/17 overlaps IPPool a")
    });
    let sizes = [
        json!("24"),
        json!(8),
        json!({"ipv6": 64}),
        json!({"ipv4": 24, "ipv5": 9}),
        json!(33),
        json!(true),
    ];
    for size in sizes {
        let error = refusal("b", json!({"cidrs": ["10.30.0.0/16"], "blockSize": size}));
        assert!(error.contains("cilium-ipam: blockSize"), "{size}: {error}");
    }
    for size in [json!(24), json!({"ipv4": 24, "ipv6": 64})] {
        assert_eq!(
            refusal("b", json!({"cidrs": ["10.30.0.0/16"], "blockSize": size})),
            ""
        );
    }
}

#[test]
fn a_revoked_token_ends_its_work_until_there_is_another_one() {
    let installed = Installed::new(&kubernetes("1.19.3", None), "");
    let plane = &installed.server.plane;
    installed.create("ippools", &pool("a", "10.20.0.0/16", "a"));
    let operator = installed.operator();
    operator.until("leads", json!({}));
    installed.server.nodes([in_rack("n1", "a")]);
    operator.written("n1");
    let path = "/api/v1/namespaces/kube-system/serviceaccounts";
    plane.delete(&format!("{path}/cilium-ipam")).unwrap();
    // The server remembers a token for ten seconds.
    let why = loop {
        let line = operator.until("stands-by", json!({}));
        if line["why"].as_str().unwrap().contains("Unauthorized") {
            break line;
        }
    };
    installed.server.nodes([in_rack("n2", "a")]);
    assert!(installed.server.pod_cidrs()["n2"].is_empty(), "{why}");
    let account =
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "cilium-ipam"}});
    plane.create(path, &account).unwrap();
    // In the place of the old one, as a kubelet does it.
    plane
        .kubeconfig_for_service_account("kube-system", "cilium-ipam")
        .unwrap();
    operator.until("leads", json!({}));
    assert_eq!(operator.written("n2"), json!(["10.20.1.0/24"]));
}

#[test]
fn in_cluster_pool_it_needs_what_the_chart_gives() {
    let config = [
        ("cluster-pool-ipv4-cidr", "10.99.0.0/16"),
        ("cluster-pool-ipv4-mask-size", "24"),
    ];
    let config: BTreeMap<String, String> = config
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .into();
    let cilium = CiliumInstallation {
        ipam: "cluster-pool".into(),
        config,
        ..CiliumInstallation::default()
    };
    let installed = Installed::new(
        &cilium,
        "--set writePaths.node=false --set writePaths.ciliumNode=true",
    );
    installed.one_of_each(json!({}));
    let operator = installed.operator();
    operator.until("leads", json!({}));
    for name in ["n1", "n2"] {
        let mut node = in_rack(name, "a");
        // Cilium's operator leaves it to us.
        node["metadata"]["annotations"] = json!({"ipam.cilium.io/ignore": "true"});
        installed.server.nodes([node]);
        operator.until("written", json!({"name": name}));
    }
    installed.all_is_told();
    assert_eq!(operator.end(), 0);
    installed.every_right_is_used_and_none_is_missing();
}

#[test]
fn to_move_nodes_it_needs_what_the_chart_gives() {
    let installed = Installed::new(
        &kubernetes("1.19.3", None),
        "--set writePaths.nodeConfig=true",
    );
    let limits = json!({"disruptive": {"percent": 100}});
    installed.one_of_each(
        json!({"writePath": "node-config", "unattended": "disruptive", "limits": limits}),
    );
    let operator = installed.operator();
    operator.until("leads", json!({}));
    installed.server.nodes([node(
        "n1",
        json!({"rack": "a", "kubernetes.io/hostname": "n1"}),
    )]);
    operator.written("n1");
    installed.create(
        "nodeassignments",
        &object(
            "NodeAssignment",
            "n1",
            json!({"podCIDRs": ["10.20.7.0/24"]}),
        ),
    );
    assert_eq!(
        operator.until("written", json!({"name": "n1"}))["after"],
        json!(["10.20.7.0/24"])
    );
    installed.all_is_told();
    assert_eq!(operator.end(), 0);
    installed.every_right_is_used_and_none_is_missing();
}

#[test]
fn in_multi_pool_it_needs_what_the_chart_gives() {
    let cilium = CiliumInstallation {
        ipam: "multi-pool".into(),
        ..CiliumInstallation::default()
    };
    let installed = Installed::new(
        &cilium,
        "--set writePaths.node=false --set writePaths.podIPPool=true",
    );
    installed.one_of_each(
        json!({"unattended": "destructive", "limits": {"disruptive": {"percent": 100}}}),
    );
    let operator = installed.operator();
    operator.until("written", json!({"kind": "CiliumPodIPPool", "name": "a"}));
    operator.until("written", json!({"kind": "CiliumNodeConfig"}));
    // Pinned, which this mode does not know.
    installed.server.nodes([in_rack("n9", "a")]);
    installed.all_is_told();
    let plane = &installed.server.plane;
    let path = format!("{GROUP}/ippools/a");
    let further = json!({"spec": {"cidrs": ["10.20.0.0/16", "10.21.0.0/16"], "nodeSelector": {"matchLabels": {"rack": "b"}}}});
    plane.patch(&path, &further).unwrap();
    operator.until("written", json!({"kind": "CiliumPodIPPool", "name": "a"}));
    operator.until("written", json!({"kind": "CiliumNodeConfig"}));
    installed.create("ippools", &pool("b", "10.40.0.0/16", "b"));
    plane.delete(&path).unwrap();
    condition(&installed.server, "ippools/a", "Ready", "InUse");
    // The pin lies in it.
    plane
        .delete(&format!("{GROUP}/nodeassignments/n9"))
        .unwrap();
    operator.until(
        "written",
        json!({"kind": "CiliumPodIPPool", "name": "a", "after": []}),
    );
    assert_eq!(operator.end(), 0);
    installed.every_right_is_used_and_none_is_missing();
}
