//! The stored claims and the blocks of deleted nodes, and which of them count by the rest of the
//! observation.
//!
//! The nodes that the last migration still moves, from its record. It must never know how a node is
//! moved.

use std::collections::{BTreeMap, BTreeSet};

use jiff::SignedDuration;
use serde::Deserialize;

use super::view::ConfigMapView;
use super::{
    BlindSpot, CLAIMS_KEY, DEPARTED_KEY, MIGRATION_KEY, NodeConfig, Observed, ObservedKind,
    ReadError,
};
use ipam_core::claims::{
    Claim, ClaimGuard, Claims, Departed, DepartedBlocks, DepartedPart, ObservedObject, RecordError,
};
use ipam_core::model::{NodeName, ObjectVersion};
use ipam_core::net::Block;

/// The claims and the version of the object that stores them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoredClaims {
    /// Claims as the object stores them, including those of dead processes.
    pub claims: Claims,
    /// `None`: the object does not exist.
    pub version: Option<ObjectVersion>,
}

impl StoredClaims {
    pub(super) fn read(view: &ConfigMapView) -> Result<StoredClaims, RecordError> {
        let metadata = &view.metadata;
        let version = ObjectVersion {
            uid: metadata.uid.clone(),
            resource_version: metadata.resource_version.clone(),
        };
        // An administrator may create the empty object beforehand, so that `cilium-ipam` needs no
        // permission to create it.
        let claims = view
            .data
            .get(CLAIMS_KEY)
            .map_or_else(|| Ok(Claims::default()), |text| Claims::from_json(text))?;
        Ok(StoredClaims {
            claims,
            version: Some(version),
        })
    }
}

/// Blocks of deleted nodes, and the versions of the objects that store them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoredDeparted {
    pub departed: Departed,
    /// Versions of the objects that exist.
    pub versions: BTreeMap<DepartedPart, ObjectVersion>,
}

impl StoredDeparted {
    pub(super) fn read(&mut self, part: DepartedPart, json: &str) -> Result<(), ReadError> {
        let unreadable = |error: &dyn std::error::Error| {
            ReadError::new(ObservedKind::Departed(part), json, error)
        };
        let view: ConfigMapView = serde_json::from_str(json).map_err(|error| unreadable(&error))?;
        let blocks = match view.data.get(DEPARTED_KEY) {
            Some(text) => DepartedBlocks::from_text(text).map_err(|error| unreadable(&error))?,
            None => DepartedBlocks::default(),
        };
        let version = ObjectVersion {
            uid: view.metadata.uid.clone(),
            resource_version: view.metadata.resource_version.clone(),
        };
        self.departed.parts.insert(part, blocks);
        self.versions.insert(part, version);
        Ok(())
    }
}

impl Observed {
    /// Blocks that are claimed, or in quarantine: freed blocks and those of deleted nodes are
    /// quarantined for `quarantine_for`.
    pub fn live_claims(&self, quarantine_for: SignedDuration) -> Claims {
        let mut claims = self.claims_to_store(quarantine_for);
        let departed = &self.departed.departed;
        if departed.blocks().next().is_some() {
            // A block that a node shows is that node's again, or another program assigned it.
            let shown: BTreeSet<Block> = self.shown_blocks().map(|(_, block)| block).collect();
            departed.add_to(
                &mut claims,
                |block| shown.contains(block),
                self.at,
                quarantine_for,
            );
        }
        claims
    }

    /// The first kind that could not be read and whose objects may use addresses. Deleted nodes use
    /// none.
    pub fn hidden_users(&self) -> Option<&BlindSpot> {
        let is_of_users = |spot: &&BlindSpot| !matches!(spot.kind, ObservedKind::Departed(_));
        self.blind_spots.iter().find(is_of_users)
    }

    /// The live claims without the blocks of deleted nodes, which are stored apart.
    pub fn claims_to_store(&self, quarantine_for: SignedDuration) -> Claims {
        let configs = self.node_configs.iter();
        let configs: BTreeMap<&str, &NodeConfig> = configs
            .rev()
            .map(|config| (config.version.uid.as_str(), config))
            .collect();
        let observed_object = |claim: &Claim| self.observed_object(claim, &configs);
        self.claims
            .claims
            .live(observed_object, self.at, quarantine_for)
    }

