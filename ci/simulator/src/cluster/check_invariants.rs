//! The rules that no write of ours may break. A broken one becomes a violation; the write goes on.

use std::fmt::Display;

use serde_json::Value;

use super::state::{Sender, SimState, Taking, Writer, blocks};
use ipam_cilium::observed::{ANNOTATION_KEYS, OWNER_LABEL, ObjectVersion, ObservedKind};
use ipam_core::net::Block;
use worlds::invariants::Invariant;

impl SimState {
    fn violate(&mut self, invariant: Invariant, name: &str, what: impl Display) {
        let broken = invariant.broken(format!("{name}: {what}"));
        self.violations.push(broken.to_string());
    }

    /// Checks a deletion of ours of a Node or CiliumNode.
    pub(super) fn check_deletion(
        &mut self,
        sender: &Sender,
        (kind, name): &(ObservedKind, String),
        version: &ObjectVersion,
        object: &Value,
    ) {
        let is_ours = object["metadata"]["labels"][OWNER_LABEL.0] == OWNER_LABEL.1;
        if !version.is_known() {
            self.violate(Invariant::Guarded, name, "an unguarded deletion");
        }
        if sender.taking == Taking::Forbidden {
            self.violate(Invariant::NothingMoves, name, "a deletion outside an undo");
        }
        if *kind == ObservedKind::CiliumNode && !is_ours {
            let what = "a CiliumNode without our label was deleted";
            self.violate(Invariant::OnlyOurs, name, what);
        }
        self.check_taken(name, object, &blocks(object));
    }

    /// Checks that blocks which are taken from a CiliumNode are ours, and that no agent runs with
    /// them. An agent reads its Node only once, so an undo may take blocks from that.
    fn check_taken(&mut self, name: &str, object: &Value, taken: &[Block]) {
        if object["kind"] != "CiliumNode" {
            return;
        }
        for block in taken {
            let writer = self.writers.get(&(name.to_owned(), *block));
            if writer.is_some_and(|(writer, _)| *writer == Writer::Other) {
                let what = format!("{block} of another writer was taken away");
                self.violate(Invariant::OnlyOurs, name, what);
            }
        }
        if self.has_running_agent(name) {
            let what = "the blocks of a running agent were taken away";
            self.violate(Invariant::NothingMoves, name, what);
        }
    }

    /// Checks a write of ours to a Node or CiliumNode.
    pub(super) fn check_write(
        &mut self,
        sender: &Sender,
        name: &str,
        patch: &Value,
        before: &Value,
        after: &Value,
    ) {
        if patch.pointer("/metadata/uid").is_none()
            || patch.pointer("/metadata/resourceVersion").is_none()
        {
            self.violate(Invariant::Guarded, name, "an unguarded write");
        }
        if without_ours(before) != without_ours(after) {
            let what = format!("a field that is not ours was written: {patch}");
            self.violate(Invariant::OnlyOurs, name, what);
        }
        let (held, shown) = (blocks(before), blocks(after));
        let taken = held.iter().filter(|block| !shown.contains(block));
        let taken: Vec<Block> = taken.copied().collect();
        match taken.first() {
            Some(taken) if sender.taking == Taking::Forbidden => {
                let what = format!("{taken} was held and moved: {patch}");
                self.violate(Invariant::NothingMoves, name, what);
            }
            Some(_) => self.check_taken(name, before, &taken),
            None => {}
        }
        let new: Vec<Block> = shown
            .into_iter()
            .filter(|block| !held.contains(block))
            .collect();
        for block in &new {
            self.check_block(sender, name, *block);
        }
    }

    pub(super) fn check_block(&mut self, sender: &Sender, name: &str, block: Block) {
        let pinned = sender
            .pins
            .iter()
            .find(|(node, _)| node.as_str() == name)
            .map(|(_, blocks)| blocks);
        let pinned =
            pinned.and_then(|blocks| blocks.iter().find(|pin| pin.family() == block.family()));
        if let Some(pin) = pinned.filter(|pin| **pin != block) {
            let what = format!("pinned to {pin}, was given {block}");
            self.violate(Invariant::Pins, name, what);
        }
        if let Some((holder, held)) = self.machine_with(name, block) {
            let what = format!("was given {block}, and the machine {holder} holds {held}");
            self.violate(Invariant::NoSharedBlock, name, what);
        }
        let mut shared = Vec::new();
        for ((kind, other), object) in &self.objects {
            let is_other_node =
                matches!(kind, ObservedKind::Node | ObservedKind::CiliumNode) && other != name;
            let overlapping = blocks(object)
                .into_iter()
                .find(|shown| is_other_node && shown.overlaps(block));
            let Some(shown) = overlapping else { continue };
            // The client cannot know what another writer wrote after its list. It can know the
            // rest.
            let writer = self.writers.get(&(other.clone(), shown));
            if writer.is_none_or(|(writer, at)| *writer == Writer::Ours || *at <= sender.listed_at)
            {
                shared.push(format!("was given {block}, and {other} has {shown}"));
            }
        }
        for what in shared {
            self.violate(Invariant::NoSharedBlock, name, what);
        }
    }
}

/// A Node or CiliumNode without the fields that we may write.
fn without_ours(node: &Value) -> Value {
    let mut node = node.clone();
    if let Some(ipam) = node
        .pointer_mut("/spec/ipam")
        .and_then(Value::as_object_mut)
    {
        ipam.remove("podCIDRs");
    }
    if node
        .pointer("/spec/ipam")
        .and_then(Value::as_object)
        .is_some_and(serde_json::Map::is_empty)
    {
        node["spec"]
            .as_object_mut()
            .and_then(|spec| spec.remove("ipam"));
    }
    if let Some(spec) = node.get_mut("spec").and_then(Value::as_object_mut) {
        spec.remove("podCIDR");
        spec.remove("podCIDRs");
    }
    let annotations = node
        .pointer_mut("/metadata/annotations")
        .and_then(Value::as_object_mut);
    if let Some(annotations) = annotations {
        annotations.retain(|key, _| !ANNOTATION_KEYS.contains(&key.as_str()));
    }
    for pointer in ["/spec", "/metadata/annotations"] {
        let is_empty = node
            .pointer(pointer)
            .and_then(Value::as_object)
            .is_some_and(serde_json::Map::is_empty);
        let (parent, key) = pointer.rsplit_once('/').unwrap_or_default();
        let parent = if parent.is_empty() {
            Some(&mut node)
        } else {
            node.pointer_mut(parent)
        };
        if let Some(parent) = parent.and_then(Value::as_object_mut).filter(|_| is_empty) {
            parent.remove(key);
        }
    }
    node
}
