//! Own and foreign pairs, and a port that several clients write.

use std::cell::{Cell, RefCell};
use std::net::IpAddr;

use super::*;
use ipam_core::neutron::PortSecurity;

const MAC: &str = "fa:16:3e:00:00:01";
const ID: &str = "782ec9ac-44f9-4318-8c67-a2fed2ccca4f";

fn ranges(texts: &[&str]) -> BTreeSet<IpNet> {
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

fn pair(address: &str, mac: &str) -> Pair {
    Pair {
        ip_address: address.to_owned(),
        mac_address: Some(mac.to_owned()),
    }
}

fn port(pairs: Vec<Pair>) -> VmPort {
    let id: Id = ID.parse().unwrap();
    VmPort {
        id,
        device_id: String::new(),
        device_owner: "compute:nova".to_owned(),
        mac_address: MAC.to_owned(),
        fixed_ips: Vec::new(),
        pairs,
        revision: 1,
        security: PortSecurity::On,
    }
}

fn is_ours(range: &IpNet) -> bool {
    "10.0.0.0/8".parse::<IpNet>().unwrap().contains(range)
}

#[test]
fn foreign_pairs_stay() {
    let theirs = [
        pair("192.0.2.7", MAC),
        pair("10.1.0.0/24", "fa:16:3e:00:00:02"),
        pair("no address", MAC),
        pair("2001:DB8::1", MAC),
    ];
    let stale = pair("10.2.0.0/24", &MAC.to_uppercase());
    let before = port(theirs.iter().cloned().chain([stale]).collect());
    let change = before
        .change(&ranges(&["10.3.0.0/24", "fd00::1/128"]), is_ours)
        .unwrap();
    let new = ["10.3.0.0/24", "fd00::1"].map(|text| Pair {
        ip_address: text.to_owned(),
        mac_address: None,
    });
    assert_eq!(
        change.pairs,
        theirs.into_iter().chain(new).collect::<Vec<_>>()
    );
    assert_eq!(
        (change.added, change.removed),
        (
            ranges(&["10.3.0.0/24", "fd00::1/128"]),
            ranges(&["10.2.0.0/24"])
        )
    );
}

#[test]
fn present_pairs_are_not_written_again() {
    let wanted = ranges(&["10.1.0.0/24", "10.2.0.9/32"]);
    assert_eq!(
        port(vec![pair("10.1.0.0/24", MAC), pair("10.2.0.9", MAC)]).change(&wanted, is_ours),
        None
    );
    let open = VmPort {
        security: PortSecurity::Off,
        ..port(vec![])
    };
    assert_eq!(open.change(&wanted, is_ours), None, "everything gets out");
}

#[test]
fn ports_are_read_as_neutron_writes_them() {
    let text = format!(
        r#"{{"id":"{ID}","network_id":"{ID}","mac_address":"{MAC}","revision_number":7,"port_security_enabled":false,
            "allowed_address_pairs":[{{"ip_address":"10.1.0.0/24","mac_address":"{MAC}"}}]}}"#
    );
    let read: VmPort = serde_json::from_str(&text).unwrap();
    assert_eq!(
        (read.revision, read.security, read.pairs.len()),
        (7, PortSecurity::Off, 1)
    );
}

/// A Neutron where another client writes before each of our first writes.
struct Busy {
    port: RefCell<VmPort>,
    others: Cell<u32>,
    silent: Cell<u32>,
    attempts: u32,
    most: usize,
}

impl VmPorts for Busy {
    fn vm_port(&self, _: &Id) -> Result<VmPort, NeutronError> {
        Ok(self.port.borrow().clone())
    }

    fn vm_ports_with_mac(&self, _: &str) -> Result<Vec<VmPort>, NeutronError> {
        Ok(vec![self.port.borrow().clone()])
    }

    fn replace_pairs(&self, _: &Id, pairs: &[Pair], revision: u64) -> Result<(), NeutronError> {
        let mut port = self.port.borrow_mut();
        if self.others.get() > 0 {
            self.others.set(self.others.get() - 1);
            port.revision += 1;
            let next = port.pairs.len();
            port.pairs.push(pair(&format!("192.0.2.{next}"), MAC));
        }
        if pairs.len() > self.most {
            return Err(NeutronError::TooManyPairs);
        }
        if port.revision != revision {
            return Err(NeutronError::Changed);
        }
        port.revision += 1;
        port.pairs = pairs.to_vec();
        if self.silent.get() > 0 {
            self.silent.set(self.silent.get() - 1);
            return Err(NeutronError::Unavailable("no answer in time".to_owned()));
        }
        Ok(())
    }
}

impl Retries for Busy {
    fn next_attempt(&self, failed: u32) -> NextAttempt {
        if failed < self.attempts {
            NextAttempt::Now
        } else {
            NextAttempt::Never
        }
    }
}

fn busy(others: u32, silent: u32, attempts: u32) -> Busy {
    Busy {
        port: RefCell::new(port(vec![])),
        others: Cell::new(others),
        silent: Cell::new(silent),
        attempts,
        most: 100,
    }
}

#[test]
fn concurrent_writes_are_not_lost() {
    let (id, wanted) = (ID.parse().unwrap(), ranges(&["10.1.0.0/24"]));
    let neutron = busy(5, 0, 10);
    assert!(matches!(
        keep_pairs(&neutron, &id, &wanted, is_ours),
        Ok(PairsOutcome::Changed(_))
    ));
    assert_eq!(
        neutron.port.borrow().pairs.len(),
        6,
        "five of theirs and ours"
    );
    assert_eq!(
        keep_pairs(&neutron, &id, &wanted, is_ours),
        Ok(PairsOutcome::Unchanged)
    );
    assert_eq!(
        keep_pairs(&busy(9, 0, 3), &id, &wanted, is_ours),
        Err(NeutronError::Changed)
    );
}

#[test]
fn after_a_lost_answer_the_port_is_read_again() {
    let (id, wanted) = (ID.parse().unwrap(), ranges(&["10.1.0.0/24"]));
    let neutron = busy(0, 1, 10);
    let Ok(PairsOutcome::Changed(change)) = keep_pairs(&neutron, &id, &wanted, is_ours) else {
        panic!()
    };
    assert_eq!(change.added, wanted);
    assert_eq!(neutron.port.borrow().pairs.len(), 1);
}

#[test]
fn as_many_pairs_are_added_as_neutron_allows_and_the_others_reported() {
    let id = ID.parse().unwrap();
    let wanted: BTreeSet<IpNet> = (1..=9u8)
        .map(|last| IpNet::from(IpAddr::from([10, 0, 0, last])))
        .collect();
    for most in 0..=9 {
        let neutron = Busy {
            most,
            ..busy(0, 0, 10)
        };
        let kept = keep_pairs(&neutron, &id, &wanted, is_ours).unwrap();
        // Each look adds what fits of the half that it failed, until nothing does.
        let mut looks = 1;
        while keep_pairs(&neutron, &id, &wanted, is_ours).unwrap() != kept && looks < 9 {
            looks += 1;
        }
        let last = keep_pairs(&neutron, &id, &wanted, is_ours).unwrap();
        let port = neutron.port.borrow();
        assert!(port.pairs.len() <= most);
        match last {
            PairsOutcome::LimitReached(missing) => {
                assert_eq!(missing.len() + port.pairs.len(), 9, "{most}")
            }
            PairsOutcome::Unchanged => assert_eq!(port.pairs.len(), 9),
            PairsOutcome::Changed(_) => panic!("{most}"),
        }
    }
}
