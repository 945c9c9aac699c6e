//! Versions of the CNI specification.

use serde_json::{Value, json};

ipam_core::text_enum! {
    /// A supported version, oldest first.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub enum SpecVersion {
        /// Introduced lists of plugins and several addresses.
        V0_3_1 = "0.3.1",
        /// Introduced CHECK, and the previous result on DEL.
        V0_4_0 = "0.4.0",
        /// Removed the IP version next to each address.
        V1_0_0 = "1.0.0",
        /// Introduced GC and STATUS.
        V1_1_0 = "1.1.0",
    }
}

impl SpecVersion {
    /// The newest version. It answers requests with an unknown version.
    pub const NEWEST: SpecVersion = SpecVersion::V1_1_0;

    /// The answer to VERSION, in this version.
    pub fn supported(self) -> Value {
        let versions = SpecVersion::ALL.map(SpecVersion::as_str);
        json!({"cniVersion": self.as_str(), "supportedVersions": versions})
    }
}
