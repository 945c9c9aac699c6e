//! Other allocators of pod CIDRs: every command sees the same one, and names how to switch it off.

use serde_json::{Value, json};

use crate::support::{Folder, pool};

const POOL: &str = "{cidrs: [10.20.0.0/16], blockSize: 24}";

fn node(name: &str, created: &str, cidr: Option<&str>, manager: Option<&str>) -> Value {
    let mut node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name,
        "uid": format!("uid-{name}"), "resourceVersion": "7", "creationTimestamp": created,
        "labels": {"kubernetes.io/hostname": name}}});
    if let Some(cidr) = cidr {
        node["spec"] = json!({"podCIDR": cidr, "podCIDRs": [cidr]});
    }
    if let Some(manager) = manager {
        node["metadata"]["managedFields"] = json!([{"manager": manager, "operation": "Update",
            "apiVersion": "v1", "time": "2026-05-01T00:00:00Z", "fieldsType": "FieldsV1",
            "fieldsV1": {"f:spec": {"f:podCIDR": {}, "f:podCIDRs": {".": {}}}}}]);
    }
    node
}

fn pod(namespace: &str, name: &str, labels: Value, container: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "labels": labels},
        "spec": {"containers": [container]}})
}

/// A kube-controller-manager as kOps runs it: without the label `component`.
fn kops(flags: &[&str]) -> Value {
    let container = json!({"name": "kube-controller-manager",
        "image": "registry.k8s.io/kube-controller-manager:v1.31.4",
        "command": ["/usr/local/bin/kube-controller-manager"], "args": flags});
    let labels = json!({"k8s-app": "kube-controller-manager"});
    pod(
        "kube-system",
        "kube-controller-manager-i-0aa",
        labels,
        container,
    )
}

/// Cilium in ipam `kubernetes`, one Node with a block, one that waits, and these objects.
fn folder(policy: &str, items: Vec<Value>) -> Folder {
    let image = json!({"name": "cilium-agent", "image": "quay.io/cilium/cilium:v1.17.6"});
    let mut all = vec![
        json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "cilium-config", "namespace": "kube-system"},
            "data": {"ipam": "kubernetes", "enable-ipv4": "true", "enable-ipv6": "false"}}),
        json!({"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "cilium",
            "namespace": "kube-system", "labels": {"k8s-app": "cilium"}},
            "spec": {"template": {"spec": {"containers": [image]}}}}),
        json!({"apiVersion": "networking.k8s.io/v1", "kind": "ServiceCIDR",
            "metadata": {"name": "kubernetes"}, "spec": {"cidrs": ["10.96.0.0/16"]}}),
        node("n1", "2026-01-01T00:00:00Z", Some("10.20.0.0/24"), None),
        node("n2", "2026-01-02T00:00:00Z", None, None),
    ];
    for item in items {
        let is_same = |one: &&mut Value| {
            one["kind"] == item["kind"] && one["metadata"]["name"] == item["metadata"]["name"]
        };
        match all.iter_mut().find(is_same) {
            Some(replaced) => *replaced = item,
            None => all.push(item),
        }
    }
    let policy = format!(
        "---\napiVersion: cilium-ipam.io/v1alpha1\nkind: IPAMPolicy\nmetadata: {{name: p}}\nspec: {policy}\n"
    );
    let list = json!({"apiVersion": "v1", "kind": "List", "items": all}).to_string();
    Folder::new(&[
        ("cluster.json", &list),
        ("pools/a.yaml", &(pool("a", POOL) + &policy)),
    ])
}

fn plan(folder: &Folder) -> Value {
    let arguments = [
        "plan",
        "--cluster-file",
        "cluster.json",
        "-o",
        "json",
        "--fail-on",
        "never",
    ];
    folder.run(&arguments).expect(0).json()
}

/// The reason for which the node that waits is blocked, and the way out.
fn blocked(folder: &Folder) -> (String, String) {
    let plan = plan(folder);
    let blocked = &plan["blocked"][0];
    assert!(blocked["reason"].is_string(), "{plan:#}");
    assert_eq!(plan["changes"], json!([]), "{plan:#}");
    let text = |key: &str| blocked[key].as_str().unwrap_or_default().to_owned();
    (text("reason"), blocked.to_string())
}

