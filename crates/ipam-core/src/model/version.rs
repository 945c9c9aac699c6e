//! The version of an object.

/// Identity and version of an object, which a write depends on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct ObjectVersion {
    /// `metadata.uid`.
    pub uid: String,
    /// `metadata.resourceVersion`.
    pub resource_version: String,
}

impl ObjectVersion {
    /// Whether both parts are known, so that they can guard a write.
    pub fn is_known(&self) -> bool {
        !self.uid.is_empty() && !self.resource_version.is_empty()
    }
}
