//! The verbs against a Neutron of a few lines whose answers get lost: before something is done,
//! after it, or long before it is done.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;

use crate::cni::{Arguments, Attachment, ErrorCode};
use crate::commands::*;
use crate::identity::RunId;
use crate::settings::{AttachmentRequest, Settings};
use ipam_core::neutron::{Id, PortAddress as Address};
use openstack::{Network, NetworkFacts, NewPort, Patience, Subnet, Verdict, Wanted};

const NETWORKS: [&str; 2] = [
    "782ec9ac-44f9-4318-8c67-a2fed2ccca4f",
    "882ec9ac-44f9-4318-8c67-a2fed2ccca4f",
];

/// What the role allows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Role {
    Macs,
    NoMacs,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    Fine,
    LostBefore,
    LostAfter,
    /// Done when so many further questions were answered.
    Late(u32),
}

/// A port with the hardware address that it was made with.
type Made = (Port, Option<String>);

struct Simulated {
    role: Role,
    /// Addresses that each network has.
    sizes: [usize; 2],
    made: RefCell<Vec<Made>>,
    /// What is still on its way, with the number of the question before which it arrives.
    late: RefCell<Vec<(u32, Made)>>,
    questions: Cell<u32>,
    count: Cell<u32>,
    /// How often somebody may wait yet.
    patience: Cell<u32>,
    rng: RefCell<fastrand::Rng>,
    /// Of a hundred answers so many get lost.
    lost: u32,
}

impl Simulated {
    fn new(role: Role, sizes: [usize; 2], seed: u64, lost: u32) -> Simulated {
        Simulated {
            role,
            sizes,
            made: RefCell::default(),
            late: RefCell::default(),
            questions: Cell::new(0),
            count: Cell::new(0),
            patience: Cell::new(5),
            rng: RefCell::new(fastrand::Rng::with_seed(seed)),
            lost,
        }
    }

    fn fate(&self) -> Fate {
        self.questions.set(self.questions.get() + 1);
        let arrived: Vec<Made> = {
            let mut late = self.late.borrow_mut();
            let (now, later) = late
                .drain(..)
                .partition(|(at, _)| *at <= self.questions.get());
            *late = later;
            let now: Vec<(u32, Made)> = now;
            now.into_iter().map(|(_, made)| made).collect()
        };
        for made in arrived {
            let _ = self.keep(made);
        }
        let mut rng = self.rng.borrow_mut();
        if rng.u32(..100) >= self.lost {
            return Fate::Fine;
        }
        match rng.u32(..3) {
            0 => Fate::LostBefore,
            1 => Fate::LostAfter,
            _ => Fate::Late(rng.u32(1..4)),
        }
    }

    fn keep(&self, (mut port, mac): Made) -> Result<Port, NeutronError> {
        let mut made = self.made.borrow_mut();
        let on_same: Vec<&Made> = made
            .iter()
            .filter(|(other, _)| other.network_id == port.network_id)
            .collect();
        if mac.is_some() && on_same.iter().any(|(_, other)| *other == mac) {
            return Err(NeutronError::MacInUse);
        }
        let index = NETWORKS
            .iter()
            .position(|id| *id == port.network_id.to_string())
            .unwrap();
        let taken: BTreeSet<_> = on_same
            .iter()
            .flat_map(|(other, _)| &other.fixed_ips)
            .map(|ip| ip.ip_address)
            .collect();
        let free =
            (2..).map(|host| std::net::IpAddr::from([10, u8::try_from(index).unwrap(), 0, host]));
        let address = free
            .take(self.sizes[index])
            .find(|address| !taken.contains(address));
        let address = address.ok_or(NeutronError::Exhausted)?;
        port.fixed_ips = vec![Address {
            subnet_id: port.network_id.clone(),
            ip_address: address,
        }];
        made.push((port.clone(), mac));
        Ok(port)
    }

    fn ports_now(&self) -> Vec<Port> {
        self.made
            .borrow()
            .iter()
            .map(|(port, _)| port.clone())
            .collect()
    }
}

fn lost<T>() -> Result<T, NeutronError> {
    Err(NeutronError::Unavailable("lost".to_owned()))
}

impl Patience for Simulated {
    fn again(&self, _: u32) -> Verdict {
        match self.patience.get().checked_sub(1) {
            Some(left) => {
                self.patience.set(left);
                Verdict::Again
            }
            None => Verdict::Over,
        }
    }
}