    /// The object of a claim, by its UID: the Node, its CiliumNode, or a `CiliumNodeConfig`.
    /// `configs` are the `CiliumNodeConfig`s by UID.
    fn observed_object<'o>(
        &'o self,
        claim: &Claim,
        configs: &BTreeMap<&str, &'o NodeConfig>,
    ) -> Option<ObservedObject<'o>> {
        let is_it = |version: &ObjectVersion| !claim.uid.is_empty() && version.uid == claim.uid;
        if let Some(node) = self
            .cilium_nodes
            .get(&claim.node)
            .filter(|node| is_it(&node.version))
        {
            return Some(observed_object(&node.version, node.pod_cidrs.clone()));
        }
        if let Some(config) = configs
            .get(claim.uid.as_str())
            .filter(|config| is_it(&config.version))
        {
            return Some(observed_object(&config.version, config.ranges().collect()));
        }
        let is_of_node = self
            .nodes
            .get(&claim.node)
            .is_some_and(|node| node.uid == claim.uid);
        if self.blind_spot(ObservedKind::CiliumNodeConfig).is_some() && !is_of_node {
            // The object may be hidden, so the claim stays pending.
            let kept = self
                .claims
                .claims
                .in_flight
                .values()
                .find(|kept| *kept == claim)?;
            let ClaimGuard::Version(version) = &kept.guard else {
                return None;
            };
            return Some(ObservedObject {
                uid: &kept.uid,
                resource_version: version,
                shown: Vec::new(),
            });
        }
        let node = self.nodes.get(&claim.node)?;
        Some(ObservedObject {
            uid: &node.uid,
            resource_version: &node.resource_version,
            shown: node.shown.clone(),
        })
    }
}

fn observed_object(version: &ObjectVersion, shown: Vec<Block>) -> ObservedObject<'_> {
    ObservedObject {
        uid: &version.uid,
        resource_version: &version.resource_version,
        shown,
    }
}

/// A migration that is not over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnfinishedMigration {
    /// The name of the migration.
    pub id: String,
    /// State of the migration, such as `running` or `stopped`.
    pub state: String,
    pub waves: usize,
    /// Waves that are moved completely.
    pub waves_done: usize,
    /// Number of nodes of the migration.
    pub nodes: usize,
    /// Nodes of the waves that are moved completely.
    pub moved: usize,
    /// Nodes that the migration still moves, or moves back.
    moving: BTreeSet<NodeName>,
}

impl UnfinishedMigration {
    /// Reads the record. `None`: the migration is over.
    ///
    /// # Errors
    /// Fails if the object holds no record, or another text.
    pub(super) fn read(
        view: &ConfigMapView,
    ) -> Result<Option<UnfinishedMigration>, serde_json::Error> {
        let text = view.data.get(MIGRATION_KEY).map_or("", String::as_str);
        let RecordView {
            id,
            state,
            wave,
            schedule,
        } = serde_json::from_str(text)?;
        let waves = schedule.waves.len();
        let done = match state.as_str() {
            "done" | "undone" => return Ok(None),
            // A migration that is undone moves all its nodes back.
            "undoing" => 0,
            _ => wave.min(waves),
        };
        let size = |waves: &[WaveView]| waves.iter().map(|wave| wave.nodes.len()).sum();
        let (moved, rest) = schedule.waves.split_at(done);
        let names = rest.iter().flat_map(|wave| &wave.nodes);
        Ok(Some(UnfinishedMigration {
            id,
            state,
            waves,
            waves_done: done,
            nodes: size(&schedule.waves),
            moved: size(moved),
            moving: names.filter_map(|name| name.parse().ok()).collect(),
        }))
    }

    /// Whether the migration still moves the node, or moves it back.
    pub fn moves(&self, node: &NodeName) -> bool {
        self.moving.contains(node)
    }
}

#[derive(Deserialize)]
struct RecordView {
    id: String,
    state: String,
    wave: usize,
    schedule: ScheduleView,
}

#[derive(Deserialize)]
struct ScheduleView {
    waves: Vec<WaveView>,
}

#[derive(Deserialize)]
struct WaveView {
    nodes: Vec<String>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observed::{Observed, ObservedKind, Reader};
    use jiff::Timestamp;
    use serde_json::json;

    fn observed(record: &str) -> Observed {
        let mut reader = Reader::default();
        let object =
            json!({"metadata": {"name": "cilium-ipam-migration"}, "data": {"record.json": record}});
        reader
            .object(ObservedKind::Migration, &object.to_string())
            .unwrap();
        reader.finish(Timestamp::UNIX_EPOCH)
    }

    fn of_state(state: &str) -> Option<UnfinishedMigration> {
        let waves = json!([{"domain": "a", "nodes": ["n1"]}, {"nodes": ["n2", "n3"]}]);
        let schedule = json!({"waves": waves, "moves": []});
        let record = json!({"id": "m", "state": state, "wave": 1, "schedule": schedule});
        observed(&record.to_string()).migration
    }

    #[test]
    fn only_the_nodes_that_still_move_are_its_own() {
        let moves = |migration: &UnfinishedMigration| {
            ["n1", "n2", "n3", "n4"].map(|name| migration.moves(&name.parse().unwrap()))
        };
        for state in ["running", "stopped", "turning-back", "of a newer version"] {
            let migration = of_state(state).unwrap();
            assert_eq!(moves(&migration), [false, true, true, false], "{state}");
            assert_eq!((migration.moved, migration.nodes), (1, 3));
        }
        let back = of_state("undoing").unwrap();
        assert_eq!(moves(&back), [true, true, true, false]);
        assert_eq!(of_state("done"), None);
        assert_eq!(of_state("undone"), None);
    }

    #[test]
    fn an_unreadable_record_is_a_blind_spot() {
        let observed = observed("{");
        assert!(observed.blind_spot(ObservedKind::Migration).is_some());
        assert_eq!(observed.migration, None);
    }
}
