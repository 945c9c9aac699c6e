//! Allowed addresses of VMs' ports, for given nodes and ports: which ones the plan adds and
//! removes, and that it changes nothing in doubt.

use std::collections::BTreeSet;
use std::slice;

use serde_json::{Value, json};

use super::subnets::{NETWORK, OTHER, SUBNET as VM, desired, finding, observed, of_nodes, planned};
use super::support::{holds, node};
use ipam_cilium::observed::{BlindSpot, Observed, ObservedKind};
use ipam_core::model::{Hazard, IpamMode, Severity};
use ipam_core::neutron::{Id, PortSecurity, VmPort};
use ipam_doctor::doctor::examine;
use ipam_plan::plan::{Change, Plan, PortChange, unattended};

const PAIRS: &str = "apiVersion: cilium-ipam.io/v1alpha1\nkind: IPAMPolicy\nmetadata: {name: p}\nspec: {neutron: {allowedAddressPairs: PodCIDRs}}\n";

/// A VM's port that allows these ranges.
fn port(pairs: &[&str]) -> VmPort {
    port_at(OTHER, "192.0.2.7", pairs)
}

fn port_at(id: &str, address: &str, pairs: &[&str]) -> VmPort {
    let pairs: Vec<Value> = pairs
        .iter()
        .map(|range| json!({"ip_address": range, "mac_address": "fa:16:3e:00:00:09"}))
        .collect();
    let port = json!({
        "id": id, "network_id": NETWORK, "device_id": VM, "device_owner": "compute:nova",
        "mac_address": "FA:16:3e:00:00:09", "fixed_ips": [{"subnet_id": NETWORK, "ip_address": address}],
        "allowed_address_pairs": pairs, "revision_number": 7, "port_security_enabled": true,
    });
    serde_json::from_value(port).unwrap()
}

fn vm(name: &str, block: &str) -> String {
    let block = if block.is_empty() {
        String::new()
    } else {
        format!(",{}", holds(block))
    };
    node(
        name,
        "a",
        &format!("\"providerID\":\"openstack://RegionOne/{VM}\"{block}"),
    )
}

fn seen(nodes: &[String], ports: Vec<VmPort>) -> Observed {
    let mut seen = observed(nodes, &[]);
    seen.ports = Some([(VM.parse().unwrap(), Ok(ports))].into());
    seen
}

fn documents(pool: &str) -> [String; 2] {
    [pool.to_owned(), PAIRS.to_owned()]
}

fn rack() -> [String; 2] {
    documents(&of_nodes("10.20.0.0/16"))
}

fn ports<'p>(plan: &'p Plan) -> Vec<&'p PortChange> {
    let of_port = |change: &'p Change| match change {
        Change::Port(change) => Some(&**change),
        _ => None,
    };
    plan.changes.iter().filter_map(of_port).collect()
}

fn texts<T: ToString>(ranges: &BTreeSet<T>) -> Vec<String> {
    ranges.iter().map(ToString::to_string).collect()
}

/// The added and removed pairs of the only port that changes.
#[track_caller]
fn change(plan: &Plan) -> (Vec<String>, Vec<String>) {
    let [change] = ports(plan)[..] else {
        panic!("{plan:#?}")
    };
    (texts(&change.added), texts(&change.removed))
}

