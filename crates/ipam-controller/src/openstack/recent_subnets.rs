//! The subnets that were read last, so that a process that plans several times a second does not ask
//! Neutron each time. An answer that lacks a subnet is not kept.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use ipam_cilium::observed::{SeenSubnet, SeenSubnets};
use ipam_core::neutron::Id;

/// The last answer, and how long it counts. By default, it does not count at all.
#[derive(Default)]
pub(super) struct RecentSubnets {
    max_age: Duration,
    last: Mutex<Option<(Instant, SeenSubnets)>>,
}

impl RecentSubnets {
    pub(super) fn new(max_age: Duration) -> RecentSubnets {
        RecentSubnets {
            max_age,
            last: Mutex::default(),
        }
    }

    /// These subnets, if the last answer is about them and still counts.
    pub(super) fn of(&self, wanted: &BTreeSet<Id>) -> Option<SeenSubnets> {
        let last = self.last();
        let (read_at, seen) = last.as_ref()?;
        let counts = read_at.elapsed() < self.max_age && seen.keys().eq(wanted);
        counts.then(|| seen.clone())
    }

    pub(super) fn keep(&self, seen: &SeenSubnets) {
        let is_there = |subnet: &SeenSubnet| matches!(subnet, SeenSubnet::There { .. });
        *self.last() = seen
            .values()
            .all(is_there)
            .then(|| (Instant::now(), seen.clone()));
    }

    pub(super) fn forget(&self) {
        *self.last() = None;
    }

    fn last(&self) -> MutexGuard<'_, Option<(Instant, SeenSubnets)>> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SUBNET: &str = "782ec9ac-44f9-4318-8c67-a2fed2ccca4f";

    fn there() -> SeenSubnets {
        let subnet = SeenSubnet::There {
            network: SUBNET.parse().unwrap(),
            range: "10.1.0.0/24".parse().unwrap(),
        };
        [(SUBNET.parse().unwrap(), subnet)].into()
    }

    #[test]
    fn only_a_whole_answer_about_the_same_subnets_counts_until_it_is_forgotten() {
        let wanted: BTreeSet<Id> = [SUBNET.parse().unwrap()].into();
        let recent = RecentSubnets::new(Duration::from_hours(1));
        assert_eq!(recent.of(&wanted), None);
        recent.keep(&there());
        assert_eq!(recent.of(&wanted), Some(there()));
        let more = [SUBNET, "00000000-44f9-4318-8c67-a2fed2ccca4f"];
        assert_eq!(recent.of(&more.map(|id| id.parse().unwrap()).into()), None);
        recent.forget();
        assert_eq!(recent.of(&wanted), None);
        recent.keep(&[(SUBNET.parse().unwrap(), SeenSubnet::Missing)].into());
        assert_eq!(recent.of(&wanted), None);
        let default = RecentSubnets::default();
        default.keep(&there());
        assert_eq!(default.of(&wanted), None, "a single plan reads for itself");
    }
}
