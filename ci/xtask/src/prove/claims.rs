//! The claims as they lie in the cluster: blocks that an apply has spoken for and not yet been seen
//! to write.

use anyhow::{Context, Result};
use serde_json::Value;
use testbed::Client;

use crate::holdings::Holdings;

const CLAIMS: &str = "/api/v1/namespaces/kube-system/configmaps/cilium-ipam-claims";
const KEY: &str = "claims.json";

/// One claim.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Claim {
    /// The block, as it is written there.
    pub block: String,
    /// For which node.
    pub node: String,
    /// For which object of that name.
    pub uid: String,
    /// In which version.
    pub resource_version: String,
}

/// All claims; none before the first claim.
pub fn read(client: &Client) -> Result<Vec<Claim>> {
    let map = match client.get(CLAIMS) {
        Err(error) if error.status() == Some(404) => return Ok(Vec::new()),
        map => map?,
    };
    let text = map["data"][KEY]
        .as_str()
        .with_context(|| format!("the ConfigMap has no {KEY}"))?;
    let record: Value =
        serde_json::from_str(text).with_context(|| format!("{KEY} cannot be read"))?;
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let claims = record["claims"].as_array().into_iter().flatten();
    Ok(claims
        .map(|claim| Claim {
            block: text(&claim["block"]),
            node: text(&claim["node"]),
            uid: text(&claim["uid"]),
            resource_version: text(&claim["resource_version"]),
        })
        .collect())
}

/// Those whose very node exists and does not show the block: claimed and not written.
pub fn unwritten(client: &Client, holdings: &Holdings) -> Result<Vec<Claim>> {
    let mut claims = read(client)?;
    claims.retain(|claim| {
        holdings.uid(&claim.node) == Some(&claim.uid)
            && !holdings
                .blocks_of(&claim.node)
                .any(|block| block.to_string() == claim.block)
    });
    Ok(claims)
}
