//! Annotations of Services that look like those of LB-IPAM, and that no version of Cilium reads.
//! Must never know their values, which Cilium ignores.

use std::collections::BTreeMap;

use super::Observed;
use super::load_balancing::SERVICE_ANNOTATIONS;
use ipam_core::model::ServiceName;

/// Whether a key is meant for LB-IPAM, or for the IPAM of Pods, by its words.
pub(super) fn is_of_load_balancing(key: &str) -> bool {
    let key = key.to_ascii_lowercase();
    let Some((domain, name)) = key.split_once('/') else {
        return false;
    };
    let is_ciliums = domain == "io.cilium" || domain == "cilium.io";
    let is_of_ipam = domain == "lbipam.cilium.io" || domain == "ipam.cilium.io";
    let is_similar = domain.ends_with(".cilium.io") && domain.contains("ipam");
    let names_it = ["lb-ipam", "lbipam"].iter().any(|word| name.contains(word));
    is_of_ipam || is_similar || (is_ciliums && names_it)
}

/// The annotations of LB-IPAM that some version of Cilium reads (`pkg/annotation/k8s.go` @ 1.20).
pub fn read_service_annotations() -> impl Iterator<Item = &'static str> {
    SERVICE_ANNOTATIONS.as_flattened().iter().copied()
}

impl Observed {
    pub(super) fn note_annotations(
        &mut self,
        name: &ServiceName,
        annotations: &BTreeMap<String, String>,
    ) {
        let is_read = |key: &str| read_service_annotations().any(|read| read == key);
        let unread: Vec<String> = annotations
            .keys()
            .filter(|key| is_of_load_balancing(key) && !is_read(key))
            .cloned()
            .collect();
        if !unread.is_empty() {
            self.unread_annotations.insert(name.clone(), unread);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_by_their_words() {
        for key in [
            "io.cilium/lb-ipam-pool",
            "lbipam.cilium.io/pool",
            "lb-ipam.cilium.io/ips",
            "cilium.io/lb-ipam-ips",
            "ipam.cilium.io/ip-pool",
        ] {
            assert!(is_of_load_balancing(key), "{key}");
        }
        for key in [
            "io.cilium/global-service",
            "service.cilium.io/global",
            "metallb.universe.tf/address-pool",
            "example.com/lb-ipam-pool",
            "kubernetes.io/ingress.class",
            "lb-ipam-pool",
        ] {
            assert!(!is_of_load_balancing(key), "{key}");
        }
        assert!(read_service_annotations().all(is_of_load_balancing));
    }
}
