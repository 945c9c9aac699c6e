//! Moves on a simulated machine: runs are killed between any two steps, Pods change their NICs and
//! vanish with them. The oracle is naive: in the end, each link is what it was.

mod choosing;
mod finding;
mod machine;

use std::collections::BTreeSet;

use fastrand::Rng;

use self::machine::{Fuse, Machine, link};
use crate::cni::{Address, Attachment, Dns, IpamOutcome, Route, RouteDetail};
use crate::nic::*;

const BOOT: &str = "this one";

fn attachment() -> Attachment {
    Attachment {
        container: "c".parse().unwrap(),
        interface: "eth0".parse().unwrap(),
    }
}

fn pod_config() -> PortConfig {
    let address = Address {
        address: "10.0.0.7/24".parse().unwrap(),
        gateway: "10.0.0.1".parse().ok(),
    };
    let route = Route {
        destination: "0.0.0.0/0".parse().unwrap(),
        gateway: None,
        detail: RouteDetail::default(),
    };
    let outcome = IpamOutcome {
        addresses: vec![address],
        routes: vec![route],
        dns: Dns::default(),
    };
    PortConfig {
        outcome,
        mtu: Some(1450),
    }
}

#[test]
fn every_link_is_restored_after_kills_changes_and_removals() {
    let (mut moved, mut vanished) = (0, 0);
    for seed in 0..20_000 {
        let mut random = Rng::with_seed(seed);
        let mut machine = Machine::new(&mut random);
        let before = ["nic0", "nic1"].map(|id| machine.now(id));
        let kind = machine.node[0].kind.clone();
        let of_pod = |machine: &Machine| {
            machine
                .pod
                .iter()
                .flatten()
                .find(|link| link.driver.as_deref() == Some("other"))
                .cloned()
        };
        let other = of_pod(&machine);
        for _ in 0..random.usize(1..6) {
            let mut fuse = Fuse(random.usize(..16));
            let _ = match random.usize(..8) {
                0..4 => machine.add(&pod_config(), &mut fuse),
                4 | 5 => machine.give_back(&mut fuse),
                6 => {
                    machine.meddle(seed % 2 + 1);
                    Ok(())
                }
                _ => {
                    machine.vanish();
                    Ok(())
                }
            };
            let is_in_pod = machine
                .pod
                .iter()
                .flatten()
                .any(|link| link.driver.as_deref() == Some("nic0"));
            moved += usize::from(is_in_pod);
            assert!(
                !is_in_pod || machine.record.is_some(),
                "seed {seed}: a NIC in a Pod has a record"
            );
        }
        machine.give_back(&mut Fuse(100)).unwrap();
        let after = ["nic0", "nic1"].map(|id| machine.now(id));
        let is_gone = after[0].is_none() && kind != Kind::Physical && machine.pod.is_none();
        vanished += usize::from(is_gone);
        assert_eq!(
            after[1], before[1],
            "seed {seed}: the other NIC is untouched"
        );
        assert!(
            is_gone || after[0] == before[0],
            "seed {seed}:\n{:?}\n{:?}",
            after[0],
            before[0]
        );
        assert_eq!(machine.record, None);
        assert!(
            machine.pod.is_none() || of_pod(&machine) == other,
            "seed {seed}: the Pod's own link is untouched"
        );
    }
    assert!(moved > 10_000 && vanished > 500, "{moved} {vanished}");
}

#[test]
fn a_name_in_use_is_not_taken_back() {
    let mut random = Rng::with_seed(1);
    let mut machine = Machine {
        pod: Some(Vec::new()),
        ..Machine::new(&mut random)
    };
    machine.add(&pod_config(), &mut Fuse(100)).unwrap();
    let newcomer = Link {
        name: "nic0".to_owned(),
        ..link("newcomer", 9, Kind::Veth)
    };
    machine.node.push(newcomer);
    machine.give_back(&mut Fuse(100)).unwrap();
    let (back, _) = machine.now("nic0").unwrap();
    assert_eq!(
        back.name,
        AttachmentKey::new("net", &attachment()).spare_name()
    );
    assert_eq!(machine.now("newcomer").unwrap().0.name, "nic0");
}

#[test]
fn an_alternative_name_in_use_is_not_taken_back() {
    let mut machine = Machine {
        pod: Some(Vec::new()),
        ..Machine::new(&mut Rng::with_seed(1))
    };
    machine.node[0].other_names = BTreeSet::from(["enp4", "wan"].map(str::to_owned));
    machine.add(&pod_config(), &mut Fuse(100)).unwrap();
    machine.node.push(Link {
        other_names: BTreeSet::from(["wan".to_owned()]),
        ..link("newcomer", 9, Kind::Veth)
    });
    machine.give_back(&mut Fuse(100)).unwrap();
    let (back, _) = machine.now("nic0").unwrap();
    assert_eq!(
        (back.name.as_str(), back.other_names),
        ("nic0", BTreeSet::from(["enp4".to_owned()]))
    );
}

#[test]
fn a_record_of_an_earlier_boot_is_forgotten() {
    let mut machine = Machine {
        pod: Some(Vec::new()),
        ..Machine::new(&mut Rng::with_seed(2))
    };
    machine.add(&pod_config(), &mut Fuse(100)).unwrap();
    let record = machine.record.unwrap();
    assert_eq!(
        give_back(&record, &machine.node, Pod::Gone, "another one"),
        Next::Forget
    );
}
