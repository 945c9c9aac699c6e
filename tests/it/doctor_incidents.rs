//! `doctor` on incidents that users of Cilium reported: each is a healthy cluster near to the fault,
//! which gives no finding, and the fault in it, which gives exactly these rules.

use serde_json::{Value, json};

use super::doctor_cluster::{Base, healthy, object, on_file, pod_pool, rules, without_pools};

/// An incident, by the number of its report where there is one.
struct Incident {
    of: &'static str,
    base: Base,
    /// What makes the healthy cluster like the reported one.
    near: fn(&mut Vec<Value>),
    breaks: fn(&mut Vec<Value>),
    rules: &'static [&'static str],
}

fn as_it_is(_: &mut Vec<Value>) {}

fn set(objects: &mut [Value], key: &str, value: &str) {
    object(objects, "ConfigMap", "cilium-config")["data"][key] = value.into();
}

/// Another version of the agents and of the operator.
fn run(objects: &mut [Value], version: &str) {
    let agent = format!("quay.io/cilium/cilium:v{version}");
    let operator = format!("quay.io/cilium/operator-generic:v{version}");
    for object in objects.iter_mut() {
        let containers = match object["kind"].as_str().unwrap() {
            "DaemonSet" | "Deployment" => "/spec/template/spec/containers/0/image",
            "Pod" => "/spec/containers/0/image",
            _ => continue,
        };
        let Some(image) = object.pointer_mut(containers) else {
            continue;
        };
        let text = image.as_str().unwrap();
        if text.contains("cilium/cilium:") {
            *image = agent.clone().into();
        } else if text.contains("operator-generic:") {
            *image = operator.clone().into();
        }
    }
}

fn pools_of<'o>(objects: &'o mut [Value], node: &str) -> &'o mut Value {
    &mut object(objects, "CiliumNode", node)["spec"]["ipam"]["pools"]
}

fn operator_error(objects: &mut [Value], node: &str, error: &str) {
    object(objects, "CiliumNode", node)["status"] =
        json!({"ipam": {"operator-status": {"error": error}}});
}

fn service(name: &str, labels: Value, ingress: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Service",
        "metadata": {"name": name, "namespace": "default", "labels": labels},
        "spec": {"type": "LoadBalancer", "ports": [{"port": 80}]},
        "status": {"loadBalancer": {"ingress": ingress}}})
}

fn address_pool(name: &str, spec: Value) -> Value {
    json!({"apiVersion": "cilium.io/v2", "kind": "CiliumLoadBalancerIPPool",
        "metadata": {"name": name}, "spec": spec})
}

/// Announces the Services of `app: web` on the nodes with this selector.
fn l2_policy(nodes: Value) -> Value {
    json!({"apiVersion": "cilium.io/v2alpha1", "kind": "CiliumL2AnnouncementPolicy",
        "metadata": {"name": "lan"},
        "spec": {"loadBalancerIPs": true, "nodeSelector": nodes,
            "serviceSelector": {"matchLabels": {"app": "web"}}}})
}

fn with_l2(objects: &mut Vec<Value>) {
    set(objects, "enable-l2-announcements", "true");
    objects.push(l2_policy(json!({})));
}

fn advertisement_of_pod_cidrs(objects: &mut Vec<Value>) {
    let of_base = healthy(Base::Kubernetes);
    set(objects, "enable-bgp-control-plane", "true");
    objects.extend(
        of_base
            .into_iter()
            .filter(|object| object["kind"].as_str().unwrap().starts_with("CiliumBGP")),
    );
}

