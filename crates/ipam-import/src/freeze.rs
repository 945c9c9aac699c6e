//! Decides which Services `lb freeze` pins to the addresses that they hold, and judges the plan of
//! the new pins.
//!
//! Knows no file and no format. Never pins a Service that the files pin already.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::IpAddr;

use ipam_cilium::lbipam::{
    Certainty, LbRules, LbService, LossReason, NotServed, RequestAuthor, ServedAddress,
    ServiceOwner,
};
use ipam_cilium::observed::Observed;
use ipam_core::model::ServiceName;
use ipam_core::text::joined;
use ipam_desired::{Desired, PinnedTo, ServicePin};
use ipam_plan::plan::{Change, LostAddress, Outlook, Plan, Target};

/// Labels of the Services that Cilium makes for a Gateway and for an Ingress
/// (`operator/pkg/model/translation` @ 1.15.19, 1.19.3).
const OF_CILIUM: [(&str, &str); 2] = [
    ("Gateway", "io.cilium.gateway/owning-gateway"),
    ("Ingress", "cilium.io/ingress"),
];

/// Which Services are frozen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Frozen {
    All,
    These(BTreeSet<ServiceName>),
}

/// Which Services are pinned to the addresses that they hold, and which are not.
#[derive(Clone, Debug, Default)]
pub struct Freeze {
    /// New pins, sorted by Service.
    pub pins: Vec<FrozenPin>,
    /// Services that the files pin to the addresses which they hold, or to a pool.
    pub pinned: Vec<ServiceName>,
    /// Services without a new pin, sorted by Service.
    pub left: Vec<Left>,
}

/// A new pin of a Service to the addresses that it holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FrozenPin {
    pub service: ServiceName,
    /// Pinned addresses of both families, sorted. Not empty.
    pub addresses: Vec<IpAddr>,
    /// The object for which a controller of Cilium made the Service.
    pub owner: Option<ServiceOwner>,
}

/// A Service without a new pin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Left {
    pub service: ServiceName,
    pub why: WhyLeft,
}

/// Why a Service gets no new pin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WhyLeft {
    /// The Service holds no address.
    HoldsNone,
    /// The Service has these hostnames and no address. A pin names IP addresses only.
    HasHostnames(Vec<ServedAddress>),
    /// LB-IPAM does not serve the Service.
    NotServed(NotServed),
    /// The files pin the Service to other addresses: these, their place, and the held addresses.
    PinnedToOthers {
        pinned: Vec<IpAddr>,
        at: String,
        held: Vec<IpAddr>,
    },
    /// A controller other than Cilium's made it, and may remove the annotation.
    MadeBy(ServiceOwner),
    /// The Gateway or the Ingress sets the annotation itself, to this value.
    SetBy(ServiceOwner, String),
    /// The plan cannot write the pin, and why.
    Blocked { reason: String, unblock: String },
}

impl fmt::Display for WhyLeft {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WhyLeft::HoldsNone => f.write_str("it holds no address"),
            WhyLeft::HasHostnames(hostnames) => {
                write!(
                    f,
                    "it has {} and no IP address: a pin cannot keep a hostname, which LB-IPAM removes; give the Service the `loadBalancerClass` of the program that set it",
                    joined(hostnames, " ")
                )
            }
            WhyLeft::NotServed(why) => write!(f, "LB-IPAM does not serve it: {why}"),
            WhyLeft::PinnedToOthers { pinned, at, held } => write!(
                f,
                "{at} pins it to {}, and it holds {}",
                joined(pinned, " "),
                joined(held, " ")
            ),
            WhyLeft::MadeBy(owner) => write!(
                f,
                "{owner} made it, and its controller may remove the annotation; set the annotation there, or name the Service with --service to pin it all the same"
            ),
            WhyLeft::SetBy(owner, value) => write!(
                f,
                "{owner} sets its request to `{}` and would set it again; change it there, in spec.addresses or in the annotations of spec.infrastructure of a Gateway, in the annotations of an Ingress",
                value.escape_debug()
            ),
            WhyLeft::Blocked { reason, unblock } => write!(f, "{reason}; {unblock}"),
        }
    }
}

/// Decides on the pins.
pub fn freeze(frozen: &Frozen, desired: &Desired, observed: &Observed) -> Freeze {
    let rules = observed.lb_rules();
    let lost = lost_anyway(observed);
    let mut freeze = Freeze::default();
    let selected = observed.services.values().filter(|service| match frozen {
        Frozen::All => true,
        Frozen::These(names) => names.contains(&service.name),
    });
    for service in selected {
        let pin = desired.service_pins.get(&service.name);
        let decision = match lost.get(&service.name) {
            Some(lost) => Err(lost.clone()),
            None => decide(service, pin, &rules, frozen),
        };
        match decision {
            Ok(Some(pin)) => freeze.pins.push(pin),
            Ok(None) => freeze.pinned.push(service.name.clone()),
            // Of all Services, those without an address of LB-IPAM are no news.
            Err(WhyLeft::HoldsNone | WhyLeft::NotServed(_)) if *frozen == Frozen::All => {}
            Err(why) => freeze.left.push(Left {
                service: service.name.clone(),
                why,
            }),
        }
    }
    freeze
}

