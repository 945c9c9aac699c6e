//! Rules of LB-IPAM that depend on the operator's version or settings.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use super::manifest::AddressPoolApi;
use super::pool::{AddressRange, FirstLast, RangeForm};
use super::service::{ADDRESSES, LbService};
use crate::behaviours::{self, Releases};
use crate::observed::{is_true, setting_key};
use crate::releases::NEWEST;
use ipam_core::model::CiliumVersion;
use ipam_core::net::{Family, Range};

/// Why LB-IPAM does not serve a Service.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum NotServed {
    /// The setting `enable-lb-ipam` is off.
    SwitchedOff,
    /// The value of `default-lb-service-ipam`, which leaves Services without a class to another
    /// program.
    Default(String),
    /// The setting that enables the class is off.
    PartOff {
        class: &'static str,
        setting: &'static str,
    },
    /// Another program serves Services of this class.
    AnotherController(String),
}

impl fmt::Display for NotServed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NotServed::SwitchedOff => write!(f, "`{}` is off", setting_key::ENABLE_LB_IPAM),
            NotServed::Default(value) => write!(
                f,
                "`{}` is `{}`, which leaves Services without a `loadBalancerClass` to others",
                setting_key::DEFAULT_LB_SERVICE_IPAM,
                value.escape_debug()
            ),
            NotServed::PartOff { class, setting } => {
                write!(f, "the class `{class}` needs `{setting}: \"true\"`")
            }
            NotServed::AnotherController(class) => write!(
                f,
                "the class `{}` belongs to another controller",
                class.escape_debug()
            ),
        }
    }
}

/// Class of Services for BGP (`BGPLoadBalancerClass`).
pub const BGP_CLASS: &str = "io.cilium/bgp-control-plane";

/// Class of Services for L2 announcements (`L2AnnounceLoadBalancerClass`).
pub const L2_CLASS: &str = "io.cilium/l2-announcer";

/// The classes that LB-IPAM serves, each with the setting that enables it, and since when.
const CLASSES: [(&str, &str, Releases); 2] = [
    (
        BGP_CLASS,
        setting_key::ENABLE_BGP_CONTROL_PLANE,
        Releases::ALL,
    ),
    (
        L2_CLASS,
        setting_key::ENABLE_L2_ANNOUNCEMENTS,
        behaviours::L2_CLASS,
    ),
];

#[derive(Clone, Debug)]
pub struct LbRules {
    version: CiliumVersion,
    /// IP families that are enabled in Cilium's settings.
    families: BTreeSet<Family>,
    /// Served values of `spec.loadBalancerClass`.
    classes: BTreeSet<&'static str>,
    /// Why LB-IPAM serves no Service without a class.
    default: Option<NotServed>,
    /// Why LB-IPAM serves no Service at all.
    all: Option<NotServed>,
    /// What `bpf-lb-proto-diff` says, if it is set.
    ports: Option<PortUse>,
}

/// Whether two Services with the same port may share an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PortUse {
    /// Services may share the address if the protocols of the ports differ.
    ByProtocol,
    /// Two Services with the same port never share an address.
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
        // `pkg/defaults/defaults.go`: both families are on by default.
        for (family, key) in [
            (Family::Ipv4, setting_key::ENABLE_IPV4),
            (Family::Ipv6, setting_key::ENABLE_IPV6),
        ] {
            if is_on(key, true) {
                families.insert(family);
            }
        }
        let is_enabled = |(_, setting, since): &&(_, &'static str, Releases)| {
            since.include(version) && is_on(setting, false)
        };
        let classes = CLASSES.iter().filter(is_enabled);
        let classes = classes.map(|(class, ..)| *class).collect();
        let is_late = behaviours::LB_IPAM_SETTINGS.include(version);
        let default = settings.get(setting_key::DEFAULT_LB_SERVICE_IPAM);
        let default = default.filter(|value| is_late && *value != "lbipam");
        let is_off = is_late && !is_on(setting_key::ENABLE_LB_IPAM, true);
        let default = default.cloned().map(NotServed::Default);
        let all = is_off.then_some(NotServed::SwitchedOff);
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

    /// Rules of the newest known version with the same settings.
    pub fn upgraded(&self) -> LbRules {
        LbRules {
            version: self.version.max(NEWEST),
            ..self.clone()
        }
    }

    /// Version of Cilium that these rules describe.
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

    /// Whether LB-IPAM runs (`enable-lb-ipam`).
    pub fn is_on(&self) -> bool {
        self.all.is_none()
    }

    /// Whether LB-IPAM serves a Service of type LoadBalancer (`isResponsibleForSVC`).
    pub fn serves(&self, service: &LbService) -> bool {
        self.why_not_served(service).is_none()
    }

    /// Why LB-IPAM does not serve a Service of type LoadBalancer.
    pub fn why_not_served(&self, service: &LbService) -> Option<NotServed> {
        if self.all.is_some() {
            return self.all.clone();
        }
        let Some(class) = service.class.as_deref() else {
            return self.default.clone();
        };
        let is_known = |(of, _, since): &&(&str, _, Releases)| *of == class && self.is_of(*since);
        match CLASSES.iter().find(is_known) {
            _ if self.classes.contains(class) => None,
            Some((class, setting, _)) => Some(NotServed::PartOff { class, setting }),
            None => Some(NotServed::AnotherController(class.to_owned())),
        }
    }

    /// The values of `spec.loadBalancerClass` that LB-IPAM serves.
    pub fn classes(&self) -> impl Iterator<Item = &'static str> {
        self.classes.iter().copied()
    }

    /// Whether the first and last address of a range are reserved.
    pub fn reserves_first_and_last(&self, first_last: FirstLast, range: &AddressRange) -> bool {
        if range.form != RangeForm::Cidr {
            return false;
        }
        let is_reserved = self.meaning_of(first_last) == FirstLast::Reserved;
        is_reserved && (!self.is_of(behaviours::FIRST_LAST_FIELD) || range.range.width() > 1)
    }

    /// Whether a range has no other address than its reserved first and last one.
    pub fn gives_nothing(&self, first_last: FirstLast, range: &AddressRange) -> bool {
        range.range.width() <= 1 && self.reserves_first_and_last(first_last, range)
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
