//! Keeps the records of a migration in ConfigMaps: one of the migration, one for each node. Each is
//! replaced only in the version that was read, so two programs never continue one node.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::{MigrationError, NodeStates};
use ipam_cilium::observed::{OWN_NAMESPACE, OWNER_LABEL, ObjectVersion};
use ipam_cluster::{
    Cluster, MIGRATION_LABEL, Operation, Target, Workloads, Write, WriteError, version_of,
};
use ipam_core::model::NodeName;
use ipam_planner::migration::{MigrationRecord, MigrationRecordError, NodeRecord, Phase};

/// The ConfigMap of the migration. Those of nodes have longer names.
const NAME: &str = "cilium-ipam-migration";
/// The key of both sorts of records.
const KEY: &str = "record.json";

/// A record and the version of its object; without one, the object does not exist yet.
#[derive(Clone, Debug)]
pub struct Stored<R> {
    pub record: R,
    version: Option<ObjectVersion>,
}

/// All records.
#[derive(Clone, Debug, Default)]
pub struct Stores {
    pub migration: Option<Stored<MigrationRecord>>,
    /// The nodes of that migration.
    pub nodes: NodeStates,
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
    let (main, nodes): (Vec<&Value>, Vec<&Value>) =
        objects.iter().partition(|object| name_of(object) == NAME);
    if let Some(object) = main.first() {
        let record =
            MigrationRecord::read(text_of(object)).map_err(|error| unusable(object, error))?;
        stores.migration = Some(Stored {
            record,
            version: Some(version_of(object)),
        });
    }
    let id = stores
        .migration
        .as_ref()
        .map(|stored| stored.record.id.clone());
    for object in nodes {
        let label = object["metadata"]["labels"][MIGRATION_LABEL].as_str();
        if label != id.as_deref() {
            if !is_own(object) {
                continue;
            }
            stores.unfinished.extend(unfinished(object));
            stores
                .stale
                .insert(name_of(object).to_owned(), version_of(object));
            continue;
        }
        let record: NodeRecord = serde_json::from_str(text_of(object))
            .map_err(|error| unusable(object, error.into()))?;
        let stored = Stored {
            version: Some(version_of(object)),
            record,
        };
        stores.nodes.insert(stored.record.node.clone(), stored);
    }
    Ok(stores)
}

/// Removes the records of earlier migrations.
pub(super) async fn remove_stale<C: Cluster>(
    cluster: &C,
    stores: &Stores,
) -> Result<(), MigrationError> {
    let earlier = stores
        .nodes
        .values()
        .filter_map(|stored| Some((name_of_node(&stored.record.node), stored.version.clone()?)));
    let stale = stores
        .stale
        .iter()
        .map(|(name, version)| (name.clone(), version.clone()));
    for (name, version) in stale.chain(earlier) {
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
    let text = json!(record).to_string();
    let version = put(cluster, NAME, &record.id, &text, stored.version.as_ref()).await?;
    Ok(Stored {
        record,
        version: Some(version),
    })
}

/// Stores the record of a node.
pub(super) async fn put_node<C: Workloads>(
    cluster: &C,
    stored: &Stored<NodeRecord>,
    record: NodeRecord,
) -> Result<Stored<NodeRecord>, MigrationError> {
    let text = json!(record).to_string();
    let name = name_of_node(&record.node);
    let version = put(
        cluster,
        &name,
        &record.migration,
        &text,
        stored.version.as_ref(),
    )
    .await?;
    Ok(Stored {
        record,
        version: Some(version),
    })
}

async fn put<C: Workloads>(
    cluster: &C,
    name: &str,
    migration: &str,
    text: &str,
    version: Option<&ObjectVersion>,
) -> Result<ObjectVersion, MigrationError> {
    let target = Target::MigrationRecord(name.to_owned());
    let write = Write {
        target: target.clone(),
        operation: stored_as(name, migration, text, version),
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
    if text_of(&object) == text {
        return Ok(version_of(&object));
    }
    let is_earlier = object["metadata"]["labels"][MIGRATION_LABEL] != migration;
    if version.is_some() || !is_earlier || !is_own(&object) {
        return Err(failed(name, error));
    }
    // A record of an earlier migration, which was killed before it removed all of them.
    let operation = stored_as(name, migration, text, Some(&version_of(&object)));
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

fn stored_as(
    name: &str,
    migration: &str,
    text: &str,
    version: Option<&ObjectVersion>,
) -> Operation {
    let (label, value) = OWNER_LABEL;
    let labels = json!({label: value, MIGRATION_LABEL: migration});
    let data = json!({KEY: text});
    match version {
        Some(version) => Operation::Patch(json!({
            "metadata": {
                "uid": version.uid, "resourceVersion": version.resource_version, "labels": labels,
            },
            "data": data,
        })),
        None => Operation::Create(json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": name, "namespace": OWN_NAMESPACE, "labels": labels},
            "data": data,
        })),
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

fn name_of(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or_default()
}

fn text_of(object: &Value) -> &str {
    object["data"][KEY].as_str().unwrap_or_default()
}

/// Whether we made the object: nothing else is deleted.
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