/// Services that lose an address even if they request it, with the reason.
fn lost_anyway(observed: &Observed) -> BTreeMap<ServiceName, WhyLeft> {
    let is_of_pool = |lost: &LostAddress| match lost.why {
        // A pin does not join an address.
        LossReason::Rejoined => true,
        LossReason::NoPool
        | LossReason::NotSelected
        | LossReason::PoolDisabled
        | LossReason::PoolConflicting
        | LossReason::Reserved => lost.certainty == Certainty::Certain,
        LossReason::NotRequested
        | LossReason::Taken
        | LossReason::Waiting
        | LossReason::SharingKey
        | LossReason::NoLongerShared
        | LossReason::BlockEdited
        | LossReason::Hostname
        | LossReason::UnknownPool => false,
    };
    let outlook = Outlook::new(observed);
    let mut left = BTreeMap::new();
    for (name, lost) in outlook.all_lost().filter(|(_, lost)| is_of_pool(lost)) {
        let why = WhyLeft::Blocked {
            reason: format!(
                "Cilium takes {} away {}, also from a pinned Service: {}",
                lost.address,
                outlook.time_in_words(lost.when),
                lost.why
            ),
            unblock: "fix the pool first".to_owned(),
        };
        left.entry(name.clone()).or_insert(why);
    }
    left
}

fn decide(
    service: &LbService,
    pin: Option<&ServicePin>,
    rules: &LbRules,
    frozen: &Frozen,
) -> Result<Option<FrozenPin>, WhyLeft> {
    if let Some(why) = rules.why_not_served(service) {
        return Err(WhyLeft::NotServed(why));
    }
    let held: BTreeSet<IpAddr> = service.ingress.iter().copied().collect();
    if let Some(pin) = pin {
        return pinned(pin, &held).map(|()| None);
    }
    if held.is_empty() {
        let hostnames: Vec<ServedAddress> = service.served().collect();
        return Err(match hostnames.is_empty() {
            true => WhyLeft::HoldsNone,
            false => WhyLeft::HasHostnames(hostnames),
        });
    }
    let requested: BTreeSet<IpAddr> = service.requested(rules).into_iter().collect();
    let owner = match &service.owner {
        Some(owner) if is_of_cilium(service, owner) => {
            let set = service.request_at(rules.addresses_annotation());
            match set
                .filter(|_| requested != held && service.request_author == RequestAuthor::Others)
            {
                Some(value) => return Err(WhyLeft::SetBy(owner.clone(), value.to_owned())),
                None => Some(owner.clone()),
            }
        }
        Some(owner) if *frozen == Frozen::All && requested != held => {
            return Err(WhyLeft::MadeBy(owner.clone()));
        }
        Some(_) | None => None,
    };
    Ok(Some(FrozenPin {
        service: service.name.clone(),
        addresses: held.into_iter().collect(),
        owner,
    }))
}

fn pinned(pin: &ServicePin, held: &BTreeSet<IpAddr>) -> Result<(), WhyLeft> {
    if matches!(pin.to, PinnedTo::Chosen(_)) {
        return Ok(());
    }
    let pinned: BTreeSet<IpAddr> = pin.addresses().iter().map(|one| one.address).collect();
    if held.is_subset(&pinned) {
        return Ok(());
    }
    Err(WhyLeft::PinnedToOthers {
        pinned: pinned.into_iter().collect(),
        at: pin.origin.to_string(),
        held: held.iter().copied().collect(),
    })
}

/// Cilium's controllers for Gateways and Ingresses merge their annotations into those of the
/// Service, so a pin stays (`setMergedLabelsAndAnnotations`, `createOrUpdateService` @ 1.15.19,
/// 1.19.3).
fn is_of_cilium(service: &LbService, owner: &ServiceOwner) -> bool {
    OF_CILIUM
        .iter()
        .any(|(kind, label)| owner.kind == *kind && service.labels.contains_key(*label))
}

/// The judgement on the plan with the new pins, compared with the plan without them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Judgement {
    /// The plan writes the new pins and changes nothing else.
    Good,
    /// The plan may be good without the pins of these Services.
    Without(Vec<Left>),
    /// The plan would change something else, which the text names.
    Refused(String),
}

/// Judges the plan with the new pins.
pub fn judge(pins: &[FrozenPin], without: &Plan, with: &Plan) -> Judgement {
    let names: BTreeSet<&ServiceName> = pins.iter().map(|pin| &pin.service).collect();
    let left: Vec<Left> = with
        .blocked
        .iter()
        .filter_map(|blocked| match &blocked.target {
            Target::Service(service) if names.contains(service) => Some(Left {
                service: service.clone(),
                why: WhyLeft::Blocked {
                    reason: blocked.reason.to_string(),
                    unblock: blocked.reason.unblock(),
                },
            }),
            _ => None,
        })
        .collect();
    if !left.is_empty() {
        return Judgement::Without(left);
    }
    let is_pin = |change: &Change| matches!(change, Change::Service(change) if names.contains(&change.service));
    match other_changes(without, with, is_pin).or_else(|| moved(without, with)) {
        Some(what) => Judgement::Refused(what),
        None => Judgement::Good,
    }
}

/// A change that only the second plan has, and that is not expected.
pub fn other_changes(
    without: &Plan,
    with: &Plan,
    is_expected: impl Fn(&Change) -> bool,
) -> Option<String> {
    let known: BTreeSet<Target> = without.changes.iter().map(Change::target).collect();
    let new = with
        .changes
        .iter()
        .find(|change| !is_expected(change) && !known.contains(&change.target()))?;
    Some(format!("the plan would change {}", new.target()))
}

/// An address that a Service loses only in the second plan.
pub fn moved(without: &Plan, with: &Plan) -> Option<String> {
    let known: BTreeSet<(&ServiceName, &LostAddress)> = without.effects.lost().collect();
    let (service, lost) = with.effects.lost().find(|lost| !known.contains(lost))?;
    Some(format!(
        "Service {service} would or may lose {}: {}",
        lost.address,
        lost.why.as_str()
    ))
}
