//! Versions of the specification.

use std::fmt;
use std::str::FromStr;

use serde_json::{Value, json};

/// One that is spoken, oldest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SpecVersion {
    /// Lists of plugins, several addresses.
    V0_3_1,
    /// CHECK, and the earlier result on DEL.
    V0_4_0,
    /// No version of an address beside the address.
    V1_0_0,
    /// GC and STATUS.
    V1_1_0,
}

impl SpecVersion {
    /// All of them.
    pub const ALL: [SpecVersion; 4] = [
        SpecVersion::V0_3_1,
        SpecVersion::V0_4_0,
        SpecVersion::V1_0_0,
        SpecVersion::V1_1_0,
    ];

    /// The newest one, in which is answered what names none that is known.
    pub const NEWEST: SpecVersion = SpecVersion::V1_1_0;

    /// As it is written.
    pub fn as_str(self) -> &'static str {
        match self {
            SpecVersion::V0_3_1 => "0.3.1",
            SpecVersion::V0_4_0 => "0.4.0",
            SpecVersion::V1_0_0 => "1.0.0",
            SpecVersion::V1_1_0 => "1.1.0",
        }
    }

    /// The answer to VERSION, in this version.
    pub fn supported(self) -> Value {
        let versions = SpecVersion::ALL.map(SpecVersion::as_str);
        json!({"cniVersion": self.as_str(), "supportedVersions": versions})
    }
}

impl fmt::Display for SpecVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A version that is not spoken.
#[derive(Debug, thiserror::Error)]
#[error("not a version of CNI that is spoken here")]
pub struct UnknownVersion;

impl FromStr for SpecVersion {
    type Err = UnknownVersion;

    fn from_str(text: &str) -> Result<SpecVersion, UnknownVersion> {
        SpecVersion::ALL
            .into_iter()
            .find(|version| version.as_str() == text)
            .ok_or(UnknownVersion)
    }
}
