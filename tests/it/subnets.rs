//! Pools that are subnets of Neutron: other pools must not overlap them, and no block is given
//! while they are unknown.

use serde_json::Value;

use super::support::{
    Folder, KUBERNETES, TextAssertions, address_pool, args, cluster, holds, node, pool,
};
use ipam_cilium::observed::{Observed, ObservedKind, Reader, SeenSubnet};
use ipam_config::documents::{Documents, SourceFile, lower};
use ipam_core::model::{Finding, Severity};
use ipam_core::neutron::Id;
use ipam_desired::Desired;
use ipam_plan::plan::{Plan, node_changes, plan};

pub const NETWORK: &str = "782ec9ac-44f9-4318-8c67-a2fed2ccca4f";
pub const SUBNET: &str = "2e7b9b0c-9d65-4b7e-8d1e-6f0c1d5a9b11";
pub const OTHER: &str = "9d65b0c0-9d65-4b7e-8d1e-6f0c1d5a9b11";

pub fn subnet_pool(name: &str, subnet: &str) -> String {
    pool(
        name,
        &format!("{{neutron: {{network: {NETWORK}, subnet: {subnet}}}}}"),
    )
}

fn balancer(block: &str) -> String {
    address_pool("lb", &format!("{{blocks: [{{cidr: \"{block}\"}}]}}"))
}

pub fn desired(documents: &[String]) -> Desired {
    let file = SourceFile {
        path: "pools.yaml".into(),
        text: documents.join("---\n").into(),
    };
    let (desired, findings) = lower(&Documents { files: vec![file] });
    assert!(
        findings
            .iter()
            .all(|finding| finding.severity != Severity::Error),
        "{findings:#?}"
    );
    desired
}

pub fn observed(items: &[String], subnets: &[(&str, SeenSubnet)]) -> Observed {
    let list: Value = serde_json::from_str(&cluster("1.19.3", KUBERNETES, items)).unwrap();
    let mut reader = Reader::default();
    for item in list["items"].as_array().unwrap() {
        let kind = match item["kind"].as_str().unwrap() {
            "ConfigMap" => ObservedKind::CiliumConfig,
            "DaemonSet" => ObservedKind::CiliumDaemonSet,
            "Pod" => ObservedKind::ControllerPod,
            "ServiceCIDR" => ObservedKind::ServiceCidr,
            "CiliumLoadBalancerIPPool" => ObservedKind::LoadBalancerPool,
            "Service" => ObservedKind::Service,
            "CiliumNode" => ObservedKind::CiliumNode,
            _ => ObservedKind::Node,
        };
        reader.object(kind, &item.to_string()).unwrap();
    }
    let mut observed = reader.finish("2026-01-02T00:00:00Z".parse().unwrap());
    observed.subnets = subnets
        .iter()
        .map(|(id, seen)| (id.parse().unwrap(), seen.clone()))
        .collect();
    observed
}

fn there(range: &str) -> SeenSubnet {
    SeenSubnet::There {
        network: NETWORK.parse().unwrap(),
        range: range.parse().unwrap(),
    }
}

pub fn of_nodes(cidr: &str) -> String {
    pool(
        "rack",
        &format!(
            "{{cidrs: [\"{cidr}\"], blockSize: {{{}}}}}",
            if cidr.contains(':') {
                "ipv6: 64"
            } else {
                "ipv4: 24"
            }
        ),
    )
}

pub fn planned(documents: &[String], observed: &Observed) -> Plan {
    plan(&desired(documents), observed, Vec::new())
}

fn given(plan: &Plan) -> Vec<String> {
    node_changes(&plan.changes)
        .flat_map(|change| &change.after)
        .map(ToString::to_string)
        .collect()
}

#[track_caller]
pub fn finding<'p>(plan: &'p Plan, rule: &str) -> &'p Finding {
    let found = plan.findings.iter().find(|finding| finding.rule.0 == rule);
    found.unwrap_or_else(|| panic!("no {rule} in {:#?}", plan.findings))
}