impl Neutron for Simulated {
    fn create_port(&self, port: &NewPort<'_>) -> Result<Port, NeutronError> {
        let fate = self.fate();
        if self.role == Role::NoMacs && port.mac.is_some() {
            return Err(NeutronError::Forbidden("mac_address".to_owned()));
        }
        assert!(
            port.wanted
                .iter()
                .all(|wanted| matches!(wanted, Wanted::Subnet(_)))
        );
        self.count.set(self.count.get() + 1);
        let made = Port {
            id: format!("00000000-0000-4000-8000-{:012x}", self.count.get())
                .parse()
                .unwrap(),
            network_id: port.network.clone(),
            device_id: port.device.to_owned(),
            device_owner: port.owner.to_owned(),
            name: port.name.to_owned(),
            description: port.description.to_owned(),
            mac_address: port.mac.clone().unwrap_or_default(),
            fixed_ips: Vec::new(),
            created_at: format!("{:08}", self.count.get()),
        };
        match fate {
            Fate::Fine => self.keep((made, port.mac.clone())),
            Fate::LostBefore => lost(),
            Fate::LostAfter => self.keep((made, port.mac.clone())).and_then(|_| lost()),
            Fate::Late(after) => {
                let at = self.questions.get() + after;
                self.late.borrow_mut().push((at, (made, port.mac.clone())));
                lost()
            }
        }
    }

    fn ports(&self, filter: &PortFilter<'_>) -> Result<Vec<Port>, NeutronError> {
        if self.fate() != Fate::Fine {
            return lost();
        }
        // As a database does that takes `A` for `a`.
        let is_meant = |wanted: Option<&str>, has: &str| {
            wanted.is_none_or(|wanted| wanted.eq_ignore_ascii_case(has))
        };
        let mut ports = self.ports_now();
        ports.retain(|port| {
            is_meant(filter.name, &port.name)
                && is_meant(filter.device, &port.device_id)
                && is_meant(filter.owner, &port.device_owner)
                && is_meant(filter.mac, &port.mac_address)
        });
        Ok(ports)
    }

    fn delete_port(&self, id: &Id) -> Result<(), NeutronError> {
        let fate = self.fate();
        if fate != Fate::LostBefore {
            self.made.borrow_mut().retain(|(port, _)| port.id != *id);
        }
        if fate == Fate::Fine { Ok(()) } else { lost() }
    }
}

impl NetworkFacts for Simulated {
    fn subnet(&self, _: &Id) -> Result<Subnet, NeutronError> {
        if self.fate() != Fate::Fine {
            return lost();
        }
        let range = "10.0.0.0/8".parse().unwrap();
        let network = NETWORKS[0].parse().unwrap();
        Ok(Subnet {
            network,
            range,
            gateway: None,
            routes: Vec::new(),
            nameservers: Vec::new(),
        })
    }

    fn network(&self, _: &Id) -> Result<Network, NeutronError> {
        Ok(Network { mtu: None })
    }
}

fn request(networks: &[&str]) -> AttachmentRequest {
    let openstack = serde_json::json!({"username": "u", "password": "p", "project": "k", "domain": "d", "authUrl": "http://k"});
    let ipam = serde_json::json!({"openstackConf": openstack, "networks": networks});
    let written = serde_json::json!({"cniVersion": "1.1.0", "name": "net", "ipam": ipam});
    Settings::read(written.to_string().as_bytes())
        .unwrap()
        .request(&Arguments::default())
        .unwrap()
}

fn attachment(container: &str) -> Attachment {
    Attachment {
        container: container.parse().unwrap(),
        interface: "eth0".parse().unwrap(),
    }
}

fn identity(container: &str) -> Identity {
    Identity::new("node", "net", &attachment(container))
}

fn add_once(
    neutron: &Simulated,
    networks: &[&str],
    container: &str,
    run: u64,
) -> Result<BTreeSet<String>, NotAdded> {
    neutron.patience.set(5);
    let added = add(
        neutron,
        neutron,
        &request(networks),
        &identity(container),
        &RunId::new(run),
    )?;
    Ok(added
        .outcome
        .addresses
        .iter()
        .map(|one| one.address.addr().to_string())
        .collect())
}

fn of_container(neutron: &Simulated, container: &str) -> Vec<Port> {
    neutron
        .ports_now()
        .into_iter()
        .filter(|port| identity(container).is_of(port))
        .collect()
}

#[test]
fn an_add_is_one_port_however_often_it_is_asked() {
    for role in [Role::Macs, Role::NoMacs] {
        let neutron = Simulated::new(role, [10, 10], 0, 0);
        let first = add_once(&neutron, &NETWORKS, "c", 1).unwrap();
        assert_eq!(add_once(&neutron, &NETWORKS, "c", 2).unwrap(), first);
        assert_eq!(neutron.ports_now().len(), 1);
        assert_ne!(
            add_once(&neutron, &NETWORKS, "C", 3).unwrap(),
            first,
            "another letter is another container"
        );
        assert_eq!(neutron.ports_now().len(), 2);
        delete(&neutron, &identity("c")).unwrap();
        delete(&neutron, &identity("c")).unwrap();
        assert_eq!(of_container(&neutron, "C").len(), 1);
        assert_eq!(neutron.ports_now().len(), 1, "and only its own is freed");
    }
}

