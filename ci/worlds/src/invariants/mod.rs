//! What must hold for every plan and every write, each rule with a name that never changes. It
//! reports what is broken and never panics; it knows no generated worlds.

mod load_balancers;
mod nodes;

use std::fmt;

use ipam_cilium::observed::{Observed, Reading};
use ipam_core::model::NodeName;
use ipam_core::net::Block;
use ipam_desired::Desired;
use ipam_plan::plan::{
    Change, Edit, Plan, PlanDocument, Staleness, node_changes, pool_use, still_wanted,
};

/// A rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Invariant {
    /// No two nodes have overlapping blocks because of us.
    NoSharedBlock,
    /// No node gets an address that something else uses.
    NothingForeign,
    /// No block is taken from a node or moved, unless a pin moves it.
    NothingMoves,
    /// A write names the UID and the resourceVersion that it was planned for.
    Guarded,
    /// Only our own fields and objects are changed.
    OnlyOurs,
    /// A pinned node gets its block or waits, and no other node gets it.
    Pins,
    /// A block from a pool has its size and range, and the pool selects the node.
    FromItsPool,
    /// A change has one block of each family, and fields of that family.
    Families,
    /// An object has at most one change, and each wanted object is reported once.
    EachOnce,
    /// A Service loses only an address that it has.
    LossesAreReal,
    /// A plan is current for the cluster that it was made for.
    WantsItself,
    /// Used, reserved and free blocks of a pool are all of its blocks.
    PoolUse,
}

impl Invariant {
    /// The name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Invariant::NoSharedBlock => "no-shared-block",
            Invariant::NothingForeign => "nothing-foreign",
            Invariant::NothingMoves => "nothing-moves",
            Invariant::Guarded => "guarded",
            Invariant::OnlyOurs => "only-ours",
            Invariant::Pins => "pins",
            Invariant::FromItsPool => "from-its-pool",
            Invariant::Families => "families",
            Invariant::EachOnce => "each-once",
            Invariant::LossesAreReal => "losses-are-real",
            Invariant::WantsItself => "wants-itself",
            Invariant::PoolUse => "pool-use",
        }
    }

    /// Says how it is broken.
    #[must_use]
    pub fn broken(self, what: impl Into<String>) -> Broken {
        Broken {
            invariant: self,
            what: what.into(),
            other: None,
        }
    }
}

/// A broken rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken {
    pub invariant: Invariant,
    pub what: String,
    /// The block of another node that a block overlaps.
    pub other: Option<Block>,
}

impl fmt::Display for Broken {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "{}: {}", self.invariant.name(), self.what)
    }
}

/// Checks a plan that was made from files.
#[must_use]
pub fn of_plan(plan: &Plan, desired: &Desired, observed: &Observed) -> Vec<Broken> {
    let mut checks = Checks::new(desired, observed);
    checks.changes(&plan.changes);
    checks.nodes_of_plan(plan);
    checks.nothing_moves(plan);
    checks.load_balancers(plan);
    checks.document(plan);
    for used in pool_use(desired, observed) {
        let counts = used.counts;
        let adds_up = counts.used + counts.reserved + counts.free == counts.total;
        checks.expect(adds_up, Invariant::PoolUse, || format!("{used:?}"));
    }
    checks.broken
}

/// Checks changes, also those of an undo plan.
#[must_use]
pub fn of_changes(changes: &[Change], desired: &Desired, observed: &Observed) -> Vec<Broken> {
    let mut checks = Checks::new(desired, observed);
    checks.changes(changes);
    checks.broken
}

/// Two nodes that share addresses, each with what it has.
pub type Sharing<'h, N, B> = (&'h (N, B), &'h (N, B));

/// Pairs of nodes that share addresses.
pub fn shared<N: PartialEq, B>(
    holders: &[(N, B)],
    overlap: impl Fn(&B, &B) -> bool,
) -> Vec<Sharing<'_, N, B>> {
    let pairs = holders
        .iter()
        .enumerate()
        .flat_map(|(place, one)| holders[place + 1..].iter().map(move |two| (one, two)));
    let overlapping = pairs.filter(|(one, two)| one.0 != two.0 && overlap(&one.1, &two.1));
    overlapping.collect()
}

/// The blocks that agents read, with their nodes.
#[must_use]
pub fn read_by_agents(observed: &Observed) -> Vec<(NodeName, Block)> {
    let mut read = Vec::new();
    for node in observed.nodes.values() {
        let held = observed.holds(node);
        let by_agent = held.iter().filter(|held| held.reading == Reading::Read);
        read.extend(by_agent.map(|held| (node.name.clone(), held.block)));
    }
    read
}

/// Fails and names all that is broken.
///
/// # Panics
/// If anything is.
#[track_caller]
pub fn assert_none(broken: &[Broken]) {
    let lines: Vec<String> = broken.iter().map(ToString::to_string).collect();
    assert!(lines.is_empty(), "{}", lines.join("\n"));
}

/// Collects broken rules.
struct Checks<'c> {
    desired: &'c Desired,
    observed: &'c Observed,
    broken: Vec<Broken>,
}

impl<'c> Checks<'c> {
    fn new(desired: &'c Desired, observed: &'c Observed) -> Checks<'c> {
        Checks {
            desired,
            observed,
            broken: Vec::new(),
        }
    }

    fn expect(&mut self, holds: bool, invariant: Invariant, what: impl FnOnce() -> String) {
        if !holds {
            self.broken.push(invariant.broken(what()));
        }
    }

    /// Only a pin may replace a block that an agent reads, and only through a CiliumNodeConfig of
    /// that node.
    fn nothing_moves(&mut self, plan: &Plan) {
        let read = read_by_agents(self.observed);
        let (desired, observed) = (self.desired, self.observed);
        for change in node_changes(&plan.changes) {
            let is_pinned = || desired.pins.values().any(|pin| pin.node == change.node);
            let by_pin = matches!(change.edit, Edit::NodeConfig(_)) && is_pinned();
            let is_kept = |block: &Block| {
                let mut after = change.after.iter();
                after.all(|new| new.family() != block.family() || new == block)
            };
            let mut own = read.iter().filter(|(node, _)| *node == change.node);
            let holds = by_pin || own.all(|(_, block)| is_kept(block));
            self.expect(holds, Invariant::NothingMoves, || {
                format!("{change:?} of {:?}", observed.nodes.get(&change.node))
            });
        }
    }

    /// The plan that was saved is the plan that is applied.
    fn document(&mut self, plan: &Plan) {
        let document = PlanDocument::new(plan, "pools");
        match still_wanted(&document, plan, self.observed) {
            Staleness::Current {
                changes,
                further,
                done,
                gone,
                blocked,
            } => {
                let told = (changes.len(), further, done, gone, blocked.len());
                let is_itself = told == (plan.changes.len(), 0, 0, 0, 0);
                self.expect(is_itself, Invariant::WantsItself, || format!("{told:?}"));
            }
            Staleness::Stale(why) => {
                self.expect(false, Invariant::WantsItself, || format!("stale: {why:?}"));
            }
        }
    }
}