const MULTI_POOL: &[Incident] = &[
    Incident {
        of: "cilium#38102",
        base: Base::MultiPool,
        near: |objects| {
            run(objects, "1.17.6");
            set(objects, "enable-endpoint-routes", "true");
        },
        breaks: |objects| set(objects, "enable-endpoint-routes", "false"),
        rules: &["endpoint-routes-missing"],
    },
    Incident {
        // kube-controller-manager gave the Nodes blocks of their own, to which the routes lead.
        of: "cilium#34446",
        base: Base::MultiPool,
        near: |objects| {
            run(objects, "1.16.1");
            set(objects, "enable-endpoint-routes", "true");
        },
        breaks: |objects| {
            let data = &mut object(objects, "ConfigMap", "cilium-config")["data"];
            data.as_object_mut()
                .unwrap()
                .remove("enable-endpoint-routes");
            for (node, block) in [("n1", "10.21.2.0/24"), ("n2", "10.21.1.0/24")] {
                object(objects, "Node", node)["spec"] =
                    json!({"podCIDR": block, "podCIDRs": [block]});
            }
        },
        rules: &["endpoint-routes-missing"],
    },
    Incident {
        of: "cilium#37946",
        base: Base::MultiPool,
        near: as_it_is,
        breaks: |objects| *pools_of(objects, "n3") = json!({}),
        rules: &["node-without-block"],
    },
    Incident {
        // Each Pod takes a block, and Pods that are gone keep theirs.
        of: "cilium#39874",
        base: Base::MultiPool,
        near: |objects| objects.push(pod_pool("singles", &["10.22.0.0/29"], 32)),
        breaks: |objects| {
            let blocks: Vec<String> = (0..8).map(|last| format!("10.22.0.{last}/32")).collect();
            let allocated = pools_of(objects, "n1")["allocated"].as_array_mut().unwrap();
            allocated.push(json!({"pool": "singles", "cidrs": blocks}));
            let requested = pools_of(objects, "n2")["requested"].as_array_mut().unwrap();
            requested.push(json!({"pool": "singles", "needed": {"ipv4-addrs": 1}}));
            operator_error(
                objects,
                "n2",
                "failed to allocate ipv4 address for node \"n2\" from pool \"singles\": pool empty",
            );
        },
        rules: &["pod-pool-nearly-exhausted"],
    },
    Incident {
        of: "cilium#26966, cilium#43301",
        base: Base::MultiPool,
        near: |objects| {
            objects.push(pod_pool("red", &["10.22.0.0/16"], 24));
            let allocated = pools_of(objects, "n1")["allocated"].as_array_mut().unwrap();
            allocated.push(json!({"pool": "red", "cidrs": ["10.22.3.0/24"]}));
        },
        breaks: |objects| {
            objects.retain(|object| object["metadata"]["name"] != "red");
            operator_error(
                objects,
                "n1",
                "unable to find pool red, prefix 10.22.3.0/24 is still allocated to the node but is marked as orphan",
            );
        },
        rules: &["pod-pool-deleted-in-use"],
    },
    Incident {
        of: "the default pool is deleted in use",
        base: Base::MultiPool,
        near: as_it_is,
        breaks: |objects| objects.retain(|object| object["kind"] != "CiliumPodIPPool"),
        rules: &["default-pool-missing"],
    },
    Incident {
        of: "cilium#41986",
        base: Base::MultiPool,
        near: |objects| {
            object(objects, "CiliumPodIPPool", "default")["spec"]["ipv4"]["cidrs"] =
                json!(["10.20.1.0/24", "10.20.2.0/23", "10.20.4.0/22"]);
        },
        breaks: |objects| {
            object(objects, "CiliumPodIPPool", "default")["spec"]["ipv4"]["cidrs"] =
                json!(["10.20.1.0/24", "10.20.4.0/22"]);
        },
        rules: &["pod-pool-cut-in-use"],
    },
    Incident {
        of: "PodCIDR advertisement in multi-pool",
        base: Base::MultiPool,
        near: |objects| {
            advertisement_of_pod_cidrs(objects);
            object(objects, "CiliumBGPAdvertisement", "racks")["spec"]["advertisements"][0] =
                json!({"advertisementType": "CiliumPodIPPool", "selector": {}});
        },
        breaks: |objects| {
            object(objects, "CiliumBGPAdvertisement", "racks")["spec"]["advertisements"][0] =
                json!({"advertisementType": "PodCIDR"});
        },
        rules: &["pod-cidr-advertisement-without-effect"],
    },
    Incident {
        // The error is of the minute before the pool was created.
        of: "cilium#28758",
        base: Base::MultiPool,
        near: as_it_is,
        breaks: |objects| {
            operator_error(
                objects,
                "n1",
                "cannot allocate from non-existing pool: default",
            );
        },
        rules: &["operator-error-outdated"],
    },
    Incident {
        of: "a Pod asks for a pool that never existed",
        base: Base::MultiPool,
        near: as_it_is,
        breaks: |objects| {
            let requested = pools_of(objects, "n2")["requested"].as_array_mut().unwrap();
            requested.push(json!({"pool": "rde", "needed": {"ipv4-addrs": 1}}));
            operator_error(
                objects,
                "n2",
                "failed to allocate ipv4 address for node \"n2\" from pool \"rde\": cannot allocate from non-existing pool: rde",
            );
        },
        rules: &["operator-error"],
    },
];

