//! `xtask-release`: writes everything that a release page needs into `dist`. `cargo xtask release`
//! builds and runs it.
#![forbid(unsafe_code)]

mod archive;
mod build;
mod bundle;
mod chart;
mod compare;
mod documents;
mod image;
mod layout;
mod manifests;
mod packages;
mod plan;
mod provenance;
mod push;
mod sbom;
mod sign;
mod sizes;
mod source;
mod sums;
mod target;
mod trials;
mod values;
mod version;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context, Result};
use clap::Parser;

use documents::Documents;
use plan::Plan;
use sign::Signer;
use source::Source;
use target::{BUNDLES, Built, Target};
use version::Section;

/// The repository's page in a trial. A release has a real one.
const NO_REPOSITORY: &str = "https://localhost/cilium-ipam";

/// Write everything that a release page needs into `dist`.
#[derive(Debug, Parser)]
#[command(
    name = "cargo xtask release",
    bin_name = "cargo xtask release",
    max_term_width = 120
)]
struct Arguments {
    /// The version. CHANGELOG.md, the manifests and the chart must name it. Default with `--trial`:
    /// the chart's.
    #[arg(long, required_unless_present_any = ["chart_page", "trial"])]
    version: Option<String>,
    /// Only write the chart's page with its table of values.
    #[arg(long, conflicts_with = "version")]
    chart_page: bool,
    /// A platform; all by default.
    #[arg(long, value_name = "TRIPLE", value_enum)]
    target: Vec<Target>,
    /// Allow changes that are not committed, and the section `Unreleased` of CHANGELOG.md.
    #[arg(long)]
    trial: bool,
    /// Take the binaries that Cargo's target folder already has, for example from jobs that built
    /// one platform each.
    #[arg(long, conflicts_with = "check")]
    no_build: bool,
    /// Try the files with package managers, kubectl, Krew, Helm, a registry and minisign. `--check`
    /// does so, too.
    #[arg(long = "try")]
    try_out: bool,
    /// Build a second time in another folder, and fail if a byte differs.
    #[arg(long)]
    check: bool,
    /// URL of the repository's page, for the manifests and labels. Required without `--trial`.
    #[arg(
        long,
        value_name = "URL",
        env = "RELEASE_REPOSITORY",
        required_unless_present_any = ["chart_page", "trial"]
    )]
    repository: Option<String>,
    /// URL of the folder that the files are downloaded from. Default:
    /// REPOSITORY/releases/download/vVERSION.
    #[arg(long, value_name = "URL", env = "RELEASE_DOWNLOADS")]
    downloads: Option<String>,
    /// Name and address in the packages.
    #[arg(
        long,
        value_name = "NAME <MAIL>",
        env = "RELEASE_MAINTAINER",
        default_value = "cilium-ipam <root@localhost>"
    )]
    maintainer: String,
    /// URI of the build service, for the provenance.
    #[arg(
        long,
        value_name = "URI",
        env = "RELEASE_BUILDER",
        default_value = "https://localhost/unknown-builder"
    )]
    builder: String,
    /// A secret key of minisign: signs SHA256SUMS.
    #[arg(long, value_name = "FILE", env = "RELEASE_SIGN_KEY")]
    sign_key: Option<PathBuf>,
    /// The program that signs.
    #[arg(long, value_name = "PROGRAM", default_value = "minisign")]
    minisign: PathBuf,
    /// Push image and chart below this prefix, for example registry.example/team.
    #[arg(long, value_name = "PREFIX", env = "RELEASE_PUSH")]
    push: Option<String>,
    /// Print the sizes of kubectl and OpenTofu, too. Builds them first.
    #[arg(long)]
    sizes: bool,
    /// Where the files go; replaced if it exists.
    #[arg(long, value_name = "DIR")]
    dist: Option<PathBuf>,
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask-release: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Result<()> {
    let start = Instant::now();
    let source = Source::here();
    if arguments.chart_page {
        return values::write(&source);
    }
    let version = &match &arguments.version {
        Some(version) => version.clone(),
        None => chart::version(&source)?,
    };
    let plan = plan(arguments, source, version)?;
    let all = write_all(&plan, arguments)?;
    let files = sums::of_folder(&plan.dist)?.len();
    if arguments.check {
        check(&plan, arguments)?;
    }
    if arguments.check || arguments.try_out {
        trials::run(&plan, &all)?;
    }
    if let Some(key) = &arguments.sign_key {
        let (key, program) = (key.clone(), arguments.minisign.clone());
        Signer { key, program }.sign(&plan.dist, version)?;
    }
    if let Some(prefix) = &arguments.push {
        push::push(&plan.dist, version, prefix)?;
    }
    sizes::print(&all)?;
    if arguments.sizes {
        sizes::print_others()?;
    }
    println!(
        "release: version={version} files={files} seconds={} folder={}",
        start.elapsed().as_secs(),
        plan.dist.display()
    );
    Ok(())
}

