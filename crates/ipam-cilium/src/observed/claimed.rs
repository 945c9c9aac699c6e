//! The stored claims, and the live ones by the rest of the observation.

use std::collections::BTreeMap;

use jiff::SignedDuration;

use super::view::ConfigMapView;
use super::{CLAIMS_KEY, NodeConfig, Observed, ObservedKind};
use ipam_core::claims::{Claim, ClaimGuard, Claims, ObservedObject, RecordError};
use ipam_core::model::ObjectVersion;
use ipam_core::net::Block;

/// The claims and the version of the object that stores them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoredClaims {
    /// As stored, including dead claims.
    pub claims: Claims,
    /// `None`: the object does not exist.
    pub version: Option<ObjectVersion>,
}

impl StoredClaims {
    pub(super) fn read(view: &ConfigMapView) -> Result<StoredClaims, RecordError> {
        let metadata = &view.metadata;
        let version = ObjectVersion {
            uid: metadata.uid.clone(),
            resource_version: metadata.resource_version.clone(),
        };
        // An administrator may create the empty object beforehand, so that we need no right to
        // create it.
        let claims = view
            .data
            .get(CLAIMS_KEY)
            .map_or_else(|| Ok(Claims::default()), |text| Claims::from_json(text))?;
        Ok(StoredClaims {
            claims,
            version: Some(version),
        })
    }
}

impl Observed {
    /// The live claims. Freed blocks are quarantined for `quarantine_for`.
    pub fn live_claims(&self, quarantine_for: SignedDuration) -> Claims {
        let configs = self.node_configs.iter();
        let configs: BTreeMap<&str, &NodeConfig> = configs
            .rev()
            .map(|config| (config.version.uid.as_str(), config))
            .collect();
        let observed_object = |claim: &Claim| self.observed_object(claim, &configs);
        self.claims
            .claims
            .live(observed_object, self.at, quarantine_for)
    }

    /// The object of a claim, by its UID: the Node, its CiliumNode, or a `CiliumNodeConfig`.
    /// `configs` are the `CiliumNodeConfig`s by UID.
    fn observed_object<'o>(
        &'o self,
        claim: &Claim,
        configs: &BTreeMap<&str, &'o NodeConfig>,
    ) -> Option<ObservedObject<'o>> {
        let is_it = |version: &ObjectVersion| !claim.uid.is_empty() && version.uid == claim.uid;
        if let Some(node) = self
            .cilium_nodes
            .get(&claim.node)
            .filter(|node| is_it(&node.version))
        {
            return Some(observed_object(&node.version, node.pod_cidrs.clone()));
        }
        if let Some(config) = configs
            .get(claim.uid.as_str())
            .filter(|config| is_it(&config.version))
        {
            return Some(observed_object(&config.version, config.ranges().collect()));
        }
        let is_of_node = self
            .nodes
            .get(&claim.node)
            .is_some_and(|node| node.uid == claim.uid);
        if self.blind_spot(ObservedKind::CiliumNodeConfig).is_some() && !is_of_node {
            // The object may be hidden, so the claim stays pending.
            let kept = self
                .claims
                .claims
                .in_flight
                .values()
                .find(|kept| *kept == claim)?;
            let ClaimGuard::Version(version) = &kept.guard else {
                return None;
            };
            return Some(ObservedObject {
                uid: &kept.uid,
                resource_version: version,
                shown: Vec::new(),
            });
        }
        let node = self.nodes.get(&claim.node)?;
        Some(ObservedObject {
            uid: &node.uid,
            resource_version: &node.resource_version,
            shown: node.shown.clone(),
        })
    }
}

fn observed_object(version: &ObjectVersion, shown: Vec<Block>) -> ObservedObject<'_> {
    ObservedObject {
        uid: &version.uid,
        resource_version: &version.resource_version,
        shown,
    }
}
