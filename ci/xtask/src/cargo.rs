//! Runs cargo, and shows each command before it runs.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

/// The root of the repository.
pub fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).unwrap_or(here).to_owned()
}

/// The cargo that runs this program, in the root of the repository.
pub fn cargo() -> Command {
    let program = std::env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo"));
    let mut command = Command::new(program);
    command.current_dir(root());
    command
}

/// Runs cargo with these words, separated by spaces.
pub fn run(words: &str) -> Result<()> {
    run_with(words, &[], None)
}

/// Runs cargo with these words, further arguments, and a variable.
pub fn run_with(words: &str, arguments: &[String], variable: Option<(&str, &str)>) -> Result<()> {
    run_as(cargo(), words, arguments, variable)
}

/// Runs `command`, which starts cargo, with these words, further arguments, and a variable.
pub fn run_as(
    mut command: Command,
    words: &str,
    arguments: &[String],
    variable: Option<(&str, &str)>,
) -> Result<()> {
    let mut shown: Vec<&str> = vec!["cargo", words];
    shown.extend(arguments.iter().map(String::as_str));
    let shown = shown.join(" ");
    eprintln!(
        "$ {}{shown}",
        variable
            .map(|(key, value)| format!("{key}='{value}' "))
            .unwrap_or_default()
    );
    command
        .args(words.split_whitespace())
        .args(arguments)
        .envs(variable);
    let status = command.status().context("cargo does not start")?;
    if !status.success() {
        bail!("`{shown}` failed");
    }
    Ok(())
}

/// Runs cargo with these words; returns its standard output.
pub fn output(words: &str) -> Result<String> {
    output_as(cargo(), words, None)
}

/// Runs `command`, which starts cargo, with these words and a variable; returns its standard
/// output.
pub fn output_as(
    mut command: Command,
    words: &str,
    variable: Option<(&str, &str)>,
) -> Result<String> {
    let output = command
        .args(words.split_whitespace())
        .envs(variable)
        .output()
        .context("cargo does not start")?;
    if !output.status.success() {
        let (told, errors) = (
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr),
        );
        bail!("`cargo {words}` failed:\n{told}{errors}");
    }
    String::from_utf8(output.stdout)
        .with_context(|| format!("cannot read the output of `cargo {words}`"))
}

/// The folder of a tool of this version in the cache. Installs it if it is missing; `flags` are
/// further words for `cargo install`.
pub fn tool(name: &str, version: &str, flags: &str) -> Result<PathBuf> {
    let folder = root()
        .join(".cache/tools")
        .join(format!("{name}-{version}"));
    if !folder.join("bin").join(name).exists() {
        let words = format!("install {name} --version {version} --locked {flags} --root");
        run_with(&words, &[folder.display().to_string()], None)?;
    }
    Ok(folder)
}

/// The folder of the release profile's binaries.
pub fn release_folder() -> Result<PathBuf> {
    let metadata: serde_json::Value =
        serde_json::from_str(&output("metadata --no-deps --format-version 1")?)?;
    let target = metadata["target_directory"]
        .as_str()
        .context("cargo metadata names no target directory")?;
    Ok(Path::new(target).join("release"))
}
