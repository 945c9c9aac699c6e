//! The version of an object.

/// The version of an object that a write depends on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct ObjectVersion {
    /// `metadata.uid`.
    pub uid: String,
    /// `metadata.resourceVersion`.
    pub resource_version: String,
}

impl ObjectVersion {
    /// Whether a write can be guarded with it.
    pub fn is_known(&self) -> bool {
        !self.uid.is_empty() && !self.resource_version.is_empty()
    }
}
