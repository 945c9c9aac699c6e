//! What the API server, Kubernetes and people do: writes land if their guards allow it, Nodes come
//! and go, time passes. Knows nothing of how appliers decide.

use crate::bounds::{Garbage, WriteKind};
use crate::mutation::Mutation;
use crate::state::{
    Applier, BlockIndex, Change, CiliumNode, Claims, Node, NodeIndex, Owner, Phase, Quarantine,
    State, Version,
};

/// The first resourceVersion of every Node: a later Node of the same name repeats the versions of
/// the earlier one.
const FIRST_VERSION: Version = 0;

/// What happens without any applier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    Heartbeat(NodeIndex),
    NodeDeleted(NodeIndex),
    NodeComesBack(NodeIndex),
    /// A person clears the block of a Node.
    Released(NodeIndex),
    CiliumNodeDeleted(NodeIndex),
    /// Kubernetes deletes a CiliumNode whose owner no longer exists.
    GarbageCollected(NodeIndex),
    /// The agent of a Node writes its own Node as the owner.
    Adopted(NodeIndex),
    TimePasses,
    CacheCatchesUp,
}

impl Event {
    /// Number of disturbances that the event uses.
    pub(crate) fn cost(self) -> u8 {
        match self {
            Event::Heartbeat(_)
            | Event::NodeDeleted(_)
            | Event::Released(_)
            | Event::CiliumNodeDeleted(_) => 1,
            Event::NodeComesBack(_)
            | Event::GarbageCollected(_)
            | Event::Adopted(_)
            | Event::TimePasses
            | Event::CacheCatchesUp => 0,
        }
    }
}

/// A Node as it is created.
pub(crate) fn new_node(uid: u8) -> Node {
    Node {
        uid,
        version: FIRST_VERSION,
        shown: None,
    }
}

/// The rules of the API server, without the rule that a mutation removes.
#[derive(Clone, Copy)]
pub(crate) struct World {
    pub writes: WriteKind,
    pub garbage: Garbage,
    pub mutation: Option<Mutation>,
}

impl World {
    /// Everything that may happen now.
    pub(crate) fn events(self, state: &State) -> Vec<Event> {
        let mut events = Vec::new();
        for (node, slot) in (0..).zip(&state.nodes) {
            match slot.living {
                Some(living) => {
                    events.extend([Event::Heartbeat(node), Event::NodeDeleted(node)]);
                    events.extend(living.shown.map(|_| Event::Released(node)));
                }
                None => events.push(Event::NodeComesBack(node)),
            }
            if let Some(object) = state.cilium_nodes[usize::from(node)] {
                events.push(Event::CiliumNodeDeleted(node));
                events.extend(self.ends_of_garbage(node, slot.living, object));
            }
        }
        if is_anything_quarantined(state) {
            events.push(Event::TimePasses);
        }
        if self.mutation == Some(Mutation::NodesFromCache) {
            events.push(Event::CacheCatchesUp);
        }
        events.retain(|event| event.cost() <= state.disturbances_left);
        events
    }

    fn ends_of_garbage(
        self,
        node: NodeIndex,
        living: Option<Node>,
        object: CiliumNode,
    ) -> Vec<Event> {
        match object.owner {
            Owner::Node(uid) if living.is_none_or(|node| node.uid != uid) => {
                match (self.garbage, living) {
                    (Garbage::Adopted, Some(_)) => {
                        vec![Event::GarbageCollected(node), Event::Adopted(node)]
                    }
                    _ => vec![Event::GarbageCollected(node)],
                }
            }
            Owner::Node(_) | Owner::None => Vec::new(),
        }
    }

    /// Lets it happen, if it can.
    pub(crate) fn happen(self, state: &mut State, event: Event) -> Option<()> {
        state.disturbances_left = state.disturbances_left.checked_sub(event.cost())?;
        match event {
            Event::Heartbeat(node) => self.living(state, node)?.version += 1,
            Event::Released(node) => {
                let node = self.living(state, node)?;
                node.shown.take()?;
                node.version += 1;
            }
            Event::NodeDeleted(node) => {
                state.nodes[usize::from(node)].living.take()?;
            }
            Event::NodeComesBack(node) => come_back(state, node)?,
            Event::CiliumNodeDeleted(node) | Event::GarbageCollected(node) => {
                state.cilium_nodes[usize::from(node)].take()?;
            }
            Event::Adopted(node) => {
                let owner = state.node(node)?.uid;
                state.cilium_nodes[usize::from(node)].as_mut()?.owner = Owner::Node(owner);
            }
            Event::TimePasses => pass_time(state),
            Event::CacheCatchesUp => state.cache = state.living(),
        }
        Some(())
    }

