//! `fuzz`: runs the fuzz targets of `ci/fuzz`, which need cargo-fuzz and a nightly toolchain. The
//! findings are in `.cache/fuzz`. With `--keep`, a choice of the inputs goes into `ci/fuzz/corpus`,
//! which the normal tests run.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use xtask::line::Line;

use crate::cargo;

/// All of them, as `ci/fuzz/Cargo.toml` names them.
const TARGETS: [&str; 8] = [
    "yaml_directory",
    "plan_file",
    "cluster_file",
    "claims",
    "cni_input",
    "rules",
    "protobuf_list",
    "world",
];
const CARGO_FUZZ: &str = "0.13.2";
/// No sanitizer: there is no unsafe code.
const BUILD: &str = "--fuzz-dir ci/fuzz --target-dir target/fuzz --sanitizer none";
/// Longer inputs find no further faults.
const LONGEST_INPUT: usize = 8192;
/// Files for each target in `ci/fuzz/corpus`.
const KEPT_FILES: usize = 150;

/// Run fuzz targets; installs cargo-fuzz first, and needs a nightly toolchain.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// The target, or all: yaml_directory, plan_file, cluster_file, claims, cni_input, rules,
    /// protobuf_list, world.
    #[arg(default_value = "all")]
    target: String,
    /// How long each target runs.
    #[arg(long, value_name = "SECONDS", default_value_t = 600)]
    seconds: u64,
    /// Replace the repository's corpus by the inputs that reach most of the code.
    #[arg(long)]
    keep: bool,
}

pub fn run(arguments: &Arguments) -> Result<()> {
    let chosen: Vec<&str> = TARGETS
        .into_iter()
        .filter(|name| ["all", name].contains(&&*arguments.target))
        .collect();
    if chosen.is_empty() {
        bail!(
            "there is no fuzz target {}\nhelp: it is one of {}, or all",
            arguments.target,
            TARGETS.join(", ")
        );
    }
    tools()?;
    let places: Vec<Places> = chosen.into_iter().map(Places::new).collect::<Result<_>>()?;
    for place in &places {
        place.fuzz(arguments.seconds)?;
        if arguments.keep {
            place.keep()?;
        }
    }
    Ok(())
}

fn tools() -> Result<PathBuf> {
    cargo::tool("cargo-fuzz", CARGO_FUZZ, "")
}

/// The folders of a target.
struct Places {
    target: &'static str,
    /// All inputs found so far on this machine.
    found: PathBuf,
    /// The part of them in the repository.
    kept: PathBuf,
    artifacts: PathBuf,
}

impl Places {
    fn new(target: &'static str) -> Result<Places> {
        let cache = cargo::root().join(".cache/fuzz");
        let places = Places {
            target,
            found: cache.join("corpus").join(target),
            kept: cargo::root().join("ci/fuzz/corpus").join(target),
            artifacts: cache.join("artifacts").join(target),
        };
        for folder in [&places.found, &places.kept, &places.artifacts] {
            std::fs::create_dir_all(folder)
                .with_context(|| format!("cannot make {}", folder.display()))?;
        }
        Ok(places)
    }

    /// Runs libFuzzer with these folders and arguments; returns its output.
    fn lib_fuzzer(&self, folders: &[&Path], arguments: &[String]) -> Result<String> {
        let log = self.artifacts.with_extension("log");
        let shown = format!("cargo fuzz run {BUILD} {}", self.target);
        eprintln!("$ {shown} … {} 2> {}", arguments.join(" "), log.display());
        let status = Command::new("rustup")
            .args(["run", "nightly", "cargo", "fuzz", "run"])
            .args(BUILD.split_whitespace())
            .arg(self.target)
            .args(folders)
            .arg("--")
            .args(arguments)
            .env("PATH", path_with(&tools()?.join("bin"))?)
            .env_remove("CARGO")
            .current_dir(cargo::root())
            .stderr(File::create(&log)?)
            .status()
            .context("rustup does not start: a nightly toolchain comes from it")?;
        let told = std::fs::read_to_string(&log)
            .with_context(|| format!("cannot read {}", log.display()))?;
        if !status.success() {
            let end: Vec<&str> = told.lines().rev().take(30).collect();
            bail!(
                "`{shown}` failed:\n{}",
                end.into_iter().rev().collect::<Vec<_>>().join("\n")
            );
        }
        Ok(told)
    }

    fn fuzz(&self, seconds: u64) -> Result<()> {
        let dictionary = cargo::root()
            .join("ci/fuzz/dictionaries")
            .join(format!("{}.dict", self.target));
        let arguments = [
            format!("-artifact_prefix={}/", self.artifacts.display()),
            format!("-dict={}", dictionary.display()),
            format!("-max_total_time={seconds}"),
            format!("-max_len={LONGEST_INPUT}"),
            "-timeout=10".to_owned(),
            "-print_final_stats=1".to_owned(),
        ];
        let told = self.lib_fuzzer(&[&self.found, &self.kept], &arguments)?;
        let runs = told
            .lines()
            .find_map(|line| line.strip_prefix("stat::number_of_executed_units:"));
        let runs = runs
            .context("libFuzzer does not say how often it ran")?
            .trim();
        Line::new("fuzz")
            .with("target", self.target)
            .with("seconds", seconds)
            .with("runs", runs)
            .with("findings", 0)
            .print();
        Ok(())
    }

    /// Inputs that together reach everything that was reached; of more than [`KEPT_FILES`], an even
    /// choice from the smallest to the largest.
    fn keep(&self) -> Result<()> {
        let chosen = tempfile::tempdir()?;
        let arguments = ["-set_cover_merge=1", "-use_counters=0"].map(str::to_owned);
        self.lib_fuzzer(&[chosen.path(), &self.kept, &self.found], &arguments)?;
        let mut files: Vec<(u64, PathBuf)> = Vec::new();
        for entry in std::fs::read_dir(chosen.path())? {
            let entry = entry?;
            files.push((entry.metadata()?.len(), entry.path()));
        }
        files.sort();
        std::fs::remove_dir_all(&self.kept)?;
        std::fs::create_dir_all(&self.kept)?;
        let step = files.len().div_ceil(KEPT_FILES).max(1);
        for (_, file) in files.into_iter().rev().step_by(step) {
            let name = file.file_name().context("a file has a name")?;
            std::fs::copy(&file, self.kept.join(name))?;
        }
        Ok(())
    }
}

fn path_with(first: &Path) -> Result<std::ffi::OsString> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let all = [first.to_owned()]
        .into_iter()
        .chain(std::env::split_paths(&path));
    std::env::join_paths(all).context("PATH cannot be extended")
}
