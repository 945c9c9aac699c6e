//! Converts between the numbers of a state and the values that `cilium-ipam` works with. Decides
//! nothing.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use jiff::{SignedDuration, Timestamp};

use crate::state::{
    BlockIndex, Change, Claim, Claims, Guard, Node, NodeIndex, Owner, Quarantine, Seen, Spoken,
};
use ipam_cilium::observed::{
    ANNOTATION_IPV4, AgentTrace, Cilium, CiliumNode as RealCiliumNode, Evidence, Node as RealNode,
    ObjectVersion, Observed, OperatorAttention, Protection, StoredClaims,
};
use ipam_config::documents::lower;
use ipam_core::claims::{Claim as RealClaim, ClaimGuard, Claims as RealClaims, Quarantined};
use ipam_core::model::{Hazard, Labels, NodeName, PerFamily};
use ipam_core::net::Block;
use ipam_desired::Desired;
use ipam_plan::plan::{Action, Edit, NodeChange, Reason};
use worlds::documents::{directory, document, pool};

/// Time of all decisions. A quarantine that has ended ended at exactly this time.
pub(crate) const NOW: Timestamp = Timestamp::UNIX_EPOCH;

/// Duration of a quarantine. Any duration above zero works.
pub(crate) const QUARANTINE: SignedDuration = SignedDuration::from_mins(10);

/// Nodes that the planner sees without a block, so that it plans their move.
pub(crate) type Hidden<'h> = &'h [NodeIndex];

/// The names of everything.
pub(crate) struct Names {
    pub nodes: Vec<NodeName>,
    pub blocks: Vec<Block>,
    cilium: Cilium,
}

impl Names {
    pub(crate) fn new(nodes: u8, blocks: u8) -> Result<Names> {
        let nodes: Result<_, _> = (0..nodes)
            .map(|node| format!("node-{node}").parse())
            .collect();
        let blocks: Result<_, _> = (0..blocks)
            .map(|block| format!("10.0.0.{block}/32").parse())
            .collect();
        let settings = [
            ("ipam", "kubernetes"),
            ("annotate-k8s-node", "true"),
            ("enable-ipv4", "true"),
        ];
        let cilium = Cilium {
            namespace: None,
            version: "1.19.3"
                .parse()
                .ok()
                .map(|version| (version, Evidence::ImageTag)),
            settings: Some(
                settings
                    .map(|(key, value)| (key.to_owned(), value.to_owned()))
                    .into(),
            ),
            ..Cilium::default()
        };
        Ok(Names {
            nodes: nodes?,
            blocks: blocks?,
            cilium,
        })
    }

    /// The `Desired` of a directory with these pins.
    pub(crate) fn desired(&self, pins: &[(NodeIndex, BlockIndex)]) -> Result<Desired> {
        let cidrs: Vec<String> = self.blocks.iter().map(ToString::to_string).collect();
        let spec = format!("{{cidrs: [{}], blockSize: 32}}", cidrs.join(", "));
        let policy = "{writePath: node-annotation, quarantine: 10m}";
        let mut documents = vec![
            pool("pool", &spec),
            document("IPAMPolicy", "policy", policy),
        ];
        for (node, block) in pins {
            let node = self.nodes[usize::from(*node)].as_str();
            let block = self.blocks[usize::from(*block)];
            let spec = format!("{{pool: pool, podCIDRs: [{block}]}}");
            documents.push(document("NodeAssignment", node, &spec));
        }
        let (desired, findings) = lower(&directory(&documents));
        ensure!(
            findings.is_empty(),
            "the model's own files are faulty: {findings:?}"
        );
        ensure!(
            desired.policy.quarantine == QUARANTINE,
            "the model's own quarantine is not read"
        );
        Ok(desired)
    }

    /// What was seen, as the program reads it.
    pub(crate) fn observed(&self, seen: &Seen, hidden: Hidden<'_>) -> Observed {
        let mut observed = Observed {
            cilium: self.cilium.clone(),
            at: NOW,
            ..Observed::default()
        };
        observed.claims = StoredClaims {
            claims: self.claims(&seen.claims),
            version: None,
        };
        for (index, node) in (0..).zip(&seen.nodes) {
            if let Some(node) = node {
                let node = self.node(index, node, hidden);
                observed.nodes.insert(node.name.clone(), node.into());
            }
        }
        for (name, cilium_node) in self.nodes.iter().zip(&seen.cilium_nodes) {
            if let Some(cilium_node) = cilium_node {
                let pod_cidrs = vec![self.blocks[usize::from(cilium_node.block)]];
                let cilium_node = RealCiliumNode {
                    name: name.clone(),
                    version: ObjectVersion::default(),
                    attention: OperatorAttention::Served,
                    pod_cidrs,
                    unreadable: Vec::new(),
                    near: Vec::new(),
                    allocated: Vec::new(),
                    requested: Vec::new(),
                    agent: AgentTrace::Unseen,
                    operator_error: None,
                    owner: None,
                    managed_by: None,
                    keeper: None,
                    authors: Vec::new(),
                };
                observed
                    .cilium_nodes
                    .insert(name.clone(), cilium_node.into());
            }
        }
        observed
    }

