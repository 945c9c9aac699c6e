//! A path through the states, for people. Decides nothing.

use std::fmt::Write as _;

use crate::bounds::WriteKind;
use crate::list::List;
use crate::protocol::{Action, Flight, Kind, Protocol, Step, duplicate};
use crate::state::{Change, Claim, ClaimStatus, Claims, Guard, Nodes, Phase, Quarantine, State};
use crate::translate::owner_text;
use crate::world::{Event, held};

/// One line for each step, and then who has what.
pub(crate) fn text(protocol: &Protocol, steps: &[(State, Option<Action>)]) -> String {
    let mut text = String::new();
    let actions = steps.iter().zip(steps.iter().skip(1));
    for (number, ((before, action), (after, _))) in (1..).zip(actions) {
        if let Some(action) = action {
            let _ = writeln!(
                text,
                "{number:>3}. {}",
                Teller {
                    protocol,
                    before,
                    after
                }
                .action(*action)
            );
        }
    }
    if let Some((state, _)) = steps.last() {
        let _ = write!(text, "{}", end(protocol, state));
    }
    text
}

fn end(protocol: &Protocol, state: &State) -> String {
    let names = &protocol.decisions.names;
    let mut text = String::new();
    for (index, name) in (0..).zip(&names.nodes) {
        let blocks: Vec<String> = held(state, index)
            .iter()
            .map(|block| block_text(protocol, *block))
            .collect();
        let _ = writeln!(
            text,
            "     {name} has {}",
            if blocks.is_empty() {
                "nothing".into()
            } else {
                blocks.join(", ")
            }
        );
    }
    if let Some((first, second)) = duplicate(state) {
        let (first, second) = (
            &names.nodes[usize::from(first)],
            &names.nodes[usize::from(second)],
        );
        let _ = writeln!(text, "     so {first} and {second} share a block");
    }
    text
}

fn block_text(protocol: &Protocol, block: u8) -> String {
    protocol.decisions.names.blocks[usize::from(block)].to_string()
}

struct Teller<'t> {
    protocol: &'t Protocol,
    before: &'t State,
    after: &'t State,
}

