//! A change of a port as JSON.

use std::collections::BTreeSet;

use ipnet::IpNet;

use super::PortChange;
use crate::plan::change::Target;
use crate::plan::document::{ChangeDocument, EditDocument, GuardDocument};

impl From<&PortChange> for ChangeDocument {
    fn from(change: &PortChange) -> ChangeDocument {
        let texts = |ranges: &BTreeSet<IpNet>| {
            ranges
                .iter()
                .map(ToString::to_string)
                .collect::<Vec<String>>()
        };
        let (add, remove) = (texts(&change.added), texts(&change.removed));
        let missing = (!add.is_empty()).then(|| format!("missing: {}", add.join(" ")));
        let stale = (!remove.is_empty()).then(|| format!("stale: {}", remove.join(" ")));
        let what: Vec<String> = missing.into_iter().chain(stale).collect();
        let reason = format!(
            "drift of allowed_address_pairs of node {}; {}",
            change.node,
            what.join("; ")
        );
        ChangeDocument {
            action: "update".to_owned(),
            kind: Target::Port(change.port.clone()).kind().to_owned(),
            name: change.port.to_string(),
            write_path: "allowed_address_pairs".to_owned(),
            before: remove.clone(),
            after: add.clone(),
            pool: None,
            failure_domain: None,
            reason,
            hazard: change.hazard().as_str().to_owned(),
            edit: EditDocument::AddressPairs {
                add: add.clone(),
                remove: remove.clone(),
            },
            undo: Some(EditDocument::AddressPairs {
                add: remove,
                remove: add,
            }),
            guard: GuardDocument {
                uid: change.port.to_string(),
                resource_version: change.revision.to_string(),
            },
            origin: None,
            needs_approval: Vec::new(),
        }
    }
}
