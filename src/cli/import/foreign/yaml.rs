//! The YAML of imported pools, one file for each kind, with each remark as a comment.

use std::path::Path;

use serde_json::{Value, json};

use super::Manager;
use crate::cli::failure::Failure;
use crate::cli::new_files::NewFile;
use crate::cli::new_files::yaml::{
    block_size, comment, head, list, named_keys, node_selector, when_full, yaml,
};
use ipam_cilium::lbipam::AddressPoolApi;
use ipam_cilium::observed::Observed;
use ipam_desired::PoolState;
use ipam_import::import::foreign::{ForeignPool, ForeignPools, Remark, RemarkKind};

/// Objects that a person applies, below the directory. Names that begin with a dot are no pools.
const ANNOUNCEMENTS: &str = ".cilium-ipam/announcements.yaml";

/// The files. A kind without objects has none.
pub(super) fn files(
    directory: &Path,
    manager: Manager,
    found: &ForeignPools,
    observed: Option<&Observed>,
) -> Result<Vec<NewFile>, Failure> {
    let api = observed.and_then(Observed::address_pool_api);
    let api = api.unwrap_or(AddressPoolApi::V2);
    let texts = [
        ("ippools.yaml", pools(found)?),
        ("load-balancer-pools.yaml", address_pools(found, api)?),
        ("node-assignments.yaml", pins(found)?),
        ("service-assignments.yaml", service_pins(found)?),
        (ANNOUNCEMENTS, announcements(found)?),
    ];
    let texts = texts
        .into_iter()
        .filter(|(_, documents)| !documents.is_empty());
    let mut introduction = comment(&format!(
        "`cilium-ipam import` wrote this file once, from objects of {}; edit it freely. Comments explain inferences, and name what you have to do and what was left out.",
        manager.name()
    ));
    introduction += &remarks(&found.remarks);
    let file = |(name, documents): (&str, Vec<String>)| {
        let introduction = std::mem::take(&mut introduction);
        NewFile {
            path: directory.join(name),
            text: introduction + &documents.join("---\n"),
        }
    };
    Ok(texts.map(file).collect())
}

fn remarks(remarks: &[Remark]) -> String {
    let line = |remark: &Remark| {
        let about = &remark.about;
        let text = &remark.text;
        comment(&match remark.kind {
            RemarkKind::Inferred => format!("{about}: {text}."),
            RemarkKind::ToDo => format!("TO DO: {about}: {text}."),
            RemarkKind::LeftOut => format!("LEFT OUT: {about}: {text}."),
        })
    };
    remarks.iter().map(line).collect()
}

fn pools(found: &ForeignPools) -> Result<Vec<String>, Failure> {
    found.pools.iter().map(pool).collect()
}

fn pool(pool: &ForeignPool) -> Result<String, Failure> {
    let mut text = remarks(&pool.remarks) + &head("IPPool", pool.name.as_str())?;
    text += &list("cidrs", &pool.cidrs)?;
    text += &format!("  blockSize: {}\n", block_size(&pool.block_size));
    text += &node_selector(&pool.selector)?;
    if pool.priority != 0 {
        text += &format!("  priority: {}\n", pool.priority);
    }
    if !pool.reserved.is_empty() {
        text += &list("reserved", &pool.reserved)?;
    }
    match pool.state {
        PoolState::Active => text += when_full(named_keys(&pool.selector)),
        PoolState::Disabled => text += "  disabled: true\n",
    }
    Ok(text)
}

fn pins(found: &ForeignPools) -> Result<Vec<String>, Failure> {
    let pins = found.pins.iter().map(|pin| {
        let mut text = remarks(&pin.remarks) + &head("NodeAssignment", pin.node.as_str())?;
        text += &format!("  pool: {}\n", yaml(&pin.pool.as_str())?);
        Ok(text + &list("podCIDRs", pin.blocks.iter())?)
    });
    pins.collect()
}

fn address_pools(found: &ForeignPools, api: AddressPoolApi) -> Result<Vec<String>, Failure> {
    let pools = found.address_pools.iter().map(|pool| {
        let document = json!({
            "apiVersion": api.as_str(),
            "kind": "CiliumLoadBalancerIPPool",
            "metadata": {"name": pool.name.as_str()},
            "spec": pool.manifest.spec,
        });
        written(&pool.remarks, &document)
    });
    pools.collect()
}

fn service_pins(found: &ForeignPools) -> Result<Vec<String>, Failure> {
    let pins = found.service_pins.iter().map(|pin| {
        // A name of a Service has no dot, so this is unique.
        let service = pin.service.to_string();
        let name = service.replace('/', ".");
        let mut text = remarks(&pin.remarks) + &head("ServiceAssignment", &name)?;
        text += &format!("  service: {}\n", yaml(&service)?);
        Ok(text + &list("ips", &pin.addresses)?)
    });
    pins.collect()
}

fn announcements(found: &ForeignPools) -> Result<Vec<String>, Failure> {
    let written = |announcement: &_| {
        let ipam_import::import::foreign::Announcement { object, remarks } = announcement;
        written(remarks, object)
    };
    found.announcements.iter().map(written).collect()
}

fn written(about: &[Remark], document: &Value) -> Result<String, Failure> {
    Ok(remarks(about) + &yaml(document)? + "\n")
}
