//! Remarks on an import, each with a name that documentation and tests can refer to.

use std::fmt;

ipam_core::text_enum! {
    /// The subject of a remark.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum RemarkName {
        ObjectIgnored = "object-ignored",
        ObjectUnreadable = "object-unreadable",
        NameChanged = "name-changed",
        PoolsOverlap = "pools-overlap",
        PoolOrder = "pool-order",
        FamiliesJoined = "families-joined",
        FamilyAlone = "family-alone",
        SelectorTranslated = "selector-translated",
        SelectorNotExpressible = "selector-not-expressible",
        SelectsNothing = "selects-nothing",
        ManualAssignment = "manual-assignment",
        NamespaceSelector = "namespace-selector",
        TunnelOnly = "tunnel-only",
        SmallBlocks = "small-blocks",
        Encapsulation = "encapsulation",
        NatOutgoing = "nat-outgoing",
        BgpExportDisabled = "bgp-export-disabled",
        PoolDisabled = "pool-disabled",
        Reservation = "reservation",
        IpamConfig = "ipam-config",
        BlockPinned = "block-pinned",
        SeveralBlocks = "several-blocks",
        FamiliesInTwoPools = "families-in-two-pools",
        BlockOfSeveralNodes = "block-of-several-nodes",
        BlockOverlaps = "block-overlaps",
        BlockOutsidePools = "block-outside-pools",
        BlockOfOtherSize = "block-of-other-size",
        BlockWithoutNode = "block-without-node",
        AffinityUnconfirmed = "affinity-unconfirmed",
        BorrowedAddresses = "borrowed-addresses",
        NotAutomatic = "not-automatic",
        ServiceAllocation = "service-allocation",
        Priority = "priority",
        BuggyAddresses = "buggy-addresses",
        AddressInvalid = "address-invalid",
        L2Announced = "l2-announced",
        L2NotExpressible = "l2-not-expressible",
        BgpAnnounced = "bgp-announced",
        BgpNotExpressible = "bgp-not-expressible",
        BgpPeer = "bgp-peer",
        ServicePinned = "service-pinned",
        AddressRequested = "address-requested",
        AddressOutsidePools = "address-outside-pools",
        PoolRequested = "pool-requested",
        SharingKey = "sharing-key",
        LoadBalancerClass = "load-balancer-class",
        OtherAllocator = "other-allocator",
        KindUnread = "kind-unread",
    }
}

ipam_core::text_enum! {
    /// What a remark means for the reader.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum RemarkKind {
        /// It explains a field of an imported document.
        Inferred = "inferred",
        /// A person has to act before the old address manager is removed.
        ToDo = "to-do",
        /// It could not be carried over.
        LeftOut = "left-out",
    }
}

/// A remark for the person who reads the imported files.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Remark {
    pub kind: RemarkKind,
    pub name: RemarkName,
    /// The foreign object, such as `IPPool rack-a`. Its text can come from a stranger.
    pub about: String,
    pub text: String,
}

impl Remark {
    pub(super) fn inferred(name: RemarkName, about: impl fmt::Display, text: String) -> Remark {
        Remark::new(RemarkKind::Inferred, name, about, text)
    }

    pub(super) fn to_do(name: RemarkName, about: impl fmt::Display, text: String) -> Remark {
        Remark::new(RemarkKind::ToDo, name, about, text)
    }

    pub(super) fn left_out(name: RemarkName, about: impl fmt::Display, text: String) -> Remark {
        Remark::new(RemarkKind::LeftOut, name, about, text)
    }

    fn new(kind: RemarkKind, name: RemarkName, about: impl fmt::Display, text: String) -> Remark {
        Remark {
            kind,
            name,
            about: about.to_string(),
            text,
        }
    }
}

impl fmt::Display for Remark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Remark {
            kind,
            name,
            about,
            text,
        } = self;
        write!(f, "{about}: {text} ({kind}: {name})")
    }
}
