//! An `IPPool` document with `spec.neutron` becomes a [`NeutronPool`]. Which addresses it has is
//! not in the files.

use crate::documents::context::{Context, keys};
use crate::documents::schema_pool::NeutronSubnet;
use crate::documents::tree::Step;
use ipam_core::model::{Origin, PoolName};
use ipam_core::neutron::Id;
use ipam_desired::NeutronPool;

/// Fields of other pools, and why this one has none of them.
const OF_OTHERS: [(&str, &str); 6] = [
    (
        "cidrs",
        "the subnet says its range, and Neutron is asked for it",
    ),
    (
        "blockSize",
        "Neutron gives its addresses port by port, so no node gets a block",
    ),
    (
        "nodeSelector",
        "no node gets a block of it, so there is nothing to select",
    ),
    (
        "priority",
        "no node gets a block of it, so it comes before no other pool",
    ),
    (
        "reserved",
        "no node gets a block of it, so all of it is kept free",
    ),
    ("disabled", "it gives nothing to nodes anyway"),
];

pub(super) fn lower(
    context: &mut Context<'_>,
    name: Option<PoolName>,
    origin: Origin,
    written: NeutronSubnet,
) -> Option<NeutronPool> {
    for (field, why) in OF_OTHERS {
        let path = keys(["spec", field]);
        if context.document.has(&path) {
            let message = format!("a pool with `spec.neutron` has no `spec.{field}`: {why}");
            let at = context.document.origin(&path);
            context.fault(
                "neutron-pool-field",
                message,
                &at,
                "of no use here",
                format!("remove `{field}`"),
            );
        }
    }
    let network = id(context, "network", written.network);
    let subnet = id(context, "subnet", written.subnet);
    let subnet_origin = context.document.origin(&place("subnet"));
    Some(NeutronPool {
        name: name?,
        origin,
        network: network?,
        subnet: subnet?,
        subnet_origin,
    })
}

fn place(field: &str) -> Vec<Step> {
    keys(["spec", "neutron", field])
}

fn id(context: &mut Context<'_>, field: &'static str, text: Option<String>) -> Option<Id> {
    let text = text?;
    match text.trim().parse::<Id>() {
        Ok(id) => Some(id),
        Err(error) => {
            let message = format!("`spec.neutron.{field}` is {error}");
            let help = format!(
                "see `openstack {field} list`; a name would do for people, but may mean another one tomorrow"
            );
            let origin = context.document.origin(&place(field));
            context.fault("bad-neutron-id", message, &origin, "not an id", help);
            None
        }
    }
}
