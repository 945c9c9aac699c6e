//! The roles that `schema --rbac` prints: those of the documentation, enough for each command on a
//! real API server, and for `plan` no more, as the server's audit log shows.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use testbed::{Client, Options, User};

use super::chart::{AUDIT_POLICY, Right, texts};
use super::operator::until;
use super::running::Running;
use super::server::{Server, kubernetes, node};
use super::support::{Folder, Ran, TextAssertions, pool, repository};

/// (verb, resource and group, whether for the whole cluster) of a table or of roles.
type Rights = BTreeSet<(String, String, bool)>;

/// The rights that the documentation lists.
fn documented() -> Rights {
    let page = repository().join("docs/src/reference/rights.md");
    let page = std::fs::read_to_string(page).unwrap();
    let quoted = |cell: &str| -> Vec<String> {
        let parts = cell.split('`').skip(1).step_by(2);
        parts.map(str::to_owned).collect()
    };
    let mut rights = Rights::new();
    for line in page.lines().filter(|line| line.starts_with("| `")) {
        let cells: Vec<&str> = line.split('|').collect();
        let resources = quoted(cells[2]);
        let group = resources.iter().find(|name| name.starts_with('.'));
        for resource in resources.iter().filter(|name| !name.starts_with('.')) {
            let resource = match group {
                Some(group) => format!("{resource}{group}"),
                None => resource.clone(),
            };
            let is_everywhere = cells[3].trim() == "cluster" || cells[3].contains("all namespaces");
            for verb in quoted(cells[1]) {
                rights.insert((verb, resource.clone(), is_everywhere));
            }
        }
    }
    rights
}

/// The documents that `schema --rbac` prints with these arguments.
fn documents(arguments: &[&str]) -> Vec<Value> {
    let arguments = [&["schema", "--rbac"], arguments].concat();
    let text = Folder::new(&[]).run(&arguments).expect(0).stdout;
    serde_yaml::from_multiple(&text).unwrap()
}

/// The rights that `schema --rbac` prints.
fn printed() -> Rights {
    let mut rights = Rights::new();
    for role in documents(&[]) {
        for rule in role["rules"].as_array().unwrap() {
            let group = match texts(&rule["apiGroups"])[0].as_str() {
                "" => String::new(),
                group => format!(".{group}"),
            };
            for resource in texts(&rule["resources"]) {
                for verb in texts(&rule["verbs"]) {
                    let is_everywhere = role["kind"] == "ClusterRole";
                    rights.insert((verb, format!("{resource}{group}"), is_everywhere));
                }
            }
        }
    }
    rights
}

#[test]
fn the_printed_roles_are_those_of_the_documentation() {
    // The page says in words that `watch` needs `watch` beside `list`.
    let without_watch: Rights = printed()
        .into_iter()
        .filter(|(verb, _, _)| verb != "watch")
        .collect();
    assert_eq!(without_watch, documented());
}

/// A server with an audit log.
struct Audited {
    server: Server,
    audit: Folder,
}

impl Audited {
    fn start() -> Audited {
        let audit = Folder::new(&[("policy.json", AUDIT_POLICY)]);
        let path = |name: &str| audit.join(name).display().to_string();
        let options = Options {
            apiserver_flags: vec![
                format!("--audit-policy-file={}", path("policy.json")),
                format!("--audit-log-path={}", path("audit.log")),
            ],
            users: vec![User::named("nobody")],
            ..Options::default()
        };
        let server = Server::start(&kubernetes("1.19.3", None), Some("1.19.3"), options, &[]);
        server.folder.write(
            "pools/a.yaml",
            pool("a", "{cidrs: [10.20.0.0/16], blockSize: 24}"),
        );
        Audited { server, audit }
    }

    /// A new service account `ci/NAME` with the roles for this command.
    fn account(&self, name: &str, command: &str) -> Account<'_> {
        let Server { plane, folder, .. } = &self.server;
        let account =
            json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}});
        plane
            .create("/api/v1/namespaces/ci/serviceaccounts", &account)
            .unwrap();
        let flag = format!("ci/{name}");
        let printed = folder.run(&["schema", "--rbac", command, "--serviceaccount", &flag]);
        self.install(&printed.expect(0).stdout);
        Account {
            audited: self,
            name: format!("system:serviceaccount:ci:{name}"),
            kubeconfig: plane.kubeconfig_for_service_account("ci", name).unwrap(),
        }
    }
}

