//! The YAML of what was inferred, one file for each kind. Every text of a cluster goes through the
//! serializer.

use std::path::Path;

use serde::Serialize;
use serde_json::{Map, Value, json};

use super::comments::{self, comment, commented};
use crate::cli::failure::Failure;
use crate::cli::init::trial::NewFile;
use crate::cli::init::yaml::{block_size, yaml as plain_yaml};
use crate::render::sanitized_json;
use ipam_config::documents::API_VERSION;
use ipam_core::model::{Operator, Selector, WritePathChoice};
use ipam_core::text::is_harmful;
use ipam_desired::PoolState;
use ipam_planner::import::{Inferred, InferredAddressPool, InferredPool, ManifestUse, PinReason};

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

/// A value as YAML. Text that a terminal would interpret is escaped.
pub(in crate::cli) fn yaml(value: &impl Serialize) -> Result<String, Failure> {
    let text = plain_yaml(value)?;
    if !text.contains(is_harmful) {
        return Ok(text);
    }
    let json = serde_json::to_string(value).map_err(std::io::Error::from)?;
    Ok(sanitized_json(&json).into_owned())
}

/// The value below a key, indented; on the line of the key if it is a scalar or in one line.
pub(super) fn indented(value: &Value, columns: usize) -> Result<String, Failure> {
    let text = yaml(value)?;
    let indent = " ".repeat(columns);
    Ok(text
        .lines()
        .map(|line| format!("{indent}{line}\n"))
        .collect())
}

pub(in crate::cli) fn head(kind: &str, name: &str) -> Result<String, Failure> {
    Ok(format!(
        "apiVersion: {API_VERSION}\nkind: {kind}\nmetadata:\n  name: {}\nspec:\n",
        yaml(&name)?
    ))
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
    text += "  cidrs:\n";
    for cidr in &pool.cidrs {
        text += &format!("  - {}\n", yaml(&cidr.to_string())?);
    }
    text += &format!("  blockSize: {}\n", block_size(&pool.sizes));
    if pool.selector != Selector::default() {
        text += "  nodeSelector:\n";
        text += &indented(&selector(&pool.selector), 4)?;
    }
    if pool.priority != 0 {
        text += &format!("  priority: {}\n", pool.priority);
    }
    if pool.state == PoolState::Disabled {
        text += "  disabled: true\n";
    }
    Ok(text)
}

/// As a `metav1.LabelSelector`.
pub(super) fn selector(selector: &Selector) -> Value {
    let mut labels = Map::new();
    let mut expressions = Vec::new();
    for requirement in selector.requirements() {
        let key = requirement.key();
        let (operator, values) = match requirement.operator() {
            Operator::In(values) if values.len() == 1 && !labels.contains_key(key) => {
                labels.extend(values.iter().map(|value| (key.to_owned(), json!(value))));
                continue;
            }
            Operator::In(values) => ("In", Some(values)),
            Operator::NotIn(values) => ("NotIn", Some(values)),
            Operator::Exists => ("Exists", None),
            Operator::DoesNotExist => ("DoesNotExist", None),
        };
        let mut expression = json!({"key": key, "operator": operator});
        if let Some(values) = values {
            expression["values"] = json!(values);
        }
        expressions.push(expression);
    }
    let mut fields = Map::new();
    if !labels.is_empty() {
        fields.insert("matchLabels".to_owned(), Value::Object(labels));
    }
    if !expressions.is_empty() {
        fields.insert("matchExpressions".to_owned(), Value::Array(expressions));
    }
    Value::Object(fields)
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
        text += &format!("  pool: {}\n  podCIDRs:\n", yaml(&pin.pool.as_str())?);
        for block in pin.blocks.iter() {
            text += &format!("  - {}\n", yaml(&block.to_string())?);
        }
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
        text += "  ownAddressSpace:\n";
        for cidr in public {
            text += &format!("  - {}\n", yaml(&cidr.to_string())?);
        }
    }
    Ok(text)
}