fn codes(plan: &Value) -> Vec<&str> {
    let findings = plan["findings"].as_array().unwrap().iter();
    findings
        .filter_map(|finding| finding["rule"].as_str())
        .collect()
}

fn assigns(folder: &Folder) -> Value {
    let plan = plan(folder);
    assert_eq!(plan["blocked"], json!([]), "{plan:#}");
    assert_eq!(plan["changes"].as_array().unwrap().len(), 1, "{plan:#}");
    plan
}

#[test]
fn a_controller_without_known_labels_blocks() {
    let on = ["--allocate-node-cidrs=true", "--cluster-cidr=10.20.0.0/16"];
    let (reason, whole) = blocked(&folder("{}", vec![kops(&on)]));
    assert!(reason.contains("--allocate-node-cidrs=true"), "{reason}");
    assert!(
        whole.contains("spec.kubeControllerManager.allocateNodeCIDRs: false"),
        "{whole}"
    );
    assert!(whole.contains("acknowledgedAllocators"), "{whole}");
    assigns(&folder("{}", vec![kops(&["--allocate-node-cidrs=false"])]));
    // A tenant has no Pods in kube-system.
    let mut foreign = kops(&on);
    foreign["metadata"]["namespace"] = json!("tenant");
    assigns(&folder("{}", vec![foreign]));
}

#[test]
fn command_lines_and_names_of_other_distributions() {
    let shell = "exec kube-controller-manager --allocate-node-cidrs=true 2>&1";
    let cases = [
        json!({"name": "c", "command": ["/bin/sh", "-c", shell]}),
        json!({"name": "c", "command": ["kube-controller-manager", "--allocate-node-cidrs", "true"]}),
        json!({"name": "kube-controller-manager", "command": ["/run", "--allocate-node-cidrs"]}),
        json!({"name": "c", "image": "r/kube-controller-manager:v1.31.4", "args": ["--allocate-node-cidrs"]}),
    ];
    for container in cases {
        let labels = json!({"tier": "control-plane", "k8s-app": "kube-controller-manager"});
        let pod = pod("kube-system", "manager-cp-1", labels, container.clone());
        let (_, whole) = blocked(&folder("{}", vec![pod]));
        assert!(
            whole.contains("cluster.controllerManager.extraArgs"),
            "{container}: {whole}"
        );
    }
}

#[test]
fn flags_that_cannot_be_read_are_unknown_not_off() {
    for flags in [
        &["--config=/etc/manager.yaml"][..],
        &["--allocate-node-cidrs=$(ALLOCATE)"],
    ] {
        let folder = folder("{}", vec![kops(flags)]);
        let plan = assigns(&folder);
        assert!(codes(&plan).contains(&"allocator-unknown"), "{plan:#}");
        let doctor = folder
            .run(&["doctor", "--no-pools", "--cluster-file", "cluster.json"])
            .stdout;
        assert!(!doctor.contains("leaves Nodes alone"), "{doctor}");
        assert!(doctor.contains("allocator-unknown"), "{doctor}");
    }
}

#[test]
fn a_deployment_counts_as_its_pods_and_what_has_ended_does_not() {
    let deployment = |replicas: u32| {
        let flags = ["--allocate-node-cidrs=true"];
        let container = json!({"name": "c", "command": ["/bin/hcloud-cloud-controller-manager"], "args": flags});
        json!({"apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": "hcloud", "namespace": "kube-system"},
            "spec": {"replicas": replicas, "template": {"spec": {"containers": [container]}}}})
    };
    let off = kops(&["--allocate-node-cidrs=false"]);
    let (reason, _) = blocked(&folder("{}", vec![off.clone(), deployment(1)]));
    assert!(
        reason.starts_with("cloud-controller-manager runs with"),
        "{reason}"
    );
    assigns(&folder("{}", vec![off.clone(), deployment(0)]));
    for (phase, is_over) in [("Failed", true), ("Succeeded", true), ("Pending", false)] {
        let mut ended = kops(&["--allocate-node-cidrs=true"]);
        ended["metadata"]["name"] = json!("kube-controller-manager-evicted");
        ended["status"]["phase"] = json!(phase);
        let plan = plan(&folder("{}", vec![off.clone(), ended]));
        assert_eq!(plan["blocked"][0].is_object(), !is_over, "{phase} {plan:#}");
    }
}