impl Audited {
    /// Gives YAML to kubectl.
    fn install(&self, text: &str) {
        let Server {
            plane,
            programs,
            folder,
        } = &self.server;
        folder.write("objects.yaml", text);
        let mut kubectl = plane.kubectl(programs).unwrap();
        kubectl
            .arg("apply")
            .arg("-f")
            .arg(folder.join("objects.yaml"));
        assert!(kubectl.status().unwrap().success());
    }
}

struct Account<'a> {
    audited: &'a Audited,
    name: String,
    kubeconfig: std::path::PathBuf,
}

impl Account<'_> {
    fn run(&self, arguments: &[&str]) -> Ran {
        self.audited.server.run_as(&self.kubeconfig, arguments)
    }

    /// Whether the server allows it to do this with this object of `kube-system`; without a name, with
    /// all.
    fn may(&self, verb: &str, resource: &str, name: &str) -> bool {
        let attributes =
            json!({"namespace": "kube-system", "verb": verb, "resource": resource, "name": name});
        let review = json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview",
            "spec": {"user": self.name, "resourceAttributes": attributes}});
        let path = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
        let answer = self.audited.server.plane.create(path, &review).unwrap();
        answer["status"]["allowed"] == true
    }

    /// What the server answers to a patch of a person with the account's token.
    fn patched(&self, object: &str, patch: &Value) -> (bool, String) {
        let Server {
            plane, programs, ..
        } = &self.audited.server;
        let mut kubectl = plane.kubectl(programs).unwrap();
        kubectl
            .arg("--kubeconfig")
            .arg(&self.kubeconfig)
            .args(["patch", "--type=merge", "-n", "default", object, "-p"])
            .arg(patch.to_string());
        let output = kubectl.output().unwrap();
        let text = [output.stdout, output.stderr].concat();
        (
            output.status.success(),
            String::from_utf8_lossy(&text).into_owned(),
        )
    }

    /// What it requested so far, and whether the server allowed it.
    fn requests(&self) -> BTreeSet<(Right, bool)> {
        let log = self.audited.audit.read("audit.log");
        // The last line may be half written.
        let events = log
            .lines()
            .filter_map(|line| serde_json::from_str::<Value>(line).ok());
        events
            .filter(|event| event["user"]["username"] == *self.name)
            .filter(|event| event["objectRef"].is_object())
            .map(|event| {
                let decision = &event["annotations"]["authorization.k8s.io/decision"];
                (Right::of(&event), decision == "allow")
            })
            .collect()
    }

    #[track_caller]
    fn was_allowed_everything(&self) {
        let refused: Vec<_> = self
            .requests()
            .into_iter()
            .filter(|(_, allowed)| !allowed)
            .collect();
        assert!(refused.is_empty(), "{refused:#?}");
    }
}

/// Every right of the roles for a command.
fn rights_for(command: &str) -> Vec<Right> {
    let mut rights = Vec::new();
    for role in documents(&[command]) {
        let namespace = role["metadata"]["namespace"].as_str().unwrap_or_default();
        for rule in role["rules"].as_array().unwrap() {
            for (verb, resource) in texts(&rule["verbs"]).into_iter().flat_map(|verb| {
                texts(&rule["resources"])
                    .into_iter()
                    .map(move |resource| (verb.clone(), resource))
            }) {
                rights.push(Right {
                    verb,
                    group: rule["apiGroups"][0].as_str().unwrap().to_owned(),
                    resource,
                    namespace: namespace.to_owned(),
                });
            }
        }
    }
    rights
}

