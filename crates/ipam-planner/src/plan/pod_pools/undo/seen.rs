//! One object of an undo: what the saved plan wants of it, and what the cluster shows.

use super::super::choices::other_settings;
use super::super::{PodPoolSpec, saved};
use crate::plan::blocked::BlockedReason;
use crate::plan::document::{ChangeDocument, EditDocument};
use crate::plan::lb::PoolAction;
use ipam_cilium::observed::{NodeConfig, SeenPodPool};
use ipam_core::model::{OWNER_LABEL, ObjectVersion, PoolName};

/// A saved change that a plan can have.
pub(super) struct Wanted {
    pub(super) action: PoolAction,
    pub(super) pool: PoolName,
    pub(super) from: Option<PodPoolSpec>,
    pub(super) to: Option<PodPoolSpec>,
}

/// The object as it is now.
pub(super) struct Seen {
    pub(super) spec: PodPoolSpec,
    pub(super) version: ObjectVersion,
    pub(super) is_ours: bool,
    pub(super) owner: Option<String>,
    pub(super) unreadable: Option<String>,
    pub(super) lost_fields: Vec<String>,
}

pub(super) fn wanted(document: &ChangeDocument, is_pool: bool) -> Option<Wanted> {
    let spec = |edit: &EditDocument| match edit {
        EditDocument::PodPool(None) => Some(None),
        EditDocument::PodPool(Some(spec)) if is_pool => saved::pool(spec).map(Some),
        EditDocument::PodPool(Some(spec)) => saved::choice(spec).map(Some),
        _ => None,
    };
    let (to, from) = (spec(&document.edit)?, spec(document.undo.as_ref()?)?);
    let action: PoolAction = document.action.parse().ok()?;
    let fits = match (&from, &to) {
        (None, None) => false,
        (None, Some(_)) => action == PoolAction::Create,
        (Some(_), None) => action == PoolAction::Delete,
        (Some(from), Some(to)) if from == to => {
            matches!(action, PoolAction::Adopt | PoolAction::Disown)
        }
        (Some(_), Some(_)) => matches!(
            action,
            PoolAction::Restore | PoolAction::Adopt | PoolAction::Disown
        ),
    };
    let is_known = fits && (is_pool || !matches!(action, PoolAction::Adopt | PoolAction::Disown));
    is_known.then_some(Wanted {
        action,
        pool: document.pool.as_ref()?.parse().ok()?,
        from,
        to,
    })
}

impl From<&SeenPodPool> for Seen {
    fn from(seen: &SeenPodPool) -> Seen {
        Seen {
            spec: seen.into(),
            version: seen.version.clone(),
            is_ours: seen.is_ours(),
            owner: seen.labels.get(OWNER_LABEL.0).cloned(),
            unreadable: seen.unreadable.first().cloned(),
            lost_fields: seen.other_fields.clone(),
        }
    }
}

impl From<&NodeConfig> for Seen {
    fn from(seen: &NodeConfig) -> Seen {
        Seen {
            spec: seen.into(),
            version: seen.version.clone(),
            is_ours: seen.is_ours(),
            owner: seen.labels.get(OWNER_LABEL.0).cloned(),
            unreadable: None,
            lost_fields: other_settings(seen),
        }
    }
}

impl Seen {
    pub(super) fn obstacle(&self) -> Option<BlockedReason> {
        match &self.unreadable {
            Some(text) => Some(BlockedReason::Unreadable(text.clone())),
            None => (!self.version.is_known()).then_some(BlockedReason::NoIdentity),
        }
    }
}
