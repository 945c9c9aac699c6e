//! Lists the objects of other programs. It must never know what they mean.

use serde_json::{Value, json};

use super::LiveCluster;
use super::list::{Listing, Objects};
use crate::{ClusterError, Seen};

/// Attempts, where lists expire.
const ATTEMPTS: usize = 3;

/// A kind of another program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ForeignKind {
    /// Plural name with group, as `kubectl` accepts it.
    pub resource: &'static str,
    pub kind: &'static str,
    /// Paths of the collection, the preferred API version first. On 404, the next one is tried.
    pub paths: &'static [&'static str],
}

/// All objects of a kind.
#[derive(Clone, Debug)]
pub struct ForeignList {
    /// Whether the kind could be read.
    pub seen: Seen,
    /// A List with the kind and `apiVersion` of its items, which need none themselves.
    pub list: Value,
}

impl LiveCluster {
    /// Lists a kind of another program.
    ///
    /// # Errors
    /// Fails if the cluster does not answer, or the answer is malformed.
    pub async fn list_foreign(&self, kind: &ForeignKind) -> Result<ForeignList, ClusterError> {
        for _ in 1..ATTEMPTS {
            match self.foreign(kind).await {
                Err(ClusterError::Expired { .. }) => {}
                outcome => return outcome,
            }
        }
        self.foreign(kind).await
    }

    async fn foreign(&self, kind: &ForeignKind) -> Result<ForeignList, ClusterError> {
        let mut items = Objects::of(kind.resource);
        let mut seen = Seen::NotServed;
        for path in kind.paths {
            let listing = Listing::whole((kind.resource, kind.kind), path, "");
            seen = self.pages(listing, &mut items).await?;
            if seen != Seen::NotServed {
                break;
            }
        }
        let list = json!({
            "apiVersion": items.api_version,
            "kind": format!("{}List", kind.kind),
            "items": items.objects,
        });
        Ok(ForeignList { seen, list })
    }
}