impl Teller<'_> {
    fn action(&self, action: Action) -> String {
        match action {
            Action::Applier(applier, step) => {
                format!("applier {applier} {}", self.step(applier, step))
            }
            Action::Landing(Flight::Awaited { applier, write }) => {
                match &self.before.appliers[applier].phase {
                    Phase::Deciding { sent, .. } => {
                        format!("the write {} lands", self.write(&sent[write].0))
                    }
                    Phase::Idle | Phase::Reading { .. } => "a write lands".to_owned(),
                }
            }
            Action::Landing(Flight::Forgotten(index)) => {
                format!(
                    "the write {} lands",
                    self.write(&self.before.in_flight[index])
                )
            }
            Action::Event(event) => self.event(event),
        }
    }

    fn step(&self, applier: usize, step: Step) -> String {
        match step {
            Step::Read(Kind::Claims) => {
                format!("reads the claims: {}", self.claims(&self.before.claims))
            }
            Step::Read(Kind::CiliumNodes) => {
                format!("lists the CiliumNodes: {}", self.cilium_nodes())
            }
            Step::Read(Kind::Nodes) => {
                format!("lists the Nodes: {}", self.nodes(&self.before.living()))
            }
            Step::Decide(_) => format!(
                "{}, and decides {}",
                self.saw(applier),
                self.decided(applier)
            ),
            Step::Swap | Step::SwapUnsettled => {
                format!(
                    "replaces the claims, which are now: {}; and sends {}",
                    self.claims(&self.after.claims),
                    self.sent(applier)
                )
            }
            Step::Close => format!(
                "drops what is settled; the claims are now: {}",
                self.claims(&self.after.claims)
            ),
            Step::GiveUp(write) => match &self.before.appliers[applier].phase {
                Phase::Deciding { sent, .. } => {
                    format!(
                        "waits no longer for {}",
                        self.write(&sent[usize::from(write)].0)
                    )
                }
                Phase::Idle | Phase::Reading { .. } => "waits no longer for a write".to_owned(),
            },
            Step::Die => "is killed, or stops".to_owned(),
            Step::FinishFound => "writes for the claims that it has found".to_owned(),
        }
    }

    fn event(&self, event: Event) -> String {
        let node = |node: u8| &self.protocol.decisions.names.nodes[usize::from(node)];
        match event {
            Event::Heartbeat(index) => format!("a heartbeat of {}", node(index)),
            Event::NodeDeleted(index) => format!("{} is deleted", node(index)),
            Event::NodeComesBack(index) => format!("{} comes back with another UID", node(index)),
            Event::Released(index) => format!("a person clears the block of {}", node(index)),
            Event::CiliumNodeDeleted(index) => {
                format!("a person deletes the CiliumNode {}", node(index))
            }
            Event::GarbageCollected(index) => {
                format!(
                    "the CiliumNode {} is collected, as its owner is gone",
                    node(index)
                )
            }
            Event::Adopted(index) => format!(
                "the agent of {0} makes the CiliumNode {0} its own",
                node(index)
            ),
            Event::TimePasses => "the quarantine ends".to_owned(),
            Event::CacheCatchesUp => "the cache catches up".to_owned(),
        }
    }

    /// What it has read last, and what the Nodes were when it listed them.
    fn saw(&self, applier: usize) -> String {
        let Some(seen) = self.protocol.seen(self.before, applier) else {
            return "has seen nothing".to_owned();
        };
        let nodes = self.nodes(&seen.nodes);
        match &self.before.appliers[applier].phase {
            Phase::Reading { claims: None, .. } => {
                format!(
                    "reads the claims: {}, has listed the Nodes: {nodes}",
                    self.claims(&seen.claims)
                )
            }
            Phase::Idle | Phase::Reading { .. } | Phase::Deciding { .. } => {
                format!("lists the Nodes: {nodes}")
            }
        }
    }

    fn decided(&self, applier: usize) -> String {
        match &self.after.appliers[applier].phase {
            Phase::Deciding { left, .. } if !left.is_empty() => self.writes(left.iter()),
            _ => "on nothing but to drop dead claims".to_owned(),
        }
    }

    fn sent(&self, applier: usize) -> String {
        let known = |state: &State| match &state.appliers[applier].phase {
            Phase::Deciding { sent, .. } => *sent,
            Phase::Idle | Phase::Reading { .. } => List::default(),
        };
        let before = known(self.before);
        let sent = known(self.after);
        let new = sent
            .iter()
            .filter(|write| !before.contains(write) && write.1 == ClaimStatus::InFlight);
        self.writes(new.map(|(change, _)| change))
    }

    fn writes<'c>(&self, changes: impl Iterator<Item = &'c Change>) -> String {
        let writes: Vec<String> = changes.map(|change| self.write(change)).collect();
        if writes.is_empty() {
            "nothing that can land".to_owned()
        } else {
            writes.join(", ")
        }
    }

    fn write(&self, change: &Change) -> String {
        let Change {
            node,
            uid,
            version,
            before: _,
            after,
        } = change;
        let (node, block) = (
            &self.protocol.decisions.names.nodes[usize::from(*node)],
            block_text(self.protocol, *after),
        );
        match self.protocol.bounds.writes {
            WriteKind::Guarded => format!("[{block} to {node}, if uid {uid} version {version}]"),
            WriteKind::Creation => {
                format!("[{block} as CiliumNode {node} of uid {uid}, if there is none]")
            }
        }
    }

    fn claims(&self, claims: &Claims) -> String {
        let mut texts = Vec::new();
        for (block, spoken) in (0..).zip(claims) {
            let block = block_text(self.protocol, block);
            let name = |node: u8| &self.protocol.decisions.names.nodes[usize::from(node)];
            if let Some(Claim { node, uid, guard }) = spoken.claim {
                let guard = match guard {
                    Guard::Version(version) => format!("version {version}"),
                    Guard::Creation => "creation".to_owned(),
                };
                texts.push(format!("{block} for {} uid {uid} {guard}", name(node)));
            }
            if let Some((node, quarantine)) = spoken.quarantined {
                let quarantine = if quarantine == Quarantine::Running {
                    "is quarantined"
                } else {
                    "has been quarantined"
                };
                texts.push(format!("{block} {quarantine} after {}", name(node)));
            }
        }
        if texts.is_empty() {
            "none".to_owned()
        } else {
            texts.join(", ")
        }
    }

    fn nodes(&self, listed: &Nodes) -> String {
        let names = self.protocol.decisions.names.nodes.iter();
        let living = listed.iter().zip(names).filter_map(|(node, name)| {
            let node = (*node)?;
            let block = node.shown.map_or_else(
                || "no block".to_owned(),
                |block| block_text(self.protocol, block),
            );
            Some(format!(
                "{name} uid {} version {} with {block}",
                node.uid, node.version
            ))
        });
        let living: Vec<String> = living.collect();
        if living.is_empty() {
            "no Nodes".to_owned()
        } else {
            living.join(", ")
        }
    }

    fn cilium_nodes(&self) -> String {
        let names = self.protocol.decisions.names.nodes.iter();
        let objects = self
            .before
            .cilium_nodes
            .iter()
            .zip(names)
            .filter_map(|(object, name)| {
                let object = (*object)?;
                Some(format!(
                    "{name} of {} with {}",
                    owner_text(object.owner),
                    block_text(self.protocol, object.block)
                ))
            });
        let objects: Vec<String> = objects.collect();
        if objects.is_empty() {
            "none".to_owned()
        } else {
            objects.join(", ")
        }
    }
}
