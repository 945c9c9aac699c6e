//! The first tutorial on a machine that has the archive and a shell: no toolchain, no network, no
//! file of this machine. It knows no command of the program; the page has them.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use testbed::debian_file;

use super::programs::isolated;
use crate::bundle::stem;
use crate::plan::Plan;
use crate::target::{Built, TOOL};

const PAGE: &str = "docs/src/tutorials/three-racks.md";

/// What a page has a reader do.
#[derive(Debug)]
enum Step {
    /// Write a file with this name and content.
    Write(String, String),
    /// Type a command, and see this output. A line `…` stands for any output.
    Run(String, String),
}

/// Unpacks the archive into an empty root, and does there what the tutorial says.
pub fn tutorial(plan: &Plan, built: &Built) -> Result<()> {
    let root = tempfile::tempdir()?;
    let in_root = |path: &str| root.path().join(path);
    for folder in ["bin", "home", "tmp"] {
        std::fs::create_dir(in_root(folder))?;
    }
    std::fs::copy(
        debian_file("busybox-static", "bin/busybox")?,
        in_root("bin/busybox"),
    )?;
    for applet in ["sh", "tar", "gzip", "cp", "sed", "echo"] {
        std::os::unix::fs::symlink("busybox", in_root("bin").join(applet))?;
    }
    let name = stem(&TOOL, &plan.version, built);
    let archive = format!("{name}.tar.gz");
    std::fs::copy(plan.dist.join(&archive), in_root("home").join(&archive))?;
    let install = format!("tar -xzf {archive} && cp {name}/cilium-ipam /bin/");
    shell(root.path(), &install, "")?;
    let page = std::fs::read_to_string(plan.source.root.join(PAGE))
        .with_context(|| format!("cannot read {PAGE}"))?;
    let steps = steps(&page);
    ensure!(!steps.is_empty(), "{PAGE} has no steps");
    for step in steps {
        match step {
            Step::Write(file, content) => {
                let path = in_root("home").join(file);
                std::fs::create_dir_all(path.parent().context("a file has a folder")?)?;
                std::fs::write(path, content)?;
            }
            Step::Run(command, expected) => shell(root.path(), &command, &expected)?,
        }
    }
    Ok(())
}

/// Runs a command with this root, and compares its output.
fn shell(root: &Path, command: &str, expected: &str) -> Result<()> {
    let mut inside = isolated(Path::new("unshare"), Path::new("/home"));
    inside
        .args(["--user", "--map-root-user", "--mount", "--net", "--root"])
        .arg(root)
        .args(["--wd", "/home", "/bin/sh", "-e", "-c", command]);
    let inside: &mut Command = inside.env("PATH", "/bin");
    let ran = inside.output().context("cannot run unshare")?;
    let (shown, told) = (
        String::from_utf8_lossy(&ran.stdout),
        String::from_utf8_lossy(&ran.stderr),
    );
    ensure!(ran.status.success(), "`{command}` failed:\n{shown}{told}");
    let is_open = expected.lines().any(|line| line == "…");
    ensure!(
        is_open || expected.trim_end() == shown.trim_end(),
        "`{command}` prints:\n{shown}\n{PAGE} shows:\n{expected}"
    );
    Ok(())
}

/// The files of a page, marked `<!-- file: NAME -->`, and the commands of the blocks marked
/// `<!-- run -->`.
fn steps(page: &str) -> Vec<Step> {
    let mut steps = Vec::new();
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        let marks = line
            .strip_prefix("<!-- ")
            .and_then(|rest| rest.strip_suffix(" -->"));
        let Some(mark) = marks.filter(|mark| *mark == "run" || mark.starts_with("file: ")) else {
            continue;
        };
        let block = lines
            .by_ref()
            .skip_while(|line| !line.starts_with("```"))
            .skip(1)
            .take_while(|line| !line.starts_with("```"));
        match mark.strip_prefix("file: ") {
            Some(name) => {
                let content: String = block.map(|line| format!("{line}\n")).collect();
                steps.push(Step::Write(name.to_owned(), content));
            }
            None => steps.extend(commands(block)),
        }
    }
    steps
}

fn commands<'p>(block: impl Iterator<Item = &'p str>) -> Vec<Step> {
    let mut found: Vec<(String, String)> = Vec::new();
    for line in block {
        match (line.strip_prefix("$ "), found.last_mut()) {
            (Some(command), _) => found.push((command.to_owned(), String::new())),
            (None, Some((_, output))) => *output += &format!("{line}\n"),
            (None, None) => {}
        }
    }
    found
        .into_iter()
        .map(|(command, output)| Step::Run(command, output))
        .collect()
}
