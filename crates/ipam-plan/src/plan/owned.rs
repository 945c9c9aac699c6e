//! Objects that `cilium-ipam` creates, changes and deletes as a whole: pools of LoadBalancer
//! addresses, pools of Pods, and the `CiliumNodeConfig`s that choose among pools of Pods.
//!
//! Knows nothing of what such an object shows, nor of how it is chosen.

use std::collections::BTreeSet;

use super::blocked::{BlockedReason, CommonObstacle};
use super::change::Target;
use super::document::{ChangeDocument, EditDocument, OriginDocument};
use ipam_core::model::{
    Hazard, Labels, NodeName, OWNER_LABEL, ObjectVersion, Origin, PoolName, is_ours,
};

/// The kinds of change to an object, in the order in which they are sent.
///
/// Changes that take addresses away go before those that add them, so that a pool that moves to
/// another name never overlaps itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PoolAction {
    /// An object of `cilium-ipam` changes.
    Update,
    /// A foreign object gets the label of `cilium-ipam`, and changes where it differs.
    Adopt,
    /// The object is deleted.
    Delete,
    /// The object is created.
    Create,
}

/// An object by name, and by the version of the API in which it is written.
pub trait Owned {
    /// The part of the object that is written.
    type Spec;

    fn target(&self) -> Target;

    /// Name of the write path in plans.
    fn write_path(&self) -> String;

    /// CIDRs, ranges or nodes of a spec.
    fn texts(spec: &Self::Spec) -> Vec<String>;

    /// The spec in a saved plan; `None` if the object does not exist.
    fn edit(spec: Option<&Self::Spec>) -> EditDocument;
}

/// One change of one object that `cilium-ipam` owns, or comes to own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnedChange<O: Owned> {
    /// What the change does to the object.
    pub action: PoolAction,
    pub object: O,
    /// The pool of the files that a pool of Pods comes from.
    pub pool: Option<PoolName>,
    /// What the object shows now; `None` for a created object.
    pub before: Option<O::Spec>,
    /// What the object shows after the change; `None` for a deleted object.
    pub after: Option<O::Spec>,
    /// Why the object changes, for people.
    pub reason: String,
    /// What the change means for workloads.
    pub hazard: Hazard,
    /// Nodes with running agents that take addresses of another pool when they restart.
    pub disturbed: BTreeSet<NodeName>,
    /// The observed object, which guards the write; empty for a created object.
    pub guard: ObjectVersion,
    /// The pool in the files.
    pub origin: Option<Origin>,
    /// Fields of a deleted object that the files cannot bring back.
    pub lost_fields: Vec<String>,
}

/// Labels, version and spec of an object, as the cluster shows them.
type Seen<'o, S> = (&'o Labels, &'o ObjectVersion, S);

impl<O: Owned> OwnedChange<O> {
    /// The change that makes the object show `after`; `None` if it does already.
    ///
    /// # Errors
    /// Fails if the object has another owner or no version, or if `is_as_wanted` cannot compare
    /// what it shows with `after`.
    pub(super) fn towards(
        after: O::Spec,
        object: O,
        seen: Option<Seen<'_, O::Spec>>,
        is_as_wanted: impl FnOnce(&O::Spec, &O::Spec) -> Result<bool, BlockedReason>,
    ) -> Result<Option<OwnedChange<O>>, BlockedReason> {
        let Some((labels, version, spec)) = seen else {
            let (specs, guard) = ((None, Some(after)), ObjectVersion::default());
            let change = OwnedChange::new(PoolAction::Create, object, specs, guard);
            return Ok(Some(change));
        };
        let action = match labels.get(OWNER_LABEL.0) {
            _ if is_ours(labels) => PoolAction::Update,
            None => PoolAction::Adopt,
            Some(owner) => return Err(CommonObstacle::ManagedByOther(owner.clone()).into()),
        };
        if is_as_wanted(&spec, &after)? && action == PoolAction::Update {
            return Ok(None);
        }
        if !version.is_known() {
            return Err(CommonObstacle::MissingUid.into());
        }
        let (specs, guard) = ((Some(spec), Some(after)), version.clone());
        Ok(Some(OwnedChange::new(action, object, specs, guard)))
    }

    /// A change of an object from one spec to the other, without a reason and without effects on
    /// workloads.
    pub fn new(
        action: PoolAction,
        object: O,
        (before, after): (Option<O::Spec>, Option<O::Spec>),
        guard: ObjectVersion,
    ) -> OwnedChange<O> {
        OwnedChange {
            action,
            object,
            pool: None,
            before,
            after,
            reason: String::new(),
            hazard: Hazard::None,
            disturbed: BTreeSet::new(),
            guard,
            origin: None,
            lost_fields: Vec::new(),
        }
    }
}

impl<O: Owned> From<&OwnedChange<O>> for ChangeDocument {
    fn from(change: &OwnedChange<O>) -> ChangeDocument {
        let OwnedChange {
            action,
            object,
            pool,
            before,
            after,
            reason,
            hazard,
            disturbed: _,
            guard,
            origin,
            lost_fields,
        } = change;
        let target = object.target();
        let can_be_undone = lost_fields.is_empty();
        ChangeDocument {
            action: (*action).into(),
            kind: target.kind(),
            name: target.name(),
            write_path: object.write_path(),
            before: before.as_ref().map(O::texts).unwrap_or_default(),
            after: after.as_ref().map(O::texts).unwrap_or_default(),
            pool: pool.as_ref().map(ToString::to_string),
            failure_domain: None,
            reason: reason.clone(),
            hazard: *hazard,
            edit: O::edit(after.as_ref()),
            undo: can_be_undone.then(|| O::edit(before.as_ref())),
            guard: guard.clone(),
            origin: origin.as_ref().map(OriginDocument::from),
            needs_approval: Vec::new(),
        }
    }
}
