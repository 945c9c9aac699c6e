//! Whether the API server keeps every field of a write. It prunes fields that the schema of the
//! written version lacks. Must never know what a field means.

use serde_json::{Value, json};

use super::blocked::{BlockedReason, NotKept};
use super::change::{Edit, NodeConfigEdit};
use ipam_cilium::observed::{CiliumKind, Observed, range_setting};

/// Blocks a write in this version, such as `cilium.io/v2`, of which the server would not keep every
/// field. A definition that cannot be read blocks nothing: the server validates each write, too.
pub(super) fn keeps(
    observed: &Observed,
    kind: CiliumKind,
    api: &str,
    object: &Value,
) -> Result<(), BlockedReason> {
    let Some(served) = observed.definitions.of(kind) else {
        return Ok(());
    };
    let version = api.rsplit('/').next().unwrap_or(api);
    let blocked = |fields: Vec<String>| {
        let not_kept = NotKept {
            kind,
            api: api.to_owned(),
            fields,
        };
        Err(BlockedReason::FieldsNotKept(Box::new(not_kept)))
    };
    if !served.serves(version) {
        return blocked(Vec::new());
    }
    let schema = served
        .versions
        .get(version)
        .and_then(|version| version.schema.as_ref());
    match schema.map(|schema| schema.pruned(object)) {
        Some(fields) if !fields.is_empty() => blocked(fields),
        _ => Ok(()),
    }
}

/// The same for the write of a node.
pub(super) fn keeps_edit(observed: &Observed, edit: &Edit) -> Result<(), BlockedReason> {
    match edit {
        Edit::NodeSpec { .. } | Edit::NodeAnnotations { .. } => Ok(()),
        Edit::CiliumNode { pod_cidrs, .. } => {
            let texts: Vec<String> = pod_cidrs.iter().map(ToString::to_string).collect();
            let object = json!({"spec": {"ipam": {"podCIDRs": texts}}});
            keeps(observed, CiliumKind::Node, "cilium.io/v2", &object)
        }
        Edit::NodeConfig(config) => {
            let NodeConfigEdit { api, ranges, .. } = &**config;
            let mut defaults = json!({});
            for block in ranges.iter() {
                defaults[range_setting(block.family())] = json!(block.to_string());
            }
            let object =
                json!({"spec": {"nodeSelector": {"matchLabels": {}}, "defaults": defaults}});
            keeps(observed, CiliumKind::NodeConfig, api.as_str(), &object)
        }
    }
}
