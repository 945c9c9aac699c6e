//! Pools and Services for tests of this folder.

use std::collections::BTreeMap;

use super::pool::{AddressPool, AddressRange, FirstLast, Marking, RangeForm, ServingState};
use super::rules::LbRules;
use super::service::{Annotation, FamilyPolicy, LbService, Port, RequestAuthor, TrafficPolicy};
use ipam_core::model::{Labels, Operator, Requirement, Selector, ServiceName};
use ipam_core::net::Family;

/// A pool of CIDRs for Services of a color.
pub(super) fn pool(name: &str, color: &str, ranges: &[&str]) -> AddressPool {
    let range = |text: &&str| AddressRange {
        range: text.parse().unwrap(),
        form: RangeForm::Cidr,
    };
    let is_color = Requirement::new("color", Operator::In([color.to_owned()].into())).unwrap();
    AddressPool {
        name: name.into(),
        created: Some("2026-01-01T00:00:00Z".into()),
        ranges: ranges.iter().map(range).collect(),
        selector: Some(Selector::all_of([is_color])),
        first_last: FirstLast::Unset,
        state: ServingState::Enabled,
        marking: Marking::None,
    }
}

/// A Service of a color, with the addresses that it requests and has.
pub(super) fn service(name: &str, color: &str, requested: &[&str], ingress: &[&str]) -> LbService {
    let name = ServiceName::new("default", name);
    let addresses = |texts: &[&str]| texts.iter().map(|text| text.parse().unwrap()).collect();
    LbService {
        labels: LbService::with_pseudo_labels(
            &name,
            [("color".to_owned(), color.to_owned())].into(),
        ),
        name,
        version: ipam_core::model::ObjectVersion::default(),
        class: None,
        family_policy: FamilyPolicy::Single,
        families: vec![Family::Ipv4],
        spec_request: None,
        other_controller: crate::observed::OtherController::default(),
        addresses: Annotation {
            newer: None,
            older: Some(requested.join(",")),
        },
        request_author: RequestAuthor::Others,
        owner: None,
        sharing_key: Annotation::default(),
        sharing_namespaces: Annotation::default(),
        traffic_policy: TrafficPolicy::Cluster,
        ports: [Port {
            port: 80,
            protocol: "TCP".into(),
        }]
        .into(),
        pod_selector: Labels::new(),
        ingress: addresses(ingress),
        hostnames: Vec::new(),
        reason: None,
    }
}

/// The rules of a version of Cilium.
pub(super) fn rules(version: &str) -> LbRules {
    LbRules::new(version.parse().ok(), &BTreeMap::new())
}
