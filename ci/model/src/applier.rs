//! The steps of an applier: read the claims, list CiliumNodes, list Nodes, decide, replace the
//! claims, write, tell.
//!
//! The order is that of `ClaimStore` and `apply_until_settled` in `ipam-controller`, and of
//! `ipam_cluster::observe`. It knows only what the cluster shows: not which of its writes can still
//! land, nor what other appliers do.

use std::sync::Arc;

use crate::bounds::WriteKind;
use crate::decisions::Choice;
use crate::list::List;
use crate::mutation::Mutation;
use crate::protocol::{Kind, Protocol, Step, die};
use crate::state::{Applier, Change, ClaimStatus, Claims, Knowledge, Nodes, Phase, Seen, State};

impl Protocol {
    /// The kinds in the order of reading. The last is read together with the decision.
    fn order(&self) -> &'static [Kind] {
        match (self.bounds.writes, self.mutation) {
            (WriteKind::Guarded, Some(Mutation::NodesBeforeClaims)) => &[Kind::Nodes, Kind::Claims],
            // There are no CiliumNodes then.
            (WriteKind::Guarded, _) => &[Kind::Claims, Kind::Nodes],
            (WriteKind::Creation, _) => &[Kind::Claims, Kind::CiliumNodes, Kind::Nodes],
        }
    }

    /// The possible next steps of an applier.
    pub(crate) fn steps(&self, state: &State, applier: usize) -> Vec<Step> {
        let Applier { phase, knowledge } = &state.appliers[applier];
        let mut steps = Vec::new();
        match phase {
            Phase::Idle => steps.extend(self.order().first().map(|kind| Step::Read(*kind))),
            Phase::Reading { .. } => {
                steps.push(Step::Die);
                match self.unread(phase) {
                    [] | [_] => self.decisions_of(state, applier, &mut steps),
                    [next, ..] => steps.push(Step::Read(*next)),
                }
            }
            Phase::Deciding { left, sent, .. } => {
                steps.push(Step::Die);
                let awaited = (0..)
                    .zip(sent)
                    .filter(|(_, (_, claim_status))| *claim_status == ClaimStatus::InFlight);
                steps.extend(awaited.map(|(write, _)| Step::GiveUp(write)));
                if !left.is_empty() && self.may_swap(*knowledge) {
                    steps.push(Step::Swap);
                    steps.extend((!landed(sent).is_empty()).then_some(Step::SwapUnsettled));
                }
                if (left.is_empty() || !sent.is_empty()) && self.may_close(*knowledge) {
                    steps.push(Step::Close);
                }
            }
        }
        steps
    }

    /// Takes a step, if it is possible.
    pub(crate) fn step(&self, state: &mut State, applier: usize, step: Step) -> Option<()> {
        match step {
            Step::Read(kind) => read(state, applier, kind, self.list_of_nodes(state)),
            Step::Decide(choice) => self.decide(state, applier, usize::from(choice))?,
            Step::Swap => {
                self.settle(state, applier)?;
                self.swap(state, applier)?;
            }
            Step::SwapUnsettled => self.swap(state, applier)?,
            Step::Close => self.close(state, applier)?,
            Step::GiveUp(write) => give_up(state, applier, write)?,
            Step::Die => die(state, applier),
            Step::FinishFound => self.finish_found(state, applier)?,
        }
        Some(())
    }

    fn unread(&self, phase: &Phase) -> &'static [Kind] {
        let Phase::Reading {
            claims,
            cilium_nodes,
            nodes,
        } = phase
        else {
            return self.order();
        };
        let is_read = |kind: &&Kind| match kind {
            Kind::Claims => claims.is_some(),
            Kind::CiliumNodes => cilium_nodes.is_some(),
            Kind::Nodes => nodes.is_some(),
        };
        &self.order()[self.order().iter().take_while(is_read).count()..]
    }

    fn list_of_nodes(&self, state: &State) -> Nodes {
        if self.has(Mutation::NodesFromCache) {
            state.cache
        } else {
            state.living()
        }
    }

    /// What an applier knows after the last list.
    pub(crate) fn seen(&self, state: &State, applier: usize) -> Option<Seen> {
        let Phase::Reading {
            claims,
            cilium_nodes,
            nodes,
        } = &state.appliers[applier].phase
        else {
            return None;
        };
        Some(Seen {
            claims: claims.unwrap_or(state.claims),
            cilium_nodes: cilium_nodes.unwrap_or(state.cilium_nodes),
            nodes: nodes.unwrap_or_else(|| self.list_of_nodes(state)),
        })
    }

    /// The claims in force, and the changes that each directory wants.
    fn conclusions(&self, seen: &Seen) -> (Claims, Arc<[Choice]>) {
        let misread = self.mutation.map(|mutation| mutation.misread(seen));
        let seen = misread.as_ref().unwrap_or(seen);
        let live_claims = self.decisions.live_claims(seen);
        if self.has(Mutation::ClaimsInForceIgnored) {
            let claims = self.decisions.names.nothing_spoken();
            return (
                live_claims,
                self.decisions.choices(&Seen { claims, ..*seen }),
            );
        }
        (live_claims, self.decisions.choices(seen))
    }

    fn decisions_of(&self, state: &State, applier: usize, steps: &mut Vec<Step>) {
        let Some(seen) = self.seen(state, applier) else {
            return;
        };
        let (live_claims, choices) = self.conclusions(&seen);
        for (index, choice) in (0..).zip(choices.iter()) {
            let changes_something = !choice.changes.is_empty() || live_claims != seen.claims;
            if changes_something && choice.moves <= state.disturbances_left {
                steps.push(Step::Decide(index));
            }
        }
        if self.has(Mutation::FoundClaimFinishedWithoutSwap) {
            steps.push(Step::FinishFound);
        }
    }

    fn decide(&self, state: &mut State, applier: usize, choice: usize) -> Option<()> {
        let seen = self.seen(state, applier)?;
        let (claims, choices) = self.conclusions(&seen);
        let Choice { changes, moves } = *choices.get(choice)?;
        state.disturbances_left = state.disturbances_left.checked_sub(moves)?;
        let mut sent = List::default();
        if self.has(Mutation::WritesBeforeSwap) {
            let writable = self.decisions.claim(&claims, &changes).writable;
            sent.extend(
                writable
                    .iter()
                    .map(|change| (*change, ClaimStatus::InFlight)),
            );
        }
        state.appliers[applier].phase = Phase::Deciding {
            claims,
            left: changes,
            sent,
        };
        Some(())
    }

    fn may_swap(&self, knowledge: Knowledge) -> bool {
        let needs_no_swap = matches!(
            self.mutation,
            Some(Mutation::NoClaims | Mutation::BlindReplacement | Mutation::WritesAfterLostSwap)
        );
        knowledge == Knowledge::Current || needs_no_swap
    }

    fn may_close(&self, knowledge: Knowledge) -> bool {
        !self.has(Mutation::NoClaims)
            && (knowledge == Knowledge::Current || self.has(Mutation::BlindClose))
    }

    /// As `ClaimStore::settle`: the cluster does not learn of it yet.
    fn settle(&self, state: &mut State, applier: usize) -> Option<()> {
        let Phase::Deciding { claims, sent, .. } = &mut state.appliers[applier].phase else {
            return None;
        };
        *claims = self.decisions.settle(claims, &landed(sent));
        sent.retain(|(_, claim_status)| *claim_status == ClaimStatus::InFlight);
        Some(())
    }

    /// As `ClaimStore::claim` and the writes after it.
    fn swap(&self, state: &mut State, applier: usize) -> Option<()> {
        let Applier { phase, knowledge } = state.appliers[applier];
        let Phase::Deciding {
            claims: known,
            mut left,
            mut sent,
        } = phase
        else {
            return None;
        };
        let batch = left.take_first(usize::from(self.bounds.batch));
        let claimed = self.decisions.claim(&known, &batch);
        let mut claims = claimed.claims;
        if self.has(Mutation::FoundClaimNotRenewed) {
            leave_versions(&state.claims, &batch, &mut claims);
        }
        let ignores_conflicts = self.has(Mutation::ClaimsInForceIgnored);
        let writes = if ignores_conflicts {
            &batch
        } else {
            &claimed.writable
        };
        if !self.has(Mutation::WritesBeforeSwap) {
            sent.extend(writes.iter().map(|change| (*change, ClaimStatus::InFlight)));
        }
        let is_lost = knowledge == Knowledge::Outdated && self.has(Mutation::WritesAfterLostSwap);
        if !is_lost && !self.has(Mutation::NoClaims) {
            replace(state, applier, claims);
        }
        state.appliers[applier].phase = Phase::Deciding { claims, left, sent };
        if is_lost || self.has(Mutation::NoClaims) {
            die(state, applier);
        }
        Some(())
    }

    /// As `ClaimStore::close`.
    fn close(&self, state: &mut State, applier: usize) -> Option<()> {
        let Phase::Deciding { claims, sent, .. } = &state.appliers[applier].phase else {
            return None;
        };
        let settled = match self.mutation {
            Some(Mutation::DroppedUnanswered) => sent.iter().map(|(change, _)| *change).collect(),
            _ => landed(sent),
        };
        let mut claims = self.decisions.settle(claims, &settled);
        if self.has(Mutation::CreationDroppedWhenApplied) {
            for change in &settled {
                claims[usize::from(change.after)]
                    .claim
                    .take_if(|claim| (claim.node, claim.uid) == (change.node, change.uid));
            }
        }
        replace(state, applier, claims);
        die(state, applier);
        Some(())
    }

    fn finish_found(&self, state: &mut State, applier: usize) -> Option<()> {
        let seen = self.seen(state, applier)?;
        let found = (0..).zip(&seen.claims).filter_map(|(after, spoken)| {
            let claim = spoken.claim?;
            let node = seen.nodes[usize::from(claim.node)]
                .filter(|node| node.uid == claim.uid && node.shown.is_none())?;
            Some(Change {
                node: claim.node,
                uid: node.uid,
                version: node.version,
                before: None,
                after,
            })
        });
        state.in_flight.extend(found);
        die(state, applier);
        Some(())
    }
}

