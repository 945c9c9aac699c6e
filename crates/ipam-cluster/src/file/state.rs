//! The writes to a cluster file since it was read, by the API server's rules: the file's text with
//! all of them, as `kubectl -o json` indents JSON, or as YAML; and when to save it.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde_json::{Value, json};

use super::super::rules::{admitted, patched, version_of};
use super::super::write::guard;
use super::super::{WriteError, Written};
use super::disk::{Lock, replace_locked};
use super::items::{ItemLocation, uid_of};
use super::{FileCluster, Format};
use crate::ClusterError;
use ipam_cilium::observed::{CLAIMS_KEY, ObjectVersion};
use ipam_cilium::parser_words::YamlFault;
use ipam_core::claims::Claims;

/// Objects that differ from the file as it was read.
#[derive(Debug, Default)]
pub(super) struct State {
    /// Patched objects as the file will show them, by their position there. A tree of values would
    /// take several times as much memory.
    pub(super) changed: BTreeMap<usize, Box<str>>,
    /// Objects with the identity that an API server would give them, as JSON text. The file gets it
    /// only when they are written.
    pub(super) identified: BTreeMap<usize, Box<str>>,
    /// Created objects.
    pub(super) created: BTreeMap<ItemLocation, Value>,
    /// Deleted objects, by their position in the file.
    pub(super) deleted: BTreeSet<usize>,
    /// The highest resourceVersion in use.
    pub(super) resource_version: u64,
    /// The lock, if the file is open for writing.
    pub(super) lock: Option<Lock>,
}

/// The objects of the file as it was read.
pub(super) trait Base {
    /// The position of an object in the file.
    fn index(&self, location: &ItemLocation) -> Option<usize>;

    /// An object as it was read.
    fn object(&self, index: usize) -> Result<Value, serde_json::Error>;
}

impl State {
    /// The JSON text of an object that differs from the file, by its position there.
    pub(super) fn json(&self, index: usize) -> Option<&str> {
        let json = self.changed.get(&index).or(self.identified.get(&index))?;
        Some(json)
    }

    /// Patches an object.
    ///
    /// # Errors
    /// Fails if the object does not exist, its guard does not match, or an API server would refuse.
    pub(super) fn patch(
        &mut self,
        base: &impl Base,
        location: &ItemLocation,
        patch: &Value,
    ) -> Result<Written, WriteError> {
        let index = if self.created.contains_key(location) {
            None
        } else {
            Some(self.index_of(base, location)?)
        };
        let before = match index {
            None => self.created.get(location).cloned().unwrap_or_default(),
            Some(index) => self.object_at(base, index)?,
        };
        let object = self.next_version(patched(&before, patch)?)?;
        let version = version_of(&object);
        match index {
            None => {
                self.created.insert(location.clone(), object);
            }
            Some(index) => {
                let text = pretty(&object).map_err(refused)?;
                self.changed.insert(index, text.into_boxed_str());
            }
        }
        Ok(Written { version })
    }

    /// Adds an object.
    ///
    /// # Errors
    /// Fails if the object exists, or an API server would refuse.
    pub(super) fn create(
        &mut self,
        base: &impl Base,
        location: ItemLocation,
        object: &Value,
        now: Timestamp,
    ) -> Result<Written, WriteError> {
        if self.created.contains_key(&location) || self.index_of(base, &location).is_ok() {
            let message = format!(
                "{} \"{}\" already exists",
                location.kind.resource(),
                location.name
            );
            return Err(WriteError::Superseded(message));
        }
        admitted(object)?;
        let mut object = object.clone();
        let uid = uid_of(
            object["kind"].as_str().unwrap_or_default(),
            "",
            &location.name,
        );
        object["metadata"]["uid"] = json!(uid);
        object["metadata"]["creationTimestamp"] =
            json!(now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string());
        let object = self.next_version(object)?;
        let version = version_of(&object);
        self.created.insert(location, object);
        Ok(Written { version })
    }

    /// Deletes an object.
    ///
    /// # Errors
    /// Fails if the object does not exist, or its guard does not match.
    pub(super) fn delete(
        &mut self,
        base: &impl Base,
        location: &ItemLocation,
        version: &ObjectVersion,
    ) -> Result<Written, WriteError> {
        let guard = json!({"metadata": guard(version)});
        if let Some(object) = self.created.get(location) {
            patched(object, &guard)?;
            self.created.remove(location);
        } else {
            let index = self.index_of(base, location)?;
            patched(&self.object_at(base, index)?, &guard)?;
            self.deleted.insert(index);
        }
        Ok(Written {
            version: ObjectVersion::default(),
        })
    }

    fn index_of(&self, base: &impl Base, location: &ItemLocation) -> Result<usize, WriteError> {
        let gone = || {
            WriteError::Superseded(format!(
                "{} \"{}\" not found",
                location.kind.resource(),
                location.name
            ))
        };
        base.index(location)
            .filter(|index| !self.deleted.contains(index))
            .ok_or_else(gone)
    }