#[test]
fn a_pool_beside_the_subnet_gives_its_blocks() {
    let observed = observed(&[node("n", "a", "")], &[(SUBNET, there("10.1.0.0/24"))]);
    let plan = planned(
        &[of_nodes("10.20.0.0/16"), subnet_pool("vm", SUBNET)],
        &observed,
    );
    assert_eq!(given(&plan), ["10.20.0.0/24"]);
    assert!(
        plan.refusals.is_empty() && plan.blocked.is_empty(),
        "{plan:#?}"
    );
    let named = finding(&plan, "neutron-subnet");
    assert_eq!(named.severity, Severity::Info);
    named.message.assert_has("`vm`");
    named.message.assert_has("10.1.0.0/24");
}

#[test]
fn a_pool_over_the_subnet_is_told_by_name_and_its_blocks_avoid_it() {
    for (range, cidr, free) in [
        ("10.1.0.0/24", "10.1.0.0/16", "10.1.1.0/24"),
        ("10.1.0.0/26", "10.1.0.0/16", "10.1.1.0/24"),
        ("fd00:1::/64", "fd00:1::/48", "fd00:1:0:1::/64"),
    ] {
        let ipv6 = r#""ipam":"kubernetes","enable-ipv4":"false","enable-ipv6":"true""#;
        let mut observed = observed(&[node("n", "a", "")], &[(SUBNET, there(range))]);
        if range.contains(':') {
            let list: Value = serde_json::from_str(&cluster("1.19.3", ipv6, &[])).unwrap();
            let mut reader = Reader::default();
            for (kind, index) in [
                (ObservedKind::CiliumDaemonSet, 1),
                (ObservedKind::CiliumConfig, 0),
            ] {
                reader
                    .object(kind, &list["items"][index].to_string())
                    .unwrap();
            }
            observed.cilium = reader.finish(observed.at).cilium;
        }
        let plan = planned(&[of_nodes(cidr), subnet_pool("vm", SUBNET)], &observed);
        assert_eq!(given(&plan), [free], "{plan:#?}");
        assert_eq!(
            (plan.refusals.len(), plan.blocked.len()),
            (0, 0),
            "{plan:#?}"
        );
        let overlap = finding(&plan, "neutron-overlap");
        assert_eq!(
            (overlap.severity, overlap.origin.is_some()),
            (Severity::Error, true)
        );
        assert!(overlap.message.contains("pool `rack` overlaps pool `vm`"));
    }
}

#[test]
fn a_load_balancer_pool_over_the_subnet_is_blocked_by_name() {
    let observed = observed(&[], &[(SUBNET, there("10.1.0.0/24"))]);
    let plan = planned(
        &[balancer("10.1.0.128/25"), subnet_pool("vm", SUBNET)],
        &observed,
    );
    assert!(plan.changes.is_empty(), "{plan:#?}");
    assert!(
        plan.blocked[0]
            .reason
            .to_string()
            .contains("a subnet of Neutron, pool vm"),
        "{:?}",
        plan.blocked
    );
    assert!(
        finding(&plan, "neutron-overlap")
            .message
            .contains("CiliumLoadBalancerIPPool `lb`")
    );
    let plan = planned(
        &[balancer("20.0.0.0/25"), subnet_pool("vm", SUBNET)],
        &observed,
    );
    assert_eq!(
        (plan.changes.len(), plan.blocked.len()),
        (1, 0),
        "{plan:#?}"
    );
}

#[test]
fn two_subnets_that_overlap_and_addresses_of_services_are_told() {
    let subnets = [
        (SUBNET, there("10.96.4.0/24")),
        (OTHER, there("10.96.0.0/20")),
    ];
    let plan = planned(
        &[subnet_pool("vm", SUBNET), subnet_pool("wide", OTHER)],
        &observed(&[], &subnets),
    );
    let told: Vec<&str> = plan
        .findings
        .iter()
        .filter(|one| one.rule.0 == "neutron-overlap")
        .map(|one| one.message.as_str())
        .collect();
    assert_eq!(told.len(), 3, "{told:#?}");
    assert!(
        told.iter()
            .any(|message| message.contains("pool `wide` overlaps pool `vm`")),
        "{told:#?}"
    );
    assert_eq!(
        told.iter()
            .filter(|message| message.contains("the Service CIDR"))
            .count(),
        2,
        "{told:#?}"
    );
}

