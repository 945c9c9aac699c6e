//! The claims as they were read, and what is left of them in the light of everything else that was
//! seen.

use jiff::SignedDuration;

use super::view::ConfigMapView;
use super::{CLAIMS_KEY, Observed, ObservedKind};
use ipam_core::claims::{Claim, ClaimGuard, Claims, RecordError, Witness};
use ipam_core::model::ObjectVersion;
use ipam_core::net::Block;

/// The claims and the version of the object that keeps them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeptClaims {
    /// The claims as they were kept, dead ones included.
    pub claims: Claims,
    /// `None`: there is no object yet.
    pub version: Option<ObjectVersion>,
}

impl KeptClaims {
    pub(super) fn read(view: &ConfigMapView) -> Result<KeptClaims, RecordError> {
        let metadata = &view.metadata;
        let version = ObjectVersion {
            uid: metadata.uid.clone(),
            resource_version: metadata.resource_version.clone(),
        };
        // An object that somebody made beforehand, so that nobody needs the right to create one, is
        // empty at first.
        let claims = view
            .data
            .get(CLAIMS_KEY)
            .map_or_else(|| Ok(Claims::default()), |text| Claims::from_json(text))?;
        Ok(KeptClaims {
            claims,
            version: Some(version),
        })
    }
}

impl Observed {
    /// The claims that are still in force; freed blocks rest for `rest`.
    pub fn claims_in_force(&self, rest: SignedDuration) -> Claims {
        self.claims
            .claims
            .in_force(|claim| self.witness(claim), self.at, rest)
    }

    /// The object whose UID a claim names: the Node of that name, its CiliumNode, or a
    /// `CiliumNodeConfig`.
    fn witness(&self, claim: &Claim) -> Option<Witness<'_>> {
        let is_it = |version: &ObjectVersion| !claim.uid.is_empty() && version.uid == claim.uid;
        if let Some(node) = self
            .cilium_nodes
            .get(&claim.node)
            .filter(|node| is_it(&node.version))
        {
            return Some(witness(&node.version, node.pod_cidrs.clone()));
        }
        if let Some(config) = self
            .node_configs
            .iter()
            .find(|config| is_it(&config.version))
        {
            return Some(witness(&config.version, config.ranges().collect()));
        }
        let is_of_node = self
            .nodes
            .get(&claim.node)
            .is_some_and(|node| node.uid == claim.uid);
        if self.blind_spot(ObservedKind::CiliumNodeConfig).is_some() && !is_of_node {
            // It may be of an object that cannot be seen.
            let kept = self
                .claims
                .claims
                .in_flight
                .values()
                .find(|kept| *kept == claim)?;
            let ClaimGuard::Version(version) = &kept.guard else {
                return None;
            };
            return Some(Witness {
                uid: &kept.uid,
                resource_version: version,
                shown: Vec::new(),
            });
        }
        let node = self.nodes.get(&claim.node)?;
        Some(Witness {
            uid: &node.uid,
            resource_version: &node.resource_version,
            shown: node.shown.clone(),
        })
    }
}

fn witness(version: &ObjectVersion, shown: Vec<Block>) -> Witness<'_> {
    Witness {
        uid: &version.uid,
        resource_version: &version.resource_version,
        shown,
    }
}
