//! The YAML of the inferred objects, one file for each kind. Every text of a cluster goes through
//! the serializer.

use std::path::Path;

use serde_json::json;

use super::comments::{self, commented};
use crate::cli::failure::Failure;
use crate::cli::new_files::NewFile;
use crate::cli::new_files::yaml::{
    block_size, comment, head, list, named_keys, node_selector, when_full, yaml,
};
use ipam_core::model::WritePathChoice;
use ipam_desired::PoolState;
use ipam_import::import::{Inferred, InferredAddressPool, InferredPool, ManifestUse, PinReason};

/// The files, sorted by name. A kind without objects has none.
pub(super) fn files(directory: &Path, inferred: &Inferred) -> Result<Vec<NewFile>, Failure> {
    let texts = [
        ("ippools.yaml", pools(inferred)?),
        ("load-balancer-pools.yaml", address_pools(inferred)?),
        ("node-assignments.yaml", pins(inferred)?),
        ("policy.yaml", policy(inferred)?),
    ];
    let texts = texts.into_iter().filter(|(_, text)| !text.is_empty());
    let file = |(name, text): (&str, String)| NewFile {
        path: directory.join(name),
        text,
    };
    Ok(texts.map(file).collect())
}

fn pools(inferred: &Inferred) -> Result<String, Failure> {
    if inferred.pools.is_empty() {
        return Ok(String::new());
    }
    let introduction = comment(
        "Which node gets which pod CIDR. `cilium-ipam import` wrote this file once, from what the cluster held; edit it freely. A node keeps the block that it has.",
    );
    let documents: Vec<String> = inferred.pools.iter().map(pool).collect::<Result<_, _>>()?;
    Ok(introduction + &documents.join("---\n"))
}

fn pool(pool: &InferredPool) -> Result<String, Failure> {
    let mut text = comments::of_pool(pool) + &head("IPPool", pool.name.as_str())?;
    text += &list("cidrs", &pool.cidrs)?;
    text += &format!("  blockSize: {}\n", block_size(&pool.sizes));
    text += &node_selector(&pool.selector)?;
    if pool.priority != 0 {
        text += &format!("  priority: {}\n", pool.priority);
    }
    match pool.state {
        PoolState::Active => text += when_full(named_keys(&pool.selector)),
        PoolState::Disabled => text += "  disabled: true\n",
    }
    Ok(text)
}

fn pins(inferred: &Inferred) -> Result<String, Failure> {
    let mut documents = Vec::new();
    for (node, pin) in &inferred.pins {
        let reason = match &pin.reason {
            PinReason::UnusualSize => {
                "Its block has another size than those of most nodes.".to_owned()
            }
            PinReason::Misplaced(why) => {
                format!("Without this pin, its block is misplaced: {why}.")
            }
        };
        let mut text = comment(&reason) + &head("NodeAssignment", node.as_str())?;
        text += &format!("  pool: {}\n", yaml(&pin.pool.as_str())?);
        text += &list("podCIDRs", pin.blocks.iter())?;
        documents.push(text);
    }
    if documents.is_empty() {
        return Ok(String::new());
    }
    let introduction = comment("Nodes that keep exactly these blocks, whatever their labels are.");
    Ok(introduction + &documents.join("---\n"))
}

fn address_pools(inferred: &Inferred) -> Result<String, Failure> {
    let (declared, left): (Vec<_>, Vec<_>) = inferred
        .address_pools
        .iter()
        .partition(|pool| pool.use_of == ManifestUse::Declared);
    let hostnames = comments::of_hostnames(inferred);
    if inferred.address_pools.is_empty() {
        return Ok(hostnames);
    }
    let mut text = comment(
        "The CiliumLoadBalancerIPPools of the cluster, without the fields that the server sets.",
    ) + &comments::of_services(inferred)
        + &hostnames;
    for pool in &declared {
        text += &format!("---\n{}", manifest(pool)?);
    }
    if !left.is_empty() {
        text += &comment(
            "These have no owner, and stay as they are. To take a pool over, remove the leading `# ` of its lines: the plan then writes its ownership label. `import --adopt` writes all of them so.",
        );
    }
    for pool in &left {
        text += &commented(&format!("---\n{}", manifest(pool)?));
    }
    Ok(text)
}

fn manifest(pool: &InferredAddressPool) -> Result<String, Failure> {
    let mut metadata = json!({"name": pool.name});
    if !pool.manifest.labels.is_empty() {
        metadata["labels"] = json!(pool.manifest.labels);
    }
    if !pool.manifest.annotations.is_empty() {
        metadata["annotations"] = json!(pool.manifest.annotations);
    }
    let document = json!({
        "apiVersion": pool.api.as_str(),
        "kind": "CiliumLoadBalancerIPPool",
        "metadata": metadata,
        "spec": pool.manifest.spec,
    });
    Ok(yaml(&document)? + "\n")
}

fn policy(inferred: &Inferred) -> Result<String, Failure> {
    let path = match inferred.write_path.choice {
        WritePathChoice::Auto => "auto",
        WritePathChoice::Forced(path) => path.as_str(),
    };
    let mut text = comment("What holds for the whole directory. At most one Policy.");
    text += &comments::of_write_path(&inferred.write_path);
    text += &head("IPAMPolicy", "default")?;
    text += &format!("  writePath: {path}\n");
    let mut public = inferred.public.clone();
    public.sort();
    public.dedup();
    if !public.is_empty() {
        text += "  # Public address space that the pools have. Remove what is not yours.\n";
        text += &list("ownAddressSpace", public)?;
    }
    Ok(text)
}
