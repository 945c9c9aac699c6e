//! Rules of LB-IPAM that depend on the operator's version or settings.

use std::collections::{BTreeMap, BTreeSet};

use super::manifest::AddressPoolApi;
use super::pool::{AddressRange, FirstLast, RangeForm};
use super::service::ADDRESSES;
use crate::observed::{is_true, setting_key};
use crate::releases::NEWEST;
use ipam_core::model::CiliumVersion;
use ipam_core::net::{Family, Range};

/// Whether LB-IPAM serves a Service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClassUse {
    /// LB-IPAM serves it.
    Ours,
    /// Its class belongs to another controller, or to a disabled part of Cilium.
    AnotherController,
}

#[derive(Clone, Debug)]
pub struct LbRules {
    version: CiliumVersion,
    /// Enabled families.
    families: BTreeSet<Family>,
    /// Served values of `spec.loadBalancerClass`.
    classes: BTreeSet<&'static str>,
    /// Use of Services without a class.
    default: ClassUse,
    /// Use of all Services.
    all: ClassUse,
    /// `bpf-lb-proto-diff`, if it is set.
    ports: Option<PortUse>,
}

/// Whether two Services with the same port may share an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PortUse {
    /// If the protocols differ.
    ByProtocol,
    /// Never.
    Exclusive,
}

impl LbRules {
    /// The settings that [`LbRules::new`] reads.
    pub const SETTINGS: [&str; 7] = [
        setting_key::ENABLE_IPV4,
        setting_key::ENABLE_IPV6,
        setting_key::ENABLE_BGP_CONTROL_PLANE,
        setting_key::ENABLE_L2_ANNOUNCEMENTS,
        setting_key::DEFAULT_LB_SERVICE_IPAM,
        setting_key::ENABLE_LB_IPAM,
        setting_key::PROTOCOL_DIFFERENTIATION,
    ];

    /// Rules of a version with the settings of `cilium-config`. Without a version, those of the
    /// newest.
    pub fn new(version: Option<CiliumVersion>, settings: &BTreeMap<String, String>) -> LbRules {
        let version = version.unwrap_or(NEWEST);
        let is_on =
            |key: &str, default: bool| settings.get(key).map_or(default, |value| is_true(value));
        let mut families = BTreeSet::new();
        // `pkg/defaults/defaults.go`: both are on by default.
        for (family, key) in [
            (Family::Ipv4, setting_key::ENABLE_IPV4),
            (Family::Ipv6, setting_key::ENABLE_IPV6),
        ] {
            if is_on(key, true) {
                families.insert(family);
            }
        }
        let mut classes = BTreeSet::new();
        if is_on(setting_key::ENABLE_BGP_CONTROL_PLANE, false) {
            classes.insert("io.cilium/bgp-control-plane");
        }
        if version.minor >= 15 && is_on(setting_key::ENABLE_L2_ANNOUNCEMENTS, false) {
            classes.insert("io.cilium/l2-announcer");
        }
        // `operator/pkg/lbipam/cell.go` @ 1.19: both from 1.17 on.
        let is_late = version.minor >= 17;
        let ours = |is_ours: bool| {
            if is_ours || !is_late {
                ClassUse::Ours
            } else {
                ClassUse::AnotherController
            }
        };
        let default = ours(
            settings
                .get(setting_key::DEFAULT_LB_SERVICE_IPAM)
                .is_none_or(|value| value == "lbipam"),
        );
        let all = ours(is_on(setting_key::ENABLE_LB_IPAM, true));
        let ports = settings.get(setting_key::PROTOCOL_DIFFERENTIATION);
        let ports = ports.map(|value| match value.as_str() {
            "true" => PortUse::ByProtocol,
            _ => PortUse::Exclusive,
        });
        LbRules {
            version,
            families,
            classes,
            default,
            all,
            ports,
        }
    }

    /// Rules of the newest known version, with the same settings.
    pub fn upgraded(&self) -> LbRules {
        LbRules {
            version: self.version.max(NEWEST),
            ..self.clone()
        }
    }

    /// The version whose rules these are.
    pub fn version(&self) -> CiliumVersion {
        self.version
    }

    /// Whether a newer version is known here.
    pub fn is_before_newest(&self) -> bool {
        self.version.minor < NEWEST.minor
    }

    /// Whether `spec.cidrs` is read: up to 1.15; from 1.16 on the API server drops it without a
    /// word.
    pub fn reads_cidrs(&self) -> bool {
        self.version.minor <= 15
    }

    /// Whether `spec.blocks` is read: from 1.15 on.
    pub fn reads_blocks(&self) -> bool {
        self.version.minor >= 15
    }

    pub fn uses(&self, family: Family) -> bool {
        self.families.contains(&family)
    }

    /// Whether LB-IPAM serves a Service of type LoadBalancer with this `spec.loadBalancerClass`.
    pub fn class_use(&self, class: Option<&str>) -> ClassUse {
        match class {
            _ if self.all == ClassUse::AnotherController => self.all,
            None => self.default,
            Some(class) if self.classes.contains(class) => ClassUse::Ours,
            Some(_) => ClassUse::AnotherController,
        }
    }

    /// Whether the first and last address of a range are reserved. Up to 1.15 they are unless
    /// `allowFirstLastIPs` is `Yes`; from 1.16 on only if it is `No`. From 1.15 on they are never
    /// reserved in a range of one or two addresses.
    pub fn reserves_first_and_last(&self, first_last: FirstLast, range: &AddressRange) -> bool {
        if range.form != RangeForm::Cidr {
            return false;
        }
        let is_reserved = self.meaning_of(first_last) == FirstLast::Reserved;
        is_reserved && (self.version.minor <= 14 || range.range.width() > 1)
    }