#[test]
fn ports_let_out_what_their_node_holds_and_take_back_blocks_of_the_pools() {
    let node = vm("n", "10.20.7.0/24");
    let mut unseen = seen(slice::from_ref(&node), vec![]);
    unseen.ports = None;
    let plan = planned(&rack(), &unseen);
    assert_eq!(
        (
            plan.changes.len(),
            finding(&plan, "address-pairs-unseen").severity
        ),
        (0, Severity::Info)
    );
    unseen.ports = Some(
        [(
            VM.parse::<Id>().unwrap(),
            Err("no answer in time".to_owned()),
        )]
        .into(),
    );
    let plan = planned(&rack(), &unseen);
    assert!(
        plan.changes.is_empty()
            && finding(&plan, "address-pairs-unread")
                .message
                .contains("no answer")
    );
    // A wider range than a pool, another network, single addresses, and what is missing.
    let theirs = [
        "10.0.0.0/8",
        "10.20.0.0/16",
        "203.0.113.9",
        "10.20.6.1",
        "10.20.6.128/25",
    ];
    let plan = planned(
        &rack(),
        &seen(
            slice::from_ref(&node),
            vec![port(&[&theirs[..], &["10.20.9.0/24"]].concat())],
        ),
    );
    assert_eq!(
        change(&plan),
        (
            vec!["10.20.7.0/24".to_owned()],
            vec!["10.20.9.0/24".to_owned()]
        )
    );
    let of_port = ports(&plan)[0];
    assert_eq!(
        (of_port.revision, of_port.pairs.len(), of_port.hazard()),
        (7, 6, Hazard::Disruptive)
    );
    assert!(
        planned(
            &rack(),
            &seen(
                slice::from_ref(&node),
                vec![port(&["10.20.7.0/24", "203.0.113.9"])]
            )
        )
        .changes
        .is_empty()
    );
    // As another client may write it.
    assert!(
        planned(&rack(), &seen(&[node], vec![port(&["10.20.7.5/24"])]))
            .changes
            .is_empty()
    );
    let of_another_cloud = super::support::node(
        "n",
        "a",
        &format!("\"providerID\":\"aws:///eu/i-1\",{}", holds("10.20.7.0/24")),
    );
    let plan = planned(&rack(), &seen(&[of_another_cloud], vec![]));
    assert!(
        plan.changes.is_empty()
            && finding(&plan, "address-pairs-no-vm")
                .message
                .contains("`n`")
    );
}

#[test]
fn what_others_have_in_a_pool_stays() {
    let pool = super::support::pool(
        "rack",
        "{cidrs: [10.20.0.0/16], blockSize: 24, reserved: [10.20.255.0/24, 10.20.254.9]}",
    );
    let policy = PAIRS.replace("spec: {", "spec: {excluded: [10.20.200.0/24], ");
    let balancer = r#"{"apiVersion":"cilium.io/v2","kind":"CiliumLoadBalancerIPPool","metadata":{"name":"lb","uid":"u","resourceVersion":"3"},"spec":{"blocks":[{"cidr":"10.20.100.0/26"}]}}"#;
    let theirs = [
        "10.20.255.0/24",
        "10.20.254.0/24",
        "10.20.100.0/24",
        "10.20.200.0/24",
        "10.20.7.0/24",
    ];
    let items = [vm("n", "10.20.7.0/24"), balancer.to_owned()];
    let plan = planned(&[pool, policy], &seen(&items, vec![port(&theirs)]));
    assert!(ports(&plan).is_empty(), "{plan:#?}");
}

#[test]
fn nothing_is_taken_back_where_something_cannot_be_read() {
    let unreadable = r#"{"apiVersion":"cilium.io/v2","kind":"CiliumNode","metadata":{"name":"n"},"spec":{"ipam":{"podCIDRs":["10.20.7.0/24","nonsense"]}}}"#;
    let stale = || vec![port(&["10.20.9.0/24"])];
    let plan = planned(
        &rack(),
        &seen(&[unreadable.to_owned(), vm("n", "10.20.7.0/24")], stale()),
    );
    assert_eq!(change(&plan), (vec!["10.20.7.0/24".to_owned()], vec![]));
    assert!(
        finding(&plan, "address-pairs-node-unread")
            .message
            .contains("nonsense")
    );
    let mut without_settings = seen(&[vm("n", "10.20.7.0/24")], stale());
    without_settings.cilium = Observed::default().cilium;
    let plan = planned(&rack(), &without_settings);
    assert!(
        ports(&plan).is_empty()
            && finding(&plan, "address-pairs-homes-unknown").severity == Severity::Error
    );
}

