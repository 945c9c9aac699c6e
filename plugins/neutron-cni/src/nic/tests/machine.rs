//! A machine of a few lines: its links, one Pod, and runs of the plugin that are killed between two
//! steps.

use std::collections::BTreeSet;

use fastrand::Rng;

use crate::nic::tests::{BOOT, attachment};
use crate::nic::*;

/// A machine with one Pod. In this model the driver of a link is its identity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Machine {
    pub(super) node: Vec<Link>,
    pub(super) pod: Option<Vec<Link>>,
    pub(super) routes: Vec<(String, NodeRoute)>,
    pub(super) record: Option<Record>,
    pub(super) next_index: u32,
}

/// A run was killed.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Killed;

/// A name is in use.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Exists;

/// The number of steps until a run is killed.
pub(super) struct Fuse(pub(super) usize);

impl Fuse {
    fn burn(&mut self) -> Result<(), Killed> {
        self.0 = self.0.checked_sub(1).ok_or(Killed)?;
        Ok(())
    }
}

pub(super) fn link(id: &str, index: u32, kind: Kind) -> Link {
    let mac = Mac([2, 0, 0, 0, 0, u8::try_from(index).unwrap()]);
    let is_device = kind == Kind::Physical;
    Link {
        index,
        name: id.to_owned(),
        other_names: BTreeSet::new(),
        alias: None,
        mtu: 1500,
        mac: Some(mac),
        permanent: is_device.then_some(mac),
        pci: is_device.then(|| format!("0000:00:{index:02x}.0").parse().unwrap()),
        driver: Some(id.to_owned()),
        device: None,
        kind,
        state: State::Down,
        modes: 0,
        master: None,
        below: None,
        is_from_elsewhere: false,
        addresses: Vec::new(),
    }
}

pub(super) fn any_link(id: &str, index: u32, random: &mut Rng) -> (Link, Vec<NodeRoute>) {
    let kind = [Kind::Physical, Kind::Veth, Kind::Tap][random.usize(..3)].clone();
    let mut link = link(id, index, kind);
    link.mtu = [1500, 9000][random.usize(..2)];
    link.alias = random.bool().then(|| "uplink".to_owned());
    link.modes = [0, 0x200][random.usize(..2)];
    if random.bool() {
        link.other_names.insert(format!("enp{index}"));
    }
    if random.bool() {
        // Not its permanent hardware address.
        link.mac = Some(Mac([6, 0, 0, 0, 0, u8::try_from(index).unwrap()]));
    }
    let mut routes = Vec::new();
    if random.bool() {
        link.state = State::Up;
        for host in 0..random.u8(..3) {
            let net = format!("10.{index}.{host}.1/24").parse().unwrap();
            link.addresses.push(NodeAddress {
                flags: 0x80,
                ..NodeAddress::new(net)
            });
        }
        if random.bool() {
            let net = format!("192.0.{index}.0/24").parse().unwrap();
            routes.push(NodeRoute::new(net, crate::nic::link::Gateway::None, None));
        }
    }
    (link, routes)
}

impl Machine {
    pub(super) fn new(random: &mut Rng) -> Machine {
        let mut machine = Machine {
            node: Vec::new(),
            pod: Some(vec![link("lo", 1, Kind::Other("loopback".to_owned()))]),
            routes: Vec::new(),
            record: None,
            next_index: 20,
        };
        for (index, id) in (4..).zip(["nic0", "nic1"]) {
            let (link, routes) = any_link(id, index, random);
            machine.node.push(link);
            machine
                .routes
                .extend(routes.into_iter().map(|route| (id.to_owned(), route)));
        }
        if random.bool() {
            // Has the index of the NIC on the node, and perhaps the name that the NIC gets.
            let name = ["other", "other", "other", "eth0"][random.usize(..4)].to_owned();
            let other = link(
                "other",
                4,
                [Kind::Veth, Kind::Tap][random.usize(..2)].clone(),
            );
            machine.pod.as_mut().unwrap().push(Link {
                mac: Some(Mac([4; 6])),
                name,
                ..other
            });
        }
        machine
    }

