//! Handovers on a machine of a few lines, whose runs are killed between any two steps, whose Pods
//! meddle with what they got and vanish with it. The oracle is naive: when all is over, each link
//! is what it was.

use std::collections::BTreeSet;

use fastrand::Rng;

use crate::cni::{Address, Attachment, Dns, IpamOutcome, Route, RouteDetail};
use crate::nic::*;

mod choosing;
mod finding;

const BOOT: &str = "this one";

/// A machine with one Pod. A link's driver is its name in this model, which nobody changes.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Machine {
    node: Vec<Link>,
    pod: Option<Vec<Link>>,
    routes: Vec<(String, NodeRoute)>,
    record: Option<Record>,
    next_index: u32,
}

/// A run that ends early.
#[derive(Debug, PartialEq, Eq)]
struct Killed;

/// A name that something else has.
#[derive(Debug, PartialEq, Eq)]
struct Exists;

/// How many steps a run has left.
struct Fuse(usize);

impl Fuse {
    fn burn(&mut self) -> Result<(), Killed> {
        self.0 = self.0.checked_sub(1).ok_or(Killed)?;
        Ok(())
    }
}

fn link(id: &str, index: u32, kind: Kind) -> Link {
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

fn any_link(id: &str, index: u32, random: &mut Rng) -> (Link, Vec<NodeRoute>) {
    let kind = [Kind::Physical, Kind::Veth, Kind::Tap][random.usize(..3)].clone();
    let mut link = link(id, index, kind);
    link.mtu = [1500, 9000][random.usize(..2)];
    link.alias = random.bool().then(|| "uplink".to_owned());
    link.modes = [0, 0x200][random.usize(..2)];
    if random.bool() {
        link.other_names.insert(format!("enp{index}"));
    }
    if random.bool() {
        // Of another hardware address than it was made with.
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
            routes.push(NodeRoute::new(net, link::Gateway::None, None));
        }
    }
    (link, routes)
}

