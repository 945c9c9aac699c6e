//! The writes to a cluster file since it was read, by the API server's rules.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde_json::{Value, json};

use super::super::rules::{admitted, patched, version_of};
use super::super::write::guard;
use super::super::{WriteError, Written};
use super::disk::Lock;
use super::item_location::ItemLocation;
use super::items::uid_of;
use super::text::pretty;
use ipam_cilium::observed::ObjectVersion;

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
    /// Number of writes that are not on disk yet.
    pub(super) unsaved: usize,
    /// Whether the file on disk is the one that was read.
    pub(super) disk: Disk,
    /// The lock, if the file is open for writing.
    pub(super) lock: Option<Lock>,
}

/// The content on disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Disk {
    /// The file as it was read.
    #[default]
    AsRead,
    /// A version that was saved since.
    Saved,
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
        self.unsaved += 1;
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
        self.unsaved += 1;
        Ok(object)
    }
}

fn refused(error: serde_json::Error) -> WriteError {
    WriteError::Refused(error.to_string())
}