#[test]
fn each_command_works_with_its_roles_and_plan_uses_every_right_of_its_own() {
    let audited = Audited::start();
    let plane = &audited.server.plane;
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ci"}});
    plane.create("/api/v1/namespaces", &namespace).unwrap();
    audited.server.nodes([node("n1", json!({}))]);

    let planner = audited.account("planner", "plan");
    let plan = planner.run(&["plan", "-o", "json"]).expect(0).json();
    assert_eq!(plan["summary"]["assign"], 1);
    let findings = plan["findings"].to_string();
    findings.assert_lacks("unreadable-kind");
    planner.run(&["show", "nodes"]).expect(0);
    // Of a refused plan, it asks whether the operator runs.
    let refused = ["comment", "--dry-run", "--limit", "assign-count=0"];
    planner.run(&refused).expect(5);
    planner.was_allowed_everything();
    for config in [
        "cilium-config",
        "cilium-ipam-claims",
        "cilium-ipam-migration",
        "cilium-ipam-quarantine-0",
        "cilium-ipam-quarantine-3",
    ] {
        assert!(planner.may("list", "configmaps", config), "{config}");
    }
    for verb in ["get", "list", "watch"] {
        assert!(!planner.may(verb, "configmaps", "kube-root-ca.crt"));
    }
    let requests = planner.requests();
    let rights = rights_for("plan");
    assert!(rights.len() >= 12, "{rights:#?}");
    for right in &rights {
        let reads = right.verb == "list" || (right.verb == "get" && right.resource == "leases");
        assert!(reads, "it only reads: {right:?}");
        let is_used = requests.iter().any(|(request, _)| right.allows(request));
        assert!(is_used, "plan never uses {right:?}");
    }
    planner.run(&["apply", "--auto-approve"]).expect(1);
    assert!(audited.server.pod_cidrs()["n1"].is_empty());

    let doctor = audited.account("doctor", "doctor");
    let findings = doctor.run(&["doctor", "--fail-on", "never", "-o", "json"]);
    let findings = findings.expect(0).stdout;
    findings.assert_lacks("unreadable-kind");
    doctor.run(&["explain", "n1"]).expect(0);
    doctor
        .run(&["snapshot", "--out", "snapshot.json"])
        .expect(0);
    doctor.was_allowed_everything();

    let applier = audited.account("applier", "apply");
    let applied = applier.run(&["apply", "--auto-approve"]).expect(0);
    applied.stderr.assert_lacks("no lock is taken");
    assert_eq!(audited.server.pod_cidrs()["n1"], ["10.20.0.0/24"]);
    applier.was_allowed_everything();

    let watcher = audited.account("watcher", "watch");
    let watch = Running::start(
        audited.server.folder.path(),
        &watcher.kubeconfig,
        &["watch"],
    );
    audited.server.nodes([node("n2", json!({}))]);
    assert_eq!(watch.written("n2"), json!(["10.20.1.0/24"]));
    assert_eq!(watch.end(), 0);
    watcher.was_allowed_everything();
    assert!(watcher.may("watch", "configmaps", "cilium-config"));
    assert!(!watcher.may("watch", "configmaps", ""));
}

