//! Whether the interface of a port still exists, by the evidence on the node. A port that is deleted
//! too early leads to a duplicate address, so unknown means alive. Pure: reads no file or clock.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use crate::cni::Attachment;
use ipam_core::neutron::Id;
use openstack::Port;

/// Largest difference between the clocks of Neutron and of the node.
const CLOCKS_APART: SignedDuration = SignedDuration::from_mins(10);

/// Neutron no longer executes a request that is this old.
pub const LATEST_ANSWER: Duration = Duration::from_mins(10);

/// How long after a creation was recorded its port may come. A request begins at most two minutes later.
pub const LATEST_PORT: Duration = LATEST_ANSWER.saturating_add(Duration::from_mins(2));

/// Whether an interface exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Liveness {
    /// The interface exists, or may exist.
    Possible,
    /// The interface is certainly gone.
    Gone,
}

/// A file in the cache of a container runtime (libcni's: one for each interface that was added and
/// not deleted). The cached result survives a reboot, and a runtime that loses its own state
/// (containerd 2.4 without `/var/lib/containerd`) never removes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CachedResult {
    pub attachment: Attachment,
    pub addresses: Vec<IpAddr>,
    /// When the file was written; `None` if that is unknown.
    pub written: Option<Timestamp>,
}

/// The interfaces of the node's container runtimes, from their caches.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Remembered {
    pub attachments: BTreeSet<Attachment>,
    /// Addresses, with the interfaces that have them.
    pub addresses: BTreeMap<IpAddr, BTreeSet<Attachment>>,
}

/// The ages of the evidence on this node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Epochs {
    /// When the kernel booted. No interface is older.
    pub boot: Timestamp,
    /// When the plugin's files were created; `None` while there are none. An older port may have no
    /// record.
    pub files: Option<Timestamp>,
}

/// The record of an interface. Its ADD writes it first, and its DEL removes it last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttachmentRecord {
    pub boot: Boot,
    /// The network namespace of `CNI_NETNS`.
    pub netns: Netns,
}

/// The boot during which a record was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Boot {
    This,
    /// An earlier boot, whose interfaces are gone.
    Earlier,
}

/// The state of a network namespace, by its path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Netns {
    There,
    /// The folder exists and the path does not.
    Gone,
    /// The folder is not visible to this process.
    NotVisible,
}

impl Remembered {
    /// Skips what an earlier boot left: files from before this boot, of interfaces without a record
    /// of this boot. One alone is not enough, as clocks are set and records can be lost.
    pub fn of(
        results: Vec<CachedResult>,
        epochs: &Epochs,
        record: impl Fn(&Attachment) -> Option<AttachmentRecord>,
    ) -> Remembered {
        let mut remembered = Remembered::default();
        for result in results {
            let is_old = result.written.is_some_and(|written| written < epochs.boot);
            let is_of_this_boot =
                || record(&result.attachment).is_some_and(|record| record.boot == Boot::This);
            if is_old && !is_of_this_boot() {
                continue;
            }
            for address in result.addresses {
                let holders = remembered.addresses.entry(address).or_default();
                holders.insert(result.attachment.clone());
            }
            remembered.attachments.insert(result.attachment);
        }
        remembered
    }

    /// Liveness of the interface for which a port was created.
    pub fn port_liveness(
        &self,
        port: &Port,
        record: Option<AttachmentRecord>,
        epochs: &Epochs,
    ) -> Liveness {
        match record {
            _ if self.has(&port.device_id, port, record) => Liveness::Possible,
            Some(record) => record.liveness(),
            None => liveness_by_age(port, epochs),
        }
    }

    /// Liveness of the interface that holds this pooled port.
    pub fn holder_liveness(
        &self,
        holder: &Attachment,
        port: &Port,
        record: Option<AttachmentRecord>,
    ) -> Liveness {
        match record {
            _ if self.has(&holder.to_string(), port, record) => Liveness::Possible,
            Some(record) => record.liveness(),
            // Each ADD writes its record before it takes a port, so the records were lost.
            None => Liveness::Possible,
        }
    }

