//! Pools and pins as people write them: Cilium's own kind for LoadBalancer addresses, unchanged,
//! our `ServiceAssignment`, and `IPPool` for nodes and for subnets of Neutron.

use std::collections::BTreeMap;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::documents::schema::{LabelSelector, Metadata, TextList};

/// Cilium's own pool of LoadBalancer addresses.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct AddressPoolDocument {
    #[serde(rename = "apiVersion")]
    #[schemars(with = "String")]
    _api_version: Option<String>,
    #[serde(rename = "kind")]
    #[schemars(with = "String")]
    _kind: Option<String>,
    #[schemars(with = "AddressPoolMetadata")]
    pub metadata: Option<AddressPoolMetadata>,
    #[schemars(with = "WrittenAddressPoolSpec")]
    pub spec: Option<WrittenAddressPoolSpec>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct AddressPoolMetadata {
    /// Name, unique among its kind.
    #[schemars(with = "String")]
    pub name: Option<String>,
    /// Labels, written to the object.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    /// Annotations, written to the object.
    #[serde(default)]
    pub annotations: BTreeMap<String, String>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct WrittenAddressPoolSpec {
    /// Ranges for Cilium up to 1.15. Written as `blocks` if the running Cilium reads that.
    #[serde(default)]
    #[schemars(with = "Vec<WrittenAddressBlock>")]
    pub cidrs: Vec<Option<WrittenAddressBlock>>,
    /// Ranges for Cilium 1.15 and later.
    #[serde(default)]
    #[schemars(with = "Vec<WrittenAddressBlock>")]
    pub blocks: Vec<Option<WrittenAddressBlock>>,
    /// The Services that the pool serves, by their labels and by `io.kubernetes.service.namespace`
    /// and `io.kubernetes.service.name`. Default: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_selector: Option<LabelSelector>,
    /// Whether the first and the last address of a CIDR are assigned. Default: no up to Cilium
    /// 1.15, yes later.
    #[serde(
        default,
        rename = "allowFirstLastIPs",
        skip_serializing_if = "Option::is_none"
    )]
    pub allow_first_last: Option<YesOrNo>,
    /// The pool gives no new addresses.
    #[serde(default)]
    pub disabled: bool,
}

#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
pub(super) enum YesOrNo {
    Yes,
    No,
}

/// `cidr`, or `start` with or without `stop`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct WrittenAddressBlock {
    /// CIDR.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cidr: Option<String>,
    /// First address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start: Option<String>,
    /// Last address. Default: `start`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop: Option<String>,
}

/// A pin: this LoadBalancer Service gets these addresses, or an address of this pool.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct ServiceAssignmentDocument {
    #[serde(rename = "apiVersion")]
    #[schemars(with = "String")]
    _api_version: Option<String>,
    #[serde(rename = "kind")]
    #[schemars(with = "String")]
    _kind: Option<String>,
    #[serde(rename = "metadata")]
    #[schemars(with = "Metadata")]
    _metadata: Option<Metadata>,
    #[schemars(with = "ServiceAssignmentSpec")]
    pub spec: Option<ServiceAssignmentSpec>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct ServiceAssignmentSpec {
    /// Namespace and name, as `shop/web`.
    #[schemars(with = "String")]
    pub service: Option<String>,
    /// The pinned addresses. Exclusive with `pool`, and one of the two is required.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Vec<String>", length(min = 1))]
    pub ips: Option<TextList>,
    /// The CiliumLoadBalancerIPPool whose lowest free address the plan pins, one for each family of
    /// the Service; `*` for the best pool that selects the Service and has room.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pool: Option<String>,
}

/// A pool of blocks for the nodes that a selector matches.
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
    /// CIDRs of one or both families, used in this order.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Vec<String>", length(min = 1))]
    pub cidrs: Option<TextList>,
    /// Prefix length of the block of each node: a number for IPv4, or one for each family.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "BlockSizes")]
    pub block_size: Option<BlockSizes>,
    /// Makes the pool a subnet of OpenStack Neutron, which assigns its addresses per port. No node
    /// gets a block of it, and no other pool may overlap it. Excludes all other fields.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "NeutronSubnet")]
    pub neutron: Option<NeutronSubnet>,
    /// The nodes that the pool serves. Default: every node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_selector: Option<LabelSelector>,
    /// Pools with a higher priority are tried first.
    #[serde(default)]
    #[schemars(range(min = i32::MIN, max = i32::MAX))]
    pub priority: i32,
    /// CIDRs, `first-last` ranges or addresses that only pins may use.
    #[serde(default)]
    #[schemars(with = "Vec<String>")]
    pub reserved: TextList,
    /// CIDRs inside `cidrs` that give no new blocks. Nodes keep their blocks of them until `migrate`
    /// moves the nodes.
    #[serde(default)]
    #[schemars(with = "Vec<String>")]
    pub retiring: TextList,
    /// The pool keeps its assigned blocks and gives no new ones.
    #[serde(default)]
    pub disabled: bool,
    /// What happens to a node whose best pool is full. `NextPool`: it gets a block of the next pool
    /// that selects it. `Wait`: it gets no block until the pool has one.
    #[serde(default)]
    pub when_full: WrittenWhenFull,
}

#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize, JsonSchema)]
pub(super) enum WrittenWhenFull {
    #[default]
    NextPool,
    Wait,
}

/// A subnet of OpenStack Neutron.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct NeutronSubnet {
    /// Id of the network.
    #[schemars(with = "String")]
    pub network: Option<String>,
    /// Id of the subnet, which has the address range.
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

    /// Uses a list of types instead of `oneOf`, so that a fault inside the mapping has its own
    /// path.
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
