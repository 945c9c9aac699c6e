//! The claims as they were read, and what is left of them in the light of everything else that was seen.

use jiff::SignedDuration;

use super::view::ConfigMapView;
use super::{CLAIMS_KEY, Node, Observed};
use crate::claims::{Claims, RecordError, Witness};
use crate::model::{NodeName, ObjectVersion};

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
        let version = ObjectVersion { uid: metadata.uid.clone(), resource_version: metadata.resource_version.clone() };
        // An object that somebody made beforehand, so that nobody needs the right to create one, is empty at first.
        let claims = view.data.get(CLAIMS_KEY).map_or_else(|| Ok(Claims::default()), |text| Claims::from_json(text))?;
        Ok(KeptClaims { claims, version: Some(version) })
    }
}

impl Observed {
    /// The claims that are still in force; freed blocks rest for `rest`.
    pub fn claims_in_force(&self, rest: SignedDuration) -> Claims {
        let witness = |name: &NodeName| self.nodes.get(name).map(|node| self.witness(node));
        self.claims.claims.in_force(witness, self.at, rest)
    }

    fn witness<'n>(&'n self, node: &'n Node) -> Witness<'n> {
        Witness { uid: &node.uid, resource_version: &node.resource_version, shown: node.shown.clone() }
    }
}