/// After a change of Cilium's settings, agents still use the settings that they read before.
#[test]
fn what_a_cilium_node_shows_stays_and_nothing_goes_without_one() {
    let shows = |spec: &str| {
        format!(
            r#"{{"apiVersion":"cilium.io/v2","kind":"CiliumNode","metadata":{{"name":"n"}},"spec":{{"ipam":{spec}}}}}"#
        )
    };
    let list = r#"{"podCIDRs":["10.20.7.0/24"]}"#;
    let allocated = r#"{"pools":{"allocated":[{"pool":"default","cidrs":["10.20.7.0/24"]}]}}"#;
    let let_out = || vec![port(&["10.20.7.0/24", "10.20.9.0/24"])];
    for (mode, spec) in [
        (IpamMode::MultiPool, list),
        (IpamMode::ClusterPool, allocated),
        (IpamMode::Kubernetes, allocated),
    ] {
        let mut seen_so = seen(&[vm("n", ""), shows(spec)], let_out());
        seen_so.cilium.mode_override = Some(mode);
        let removed = change(&planned(&rack(), &seen_so)).1;
        assert_eq!(removed, ["10.20.9.0/24"], "{mode:?} {spec}");
    }
    for mode in [IpamMode::MultiPool, IpamMode::ClusterPool] {
        let mut without = seen(&[vm("n", "")], let_out());
        without.cilium.mode_override = Some(mode);
        let plan = planned(&rack(), &without);
        assert!(
            ports(&plan).iter().all(|change| change.removed.is_empty()),
            "{mode:?} {plan:#?}"
        );
        assert!(
            finding(&plan, "address-pairs-kept")
                .message
                .contains("its CiliumNode does not exist")
        );
    }
}

#[test]
fn a_pair_stays_while_not_all_can_be_seen_and_nodes_get_blocks_all_the_same() {
    let items = [
        vm("n", "10.20.7.0/24"),
        super::support::node("new", "a", ""),
    ];
    let mut blind = seen(&items, vec![port(&["10.20.9.0/24"])]);
    let why = "forbidden".to_owned();
    blind.blind_spots.push(BlindSpot {
        kind: ObservedKind::LoadBalancerPool,
        why,
    });
    let subnet = super::subnets::subnet_pool("vm", super::subnets::SUBNET);
    let unread = seen(&items, vec![port(&["10.20.9.0/24"])]);
    let with_subnet: Vec<String> = rack().into_iter().chain([subnet]).collect();
    for (documents, observed, said) in [
        (
            rack().to_vec(),
            blind,
            "ciliumloadbalancerippools.cilium.io cannot be read",
        ),
        (with_subnet, unread, "was not asked"),
    ] {
        let plan = planned(&documents, &observed);
        assert_eq!(change(&plan), (vec!["10.20.7.0/24".to_owned()], vec![]));
        let kept = &finding(&plan, "address-pairs-kept").message;
        assert!(
            plan.refusals.is_empty() && kept.contains(said),
            "{kept} {:?}",
            plan.refusals
        );
    }
}

#[test]
fn two_nodes_that_are_the_same_vm_are_left_alone() {
    let nodes = [vm("old", "10.20.0.0/24"), vm("new", "10.20.1.0/24")];
    let plan = planned(&rack(), &seen(&nodes, vec![port(&["10.20.0.0/24"])]));
    assert!(ports(&plan).is_empty(), "{plan:#?}");
    assert!(
        finding(&plan, "address-pairs-vm-twice")
            .message
            .contains("`new`, `old`")
    );
}

