//! What an undo reverts is as it was before the apply, and everything else stays.
//!
//! The generated clusters are those of [`super::properties_applied`].

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::generated::{cases, worlds};
use super::properties_applied::{apply, opened};
use ipam_cilium::observed::Observed;
use ipam_core::model::NodeName;
use ipam_core::net::Block;
use ipam_plan::plan::node_changes;
use worlds::Profile;

/// Every field of a node that a plan writes.
#[derive(Debug, PartialEq)]
struct Fields {
    spec: Vec<Block>,
    annotations: Vec<Block>,
    /// `None` without a CiliumNode.
    cilium_node: Option<BTreeSet<Block>>,
    /// `None` without a CiliumNodeConfig.
    settings: Option<BTreeMap<String, String>>,
}

fn fields(observed: &Observed, name: &NodeName) -> Fields {
    let node = &observed.nodes[name];
    let annotations = node.annotation.iter().chain(node.old_annotation.iter());
    let cilium_node = observed.cilium_nodes.get(name);
    let config = observed.node_config(&format!("cilium-ipam-{name}"));
    Fields {
        spec: node.spec.iter().copied().collect(),
        annotations: annotations.copied().collect(),
        cilium_node: cilium_node.map(|seen| seen.pod_cidrs.iter().copied().collect()),
        settings: config.map(|config| config.defaults.clone()),
    }
}

proptest! {
    #![proptest_config(cases(400))]

    #[test]
    fn an_undo_reverts_what_it_shows_and_nothing_else(world in worlds(Profile::Fields)) {
        let (loaded, folder) = opened(&world)?;
        let first = apply(&folder, &loaded, None);
        let undone = apply(&folder, &loaded, Some(&first.undo));
        // Only its view of the cluster counts.
        let after = apply(&folder, &loaded, None).observed;
        let reverted: BTreeSet<&NodeName> = node_changes(&undone.changes).map(|change| &change.node).collect();
        for name in first.observed.nodes.keys() {
            let expected = if reverted.contains(name) { &first.observed } else { &undone.observed };
            prop_assert_eq!(fields(&after, name), fields(expected, name), "{}", name);
        }
    }
}