    fn at(&mut self, side: Side) -> &mut Vec<Link> {
        match side {
            Side::Node => &mut self.node,
            Side::Pod => self.pod.as_mut().unwrap(),
        }
    }

    /// Like the kernel: a move resets state, addresses and routes, and may change the index.
    fn execute(&mut self, step: &Step) -> Result<(), Exists> {
        match step {
            Step::Change(side, index, change) => return self.change(*side, *index, change),
            Step::Name(side, index, name) => {
                let link = self
                    .at(*side)
                    .iter_mut()
                    .find(|link| link.index == *index)
                    .unwrap();
                assert!(link.other_names.insert(name.clone()), "{link:?} has {name}");
            }
            Step::Unname(side, index, name) => {
                let link = self
                    .at(*side)
                    .iter_mut()
                    .find(|link| link.index == *index)
                    .unwrap();
                assert!(link.other_names.remove(name), "{link:?} has no {name}");
            }
            Step::Address(side, index, address) => {
                let link = self
                    .at(*side)
                    .iter_mut()
                    .find(|link| link.index == *index)
                    .unwrap();
                if !link
                    .addresses
                    .iter()
                    .any(|other| other.address == address.address)
                {
                    link.addresses.push(address.clone());
                }
            }
            Step::Route(side, index, route) => {
                let link = self
                    .at(*side)
                    .iter()
                    .find(|link| link.index == *index)
                    .unwrap();
                assert_eq!(link.state, State::Up, "a link that is off has no routes");
                let of = (link.driver.clone().unwrap(), route.clone());
                if *side == Side::Node && !self.routes.contains(&of) {
                    self.routes.push(of);
                }
            }
        }
        Ok(())
    }

    fn change(&mut self, side: Side, index: u32, change: &Change) -> Result<(), Exists> {
        let Change {
            to,
            name,
            mac,
            mtu,
            alias,
            state,
            modes,
        } = change.clone();
        let at = self
            .at(side)
            .iter()
            .position(|link| link.index == index)
            .unwrap();
        let goes_to = to.unwrap_or(side);
        let mut link = self.at(side).remove(at);
        let is_in_use = |machine: &mut Machine, name: &str| {
            link.other_names.contains(name)
                || machine
                    .at(goes_to)
                    .iter()
                    .any(|other| other.is_called(name))
        };
        let is_called_so = |machine: &mut Machine, name: &String| {
            machine
                .at(goes_to)
                .iter()
                .any(|other| other.is_called(name))
        };
        let keeps_a_taken_name =
            goes_to != side && link.other_names.iter().any(|name| is_called_so(self, name));
        let refuses = name.as_ref().is_some_and(|name| is_in_use(self, name));
        if keeps_a_taken_name || refuses && (goes_to == side || is_in_use(self, &link.name)) {
            self.at(side).push(link);
            return Err(Exists);
        }
        if goes_to != side {
            self.uproot(&mut link);
            if self
                .at(goes_to)
                .iter()
                .any(|other| other.index == link.index)
            {
                self.next_index += 1;
                link.index = self.next_index;
            }
        }
        if refuses {
            // The kernel moves the link before it refuses the name.
            self.at(goes_to).push(link);
            return Err(Exists);
        }
        link.name = name.unwrap_or(link.name);
        link.mac = mac.or(link.mac);
        link.mtu = mtu.unwrap_or(link.mtu);
        if let Some(alias) = alias {
            link.alias = Some(alias).filter(|alias| !alias.is_empty());
        }
        if state == Some(State::Down) && side == Side::Node {
            // IPv4 addresses stay, routes go.
            self.routes
                .retain(|(of, _)| Some(of) != link.driver.as_ref());
        }
        link.state = state.unwrap_or(link.state);
        link.modes = modes.unwrap_or(link.modes);
        self.at(goes_to).push(link);
        Ok(())
    }

    fn uproot(&mut self, link: &mut Link) {
        link.state = State::Down;
        link.addresses.clear();
        self.routes
            .retain(|(of, _)| Some(of) != link.driver.as_ref());
    }