const ANNOUNCING: &[Incident] = &[
    Incident {
        of: "an L2 policy selects no node",
        base: Base::ClusterPool,
        near: with_l2,
        breaks: |objects| {
            *object(objects, "CiliumL2AnnouncementPolicy", "lan") =
                l2_policy(json!({"matchLabels": {"edge": "yes"}}));
        },
        rules: &["l2-policy-without-nodes"],
    },
    Incident {
        of: "cilium#33386",
        base: Base::ClusterPool,
        near: with_l2,
        breaks: |objects| set(objects, "enable-l2-announcements", "false"),
        rules: &["l2-switched-off"],
    },
    Incident {
        of: "cilium#28985, cilium#43529",
        base: Base::ClusterPool,
        near: |objects| {
            with_l2(objects);
            object(objects, "CiliumLoadBalancerIPPool", "outside")["spec"]["blocks"] =
                json!([{"cidr": "10.30.0.0/24"}, {"cidr": "fd00:30::/64"}]);
            set(objects, "enable-ipv6", "true");
            set(objects, "cluster-pool-ipv6-cidr", "fd00:20::/104");
            for index in 1..=3 {
                object(objects, "CiliumNode", &format!("n{index}"))["spec"]["ipam"]["podCIDRs"] =
                    json!([
                        format!("10.20.{index}.0/24"),
                        format!("fd00:20::{index}00/120")
                    ]);
            }
            set(objects, "cluster-pool-ipv6-mask-size", "120");
            set(objects, "ipv6-native-routing-cidr", "fd00:20::/64");
            let web = object(objects, "Service", "web");
            web["spec"]["ipFamilyPolicy"] = "PreferDualStack".into();
            web["status"]["loadBalancer"]["ingress"] =
                json!([{"ip": "10.30.0.1"}, {"ip": "fd00:30::1"}]);
        },
        breaks: |objects| run(objects, "1.18.4"),
        rules: &["l2-without-ipv6"],
    },
    Incident {
        of: "a CiliumBGPPeeringPolicy beside the newer objects on 1.19",
        base: Base::Kubernetes,
        near: as_it_is,
        breaks: |objects| objects.push(peering_policy()),
        rules: &["peering-policy-not-read"],
    },
    Incident {
        of: "a CiliumBGPPeeringPolicy alone, before and after the upgrade to 1.19",
        base: Base::Kubernetes,
        near: |objects| {
            objects.retain(|object| !object["kind"].as_str().unwrap().starts_with("CiliumBGP"));
            objects.push(peering_policy());
            run(objects, "1.18.4");
        },
        breaks: |objects| run(objects, "1.19.3"),
        rules: &["peering-policy-not-read"],
    },
    Incident {
        of: "cilium#24618",
        base: Base::ClusterPool,
        near: |objects| {
            set(objects, "auto-direct-node-routes", "true");
            for index in 1..=3 {
                object(objects, "Node", &format!("n{index}"))["status"]["addresses"][0]["address"] =
                    format!("192.168.110.{index}").into();
            }
        },
        breaks: |objects| {
            object(objects, "Node", "n3")["status"]["addresses"][0]["address"] =
                "172.18.0.3".into();
        },
        rules: &["direct-routes-across-subnets"],
    },
    Incident {
        // Agents that leave such routes out need no common subnet.
        of: "cilium#31124",
        base: Base::ClusterPool,
        near: |objects| {
            set(objects, "auto-direct-node-routes", "true");
            set(objects, "direct-routing-skip-unreachable", "true");
            object(objects, "Node", "n3")["status"]["addresses"][0]["address"] =
                "172.18.0.3".into();
        },
        breaks: |objects| set(objects, "direct-routing-skip-unreachable", "false"),
        rules: &["direct-routes-across-subnets"],
    },
];

const SPEAKERS: &[Incident] = &[Incident {
    of: "no peer of bgp-config selects a node",
    base: Base::MetalLb,
    near: |objects| {
        for index in 1..=3 {
            object(objects, "Node", &format!("n{index}"))["metadata"]["labels"] =
                json!({"rack": "a"});
        }
        let peers =
            "peers: [{peer-address: 192.0.2.254, node-selectors: [{match-labels: {rack: a}}]}]";
        objects.push(json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "bgp-config", "namespace": "kube-system"},
            "data": {"config.yaml": peers}}));
    },
    breaks: |objects| {
        object(objects, "Node", "n3")["metadata"]["labels"] = json!({"rack": "b"});
    },
    rules: &["speaker-without-peer"],
}];

