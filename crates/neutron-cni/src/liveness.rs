//! Whether the interface that a port was made for still lives, by what the node knows. A port that
//! is deleted too early is an address that two have, so whatever is not known is taken for life.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use crate::cni::Attachment;
use ipam_core::neutron::Id;
use openstack::Port;

/// So far the clocks of Neutron and of the node may be apart.
const CLOCKS_APART: SignedDuration = SignedDuration::from_mins(10);

/// What is known of an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Liveness {
    /// It is there, or may be.
    Possible,
    /// It is gone for certain.
    Over,
}

/// What the runtimes of the node remember (libcni's cache, which has a file for each interface that
/// was added and not deleted).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Remembered {
    /// Interfaces.
    pub attachments: BTreeSet<Attachment>,
    /// Addresses that they were given.
    pub addresses: BTreeSet<IpAddr>,
}

/// When things began on this node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Epochs {
    /// The kernel: no interface is older.
    pub boot: Timestamp,
    /// The files that the plugin keeps; `None` while there are none. What was made before may have
    /// left no trace in them.
    pub files: Option<Timestamp>,
}

/// What an ADD left in the plugin's files before it asked for anything; its DEL takes it away at
/// last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttachmentRecord {
    /// When.
    pub boot: Boot,
    /// The network namespace that was named.
    pub netns: Netns,
}

/// Since which start of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Boot {
    /// It still runs.
    This,
    /// Nothing of it is left.
    Earlier,
}

/// A network namespace that was named by a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Netns {
    /// There is something.
    There,
    /// There is nothing any more, in a folder that is there.
    Gone,
    /// It cannot be seen from here.
    OutOfSight,
}

impl Remembered {
    /// Of a port for an interface of its own.
    pub fn life_of_port(
        &self,
        port: &Port,
        trace: Option<AttachmentRecord>,
        epochs: &Epochs,
    ) -> Liveness {
        let is_remembered = self
            .attachments
            .iter()
            .any(|attachment| attachment.to_string() == port.device_id);
        match trace {
            _ if is_remembered || self.has_address_of(port) => Liveness::Possible,
            Some(trace) => trace.liveness(),
            None => life_by_age(port, epochs),
        }
    }

    /// Of an interface that has this port of the pool.
    pub fn life_of_holder(
        &self,
        holder: &Attachment,
        port: &Port,
        trace: Option<AttachmentRecord>,
    ) -> Liveness {
        match trace {
            _ if self.attachments.contains(holder) || self.has_address_of(port) => {
                Liveness::Possible
            }
            Some(trace) => trace.liveness(),
            // Each leaves its trace before it takes, so the traces were lost.
            None => Liveness::Possible,
        }
    }

    /// Of whoever may have a port of the pool that no file knows.
    pub fn life_behind_unknown(&self, port: &Port, epochs: &Epochs) -> Liveness {
        if self.has_address_of(port) {
            Liveness::Possible
        } else {
            life_by_age(port, epochs)
        }
    }

    fn has_address_of(&self, port: &Port) -> bool {
        port.fixed_ips
            .iter()
            .any(|fixed| self.addresses.contains(&fixed.ip_address))
    }
}

impl AttachmentRecord {
    fn liveness(self) -> Liveness {
        let is_over = self.boot == Boot::Earlier || self.netns == Netns::Gone;
        if is_over {
            Liveness::Over
        } else {
            Liveness::Possible
        }
    }
}

/// Of something without a trace: nothing survives the kernel, and what was made after the files
/// began would have left one until its DEL.
fn life_by_age(port: &Port, epochs: &Epochs) -> Liveness {
    let Ok(created) = port.created_at.parse::<Timestamp>() else {
        return Liveness::Possible;
    };
    let is_before_boot = created
        < epochs
            .boot
            .saturating_sub(CLOCKS_APART)
            .unwrap_or(Timestamp::MIN);
    let is_after =
        |files: Timestamp| created > files.saturating_add(CLOCKS_APART).unwrap_or(Timestamp::MAX);
    if is_before_boot || epochs.files.is_some_and(is_after) {
        Liveness::Over
    } else {
        Liveness::Possible
    }
}

/// Ports that look abandoned, and since when. One look is not enough: an ADD or a DEL may be under
/// way.
#[derive(Clone, Debug, Default)]
pub struct GarbageCandidates(BTreeMap<Id, Duration>);