    /// Liveness of an interface that may hold a pooled port without a file.
    pub fn unknown_port_liveness(&self, port: &Port, epochs: &Epochs) -> Liveness {
        if self.holders_of(port).next().is_some() {
            Liveness::Possible
        } else {
            liveness_by_age(port, epochs)
        }
    }

    /// Whether a cache has the interface or its port's addresses. The interface's own entry does not
    /// count if its record is of an earlier boot and its namespace is gone. The record alone is not
    /// enough: a daemon in a container may see another boot id than the plugin.
    fn has(&self, interface: &str, port: &Port, record: Option<AttachmentRecord>) -> bool {
        let is_over = record
            .is_some_and(|record| record.boot == Boot::Earlier && record.netns == Netns::Gone);
        let is_it = |one: &Attachment| one.to_string() == interface;
        let mut others = self.holders_of(port).filter(|one| !is_it(one));
        others.next().is_some() || (!is_over && self.attachments.iter().any(is_it))
    }

    fn holders_of(&self, port: &Port) -> impl Iterator<Item = &Attachment> {
        let fixed = port.fixed_ips.iter();
        fixed.flat_map(|fixed| self.addresses.get(&fixed.ip_address).into_iter().flatten())
    }
}

impl AttachmentRecord {
    fn liveness(self) -> Liveness {
        let is_over = self.boot == Boot::Earlier || self.netns == Netns::Gone;
        if is_over {
            Liveness::Gone
        } else {
            Liveness::Possible
        }
    }
}

/// Of a port without a record. No interface survives a boot, and a port that is younger than the
/// files would have a record until its DEL.
fn liveness_by_age(port: &Port, epochs: &Epochs) -> Liveness {
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
        Liveness::Gone
    } else {
        Liveness::Possible
    }
}

/// Ports that look like garbage, and since when. One sync is not enough: an ADD or a DEL may be
/// under way.
#[derive(Clone, Debug, Default)]
pub struct GarbageCandidates(BTreeMap<Id, Duration>);