    fn node(&self, index: NodeIndex, node: &Node, hidden: Hidden<'_>) -> RealNode {
        let block = node.shown.map(|block| self.blocks[usize::from(block)]);
        let annotation = block.filter(|_| !hidden.contains(&index));
        RealNode {
            name: self.nodes[usize::from(index)].clone(),
            uid: node.uid.to_string(),
            resource_version: node.version.to_string(),
            created: format!("2026-01-01T00:{:02}:{index:02}Z", node.uid),
            labels: Labels::default(),
            spec: PerFamily::NONE,
            annotation: annotation.into_iter().collect(),
            old_annotation: annotation.into_iter().collect(),
            // The planner does not see this block for this node, but it is in use for all others.
            shown: block.into_iter().collect(),
            unreadable_spec: None,
            unreadable_annotation: None,
            attention: OperatorAttention::Served,
            protection: Protection::None,
            migration: None,
            addresses: Vec::new(),
            provider_id: None,
            authors: Vec::new(),
            distribution: None,
            cluster_cidrs: None,
            pod_limit: None,
        }
    }

    /// The claims as `cilium-ipam` stores them.
    pub(crate) fn claims(&self, claims: &Claims) -> RealClaims {
        let mut real = RealClaims::default();
        for (block, spoken) in self.blocks.iter().zip(claims) {
            if let Some(claim) = &spoken.claim {
                real.in_flight.insert(*block, self.claim(claim));
            }
            if let Some((node, rest)) = spoken.quarantined {
                let free_at = match rest {
                    Quarantine::Running => NOW.saturating_add(QUARANTINE).unwrap_or(Timestamp::MAX),
                    Quarantine::Over => NOW,
                };
                let node = self.nodes[usize::from(node)].clone();
                real.quarantined
                    .insert(*block, Quarantined { node, free_at });
            }
        }
        real
    }

    /// A claim as the program keeps it.
    pub(crate) fn claim(&self, claim: &Claim) -> RealClaim {
        let guard = match claim.guard {
            Guard::Version(version) => ClaimGuard::Version(version.to_string()),
            Guard::Creation => ClaimGuard::Creation,
        };
        RealClaim {
            node: self.nodes[usize::from(claim.node)].clone(),
            uid: claim.uid.to_string(),
            guard,
        }
    }

    /// No claims.
    pub(crate) fn nothing_spoken(&self) -> Claims {
        self.blocks.iter().map(|_| Spoken::default()).collect()
    }

    /// The claims in numbers.
    pub(crate) fn read_claims(&self, real: &RealClaims) -> Result<Claims> {
        let RealClaims {
            in_flight,
            quarantined,
        } = real;
        let mut claims = self.nothing_spoken();
        for (block, claim) in in_flight {
            let RealClaim { node, uid, guard } = claim;
            let guard = match guard {
                ClaimGuard::Version(version) => Guard::Version(version.parse()?),
                ClaimGuard::Creation => Guard::Creation,
            };
            let claim = Claim {
                node: self.read_node(node)?,
                uid: uid.parse()?,
                guard,
            };
            claims[usize::from(self.read_block(*block)?)].claim = Some(claim);
        }
        for (block, Quarantined { node, free_at }) in quarantined {
            let rest = if *free_at > NOW {
                Quarantine::Running
            } else {
                Quarantine::Over
            };
            claims[usize::from(self.read_block(*block)?)].quarantined =
                Some((self.read_node(node)?, rest));
        }
        Ok(claims)
    }

    /// A change as the program plans it, with everything that claims depend on.
    pub(crate) fn node_change(&self, change: &Change) -> NodeChange {
        let Change {
            node,
            uid,
            version,
            before,
            after,
        } = change;
        let block = |block: BlockIndex| self.blocks[usize::from(block)];
        NodeChange {
            action: Action::Assign,
            node: self.nodes[usize::from(*node)].clone(),
            pool: None,
            before: before.map(block).into_iter().collect(),
            after: vec![block(*after)],
            freed: before
                .filter(|before| before != after)
                .map(block)
                .into_iter()
                .collect(),
            edit: Edit::NodeAnnotations {
                values: BTreeMap::from([(ANNOTATION_IPV4, Some(block(*after)))]),
            },
            undo: None,
            reason: Reason::Pinned,
            hazard: Hazard::None,
            guard: ObjectVersion {
                uid: uid.to_string(),
                resource_version: version.to_string(),
            },
            origin: None,
            needs_approval: Vec::new(),
        }
    }

    /// A change in numbers.
    pub(crate) fn read_change(&self, real: &NodeChange) -> Result<Change> {
        let blocks = real.edit.blocks();
        ensure!(
            blocks.len() == 1 && real.after.len() == 1,
            "a change has other blocks than one: {real:?}"
        );
        let after = self.read_block(*blocks.first().context("no block")?)?;
        let before = real
            .before
            .first()
            .map(|block| self.read_block(*block))
            .transpose()?;
        let ObjectVersion {
            uid,
            resource_version,
        } = &real.guard;
        Ok(Change {
            node: self.read_node(&real.node)?,
            uid: uid.parse()?,
            version: resource_version.parse()?,
            before,
            after,
        })
    }

    fn read_node(&self, name: &NodeName) -> Result<NodeIndex> {
        let place = self.nodes.iter().position(|known| known == name);
        Ok(place
            .with_context(|| format!("unknown node {name}"))?
            .try_into()?)
    }

    fn read_block(&self, block: Block) -> Result<BlockIndex> {
        let place = self.blocks.iter().position(|known| *known == block);
        Ok(place
            .with_context(|| format!("unknown block {block}"))?
            .try_into()?)
    }
}

/// Whose a CiliumNode is, in words.
pub(crate) fn owner_text(owner: Owner) -> String {
    match owner {
        Owner::Node(uid) => format!("uid {uid}"),
        Owner::None => "nobody".to_owned(),
    }
}
