//! The Helm chart as a package, and as an OCI artefact in a layout. `helm package` writes the time
//! of the build into the package, so it is packed here.

use std::path::Path;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::archive::{FILE, Files};
use super::layout::Layout;
use super::plan::Plan;
use super::source::Source;
use super::version::top_level;

/// See Helm's `pkg/registry/constants.go`.
const CONFIG: &str = "application/vnd.cncf.helm.config.v1+json";
const PACKAGE: &str = "application/vnd.cncf.helm.chart.content.v1.tar+gzip";

/// The chart's folder in the repository.
pub const FOLDER: &str = "ci/chart";

/// The name of the package, as Helm names it.
pub fn package_name(version: &str) -> String {
    format!("cilium-ipam-{version}.tgz")
}

/// The name of the archive with the OCI layout.
pub fn layout_name(version: &str) -> String {
    format!("cilium-ipam-{version}-chart.oci.tar")
}

/// The version in `Chart.yaml`.
pub fn version(source: &Source) -> Result<String> {
    let metadata = source.read(&format!("{FOLDER}/Chart.yaml"))?;
    let version = top_level(&metadata, "version").context("Chart.yaml has no version")?;
    Ok(version.to_owned())
}

/// Writes both into `dist`.
pub fn write(plan: &Plan) -> Result<()> {
    let folder = plan.source.root.join(FOLDER);
    let mut files = Files::default();
    add(&mut files, &folder, "cilium-ipam")?;
    let package = files.tar_gz(plan.commit.time)?;
    plan.write(&package_name(&plan.version), &package)?;

    let metadata = plan.source.read(&format!("{FOLDER}/Chart.yaml"))?;
    let metadata: Value = serde_yaml::from_str(&metadata).context("invalid YAML in Chart.yaml")?;
    let annotations = json!({
        "org.opencontainers.image.title": metadata["name"],
        "org.opencontainers.image.description": metadata["description"],
        "org.opencontainers.image.version": metadata["version"],
        "org.opencontainers.image.revision": plan.commit.id,
        "org.opencontainers.image.created": plan.time(),
        "org.opencontainers.image.source": plan.repository,
    });
    let mut layout = Layout::default();
    let config = layout.add_json(CONFIG, &metadata);
    let layer = layout.add(PACKAGE, package);
    let manifest = layout.add_manifest(&config, &[layer], &annotations);
    let layout = layout.finish(manifest, &plan.version);
    plan.write(&layout_name(&plan.version), &layout.tar(plan.commit.time)?)
}

fn add(files: &mut Files, folder: &Path, prefix: &str) -> Result<()> {
    for entry in
        std::fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?
    {
        let entry = entry?;
        let path = format!("{prefix}/{}", entry.file_name().to_string_lossy());
        if entry.file_type()?.is_dir() {
            add(files, &entry.path(), &path)?;
        } else {
            files.copy(path, FILE, &entry.path())?;
        }
    }
    Ok(())
}
