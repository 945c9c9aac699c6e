//! The limit of a plan as JSON.

use serde::{Deserialize, Serialize};

use super::PlanDocument;
use crate::plan::selection::{Selected, Selection};

/// The objects to which a plan is limited, as `--target` and `--exclude` name them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SelectionDocument {
    /// Only these; empty for all.
    pub targets: Vec<String>,
    /// Of those, without these.
    pub excluded: Vec<String>,
}

impl SelectionDocument {
    /// `None` for a whole plan.
    pub(super) fn new(selection: &Selection) -> Option<SelectionDocument> {
        let texts = |all: &[Selected]| all.iter().map(ToString::to_string).collect();
        let Selection { targets, excluded } = selection;
        (!selection.is_everything()).then(|| SelectionDocument {
            targets: texts(targets),
            excluded: texts(excluded),
        })
    }

    /// The flags that give this limit: `--target node/n1 --exclude pool/a`.
    pub fn flags(&self) -> String {
        let SelectionDocument { targets, excluded } = self;
        let flag = |name: &'static str, values: &[String]| {
            let flags = values
                .iter()
                .map(move |value| format!("--{name} '{value}'"));
            flags.collect::<Vec<_>>()
        };
        [flag("target", targets), flag("exclude", excluded)]
            .concat()
            .join(" ")
    }
}

impl PlanDocument {
    /// The limit of the plan.
    ///
    /// # Errors
    /// Fails if this version cannot read it.
    pub fn selection(&self) -> Result<Selection, String> {
        let Some(SelectionDocument { targets, excluded }) = &self.selection else {
            return Ok(Selection::default());
        };
        let read = |texts: &[String]| -> Result<Vec<Selected>, String> {
            texts.iter().map(|text| text.parse()).collect()
        };
        Ok(Selection {
            targets: read(targets)?,
            excluded: read(excluded)?,
        })
    }
}
