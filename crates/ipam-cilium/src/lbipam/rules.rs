//! What differs between versions and settings of the operator.

use std::collections::{BTreeMap, BTreeSet};

use super::manifest::AddressPoolApi;
use super::pool::{AddressRange, FirstLast, RangeForm};
use super::service::ADDRESSES;
use ipam_core::model::CiliumVersion;
use ipam_core::net::{Family, Range};

/// The newest version whose rules are known here; a newer or an unknown one is judged by it.
const NEWEST: CiliumVersion = CiliumVersion::minor(19);

/// Whether LB-IPAM takes a Service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClassUse {
    /// It does.
    Ours,
    /// Its class is for another controller, or for a part of Cilium that is switched off.
    AnotherController,
}

/// The rules of one running operator.
#[derive(Clone, Debug)]
pub struct LbRules {
    version: CiliumVersion,
    /// Families that are switched on.
    families: BTreeSet<Family>,
    /// Values of `spec.loadBalancerClass` that it takes.
    classes: BTreeSet<&'static str>,
    /// Whether it takes Services without a class.
    default: ClassUse,
    /// Whether it takes any.
    all: ClassUse,
}

impl LbRules {
    /// The rules of a version with these settings, which are those of `cilium-config`. Without a
    /// version, those of the newest.
    pub fn new(version: Option<CiliumVersion>, settings: &BTreeMap<String, String>) -> LbRules {
        let version = version.unwrap_or(NEWEST);
        let is_on =
            |key: &str, default: bool| settings.get(key).map_or(default, |value| value == "true");
        let mut families = BTreeSet::new();
        // `pkg/defaults/defaults.go`: both are on where the settings say nothing.
        for (family, key) in [(Family::Ipv4, "enable-ipv4"), (Family::Ipv6, "enable-ipv6")] {
            if is_on(key, true) {
                families.insert(family);
            }
        }
        let mut classes = BTreeSet::new();
        if is_on("enable-bgp-control-plane", false) {
            classes.insert("io.cilium/bgp-control-plane");
        }
        if version.minor >= 15 && is_on("enable-l2-announcements", false) {
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
                .get("default-lb-service-ipam")
                .is_none_or(|value| value == "lbipam"),
        );
        let all = ours(is_on("enable-lb-ipam", true));
        LbRules {
            version,
            families,
            classes,
            default,
            all,
        }
    }

    /// The rules of the newest version that is known here, with the same settings.
    pub fn upgraded(&self) -> LbRules {
        LbRules {
            version: self.version.max(NEWEST),
            ..self.clone()
        }
    }

    /// Whether a newer version is known here.
    pub fn is_before_newest(&self) -> bool {
        self.version < NEWEST
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

    /// Whether a family is switched on.
    pub fn uses(&self, family: Family) -> bool {
        self.families.contains(&family)
    }

    /// Whether LB-IPAM takes a Service of type LoadBalancer with this `spec.loadBalancerClass`.
    pub fn class_use(&self, class: Option<&str>) -> ClassUse {
        match class {
            _ if self.all == ClassUse::AnotherController => self.all,
            None => self.default,
            Some(class) if self.classes.contains(class) => ClassUse::Ours,
            Some(_) => ClassUse::AnotherController,
        }
    }

    /// Whether the first and last address of a range are kept back. Up to 1.15 they are unless
    /// `allowFirstLastIPs` is `Yes`, from 1.16 on only when it is `No`; from 1.15 on never in a
    /// range of one or two addresses.
    pub fn reserves_first_and_last(&self, first_last: FirstLast, range: &AddressRange) -> bool {
        if range.form != RangeForm::Cidr {
            return false;
        }
        let is_reserved = self.meaning_of(first_last) == FirstLast::Reserved;
        is_reserved && (self.version.minor <= 14 || range.range.width() > 1)
    }

    /// What `allowFirstLastIPs` comes to in this version.
    pub fn meaning_of(&self, first_last: FirstLast) -> FirstLast {
        match first_last {
            _ if self.version.minor <= 14 => FirstLast::Reserved,
            FirstLast::Unset if self.version.minor == 15 => FirstLast::Reserved,
            FirstLast::Unset => FirstLast::Allowed,
            said => said,
        }
    }

    /// The version of the API in which pools are served, as far as the version of Cilium tells.
    pub fn address_pool_api(&self) -> AddressPoolApi {
        if self.version.minor >= 18 {
            AddressPoolApi::V2
        } else {
            AddressPoolApi::V2Alpha1
        }
    }

    /// The annotation by which a Service asks for addresses: the newest one that is read.
    pub fn addresses_annotation(&self) -> &'static str {
        if self.reads_newer_annotations() {
            ADDRESSES[0]
        } else {
            ADDRESSES[1]
        }
    }

    /// Whether an address that an altered pool still covers surely stays where it is: from 1.18.2
    /// on, Services that have addresses are looked at first; before, one that waits may take it.
    pub fn serves_holders_first(&self) -> bool {
        self.version.is_at_least(18, 2)
    }

    /// Whether the annotations `lbipam.cilium.io/…` are read, which hide the older ones: from 1.16
    /// on.
    pub fn reads_newer_annotations(&self) -> bool {
        self.version.minor >= 16
    }

    /// Whether Services of two namespaces can share an address: from 1.16 on.
    pub(super) fn shares_across_namespaces(&self) -> bool {
        self.version.minor >= 16
    }

    /// Reason of the condition when a requested address cannot be shared.
    pub(super) fn incompatible_reason(&self) -> &'static str {
        if self.version.minor <= 15 {
            "already_allocated_different_sharing_key"
        } else {
            "already_allocated_incompatible_service"
        }
    }

    /// Whether equal ports of two protocols can share an address: from 1.17 on.
    pub(super) fn tells_protocols_apart(&self) -> bool {
        self.version.minor >= 17
    }

    /// Addresses of a range that count, before anything is taken: IPv6 was cut to 65,536 up to
    /// 1.14.
    pub fn counted(&self, range: &Range) -> u128 {
        let all = range.width().saturating_add(1);
        if self.version.minor <= 14 && range.family() == Family::Ipv6 {
            all.min(65_536)
        } else {
            all
        }
    }
}
