//! Rules of LB-IPAM that depend on the operator's version or settings.

use std::collections::{BTreeMap, BTreeSet};

use super::manifest::AddressPoolApi;
use super::pool::{AddressRange, FirstLast, RangeForm};
use super::service::ADDRESSES;
use crate::behaviours::{self, Releases};
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
        if behaviours::L2_CLASS.include(version)
            && is_on(setting_key::ENABLE_L2_ANNOUNCEMENTS, false)
        {
            classes.insert("io.cilium/l2-announcer");
        }
        let is_late = behaviours::LB_IPAM_SETTINGS.include(version);
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

    /// Whether the version behaves in this way.
    pub fn is_of(&self, releases: Releases) -> bool {
        releases.include(self.version)
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

    /// Whether the first and last address of a range are reserved.
    pub fn reserves_first_and_last(&self, first_last: FirstLast, range: &AddressRange) -> bool {
        if range.form != RangeForm::Cidr {
            return false;
        }
        let is_reserved = self.meaning_of(first_last) == FirstLast::Reserved;
        is_reserved && (!self.is_of(behaviours::FIRST_LAST_FIELD) || range.range.width() > 1)
    }

    /// The effective value of `allowFirstLastIPs`.
    pub fn meaning_of(&self, first_last: FirstLast) -> FirstLast {
        match first_last {
            _ if !self.is_of(behaviours::FIRST_LAST_FIELD) => FirstLast::Reserved,
            FirstLast::Unset if self.is_of(behaviours::FIRST_LAST_GIVEN) => FirstLast::Allowed,
            FirstLast::Unset => FirstLast::Reserved,
            explicit => explicit,
        }
    }

    /// API version of pools, derived from the version of Cilium.
    pub fn address_pool_api(&self) -> AddressPoolApi {
        if self.is_of(behaviours::POOL_V2) {
            AddressPoolApi::V2
        } else {
            AddressPoolApi::V2Alpha1
        }
    }

    /// The annotation that requests addresses: the newest one that is read.
    pub fn addresses_annotation(&self) -> &'static str {
        if self.is_of(behaviours::NEWER_SERVICE_ANNOTATIONS) {
            ADDRESSES[0]
        } else {
            ADDRESSES[1]
        }
    }

    /// Reason of the condition if a requested address cannot be shared.
    pub(super) fn incompatible_reason(&self) -> &'static str {
        match self.is_of(behaviours::INCOMPATIBLE_SERVICE_REASON) {
            true => "already_allocated_incompatible_service",
            false => "already_allocated_different_sharing_key",
        }
    }

    /// Whether equal ports of two protocols may share an address.
    pub fn tells_protocols_apart(&self) -> bool {
        match self.ports {
            _ if self.is_of(behaviours::PROTOCOLS_ALWAYS) => true,
            Some(PortUse::ByProtocol) => self.is_of(behaviours::PROTOCOLS_BY_SETTING),
            Some(PortUse::Exclusive) => false,
            None => self.is_of(behaviours::PROTOCOLS_BY_DEFAULT),
        }
    }

    /// Number of addresses of a range as the operator counts them.
    pub fn counted(&self, range: &Range) -> u128 {
        let all = range.width().saturating_add(1);
        match self.is_of(behaviours::LARGE_RANGES_COUNTED) || range.family() == Family::Ipv4 {
            true => all,
            false => all.min(65_536),
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
