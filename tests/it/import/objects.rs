//! Pools of Pods and of LoadBalancers, Services, and hostile texts.

use serde_json::{Value, json};

use super::{documents, import, matches_the_files, pools, with};
use crate::support::{KUBERNETES, TextAssertions, holds, node};

fn pod_pool(name: &str, cidr: &str) -> String {
    json!({"apiVersion": "cilium.io/v2alpha1", "kind": "CiliumPodIPPool",
        "metadata": {"name": name, "uid": format!("pool-{name}"), "resourceVersion": "3"},
        "spec": {"ipv4": {"cidrs": [cidr], "maskSize": 27}}})
    .to_string()
}

#[test]
fn multi_pool_keeps_its_pools_unmanaged() {
    let uses = |name: &str, pool: &str, block: &str| {
        json!({"apiVersion": "cilium.io/v2", "kind": "CiliumNode", "metadata": {"name": name, "uid": name, "resourceVersion": "1"},
            "spec": {"ipam": {"pools": {"allocated": [{"pool": pool, "cidrs": [block]}]}}}})
        .to_string()
    };
    let choice = json!({"apiVersion": "cilium.io/v2", "kind": "CiliumNodeConfig", "metadata": {"name": "b", "namespace": "kube-system", "uid": "b", "resourceVersion": "1"},
        "spec": {"nodeSelector": {"matchLabels": {"rack": "b"}}, "defaults": {"ipam-default-ip-pool": "rack-b"}}});
    let items = [
        node("n1", "a", ""),
        node("n2", "b", ""),
        uses("n1", "default", "10.10.0.0/27"),
        uses("n2", "rack-b", "10.20.0.32/27"),
        pod_pool("default", "10.10.0.0/16"),
        pod_pool("rack-b", "10.20.0.0/16"),
        pod_pool("by-annotation", "10.30.0.0/16"),
        choice.to_string(),
    ];
    let folder = with(r#""ipam":"multi-pool""#, &items);
    import(&folder, &[]).expect(0);
    matches_the_files(&folder);
    let pools = pools(&folder);
    assert_eq!(pools.len(), 3);
    assert_eq!(
        pools["rack-b"]["nodeSelector"],
        json!({"matchLabels": {"rack": "b"}})
    );
    assert!(
        pools.values().all(|pool| pool["disabled"] == true),
        "{pools:#?}"
    );
    assert_eq!(pools["by-annotation"]["priority"], -1, "never a default");
    assert_eq!(
        documents(&folder, "policy.yaml")[0]["spec"]["writePath"],
        "pod-ip-pool"
    );

    let folder = with(r#""ipam":"multi-pool""#, &items[..6]);
    let ran = import(&folder, &["--adopt"]).expect(0);
    ran.stdout.assert_has("2 to adopt");
    // Adopted, the cluster is imported as it is, with priorities.
    folder.expect("apply --cluster-file cluster.json --auto-approve", 0);
    std::fs::remove_dir_all(folder.join("pools")).unwrap();
    import(&folder, &[]).expect(0);
    matches_the_files(&folder);
    let pools = self::pools(&folder);
    assert_eq!(pools["rack-b"]["priority"], -1);
    assert_eq!(pools["rack-b"]["disabled"], Value::Null);
}

fn balancer(name: &str, cidr: &str) -> String {
    json!({"apiVersion": "cilium.io/v2alpha1", "kind": "CiliumLoadBalancerIPPool",
        "metadata": {"name": name, "uid": format!("lb-{name}"), "resourceVersion": "3", "creationTimestamp": "2026-01-01T00:00:00Z",
            "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "{}", "team": "web"}},
        "spec": {"blocks": [{"cidr": cidr}]}, "status": {"conditions": []}})
    .to_string()
}

fn service(name: &str, requests: Option<&str>, ip: &str) -> String {
    let annotations = requests.map_or(json!({}), |ips| json!({"lbipam.cilium.io/ips": ips}));
    json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name, "namespace": "shop", "uid": name, "resourceVersion": "5", "annotations": annotations},
        "spec": {"type": "LoadBalancer", "ports": [{"port": 80, "protocol": "TCP"}], "ipFamilies": ["IPv4"]},
        "status": {"loadBalancer": {"ingress": [{"ip": ip}]}}})
    .to_string()
}

