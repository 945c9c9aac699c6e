//! The change of a manifest as a unified diff of its YAML.

use serde::Serialize;
use serde_json::{Value, json};
use similar::TextDiff;

use ipam_cilium::lbipam::AddressPoolManifest;
use ipam_planner::plan::{ChangeDocument, EditDocument};

/// Lines around a change.
const CONTEXT: usize = 3;

/// The lines of the diff, without file names; empty for a change without a manifest.
pub(super) fn manifest_diff(change: &ChangeDocument) -> Vec<String> {
    let (EditDocument::AddressPool(after), Some(EditDocument::AddressPool(before))) =
        (&change.edit, &change.undo)
    else {
        return Vec::new();
    };
    let (before, after) = (yaml(before.as_ref()), yaml(after.as_ref()));
    let diff = TextDiff::from_lines(&before, &after);
    let unified = diff.unified_diff().context_radius(CONTEXT).to_string();
    unified
        .lines()
        .filter(|line| !line.starts_with("\\ No newline"))
        .map(str::to_owned)
        .collect()
}

#[derive(Serialize)]
struct Written {
    #[serde(skip_serializing_if = "Value::is_null")]
    metadata: Value,
    spec: Value,
}

/// The YAML as a person would write it; empty without a manifest.
fn yaml(manifest: Option<&AddressPoolManifest>) -> String {
    let Some(AddressPoolManifest {
        labels,
        annotations,
        spec,
    }) = manifest
    else {
        return String::new();
    };
    let mut metadata = Value::Null;
    for (key, values) in [("labels", labels), ("annotations", annotations)] {
        if !values.is_empty() {
            metadata[key] = json!(values);
        }
    }
    serde_yaml::to_string(&Written {
        metadata,
        spec: json!(spec),
    })
    .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use ipam_cilium::lbipam::{AddressBlock, AddressPoolSpec};
    use ipam_planner::plan::GuardDocument;

    fn manifest(cidr: &str) -> AddressPoolManifest {
        let block = AddressBlock {
            cidr: Some(cidr.to_owned()),
            ..AddressBlock::default()
        };
        let spec = AddressPoolSpec {
            blocks: vec![block],
            disabled: true,
            ..AddressPoolSpec::default()
        };
        AddressPoolManifest {
            spec,
            ..AddressPoolManifest::default()
        }
    }

    #[test]
    fn what_changes_stands_between_what_stays() {
        let change = ChangeDocument {
            action: "update".into(),
            kind: "CiliumLoadBalancerIPPool".into(),
            name: "blue".into(),
            write_path: String::new(),
            before: Vec::new(),
            after: Vec::new(),
            pool: None,
            failure_domain: None,
            reason: String::new(),
            hazard: String::new(),
            edit: EditDocument::AddressPool(Some(manifest("10.0.0.0/25"))),
            undo: Some(EditDocument::AddressPool(Some(manifest("10.0.0.0/24")))),
            guard: GuardDocument {
                uid: String::new(),
                resource_version: String::new(),
            },
            origin: None,
            needs_approval: Vec::new(),
        };
        let diff = manifest_diff(&change);
        assert!(
            diff.contains(&"-  - cidr: 10.0.0.0/24".to_owned()),
            "{diff:#?}"
        );
        assert!(
            diff.contains(&"+  - cidr: 10.0.0.0/25".to_owned()),
            "{diff:#?}"
        );
        assert!(diff.contains(&"   disabled: true".to_owned()), "{diff:#?}");
    }
}
