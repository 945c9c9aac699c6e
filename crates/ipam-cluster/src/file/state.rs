//! What was written to a cluster file since it was read, by the API server's rules.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde_json::{Value, json};

use super::super::rules::{admitted, patched, version_of};
use super::super::write::guard;
use super::super::{WriteError, Written};
use super::disk::Lock;
use super::items::uid_of;
use super::place::Place;
use ipam_cilium::observed::ObjectVersion;

/// Objects that are not as the file had them.
#[derive(Debug, Default)]
pub(super) struct State {
    /// Objects that were written, by their number in the file.
    pub(super) changed: BTreeMap<usize, Value>,
    /// Objects with the identity that an API server would have given them; the file does not get it
    /// unless they are written.
    pub(super) identified: BTreeMap<usize, Value>,
    /// Objects that the file did not have.
    pub(super) created: BTreeMap<Place, Value>,
    /// Objects that are gone, by their number in the file.
    pub(super) deleted: BTreeSet<usize>,
    /// The highest in use.
    pub(super) resource_version: u64,
    /// Writes that are not on disk yet.
    pub(super) unsaved: usize,
    /// Whether the file on disk is the one that was read.
    pub(super) disk: Disk,
    /// The lock, where the file is open for writing.
    pub(super) lock: Option<Lock>,
}

/// What lies on disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Disk {
    /// The file as it was read.
    #[default]
    AsRead,
    /// What was saved since.
    Saved,
}

/// The objects of the file as it was read.
pub(super) trait Base {
    /// The number of an object in the file.
    fn index(&self, place: &Place) -> Option<usize>;

    /// An object as the file has it.
    fn object(&self, index: usize) -> Result<Value, serde_json::Error>;
}

impl State {
    /// An object that is not as the file has it, but for its number there.
    pub(super) fn object(&self, index: usize) -> Option<&Value> {
        self.changed.get(&index).or(self.identified.get(&index))
    }

    /// Patches an object.
    ///
    /// # Errors
    /// There is none, its guard does not fit, or an API server would refuse it.
    pub(super) fn patch(
        &mut self,
        base: &impl Base,
        place: &Place,
        patch: &Value,
    ) -> Result<Written, WriteError> {
        let index = if self.created.contains_key(place) {
            None
        } else {
            Some(self.index_of(base, place)?)
        };
        let before = match index {
            None => self.created.get(place).cloned().unwrap_or_default(),
            Some(index) => self.object_at(base, index)?,
        };
        let object = self.next_version(patched(&before, patch)?)?;
        let version = version_of(&object);
        match index {
            None => self.created.insert(place.clone(), object),
            Some(index) => self.changed.insert(index, object),
        };
        Ok(Written { version })
    }

    /// Adds an object.
    ///
    /// # Errors
    /// It is there.
    pub(super) fn create(
        &mut self,
        base: &impl Base,
        place: Place,
        object: &Value,
        now: Timestamp,
    ) -> Result<Written, WriteError> {
        if self.created.contains_key(&place) || self.index_of(base, &place).is_ok() {
            let message = format!(
                "{} \"{}\" already exists",
                place.kind.resource(),
                place.name
            );
            return Err(WriteError::Superseded(message));
        }
        admitted(object)?;
        let mut object = object.clone();
        let uid = uid_of(object["kind"].as_str().unwrap_or_default(), "", &place.name);
        object["metadata"]["uid"] = json!(uid);
        object["metadata"]["creationTimestamp"] =
            json!(now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string());
        let object = self.next_version(object)?;
        let version = version_of(&object);
        self.created.insert(place, object);
        Ok(Written { version })
    }

    /// Deletes an object.
    ///
    /// # Errors
    /// There is none, or it is another one.
    pub(super) fn delete(
        &mut self,
        base: &impl Base,
        place: &Place,
        version: &ObjectVersion,
    ) -> Result<Written, WriteError> {
        let guard = json!({"metadata": guard(version)});
        if let Some(object) = self.created.get(place) {
            patched(object, &guard)?;
            self.created.remove(place);
        } else {
            let index = self.index_of(base, place)?;
            patched(&self.object_at(base, index)?, &guard)?;
            self.deleted.insert(index);
        }
        self.unsaved += 1;
        Ok(Written {
            version: ObjectVersion::default(),
        })
    }

    fn index_of(&self, base: &impl Base, place: &Place) -> Result<usize, WriteError> {
        let gone = || {
            WriteError::Superseded(format!(
                "{} \"{}\" not found",
                place.kind.resource(),
                place.name
            ))
        };
        base.index(place)
            .filter(|index| !self.deleted.contains(index))
            .ok_or_else(gone)
    }

    fn object_at(&self, base: &impl Base, index: usize) -> Result<Value, WriteError> {
        match self.object(index) {
            Some(object) => Ok(object.clone()),
            None => base
                .object(index)
                .map_err(|error| WriteError::Refused(error.to_string())),
        }
    }

    /// The object as it is after a write.
    fn next_version(&mut self, mut object: Value) -> Result<Value, WriteError> {
        let next = self.resource_version.checked_add(1);
        self.resource_version =
            next.ok_or_else(|| WriteError::Refused("no resourceVersion is left".to_owned()))?;
        object["metadata"]["resourceVersion"] = json!(self.resource_version.to_string());
        self.unsaved += 1;
        Ok(object)
    }
}