fn peering_policy() -> Value {
    json!({"apiVersion": "cilium.io/v2alpha1", "kind": "CiliumBGPPeeringPolicy",
        "metadata": {"name": "old"},
        "spec": {"nodeSelector": {}, "virtualRouters": [{"localASN": 65001, "exportPodCIDR": true,
            "serviceSelector": {"matchLabels": {"app": "web"}},
            "neighbors": [{"peerAddress": "192.0.2.254/32", "peerASN": 65000}]}]}})
}

const ADDRESSES: &[Incident] = &[
    Incident {
        of: "a LoadBalancer pool over the addresses of machines",
        base: Base::ClusterPool,
        near: |objects| {
            objects.push(address_pool(
                "edge",
                json!({"blocks": [{"start": "192.0.2.4", "stop": "192.0.2.9"}]}),
            ));
        },
        breaks: |objects| {
            object(objects, "CiliumLoadBalancerIPPool", "edge")["spec"]["blocks"][0]["start"] =
                "192.0.2.3".into();
        },
        rules: &["address-pool-in-use"],
    },
    Incident {
        of: "a LoadBalancer pool over the Service CIDR",
        base: Base::ClusterPool,
        near: |objects| {
            objects.push(address_pool(
                "edge",
                json!({"blocks": [{"cidr": "10.97.0.0/24"}]}),
            ));
        },
        breaks: |objects| {
            object(objects, "CiliumLoadBalancerIPPool", "edge")["spec"]["blocks"][0]["cidr"] =
                "10.96.7.0/24".into();
        },
        rules: &["address-pool-in-use"],
    },
    Incident {
        of: "first and last addresses are reserved after they were given",
        base: Base::ClusterPool,
        near: |objects| {
            object(objects, "Service", "web")["status"]["loadBalancer"]["ingress"] =
                json!([{"ip": "10.30.0.0"}]);
        },
        breaks: |objects| {
            object(objects, "CiliumLoadBalancerIPPool", "outside")["spec"]["allowFirstLastIPs"] =
                "No".into();
        },
        rules: &["addresses-lost-at-restart"],
    },
    Incident {
        of: "cilium#48779",
        base: Base::ClusterPool,
        near: |objects| {
            run(objects, "1.20.2");
            let web = object(objects, "Service", "web");
            web["metadata"]["annotations"] =
                json!({"lbipam.cilium.io/ips": "10.30.0.0", "lbipam.cilium.io/sharing-key": "k"});
            web["status"]["loadBalancer"]["ingress"] = json!([{"ip": "10.30.0.0"}]);
        },
        breaks: |objects| {
            object(objects, "CiliumLoadBalancerIPPool", "outside")["spec"]["allowFirstLastIPs"] =
                "No".into();
        },
        rules: &["operator-panics"],
    },
    Incident {
        of: "cilium#43131",
        base: Base::ClusterPool,
        near: |objects| {
            run(objects, "1.17.6");
            object(objects, "CiliumLoadBalancerIPPool", "outside")["spec"]["blocks"] =
                json!([{"start": "10.30.0.1", "stop": "10.30.0.1"}]);
        },
        breaks: |objects| objects.push(service("late", json!({}), json!([]))),
        rules: &["addresses-lost-at-restart", "service-without-address"],
    },
    Incident {
        of: "no pool selects a Service",
        base: Base::ClusterPool,
        near: |objects| {
            object(objects, "CiliumLoadBalancerIPPool", "outside")["spec"]["serviceSelector"] =
                json!({"matchLabels": {"app": "web"}});
            // Another program serves this one.
            let host = json!([{"hostname": "lb.example.com"}]);
            let mut cloud = service("cloud", json!({}), host);
            cloud["spec"]["loadBalancerClass"] = "example.com/cloud".into();
            objects.push(cloud);
        },
        breaks: |objects| objects.push(service("shop", json!({"app": "shop"}), json!([]))),
        rules: &["service-without-address"],
    },
    Incident {
        of: "no pool has room for a Service",
        base: Base::ClusterPool,
        near: |objects| {
            object(objects, "CiliumLoadBalancerIPPool", "outside")["spec"]["blocks"] =
                json!([{"start": "10.30.0.1", "stop": "10.30.0.2"}]);
            objects.push(service("new", json!({}), json!([])));
        },
        breaks: |objects| {
            object(objects, "CiliumLoadBalancerIPPool", "outside")["spec"]["blocks"] =
                json!([{"start": "10.30.0.1", "stop": "10.30.0.1"}]);
        },
        rules: &["service-without-address"],
    },
    Incident {
        of: "cilium#45327",
        base: Base::ClusterPool,
        near: |objects| {
            object(objects, "Service", "web")["metadata"]["annotations"] =
                json!({"lbipam.cilium.io/ips": "10.30.0.1"});
        },
        breaks: |objects| {
            object(objects, "Service", "web")["metadata"]["annotations"] =
                json!({"io.cilium/lb-ipam-pool": "outside"});
        },
        rules: &["service-annotation-not-read"],
    },
];