#[test]
fn a_cloud_controller_manager_blocks_and_its_routes_need_its_range() {
    let manager = |flags: &[&str]| {
        let container = json!({"name": "c", "command": ["/bin/openstack-cloud-controller-manager"], "args": flags});
        json!({"apiVersion": "apps/v1", "kind": "DaemonSet",
            "metadata": {"name": "openstack", "namespace": "kube-system"},
            "spec": {"template": {"spec": {"containers": [container]}}}})
    };
    let off = kops(&["--allocate-node-cidrs=false"]);
    let on = manager(&["--allocate-node-cidrs=true", "--cluster-cidr=10.99.0.0/16"]);
    let folder_on = folder("{}", vec![off.clone(), on]);
    let (reason, _) = blocked(&folder_on);
    assert!(
        reason.starts_with("cloud-controller-manager runs with"),
        "{reason}"
    );
    assert!(codes(&plan(&folder_on)).contains(&"pool-outside-cluster-cidr"));
    let doctor = folder_on
        .run(&["doctor", "--no-pools", "--cluster-file", "cluster.json"])
        .stdout;
    assert!(doctor.contains("outside-cluster-cidr"), "{doctor}");
    let routes = |cidr: &str| {
        let flags = ["--configure-cloud-routes=true", cidr];
        folder("{}", vec![off.clone(), manager(&flags)])
    };
    let outside = assigns(&routes("--cluster-cidr=10.99.0.0/16"));
    assert!(
        codes(&outside).contains(&"pool-outside-cluster-cidr"),
        "{outside:#}"
    );
    let inside = assigns(&routes("--cluster-cidr=10.0.0.0/8"));
    assert!(
        !codes(&inside).contains(&"pool-outside-cluster-cidr"),
        "{inside:#}"
    );
}

#[test]
fn the_writers_of_the_newest_nodes_count() {
    let old = node(
        "n1",
        "2026-01-01T00:00:00Z",
        Some("10.20.0.0/24"),
        Some("k3s"),
    );
    let mut waiting = node("n2", "2026-01-03T00:00:00Z", None, None);
    waiting["status"]["nodeInfo"] = json!({"kubeletVersion": "v1.33.4+k3s1"});
    let off = kops(&["--allocate-node-cidrs=false"]);
    let (reason, whole) = blocked(&folder("{}", vec![old.clone(), waiting.clone()]));
    assert!(
        reason.starts_with("k3s wrote spec.podCIDRs of Node `n1`"),
        "{reason}"
    );
    assert!(whole.contains("/etc/rancher/k3s/config.yaml"), "{whole}");
    let acknowledged = "{acknowledgedAllocators: [k3s]}";
    assigns(&folder(acknowledged, vec![old.clone(), waiting.clone()]));
    // Since then, cilium-ipam has assigned.
    let newer = node(
        "n3",
        "2026-01-02T00:00:00Z",
        Some("10.20.1.0/24"),
        Some("cilium-ipam"),
    );
    assigns(&folder("{}", vec![old, waiting, newer, off.clone()]));
    let manager = Some("kube-controller-manager");
    let before = node("n1", "2026-01-01T00:00:00Z", Some("10.20.0.0/24"), manager);
    // A Node that is younger than the process, or than one of unknown age, shows more than the flag.
    for (started, is_blocked) in [
        ("2026-01-01T00:00:01Z", false),
        ("", true),
        ("2025-12-31T00:00:00Z", true),
    ] {
        let mut process = off.clone();
        process["metadata"]["creationTimestamp"] = json!(started);
        let plan = plan(&folder("{}", vec![before.clone(), process]));
        assert_eq!(plan["blocked"][0].is_object(), is_blocked, "{plan:#}");
    }
    // A person is no allocator.
    let by_hand = node(
        "n1",
        "2026-01-01T00:00:00Z",
        Some("10.20.0.0/24"),
        Some("kubectl-patch"),
    );
    assigns(&folder("{}", vec![by_hand]));
}

