//! A Neutron of a few lines whose answers get lost: before a request is done, after it, or long
//! before it is done.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;

use crate::commands::*;
use ipam_core::neutron::{Id, PortAddress as Address};
use openstack::{Network, NetworkFacts, NewPort, NextAttempt, Retries, Subnet, Wanted};

pub(super) const NETWORKS: [&str; 2] = [
    "782ec9ac-44f9-4318-8c67-a2fed2ccca4f",
    "882ec9ac-44f9-4318-8c67-a2fed2ccca4f",
];

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Role {
    ChoosesMacs,
    MayNotChooseMacs,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Response {
    Answered,
    LostBefore,
    LostAfter,
    /// Done after this number of further requests.
    Late(u32),
}

/// A port with the hardware address of its creation.
pub(super) type Made = (Port, Option<String>);

pub(super) struct Simulated {
    role: Role,
    /// Number of addresses of each network.
    sizes: [usize; 2],
    made: RefCell<Vec<Made>>,
    /// Creations under way, with the number of the request before which they arrive.
    pub(super) late: RefCell<Vec<(u32, Made)>>,
    requests: Cell<u32>,
    count: Cell<u32>,
    /// Number of pauses that are left.
    pub(super) waits: Cell<u32>,
    rng: RefCell<fastrand::Rng>,
    /// Percentage of answers that get lost.
    lost: u32,
}

impl Simulated {
    pub(super) fn new(role: Role, sizes: [usize; 2], seed: u64, lost: u32) -> Simulated {
        Simulated {
            role,
            sizes,
            made: RefCell::default(),
            late: RefCell::default(),
            requests: Cell::new(0),
            count: Cell::new(0),
            waits: Cell::new(5),
            rng: RefCell::new(fastrand::Rng::with_seed(seed)),
            lost,
        }
    }

    fn response(&self) -> Response {
        self.requests.set(self.requests.get() + 1);
        let arrived: Vec<Made> = {
            let mut late = self.late.borrow_mut();
            let (now, later) = late
                .drain(..)
                .partition(|(at, _)| *at <= self.requests.get());
            *late = later;
            let now: Vec<(u32, Made)> = now;
            now.into_iter().map(|(_, made)| made).collect()
        };
        for made in arrived {
            let _ = self.keep(made);
        }
        let mut rng = self.rng.borrow_mut();
        if rng.u32(..100) >= self.lost {
            return Response::Answered;
        }
        match rng.u32(..3) {
            0 => Response::LostBefore,
            1 => Response::LostAfter,
            _ => Response::Late(rng.u32(1..4)),
        }
    }

    pub(super) fn keep(&self, (mut port, mac): Made) -> Result<Port, NeutronError> {
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

    pub(super) fn ports_now(&self) -> Vec<Port> {
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

impl Retries for Simulated {
    fn next_attempt(&self, _: u32) -> NextAttempt {
        match self.waits.get().checked_sub(1) {
            Some(left) => {
                self.waits.set(left);
                NextAttempt::Now
            }
            None => NextAttempt::Never,
        }
    }
}

impl Neutron for Simulated {
    fn create_port(&self, port: &NewPort<'_>) -> Result<Port, NeutronError> {
        let response = self.response();
        if self.role == Role::MayNotChooseMacs && port.mac.is_some() {
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
            project_id: String::new(),
            device_id: port.device.to_owned(),
            device_owner: port.owner.to_owned(),
            name: port.name.to_owned(),
            description: port.description.to_owned(),
            mac_address: port.mac.clone().unwrap_or_default(),
            fixed_ips: Vec::new(),
            created_at: format!("{:08}", self.count.get()),
        };
        match response {
            Response::Answered => self.keep((made, port.mac.clone())),
            Response::LostBefore => lost(),
            Response::LostAfter => self.keep((made, port.mac.clone())).and_then(|_| lost()),
            Response::Late(after) => {
                let at = self.requests.get() + after;
                self.late.borrow_mut().push((at, (made, port.mac.clone())));
                lost()
            }
        }
    }

    fn ports(&self, filter: &PortFilter<'_>) -> Result<Vec<Port>, NeutronError> {
        if self.response() != Response::Answered {
            return lost();
        }
        // Like a database that does not tell `A` from `a`.
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
        let response = self.response();
        if response != Response::LostBefore {
            self.made.borrow_mut().retain(|(port, _)| port.id != *id);
        }
        if response == Response::Answered {
            Ok(())
        } else {
            lost()
        }
    }
}

impl NetworkFacts for Simulated {
    fn subnet(&self, _: &Id) -> Result<Subnet, NeutronError> {
        if self.response() != Response::Answered {
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
