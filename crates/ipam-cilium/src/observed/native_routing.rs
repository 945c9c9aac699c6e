//! The range in which Pods are routed without masquerading, from Cilium's settings. Knows no blocks
//! of nodes.

use super::Observed;
use ipam_core::net::{Block, Family};

/// Cilium's setting of that range.
pub fn native_routing_setting(family: Family) -> &'static str {
    match family {
        Family::Ipv4 => "ipv4-native-routing-cidr",
        Family::Ipv6 => "ipv6-native-routing-cidr",
    }
}

impl Observed {
    /// Range whose packets are routed without masquerading; `None` with tunnels, or if it is not
    /// set.
    pub fn native_routing_range(&self, family: Family) -> Option<Block> {
        let setting = |key| self.common_setting(key).map(|setting| setting.value);
        let is_native =
            setting("routing-mode") == Some("native") || setting("tunnel") == Some("disabled");
        let masquerade = match family {
            Family::Ipv4 => "enable-ipv4-masquerade",
            Family::Ipv6 => "enable-ipv6-masquerade",
        };
        // Masquerading is on by default; ip-masq-agent has its own list.
        if setting(masquerade) == Some("false") || self.is_on("enable-ip-masq-agent") {
            return None;
        }
        Block::lenient(setting(native_routing_setting(family)).filter(|_| is_native)?).ok()
    }
}
