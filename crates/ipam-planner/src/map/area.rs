//! One area: a block, its use, its owner, and whether it is there now, after the plan, or both.

use ipam_core::net::Block;

ipam_core::text_enum! {
    /// The use of an area. The order is that of drawing: later ones lie on earlier ones. The text
    /// is printed.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub enum AreaKind {
        /// A Service CIDR of the cluster.
        ServiceCidr = "Service CIDR",
        /// A network that holds addresses of machines, or addresses that lie in no other range.
        Network = "network of machines",
        /// A range that Cilium's operator gives to nodes.
        ClusterPool = "pool of Cilium's operator",
        /// A range of a `CiliumPodIPPool`.
        PodPool = "CiliumPodIPPool",
        /// A range of a LoadBalancer pool.
        AddressPool = "LoadBalancer pool",
        /// A subnet of Neutron that is a pool.
        Subnet = "Neutron subnet",
        /// A range of an `IPPool`.
        Pool = "IPPool",
        /// A range of an `IPPool` that gives nothing new.
        DisabledPool = "disabled IPPool",
        /// Excluded by the Policy.
        Excluded = "excluded",
        /// Reserved by a pool.
        Reserved = "reserved",
        /// Freed, and kept free for a while.
        Quarantined = "quarantined",
        /// A write may be in flight.
        Claimed = "claimed",
        /// Pinned to a node that does not hold it.
        Pinned = "pinned",
        /// Shown in a field that no agent reads, and kept free.
        Shown = "shown, not used",
        /// The block of a node.
        Node = "node block",
        /// The address of a Service.
        Service = "Service address",
        /// The address of a machine.
        Machine = "machine address",
    }
}

impl AreaKind {
    /// Whether other areas lie in it.
    pub fn is_range(self) -> bool {
        self <= AreaKind::DisabledPool
    }
}

ipam_core::text_enum! {
    /// When an area is there. The text is printed.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
    pub enum Presence {
        /// Now and after the plan.
        #[default]
        Stays = "stays",
        /// Only after the plan.
        Added = "added by the plan",
        /// Only now.
        Removed = "removed by the plan",
    }
}

/// A block with its use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Area {
    pub block: Block,
    pub kind: AreaKind,
    pub presence: Presence,
    /// The object: a node, a pool, or a Service as `namespace/name`.
    pub owner: String,
    /// The pool that the block of a node lies in.
    pub pool: Option<String>,
    /// The failure domain of the node.
    pub domain: Option<String>,
    /// Why the files would not give the node this block.
    pub misplaced: Option<String>,
    /// Other nodes that hold addresses of the block.
    pub shared_with: Vec<String>,
    /// Further facts, such as the field that shows the block.
    pub notes: Vec<String>,
}

impl Area {
    /// An area that stays, and of which nothing more is known.
    pub fn new(kind: AreaKind, block: Block, owner: impl ToString) -> Area {
        Area {
            block,
            kind,
            presence: Presence::Stays,
            owner: owner.to_string(),
            pool: None,
            domain: None,
            misplaced: None,
            shared_with: Vec::new(),
            notes: Vec::new(),
        }
    }

    pub(super) fn present(self, presence: Presence) -> Area {
        Area { presence, ..self }
    }

    pub(super) fn with_note(mut self, note: impl ToString) -> Area {
        self.notes.push(note.to_string());
        self
    }
}
