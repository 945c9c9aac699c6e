//! Keeps the records of a migration in ConfigMaps: one of the migration with parts for its moves, and
//! one for each node. Parts never change. Every other one is replaced only in the version that was
//! read, so two programs never continue one node.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::{MigrationError, NodeStates};
use ipam_cilium::observed::{
    MIGRATION_KEY, MIGRATION_NAME, OWN_NAMESPACE, OWNER_LABEL, ObjectVersion,
};
use ipam_cluster::{
    Cluster, MIGRATION_LABEL, Operation, Target, Workloads, Write, WriteError, version_of,
};
use ipam_core::model::NodeName;
use ipam_migrate::migration::{MigrationRecord, MigrationRecordError, NodeRecord, Phase};

/// The ConfigMap of the migration. Those of nodes have longer names.
const NAME: &str = MIGRATION_NAME;
/// Key in a ConfigMap of the record of a migration or a node.
const KEY: &str = MIGRATION_KEY;
/// Key in a ConfigMap of a part of a migration's record.
const PART_KEY: &str = "moves.json";

/// A record and the version of its object; without one, the object does not exist yet.
#[derive(Clone, Debug)]
pub struct Stored<R> {
    pub record: R,
    version: Option<ObjectVersion>,
}

/// The ConfigMaps of all migrations, as they were read.
#[derive(Clone, Debug, Default)]
pub struct Stores {
    pub migration: Option<Stored<MigrationRecord>>,
    /// Records of the migration's nodes.
    pub nodes: NodeStates,
    /// Versions of the ConfigMaps with parts of the migration's record.
    parts: BTreeMap<String, ObjectVersion>,
    /// ConfigMaps of earlier migrations.
    stale: BTreeMap<String, ObjectVersion>,
    /// Nodes of earlier migrations that are neither moved nor untouched.
    unfinished: Vec<String>,
}

impl Stores {
    /// Why no migration may begin: a record of an earlier one may be all that is left of a Node.
    pub(super) fn unfinished(&self) -> Option<String> {
        let first = self.unfinished.first()?;
        Some(format!(
            "an earlier migration left {first}: finish it by hand, and delete the ConfigMap"
        ))
    }
}

impl Stores {
    /// Adds an object of another migration than the stored one.
    fn add_earlier(&mut self, object: &Value) {
        if !is_own(object) {
            return;
        }
        if part_of(object).is_none() {
            self.unfinished.extend(unfinished(object));
        }
        let name = name_of(object).to_owned();
        self.stale.insert(name, version_of(object));
    }
}

impl<R> Stored<R> {
    pub(super) fn new(record: R) -> Stored<R> {
        Stored {
            record,
            version: None,
        }
    }
}

/// Reads all records.
///
/// # Errors
/// Fails if the cluster does not answer, or a record is unusable: nothing may be moved then.
pub async fn stored<C: Workloads>(cluster: &C) -> Result<Stores, MigrationError> {
    let mut stores = Stores::default();
    let objects = cluster.migration_records().await?;
    let (main, others): (Vec<&Value>, Vec<&Value>) =
        objects.iter().partition(|object| name_of(object) == NAME);
    if let Some(object) = main.first() {
        let parts = parts_of(migration_of(object), &others);
        let record = MigrationRecord::read(text_of(object), &parts)
            .map_err(|error| unusable(object, error))?;
        stores.migration = Some(Stored {
            record,
            version: Some(version_of(object)),
        });
    }
    let id = stores
        .migration
        .as_ref()
        .map(|stored| stored.record.id.clone());
    for object in others {
        if migration_of(object) != id.as_deref() {
            stores.add_earlier(object);
        } else if part_of(object).is_some() {
            let name = name_of(object).to_owned();
            stores.parts.insert(name, version_of(object));
        } else {
            let record: NodeRecord = serde_json::from_str(text_of(object))
                .map_err(|error| unusable(object, error.into()))?;
            let version = Some(version_of(object));
            let name = record.node.clone();
            stores.nodes.insert(name, Stored { record, version });
        }
    }
    Ok(stores)
}