#[test]
fn the_next_network_is_tried_when_one_is_full_and_a_second_add_stays_there() {
    let neutron = Simulated::new(Role::Macs, [1, 1], 0, 0);
    add_once(&neutron, &NETWORKS, "a", 1).unwrap();
    let on_second = add_once(&neutron, &NETWORKS, "b", 2).unwrap();
    assert_eq!(on_second, BTreeSet::from(["10.1.0.2".to_owned()]));
    let full = add_once(&neutron, &NETWORKS, "c", 3).unwrap_err();
    assert_eq!(
        (full.error.code, full.left),
        (ErrorCode::TryAgainLater, Left::Nothing)
    );
    delete(&neutron, &identity("a")).unwrap();
    assert_eq!(add_once(&neutron, &NETWORKS, "b", 4).unwrap(), on_second);
    assert_eq!(neutron.ports_now().len(), 1);
}

#[test]
fn a_hardware_address_that_somebody_else_has_is_left_to_him() {
    let neutron = Simulated::new(Role::Macs, [10, 10], 0, 0);
    let foreign = identity("c").mac(0);
    let port = Port {
        device_id: "router".to_owned(),
        ..of_somebody(NETWORKS[0])
    };
    neutron.keep((port, Some(foreign))).unwrap();
    let given = add_once(&neutron, &NETWORKS[..1], "c", 1).unwrap();
    assert_eq!(add_once(&neutron, &NETWORKS[..1], "c", 2).unwrap(), given);
    assert_eq!(
        (neutron.ports_now().len(), of_container(&neutron, "c").len()),
        (2, 1)
    );
    delete(&neutron, &identity("c")).unwrap();
    assert_eq!(neutron.ports_now().len(), 1);
}

fn of_somebody(network: &str) -> Port {
    Port {
        id: "10000000-0000-4000-8000-000000000000".parse().unwrap(),
        network_id: network.parse().unwrap(),
        device_id: String::new(),
        device_owner: "network:router_interface".to_owned(),
        name: String::new(),
        description: String::new(),
        mac_address: String::new(),
        fixed_ips: Vec::new(),
        created_at: String::new(),
    }
}

#[test]
fn garbage_is_what_no_attachment_has() {
    let neutron = Simulated::new(Role::Macs, [10, 10], 0, 0);
    for (run, container) in ["a", "b", "c"].into_iter().enumerate() {
        add_once(&neutron, &NETWORKS, container, run as u64).unwrap();
    }
    let name = Identity::name_of("node", "net");
    let valid = BTreeSet::from([attachment("b")]);
    assert_eq!(
        collect_garbage(&neutron, &Identity::name_of("NODE", "net"), &valid).unwrap(),
        Collected::default()
    );
    assert_eq!(
        collect_garbage(&neutron, &name, &valid)
            .unwrap()
            .removed
            .len(),
        2
    );
    assert_eq!(of_container(&neutron, "b").len(), 1);
}

#[test]
fn whatever_gets_lost_there_is_one_port_or_none() {
    let (mut succeeded, mut told) = (0, 0);
    for seed in 0..6_000 {
        let role = if seed % 2 == 0 {
            Role::Macs
        } else {
            Role::NoMacs
        };
        let networks = if seed % 3 == 0 {
            &NETWORKS[..1]
        } else {
            &NETWORKS[..]
        };
        let neutron = Simulated::new(role, [2, 3], seed, 25);
        let context =
            |what: &str| format!("seed {seed} {role:?}: {what}: {:?}", neutron.ports_now());
        let mut given = None;
        for run in 0..3 {
            match add_once(&neutron, networks, "c", run) {
                Ok(addresses) => {
                    let again = given.get_or_insert_with(|| addresses.clone());
                    assert_eq!(
                        *again,
                        addresses,
                        "{}",
                        context("the same address each time")
                    );
                    succeeded += 1;
                    assert!(
                        !of_container(&neutron, "c").is_empty(),
                        "{}",
                        context("it has its port")
                    );
                }
                Err(not) => {
                    let mine = of_container(&neutron, "c");
                    let description = RunId::new(run).to_string();
                    let of_run = |port: &Port| port.description == description;
                    let left = mine.iter().filter(|port| of_run(port)).count();
                    let late = neutron
                        .late
                        .borrow()
                        .iter()
                        .filter(|(_, (port, _))| of_run(port))
                        .count();
                    let is_told = not.left == Left::Perhaps;
                    told += usize::from(is_told);
                    assert!(
                        is_told || left + late == 0,
                        "{}",
                        context("a failed run leaves nothing, or says so")
                    );
                    if given.is_some() {
                        assert!(
                            !mine.is_empty(),
                            "{}",
                            context("nor takes what an earlier one gave")
                        );
                    }
                }
            }
            if role == Role::Macs && networks.len() == 1 {
                assert!(
                    of_container(&neutron, "c").len() <= 1,
                    "{}",
                    context("hardware addresses collide")
                );
            }
        }
        // What is on its way arrives, and when all is quiet nothing stays.
        for _ in 0..6 {
            neutron.patience.set(1_000);
            let _ = delete(&neutron, &identity("c"));
        }
        assert_eq!(neutron.ports_now(), [], "seed {seed}");
    }
    assert!(succeeded > 10_000 && told > 20, "{succeeded} {told}");
}