impl Machine {
    fn new(random: &mut Rng) -> Machine {
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
            // Which has the number that the NIC has on the node, and perhaps the name that it gets.
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

    fn at(&mut self, place: Place) -> &mut Vec<Link> {
        match place {
            Place::Node => &mut self.node,
            Place::Pod => self.pod.as_mut().unwrap(),
        }
    }

    /// As the kernel does it: a move takes state, addresses and routes away, and perhaps the
    /// number.
    fn execute(&mut self, step: &Step) -> Result<(), Exists> {
        match step {
            Step::Change(place, index, change) => return self.change(*place, *index, change),
            Step::Name(place, index, name) => {
                let link = self
                    .at(*place)
                    .iter_mut()
                    .find(|link| link.index == *index)
                    .unwrap();
                assert!(link.other_names.insert(name.clone()), "{link:?} has {name}");
            }
            Step::Unname(place, index, name) => {
                let link = self
                    .at(*place)
                    .iter_mut()
                    .find(|link| link.index == *index)
                    .unwrap();
                assert!(link.other_names.remove(name), "{link:?} has no {name}");
            }
            Step::Address(place, index, address) => {
                let link = self
                    .at(*place)
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
            Step::Route(place, index, route) => {
                let link = self
                    .at(*place)
                    .iter()
                    .find(|link| link.index == *index)
                    .unwrap();
                assert_eq!(link.state, State::Up, "a link that is off has no routes");
                let of = (link.driver.clone().unwrap(), route.clone());
                if *place == Place::Node && !self.routes.contains(&of) {
                    self.routes.push(of);
                }
            }
        }
        Ok(())
    }

    fn change(&mut self, place: Place, index: u32, change: &Change) -> Result<(), Exists> {
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
            .at(place)
            .iter()
            .position(|link| link.index == index)
            .unwrap();
        let goes_to = to.unwrap_or(place);
        let mut link = self.at(place).remove(at);
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
            goes_to != place && link.other_names.iter().any(|name| is_called_so(self, name));
        let refuses = name.as_ref().is_some_and(|name| is_in_use(self, name));
        if keeps_a_taken_name || refuses && (goes_to == place || is_in_use(self, &link.name)) {
            self.at(place).push(link);
            return Err(Exists);
        }
        if goes_to != place {
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
            // It was moved all the same.
            self.at(goes_to).push(link);
            return Err(Exists);
        }
        link.name = name.unwrap_or(link.name);
        link.mac = mac.or(link.mac);
        link.mtu = mtu.unwrap_or(link.mtu);
        if let Some(alias) = alias {
            link.alias = Some(alias).filter(|alias| !alias.is_empty());
        }
        if state == Some(State::Down) && place == Place::Node {
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

    fn add(&mut self, given: &Given, fuse: &mut Fuse) -> Result<(), Killed> {
        if self.record.is_some() {
            self.take_back(fuse)?;
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
        let taken = Taken::new(link, &routes).unwrap();
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
        for step in hand_over(&record, &self.node).unwrap() {
            fuse.burn()?;
            if self.execute(&step) == Err(Exists) {
                return self.take_back(fuse);
            }
        }
        let link = find_handed(&record, &self.node, self.pod.as_ref().unwrap()).unwrap();
        for step in configure(link, given) {
            fuse.burn()?;
            self.execute(&step).unwrap();
        }
        Ok(())
    }

    fn take_back(&mut self, fuse: &mut Fuse) -> Result<(), Killed> {
        for _ in 0..4 {
            let Some(record) = self.record.clone() else {
                return Ok(());
            };
            let pod = self.pod.as_deref().map_or(Pod::Gone, Pod::Links);
            let (steps, is_last) = match take_back(&record, &self.node, pod, BOOT) {
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

    /// What the kernel does with what is in a namespace that goes (`default_device_exit_net`,
    /// `net/core/dev.c` of Linux).
    fn vanish(&mut self) {
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

    /// A Pod may do what it likes with its link; of one that is no device, something must be left
    /// to know it by.
    fn meddle(&mut self, kept: u64) {
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

    fn now(&self, id: &str) -> Option<(Link, Vec<NodeRoute>)> {
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

fn attachment() -> Attachment {
    Attachment {
        container: "c".parse().unwrap(),
        interface: "eth0".parse().unwrap(),
    }
}

fn what_is_given() -> Given {
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
    Given {
        outcome,
        mtu: Some(1450),
    }
}

#[test]
fn whatever_is_killed_meddled_with_or_vanishes_all_is_as_it_was() {
    let (mut handed, mut vanished) = (0, 0);
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
                0..4 => machine.add(&what_is_given(), &mut fuse),
                4 | 5 => machine.take_back(&mut fuse),
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
            handed += usize::from(is_in_pod);
            assert!(
                !is_in_pod || machine.record.is_some(),
                "seed {seed}: nothing is in a Pod without a record"
            );
        }
        machine.take_back(&mut Fuse(100)).unwrap();
        let after = ["nic0", "nic1"].map(|id| machine.now(id));
        let is_gone = after[0].is_none() && kind != Kind::Physical && machine.pod.is_none();
        vanished += usize::from(is_gone);
        assert_eq!(
            after[1], before[1],
            "seed {seed}: the other one is left alone"
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
            "seed {seed}: the Pod's own link is left alone"
        );
    }
    assert!(handed > 10_000 && vanished > 500, "{handed} {vanished}");
}

#[test]
fn a_name_that_somebody_took_is_his() {
    let mut random = Rng::with_seed(1);
    let mut machine = Machine {
        pod: Some(Vec::new()),
        ..Machine::new(&mut random)
    };
    machine.add(&what_is_given(), &mut Fuse(100)).unwrap();
    let newcomer = Link {
        name: "nic0".to_owned(),
        ..link("newcomer", 9, Kind::Veth)
    };
    machine.node.push(newcomer);
    machine.take_back(&mut Fuse(100)).unwrap();
    let (back, _) = machine.now("nic0").unwrap();
    assert_eq!(back.name, Mark::new("net", &attachment()).spare_name());
    assert_eq!(machine.now("newcomer").unwrap().0.name, "nic0");
}

#[test]
fn another_name_that_somebody_took_is_his() {
    let mut machine = Machine {
        pod: Some(Vec::new()),
        ..Machine::new(&mut Rng::with_seed(1))
    };
    machine.node[0].other_names = BTreeSet::from(["enp4", "wan"].map(str::to_owned));
    machine.add(&what_is_given(), &mut Fuse(100)).unwrap();
    machine.node.push(Link {
        other_names: BTreeSet::from(["wan".to_owned()]),
        ..link("newcomer", 9, Kind::Veth)
    });
    machine.take_back(&mut Fuse(100)).unwrap();
    let (back, _) = machine.now("nic0").unwrap();
    assert_eq!(
        (back.name.as_str(), back.other_names),
        ("nic0", BTreeSet::from(["enp4".to_owned()]))
    );
}

#[test]
fn a_record_of_an_earlier_run_of_the_system_says_nothing() {
    let mut machine = Machine {
        pod: Some(Vec::new()),
        ..Machine::new(&mut Rng::with_seed(2))
    };
    machine.add(&what_is_given(), &mut Fuse(100)).unwrap();
    let record = machine.record.unwrap();
    assert_eq!(
        take_back(&record, &machine.node, Pod::Gone, "another one"),
        Next::Forget
    );
}
