//! The texts under which a migration is stored. One object of a cluster holds 1 MiB, so the moves
//! lie in parts of their own, which never change, and the waves and the state in the main record.
//!
//! The Node that is created in place of a deleted one keeps everything that people, clouds and
//! controllers have put on it, without what belongs to the old object or to its blocks. Nothing is
//! added but the mark of the migration and the cordon.

use serde_json::{Map, Value, json};

use super::migration_record::{FORMAT_VERSION, MigrationRecord, MigrationRecordError, major};
use super::schedule::NodeMove;
use super::seen::{MIGRATION_ANNOTATION, SeenNode};
use ipam_cilium::observed::ANNOTATION_KEYS;

/// Bytes of a part after which another one begins: far below 1 MiB, because a move can be long.
const PART_BYTES: usize = 400_000;

impl MigrationRecord {
    /// The text of the main record.
    pub fn to_text(&self) -> String {
        let mut schedule = self.schedule.clone();
        schedule.moves.clear();
        // No program reads the nodes that were left out after the migration began.
        schedule.left_out.clear();
        let main = MigrationRecord {
            schedule,
            ..self.clone()
        };
        let mut main = json!(main);
        main["parts"] = json!(self.chunks().len());
        main.to_string()
    }

    /// Texts of the parts of the record, in order.
    pub fn part_texts(&self) -> Vec<String> {
        let parts = self.chunks();
        let text = |moves: &Vec<Value>| json!({"migration": self.id, "moves": moves}).to_string();
        parts.iter().map(text).collect()
    }

    fn chunks(&self) -> Vec<Vec<Value>> {
        let mut parts: Vec<Vec<Value>> = Vec::new();
        let mut bytes = PART_BYTES;
        for one in &self.schedule.moves {
            let one = json!(one);
            let length = one.to_string().len();
            if bytes + length > PART_BYTES {
                parts.push(Vec::new());
                bytes = 0;
            }
            bytes += length;
            if let Some(last) = parts.last_mut() {
                last.push(one);
            }
        }
        parts
    }

    /// Reads a stored record with its parts, in order.
    ///
    /// # Errors
    /// Fails if a text is anything else, of another major version, or missing.
    pub fn read(text: &str, parts: &[&str]) -> Result<MigrationRecord, MigrationRecordError> {
        let main: Value = serde_json::from_str(text)?;
        let version = main["formatVersion"].as_str().unwrap_or_default();
        if major(version) != major(FORMAT_VERSION) {
            return Err(MigrationRecordError::Version(version.to_owned()));
        }
        let wanted = main["parts"].as_u64().unwrap_or_default();
        let mut record: MigrationRecord = serde_json::from_value(main)?;
        if wanted != parts.len() as u64 {
            let seen = parts.len();
            return Err(MigrationRecordError::Parts { seen, wanted });
        }
        for part in parts {
            let mut part: Value = serde_json::from_str(part)?;
            let moves: Vec<NodeMove> = serde_json::from_value(part["moves"].take())?;
            record.schedule.moves.extend(moves);
        }
        match record.schedule.is_unedited() {
            true => Ok(record),
            false => Err(MigrationRecordError::Edited),
        }
    }
}

/// Times as whole seconds.
pub(super) mod seconds {
    use jiff::SignedDuration;
    use serde::{Deserialize, Deserializer, Serializer};

