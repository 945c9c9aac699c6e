//! The claims as JSON text, which is how they are kept.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{Claim, ClaimGuard, Claims, Resting};
use crate::model::{NameError, NodeName};
use crate::net::{Block, BlockError};

/// Version of this format: the major part changes when a reader would misunderstand.
pub const FORMAT_VERSION: &str = "1.0";

/// Why kept claims cannot be used. Nothing may be written then: a claim that is not understood may be anybody's.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// Not the JSON that was written.
    #[error("it is not what cilium-ipam wrote: {0}")]
    Json(#[from] serde_json::Error),
    /// Written by an incompatible version.
    #[error("it has format version {0}, and this program reads {FORMAT_VERSION}")]
    Version(String),
    /// Not a block.
    #[error(transparent)]
    Block(#[from] BlockError),
    /// Not a node's name.
    #[error(transparent)]
    Name(#[from] NameError),
    /// Two entries for one block.
    #[error("{0} is there twice")]
    Twice(Block),
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Record {
    format_version: String,
    #[serde(default)]
    claims: Vec<ClaimRecord>,
    #[serde(default)]
    resting: Vec<RestingRecord>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ClaimRecord {
    block: String,
    node: String,
    uid: String,
    /// Absent for an object that is created.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    resource_version: Option<String>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RestingRecord {
    block: String,
    node: String,
    free_at: Timestamp,
}

#[derive(Deserialize)]
struct Version {
    format_version: String,
}

impl Claims {
    /// Reads what [`Claims::to_json`] wrote.
    ///
    /// # Errors
    /// Any other text, and that of an incompatible version.
    pub fn from_json(text: &str) -> Result<Claims, RecordError> {
        let Version { format_version } = serde_json::from_str(text)?;
        let major = |version: &str| version.split('.').next().map(str::to_owned);
        if major(&format_version) != major(FORMAT_VERSION) {
            return Err(RecordError::Version(format_version.escape_debug().to_string()));
        }
        let record: Record = serde_json::from_str(text)?;
        let mut claims = Claims::default();
        for ClaimRecord { block, node, uid, resource_version } in record.claims {
            let (block, node): (Block, NodeName) = (block.parse()?, node.parse()?);
            let guard = resource_version.map_or(ClaimGuard::Creation, ClaimGuard::Version);
            if claims.in_flight.insert(block, Claim { node, uid, guard }).is_some() {
                return Err(RecordError::Twice(block));
            }
        }
        for RestingRecord { block, node, free_at } in record.resting {
            let (block, node): (Block, NodeName) = (block.parse()?, node.parse()?);
            if claims.resting.insert(block, Resting { node, free_at }).is_some() {
                return Err(RecordError::Twice(block));
            }
        }
        Ok(claims)
    }

    /// As one line of JSON.
    pub fn to_json(&self) -> String {
        let Claims { in_flight, resting } = self;
        let claim = |(block, claim): (&Block, &Claim)| ClaimRecord {
            block: block.to_string(),
            node: claim.node.to_string(),
            uid: claim.uid.clone(),
            resource_version: match &claim.guard {
                ClaimGuard::Version(version) => Some(version.clone()),
                ClaimGuard::Creation => None,
            },
        };
        let rest = |(block, resting): (&Block, &Resting)| RestingRecord {
            block: block.to_string(),
            node: resting.node.to_string(),
            free_at: resting.free_at,
        };
        let record = Record {
            format_version: FORMAT_VERSION.to_owned(),
            claims: in_flight.iter().map(claim).collect(),
            resting: resting.iter().map(rest).collect(),
        };
        // Strings and times only: there is nothing in it that JSON cannot say.
        serde_json::to_string(&record).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = concat!(
        r#"{"format_version":"1.0","claims":["#,
        r#"{"block":"10.0.0.0/24","node":"n","uid":"u","resource_version":"7"},"#,
        r#"{"block":"fd00::/64","node":"n","uid":"u"}],"#,
        r#""resting":[{"block":"10.0.1.0/24","node":"m","free_at":"2026-01-02T03:04:05Z"}]}"#
    );

    #[test]
    fn what_is_written_is_read() {
        let claims = Claims::from_json(TEXT).unwrap();
        assert_eq!(claims.to_json(), TEXT);
        assert_eq!(claims.in_flight.len(), 2);
    }

    #[test]
    fn what_is_not_understood_is_refused() {
        for bad in [
            "",
            "{}",
            "null",
            r#"{"format_version":"2.0"}"#,
            r#"{"format_version":"1.0","claims":[{"block":"10.0.0.1/24","node":"n","uid":"u"}]}"#,
            r#"{"format_version":"1.0","claims":[{"block":"10.0.0.0/24","node":"N","uid":"u"}]}"#,
            r#"{"format_version":"1.0","surprise":[]}"#,
        ] {
            assert!(Claims::from_json(bad).is_err(), "{bad}");
        }
    }
}
