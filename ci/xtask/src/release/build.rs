//! Builds static binaries for both platforms with zig as C compiler and linker, so that no file of
//! the machine gets into them. Runs them, in QEMU where the processor is another.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use testbed::debian;

use super::source::{Commit, Source, TIME_VARIABLE, output, python_packages, run};
use super::target::{Built, Program, Target, programs};

const CARGO_ZIGBUILD: &str = "0.24.1";
const ZIG: &str = "0.17.1";
/// The folders that replace those of the machine in messages of panics.
const SOURCES: &str = "/cilium-ipam";
const REGISTRY: &str = "/registry";

/// Builds all programs for a platform.
pub fn build(source: &Source, commit: &Commit, target: Target) -> Result<Built> {
    add_standard_library(source, target)?;
    let tools = Tools::install()?;
    for profile in ["plugin", "dist"] {
        let mut command = tools.command();
        source.prepare(&mut command);
        command
            .args(["zigbuild", "--locked", "--target", target.triple()])
            .args(["--profile", profile]);
        for program in programs().filter(|program| program.profile == profile) {
            command.args(["--package", program.package, "--bin", program.name]);
        }
        command
            .env("CARGO_ENCODED_RUSTFLAGS", flags(source)?)
            .env("CARGO_INCREMENTAL", "0")
            .env(TIME_VARIABLE, commit.time.to_string())
            .env_remove("RUSTFLAGS");
        run(&mut command)?;
    }
    Ok(Built {
        target,
        folder: source.target.clone(),
    })
}

/// Replaces the folders of this machine, so that any folder gives the same bytes.
fn flags(source: &Source) -> Result<String> {
    let home = std::env::var_os("CARGO_HOME")
        .map(PathBuf::from)
        .or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cargo")))
        .context("neither CARGO_HOME nor HOME is set")?;
    let remap = |from: &Path, to: &str| format!("--remap-path-prefix={}={to}", from.display());
    // The last one that fits wins, and the target folder may be inside the sources.
    Ok([
        remap(&home.join("registry/src"), REGISTRY),
        remap(&source.root, SOURCES),
        remap(&source.target, "/target"),
    ]
    .join("\u{1f}"))
}

fn add_standard_library(source: &Source, target: Target) -> Result<()> {
    let folder = output(
        Command::new("rustc")
            .args(["--print", "target-libdir", "--target", target.triple()])
            .current_dir(&source.root),
    )?;
    if Path::new(folder.trim()).exists() {
        return Ok(());
    }
    run(Command::new("rustup")
        .args(["target", "add", target.triple()])
        .current_dir(&source.root))
}

/// cargo-zigbuild and zig, as their Python packages have them.
struct Tools {
    folder: PathBuf,
}

impl Tools {
    /// Installs them into the cache if they are missing.
    fn install() -> Result<Tools> {
        let name = format!("cargo-zigbuild-{CARGO_ZIGBUILD}-zig-{ZIG}");
        let packages = [
            format!("cargo-zigbuild=={CARGO_ZIGBUILD}"),
            format!("ziglang=={ZIG}"),
        ];
        let folder = python_packages(&name, &packages)?;
        Ok(Tools { folder })
    }

    fn command(&self) -> Command {
        let mut command = Command::new(self.folder.join("bin/cargo-zigbuild"));
        command
            .env("CARGO_ZIGBUILD_ZIG_PATH", self.folder.join("ziglang/zig"))
            .env("CARGO_ZIGBUILD_CACHE_DIR", self.folder.join("cache"))
            .env("ZIG_GLOBAL_CACHE_DIR", self.folder.join("zig-cache"));
        command
    }
}

/// Runs a binary of a platform with these arguments; returns its standard output.
pub fn run_binary(built: &Built, program: &Program, arguments: &[&str]) -> Result<String> {
    let binary = built.binary(program);
    let mut command = if built.target.is_native() {
        Command::new(&binary)
    } else {
        let emulator = format!("qemu-{}-static", built.target.machine());
        let mut command = Command::new(debian("qemu-user-static", &emulator)?);
        command.arg(&binary);
        command
    };
    output(command.args(arguments).env_remove("KUBECONFIG"))
}

/// Runs each program that can say its version, and checks what it says.
pub fn try_out(built: &Built, version: &str) -> Result<()> {
    for program in programs() {
        is_static(&built.binary(program))?;
        // A CNI plugin has no flags.
        let plugin = program.folder.ends_with("cni/bin");
        if plugin {
            continue;
        }
        let told = run_binary(built, program, &["--version"])?;
        if told.split_whitespace().nth(1) != Some(version) {
            bail!(
                "{} for {} reports `{}`, not version {version}",
                program.name,
                built.target.triple(),
                told.trim()
            );
        }
    }
    Ok(())
}

/// Fails if the kernel would start a dynamic linker for this ELF file.
fn is_static(path: &Path) -> Result<()> {
    let bytes = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    if has_interpreter(&bytes).with_context(|| format!("{} is no ELF file", path.display()))? {
        bail!("{} is not static: it names an interpreter", path.display());
    }
    Ok(())
}

/// Whether a little-endian 64-bit ELF file has a program header of the type `PT_INTERP`.
fn has_interpreter(bytes: &[u8]) -> Option<bool> {
    const PT_INTERP: u32 = 3;
    if !bytes.starts_with(b"\x7fELF\x02\x01") {
        return None;
    }
    let short = |at: usize| Some(u16::from_le_bytes(bytes.get(at..at + 2)?.try_into().ok()?));
    let start = u64::from_le_bytes(bytes.get(32..40)?.try_into().ok()?);
    let (size, count) = (usize::from(short(54)?), usize::from(short(56)?));
    let start = usize::try_from(start).ok()?;
    let mut found = false;
    for header in 0..count {
        let at = start + header * size;
        let kind = u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?);
        found |= kind == PT_INTERP;
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_binary_with_a_dynamic_linker_is_noticed() {
        let this = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        assert_eq!(has_interpreter(&this), Some(true));
        assert_eq!(has_interpreter(b"#!/bin/sh\n"), None);
    }

    #[test]
    fn no_folder_of_the_machine_gets_into_a_binary() {
        let mut source = Source::here();
        source.root = PathBuf::from("/somewhere/here");
        source.target = PathBuf::from("/elsewhere");
        let flags = flags(&source).unwrap();
        for expected in [
            "--remap-path-prefix=/somewhere/here=/cilium-ipam",
            "--remap-path-prefix=/elsewhere=/target",
            "/registry/src=/registry",
        ] {
            assert!(flags.contains(expected), "{flags}");
        }
    }
}