    /// Whether a write that arrives now changes something.
    pub(crate) fn accepts(self, state: &State, write: &Change) -> bool {
        match self.writes {
            WriteKind::Creation => state.cilium_nodes[usize::from(write.node)].is_none(),
            WriteKind::Guarded => state
                .node(write.node)
                .is_some_and(|node| self.fits(node, write)),
        }
    }

    fn fits(self, node: Node, write: &Change) -> bool {
        let is_same_version = match self.mutation {
            Some(Mutation::NoResourceVersion) => true,
            Some(Mutation::GuardedByOldValue) => node.shown == write.before,
            _ => node.version == write.version,
        };
        is_same_version && (node.uid == write.uid || self.mutation == Some(Mutation::NoUid))
    }

    /// Whether it may ever be accepted. Neither a UID nor a version comes back.
    pub(crate) fn may_accept(self, state: &State, write: &Change) -> bool {
        match (self.writes, self.mutation) {
            (WriteKind::Creation, _) | (_, Some(Mutation::NoUid)) => true,
            (_, Some(Mutation::NoResourceVersion | Mutation::GuardedByOldValue)) => state
                .node(write.node)
                .is_some_and(|node| node.uid == write.uid),
            (WriteKind::Guarded, _) => self.accepts(state, write),
        }
    }

    /// How many equal writes on their way make a difference. A creation needs room, which only a
    /// disturbance makes; one whose owner is gone is collected again and again, and may have been
    /// sent any number of times.
    pub(crate) fn copies_that_matter(self, state: &State, write: &Change) -> usize {
        match self.writes {
            WriteKind::Creation if !self.may_repeat(state, write) => {
                1 + usize::from(state.disturbances_left)
            }
            WriteKind::Creation | WriteKind::Guarded => 1,
        }
    }

    /// Whether a write stays on its way when it has landed, because others like it may have been
    /// sent.
    pub(crate) fn may_repeat(self, state: &State, write: &Change) -> bool {
        self.writes == WriteKind::Creation
            && state
                .node(write.node)
                .is_none_or(|node| node.uid != write.uid)
    }

    /// A write arrives and is accepted.
    pub(crate) fn land(self, state: &mut State, write: &Change) -> Option<()> {
        match self.writes {
            WriteKind::Guarded => {
                let node = self.living(state, write.node)?;
                // What changes nothing does not move the version either.
                if node.shown.replace(write.after) != Some(write.after) {
                    node.version += 1;
                }
            }
            WriteKind::Creation => {
                let owner = match self.mutation {
                    Some(Mutation::CreationWithoutOwner) => Owner::None,
                    _ => Owner::Node(write.uid),
                };
                state.cilium_nodes[usize::from(write.node)] = Some(CiliumNode {
                    owner,
                    block: write.after,
                });
            }
        }
        Some(())
    }

    fn living(self, state: &mut State, node: NodeIndex) -> Option<&mut Node> {
        state.nodes[usize::from(node)].living.as_mut()
    }
}

/// The blocks that a node has, if it lives. A CiliumNode of another owner is about to be collected,
/// and no agent's.
pub(crate) fn held(state: &State, index: NodeIndex) -> Vec<BlockIndex> {
    let Some(node) = state.node(index) else {
        return Vec::new();
    };
    let of_node = |object: &CiliumNode| {
        matches!(object.owner, Owner::None) || object.owner == Owner::Node(node.uid)
    };
    let created = state.cilium_nodes[usize::from(index)].filter(of_node);
    node.shown
        .into_iter()
        .chain(created.map(|object| object.block))
        .collect()
}

fn come_back(state: &mut State, node: NodeIndex) -> Option<()> {
    let slot = &mut state.nodes[usize::from(node)];
    if slot.living.is_some() {
        return None;
    }
    slot.living = Some(new_node(slot.next_uid));
    slot.next_uid += 1;
    Some(())
}

/// Blocks that an applier will quarantine later need no extra step: time may pass after it has.
fn is_anything_quarantined(state: &State) -> bool {
    state
        .claims
        .iter()
        .any(|spoken| matches!(spoken.quarantined, Some((_, Quarantine::Running))))
}

/// Ends every running quarantine, in every copy of the claims.
fn pass_time(state: &mut State) {
    let end_quarantine = |claims: &mut Claims| {
        for (_, quarantine) in claims
            .iter_mut()
            .filter_map(|spoken| spoken.quarantined.as_mut())
        {
            *quarantine = Quarantine::Over;
        }
    };
    end_quarantine(&mut state.claims);
    for Applier { phase, .. } in &mut state.appliers {
        match phase {
            Phase::Idle => {}
            Phase::Reading { claims, .. } => claims.iter_mut().for_each(end_quarantine),
            Phase::Deciding { claims, .. } => end_quarantine(claims),
        }
    }
}
