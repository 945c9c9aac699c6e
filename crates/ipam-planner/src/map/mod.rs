//! The address space as areas: which object has, gives or keeps free which addresses, now and after
//! the plan, divided into panels that a page can draw.
//!
//! Knows no pixel and no format. It decides nothing: what a plan does comes from the plan.

mod area;
mod nodes;
mod panels;
mod ranges;
mod services;

use jiff::Timestamp;

use crate::plan::Plan;
use ipam_cilium::observed::Observed;
use ipam_desired::Desired;

pub use area::{Area, AreaKind, Presence};
pub use panels::Panel;

/// All areas of a cluster.
#[derive(Clone, Debug, Default)]
pub struct AddressMap {
    /// The parts of the address space in which something lies, IPv4 first, by address. No two
    /// overlap, and every area lies in one.
    pub panels: Vec<Panel>,
    /// The node label by which areas are grouped into failure domains.
    pub domain_label: String,
    /// The time of the observation.
    pub at: Timestamp,
}

impl AddressMap {
    /// The areas of the files and of the cluster, and what the plan changes.
    pub fn new(desired: &Desired, observed: &Observed, plan: &Plan) -> AddressMap {
        let mut areas = ranges::areas(desired, observed, plan);
        areas.extend(nodes::areas(desired, observed, plan));
        areas.extend(services::areas(observed, plan));
        AddressMap {
            panels: panels::divide(areas),
            domain_label: desired.policy.failure_domain.clone(),
            at: observed.at,
        }
    }

    /// Every area, by panel.
    pub fn areas(&self) -> impl Iterator<Item = &Area> {
        self.panels.iter().flat_map(|panel| &panel.areas)
    }
}
