//! A cluster that went back in time, as after a restore of etcd: how to notice it, and which blocks
//! the cluster forgot.
//!
//! Pure. Forgotten blocks are in use: nodes that got a block since the backup run on it, whether an
//! object shows it or not. It must never know how the blocks are quarantined.

use std::collections::BTreeMap;

use serde_json::Value;

use super::cached_kind::{CachedKind, PendingWrite, claims_key};
use crate::Seen;
use ipam_cilium::observed::{ANNOTATION_KEYS, CLAIMS_KEY, ObservedKind};
use ipam_core::claims::Claims;
use ipam_core::model::NodeName;
use ipam_core::net::Block;

/// A restore that the cache noticed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rollback {
    /// The newest resourceVersion before the restore.
    pub from: u64,
    /// The resourceVersion of the first list after the restore.
    pub to: u64,
    /// Blocks that nodes had or may have had, and that no object shows any more.
    pub forgotten: BTreeMap<Block, NodeName>,
}

type Kinds = BTreeMap<ObservedKind, CachedKind>;

/// Compares the cache with new lists. `written` are blocks that we claimed for nodes or wrote to
/// them, and that did not show yet.
pub(super) fn between(
    old: &Kinds,
    new: &Kinds,
    written: &[(Block, NodeName)],
    writes: WritesSeen,
) -> Option<Rollback> {
    let pairs = || {
        old.iter()
            .filter_map(|(kind, cached)| Some((cached, new.get(kind)?)))
    };
    let mut all = pairs().filter(|(old, new)| (&old.seen, &new.seen) == (&Seen::All, &Seen::All));
    if writes == WritesSeen::Intact && !all.any(|(old, new)| went_back(old, new)) {
        return None;
    }
    let claimed = claims(old);
    let claimed = claimed.held().map(|(block, node)| (block, node.clone()));
    let mut forgotten = BTreeMap::new();
    let known = holdings(old).chain(claimed).chain(written.iter().cloned());
    known.for_each(|(block, node)| note(&mut forgotten, block, node));
    leave_out_shown(new, &mut forgotten);
    let reached = |kinds: &Kinds| {
        kinds
            .values()
            .map(|cached| cached.reached)
            .max()
            .unwrap_or_default()
    };
    Some(Rollback {
        from: reached(old),
        to: reached(new),
        forgotten,
    })
}

/// Adds a block that a node may hold. A block that two nodes may hold is kept from both: an earlier
/// restore can bring a Node back with a block that has moved on.
pub(super) fn note(forgotten: &mut BTreeMap<Block, NodeName>, block: Block, node: NodeName) {
    let before = forgotten.get(&block).filter(|before| **before != node);
    let node = if before.is_some() {
        NodeName::nobody()
    } else {
        node
    };
    forgotten.insert(block, node);
}

/// Removes the blocks that their nodes show by now. Another node that shows a block proves nothing:
/// it may be from before the backup, and disappear.
pub(super) fn leave_out_shown(kinds: &Kinds, forgotten: &mut BTreeMap<Block, NodeName>) {
    let mut shown: BTreeMap<NodeName, Vec<Block>> = BTreeMap::new();
    for (block, node) in holdings(kinds) {
        shown.entry(node).or_default().push(block);
    }
    let shows = |node: &NodeName, block: Block| {
        shown.get(node).is_some_and(|shown| {
            shown
                .iter()
                .any(|shown| shown.range().contains(&block.range()))
        })
    };
    forgotten.retain(|block, node| !shows(node, *block));
}

/// Whether the claims keep all forgotten blocks for their nodes.
pub(super) fn is_quarantined(kinds: &Kinds, forgotten: &BTreeMap<Block, NodeName>) -> bool {
    let claims = claims(kinds);
    let cached: BTreeMap<Block, &NodeName> = claims.held().collect();
    forgotten
        .iter()
        .all(|(block, node)| cached.get(block) == Some(&node))
}