    pub(crate) fn serialize<S: Serializer>(
        time: &SignedDuration,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.serialize_i64(time.as_secs())
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<SignedDuration, D::Error> {
        i64::deserialize(deserializer).map(SignedDuration::from_secs)
    }
}

/// What Cilium's agent writes on the Node and derives from the node's blocks
/// (`pkg/annotation/k8s.go` @ 1.20). The next agent writes it again.
const AGENT_ANNOTATIONS: [&str; 8] = [
    "network.cilium.io/ipv4-cilium-host",
    "network.cilium.io/ipv6-cilium-host",
    "network.cilium.io/ipv4-health-ip",
    "network.cilium.io/ipv6-health-ip",
    "network.cilium.io/ipv4-Ingress-ip",
    "network.cilium.io/ipv6-Ingress-ip",
    "io.cilium.network.ipv4-cilium-host",
    "io.cilium.network.ipv6-cilium-host",
];

/// Taints that the node lifecycle controller derives from conditions and from the cordon
/// (`pkg/controller/nodelifecycle/node_lifecycle_controller.go` @ 1.36). It puts them back itself.
const DERIVED_TAINTS: &str = "node.kubernetes.io/";

/// The object to create, from the one that is deleted.
pub(super) fn manifest(seen: &SeenNode, migration: &str) -> Value {
    let old = &seen.object;
    let mut metadata = Map::new();
    for key in ["name", "labels", "ownerReferences"] {
        if let Some(value) = old.pointer(&format!("/metadata/{key}")) {
            metadata.insert(key.to_owned(), value.clone());
        }
    }
    let mut annotations = kept_annotations(old);
    annotations.insert(MIGRATION_ANNOTATION.to_owned(), json!(migration));
    metadata.insert("annotations".to_owned(), Value::Object(annotations));
    let mut spec = Map::new();
    let kept = old.get("spec").and_then(Value::as_object).into_iter();
    for (key, value) in kept.flatten() {
        if !matches!(key.as_str(), "podCIDR" | "podCIDRs" | "taints") {
            spec.insert(key.clone(), value.clone());
        }
    }
    spec.insert("unschedulable".to_owned(), json!(true));
    let taints = kept_taints(old);
    if !taints.is_empty() {
        spec.insert("taints".to_owned(), Value::Array(taints));
    }
    // The server keeps the status of a new Node, so it is ready, and has its addresses, at once.
    // Its kubelet writes the same fields within seconds.
    let status = &old["status"];
    json!({"apiVersion": "v1", "kind": "Node", "metadata": metadata, "spec": spec, "status": status})
}

fn kept_annotations(old: &Value) -> Map<String, Value> {
    let annotations = old.pointer("/metadata/annotations");
    let annotations = annotations.and_then(Value::as_object).into_iter().flatten();
    let is_kept = |key: &&String| {
        let key = key.as_str();
        !ANNOTATION_KEYS.contains(&key) && !AGENT_ANNOTATIONS.contains(&key)
    };
    annotations
        .filter(|(key, _)| is_kept(key))
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect()
}

fn kept_taints(old: &Value) -> Vec<Value> {
    let taints = old.pointer("/spec/taints").and_then(Value::as_array);
    let is_derived = |taint: &&Value| {
        let key = taint["key"].as_str();
        key.is_some_and(|key| key.starts_with(DERIVED_TAINTS))
    };
    let taints = taints.into_iter().flatten();
    taints.filter(|taint| !is_derived(taint)).cloned().collect()
}

/// The patch that adds the missing metadata of the saved Node to the new Node; `None` if nothing is
/// missing. Another program may have created the new Node, such as a restarted kubelet. Values of
/// the new Node are kept.
pub(super) fn missing(saved: &Value, seen: &SeenNode) -> Option<Value> {
    let mut patch = json!({});
    for part in ["labels", "annotations"] {
        let old = saved.pointer(&format!("/metadata/{part}"));
        let old = old.and_then(Value::as_object).into_iter().flatten();
        let new = seen.object.pointer(&format!("/metadata/{part}"));
        for (key, value) in old.filter(|(key, _)| new.is_none_or(|new| new.get(key).is_none())) {
            patch["metadata"][part][key] = value.clone();
        }
    }
    let taints = merged_taints(saved, &seen.object);
    if let Some(taints) = taints {
        patch["spec"]["taints"] = Value::Array(taints);
    }
    for key in ["providerID", "unschedulable"] {
        let (old, new) = (&saved["spec"][key], &seen.object["spec"][key]);
        if new.is_null() && !old.is_null() {
            patch["spec"][key] = old.clone();
        }
    }
    let is_empty = patch.as_object().is_some_and(Map::is_empty);
    (!is_empty).then_some(patch)
}

/// The taints of both Nodes, if the new Node lacks a taint of the saved one.
fn merged_taints(saved: &Value, new: &Value) -> Option<Vec<Value>> {
    let of = |object: &Value| -> Vec<Value> {
        let taints = object.pointer("/spec/taints").and_then(Value::as_array);
        taints.cloned().unwrap_or_default()
    };
    let mut taints = of(new);
    let is_same = |a: &Value, b: &Value| a["key"] == b["key"] && a["effect"] == b["effect"];
    let lacking: Vec<Value> = of(saved)
        .into_iter()
        .filter(|old| !taints.iter().any(|new| is_same(old, new)))
        .collect();
    (!lacking.is_empty()).then(|| {
        taints.extend(lacking);
        taints
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::migration::tests::stored_record;

    /// Bytes that one ConfigMap holds (`pkg/apis/core/validation` @ 1.36).
    const MOST: usize = 1024 * 1024;

    fn read_again(record: &MigrationRecord) -> Result<MigrationRecord, MigrationRecordError> {
        let parts = record.part_texts();
        let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
        MigrationRecord::read(&record.to_text(), &parts)
    }

    #[test]
    fn a_migration_of_5000_nodes_fits_into_its_objects() {
        let record = stored_record(5_000);
        let texts = [vec![record.to_text()], record.part_texts()].concat();
        assert!(texts.len() > 2);
        assert!(texts.iter().all(|text| text.len() < MOST * 3 / 4));
        let read = read_again(&record).unwrap();
        assert_eq!(read, record);
    }

    #[test]
    fn a_record_without_all_its_parts_is_refused() {
        let record = stored_record(3);
        assert_eq!(record.part_texts().len(), 1);
        let error = MigrationRecord::read(&record.to_text(), &[]).unwrap_err();
        let expected = "0 of its 1 parts exist: the others were deleted";
        assert_eq!(error.to_string(), expected);
        let part = record.part_texts().concat().replace("10.1.0", "10.9.0");
        let edited = MigrationRecord::read(&record.to_text(), &[&part]);
        assert!(matches!(edited, Err(MigrationRecordError::Edited)));
    }

    #[test]
    fn a_record_of_another_major_version_is_refused() {
        for version in ["1.0", "3.1"] {
            let text = stored_record(1).to_text();
            let text = text.replace(r#""2.0""#, &format!("\"{version}\""));
            let error = MigrationRecord::read(&text, &[]).unwrap_err();
            let expected = format!("it has format version {version}, and this program reads 2.0");
            assert_eq!(error.to_string(), expected);
        }
    }
}

#[cfg(test)]
mod manifest_tests {
    use super::*;
    use crate::migration::seen::NodeSeen;

    fn seen(object: Value) -> SeenNode {
        NodeSeen::read(Some(object), None, &[])
            .unwrap()
            .node
            .unwrap()
    }

    fn old() -> Value {
        json!({
            "metadata": {
                "name": "n", "uid": "u", "resourceVersion": "7", "creationTimestamp": "2026-01-01T00:00:00Z",
                "labels": {"rack": "a"},
                "annotations": {
                    "team": "web", "network.cilium.io/ipv4-pod-cidr": "10.0.0.0/24",
                    "network.cilium.io/ipv4-cilium-host": "10.0.0.1", "csi.volume.kubernetes.io/nodeid": "{}",
                },
                "managedFields": [],
            },
            "spec": {
                "podCIDR": "10.0.0.0/24", "podCIDRs": ["10.0.0.0/24"], "providerID": "cloud://n",
                "taints": [
                    {"key": "dedicated", "value": "db", "effect": "NoSchedule"},
                    {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"},
                ],
            },
            "status": {"phase": "Running"},
        })
    }

    #[test]
    fn the_new_node_has_everything_but_the_old_identity_and_blocks() {
        let created = manifest(&seen(old()), "m1");
        let expected = json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": {
                "name": "n", "labels": {"rack": "a"},
                "annotations": {
                    "team": "web", "csi.volume.kubernetes.io/nodeid": "{}", "cilium-ipam.io/migration": "m1",
                },
            },
            "spec": {
                "providerID": "cloud://n", "unschedulable": true,
                "taints": [{"key": "dedicated", "value": "db", "effect": "NoSchedule"}],
            },
            "status": {"phase": "Running"},
        });
        assert_eq!(created, expected);
    }

    #[test]
    fn only_missing_parts_are_added_to_a_node_that_another_program_created() {
        let saved = manifest(&seen(old()), "m1");
        let new = json!({
            "metadata": {"name": "n", "labels": {"rack": "b", "arch": "arm"}},
            "spec": {"taints": [{"key": "dedicated", "value": "web", "effect": "NoSchedule"}]},
        });
        let patch = missing(&saved, &seen(new)).unwrap();
        assert_eq!(
            patch["metadata"].get("labels"),
            None,
            "a label that changed is kept"
        );
        assert_eq!(patch["metadata"]["annotations"]["team"], "web");
        assert_eq!(patch["spec"].get("taints"), None);
        assert_eq!(patch["spec"]["providerID"], "cloud://n");
        assert_eq!(missing(&saved, &seen(saved.clone())), None);
    }
}
