//! A node that moves to another block, for the comment of a pull request: what it means for Pods, how
//! it comes about, and the ways out and back.

use super::comment::Occasion;
use super::markup::Phrase;
use ipam_planner::plan::{ChangeDocument, EditDocument, Intent};

const OF_A_MOVE: &str = "they keep their addresses until the node's Cilium agent restarts. No job restarts it: a person, a reboot or an upgrade does. Pods that still have an address of the old block then lose their network, until they are created again.";

const BY_A_SETTING: &str = "the new block is written to a `CiliumNodeConfig` for this node. Its agent reads that when it starts, and takes this block in place of the one in `Node.spec.podCIDRs`. That field can be written only once, so it shows the old block for good, and no other node gets that block.";

/// Unlike others, Pods of DaemonSets stay on a drained node.
const AFTER_A_DRAIN: &str = ", restart its agent after the apply job, delete the Pods that a drain leaves (those of DaemonSets), and then uncordon it";

/// What a reader asks about a move, with the answers that are known.
pub(super) fn answers(
    change: &ChangeDocument,
    intent: Intent,
    occasion: Occasion,
) -> Vec<(&'static str, Phrase)> {
    let way_out = ("Way out", way_out(change, intent, occasion));
    match (&change.edit, intent) {
        (EditDocument::NodeConfig(_), Intent::Files) => {
            let mut answers = what_it_means(change, intent);
            answers.extend([way_out, ("Way back", way_back(change))]);
            answers
        }
        (EditDocument::NodeConfig(_), Intent::Undo) => {
            let mut answers = what_it_means(change, intent);
            answers.push(way_out);
            answers
        }
        _ => vec![way_out],
    }
}

/// The effect on running Pods, and how the node learns of its block, where they are known.
pub(super) fn what_it_means(
    change: &ChangeDocument,
    intent: Intent,
) -> Vec<(&'static str, Phrase)> {
    let pods = ("Pods", Phrase::default().sentence(OF_A_MOVE));
    match (&change.edit, intent) {
        (EditDocument::NodeConfig(_), Intent::Files) => {
            vec![pods, ("How", Phrase::default().sentence(BY_A_SETTING))]
        }
        (EditDocument::NodeConfig(_), Intent::Undo) => vec![pods],
        _ => Vec::new(),
    }
}

fn way_out(change: &ChangeDocument, intent: Intent, occasion: Occasion) -> Phrase {
    let before = match occasion {
        Occasion::Merge => "the merge",
        Occasion::Apply => "the apply",
    };
    let drain = format!("drain the node before {before}{AFTER_A_DRAIN}");
    match intent {
        Intent::Undo => Phrase::new(&drain),
        Intent::Files => Phrase::new("remove the pin, and the node keeps ")
            .value(&change.before.join(" "))
            .words("; or ")
            .words(&drain),
    }
}

/// The node has both blocks from then on, so a removed pin moves nothing.
fn way_back(change: &ChangeDocument) -> Phrase {
    Phrase::new("pin ")
        .value(&change.before.join(" "))
        .words(" in place of the new block, or apply the undo plan, which takes back all of the apply that can be undone; then drain the node and restart its agent again. Once the block is written, removing the pin is not enough")
}
