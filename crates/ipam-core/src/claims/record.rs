//! The stored claims as JSON. Replicas of several versions read and replace them in turn.
//!
//! The format changes by these rules:
//! - A field may be added if a block stays safe without it. An older program ignores the field and
//!   drops it when it writes. The minor part rises, and nothing but people reads it.
//! - An entry of `claims` or `quarantined` with `block` and `node` reserves addresses. A claim without
//!   a `resource_version` is the last to end, so a new sort of claim must look like one to an older
//!   program.
//! - Anything else raises the major part. The release that reads the new format still writes the
//!   old one; the release after it writes the new one.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{Claim, ClaimGuard, Claims, Quarantined};
use crate::model::{NameError, NodeName};
use crate::net::{Block, BlockError};

/// Version of this format. The major part rises when an older reader would misunderstand the text.
pub const FORMAT_VERSION: &str = "1.0";

/// Limit of the text, in bytes. The API server accepts 1 MiB for all values of a ConfigMap
/// (`MaxSecretSize` in `pkg/apis/core/validation/validation.go` @ 1.36). Other values need some of
/// it.
pub const MOST_BYTES: usize = 1024 * 1024 - 4096;

/// Why stored claims cannot be used. Nothing may be written then: an unreadable claim may reserve
/// any block.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    #[error("it is not what cilium-ipam wrote: {0}")]
    Json(#[from] serde_json::Error),
    #[error(
        "it has format version {0}, and this program reads {FORMAT_VERSION}: use the newer cilium-ipam that wrote it (documentation: how-to/upgrade)"
    )]
    Version(String),
    #[error(transparent)]
    Block(#[from] BlockError),
    #[error(transparent)]
    Name(#[from] NameError),
    #[error("{0} is there twice")]
    Twice(Block),
}

#[derive(Serialize, Deserialize)]
struct Record {
    format_version: String,
    #[serde(default)]
    claims: Vec<ClaimRecord>,
    #[serde(default)]
    quarantined: Vec<QuarantinedRecord>,
}

#[derive(Serialize, Deserialize)]
struct ClaimRecord {
    block: String,
    node: String,
    uid: String,
    /// resourceVersion that guards the write; absent if the write creates its object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    resource_version: Option<String>,
}

#[derive(Serialize, Deserialize)]
struct QuarantinedRecord {
    block: String,
    node: String,
    free_at: Timestamp,
}

#[derive(Deserialize)]
struct Version {
    format_version: String,
}

impl Claims {
    /// Parses the output of [`Claims::to_json`].
    ///
    /// # Errors
    /// Fails if the text is anything else, or of an incompatible version.
    pub fn from_json(text: &str) -> Result<Claims, RecordError> {
        let Version { format_version } = serde_json::from_str(text)?;
        let major = |version: &str| version.split('.').next().map(str::to_owned);
        if major(&format_version) != major(FORMAT_VERSION) {
            return Err(RecordError::Version(
                format_version.escape_debug().to_string(),
            ));
        }
        let record: Record = serde_json::from_str(text)?;
        let mut claims = Claims::default();
        for ClaimRecord {
            block,
            node,
            uid,
            resource_version,
        } in record.claims
        {
            let (block, node): (Block, NodeName) = (block.parse()?, node.parse()?);
            let guard = resource_version.map_or(ClaimGuard::Creation, ClaimGuard::Version);
            if claims
                .in_flight
                .insert(block, Claim { node, uid, guard })
                .is_some()
            {
                return Err(RecordError::Twice(block));
            }
        }
        for QuarantinedRecord {
            block,
            node,
            free_at,
        } in record.quarantined
        {
            let (block, node): (Block, NodeName) = (block.parse()?, node.parse()?);
            if claims
                .quarantined
                .insert(block, Quarantined { node, free_at })
                .is_some()
            {
                return Err(RecordError::Twice(block));
            }
        }
        Ok(claims)
    }

    /// The claims as one line of JSON.
    pub fn to_json(&self) -> String {
        let Claims {
            in_flight,
            quarantined,
        } = self;
        let claim = |(block, claim): (&Block, &Claim)| ClaimRecord {
            block: block.to_string(),
            node: claim.node.to_string(),
            uid: claim.uid.clone(),
            resource_version: match &claim.guard {
                ClaimGuard::Version(version) => Some(version.clone()),
                ClaimGuard::Creation => None,
            },
        };
        let quarantined_record = |(block, quarantined): (&Block, &Quarantined)| QuarantinedRecord {
            block: block.to_string(),
            node: quarantined.node.to_string(),
            free_at: quarantined.free_at,
        };
        let record = Record {
            format_version: FORMAT_VERSION.to_owned(),
            claims: in_flight.iter().map(claim).collect(),
            quarantined: quarantined.iter().map(quarantined_record).collect(),
        };
        // Strings and times only, so serialising cannot fail.
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
        r#""quarantined":[{"block":"10.0.1.0/24","node":"m","free_at":"2026-01-02T03:04:05Z"}]}"#
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
            r#"{"format_version":"1.0","claims":[{"block":"10.0.0.0/24","node":"n"}]}"#,
            r#"{"format_version":"1.0","quarantined":[{"block":"10.0.0.0/24","node":"n"}]}"#,
            r#"{"format_version":"1","claims":{}}"#,
        ] {
            assert!(Claims::from_json(bad).is_err(), "{bad}");
        }
    }

    /// Claims as a later 1.x may write them: with a new field at every level.
    const NEWER: &str = concat!(
        r#"{"format_version":"1.9","writer":{"name":"x"},"claims":["#,
        r#"{"block":"10.0.0.0/24","node":"n","uid":"u","resource_version":"7","since":"2026-01-02T03:04:05Z"},"#,
        r#"{"block":"fd00::/64","node":"n","uid":"u","generation":3}],"#,
        r#""quarantined":[{"block":"10.0.1.0/24","node":"m","free_at":"2026-01-02T03:04:05Z","why":["moved"]}]}"#
    );

    #[test]
    fn an_older_reader_takes_what_it_knows_and_drops_the_rest() {
        assert_eq!(Claims::from_json(NEWER).unwrap().to_json(), TEXT);
    }
}