    /// The effective value of `allowFirstLastIPs`.
    pub fn meaning_of(&self, first_last: FirstLast) -> FirstLast {
        match first_last {
            _ if self.version.minor <= 14 => FirstLast::Reserved,
            FirstLast::Unset if self.version.minor == 15 => FirstLast::Reserved,
            FirstLast::Unset => FirstLast::Allowed,
            explicit => explicit,
        }
    }

    /// API version of pools, derived from the version of Cilium.
    pub fn address_pool_api(&self) -> AddressPoolApi {
        if self.version.minor >= 18 {
            AddressPoolApi::V2
        } else {
            AddressPoolApi::V2Alpha1
        }
    }

    /// The annotation that requests addresses: the newest one that is read.
    pub fn addresses_annotation(&self) -> &'static str {
        if self.reads_newer_annotations() {
            ADDRESSES[0]
        } else {
            ADDRESSES[1]
        }
    }

    /// Whether a Service that takes any address gets the lowest one of a run of free addresses: from
    /// 1.15 on (`HashAllocator` in `pkg/ipalloc`). Before, chance decides.
    pub(super) fn gives_lowest_free(&self) -> bool {
        self.version.minor >= 15
    }

    /// Whether Services with addresses are served before those that wait: from 1.18.2 on. Before, a
    /// waiting Service may take an address of a changed pool.
    pub fn serves_holders_first(&self) -> bool {
        self.version.is_at_least(18, 2)
    }

    /// Whether every Service gets back the addresses that it shows, shared ones too, before any
    /// Service gets a new one: from 1.20 on (`revalidateAllServices`, `stripOrImportIngresses`).
    pub(super) fn imports_all_first(&self) -> bool {
        self.version.minor >= 20
    }

    /// Whether Services of a sharing key keep their address when its range is gone, until the
    /// operator restarts: from 1.20 on (`deleteRangeAllocations` leaves it in `sharingIndex`).
    pub(super) fn keeps_addresses_of_keys(&self) -> bool {
        self.version.minor >= 20
    }

    /// Whether the operator panics where a pool reserves an address of a Service: 1.20.0 to 1.20.2.
    pub(super) fn panics_at_reserved(&self) -> bool {
        self.version.minor == 20 && self.version.patch.is_some_and(|patch| patch <= 2)
    }

    /// Whether the annotations `lbipam.cilium.io/…` are read, from 1.16 on. They hide the older
    /// ones.
    pub fn reads_newer_annotations(&self) -> bool {
        self.version.minor >= 16
    }

    /// Whether Services of two namespaces may share an address, from 1.16 on.
    pub(super) fn shares_across_namespaces(&self) -> bool {
        self.version.minor >= 16
    }

    /// Whether an edited block gives its addresses to the Services that had them. Older releases
    /// serve these Services anew before they know the new block (seen on 1.16.6; `handlePoolModified`
    /// of 1.15.16, 1.16.9 and 1.17.3 has it, that of 1.15.19, 1.16.19 and 1.17.6 has not).
    pub(super) fn keeps_through_edits(&self) -> bool {
        match self.version.minor {
            ..=14 => false,
            15 => self.version.is_at_least(15, 19),
            16 => self.version.is_at_least(16, 12),
            17 => self.version.is_at_least(17, 6),
            _ => true,
        }
    }

    /// Reason of the condition if a requested address cannot be shared.
    pub(super) fn incompatible_reason(&self) -> &'static str {
        if self.version.minor <= 16 {
            "already_allocated_different_sharing_key"
        } else {
            "already_allocated_incompatible_service"
        }
    }

    /// Whether equal ports of two protocols may share an address: in 1.17 if `bpf-lb-proto-diff` is
    /// `"true"` in cilium-config, because only the agent has a default for it; in 1.18 unless it is
    /// set to something else (`operator/cmd/flags.go`); from 1.19 on always.
    pub fn tells_protocols_apart(&self) -> bool {
        match self.version.minor {
            ..=16 => false,
            17 => self.ports == Some(PortUse::ByProtocol),
            18 => self.ports != Some(PortUse::Exclusive),
            _ => true,
        }
    }

    /// Number of addresses of a range as the operator counts them. Up to 1.14, at most 65,536 for
    /// IPv6.
    pub fn counted(&self, range: &Range) -> u128 {
        let all = range.width().saturating_add(1);
        if self.version.minor <= 14 && range.family() == Family::Ipv6 {
            all.min(65_536)
        } else {
            all
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn protocols_are_told_apart_by_version_and_setting() {
        for (version, unset, on, off) in [
            ("1.16.6", false, false, false),
            ("1.17.6", false, true, false),
            ("1.18.1", true, true, false),
            ("1.19.3", true, true, true),
        ] {
            let of = |value: Option<&str>| {
                let key = setting_key::PROTOCOL_DIFFERENTIATION.to_owned();
                let settings = value.map(|value| (key, value.to_owned()));
                let settings = settings.into_iter().collect();
                LbRules::new(version.parse().ok(), &settings).tells_protocols_apart()
            };
            let all = (of(None), of(Some("true")), of(Some("false")));
            assert_eq!(all, (unset, on, off), "{version}");
        }
    }
}
