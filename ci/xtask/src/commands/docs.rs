//! `docs`: builds the documentation site with mdBook and checks every link, in the site and in the
//! repository's Markdown files.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};
use xtask::line::Line;

use crate::{cargo, links};

const MDBOOK: &str = "0.5.4";

/// The site in one sentence.
const ABOUT: &str = "Pod CIDRs and LoadBalancer addresses of a Cilium cluster, from YAML in Git. Each page is here as Markdown.";

/// Build the documentation site into target/book and check its links.
#[derive(Debug, Default, clap::Args)]
pub struct Arguments {
    /// First write what the program generates: the pages of CLI, exit codes, fields, JSON formats,
    /// metrics and rule codes, the plan picture, and the outputs of the commands that the pages show.
    #[arg(long)]
    update: bool,
}

pub fn run(arguments: &Arguments) -> Result<()> {
    if arguments.update {
        let words = "test --quiet --test it readme::";
        cargo::run_with(words, &[], Some(("CILIUM_IPAM_DOCS", "update")))?;
    }
    build()?;
    let root = cargo::root();
    write_for_machines(&root)?;
    let site = links::Site::read(&root.join("target/book"))?;
    let mut faults = site.faults();
    faults.extend(site.unlisted(&root.join("docs/src"))?);
    for file in markdown_files()? {
        faults.extend(site.faults_of_markdown(&root, &file)?);
    }
    if !faults.is_empty() {
        bail!("{} dead links:\n{}", faults.len(), faults.join("\n"));
    }
    Line::new("docs")
        .with("pages", site.page_count())
        .with("links", site.link_count())
        .with("faults", 0)
        .print();
    Ok(())
}

fn build() -> Result<()> {
    let program = cargo::tool("mdbook", MDBOOK, "--no-default-features --features search")?
        .join("bin/mdbook");
    eprintln!("$ mdbook build docs");
    let output = Command::new(&program)
        .args(["build", "docs"])
        .current_dir(cargo::root())
        .output()
        .context("mdbook does not start")?;
    let told = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() || told.contains("WARN") || told.contains("ERROR") {
        bail!("`mdbook build docs` failed or warned:\n{told}");
    }
    Ok(())
}

/// Puts each page as Markdown beside its HTML, and a list of them as `llms.txt`.
fn write_for_machines(root: &Path) -> Result<()> {
    let (pages, book) = (root.join("docs/src"), root.join("target/book"));
    let contents = std::fs::read_to_string(pages.join("SUMMARY.md"))?;
    for line in contents.lines() {
        let page = line
            .split_once("](")
            .and_then(|(_, rest)| rest.split_once(')'));
        if let Some((page, _)) = page {
            std::fs::copy(pages.join(page), book.join(page)).with_context(|| page.to_owned())?;
        }
    }
    let contents = contents.trim_start_matches("# Summary").trim_start();
    let text = format!("# cilium-ipam\n\n> {ABOUT}\n\n{contents}");
    std::fs::write(book.join("llms.txt"), text).context("llms.txt cannot be written")
}

/// The Markdown files of the repository outside the site, relative to its root.
fn markdown_files() -> Result<Vec<String>> {
    let output = Command::new("git")
        .args(["ls-files", "--cached", "--others", "--exclude-standard"])
        .args(["--", "*.md", ":!docs/src"])
        .current_dir(cargo::root())
        .output()
        .context("git does not start")?;
    if !output.status.success() {
        bail!("`git ls-files` failed");
    }
    let names = String::from_utf8(output.stdout)?;
    let exists = |name: &&str| cargo::root().join(name).exists();
    Ok(names.lines().filter(exists).map(str::to_owned).collect())
}