#[test]
fn nobody_opens_a_port_by_writing_a_block_to_a_node() {
    for (block, said) in [
        ("10.99.0.0/24", "no pool of the files"),
        ("10.20.8.0/24", "node `other` shows it too"),
        ("10.20.100.0/24", "something other than nodes"),
    ] {
        let balancer = r#"{"apiVersion":"cilium.io/v2","kind":"CiliumLoadBalancerIPPool","metadata":{"name":"lb","uid":"u","resourceVersion":"3"},"spec":{"blocks":[{"cidr":"10.20.100.0/26"}]}}"#;
        let other = node("other", "a", &holds("10.20.8.0/24"));
        let items = [vm("n", block), other, balancer.to_owned()];
        let plan = planned(&rack(), &seen(&items, vec![port(&[])]));
        assert!(ports(&plan).is_empty(), "{plan:#?}");
        assert!(
            finding(&plan, "address-pairs-not-ours")
                .message
                .contains(said),
            "{plan:#?}"
        );
        // A pair that another client added stays: its Pods may use the addresses.
        assert!(ports(&planned(&rack(), &seen(&items, vec![port(&[block])]))).is_empty());
    }
    let annotated = vm("n", "").replace(
        "\"uid\"",
        "\"annotations\":{\"network.cilium.io/ipv4-pod-cidr\":\"10.20.9.0/24\"},\"uid\"",
    );
    let plan = planned(
        &documents(
            "apiVersion: cilium-ipam.io/v1alpha1\nkind: IPPool\nmetadata: {name: rack}\nspec: {cidrs: [10.20.0.0/16], blockSize: 24, disabled: true, nodeSelector: {matchLabels: {rack: b}}}\n",
        ),
        &seen(&[annotated], vec![port(&["10.20.9.0/24"])]),
    );
    assert!(
        ports(&plan).is_empty(),
        "a block that no agent reads is neither allowed nor removed: {plan:#?}"
    );
}

#[test]
fn what_the_same_plan_gives_is_let_out() {
    let plan = planned(&rack(), &seen(&[vm("n", "")], vec![port(&[])]));
    assert_eq!(change(&plan), (vec!["10.20.0.0/24".to_owned()], vec![]));
    assert!(
        matches!(plan.changes[..], [Change::Node(_), Change::Port(_)]),
        "{plan:#?}"
    );
}

#[test]
fn of_several_ports_the_nodes_own_one_changes() {
    let third = "3d65b0c0-9d65-4b7e-8d1e-6f0c1d5a9b11";
    let both = || {
        vec![
            port_at(OTHER, "192.0.2.7", &[]),
            port_at(third, "198.51.100.7", &[]),
        ]
    };
    let addressed = |address: &str| {
        let status = format!(
            "\"status\":{{\"addresses\":[{{\"type\":\"InternalIP\",\"address\":\"{address}\"}}]}},\"spec\""
        );
        vm("n", "10.20.7.0/24").replace("\"spec\"", &status)
    };
    // Everything leaves the node's own port, and what another one lets out is a Pod's.
    let mut open = both();
    open[1].security = PortSecurity::Off;
    let plan = planned(&rack(), &seen(&[addressed("198.51.100.7")], open));
    assert!(
        ports(&plan).is_empty() && plan.findings.is_empty(),
        "{plan:#?}"
    );
    let plan = planned(&rack(), &seen(&[addressed("198.51.100.7")], both()));
    assert_eq!(
        ports(&plan)
            .iter()
            .map(|change| change.port.to_string())
            .collect::<Vec<_>>(),
        [third]
    );
    for (node, ports_seen) in [
        (addressed("203.0.113.1"), both()),
        (vm("n", "10.20.7.0/24"), vec![]),
    ] {
        let plan = planned(&rack(), &seen(&[node], ports_seen));
        assert!(ports(&plan).is_empty(), "{plan:#?}");
        assert!(finding(&plan, "address-pairs-no-port").message.contains(VM));
    }
}