    pub(super) fn add(&mut self, given: &PortConfig, fuse: &mut Fuse) -> Result<(), Killed> {
        if self.record.is_some() {
            self.give_back(fuse)?;
        }
        let Some(link) = self
            .node
            .iter()
            .find(|link| link.driver.as_deref() == Some("nic0"))
        else {
            return Ok(());
        };
        let routes: Vec<NodeRoute> = self
            .routes
            .iter()
            .filter(|(of, _)| of == "nic0")
            .map(|(_, route)| route.clone())
            .collect();
        let taken = TakenNic::new(link, &routes).unwrap();
        let netns = Netns {
            path: "/run/netns/p".into(),
            device: 4,
            inode: 7,
        };
        fuse.burn()?;
        let record = Record::new("net", &attachment(), BOOT, &netns, taken);
        self.record = Some(record.clone());
        if self.pod.is_none() {
            return Ok(());
        }
        for step in move_to_pod(&record, &self.node).unwrap() {
            fuse.burn()?;
            if self.execute(&step) == Err(Exists) {
                return self.give_back(fuse);
            }
        }
        let link = find_moved(&record, &self.node, self.pod.as_ref().unwrap()).unwrap();
        for step in configure(link, given) {
            fuse.burn()?;
            self.execute(&step).unwrap();
        }
        Ok(())
    }

    pub(super) fn give_back(&mut self, fuse: &mut Fuse) -> Result<(), Killed> {
        for _ in 0..4 {
            let Some(record) = self.record.clone() else {
                return Ok(());
            };
            let pod = self.pod.as_deref().map_or(Pod::Gone, Pod::Links);
            let (steps, is_last) = match give_back(&record, &self.node, pod, BOOT) {
                Next::Steps(steps) => (steps, false),
                Next::Last(steps) => (steps, true),
                Next::Forget => (Vec::new(), true),
                Next::Wait => panic!("the kernel gives back at once here"),
            };
            let mut done = Ok(());
            for step in steps {
                fuse.burn()?;
                done = done.and_then(|()| self.execute(&step));
            }
            if is_last && done.is_ok() {
                fuse.burn()?;
                self.record = None;
            }
        }
        panic!("it does not end: {self:?}")
    }

    /// Like the kernel when a namespace is removed (`default_device_exit_net`, `net/core/dev.c` of
    /// Linux).
    pub(super) fn vanish(&mut self) {
        for mut link in self.pod.take().into_iter().flatten() {
            if link.kind != Kind::Physical {
                continue;
            }
            self.uproot(&mut link);
            if self.node.iter().any(|other| other.name == link.name) {
                link.name = format!("dev{}", link.index);
            }
            if self.node.iter().any(|other| other.index == link.index) {
                self.next_index += 1;
                link.index = self.next_index;
            }
            self.node.push(link);
        }
    }

    /// A Pod may change its link in any way. A link without a device keeps one thing to find it by.
    pub(super) fn meddle(&mut self, kept: u64) {
        let Some(link) = self
            .pod
            .iter_mut()
            .flatten()
            .find(|link| link.driver.as_deref() == Some("nic0"))
        else {
            return;
        };
        let kept = if link.kind == Kind::Physical { 3 } else { kept };
        link.name = "mine".to_owned();
        if kept != 1 {
            link.mac = Some(Mac([10; 6]));
        }
        if kept != 2 {
            link.alias = None;
        }
        link.mtu = 1280;
        link.modes ^= 0x100;
        link.other_names = BTreeSet::from(["nic0", "theirs"].map(str::to_owned));
    }

    pub(super) fn now(&self, id: &str) -> Option<(Link, Vec<NodeRoute>)> {
        let mut link = self
            .node
            .iter()
            .find(|link| link.driver.as_deref() == Some(id))?
            .clone();
        link.index = 0;
        link.addresses.sort();
        let mut routes: Vec<_> = self
            .routes
            .iter()
            .filter(|(of, _)| of == id)
            .map(|(_, route)| route.clone())
            .collect();
        routes.sort();
        Some((link, routes))
    }
}
