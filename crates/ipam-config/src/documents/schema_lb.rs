//! The documents about LoadBalancer addresses as people write them: Cilium's own kind, unchanged,
//! and our pins for Services.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;

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