/// Whether writes of this process are in lists that began after the answers to these writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WritesSeen {
    /// No list shows that a write is missing.
    Intact,
    /// The server had a write, and has an earlier object, an earlier moment, or no claims.
    Undone,
}

impl WritesSeen {
    pub(super) fn of<'w>(
        pending: impl Iterator<Item = (&'w (ObservedKind, String), &'w PendingWrite)>,
        listed: &Kinds,
    ) -> WritesSeen {
        let mut pending = pending
            .filter_map(|((kind, key), pending)| Some((*kind, key, pending, listed.get(kind)?)));
        let is_undone =
            |(kind, key, pending, cached): (ObservedKind, &String, &PendingWrite, &CachedKind)| {
                match (pending, cached.objects.get(key)) {
                    (PendingWrite::Version(at), Some(object)) => object.version < *at,
                    (PendingWrite::Version(at), None) => {
                        cached.listed_at < *at || kind == ObservedKind::Claims
                    }
                    (PendingWrite::Deletion(_), _) => false,
                }
            };
        if pending.any(is_undone) {
            WritesSeen::Undone
        } else {
            WritesSeen::Intact
        }
    }
}

/// Whether a list is older than the cached kind, or has an earlier version of an object:
/// resourceVersions only go up (apimachinery `pkg/util/resourceversion` @ 1.36). Claims that are
/// gone count too: they may be from after the backup, and a person who deletes them makes the
/// cluster forget the claimed blocks all the same.
fn went_back(old: &CachedKind, new: &CachedKind) -> bool {
    let is_earlier = |(key, new): (&String, &super::cached_kind::Object)| {
        old.objects
            .get(key)
            .is_some_and(|old| old.uid == new.uid && old.version > new.version)
    };
    let claims_are_gone =
        old.objects.contains_key(&claims_key()) && !new.objects.contains_key(&claims_key());
    old.reached > new.listed_at || new.objects.iter().any(is_earlier) || claims_are_gone
}

/// Blocks that Nodes and CiliumNodes show.
fn holdings(kinds: &Kinds) -> impl Iterator<Item = (Block, NodeName)> + '_ {
    let of_nodes = [ObservedKind::Node, ObservedKind::CiliumNode]
        .into_iter()
        .filter_map(|kind| kinds.get(&kind));
    of_nodes
        .flat_map(|cached| cached.objects.iter())
        .flat_map(|(name, object)| {
            let name: Option<NodeName> = name.parse().ok();
            object
                .blocks
                .iter()
                .filter_map(move |block| Some((*block, name.clone()?)))
        })
}

/// The claims; empty if they cannot be read, because nothing is written then.
fn claims(kinds: &Kinds) -> Claims {
    let object = kinds
        .get(&ObservedKind::Claims)
        .and_then(|cached| cached.objects.get(&claims_key()));
    let object: Option<Value> = object.and_then(|object| serde_json::from_str(&object.json).ok());
    object
        .map(|object| read_claims(&object))
        .unwrap_or_default()
}

fn read_claims(object: &Value) -> Claims {
    let text = object["data"][CLAIMS_KEY].as_str();
    text.and_then(|text| Claims::from_json(text).ok())
        .unwrap_or_default()
}

/// The blocks that claims keep for nodes.
pub(super) fn held_by_claims(content: &Value) -> BTreeMap<Block, NodeName> {
    read_claims(content)
        .held()
        .map(|(block, node)| (block, node.clone()))
        .collect()
}

