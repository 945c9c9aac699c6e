//! `IPPool`s as people write them: of nodes, or a subnet of Neutron.

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::Deserialize;
use serde_json::json;

use crate::documents::schema::{LabelSelector, Metadata, TextList};

/// A supply of blocks for the nodes that a selector matches.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct IpPoolDocument {
    #[serde(rename = "apiVersion")]
    #[schemars(with = "String")]
    _api_version: Option<String>,
    #[serde(rename = "kind")]
    #[schemars(with = "String")]
    _kind: Option<String>,
    #[schemars(with = "Metadata")]
    pub metadata: Option<Metadata>,
    #[schemars(with = "IpPoolSpec")]
    pub spec: Option<IpPoolSpec>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[schemars(extend("if" = {"required": ["neutron"]}, "else" = {"required": ["cidrs", "blockSize"]}))]
pub(super) struct IpPoolSpec {
    /// CIDRs of one or both families, used in this order; the next when one is full.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Vec<String>", length(min = 1))]
    pub cidrs: Option<TextList>,
    /// Prefix length of the block that each node gets: one number for IPv4, or one for each family.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "BlockSizes")]
    pub block_size: Option<BlockSizes>,
    /// The pool is a subnet of OpenStack Neutron, which gives its addresses port by port: no node
    /// gets a block of it, and no other pool may overlap it. In place of all other fields.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "NeutronSubnet")]
    pub neutron: Option<NeutronSubnet>,
    /// The nodes that the pool is for; absent: every node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_selector: Option<LabelSelector>,
    /// The pool with the higher priority is tried first.
    #[serde(default)]
    #[schemars(range(min = i32::MIN, max = i32::MAX))]
    pub priority: i32,
    /// CIDRs, `first-last` ranges or addresses that are never handed out by themselves; a pin may
    /// use them.
    #[serde(default)]
    #[schemars(with = "Vec<String>")]
    pub reserved: TextList,
    /// The pool keeps what it gave and gives nothing new.
    #[serde(default)]
    pub disabled: bool,
}

/// A subnet of OpenStack Neutron.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct NeutronSubnet {
    /// Id of the network.
    #[schemars(with = "String")]
    pub network: Option<String>,
    /// Id of the subnet, which says the range.
    #[schemars(with = "String")]
    pub subnet: Option<String>,
}

/// `24`, or `{ipv4: 24, ipv6: 64}`.
#[derive(Debug)]
pub(super) struct BlockSizes {
    pub ipv4: Option<u64>,
    pub ipv6: Option<u64>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum WrittenBlockSizes {
    Ipv4(u64),
    Each {
        ipv4: Option<u64>,
        ipv6: Option<u64>,
    },
}

impl<'de> Deserialize<'de> for BlockSizes {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<BlockSizes, D::Error> {
        Ok(match WrittenBlockSizes::deserialize(deserializer)? {
            WrittenBlockSizes::Ipv4(length) => BlockSizes {
                ipv4: Some(length),
                ipv6: None,
            },
            WrittenBlockSizes::Each { ipv4, ipv6 } => BlockSizes { ipv4, ipv6 },
        })
    }
}

impl JsonSchema for BlockSizes {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "BlockSizes".into()
    }

    /// One type list rather than `oneOf`, so that a fault inside the mapping is named at its own
    /// place.
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let length = |most: u8| json!({"type": "integer", "minimum": 1, "maximum": most});
        schemars::json_schema!({
            "type": ["integer", "object"],
            "minimum": 1,
            "maximum": 32,
            "properties": {"ipv4": length(32), "ipv6": length(128)},
            "additionalProperties": false,
            "minProperties": 1,
        })
    }
}