/// The parts of a migration, in order.
fn parts_of<'o>(migration: Option<&str>, others: &[&'o Value]) -> Vec<&'o str> {
    let of_migration = others
        .iter()
        .filter(|object| migration_of(object) == migration);
    let mut parts: Vec<(&str, &str)> = of_migration
        .filter_map(|object| Some((name_of(object), part_of(object)?)))
        .collect();
    parts.sort_unstable();
    parts.into_iter().map(|(_, text)| text).collect()
}

/// Removes the records of migrations before this one.
pub(super) async fn remove_stale<C: Cluster>(
    cluster: &C,
    stores: &Stores,
    migration: &str,
) -> Result<(), MigrationError> {
    let of_nodes = stores
        .nodes
        .values()
        .filter_map(|stored| Some((name_of_node(&stored.record.node), stored.version.clone()?)));
    let others = stores.parts.iter().chain(&stores.stale);
    let others = others.map(|(name, version)| (name.clone(), version.clone()));
    // A program that was killed in the same second has left parts with the names of ours.
    let own = name_of_part(migration, "");
    for (name, version) in others
        .chain(of_nodes)
        .filter(|(name, _)| !name.starts_with(&own))
    {
        let write = Write {
            target: Target::MigrationRecord(name.clone()),
            operation: Operation::Delete(version),
        };
        match cluster.write(&write).await {
            Ok(_) | Err(WriteError::Superseded(_)) => {}
            Err(error) => return Err(MigrationError::Store { name, error }),
        }
    }
    Ok(())
}

/// Stores the record of the migration. It replaces that of an earlier one.
pub(super) async fn put_migration<C: Workloads>(
    cluster: &C,
    stored: &Stored<MigrationRecord>,
    record: MigrationRecord,
) -> Result<Stored<MigrationRecord>, MigrationError> {
    let text = record.to_text();
    let kept = Kept {
        name: NAME,
        migration: &record.id,
        key: KEY,
        text: &text,
    };
    let version = put(cluster, &kept, stored.version.as_ref()).await?;
    Ok(Stored {
        record,
        version: Some(version),
    })
}

/// Stores the parts of the record of a migration that begins. Without its main record they mean
/// nothing, so a program that is killed after this has begun nothing.
pub(super) async fn put_parts<C: Workloads>(
    cluster: &C,
    record: &MigrationRecord,
) -> Result<(), MigrationError> {
    for (index, text) in record.part_texts().iter().enumerate() {
        let kept = Kept {
            name: &name_of_part(&record.id, &format!("{index:04}")),
            migration: &record.id,
            key: PART_KEY,
            text,
        };
        put(cluster, &kept, None).await?;
    }
    Ok(())
}

/// Stores the record of a node.
pub(super) async fn put_node<C: Workloads>(
    cluster: &C,
    stored: &Stored<NodeRecord>,
    record: NodeRecord,
) -> Result<Stored<NodeRecord>, MigrationError> {
    let text = json!(record).to_string();
    let name = name_of_node(&record.node);
    let kept = Kept {
        name: &name,
        migration: &record.migration,
        key: KEY,
        text: &text,
    };
    let version = put(cluster, &kept, stored.version.as_ref()).await?;
    Ok(Stored {
        record,
        version: Some(version),
    })
}

/// A ConfigMap with one text.
struct Kept<'k> {
    name: &'k str,
    migration: &'k str,
    key: &'static str,
    text: &'k str,
}

