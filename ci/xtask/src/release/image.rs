//! The container image for all platforms, as an OCI layout in an archive. It has the content of the
//! `Containerfile`, and needs no daemon to be made.

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::archive::{FILE, Files, PROGRAM, gzip};
use super::layout::Layout;
use super::plan::Plan;
use super::sums::sha256;
use super::target::{Built, Program, programs};

const CONFIG: &str = "application/vnd.oci.image.config.v1+json";
const LAYER: &str = "application/vnd.oci.image.layer.v1.tar+gzip";
/// The programs at the image's root.
const PROGRAMS: [&str; 2] = ["cilium-ipam", "neutron-node"];
/// Neither root nor an account of the node.
const USER: &str = "65532:65532";

/// The name of the archive in `dist`.
pub fn file_name(version: &str) -> String {
    format!("cilium-ipam-{version}-image.oci.tar")
}

/// Writes the archive into `dist`.
pub fn write(plan: &Plan, all: &[Built]) -> Result<()> {
    let layout = layout(plan, all)?;
    plan.write(&file_name(&plan.version), &layout.tar(plan.commit.time)?)
}

fn layout(plan: &Plan, all: &[Built]) -> Result<Files> {
    let mut layout = Layout::default();
    let labels = labels(plan);
    let mut manifests = Vec::new();
    for built in all {
        let layer = content(plan, built)?.tar(plan.commit.time)?;
        let config = config(plan, built, &labels, &sha256(&layer));
        let config = layout.add_json(CONFIG, &config);
        let layer = layout.add(LAYER, gzip(&layer)?);
        let mut manifest = layout.add_manifest(&config, &[layer], &labels);
        manifest["platform"] = json!({"architecture": built.target.go(), "os": "linux"});
        manifests.push(manifest);
    }
    let index = layout.add_index(&manifests, &labels);
    Ok(layout.finish(index, &plan.version))
}

fn content(plan: &Plan, built: &Built) -> Result<Files> {
    let mut files = Files::default();
    for name in PROGRAMS {
        let find = |program: &&Program| program.name == name;
        let program = programs().find(find).context("an unknown program")?;
        files.copy(name, PROGRAM, &built.binary(program))?;
    }
    files.copy("LICENSE", FILE, &plan.source.root.join("LICENSE"))?;
    Ok(files)
}

fn labels(plan: &Plan) -> Value {
    json!({
        "org.opencontainers.image.title": "cilium-ipam",
        "org.opencontainers.image.description": super::target::TOOL.summary,
        "org.opencontainers.image.version": plan.version,
        "org.opencontainers.image.revision": plan.commit.id,
        "org.opencontainers.image.created": plan.time(),
        "org.opencontainers.image.source": plan.repository,
        "org.opencontainers.image.url": plan.repository,
        "org.opencontainers.image.licenses": "Apache-2.0",
    })
}

fn config(plan: &Plan, built: &Built, labels: &Value, layer: &str) -> Value {
    json!({
        "created": plan.time(),
        "architecture": built.target.go(),
        "os": "linux",
        "config": {
            "User": USER,
            "Entrypoint": ["/cilium-ipam"],
            "WorkingDir": "/",
            "Labels": labels,
        },
        "rootfs": {"type": "layers", "diff_ids": [format!("sha256:{layer}")]},
        "history": [{"created": plan.time(), "created_by": "cargo xtask release"}],
    })
}
