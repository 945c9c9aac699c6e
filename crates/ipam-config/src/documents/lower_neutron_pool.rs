//! Lowers an `IPPool` document with `spec.neutron` to a [`NeutronPool`]. The files do not contain
//! its addresses.

use crate::documents::context::{Context, keys};
use crate::documents::schema_pool::NeutronSubnet;
use crate::documents::tree::Step;
use ipam_core::model::{Origin, PoolName};
use ipam_core::neutron::Id;
use ipam_desired::NeutronPool;

/// Fields of pools for nodes, and why a Neutron pool must not have them.
const NODE_POOL_FIELDS: [(&str, &str); 6] = [
    ("cidrs", "its range is that of the subnet in Neutron"),
    (
        "blockSize",
        "Neutron assigns its addresses per port, so no node gets a block",
    ),
    (
        "nodeSelector",
        "no node gets a block of it, so there is nothing to select",
    ),
    (
        "priority",
        "no node gets a block of it, so its order does not matter",
    ),
    (
        "reserved",
        "no node gets a block of it, so all of it is kept free",
    ),
    ("disabled", "it gives no blocks to nodes anyway"),
];

pub(super) fn lower(
    context: &mut Context<'_>,
    name: Option<PoolName>,
    origin: Origin,
    written: NeutronSubnet,
) -> Option<NeutronPool> {
    for (field, why) in NODE_POOL_FIELDS {
        let path = keys(["spec", field]);
        if context.document.has(&path) {
            let message = format!("a pool with `spec.neutron` has no `spec.{field}`: {why}");
            let at = context.document.origin(&path);
            context.fault(
                "neutron-pool-field",
                message,
                &at,
                "not allowed here",
                format!("remove `{field}`"),
            );
        }
    }
    let network = id(context, "network", written.network);
    let subnet = id(context, "subnet", written.subnet);
    let subnet_origin = context.document.origin(&field_path("subnet"));
    Some(NeutronPool {
        name: name?,
        origin,
        network: network?,
        subnet: subnet?,
        subnet_origin,
    })
}

fn field_path(field: &str) -> Vec<Step> {
    keys(["spec", "neutron", field])
}

fn id(context: &mut Context<'_>, field: &'static str, text: Option<String>) -> Option<Id> {
    let text = text?;
    match text.trim().parse::<Id>() {
        Ok(id) => Some(id),
        Err(error) => {
            let message = format!("`spec.neutron.{field}` is {error}");
            let help = format!(
                "see `openstack {field} list`; a name is not accepted, because its meaning can change"
            );
            let origin = context.document.origin(&field_path(field));
            context.fault("bad-neutron-id", message, &origin, "not an id", help);
            None
        }
    }
}
