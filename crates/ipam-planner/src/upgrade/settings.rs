//! Settings that the next release no longer reads.

use super::change::{Cause, Changes, UpgradeCode};
use super::hop::HopView;
use ipam_cilium::observed::setting_key;
use ipam_core::model::ObjectRef;

/// The mode that 1.12 to 1.14 had.
const V2BETA: &str = "cluster-pool-v2beta";

pub(super) fn judge(hop: &HopView<'_>, changes: &mut Changes) {
    if hop.crosses(15) {
        tunnel(hop, changes);
        mode(hop, changes);
    }
}

fn setting<'h>(hop: &'h HopView<'_>, key: &str) -> Option<&'h str> {
    hop.before.common_setting(key).map(|setting| setting.value)
}

fn cilium_config() -> ObjectRef {
    ObjectRef {
        kind: "ConfigMap",
        name: "cilium-config".to_owned(),
    }
}

/// `tunnel` gave way to `routing-mode` and `tunnel-protocol`, which exist from 1.14 on.
fn tunnel(hop: &HopView<'_>, changes: &mut Changes) {
    let Some(value) = setting(hop, setting_key::TUNNEL) else {
        return;
    };
    let (effect, wanted) = match value {
        "disabled" if setting(hop, setting_key::ROUTING_MODE).is_none() => (
            "Pods are routed through tunnels instead of natively",
            "routing-mode: native",
        ),
        "geneve" => (
            "tunnels use VXLAN instead of Geneve",
            "tunnel-protocol: geneve",
        ),
        _ => return,
    };
    let cause = Cause {
        why: "Cilium 1.15 and later do not read `tunnel`".to_owned(),
        source: "Cilium 1.15.19, Documentation/operations/upgrade.rst",
        before: format!("at 1.14, set `{wanted}` in cilium-config instead of `tunnel: {value}`"),
    };
    changes.add(
        UpgradeCode::Setting,
        cause,
        cilium_config(),
        effect.to_owned(),
    );
}

fn mode(hop: &HopView<'_>, changes: &mut Changes) {
    if setting(hop, setting_key::IPAM) != Some(V2BETA) {
        return;
    }
    let cause = Cause {
        why: format!("the IPAM mode `{V2BETA}` ends with 1.14"),
        source: "pkg/ipam/option/option.go @ Cilium 1.15.19",
        before: "move the nodes to `cluster-pool` or `multi-pool`: Cilium has no migration, so re-create the nodes".to_owned(),
    };
    let effect = "agents and operator fail to start".to_owned();
    changes.add(UpgradeCode::Setting, cause, cilium_config(), effect);
}