/// Observations that are no evidence, and their messages.
fn doubts() -> [(Option<SeenSubnet>, &'static str); 4] {
    let elsewhere = SeenSubnet::There {
        network: OTHER.parse::<Id>().unwrap(),
        range: "10.1.0.0/24".parse().unwrap(),
    };
    [
        (None, "was not asked"),
        (Some(SeenSubnet::Missing), "has no subnet"),
        (
            Some(SeenSubnet::Unread("no answer in time".to_owned())),
            "no answer in time",
        ),
        (Some(elsewhere), "is of network"),
    ]
}

#[test]
fn nothing_new_is_given_while_a_subnet_is_not_known() {
    for (seen, said) in doubts() {
        let seen: Vec<(&str, SeenSubnet)> = seen.into_iter().map(|seen| (SUBNET, seen)).collect();
        let nodes = [
            node("new", "a", ""),
            node("old", "a", &holds("10.20.7.0/24")),
        ];
        let observed = observed(&nodes, &seen);
        let documents = [
            of_nodes("10.20.0.0/16"),
            balancer("20.0.0.0/25"),
            subnet_pool("vm", SUBNET),
        ];
        let plan = planned(&documents, &observed);
        assert!(plan.changes.is_empty(), "{plan:#?}");
        let blocked: Vec<String> = plan
            .blocked
            .iter()
            .map(|blocked| blocked.target.to_string())
            .collect();
        assert_eq!(
            blocked.len(),
            2,
            "the new node and the LoadBalancer pool: {blocked:?}"
        );
        for blocked in &plan.blocked {
            let (reason, way_out) = (blocked.reason.to_string(), blocked.reason.unblock());
            assert!(
                reason.contains(said) && reason.contains("`vm`") && !way_out.is_empty(),
                "{reason}: {way_out}"
            );
        }
        assert!(
            plan.unchanged
                .iter()
                .any(|target| target.to_string().contains("old")),
            "{:?}",
            plan.unchanged
        );
        assert_eq!(
            finding(&plan, "neutron-subnet-unknown").severity,
            Severity::Error
        );
    }
}

#[test]
fn a_pool_that_a_subnet_leaves_nothing_of_is_no_reason_to_take_another_one() {
    let nodes = [node("n", "a", "")];
    let observed = observed(&nodes, &[(SUBNET, there("10.1.0.0/16"))]);
    let other = pool(
        "spare",
        "{cidrs: [10.30.0.0/16], blockSize: 24, priority: -1}",
    );
    let plan = planned(
        &[
            of_nodes("10.1.0.0/16"),
            other.clone(),
            subnet_pool("vm", SUBNET),
        ],
        &observed,
    );
    assert!(
        plan.refusals.is_empty() && plan.changes.is_empty(),
        "{plan:#?}"
    );
    let [blocked] = &plan.blocked[..] else {
        panic!("{plan:#?}")
    };
    assert_eq!(blocked.reason.code(), "neutron-overlap");
    assert!(
        blocked
            .reason
            .to_string()
            .contains("pool `rack` overlaps pool `vm`")
    );
    let of_others = pool(
        "rack",
        "{cidrs: [10.1.0.0/16], blockSize: 24, nodeSelector: {matchLabels: {rack: b}}}",
    );
    let plan = planned(
        &[of_others, other.clone(), subnet_pool("vm", SUBNET)],
        &observed,
    );
    assert!(
        plan.refusals.is_empty() && given(&plan) == ["10.30.0.0/24"],
        "{plan:#?}"
    );
    // One that would not have been asked, and one that gives nothing anyway.
    for innocent in [
        "{cidrs: [10.1.0.0/16], blockSize: 24, priority: -2}",
        "{cidrs: [10.1.0.0/16], blockSize: 24, disabled: true}",
    ] {
        let plan = planned(
            &[
                pool("rack", innocent),
                other.clone(),
                subnet_pool("vm", SUBNET),
            ],
            &observed,
        );
        assert!(
            plan.refusals.is_empty() && given(&plan) == ["10.30.0.0/24"],
            "{innocent}: {plan:#?}"
        );
    }
}

#[test]
fn a_saved_plan_of_nodes_is_no_longer_wanted_when_the_subnet_is_gone() {
    let documents = [of_nodes("10.20.0.0/16"), subnet_pool("vm", SUBNET)];
    let gone = planned(
        &documents,
        &observed(&[node("n", "a", "")], &[(SUBNET, SeenSubnet::Missing)]),
    );
    assert!(
        gone.blocked
            .iter()
            .all(|blocked| blocked.reason.is_neutron_unknown())
            && gone.blocked.len() == 1,
        "{gone:#?}"
    );
}

#[test]
fn without_a_file_of_clouds_it_is_said_and_nothing_is_written() {
    let items = [node("n", "a", "")];
    let files = [of_nodes("10.20.0.0/16"), subnet_pool("vm", SUBNET)].join("---\n");
    let folder = Folder::with_cluster(&items, &[("pools/a.yaml", &files)]);
    let before = folder.read("cluster.json");
    let valid = folder.expect("validate", 0);
    valid.stdout.assert_has("1 Neutron subnet");
    valid.stderr.assert_has("Neutron was not read");
    let plan = folder.plan();
    let reason = plan["blocked"][0]["reason"].as_str().unwrap();
    reason.assert_has("there is no file of clouds");
    let shown = folder.expect("show pools --cluster cluster.json", 0);
    assert!(
        shown.stdout.contains(SUBNET) && shown.stdout.contains("unknown"),
        "{}",
        shown.all()
    );
    folder.expect("apply --cluster cluster.json --auto-approve", 0);
    assert_eq!(folder.read("cluster.json"), before);
    let named = args("plan --cluster cluster.json --clouds-file nowhere.yaml");
    assert!(
        folder.run(&named).expect(8).stderr.contains("nowhere.yaml"),
        "one that is named must be there"
    );
}

/// A write to the field that the agent reads brings a block into use.
#[test]
fn an_unread_block_is_something_new() {
    let annotated = r#"{"apiVersion":"v1","kind":"Node","metadata":{"name":"n","uid":"u","resourceVersion":"7","annotations":{"network.cilium.io/ipv4-pod-cidr":"10.1.0.0/24"}},"spec":{}}"#;
    let documents = [of_nodes("10.1.0.0/16"), subnet_pool("vm", SUBNET)];
    let known = planned(
        &documents,
        &observed(&[annotated.to_owned()], &[(SUBNET, there("10.1.0.0/24"))]),
    );
    assert!(
        known.changes.is_empty() && known.blocked.len() == 1,
        "{known:#?}"
    );
    let unknown = planned(
        &documents,
        &observed(&[annotated.to_owned()], &[(SUBNET, SeenSubnet::Missing)]),
    );
    assert!(unknown.changes.is_empty(), "{unknown:#?}");
    assert!(
        unknown.blocked[0].reason.is_neutron_unknown(),
        "{unknown:#?}"
    );
    let without = planned(&documents[..1], &observed(&[annotated.to_owned()], &[]));
    assert_eq!(
        given(&without),
        ["10.1.0.0/24"],
        "it is written where nothing speaks against it"
    );
}

#[test]
fn a_load_balancer_pool_gives_nobody_more_while_a_subnet_is_not_known() {
    let seen = |more: &str| {
        format!(
            r#"{{"apiVersion":"cilium.io/v2","kind":"CiliumLoadBalancerIPPool","metadata":{{"name":"lb","uid":"u","resourceVersion":"3","labels":{{"app.kubernetes.io/managed-by":"cilium-ipam"}}}},"spec":{{"blocks":[{{"cidr":"10.1.0.0/25"}}]{more}}}}}"#
        )
    };
    let subnet = subnet_pool("vm", SUBNET);
    let decided = |there: &str, wanted: &str| {
        let documents = [
            balancer("10.1.0.0/25").replace("spec: {", &format!("spec: {{{wanted}")),
            subnet.clone(),
        ];
        let plan = planned(
            &documents,
            &observed(&[seen(there)], &[(SUBNET, SeenSubnet::Missing)]),
        );
        (plan.changes.len(), plan.blocked.len())
    };
    assert_eq!(decided("", ""), (0, 0), "what is there stays");
    assert_eq!(
        decided(r#","disabled":true"#, ""),
        (0, 1),
        "it would give again"
    );
    assert_eq!(
        decided("", "disabled: true, "),
        (1, 0),
        "it gives nothing any more"
    );
    let narrow = r#","serviceSelector":{"matchLabels":{"a":"b"}}"#;
    assert_eq!(decided(narrow, ""), (0, 1), "others would get addresses");
    assert_eq!(
        decided("", "allowFirstLastIPs: \"No\", "),
        (0, 1),
        "other addresses would be given"
    );
}

#[test]
fn a_service_is_not_pinned_to_an_address_of_a_subnet() {
    let pool = r#"{"apiVersion":"cilium.io/v2","kind":"CiliumLoadBalancerIPPool","metadata":{"name":"lb","uid":"u","resourceVersion":"3"},"spec":{"blocks":[{"cidr":"10.1.0.0/24"}]}}"#;
    let service = r#"{"apiVersion":"v1","kind":"Service","metadata":{"name":"web","namespace":"default","uid":"s","resourceVersion":"4"},"spec":{"type":"LoadBalancer","ports":[{"port":80}]}}"#;
    let pin = "apiVersion: cilium-ipam.io/v1alpha1\nkind: ServiceAssignment\nmetadata: {name: web}\nspec: {service: default/web, ips: [10.1.0.7]}\n";
    let items = [pool.to_owned(), service.to_owned()];
    let decided = |range: SeenSubnet| {
        planned(
            &[pin.to_owned(), subnet_pool("vm", SUBNET)],
            &observed(&items, &[(SUBNET, range)]),
        )
    };
    let free = decided(there("10.9.0.0/24"));
    assert_eq!(
        (free.changes.len(), free.blocked.len()),
        (1, 0),
        "{free:#?}"
    );
    for (range, said) in [
        (there("10.1.0.0/25"), "a subnet of Neutron, pool vm"),
        (SeenSubnet::Missing, "has no subnet"),
    ] {
        let plan = decided(range);
        assert_eq!(
            (plan.changes.len(), plan.blocked.len()),
            (0, 1),
            "{plan:#?}"
        );
        assert!(
            plan.blocked[0].reason.to_string().contains(said),
            "{:?}",
            plan.blocked
        );
    }
}

#[test]
fn an_overlap_stops_only_what_overlaps() {
    let nodes = [("n1", "a"), ("n2", "a"), ("n3", "b")].map(|(name, rack)| node(name, rack, ""));
    let of = |rack: &str, cidr: &str| {
        let selector = format!("nodeSelector: {{matchLabels: {{rack: {rack}}}}}");
        pool(
            rack,
            &format!("{{cidrs: [{cidr}], blockSize: 24, {selector}}}"),
        )
    };
    let documents = [
        of("a", "10.1.0.0/23"),
        of("b", "10.30.0.0/16"),
        subnet_pool("vm", SUBNET),
    ];
    let subnet = [(SUBNET, there("10.1.0.0/24"))];
    let plan = planned(&documents, &observed(&nodes, &subnet));
    assert!(plan.refusals.is_empty(), "{plan:#?}");
    assert_eq!(given(&plan), ["10.1.1.0/24", "10.30.0.0/24"]);
    let blocked: Vec<String> = plan.blocked.iter().map(|one| one.target.name()).collect();
    assert_eq!(blocked, ["n2"]);
    // A held block that overlaps is not written to a further field.
    let annotations = r#""annotations":{"network.cilium.io/ipv4-pod-cidr":"10.1.0.0/24"},"uid""#;
    let annotated = node("n1", "a", "").replace("\"uid\"", annotations);
    let plan = planned(&documents, &observed(&[annotated], &subnet));
    assert!(
        given(&plan).iter().all(|block| block != "10.1.0.0/24"),
        "{plan:#?}"
    );
}
