//! Debian and RPM packages, written by nFPM from one description.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::{Value, json};
use testbed::Program;

use super::archive::{FILE, Files, PROGRAM};
use super::documents::Documents;
use super::plan::Plan;
use super::source::{TIME_VARIABLE, output};
use super::target::{Built, Bundle, TOOL};

/// A package format.
#[derive(Debug, Clone, Copy)]
pub enum Format {
    Deb,
    Rpm,
}

impl Format {
    fn name(self) -> &'static str {
        match self {
            Format::Deb => "deb",
            Format::Rpm => "rpm",
        }
    }

    /// As the distributions name the files of their packages.
    pub fn file_name(self, bundle: &Bundle, version: &str, built: &Built) -> String {
        let name = bundle.name;
        match self {
            Format::Deb => format!("{name}_{version}-1_{}.deb", built.target.go()),
            Format::Rpm => format!("{name}-{version}-1.{}.rpm", built.target.machine()),
        }
    }
}

/// Writes both packages of a bundle into `dist`.
pub fn write(plan: &Plan, bundle: &Bundle, built: &Built, documents: &Documents) -> Result<()> {
    let nfpm = testbed::build(&[Program::Nfpm])?;
    let folder = tempfile::tempdir()?;
    let files = content(plan, bundle, built, documents)?;
    let placed = place(&files, folder.path())?;
    let description = describe(plan, bundle, built, &placed);
    let path = folder.path().join("nfpm.yaml");
    // JSON is YAML.
    std::fs::write(&path, serde_json::to_vec(&description)?)?;
    for format in [Format::Deb, Format::Rpm] {
        let name = format.file_name(bundle, &plan.version, built);
        output(
            Command::new(nfpm.path(Program::Nfpm)?)
                .args(["package", "--packager", format.name(), "--config"])
                .arg(&path)
                .arg("--target")
                .arg(plan.dist.join(name))
                .env(TIME_VARIABLE, plan.commit.time.to_string()),
        )?;
    }
    Ok(())
}

/// The files of both packages by their place on the system.
fn content(plan: &Plan, bundle: &Bundle, built: &Built, documents: &Documents) -> Result<Files> {
    let mut files = Files::default();
    for program in bundle.programs {
        let folder = program.folder.trim_start_matches('/');
        let path = format!("{folder}/{}", program.name);
        files.copy(path, PROGRAM, &built.binary(program))?;
    }
    let copyright = format!("usr/share/doc/{}/copyright", bundle.name);
    files.copy(copyright, FILE, &plan.source.root.join("LICENSE"))?;
    if *bundle == TOOL {
        documents.add_to_package(&mut files)?;
    }
    Ok(files)
}

/// Puts the files into a folder, where nFPM reads them.
fn place(files: &Files, folder: &Path) -> Result<Vec<(String, u32, PathBuf)>> {
    let mut placed = Vec::new();
    for (path, mode, bytes) in files.iter() {
        let source = folder.join("files").join(path);
        let parent = source.parent().context("a file has a folder")?;
        std::fs::create_dir_all(parent)?;
        std::fs::write(&source, bytes)?;
        placed.push((format!("/{path}"), mode, source));
    }
    Ok(placed)
}

fn describe(
    plan: &Plan,
    bundle: &Bundle,
    built: &Built,
    placed: &[(String, u32, PathBuf)],
) -> Value {
    let time = plan.time();
    let mut contents: Vec<Value> = placed
        .iter()
        .map(|(place, mode, source)| {
            json!({
                "src": source,
                "dst": place,
                "file_info": {"mode": mode, "owner": "root", "group": "root", "mtime": time},
            })
        })
        .collect();
    if *bundle == TOOL {
        // With it, kubectl runs the tool as `kubectl cilium-ipam`.
        contents.push(json!({
            "src": "/usr/bin/cilium-ipam",
            "dst": "/usr/bin/kubectl-cilium_ipam",
            "type": "symlink",
            "file_info": {"mtime": time},
        }));
    }
    json!({
        "name": bundle.name,
        "arch": built.target.go(),
        "platform": "linux",
        "version": plan.version,
        "version_schema": "semver",
        "release": "1",
        "section": "admin",
        "priority": "optional",
        "maintainer": plan.maintainer,
        "description": bundle.summary,
        "license": "Apache-2.0",
        "homepage": plan.repository,
        "mtime": time,
        "contents": contents,
        "deb": {"compression": "gzip"},
        "rpm": {"compression": "gzip", "buildhost": "localhost", "summary": bundle.summary},
    })
}