/// `watch` and the operator do not wait with what Pods need for a person who approves removals.
#[test]
fn additions_are_applied_unattended_and_removals_wait() {
    let stale = || vec![port(&["203.0.113.9", "10.20.9.0/24"])];
    let observed = seen(&[vm("n", "10.20.7.0/24")], stale());
    let parted = |policy: &str| {
        let documents = [of_nodes("10.20.0.0/16"), policy.to_owned()];
        let plan = planned(&documents, &observed);
        let parted = unattended(&plan, &desired(&documents), &observed, &BTreeSet::new());
        let of_port = |changes: &[Change]| {
            let ports = changes.iter().filter_map(Change::as_port);
            ports.cloned().collect::<Vec<PortChange>>()
        };
        (of_port(&parted.applied), of_port(&parted.waiting))
    };
    let (applied, waiting) = parted(PAIRS);
    let [additions] = &applied[..] else {
        panic!("{applied:#?}")
    };
    assert_eq!(texts(&additions.added), ["10.20.7.0/24"]);
    assert_eq!(
        (
            additions.removed.len(),
            additions.hazard(),
            additions.revision
        ),
        (0, Hazard::None, 7)
    );
    let allowed: BTreeSet<&str> = additions
        .pairs
        .iter()
        .map(|pair| pair.ip_address.as_str())
        .collect();
    assert_eq!(
        allowed,
        ["10.20.7.0/24", "10.20.9.0/24", "203.0.113.9"].into()
    );
    assert_eq!(
        (waiting.len(), texts(&waiting[0].removed)),
        (1, vec!["10.20.9.0/24".to_owned()])
    );
    let disruptive = PAIRS.replace("spec: {", "spec: {autoApply: disruptive, ");
    let (applied, waiting) = parted(&disruptive);
    assert_eq!((applied.len(), waiting.len()), (1, 0));
    assert_eq!(texts(&applied[0].removed), ["10.20.9.0/24"]);
}

/// What Pods need does not wait for a refusal that has nothing to do with it.
#[test]
fn additions_are_applied_though_other_changes_are_refused() {
    let no_nodes = PAIRS.replace(
        "spec: {",
        "spec: {rules: [{name: none, expression: \"plan.changes.all(c, c.kind != 'Node')\"}], ",
    );
    let documents = [of_nodes("10.20.0.0/16"), no_nodes];
    let parted = |node: String, pairs: &[&str]| {
        let observed = seen(
            &[node, super::support::node("new", "a", "")],
            vec![port(pairs)],
        );
        let plan = planned(&documents, &observed);
        let parted = unattended(&plan, &desired(&documents), &observed, &BTreeSet::new());
        assert!(!parted.refusals.is_empty(), "{parted:#?}");
        let texts = |changes: &[Change]| {
            let mut texts: Vec<String> =
                changes.iter().map(|one| one.target().to_string()).collect();
            texts.sort();
            texts
        };
        (
            texts(&parted.applied),
            texts(&parted.waiting),
            parted.applied,
        )
    };
    let of_port = format!("Port/{OTHER}");
    let (applied, waiting, changes) = parted(vm("n", "10.20.7.0/24"), &["10.20.9.0/24"]);
    assert_eq!(applied, slice::from_ref(&of_port));
    assert_eq!(waiting, ["Node/new", &of_port]);
    let port = changes[0].as_port().unwrap();
    assert_eq!(
        (texts(&port.added), port.removed.len()),
        (vec!["10.20.7.0/24".to_owned()], 0)
    );
    // The node has no block until the refused change is applied.
    let (applied, waiting, _) = parted(vm("n", ""), &[]);
    assert_eq!((applied.len(), waiting.len()), (0, 3), "{waiting:?}");
}

#[test]
fn one_cause_is_one_finding_for_all_nodes() {
    let vm_of = |index: usize| format!("{index:08x}-9d65-4b7e-8d1e-6f0c1d5a9b11");
    let nodes: Vec<String> = (0..2_000)
        .map(|index| {
            let block = holds(&format!("10.20.{}.{}/28", index / 16, index % 16 * 16));
            let provider = format!("\"providerID\":\"openstack:///{}\",{block}", vm_of(index));
            node(&format!("n{index:04}"), "a", &provider)
        })
        .collect();
    let mut seen = observed(&nodes, &[]);
    let vms = (0..1_990).map(|index| vm_of(index).parse().unwrap());
    seen.ports = Some(
        vms.map(|vm: Id| (vm, Err("no answer in time".to_owned())))
            .collect(),
    );
    let plan = planned(&rack(), &seen);
    let messages = |rule: &str| -> Vec<String> {
        let found = plan
            .findings
            .iter()
            .filter(|finding| finding.rule.0 == rule);
        found.map(|finding| finding.message.clone()).collect()
    };
    assert_eq!(
        messages("address-pairs-unread"),
        ["the ports of the VMs of 1,990 nodes, as of `n0000`, cannot be read: no answer in time"]
    );
    assert_eq!(
        messages("address-pairs-unseen"),
        ["the ports of the VMs of 10 nodes, as of `n1990`, are not read yet"]
    );
}