/// RBAC lets the account write whole objects.
#[test]
fn with_admission_policies_an_account_changes_only_pod_cidrs() {
    let audited = Audited::start();
    let Server { plane, folder, .. } = &audited.server;
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ci"}});
    plane.create("/api/v1/namespaces", &namespace).unwrap();
    audited.server.nodes([node("n1", json!({"rack": "a"}))]);
    let spec = json!({"type": "LoadBalancer", "ports": [{"port": 80}]});
    let service =
        json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"}, "spec": spec});
    plane
        .create("/api/v1/namespaces/default/services", &service)
        .unwrap();
    let cilium_node = json!({"apiVersion": "cilium.io/v2", "kind": "CiliumNode", "metadata": {"name": "n1"}, "spec": {}});
    plane
        .create("/apis/cilium.io/v2/ciliumnodes", &cilium_node)
        .unwrap();
    let applier = audited.account("applier", "apply");
    // kubectl reads what it patches.
    let reader = "{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: reader}, rules: [{apiGroups: ['', cilium.io], resources: [nodes, services, ciliumnodes], verbs: [get]}]}\n---\n\
        {apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRoleBinding, metadata: {name: reader}, roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: reader}, subjects: [{kind: ServiceAccount, namespace: ci, name: applier}]}\n";
    audited.install(reader);
    let taints = json!({"spec": {"taints": [{"key": "a", "value": "b", "effect": "NoSchedule"}]}});
    let (is_done, told) = applier.patched("node/n1", &taints);
    assert!(is_done, "RBAC allows it: {told}");

    let printed = ["schema", "--admission", "--serviceaccount", "ci/applier"];
    audited.install(&folder.run(&printed).expect(0).stdout);
    let refused = |object: &str, patch: Value| {
        let (is_done, told) = applier.patched(object, &patch);
        !is_done && told.contains("system:serviceaccount:ci:applier may only change")
    };
    // A patch that changes nothing is allowed.
    let mut attempt = 0;
    until("the policies are in force", || {
        attempt += 1;
        let labels = json!({"metadata": {"labels": {"attempt": attempt.to_string()}}});
        let objects = ["node/n1", "service/web", "ciliumnode/n1"];
        objects.iter().all(|object| refused(object, labels.clone()))
    });
    for (object, patch) in [
        ("node/n1", json!({"metadata": {"labels": {"rack": null}}})),
        (
            "node/n1",
            json!({"metadata": {"annotations": {"cilium-ipam.io/protected": "true"}}}),
        ),
        (
            "node/n1",
            json!({"metadata": {"finalizers": ["a.example/b"]}}),
        ),
        ("node/n1", json!({"spec": {"taints": null}})),
        ("node/n1", json!({"spec": {"unschedulable": true}})),
        (
            "service/web",
            json!({"metadata": {"annotations": {"lbipam.cilium.io/sharing-key": "a"}}}),
        ),
        (
            "service/web",
            json!({"spec": {"externalIPs": ["192.0.2.1"]}}),
        ),
        (
            "ciliumnode/n1",
            json!({"spec": {"addresses": [{"type": "InternalIP", "ip": "192.0.2.1"}]}}),
        ),
        (
            "ciliumnode/n1",
            json!({"spec": {"ipam": {"pool": {"192.0.2.1": {}}}}}),
        ),
    ] {
        assert!(refused(object, patch.clone()), "{object} {patch}");
    }
    for (object, patch) in [
        (
            "node/n1",
            json!({"metadata": {"annotations": {"network.cilium.io/ipv4-pod-cidr": "10.20.0.0/24"}}}),
        ),
        (
            "node/n1",
            json!({"metadata": {"annotations": {"network.cilium.io/ipv4-pod-cidr": null}}}),
        ),
        (
            "service/web",
            json!({"metadata": {"annotations": {"lbipam.cilium.io/ips": "192.0.2.7"}}}),
        ),
        (
            "ciliumnode/n1",
            json!({"spec": {"ipam": {"podCIDRs": ["10.20.9.0/24"]}}}),
        ),
        (
            "ciliumnode/n1",
            json!({"spec": {"ipam": {"podCIDRs": null}}}),
        ),
    ] {
        let (is_done, told) = applier.patched(object, &patch);
        assert!(is_done, "{object} {patch}: {told}");
    }
    // Other accounts are for RBAC alone.
    plane
        .patch(
            "/api/v1/nodes/n1",
            &json!({"metadata": {"labels": {"zone": "z"}}}),
        )
        .unwrap();
    applier.run(&["apply", "--auto-approve"]).expect(0);
    assert_eq!(audited.server.pod_cidrs()["n1"], ["10.20.0.0/24"]);
}

const CILIUM_NODES: &str = "/apis/cilium.io/v2/ciliumnodes";

/// The CiliumNode n1 as `apply` creates it in IPAM mode cluster-pool, with these differences.
fn created_by_apply(differences: &Value) -> Value {
    let owner = json!({"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": "1"});
    let mut object = json!({"apiVersion": "cilium.io/v2", "kind": "CiliumNode", "metadata":
        {"name": "n1", "labels": {"app.kubernetes.io/managed-by": "cilium-ipam"}, "ownerReferences": [owner]},
        "spec": {"ipam": {"podCIDRs": ["10.20.0.0/24"]}}});
    for part in ["metadata", "spec"] {
        for (key, value) in differences[part].as_object().into_iter().flatten() {
            object[part][key] = value.clone();
        }
    }
    object
}

fn error_of(result: Result<Value, testbed::Error>) -> String {
    result
        .err()
        .map(|error| error.to_string())
        .unwrap_or_default()
}

