//! Annotations of Services that look like those of LB-IPAM, and that Cilium does not read.

use super::finding;
use ipam_cilium::behaviours;
use ipam_cilium::lbipam::ADDRESSES;
use ipam_cilium::observed::{Observed, read_service_annotations};
use ipam_core::model::{Finding, ObjectRef, ServiceName, Severity};
use ipam_core::similar_names::most_similar;

/// Annotations that no version reads, and newer ones that this version does not read.
pub(super) fn unread(observed: &Observed) -> Vec<Finding> {
    let unread = observed.unread_annotations.iter();
    let unread = unread.flat_map(|(name, keys)| keys.iter().map(move |key| unknown(name, key)));
    unread.chain(too_new(observed)).collect()
}

fn of(name: &ServiceName, key: &str, whose: &str) -> Finding {
    let message = format!(
        "Service `{}` has the annotation `{}`, which {whose} reads",
        name.to_string().escape_debug(),
        key.escape_debug()
    );
    finding(Severity::Warning, "service-annotation-not-read", message)
        .about(ObjectRef::service(name))
        .causes("Cilium ignores it")
}

fn unknown(name: &ServiceName, key: &str) -> Finding {
    of(name, key, "no version of Cilium").help(advice(key))
}

/// What the author probably meant.
fn advice(key: &str) -> String {
    let lower = key.to_ascii_lowercase();
    let (domain, name) = lower.split_once('/').unwrap_or((&lower, ""));
    if name.contains("pool") {
        return match domain {
            "ipam.cilium.io" => "this annotation is read from Pods and namespaces, not from Services",
            _ => "Cilium has no annotation for a pool: label the Service, and let the `serviceSelector` of the pool select the label",
        }
        .to_owned();
    }
    let bare = name
        .trim_start_matches("lb-ipam-")
        .trim_start_matches("lbipam-");
    let names =
        read_service_annotations().filter_map(|known| known.strip_prefix("lbipam.cilium.io/"));
    match most_similar(bare, names) {
        Some(meant) => format!("did you mean `lbipam.cilium.io/{meant}`?"),
        None => {
            let known: Vec<String> = read_service_annotations()
                .filter(|known| known.starts_with("lbipam.cilium.io/"))
                .map(|known| format!("`{known}`"))
                .collect();
            format!("remove it; Cilium reads {}", known.join(", "))
        }
    }
}

/// `lbipam.cilium.io/ips` up to 1.15, where only its older key is read.
fn too_new(observed: &Observed) -> Vec<Finding> {
    let rules = observed.lb_rules();
    if rules.is_of(behaviours::NEWER_SERVICE_ANNOTATIONS) {
        return Vec::new();
    }
    let services = observed.services.values();
    let newer_only = services
        .filter(|service| service.addresses.newer.is_some() && service.addresses.older.is_none());
    let [newer, older] = ADDRESSES;
    newer_only
        .map(|service| {
            of(&service.name, newer, "Cilium before 1.16 never")
                .help(format!("use `{older}`, which every version reads"))
        })
        .collect()
}