#[test]
fn doctor_tells_what_ports_lack_and_what_they_allow_without_need() {
    let rules = |observed: &Observed| -> Vec<(Severity, &'static str)> {
        let findings = examine(Some(&desired(&rack())), observed, &[]);
        let of_pairs = findings
            .iter()
            .filter(|finding| finding.rule.0.starts_with("address-pairs-"));
        of_pairs
            .map(|finding| (finding.severity, finding.rule.0))
            .collect()
    };
    let node = vm("n", "10.20.7.0/24");
    let with = |pairs: &[&str]| rules(&seen(slice::from_ref(&node), vec![port(pairs)]));
    let (missing, stale) = (
        (Severity::Error, "address-pairs-missing"),
        (Severity::Warning, "address-pairs-stale"),
    );
    assert_eq!(with(&["10.20.7.0/24", "203.0.113.9"]), []);
    assert_eq!(with(&[]), [missing]);
    assert_eq!(with(&["10.20.7.0/24", "10.20.9.0/24"]), [stale]);
    assert_eq!(with(&["10.20.9.0/24"]), [missing, stale]);
    // Without a block, it has no Pods whose packets could be lost.
    assert_eq!(rules(&seen(&[vm("n", "")], vec![port(&[])])), []);
    let mut unread = seen(slice::from_ref(&node), vec![]);
    unread.ports = Some([(VM.parse().unwrap(), Err("no answer".to_owned()))].into());
    assert_eq!(rules(&unread), [(Severity::Error, "address-pairs-unread")]);
}

/// Virtual addresses of VRRP or BIRD inside a pool: with their own hardware address, or single.
#[test]
fn virtual_addresses_stay() {
    let mut shared = port(&["10.20.6.1", "10.20.6.1/32", "10.20.9.0/24"]);
    let vrrp = json!({"ip_address": "10.20.8.0/24", "mac_address": "00:00:5e:00:01:07"});
    shared.pairs.push(serde_json::from_value(vrrp).unwrap());
    let plan = planned(&rack(), &seen(&[vm("n", "10.20.7.0/24")], vec![shared]));
    assert_eq!(
        change(&plan),
        (
            vec!["10.20.7.0/24".to_owned()],
            vec!["10.20.9.0/24".to_owned()]
        )
    );
    assert_eq!(ports(&plan)[0].pairs.len(), 4);
    // Blocks of one address look the same.
    let single = super::support::pool("rack", "{cidrs: [10.20.6.0/28], blockSize: 32}");
    let held = vm("n", "10.20.6.2/32");
    let plan = planned(
        &documents(&single),
        &seen(&[held], vec![port(&["10.20.6.1"])]),
    );
    assert_eq!(change(&plan), (vec!["10.20.6.2/32".to_owned()], vec![]));
    // Of a pool whose blocks are single addresses, such a pair may have been a block.
    let single = documents(&super::support::pool(
        "rack",
        "{cidrs: [10.20.6.0/24], blockSize: 32}",
    ));
    let observed = seen(
        &[vm("n", "10.20.6.7/32")],
        vec![port(&["10.20.6.1", "10.20.6.7"])],
    );
    let plan = planned(&single, &observed);
    assert!(ports(&plan).is_empty(), "{plan:#?}");
    let kept = finding(&plan, "address-pairs-single-kept");
    assert_eq!(kept.severity, Severity::Info);
}