#[test]
fn with_admission_policies_an_account_creates_and_deletes_only_its_own_cilium_nodes() {
    let audited = Audited::start();
    let plane = &audited.server.plane;
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ci"}});
    plane.create("/api/v1/namespaces", &namespace).unwrap();
    let applier = Client::of_kubeconfig(&audited.account("applier", "apply").kubeconfig).unwrap();
    let printed = ["schema", "--admission", "--serviceaccount", "ci/applier"];
    audited.install(&audited.server.folder.run(&printed).expect(0).stdout);

    let create = |differences: &Value| {
        let path = format!("{CILIUM_NODES}?dryRun=All");
        error_of(applier.create(&path, &created_by_apply(differences)))
    };
    until("the policies are in force", || {
        create(&json!({"metadata": {"labels": {}}})).contains("may only create and delete")
    });
    let owner = |kind: &str, name: &str| json!({"apiVersion": "v1", "kind": kind, "name": name, "uid": "1"});
    let foreign = [
        json!({"metadata": {"ownerReferences": []}}),
        json!({"metadata": {"ownerReferences": [owner("Node", "n2")]}}),
        json!({"metadata": {"ownerReferences": [owner("Pod", "n1")]}}),
        json!({"metadata": {"ownerReferences": [owner("Node", "n1"), owner("Pod", "a")]}}),
        json!({"metadata": {"labels": {"app.kubernetes.io/managed-by": "Helm"}}}),
        json!({"metadata": {"labels": {"app.kubernetes.io/managed-by": "cilium-ipam", "a": "b"}}}),
    ];
    let only_on_create = [
        json!({"metadata": {"annotations": {"a": "b"}}}),
        json!({"metadata": {"finalizers": ["a.example/b"]}}),
        json!({"spec": {"bootid": "a"}}),
    ];
    for differences in foreign.iter().chain(&only_on_create) {
        assert!(create(differences).contains("may only"), "{differences}");
    }
    assert_eq!(
        create(&json!({"metadata": {"annotations": {"ipam.cilium.io/ignore": "true"}}})),
        ""
    );

    for differences in &foreign {
        plane
            .create(CILIUM_NODES, &created_by_apply(differences))
            .unwrap();
        let told = error_of(applier.delete(&format!("{CILIUM_NODES}/n1")));
        assert!(
            told.contains("may only create and delete"),
            "{differences}: {told}"
        );
        plane.delete(&format!("{CILIUM_NODES}/n1")).unwrap();
    }
    applier
        .create(CILIUM_NODES, &created_by_apply(&Value::Null))
        .unwrap();
    applier.delete(&format!("{CILIUM_NODES}/n1")).unwrap();
}

#[test]
fn requests_are_printed_without_credentials() {
    let options = Options {
        users: vec![User::named("planner")],
        ..Options::default()
    };
    let server = Server::start(&kubernetes("1.19.3", None), Some("1.19.3"), options, &[]);
    server.nodes([node("n", json!({}))]);
    server.folder.write(
        "pools/a.yaml",
        pool("a", "{cidrs: [10.20.0.0/16], blockSize: 24}"),
    );
    let ran = server.expect("plan --verbose -o json", 0);
    let is_request = |line: &&str| {
        let words: Vec<&str> = line.split(' ').collect();
        matches!(words[..], ["GET", "/api/v1/nodes", "200", time, "ms"] if time.parse::<u64>().is_ok())
    };
    assert_eq!(
        ran.stderr.lines().filter(is_request).count(),
        1,
        "{}",
        ran.stderr
    );
    // The user without any role has a token.
    let kubeconfig = server.plane.kubeconfig_for("planner").unwrap();
    let refused = server.run_as(&kubeconfig, &["plan", "-v"]).expect(8);
    let token = std::fs::read_to_string(&kubeconfig).unwrap();
    let token = token.split("token").nth(1).unwrap();
    let token = token.trim_matches(|c: char| !c.is_ascii_alphanumeric());
    let token: String = token
        .chars()
        .take_while(char::is_ascii_alphanumeric)
        .collect();
    assert!(
        token.len() >= 8 && !refused.stderr.contains(&token),
        "{}",
        refused.stderr
    );
    refused.stderr.assert_has(" 403 ");
    let quiet = server.expect("plan", 0);
    quiet.stderr.assert_lacks("GET ");
}
