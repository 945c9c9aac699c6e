//! Which CNI plugin gives Pods their addresses: Cilium, or one that is chained before it.
//!
//! `daemon/cmd/cni/config.go` and `plugins/cilium-cni/chaining` @ Cilium 1.14 to 1.17. A plugin before
//! Cilium creates the interface and its addresses. In the mode `portmap` the other plugin comes after
//! Cilium, and adds only ports.

use super::{Observed, setting_key};

/// The source of the addresses of Pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PodAddresses<'o> {
    /// Cilium's IPAM gives Pods their addresses.
    Cilium,
    /// Another plugin gives addresses, by this `cni-chaining-mode`. A node's block has only
    /// Cilium's own addresses: those of `cilium_host`, of the health endpoint and of the ingress.
    Chained(&'o str),
    /// Files of the CNI configuration that users write decide (`custom-cni-conf`).
    OwnConfiguration,
}

impl Observed {
    pub fn pod_addresses(&self) -> PodAddresses<'_> {
        let mode = self.common_setting(setting_key::CNI_CHAINING_MODE);
        match mode.map(|mode| mode.value) {
            None | Some("" | "none" | "portmap") => {
                match self.is_on(setting_key::CUSTOM_CNI_CONF) {
                    true => PodAddresses::OwnConfiguration,
                    false => PodAddresses::Cilium,
                }
            }
            Some(mode) => PodAddresses::Chained(mode),
        }
    }

    /// The chaining mode, if another plugin gives Pods their addresses.
    pub fn chaining_mode(&self) -> Option<&str> {
        match self.pod_addresses() {
            PodAddresses::Chained(mode) => Some(mode),
            PodAddresses::Cilium | PodAddresses::OwnConfiguration => None,
        }
    }
}
