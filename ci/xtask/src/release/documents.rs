//! Man pages and completion scripts, as the tool itself writes them.

use anyhow::{Context, Result};

use super::archive::{FILE, Files, gzip};
use super::build::run_binary;
use super::target::{Built, TOOL};

/// Completion scripts and man pages.
#[derive(Debug, Clone)]
pub struct Documents {
    completions: Vec<(Shell, Vec<u8>)>,
    /// By file name.
    pages: Vec<(String, Vec<u8>)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shell {
    Bash,
    Fish,
    Zsh,
}

impl Shell {
    const ALL: [Shell; 3] = [Shell::Bash, Shell::Fish, Shell::Zsh];

    fn name(self) -> &'static str {
        match self {
            Shell::Bash => "bash",
            Shell::Fish => "fish",
            Shell::Zsh => "zsh",
        }
    }

    /// As the shell looks for it.
    fn file_name(self) -> &'static str {
        match self {
            Shell::Bash => "cilium-ipam",
            Shell::Fish => "cilium-ipam.fish",
            Shell::Zsh => "_cilium-ipam",
        }
    }

    /// Where packages put it.
    fn folder(self) -> &'static str {
        match self {
            Shell::Bash => "usr/share/bash-completion/completions",
            Shell::Fish => "usr/share/fish/vendor_completions.d",
            Shell::Zsh => "usr/share/zsh/site-functions",
        }
    }
}

impl Documents {
    /// Runs the tool to write them.
    pub fn make(built: &Built) -> Result<Documents> {
        let tool = &TOOL.programs[0];
        let mut completions = Vec::new();
        for shell in Shell::ALL {
            let script = run_binary(built, tool, &["completions", shell.name()])?;
            completions.push((shell, script.into_bytes()));
        }
        let folder = tempfile::tempdir()?;
        let path = folder
            .path()
            .to_str()
            .context("a temporary folder's name")?;
        run_binary(built, tool, &["manual", path])?;
        let mut pages = Vec::new();
        for entry in std::fs::read_dir(folder.path())? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            // The command `help` has a page for each command that it describes.
            if !name.contains("-help") {
                pages.push((name, std::fs::read(entry.path())?));
            }
        }
        pages.sort();
        Ok(Documents { completions, pages })
    }

    /// Adds them to an archive that a person unpacks.
    pub fn add_to_archive(&self, files: &mut Files, prefix: &str) {
        for (shell, script) in &self.completions {
            let name = shell.file_name();
            files.add(format!("{prefix}/completions/{name}"), FILE, script.clone());
        }
        for (name, page) in &self.pages {
            files.add(format!("{prefix}/man/man1/{name}"), FILE, page.clone());
        }
    }

    /// Adds them to a package, where the system looks for them.
    pub fn add_to_package(&self, files: &mut Files) -> Result<()> {
        for (shell, script) in &self.completions {
            let path = format!("{}/{}", shell.folder(), shell.file_name());
            files.add(path, FILE, script.clone());
        }
        for (name, page) in &self.pages {
            files.add(format!("usr/share/man/man1/{name}.gz"), FILE, gzip(page)?);
        }
        Ok(())
    }
}