    fn object_at(&self, base: &impl Base, index: usize) -> Result<Value, WriteError> {
        match self.json(index) {
            Some(json) => serde_json::from_str(json),
            None => base.object(index),
        }
        .map_err(refused)
    }

    /// The object at the next resourceVersion.
    fn next_version(&mut self, mut object: Value) -> Result<Value, WriteError> {
        let next = self.resource_version.checked_add(1);
        self.resource_version =
            next.ok_or_else(|| WriteError::Refused("no resourceVersion is left".to_owned()))?;
        object["metadata"]["resourceVersion"] = json!(self.resource_version.to_string());
        Ok(object)
    }
}

fn refused(error: serde_json::Error) -> WriteError {
    WriteError::Refused(error.to_string())
}

impl FileCluster {
    /// Saves all writes. Call it once, after the last write: a file that is not saved stays as it
    /// was.
    ///
    /// # Errors
    /// Fails if the file cannot be replaced.
    pub fn save_all(&self) -> Result<(), ClusterError> {
        let state = &mut self.state();
        let is_created = state.created.values().any(is_worth_keeping);
        if state.changed.is_empty() && state.deleted.is_empty() && !is_created {
            return Ok(());
        }
        let fault = |message: String| ClusterError::Unsaved {
            path: self.path.display().to_string(),
            message,
        };
        self.replace(state).map_err(fault)
    }

    fn replace(&self, state: &mut State) -> Result<(), String> {
        let State {
            changed,
            deleted,
            created,
            lock,
            ..
        } = state;
        let created = created_texts(created.values())?;
        let parts = self.parts(changed, deleted, &created);
        let replaced = match self.format {
            Format::Json => replace_locked(&self.path, &parts, lock),
            Format::Yaml => replace_locked(&self.path, &[&json_to_yaml(&parts.concat())?], lock),
        };
        replaced.map_err(|error| error.to_string())
    }

    /// The list with all changes in place, in parts: JSON needs no memory for a second copy.
    fn parts<'t>(
        &'t self,
        changed: &'t BTreeMap<usize, Box<str>>,
        deleted: &BTreeSet<usize>,
        created: &'t [String],
    ) -> Vec<&'t str> {
        let mut parts = Vec::new();
        let mut at = 0;
        for (index, (_, location)) in self.locations.iter().enumerate() {
            if deleted.contains(&index) {
                parts.push(&self.json[at..location.start]);
                at = location.end + cut_comma(&mut parts, &self.json[location.end..]);
            } else if let Some(object) = changed.get(&index) {
                parts.extend([&self.json[at..location.start], object]);
                at = location.end;
            }
        }
        let end = self.items.end - 1;
        parts.push(&self.json[at.min(end)..end]);
        trim_end(&mut parts);
        for object in created {
            let is_first = parts.last().is_some_and(|last| last.ends_with('['));
            let before = if is_first {
                "\n        "
            } else {
                ",\n        "
            };
            parts.extend([before, object]);
        }
        parts.push(&self.json[self.json[..end].trim_end().len()..]);
        parts
    }
}

fn created_texts<'v>(created: impl Iterator<Item = &'v Value>) -> Result<Vec<String>, String> {
    let texts = created
        .filter(|object| is_worth_keeping(object))
        .map(pretty);
    texts
        .collect::<Result<_, _>>()
        .map_err(|error| error.to_string())
}

/// Removes white space from the end.
fn trim_end(parts: &mut Vec<&str>) {
    while let Some(last) = parts.pop() {
        let trimmed = last.trim_end();
        if !trimmed.is_empty() {
            parts.push(trimmed);
            return;
        }
    }
}

