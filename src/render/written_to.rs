//! The field that a change writes, in the words of Kubernetes and Cilium.

use super::markup::Phrase;
use ipam_planner::plan::{ChangeDocument, EditDocument};

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
        EditDocument::PodPool(_) | EditDocument::AddressPool(_) => field(&change.kind),
    }
}

fn listed<'k>(keys: impl Iterator<Item = &'k String>) -> Phrase {
    keys.enumerate()
        .fold(Phrase::default(), |phrase, (place, key)| {
            let between = if place == 0 { "" } else { " and " };
            phrase.words(between).value(key)
        })
}