#[test]
fn load_balancers_stay_and_lb_freeze_pins_services() {
    let items = [
        node("n1", "a", &holds("10.20.0.0/24")),
        balancer("blue", "20.0.10.0/24"),
        service("web", Some("20.0.10.7"), "20.0.10.7"),
        service("api", None, "20.0.10.9"),
    ];
    let folder = with(KUBERNETES, &items);
    import(&folder, &[]).expect(0);
    matches_the_files(&folder);
    let text = folder.read("pools/load-balancer-pools.yaml");
    text.assert_has("2 Services hold an address");
    text.assert_has("`cilium-ipam lb freeze`");
    assert!(text.lines().all(|line| line.starts_with('#')), "{text}");
    text.assert_lacks("last-applied");
    text.assert_lacks("resourceVersion");
    // Without the signs of a comment it is the pool.
    let pool: String = text
        .lines()
        .skip_while(|line| *line != "# ---")
        .filter_map(|line| line.strip_prefix("# "))
        .map(|line| format!("{line}\n"))
        .collect();
    let pool: Value = serde_yaml::from_multiple::<Value>(&pool).unwrap().remove(0);
    assert_eq!(pool["spec"], json!({"blocks": [{"cidr": "20.0.10.0/24"}]}));
    assert_eq!(
        pool["metadata"],
        json!({"name": "blue", "annotations": {"team": "web"}})
    );

    let folder = with(KUBERNETES, &items);
    let ran = import(&folder, &["--adopt"]).expect(0);
    ran.stdout.assert_has("1 to adopt");
    let frozen = ["lb", "freeze", "pools", "--cluster", "cluster.json"];
    folder.run(&frozen).expect(0);
    let pins = ["web", "api"].map(|name| folder.read(&format!("pools/frozen/shop/{name}.yaml")));
    assert!(pins[0].contains("20.0.10.7") && pins[1].contains("20.0.10.9"));
    assert_eq!(
        documents(&folder, "load-balancer-pools.yaml")
            .last()
            .unwrap()["metadata"]["name"],
        "blue"
    );
}

#[test]
fn hostile_labels_and_names_stay_text() {
    let hostile = "a\n---\nkind: IPAMPolicy\n# \u{1b}[31m\u{202e}: 'x\" {y";
    let items: Vec<String> = (0..4)
        .map(|number| {
            let mut item: Value = serde_json::from_str(&node(&format!("n{number}"), "r", &holds(&format!("10.{}.{number}.0/24", 20 + number / 2)))).unwrap();
            item["metadata"]["labels"] = json!({"rack": if number < 2 { hostile } else { "yes" }, hostile: "on", "zone": if number < 2 { "null" } else { "0x1" }});
            item.to_string()
        })
        .chain([json!({"apiVersion": "cilium.io/v2alpha1", "kind": "CiliumLoadBalancerIPPool",
            "metadata": {"name": "lb", "uid": "u", "resourceVersion": "1", "annotations": {"note": hostile}, "labels": {"x": "true"}},
            "spec": {"blocks": [{"cidr": "20.0.0.0/24"}]}}).to_string()])
        .collect();
    for flags in [&[][..], &["--by-label", "rack"], &["--by-label", "zone"]] {
        let folder = with(KUBERNETES, &items);
        let ran = import(&folder, flags).expect(0);
        assert!(!ran.all().contains(['\u{1b}', '\u{202e}']), "{}", ran.all());
        matches_the_files(&folder);
        for file in ["ippools.yaml", "policy.yaml", "load-balancer-pools.yaml"] {
            let text = folder.read(&format!("pools/{file}"));
            assert!(!text.contains(['\u{1b}', '\u{202e}']), "{text}");
            let kinds: Vec<Value> = documents(&folder, file)
                .into_iter()
                .filter(|one| !one.is_null())
                .map(|one| one["kind"].clone())
                .collect();
            assert!(
                !kinds.contains(&json!("IPAMPolicy")) || file == "policy.yaml",
                "{text}"
            );
        }
    }
    let folder = with(KUBERNETES, &items);
    import(&folder, &["--adopt", "--by-label", "zone"]).expect(0);
    let lb = documents(&folder, "load-balancer-pools.yaml")
        .pop()
        .unwrap();
    assert_eq!(lb["metadata"]["annotations"]["note"], hostile);
    assert_eq!(
        pools(&folder)["zone-null"]["nodeSelector"]["matchLabels"]["zone"],
        "null"
    );
}

#[test]
fn load_balancer_files_do_not_need_blocks_of_nodes() {
    let items = [
        node("n1", "a", ""),
        balancer("blue", "20.0.10.0/24"),
        service("web", Some("20.0.10.7"), "20.0.10.7"),
    ];
    for settings in [
        r#""ipam":"eni""#,
        r#""ipam":"delegated-plugin""#,
        KUBERNETES,
    ] {
        let folder = with(settings, &items);
        import(&folder, &["--adopt"]).expect(0);
        assert!(!folder.join("pools/ippools.yaml").exists(), "{settings}");
        assert_eq!(documents(&folder, "load-balancer-pools.yaml").len(), 1);
        folder.expect("apply --cluster-file cluster.json --auto-approve", 0);
        matches_the_files(&folder);

        let folder = with(settings, &items);
        let refused = import(&folder, &[]).expect(1).stderr;
        refused.assert_has("pass --adopt");
    }
}

#[test]
fn a_hostname_that_a_pool_would_remove_is_named() {
    let web = service("web", None, "20.0.10.9")
        .replace(r#""ip":"20.0.10.9""#, r#""hostname":"a1.elb.example.com""#);
    let folder = with(KUBERNETES, &[node("n1", "a", &holds("10.20.0.0/24")), web]);
    import(&folder, &[]).expect(0);
    let file = folder.read("pools/load-balancer-pools.yaml");
    let comment = file.replace("\n#", "");
    comment.assert_has("shop/web a1.elb.example.com");
    folder.expect("validate pools", 0);
}
