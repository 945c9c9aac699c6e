//! Our own custom resources on the server.

use serde_json::Value;

use super::LiveCluster;
use crate::cluster::{ClusterError, Following, Listener, Notice, Seen};
use crate::custom::CustomKind;
use crate::observed::ReadError;

/// All objects of one kind at one moment.
#[derive(Clone, Debug)]
pub struct CustomList {
    /// How far they could be read.
    pub seen: Seen,
    /// The moment.
    pub version: u64,
    /// The objects.
    pub objects: Vec<Value>,
}

impl Listener for CustomList {
    fn begun(&mut self, version: &str) -> Result<(), ClusterError> {
        self.version = version.parse().unwrap_or(0);
        Ok(())
    }

    fn object(&mut self, json: &str) -> Result<(), ReadError> {
        // What is no JSON did not come through the page that it was in.
        self.objects.extend(serde_json::from_str::<Value>(json));
        Ok(())
    }
}

impl LiveCluster {
    /// Every object of a kind of ours.
    ///
    /// # Errors
    /// A cluster that does not answer, or answers nonsense.
    pub async fn list_custom(&self, kind: CustomKind) -> Result<CustomList, ClusterError> {
        let mut list = CustomList { seen: Seen::All, version: 0, objects: Vec::new() };
        let names = (kind.resource(), kind.as_str());
        list.seen = self.pages(names, &kind.path(), ("", ""), &mut list).await?;
        Ok(list)
    }

    /// Hears what happens to the objects of a kind of ours after that moment.
    ///
    /// # Errors
    /// A cluster that does not answer, or answers nonsense.
    pub async fn follow_custom(
        &self,
        kind: CustomKind,
        from: u64,
        hear: &mut (dyn FnMut(Notice<'_>) + Send),
    ) -> Result<Following, ClusterError> {
        self.follow_paths(&[kind.path()], "", from, hear).await
    }
}