fn plan(arguments: &Arguments, source: Source, version: &str) -> Result<Plan> {
    let section = if arguments.trial {
        Section::ReleasedOrUnreleased
    } else {
        Section::Released
    };
    let changes = version::check(&source, version, section)?;
    let commit = source.commit(arguments.trial)?;
    let dist = arguments.dist.clone();
    let dist = dist.unwrap_or_else(|| source.root.join("dist"));
    let repository = arguments.repository.as_deref().unwrap_or(NO_REPOSITORY);
    let repository = repository.trim_end_matches('/').to_owned();
    let downloads = arguments.downloads.clone();
    Ok(Plan {
        downloads: downloads
            .unwrap_or_else(|| format!("{repository}/releases/download/v{version}")),
        source,
        commit,
        version: version.to_owned(),
        changes,
        repository,
        maintainer: arguments.maintainer.clone(),
        dist,
    })
}

/// Builds, and writes all files except the signature.
fn write_all(plan: &Plan, arguments: &Arguments) -> Result<Vec<Built>> {
    let dist = &plan.dist;
    if dist.exists() {
        std::fs::remove_dir_all(dist)
            .with_context(|| format!("cannot remove {}", dist.display()))?;
    }
    std::fs::create_dir_all(dist).with_context(|| format!("cannot make {}", dist.display()))?;
    let targets = if arguments.target.is_empty() {
        &Target::ALL[..]
    } else {
        &arguments.target
    };
    let all = build_all(plan, arguments, targets)?;
    let documents = Documents::make(all.first().context("no platform")?)?;
    for built in &all {
        for bundle in &BUNDLES {
            bundle::write(plan, bundle, built, &documents)?;
            packages::write(plan, bundle, built, &documents)?;
        }
        sbom::write(plan, built)?;
    }
    plan.write("CHANGES.md", format!("{}\n", plan.changes).as_bytes())?;
    image::write(plan, &all)?;
    chart::write(plan)?;
    manifests::write(plan, &all, &sums::of_folder(dist)?)?;
    let sums = sums::of_folder(dist)?;
    let statement = provenance::statement(plan, targets, &arguments.builder, &sums);
    let name = provenance::file_name(&plan.version);
    plan.write(&name, format!("{statement:#}\n").as_bytes())?;
    plan.write(sums::SUMS, sums::text(&sums::of_folder(dist)?).as_bytes())?;
    Ok(all)
}

/// Builds each platform, or takes its binaries, and runs them.
fn build_all(plan: &Plan, arguments: &Arguments, targets: &[Target]) -> Result<Vec<Built>> {
    let mut all = Vec::new();
    for &target in targets {
        let start = Instant::now();
        let built = if arguments.no_build {
            Built {
                target,
                folder: plan.source.target.clone(),
            }
        } else {
            build::build(&plan.source, &plan.commit, target)?
        };
        let seconds = start.elapsed().as_secs();
        eprintln!("release: built {} in {seconds} s", target.triple());
        build::try_out(&built, &plan.version)?;
        all.push(built);
    }
    Ok(all)
}

/// Builds the same files in another folder, from nothing.
fn check(plan: &Plan, arguments: &Arguments) -> Result<()> {
    let folder = tempfile::Builder::new()
        .prefix("cilium-ipam-release-")
        .tempdir()?;
    let again = Plan {
        source: plan.source.copy_to(&folder.path().join("sources"))?,
        dist: folder.path().join("dist"),
        ..plan.clone()
    };
    write_all(&again, arguments)?;
    let count = compare::compare(&plan.dist, &again.dist)?;
    println!("reproducible: files={count} all=equal");
    Ok(())
}