/// Removes the comma before a deleted item. The first item has no comma before it: then returns the
/// length of the comma after it, to be skipped.
fn cut_comma(before: &mut Vec<&str>, behind: &str) -> usize {
    trim_end(before);
    if let Some(last) = before.last_mut()
        && let Some(rest) = last.strip_suffix(',')
    {
        *last = rest;
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

/// The documents of a YAML or JSON text.
pub(crate) fn yaml_documents(text: &str) -> Result<Vec<Value>, String> {
    serde_yaml::from_multiple_with_options(text, options(text.len()))
        .map_err(|error| YamlFault::sentence(&error))
}

/// Scalars, lists and objects that a text of any length may have.
const NODES: usize = 100_000;

/// Bytes of text for each further scalar, list or object. kubectl prints at least 12, people 8.
const BYTES_PER_NODE: usize = 6;

/// kubectl prints lists of any length. A list of tiny items needs a hundred times its own length in
/// memory, and kubectl prints none. Depth and aliases keep their strict limits.
fn options(length: usize) -> serde_yaml::Options {
    serde_yaml::options! {
        strict_booleans: true,
        budget: serde_yaml::budget! {
            max_events: usize::MAX,
            max_nodes: NODES + length / BYTES_PER_NODE,
            max_total_scalar_bytes: usize::MAX,
        },
    }
}

pub(super) fn json_to_yaml(text: &str) -> Result<String, String> {
    let value: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
    serde_yaml::to_string(&value).map_err(|error| error.to_string())
}

/// An item as `kubectl -o json` indents it inside its list.
pub(super) fn pretty(object: &Value) -> Result<String, serde_json::Error> {
    let mut bytes = Vec::new();
    let formatter = serde_json::ser::PrettyFormatter::with_indent(b"    ");
    let mut serializer = serde_json::Serializer::with_formatter(&mut bytes, formatter);
    serde::Serialize::serialize(object, &mut serializer)?;
    Ok(String::from_utf8_lossy(&bytes).replace('\n', "\n        "))
}

#[cfg(test)]
mod tests {
    use ipam_core::model::NodeName;
    use proptest::prelude::*;

    use super::super::one_list::one_list;
    use super::*;
    use crate::file::Opening;
    use crate::{Cluster, ListVisitor, Moment, Operation, Target, Write};
    use ipam_cilium::observed::{ObjectVersion, ObservedKind, ReadError};

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
            cluster.save_all().unwrap();
            let saved = std::fs::read_to_string(&path).unwrap();
            let json = if name.ends_with("json") {
                assert!(
                    saved.contains("\n                \"annotations\": {"),
                    "{saved}"
                );
                saved
            } else {
                one_list(yaml_documents(&saved).unwrap()).unwrap()
            };
            let saved: Value = serde_json::from_str(&json).unwrap();
            assert_eq!(saved["items"][0]["metadata"]["annotations"], annotations);
            assert_eq!(saved["items"][1], node("b"));
        }
    }

    #[derive(Clone, Copy, Debug, PartialEq)]
    enum Step {
        Keep,
        Patch,
        Delete,
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![Just(Step::Keep), Just(Step::Patch), Just(Step::Delete)]
    }

    fn cilium_node(name: &str, note: &str) -> Value {
        let metadata = json!({
            "name": name, "uid": "u", "resourceVersion": "1", "annotations": {"note": note}
        });
        json!({"apiVersion": "cilium.io/v2", "kind": "CiliumNode", "metadata": metadata})
    }

    fn write_of(name: &str, operation: Operation) -> Write {
        Write {
            target: Target::CiliumNode(name.parse().unwrap()),
            operation,
        }
    }

    fn operation_of(step: Step) -> Option<Operation> {
        let patch = json!({"metadata": {"annotations": {"note": "new"}}});
        let version = ObjectVersion {
            uid: "u".to_owned(),
            resource_version: "1".to_owned(),
        };
        match step {
            Step::Keep => None,
            Step::Patch => Some(Operation::Patch(patch)),
            Step::Delete => Some(Operation::Delete(version)),
        }
    }

    /// Names and notes of the items in a saved file.
    fn notes(saved: &str) -> Vec<(Value, Value)> {
        let list: Value = serde_json::from_str(saved).unwrap();
        let items = list["items"].as_array().unwrap().iter();
        items
            .map(|item| {
                let metadata = &item["metadata"];
                let note = metadata["annotations"]["note"].clone();
                (metadata["name"].clone(), note)
            })
            .collect()
    }

    proptest! {
        // Each case waits for the disk.
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn a_saved_file_has_the_objects_that_were_left_and_created(
            steps in prop::collection::vec(step(), 0..6),
            created in 0..3_usize,
            is_pretty: bool,
        ) {
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            let items: Vec<_> = (0..steps.len()).map(|index| cilium_node(&format!("n{index}"), "old")).collect();
            let list = json!({"apiVersion": "v1", "kind": "List", "items": items});
            let text = if is_pretty { serde_json::to_string_pretty(&list) } else { serde_json::to_string(&list) };
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("cluster.json");
            std::fs::write(&path, text.unwrap()).unwrap();
            let cluster = FileCluster::open(&path, Opening::Write).unwrap();
            let mut expected = Vec::new();
            for (index, step) in steps.iter().enumerate() {
                let name = format!("n{index}");
                if let Some(operation) = operation_of(*step) {
                    runtime.block_on(cluster.write(&write_of(&name, operation))).unwrap();
                }
                let note = if *step == Step::Patch { "new" } else { "old" };
                if *step != Step::Delete {
                    expected.push((json!(name), json!(note)));
                }
            }
            for index in 0..created {
                let name = format!("c{index}");
                let create = Operation::Create(cilium_node(&name, "created"));
                runtime.block_on(cluster.write(&write_of(&name, create))).unwrap();
                expected.push((json!(name), json!("created")));
            }
            cluster.save_all().unwrap();
            prop_assert_eq!(notes(&std::fs::read_to_string(&path).unwrap()), expected);
        }
    }
}