fn read(state: &mut State, applier: usize, kind: Kind, listed: Nodes) {
    let phase = state.appliers[applier].phase;
    let (mut claims, mut cilium_nodes, mut nodes) = match phase {
        Phase::Reading {
            claims,
            cilium_nodes,
            nodes,
        } => (claims, cilium_nodes, nodes),
        Phase::Idle | Phase::Deciding { .. } => (None, None, None),
    };
    match kind {
        Kind::Claims => claims = Some(state.claims),
        Kind::CiliumNodes => cilium_nodes = Some(state.cilium_nodes),
        Kind::Nodes => nodes = Some(listed),
    }
    state.appliers[applier].phase = Phase::Reading {
        claims,
        cilium_nodes,
        nodes,
    };
}

fn give_up(state: &mut State, applier: usize, write: u8) -> Option<()> {
    let Phase::Deciding { sent, .. } = &mut state.appliers[applier].phase else {
        return None;
    };
    let given_up = *sent.get(usize::from(write))?;
    sent.retain(|other| *other != given_up);
    state.in_flight.push(given_up.0);
    Some(())
}

fn landed(sent: &[(Change, ClaimStatus)]) -> List<Change> {
    sent.iter()
        .filter(|(_, claim_status)| *claim_status == ClaimStatus::Landed)
        .map(|(change, _)| *change)
        .collect()
}

/// Replaces the claims. The version changes only with the content; then every applier that has read
/// them is outdated.
fn replace(state: &mut State, applier: usize, claims: Claims) {
    if state.claims != claims {
        state.claims = claims;
        for other in &mut state.appliers {
            if knows_claims(&other.phase) {
                other.knowledge = Knowledge::Outdated;
            }
        }
    }
    state.appliers[applier].knowledge = Knowledge::Current;
}

fn knows_claims(phase: &Phase) -> bool {
    match phase {
        Phase::Idle => false,
        Phase::Reading { claims, .. } => claims.is_some(),
        Phase::Deciding { .. } => true,
    }
}

/// Claims that were there before keep the version that they were made for.
fn leave_versions(before: &Claims, batch: &[Change], claims: &mut Claims) {
    for change in batch {
        let found = before[usize::from(change.after)].claim;
        if let Some(found) =
            found.filter(|claim| (claim.node, claim.uid) == (change.node, change.uid))
        {
            claims[usize::from(change.after)].claim = Some(found);
        }
    }
}