impl GarbageCandidates {
    /// Those that looked so in each look for as long as `grace`. `now` is of a clock that nobody
    /// sets.
    pub fn ripe(
        &mut self,
        seen: impl IntoIterator<Item = Id>,
        now: Duration,
        grace: Duration,
    ) -> BTreeSet<Id> {
        let before = std::mem::take(&mut self.0);
        self.0 = seen
            .into_iter()
            .map(|id| (id.clone(), before.get(&id).copied().unwrap_or(now)))
            .collect();
        // At least two looks, however short the time.
        let is_ripe = |(id, since): &(&Id, &Duration)| {
            before.contains_key(*id) && now.saturating_sub(**since) >= grace
        };
        self.0
            .iter()
            .filter(is_ripe)
            .map(|(id, _)| id.clone())
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::identity::Owner;
    use ipam_core::neutron::PortAddress as Address;

    const ID: &str = "782ec9ac-44f9-4318-8c67-a2fed2ccca4f";

    fn at(text: &str) -> Timestamp {
        format!("2026-11-23T{text}:00Z").parse().unwrap()
    }

    fn port(created: &str) -> Port {
        let id: Id = ID.parse().unwrap();
        let address = Address {
            subnet_id: id.clone(),
            ip_address: "10.0.0.7".parse().unwrap(),
        };
        Port {
            id: id.clone(),
            network_id: id,
            device_id: "c/eth0".to_owned(),
            device_owner: Owner::Pod.as_str().to_owned(),
            mac_address: String::new(),
            name: "n1/pods".to_owned(),
            description: String::new(),
            fixed_ips: vec![address],
            created_at: created.to_owned(),
        }
    }

    fn holder() -> Attachment {
        Attachment {
            container: "c".parse().unwrap(),
            interface: "eth0".parse().unwrap(),
        }
    }

    fn epochs(files: Option<&str>) -> Epochs {
        Epochs {
            boot: at("10:00"),
            files: files.map(at),
        }
    }

    fn trace(boot: Boot, netns: Netns) -> Option<AttachmentRecord> {
        Some(AttachmentRecord { boot, netns })
    }

    #[test]
    fn what_a_runtime_remembers_lives() {
        let by_name = Remembered {
            attachments: [holder()].into(),
            ..Remembered::default()
        };
        let by_address = Remembered {
            addresses: ["10.0.0.7".parse().unwrap()].into(),
            ..Remembered::default()
        };
        let (old, over) = (
            port("2026-11-23T01:00:00Z"),
            trace(Boot::Earlier, Netns::Gone),
        );
        for remembered in [&by_name, &by_address] {
            assert_eq!(
                remembered.life_of_port(&old, over, &epochs(Some("00:30"))),
                Liveness::Possible
            );
            assert_eq!(
                remembered.life_of_holder(&holder(), &old, over),
                Liveness::Possible
            );
        }
        assert_eq!(
            by_address.life_behind_unknown(&old, &epochs(None)),
            Liveness::Possible
        );
    }

    #[test]
    fn a_trace_tells_by_its_network_namespace_and_by_the_boot() {
        let nothing = Remembered::default();
        let young = port("2026-11-23T11:00:00Z");
        let liveness = |trace| {
            let liveness = nothing.life_of_port(&young, trace, &epochs(Some("08:00")));
            assert_eq!(nothing.life_of_holder(&holder(), &young, trace), liveness);
            liveness
        };
        assert_eq!(
            liveness(trace(Boot::This, Netns::There)),
            Liveness::Possible
        );
        assert_eq!(
            liveness(trace(Boot::This, Netns::OutOfSight)),
            Liveness::Possible
        );
        assert_eq!(liveness(trace(Boot::This, Netns::Gone)), Liveness::Over);
        assert_eq!(
            liveness(trace(Boot::Earlier, Netns::There)),
            Liveness::Over,
            "another container has that name now"
        );
        assert_eq!(
            nothing.life_of_holder(&holder(), &young, None),
            Liveness::Possible
        );
    }

    #[test]
    fn without_a_trace_age_tells_and_doubt_is_life() {
        let liveness = |created: &str, files| {
            Remembered::default().life_of_port(&port(created), None, &epochs(files))
        };
        assert_eq!(
            liveness("2026-11-23T09:45:00Z", None),
            Liveness::Over,
            "before the boot"
        );
        assert_eq!(
            liveness("2026-11-23T09:55:00Z", None),
            Liveness::Possible,
            "clocks may be apart"
        );
        assert_eq!(
            liveness("2026-11-23T11:00:00Z", Some("10:30")),
            Liveness::Over,
            "it would have left a trace"
        );
        assert_eq!(
            liveness("2026-11-23T11:00:00Z", Some("10:55")),
            Liveness::Possible
        );
        assert_eq!(
            liveness("2026-11-23T11:00:00Z", Some("12:00")),
            Liveness::Possible,
            "the files were lost since"
        );
        assert_eq!(liveness("2026-11-23T11:00:00Z", None), Liveness::Possible);
        assert_eq!(liveness("soon", Some("10:30")), Liveness::Possible);
    }

    #[test]
    fn only_what_looks_so_all_the_time_is_ripe() {
        let (id, grace) = (ID.parse::<Id>().unwrap(), Duration::from_secs(60));
        let mut garbage_candidates = GarbageCandidates::default();
        let mut look = |seen: bool, now: u64| {
            !garbage_candidates
                .ripe(seen.then(|| id.clone()), Duration::from_secs(now), grace)
                .is_empty()
        };
        assert_eq!(
            [look(true, 0), look(true, 30), look(true, 60)],
            [false, false, true]
        );
        assert_eq!(
            [
                look(false, 70),
                look(true, 80),
                look(true, 139),
                look(true, 140)
            ],
            [false, false, false, true]
        );
        let mut hasty = GarbageCandidates::default();
        assert!(
            hasty
                .ripe([id.clone()], Duration::ZERO, Duration::ZERO)
                .is_empty(),
            "one look is not enough"
        );
    }
}
