//! The YAML of a proposal, with comments. Every text from a cluster goes through the serializer.

use std::collections::BTreeMap;
use std::path::Path;

use super::SCHEMA;
use super::words::shell;
use crate::cli::failure::Failure;
use crate::cli::new_files::yaml::{block_size, head, list, when_full, yaml};
use crate::render::printable;
use ipam_core::model::first_of;
use ipam_core::net::Block;
use ipam_desired::PoolState;
use ipam_import::proposal::{PoolNodes, Proposal, ProposedPool, Split};

/// Whether a document explains its fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Comments {
    Full,
    /// No comments: the first document has them.
    None,
}

/// The pools, one document each. Editors need the line with the schema in every document.
pub(super) fn pools(
    directory: &Path,
    proposal: &Proposal,
    split: &Split,
) -> Result<String, Failure> {
    let mut text = header(directory, proposal, split)?;
    let mut comments = Comments::Full;
    for pool in &proposal.pools {
        if comments == Comments::None {
            text += "---\n";
            text += &schema_line();
        }
        text += &document(pool, comments)?;
        comments = Comments::None;
    }
    Ok(text)
}

/// The line by which editors with yaml-language-server find the schema, relative to the file.
fn schema_line() -> String {
    format!("# yaml-language-server: $schema={SCHEMA}\n")
}

fn header(directory: &Path, proposal: &Proposal, split: &Split) -> Result<String, Failure> {
    let directory = shell(&directory.to_string_lossy());
    let directory = printable(&directory);
    let mut text = schema_line();
    text += &format!(
        "# Which node gets which pod CIDR. `cilium-ipam init` wrote this file once; edit it freely.\n\
         #   cilium-ipam validate {directory}   checks the files\n\
         #   cilium-ipam plan {directory}       shows what would change, and why\n\
         #   cilium-ipam apply {directory}      shows it, asks, and carries it out\n\
         # A node gets a block of the best pool that selects it, and keeps the block that it has.\n"
    );
    if let Split::ByLabel { key, .. } = split {
        let key = yaml(key)?;
        text += &format!(
            "# Each value of the node label {key} has a pool. Add a pool for each new value.\n"
        );
    }
    if !proposal.unassigned.is_empty() {
        let free = first_of(8, &proposal.unassigned);
        text += &format!("# In no pool, for later: {free}\n");
    }
    Ok(text)
}

fn document(pool: &ProposedPool, comments: Comments) -> Result<String, Failure> {
    let note = |text: &str| match comments {
        Comments::Full => format!("  # {text}\n"),
        Comments::None => String::new(),
    };
    let mut text = head("IPPool", pool.name.as_str())?;
    text += &note("The addresses, used in this order: the next CIDR when one is full.");
    text += &list("cidrs", &pool.cidrs)?;
    text += &note("Prefix length of the block that each node gets.");
    text += &format!("  blockSize: {}\n", block_size(&pool.sizes));
    text += &selector(pool, comments)?;
    text += &note("The matching pool with the highest priority is tried first. Default: 0.");
    if pool.priority != 0 || comments == Comments::Full {
        text += &format!("  priority: {}\n", pool.priority);
    }
    text += &note("Addresses of the CIDRs that no node gets, unless it is pinned to them:");
    text += &note(&format!("reserved: [{}]", first_block(pool)));
    text += &note("If true, nodes keep their blocks and no node gets a new one. Default: false.");
    match pool.state {
        PoolState::Active if comments == Comments::Full => text += "  disabled: false\n",
        PoolState::Active => {}
        PoolState::Disabled => {
            text += "  # Only keeps blocks of another size. Remove it when no node holds one.\n";
            text += "  disabled: true\n";
        }
    }
    if let (PoolState::Active, PoolNodes::WithLabel { key, .. }) = (pool.state, &pool.selected) {
        text += &note(
            "If `Wait`, a node whose pool is full waits. Default: NextPool, it gets a block of the next pool.",
        );
        text += when_full([key.as_str()].into_iter());
    }
    Ok(text)
}

fn selector(pool: &ProposedPool, comments: Comments) -> Result<String, Failure> {
    let (key, value) = match &pool.selected {
        PoolNodes::WithLabel { key, value } => (key, value),
        PoolNodes::Fallback => {
            return Ok("  # No nodeSelector: every node that no better pool selects.\n".to_owned());
        }
        PoolNodes::All => {
            return Ok("  # No nodeSelector: every node. To select some:\n  # nodeSelector: {matchLabels: {rack: a}}\n".to_owned());
        }
    };
    let note = match comments {
        Comments::Full => {
            "  # The nodes, by their labels, as in a Deployment. Absent: every node.\n"
        }
        Comments::None => "",
    };
    let labels = BTreeMap::from([(key, value)]);
    let label = yaml(&labels)?;
    Ok(format!(
        "{note}  nodeSelector:\n    matchLabels:\n      {label}\n"
    ))
}

/// An example for `reserved`: the first block of the pool.
fn first_block(pool: &ProposedPool) -> String {
    let example = || {
        let first = pool.cidrs.first()?;
        let size = pool.sizes.get(first.family())?;
        Some(format!("{}{size}", first.range().first()))
    };
    example().unwrap_or_default()
}

/// The Policy: the limits that hold anyway, to be changed here.
pub(super) fn policy(proposal: &Proposal, split: &Split) -> Result<String, Failure> {
    let domain = match split {
        Split::None => "topology.kubernetes.io/zone",
        Split::ByLabel { key, .. } => key,
    };
    let mut text = schema_line();
    text +=
        "# What holds for the whole directory. At most one Policy; the values are the defaults.\n";
    text += &head("IPAMPolicy", "default")?;
    text += "  # The field that is written. `auto`: the one that the running Cilium reads.\n  \
             writePath: auto\n  \
             # Addresses that no node gets, not even by a pin:\n  \
             # excluded: [10.0.0.0/24]\n";
    if !proposal.public.is_empty() {
        text += "  # Public address space that is yours. Remove what is not.\n";
        text += &list("ownAddressSpace", distinct(&proposal.public))?;
    }
    text += &format!(
        "  # How long a freed block is not given to another node.\n  \
         quarantine: 10m\n  \
         # A plan that exceeds a limit is refused. Each has count, percent, domainCount, domainPercent.\n  \
         limits:\n    \
         # The node label whose values are the failure domains.\n    \
         failureDomain: {}\n    \
         # Nodes that need a restart of their agent.\n    \
         disruptive: {{percent: 20}}\n    \
         # Nodes that lose a block.\n    \
         release: {{percent: 20}}\n  \
         # Nodes and pools from which nothing is taken:\n  \
         # protected: {{nodes: [cp-1], pools: [default]}}\n",
        yaml(&domain)?
    );
    Ok(text)
}

fn distinct(blocks: &[Block]) -> Vec<Block> {
    let mut blocks = blocks.to_vec();
    blocks.sort();
    blocks.dedup();
    blocks
}