/// Blocks that a patch writes to a Node or CiliumNode.
pub(super) fn blocks_written(patch: &Value) -> Vec<Block> {
    let lists = [
        patch.pointer("/spec/podCIDRs"),
        patch.pointer("/spec/ipam/podCIDRs"),
    ];
    let listed = lists
        .into_iter()
        .flatten()
        .filter_map(Value::as_array)
        .flatten();
    let annotations = ANNOTATION_KEYS
        .iter()
        .filter_map(|key| patch["metadata"]["annotations"].get(key));
    listed
        .chain(annotations)
        .filter_map(|text| text.as_str()?.parse().ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use ipam_cilium::observed::{CLAIMS_NAME, OWN_NAMESPACE};

    fn node(name: &str, version: u64, block: &str) -> Value {
        json!({"metadata": {"name": name, "uid": name, "resourceVersion": version.to_string()}, "spec": {"podCIDRs": [block]}})
    }

    fn kinds(listed_at: u64, nodes: &[Value], claims: &str) -> Kinds {
        let mut cached: Kinds = [ObservedKind::Claims, ObservedKind::Node]
            .map(|kind| (kind, CachedKind::of("")))
            .into_iter()
            .collect();
        cached
            .values_mut()
            .for_each(|cached| cached.begin(&listed_at.to_string()));
        for node in nodes {
            cached
                .get_mut(&ObservedKind::Node)
                .unwrap()
                .put(ObservedKind::Node, node);
        }
        let metadata = json!({"namespace": OWN_NAMESPACE, "name": CLAIMS_NAME, "uid": "c", "resourceVersion": "1"});
        let claims = json!({"metadata": metadata, "data": {CLAIMS_KEY: claims}});
        cached
            .get_mut(&ObservedKind::Claims)
            .unwrap()
            .put(ObservedKind::Claims, &claims);
        cached
    }

    fn forgotten(rollback: Option<Rollback>) -> Vec<String> {
        let forgotten = rollback.unwrap().forgotten;
        forgotten
            .iter()
            .map(|(block, node)| format!("{block} {node}"))
            .collect()
    }

    const NONE: &str = r#"{"format_version":"1.0"}"#;

    #[test]
    fn a_later_list_forgets_nothing() {
        let old = kinds(
            10,
            &[node("n", 5, "10.0.0.0/24"), node("m", 6, "10.0.1.0/24")],
            NONE,
        );
        assert_eq!(
            between(
                &old,
                &kinds(11, &[node("n", 7, "10.0.0.0/24")], NONE),
                &[],
                WritesSeen::Intact
            ),
            None
        );
        assert_eq!(between(&old, &old, &[], WritesSeen::Intact), None);
    }

    #[test]
    fn an_earlier_list_forgets_what_it_does_not_show() {
        let old = kinds(
            10,
            &[node("n", 5, "10.0.0.0/24"), node("m", 6, "10.0.1.0/24")],
            NONE,
        );
        let earlier = kinds(9, &[node("n", 5, "10.0.0.0/24")], NONE);
        let rollback = between(&old, &earlier, &[], WritesSeen::Intact);
        assert_eq!(
            rollback
                .as_ref()
                .map(|rollback| (rollback.from, rollback.to)),
            Some((10, 9))
        );
        assert_eq!(forgotten(rollback), ["10.0.1.0/24 m"]);
        let taken = kinds(
            9,
            &[
                node("other", 5, "10.0.1.0/24"),
                node("half", 5, "10.0.0.0/25"),
            ],
            NONE,
        );
        let both = ["10.0.0.0/24 n", "10.0.1.0/24 m"];
        assert_eq!(
            forgotten(between(&old, &taken, &[], WritesSeen::Intact)),
            both,
            "others show them as before the backup, and may be gone"
        );
        let half = kinds(
            9,
            &[node("n", 5, "10.0.0.0/25"), node("m", 4, "10.0.0.0/23")],
            NONE,
        );
        assert_eq!(
            forgotten(between(&old, &half, &[], WritesSeen::Intact)),
            ["10.0.0.0/24 n"],
            "its other half is not shown"
        );
    }

    #[test]
    fn a_block_that_two_nodes_may_hold_is_for_neither() {
        let claimed = r#"{"format_version":"1.0","quarantined":[{"block":"10.0.0.0/24","node":"m","free_at":"2999-01-01T00:00:00Z"}]}"#;
        let old = kinds(10, &[node("n", 5, "10.0.0.0/24")], claimed);
        let rollback = between(&old, &kinds(3, &[], NONE), &[], WritesSeen::Intact);
        assert_eq!(
            forgotten(rollback),
            [format!("10.0.0.0/24 {}", NodeName::nobody())]
        );
    }

    #[test]
    fn an_object_of_an_earlier_version_tells_it_though_the_list_is_later() {
        let old = kinds(
            10,
            &[node("n", 5, "10.0.0.0/24"), node("m", 6, "10.0.1.0/24")],
            NONE,
        );
        let bumped = kinds(1_000, &[node("n", 4, "10.0.0.0/24")], NONE);
        assert_eq!(
            forgotten(between(&old, &bumped, &[], WritesSeen::Intact)),
            ["10.0.1.0/24 m"]
        );
        let mut another = node("n", 4, "10.0.0.0/24");
        another["metadata"]["uid"] = json!("another");
        assert_eq!(
            between(
                &old,
                &kinds(1_000, &[another], NONE),
                &[],
                WritesSeen::Intact
            ),
            None,
            "it was made anew"
        );
    }

    #[test]
    fn claims_that_are_gone_tell_it_where_nothing_else_does() {
        let old = kinds(
            10,
            &[node("n", 5, "10.0.0.0/24"), node("m", 6, "10.0.1.0/24")],
            NONE,
        );
        let mut bumped = kinds(1_000, &[node("n", 5, "10.0.0.0/24")], NONE);
        assert_eq!(
            between(&old, &bumped, &[], WritesSeen::Intact),
            None,
            "a node that was deleted"
        );
        bumped.get_mut(&ObservedKind::Claims).unwrap().objects = std::sync::Arc::default();
        assert_eq!(
            forgotten(between(&old, &bumped, &[], WritesSeen::Intact)),
            ["10.0.1.0/24 m"]
        );
    }

    #[test]
    fn what_was_claimed_quarantined_or_just_written_is_forgotten_too() {
        let claims = concat!(
            r#"{"format_version":"1.0","claims":[{"block":"10.0.2.0/24","node":"p","uid":"u","resource_version":"7"}],"#,
            r#""quarantined":[{"block":"10.0.3.0/24","node":"q","free_at":"2026-01-02T03:04:05Z"}]}"#
        );
        let old = kinds(10, &[], claims);
        let written = [("10.0.4.0/24".parse().unwrap(), "r".parse().unwrap())];
        assert_eq!(
            forgotten(between(
                &old,
                &kinds(9, &[], NONE),
                &written,
                WritesSeen::Intact
            )),
            ["10.0.2.0/24 p", "10.0.3.0/24 q", "10.0.4.0/24 r"]
        );
        let same = forgotten(between(
            &old,
            &kinds(9, &[], claims),
            &[],
            WritesSeen::Intact,
        ));
        assert_eq!(
            same,
            ["10.0.2.0/24 p", "10.0.3.0/24 q"],
            "they may have been written since"
        );
    }

    #[test]
    fn blocks_of_every_write_path() {
        let texts = |patch: Value| {
            blocks_written(&patch)
                .iter()
                .map(ToString::to_string)
                .collect::<Vec<_>>()
        };
        assert_eq!(
            texts(json!({"spec": {"podCIDR": "10.0.0.0/24", "podCIDRs": ["10.0.0.0/24"]}})),
            ["10.0.0.0/24"]
        );
        assert_eq!(
            texts(json!({"spec": {"ipam": {"podCIDRs": ["10.0.1.0/24"]}}})),
            ["10.0.1.0/24"]
        );
        let annotation = json!({"metadata": {"annotations": {"network.cilium.io/ipv4-pod-cidr": "10.0.2.0/24"}}});
        assert_eq!(texts(annotation), ["10.0.2.0/24"]);
    }
}
