//! Renders a cluster file with all writes, and decides when to save it.

use serde_json::{Value, json};

use super::super::{ClusterError, Saved};
use super::disk::replace_locked;
use super::state::{Disk, State};
use super::text::{json_to_yaml, pretty};
use super::{FileCluster, Format};
use ipam_cilium::observed::CLAIMS_KEY;
use ipam_core::claims::Claims;

/// A small file is saved after this number of writes.
const FEWEST_WRITES: usize = 2_000;

/// A large file is saved after writes to one in this many of its objects. So writes to all of them
/// save the file this often.
const SHARE: usize = 4;

impl FileCluster {
    /// Saves the file if enough writes wait for it.
    pub(super) fn save_if_worth_it(&self) -> Result<Saved, ClusterError> {
        let mut state = self.state();
        if state.unsaved < FEWEST_WRITES.max(self.locations.len() / SHARE) {
            return Ok(Saved::Some);
        }
        self.save_state(&mut state).map(|()| Saved::All)
    }

    /// Saves all writes.
    pub(super) fn save_all(&self) -> Result<(), ClusterError> {
        self.save_state(&mut self.state())
    }

    fn save_state(&self, state: &mut State) -> Result<(), ClusterError> {
        let is_created = state.created.values().any(is_worth_keeping);
        let is_as_read = state.changed.is_empty() && state.deleted.is_empty() && !is_created;
        if state.unsaved == 0 || (is_as_read && state.disk == Disk::AsRead) {
            return Ok(());
        }
        let fault = |message: String| ClusterError::Unsaved {
            path: self.path.display().to_string(),
            message,
        };
        let text = self.render(state).map_err(fault)?;
        replace_locked(&self.path, &text, &mut state.lock)
            .map_err(|error| fault(error.to_string()))?;
        (state.unsaved, state.disk) = (0, Disk::Saved);
        Ok(())
    }

    /// The file with all changes in place.
    fn render(&self, state: &State) -> Result<String, String> {
        let mut text = String::with_capacity(self.json.len() + state.changed.len() * 200);
        let mut at = 0;
        for (index, (_, location)) in self.locations.iter().enumerate() {
            if state.deleted.contains(&index) {
                text.push_str(&self.json[at..location.start]);
                at = location.end + cut_comma(&mut text, &self.json[location.end..]);
            } else if let Some(object) = state.changed.get(&index) {
                text.push_str(&self.json[at..location.start]);
                text.push_str(object);
                at = location.end;
            }
        }
        let end = self.items.end - 1;
        text.push_str(self.json[at.min(end)..end].trim_end());
        for object in state
            .created
            .values()
            .filter(|object| is_worth_keeping(object))
        {
            text.push_str(if text.trim_end().ends_with('[') {
                "\n        "
            } else {
                ",\n        "
            });
            text.push_str(&pretty(object).map_err(|error| error.to_string())?);
        }
        text.push_str(&self.json[self.json[..end].trim_end().len()..]);
        match self.format {
            Format::Json => Ok(text),
            Format::Yaml => json_to_yaml(&text),
        }
    }
}

/// Removes the comma before a deleted item. Before a first item there is none: then it returns the
/// length of the comma behind it, to be skipped.
fn cut_comma(before: &mut String, behind: &str) -> usize {
    before.truncate(before.trim_end().len());
    if before.ends_with(',') {
        before.pop();
        return 0;
    }
    let rest = behind.trim_start();
    let skipped = behind.len() - rest.len();
    rest.strip_prefix(',').map_or(0, |rest| {
        skipped + 1 + (rest.len() - rest.trim_start().len())
    })
}

/// A file without claims gets no empty claims.
fn is_worth_keeping(created: &Value) -> bool {
    created["data"][CLAIMS_KEY] != json!(Claims::default().to_json())
}

#[cfg(test)]
mod tests {
    use ipam_core::model::NodeName;

    use super::*;
    use crate::file::Opening;
    use crate::file::text::yaml_to_json;
    use crate::{Cluster, ListVisitor, Moment, Operation, Target, Write};
    use ipam_cilium::observed::{ObservedKind, ReadError};

    #[derive(Default)]
    struct Objects(Vec<Value>);

    impl ListVisitor for Objects {
        fn object(&mut self, json: &str) -> Result<(), ReadError> {
            self.0.push(serde_json::from_str(json).unwrap());
            Ok(())
        }
    }

    fn annotate(name: &str, key: &str, value: &str) -> Write {
        let name: NodeName = name.parse().unwrap();
        let patch = json!({"metadata": {"annotations": {key: value}}});
        Write {
            target: Target::Node(name),
            operation: Operation::Patch(patch),
        }
    }

    #[tokio::test]
    async fn an_object_that_is_written_twice_is_listed_and_saved_as_it_is_at_last() {
        let node =
            |name: &str| json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}});
        let list = json!({"apiVersion": "v1", "kind": "List", "items": [node("a"), node("b")]});
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in [
            ("cluster.json", list.to_string()),
            ("cluster.yaml", serde_yaml::to_string(&list).unwrap()),
        ] {
            let path = folder.path().join(name);
            std::fs::write(&path, text).unwrap();
            let cluster = FileCluster::open(&path, Opening::Write).unwrap();
            for write in [
                annotate("a", "note", "n\u{e4}ive \"\n"),
                annotate("a", "more", "x"),
            ] {
                cluster.write(&write).await.unwrap();
            }
            let mut listed = Objects::default();
            let nodes = ObservedKind::Node;
            cluster
                .list(nodes, "", &Moment::Latest, &mut listed)
                .await
                .unwrap();
            let annotations = json!({"note": "n\u{e4}ive \"\n", "more": "x"});
            assert_eq!(listed.0[0]["metadata"]["annotations"], annotations);
            cluster.finish().await.unwrap();
            let saved = std::fs::read_to_string(&path).unwrap();
            let json = if name.ends_with("json") {
                assert!(
                    saved.contains("\n                \"annotations\": {"),
                    "{saved}"
                );
                saved
            } else {
                yaml_to_json(&saved).unwrap()
            };
            let saved: Value = serde_json::from_str(&json).unwrap();
            assert_eq!(saved["items"][0]["metadata"]["annotations"], annotations);
            assert_eq!(saved["items"][1], node("b"));
        }
    }
}