async fn put<C: Workloads>(
    cluster: &C,
    kept: &Kept<'_>,
    version: Option<&ObjectVersion>,
) -> Result<ObjectVersion, MigrationError> {
    let name = kept.name;
    let target = Target::MigrationRecord(name.to_owned());
    let write = Write {
        target: target.clone(),
        operation: kept.operation(version),
    };
    let error = match cluster.write(&write).await {
        Ok(written) => return Ok(written.version),
        Err(error) => error,
    };
    let superseded = matches!(error, WriteError::Superseded(_) | WriteError::Unknown(_));
    let Some(object) = (match superseded {
        true => cluster.object(&target).await?,
        false => None,
    }) else {
        return Err(failed(name, error));
    };
    // The answer to an earlier attempt was lost.
    if text_at(&object, kept.key) == Some(kept.text) {
        return Ok(version_of(&object));
    }
    // Another migration may have begun meanwhile: its main record is not one of an earlier
    // migration.
    let is_earlier = name != NAME && migration_of(&object) != Some(kept.migration);
    if version.is_some() || !is_earlier || !is_own(&object) {
        return Err(failed(name, error));
    }
    // A record of an earlier migration, which was killed before it removed all of them.
    let operation = kept.operation(Some(&version_of(&object)));
    let written = cluster.write(&Write { target, operation }).await;
    Ok(written.map_err(|error| failed(name, error))?.version)
}

fn failed(name: &str, error: WriteError) -> MigrationError {
    let name = name.to_owned();
    match error {
        WriteError::Superseded(_) => MigrationError::TakenOver(name),
        error => MigrationError::Store { name, error },
    }
}

impl Kept<'_> {
    fn operation(&self, version: Option<&ObjectVersion>) -> Operation {
        let (label, value) = OWNER_LABEL;
        let labels = json!({label: value, MIGRATION_LABEL: self.migration});
        let data = json!({self.key: self.text});
        match version {
            Some(version) => Operation::Patch(json!({
                "metadata": {
                    "uid": version.uid, "resourceVersion": version.resource_version, "labels": labels,
                },
                "data": data,
            })),
            None => Operation::Create(json!({
                "apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {"name": self.name, "namespace": OWN_NAMESPACE, "labels": labels},
                "data": data,
            })),
        }
    }
}

/// Names of nodes are longer than what is left of a ConfigMap's name.
fn name_of_node(node: &NodeName) -> String {
    let hash = Sha256::digest(node.as_str());
    let hex: String = hash
        .iter()
        .take(10)
        .map(|byte| format!("{byte:02x}"))
        .collect();
    format!("{NAME}-{hex}")
}

fn name_of_part(migration: &str, number: &str) -> String {
    format!("{NAME}-{migration}-moves-{number}")
}

fn name_of(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or_default()
}

fn text_at<'o>(object: &'o Value, key: &str) -> Option<&'o str> {
    object["data"][key].as_str()
}

fn text_of(object: &Value) -> &str {
    text_at(object, KEY).unwrap_or_default()
}

/// The part of a schedule that this ConfigMap holds; `None` if it holds the record of a node.
fn part_of(object: &Value) -> Option<&str> {
    text_at(object, PART_KEY)
}

fn migration_of(object: &Value) -> Option<&str> {
    object["metadata"]["labels"][MIGRATION_LABEL].as_str()
}

/// Whether `cilium-ipam` created the object: other objects are not deleted.
fn is_own(object: &Value) -> bool {
    let (label, value) = OWNER_LABEL;
    object["metadata"]["labels"][label] == value && name_of(object).starts_with(NAME)
}

fn unfinished(object: &Value) -> Option<String> {
    let name = name_of(object);
    let record: NodeRecord = match serde_json::from_str(text_of(object)) {
        Ok(record) => record,
        Err(_) => {
            return Some(format!(
                "an unreadable record in ConfigMap kube-system/{name}"
            ));
        }
    };
    let is_finished = record.is_done() || record.phase == Phase::Pending;
    (!is_finished).then(|| {
        let NodeRecord { node, phase, .. } = record;
        format!("node {node} at the step `{phase}` (ConfigMap kube-system/{name})")
    })
}

fn unusable(object: &Value, error: MigrationRecordError) -> MigrationError {
    MigrationError::Record {
        name: name_of(object).to_owned(),
        error,
    }
}
