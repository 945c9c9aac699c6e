//! The counts of the objects other than nodes in words, below the verdict on a plan.
//!
//! A plan that is limited by `--target` or `--exclude`, in words.
//!
//! The field that a change writes, in the words of Kubernetes and Cilium.
//!
//! The change of a manifest as a unified diff of its YAML.

use serde::Serialize;
use serde_json::{Value, json};
use similar::TextDiff;

use super::phrase::Phrase;
use super::text::{Paint, grouped_digits, printable};
use ipam_cilium::lbipam::AddressPoolManifest;
use ipam_plan::plan::{
    ChangeDocument, EditDocument, LbSummary, Losing, PodPoolSummary, Selection, Summary,
};

/// LoadBalancer pools and pools of Pods, each in a line; empty without any.
pub(super) fn of_objects(summary: &Summary, losing: Losing) -> [String; 2] {
    let line = |(text, changes_nothing): (String, bool)| match text.is_empty() || changes_nothing {
        true => text,
        false => Paint::Bold.on(&text),
    };
    let (balancing, pods) = (&summary.load_balancing, &summary.pod_pools);
    let balancing = (
        load_balancing(balancing, losing),
        balancing.changes_nothing(),
    );
    [
        line(balancing),
        line((pod_pools(pods), pods.changes_nothing())),
    ]
}

/// `LoadBalancer: 1 to create, …`; empty without LoadBalancer pools and pins.
pub(super) fn load_balancing(summary: &LbSummary, losing: Losing) -> String {
    let LbSummary {
        create,
        update,
        adopt,
        delete,
        pin,
        unchanged,
        lost_addresses,
        uncertain_losses: _,
    } = summary;
    let writes = counts([
        (*create, "to create"),
        (*update, "to update"),
        (*adopt, "to adopt"),
        (*delete, "to delete"),
        (*pin, "to pin"),
    ]);
    let unchanged = counts([(*unchanged, "unchanged")]);
    let lost = match (summary.changes_nothing(), lost_addresses) {
        (true, _) => None,
        (false, 0) => Some("no Service loses an address".to_owned()),
        (false, _) => summary.losses_in_words(losing),
    };
    sentence_of("LoadBalancer", &writes, unchanged.into_iter().chain(lost))
}

/// `Pod pools: 2 to create, …`; empty without any such object.
pub(super) fn pod_pools(summary: &PodPoolSummary) -> String {
    let PodPoolSummary {
        create,
        update,
        adopt,
        delete,
        unchanged,
    } = summary;
    let writes = counts([
        (*create, "to create"),
        (*update, "to update"),
        (*adopt, "to adopt"),
        (*delete, "to delete"),
    ]);
    sentence_of("Pod pools", &writes, counts([(*unchanged, "unchanged")]))
}

/// Counts with their nouns, without counts of zero.
fn counts<const N: usize>(counts: [(usize, &str); N]) -> Vec<String> {
    let counts = counts.into_iter().filter(|(number, _)| *number > 0);
    counts
        .map(|(number, what)| format!("{} {what}", grouped_digits(number)))
        .collect()
}

/// One sentence, `title: writes; others.`, without empty parts; empty without any part.
fn sentence_of(title: &str, writes: &[String], others: impl IntoIterator<Item = String>) -> String {
    let others: Vec<String> = others.into_iter().collect();
    let parts = [writes.join(", "), others.join(", ")];
    let parts: Vec<String> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    match parts.is_empty() {
        true => String::new(),
        false => format!("{title}: {}.", parts.join("; ")),
    }
}

/// `limited by --target node/n1`; empty for a whole plan.
pub(super) fn by(selection: Option<&Selection>) -> String {
    selection
        .map(|selection| format!("limited by {}", printable(&selection.flags())))
        .unwrap_or_default()
}

pub(super) fn written_to(change: &ChangeDocument) -> Phrase {
    let field = |name: &str| Phrase::default().value(name);
    match &change.edit {
        EditDocument::NodeSpec(_) => field("Node.spec.podCIDRs"),
        EditDocument::CiliumNode(_)
        | EditDocument::CiliumNodeBesideOperator(_)
        | EditDocument::NoCiliumNode(()) => field("CiliumNode.spec.ipam.podCIDRs"),
        EditDocument::NodeConfig(settings) => {
            let keys = listed(settings.keys());
            keys.words(" of its own ").value("CiliumNodeConfig")
        }
        EditDocument::Annotations(annotations) => {
            let words = match annotations.len() {
                1 => "annotation ",
                _ => "annotations ",
            };
            Phrase::new(words).then(listed(annotations.keys()))
        }
        EditDocument::AddressPairs { .. } => field("allowed_address_pairs"),
        EditDocument::PodPool(_) | EditDocument::AddressPool(_) => field(change.kind.as_str()),
    }
}

fn listed<'k>(keys: impl Iterator<Item = &'k String>) -> Phrase {
    keys.map(|key| Phrase::of(key))
        .reduce(|before, next| before.words(" and ").then(next))
        .unwrap_or_default()
}

/// Number of unchanged lines around a change.
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
    use ipam_core::model::{Hazard, ObjectVersion};
    use ipam_plan::plan::{ChangeAction, TargetKind};

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
            action: ChangeAction::Update,
            kind: TargetKind::AddressPool,
            name: "blue".into(),
            write_path: String::new(),
            before: Vec::new(),
            after: Vec::new(),
            pool: None,
            failure_domain: None,
            reason: String::new(),
            hazard: Hazard::None,
            edit: EditDocument::AddressPool(Some(manifest("10.0.0.0/25"))),
            undo: Some(EditDocument::AddressPool(Some(manifest("10.0.0.0/24")))),
            guard: ObjectVersion::default(),
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