#[test]
fn a_distribution_that_hides_its_controllers_is_unknown() {
    let cases = [
        ("v1.33.4+k3s1", "/etc/rancher/k3s/config.yaml"),
        ("v1.33.4-gke.100", "the control plane is hosted (GKE)"),
        ("v1.33.4-eks-1a2b3c", "the control plane is hosted (EKS)"),
    ];
    for (version, fix) in cases {
        let mut node = node("n2", "2026-01-02T00:00:00Z", None, None);
        node["status"]["nodeInfo"] = json!({"kubeletVersion": version});
        let plan = assigns(&folder("{}", vec![node]));
        assert!(codes(&plan).contains(&"allocator-unknown"), "{plan:#}");
        assert!(plan["findings"].to_string().contains(fix), "{plan:#}");
    }
    let mut node = node("n2", "2026-01-02T00:00:00Z", None, None);
    node["metadata"]["labels"]["node.openshift.io/os_id"] = json!("rhel");
    let findings = assigns(&folder("{}", vec![node]))["findings"].to_string();
    assert!(
        findings.contains("KubeControllerManager `cluster`"),
        "{findings}"
    );
}

#[test]
fn an_administrator_acknowledges_by_name() {
    let on = || vec![kops(&["--allocate-node-cidrs=true"])];
    let plan = assigns(&folder(
        "{acknowledgedAllocators: [kube-controller-manager]}",
        on(),
    ));
    let contradicted = "acknowledged-allocator-active";
    assert!(codes(&plan).contains(&contradicted), "{plan:#}");
    let off = vec![kops(&["--allocate-node-cidrs=false"])];
    let plan = assigns(&folder(
        "{acknowledgedAllocators: [kube-controller-manager]}",
        off,
    ));
    assert!(!codes(&plan).contains(&contradicted), "{plan:#}");
    blocked(&folder(
        "{acknowledgedAllocators: [cloud-controller-manager]}",
        on(),
    ));
    let misspelt = folder("{acknowledgedAllocators: [kube-controler-manager]}", on());
    let said = misspelt.run(&["validate"]).expect(3);
    let said = format!("{}{}", said.stdout, said.stderr);
    assert!(
        said.contains("did you mean `kube-controller-manager`?"),
        "{said}"
    );
}

#[test]
fn every_command_sees_the_same_allocator() {
    let flags = ["--allocate-node-cidrs=true", "--cluster-cidr=10.20.0.0/16"];
    let folder = folder("{}", vec![kops(&flags)]);
    let cluster = ["--cluster-file", "cluster.json"];
    let said = |arguments: &[&str]| {
        let ran = folder.run(&[arguments, &cluster].concat());
        format!("{}{}", ran.stdout, ran.stderr)
    };
    let doctor = said(&["doctor", "--no-pools"]);
    assert!(doctor.contains("fills spec.podCIDRs"), "{doctor}");
    let explain = said(&["explain", "n2"]);
    assert!(explain.contains("--allocate-node-cidrs=true"), "{explain}");
    let import = said(&["import", "imported", "--dry-run"]);
    assert!(import.contains("--cluster-cidr"), "{import}");
    assert!(
        import.contains("assigns pod CIDRs to new nodes itself"),
        "{import}"
    );
    assert!(!import.contains("enable the pool"), "{import}");
    folder.write(
        "pools/a.yaml",
        pool("b", "{cidrs: [10.30.0.0/16], blockSize: 24}"),
    );
    let migrate = said(&["migrate", "plan", "--method", "recreate-node"]);
    assert!(migrate.contains("--allocate-node-cidrs=true"), "{migrate}");
}