const PODS: &[Incident] = &[
    Incident {
        of: "a CiliumNode of an earlier Node",
        base: Base::ClusterPool,
        near: |objects| {
            object(objects, "Node", "n1")["metadata"]["uid"] = "new".into();
            object(objects, "CiliumNode", "n1")["metadata"]["ownerReferences"] =
                json!([{"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": "new"}]);
        },
        breaks: |objects| {
            object(objects, "CiliumNode", "n1")["metadata"]["ownerReferences"][0]["uid"] =
                "old".into();
        },
        rules: &["stale-ciliumnode"],
    },
    Incident {
        of: "cilium#13766",
        base: Base::ClusterPool,
        near: |objects| set(objects, "cluster-pool-ipv4-cidr", "10.20.0.0/16"),
        breaks: |objects| set(objects, "cluster-pool-ipv4-cidr", "10.0.0.0/8"),
        rules: &["range-over-other-addresses"],
    },
    Incident {
        of: "cilium#42383",
        base: Base::ClusterPool,
        near: as_it_is,
        breaks: |objects| {
            object(objects, "Node", "n3")["status"]["addresses"][0]["address"] = "10.20.5.9".into();
        },
        rules: &["pool-over-other-addresses", "range-over-other-addresses"],
    },
    Incident {
        // The range was changed, and the node waits: to drain or delete it would not help.
        of: "cilium#21188",
        base: Base::ClusterPool,
        near: |objects| objects.retain(|object| object["metadata"]["name"] != "n3"),
        breaks: |objects| {
            let all = healthy(Base::ClusterPool).into_iter();
            objects.extend(all.filter(|object| object["metadata"]["name"] == "n3"));
            object(objects, "CiliumNode", "n3")["spec"]["ipam"] = json!({});
            operator_error(objects, "n3", "allocator full");
        },
        rules: &["operator-error"],
    },
    Incident {
        of: "an error of cluster-pool is over",
        base: Base::ClusterPool,
        near: as_it_is,
        breaks: |objects| operator_error(objects, "n3", "allocator full"),
        rules: &["operator-error-outdated"],
    },
];

fn examined(base: Base, objects: &[Value]) -> Value {
    match base {
        Base::MultiPool => without_pools(objects),
        Base::Kubernetes | Base::MetalLb | Base::ClusterPool => on_file(objects),
    }
}

fn check(incidents: &[Incident]) {
    for incident in incidents {
        let mut objects = healthy(incident.base);
        (incident.near)(&mut objects);
        let report = examined(incident.base, &objects);
        assert_eq!(report["findings"], json!([]), "near {}", incident.of);
        (incident.breaks)(&mut objects);
        let report = examined(incident.base, &objects);
        let expected = incident.rules.iter().map(|rule| (*rule).to_owned());
        assert_eq!(
            rules(&report),
            expected.collect(),
            "{}: {report:#}",
            incident.of
        );
        // One cause is one entry.
        let entries = report["findings"].as_array().unwrap().len();
        assert_eq!(entries, incident.rules.len(), "{}: {report:#}", incident.of);
    }
}

#[test]
fn incidents_of_multi_pool() {
    check(MULTI_POOL);
}

#[test]
fn incidents_of_announcements() {
    check(ANNOUNCING);
    check(SPEAKERS);
}

#[test]
fn incidents_of_load_balancer_addresses() {
    check(ADDRESSES);
}

#[test]
fn incidents_of_pods() {
    check(PODS);
}

#[test]
fn healthy_multi_pool_is_silent() {
    assert_eq!(
        without_pools(&healthy(Base::MultiPool))["findings"],
        json!([])
    );
}