impl GarbageCandidates {
    /// The number of candidates at the last sync.
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// Updates the candidates with those of this sync, and returns those that were candidates for
    /// `grace` without a gap. `now` is the time of a monotonic clock.
    pub fn expired(
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
        // At least two syncs, however short the grace period.
        let is_expired = |(id, since): &(&Id, &Duration)| {
            before.contains_key(*id) && now.saturating_sub(**since) >= grace
        };
        self.0
            .iter()
            .filter(is_expired)
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
            project_id: String::new(),
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

    fn record(boot: Boot, netns: Netns) -> Option<AttachmentRecord> {
        Some(AttachmentRecord { boot, netns })
    }

    /// A cache that has these interfaces, all with the port's address.
    fn cache(interfaces: &[Attachment]) -> Remembered {
        let interfaces: BTreeSet<Attachment> = interfaces.iter().cloned().collect();
        Remembered {
            addresses: [("10.0.0.7".parse().unwrap(), interfaces.clone())].into(),
            attachments: interfaces,
        }
    }

    fn other() -> Attachment {
        Attachment {
            container: "d".parse().unwrap(),
            ..holder()
        }
    }

    #[test]
    fn an_interface_in_a_runtime_cache_is_alive() {
        let by_name = Remembered {
            attachments: [holder()].into(),
            ..Remembered::default()
        };
        let by_address = cache(&[other()]);
        let (old, over) = (
            port("2026-11-23T01:00:00Z"),
            record(Boot::This, Netns::Gone),
        );
        for remembered in [&by_name, &by_address, &cache(&[holder()])] {
            assert_eq!(
                remembered.port_liveness(&old, over, &epochs(Some("00:30"))),
                Liveness::Possible
            );
            assert_eq!(
                remembered.port_liveness(&old, None, &epochs(Some("00:30"))),
                Liveness::Possible
            );
            assert_eq!(
                remembered.holder_liveness(&holder(), &old, over),
                Liveness::Possible
            );
        }
        assert_eq!(
            by_address.unknown_port_liveness(&old, &epochs(None)),
            Liveness::Possible
        );
    }

    #[test]
    fn what_a_cache_says_of_an_earlier_boot_does_not_count() {
        let old = port("2026-11-23T01:00:00Z");
        let over = record(Boot::Earlier, Netns::Gone);
        let liveness = |remembered: &Remembered| {
            let liveness = remembered.port_liveness(&old, over, &epochs(Some("00:30")));
            let of_holder = remembered.holder_liveness(&holder(), &old, over);
            assert_eq!(of_holder, liveness);
            liveness
        };
        assert_eq!(liveness(&cache(&[holder()])), Liveness::Gone);
        let shared = cache(&[holder(), other()]);
        assert_eq!(liveness(&shared), Liveness::Possible, "another one has it");
        for netns in [Netns::There, Netns::NotVisible] {
            let cached = cache(&[holder()]);
            let liveness = cached.port_liveness(&old, record(Boot::Earlier, netns), &epochs(None));
            assert_eq!(liveness, Liveness::Possible, "{netns:?}");
        }
    }

    #[test]
    fn files_of_an_earlier_boot_do_not_count() {
        let remembers = |written: Option<&str>, record: Option<AttachmentRecord>| {
            let result = CachedResult {
                attachment: other(),
                addresses: vec!["10.0.0.7".parse().unwrap()],
                written: written.map(at),
            };
            let remembered = Remembered::of(vec![result], &epochs(None), |_| record);
            assert_eq!(remembered.attachments.len(), remembered.addresses.len());
            !remembered.attachments.is_empty()
        };
        let (this, earlier) = (
            record(Boot::This, Netns::Gone),
            record(Boot::Earlier, Netns::Gone),
        );
        assert!(!remembers(Some("09:59"), earlier) && !remembers(Some("09:59"), None));
        assert!(remembers(Some("09:59"), this), "the clock was set since");
        assert!(remembers(Some("10:00"), None), "its record was lost");
        assert!(remembers(Some("10:00"), earlier) && remembers(None, None));
    }

    #[test]
    fn a_record_decides_by_network_namespace_and_boot() {
        let nothing = Remembered::default();
        let young = port("2026-11-23T11:00:00Z");
        let liveness = |record| {
            let liveness = nothing.port_liveness(&young, record, &epochs(Some("08:00")));
            assert_eq!(nothing.holder_liveness(&holder(), &young, record), liveness);
            liveness
        };
        assert_eq!(
            liveness(record(Boot::This, Netns::There)),
            Liveness::Possible
        );
        assert_eq!(
            liveness(record(Boot::This, Netns::NotVisible)),
            Liveness::Possible
        );
        assert_eq!(liveness(record(Boot::This, Netns::Gone)), Liveness::Gone);
        assert_eq!(
            liveness(record(Boot::Earlier, Netns::There)),
            Liveness::Gone,
            "another container has that name now"
        );
        assert_eq!(
            nothing.holder_liveness(&holder(), &young, None),
            Liveness::Possible
        );
    }

    #[test]
    fn without_a_record_the_age_decides() {
        let liveness = |created: &str, files| {
            Remembered::default().port_liveness(&port(created), None, &epochs(files))
        };
        assert_eq!(
            liveness("2026-11-23T09:45:00Z", None),
            Liveness::Gone,
            "before the boot"
        );
        assert_eq!(
            liveness("2026-11-23T09:55:00Z", None),
            Liveness::Possible,
            "clocks may be apart"
        );
        assert_eq!(
            liveness("2026-11-23T11:00:00Z", Some("10:30")),
            Liveness::Gone,
            "it would have left a record"
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
    fn a_candidate_expires_only_without_a_gap() {
        let (id, grace) = (ID.parse::<Id>().unwrap(), Duration::from_secs(60));
        let mut garbage_candidates = GarbageCandidates::default();
        let mut look = |seen: bool, now: u64| {
            !garbage_candidates
                .expired(seen.then(|| id.clone()), Duration::from_secs(now), grace)
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
                .expired([id.clone()], Duration::ZERO, Duration::ZERO)
                .is_empty(),
            "one look is not enough"
        );
    }
}
