//! `init`: writes a directory of pools, from a few answers and the cluster, such that nodes keep
//! their blocks.

mod ci;
mod questions;
mod trial;
pub(super) mod words;
mod yaml;

use std::path::{Path, PathBuf};

use self::ci::{CiSystem, Repository};
use self::questions::Questions;
use self::trial::Trial;
use super::failure::Failure;
use super::new_files::{self, NewFile, exists, write_all, wrote};
use super::target::read_cluster;
use super::{Common, ExitStatus, output};
use crate::render::printable;
use ipam_cilium::observed::{ModeSeen, Observed};
use ipam_cluster::Extent;
use ipam_config::documents::editor_schema;
use ipam_config::source::{Location, read};
use ipam_core::model::IpamMode;
use ipam_core::net::{Block, Family};
use ipam_import::proposal::{
    CidrSource, Proposal, ProposalOptions, Split, Suggestion, propose, suggest,
};
use ipam_plan::plan::{BlockedReason, WritePathObstacle};
use serde_json::Value;

/// The schema for editors, below the directory. Names that begin with a dot are no pools.
const SCHEMA: &str = ".cilium-ipam/schema.json";

#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// The directory to write.
    #[arg(value_name = "DIR", default_value = "pools", value_hint = clap::ValueHint::DirPath)]
    directory: PathBuf,
    /// CIDRs of the pods, IPv4 and IPv6. Default: those of the cluster.
    #[arg(long = "cidr", value_name = "LIST", value_delimiter = ',', value_parser = words::cidr)]
    cidrs: Vec<Block>,
    /// The node label whose values get a pool each, such as `rack` or `rack=a,b`; `none` for one
    /// pool. Default: a label of racks or zones of the cluster.
    #[arg(long, value_name = "LABEL", value_parser = words::split)]
    split_by: Option<Split>,
    /// Prefix length of each node's block, such as `24` or `24,120`. Over 32 it is of IPv6.
    /// Default: what nodes hold now, or `24,120`.
    #[arg(long, value_name = "LIST", value_parser = words::sizes)]
    block_size: Option<words::Sizes>,
    /// The CI system that checks pull requests; `gitea` is for Forgejo, too. Default: that of the
    /// repository.
    #[arg(long, value_enum)]
    ci: Option<CiSystem>,
    /// Do not read a cluster.
    #[arg(long)]
    offline: bool,
}

pub(super) async fn run(arguments: &Arguments, common: &Common) -> Result<ExitStatus, Failure> {
    let directory = &arguments.directory;
    let repository = Repository::around(directory)?;
    if let (Some(first), Some(ci)) = (existing(directory), arguments.ci) {
        return arguments.add_ci(&first, ci, &repository);
    }
    refuse_existing(directory)?;
    let mut questions = Questions::new(common);
    let observed = arguments.observe(common, &mut questions).await?;
    if let Some(observed) = &observed {
        refuse_unserved(observed)?;
    }
    let known = observed.clone().unwrap_or_default();
    let suggestion = suggest(&known);
    let options = arguments
        .options(&mut questions, &suggestion, observed.as_ref())
        .await?;
    let ci = match arguments.ci {
        Some(ci) => ci,
        None => questions.ci(repository.usual_ci()).await?,
    };
    let proposal = propose(&known, &options);
    if proposal.pools.is_empty() {
        return Err(Failure::Failed(
            "no free address is left in the CIDRs: name others with --cidr".to_owned(),
        ));
    }
    let mut files = files(directory, &proposal, &options.split)?;
    let trial = Trial::of(directory, &files, observed.as_ref(), common.detail())?;
    files.extend(repository.ci_file(ci, &trial.fail_on)?);
    write_all(&files)?;
    remark(&suggestion, &options, &proposal, &trial);
    report(&files, &trial, observed.as_ref(), &options, common)?;
    next_steps(directory, ci, &repository, observed.is_some(), common)?;
    Ok(ExitStatus::Done)
}

/// The first file of the directory.
fn existing(directory: &Path) -> Option<PathBuf> {
    let found = directory
        .is_dir()
        .then(|| read(&Location::from(directory)))?;
    let first = found.documents.files.first()?;
    Some(PathBuf::from(&*first.path))
}

/// The directory may exist, but without pools: others would overlap them.
fn refuse_existing(directory: &Path) -> Result<(), Failure> {
    match existing(directory) {
        Some(file) => Err(exists(&file)),
        None => Ok(()),
    }
}

/// Fails in an IPAM mode in which nothing of the pools could be written.
pub(super) fn refuse_unserved(observed: &Observed) -> Result<(), Failure> {
    let obstacle = match observed.cilium.mode() {
        ModeSeen::Known(IpamMode::Kubernetes | IpamMode::ClusterPool | IpamMode::MultiPool)
        | ModeSeen::NoSettings => return Ok(()),
        ModeSeen::Known(mode) => WritePathObstacle::UnsupportedIpamMode(mode),
        ModeSeen::Unknown(mode) => WritePathObstacle::ModeUnknown(mode),
    };
    let reason = BlockedReason::WritePath(obstacle);
    Err(Failure::Failed(format!(
        "{reason}: pools for nodes have no effect, so nothing was written. cilium-ipam serves ipam `kubernetes`, `cluster-pool` and `multi-pool`. Its LoadBalancer pools work in every mode: put `CiliumLoadBalancerIPPool`s into a directory and run `cilium-ipam plan`. To write pools for another cluster, pass --offline"
    )))
}

impl Arguments {
    /// Writes the CI file alone, for a directory that has pools.
    fn add_ci(
        &self,
        first: &Path,
        ci: CiSystem,
        repository: &Repository,
    ) -> Result<ExitStatus, Failure> {
        let is_about_pools =
            !self.cidrs.is_empty() || self.split_by.is_some() || self.block_size.is_some();
        let file = repository.ci_file(ci, &trial::fail_on(None))?;
        let Some(file) = file.filter(|_| !is_about_pools) else {
            return Err(exists(first));
        };
        let files = [file];
        let mut text = wrote(&files);
        write_all(&files)?;
        if let Some(snapshot) = repository.snapshot_step(ci, "") {
            let steps = [(snapshot, "for the plan in CI; commit the file")];
            text += &format!("\n{}", new_files::next_steps(&steps));
        }
        text += &repository.include_hint(ci);
        output::human(&text)?;
        Ok(ExitStatus::Done)
    }

    /// The cluster; `None` without one.
    async fn observe(
        &self,
        common: &Common,
        questions: &mut Questions,
    ) -> Result<Option<Observed>, Failure> {
        if self.offline {
            return Ok(None);
        }
        match read_cluster(common, Extent::Plan).await {
            Ok(observed) => Ok(Some(observed)),
            Err(Failure::Cluster(error)) if common.cluster_files.is_empty() => {
                output::warn(&printable(&error.to_string()));
                questions.continue_offline().await?;
                Ok(None)
            }
            Err(other) => Err(other),
        }
    }

    async fn options(
        &self,
        questions: &mut Questions,
        suggestion: &Suggestion,
        observed: Option<&Observed>,
    ) -> Result<ProposalOptions, Failure> {
        let cidrs = match self.cidrs.is_empty() {
            true => questions.cidrs(suggestion).await?,
            false => words::distinct(self.cidrs.clone()).map_err(Failure::Failed)?,
        };
        let split = match &self.split_by {
            Some(split) => split.clone(),
            None => questions.split(suggestion, observed).await?,
        };
        let split = words::known_split(split, suggestion, observed).map_err(Failure::Failed)?;
        let given = match self.block_size {
            Some(given) => given,
            None => questions.sizes(suggestion, &cidrs).await?,
        };
        let sizes = words::sizes_for(&cidrs, given, &suggestion.sizes).map_err(Failure::Failed)?;
        Ok(ProposalOptions {
            cidrs,
            split,
            sizes,
        })
    }
}

/// The files in the directory. The pools come last: without them the rest has no effect.
fn files(directory: &Path, proposal: &Proposal, split: &Split) -> Result<Vec<NewFile>, Failure> {
    let schema: Value = editor_schema(None);
    let file = |name: &str, text: String| NewFile {
        path: directory.join(name),
        text,
    };
    Ok(vec![
        file(SCHEMA, output::json_text(&schema)?),
        file("policy.yaml", yaml::policy(proposal, split)?),
        file("pools.yaml", yaml::pools(directory, proposal, split)?),
    ])
}

/// Prints what a person should know before the plan.
fn remark(suggestion: &Suggestion, options: &ProposalOptions, proposal: &Proposal, trial: &Trial) {
    output::talk(&trial.diagnostics);
    let guessed = match suggestion.source {
        CidrSource::Usual => Some("a usual range"),
        CidrSource::HeldBlocks => Some("around the blocks that nodes hold"),
        CidrSource::Cilium | CidrSource::ControllerManager => None,
    };
    let guessed = guessed.filter(|_| options.cidrs == suggestion.cidrs);
    let guessed = guessed.map(|source| {
        format!("the CIDRs are {source}: make sure that nothing else in your network uses them")
    });
    let remarks = proposal.remarks.iter().map(ToString::to_string);
    for remark in guessed
        .into_iter()
        .chain(remarks)
        .chain(trial.blocked.iter().cloned())
    {
        output::note(&remark);
    }
}

fn report(
    files: &[NewFile],
    trial: &Trial,
    observed: Option<&Observed>,
    options: &ProposalOptions,
    common: &Common,
) -> Result<(), Failure> {
    let mut text = wrote(files);
    if let Some(headline) = &trial.headline {
        text += &format!("\nThe plan for this cluster{}:\n  {headline}\n", of(common));
    } else if observed.is_none() {
        text += "\nNo cluster was read: compare the CIDRs with what your nodes hold.\n";
        if options
            .cidrs
            .iter()
            .all(|cidr| cidr.family() == Family::Ipv4)
        {
            text +=
                "They are of IPv4 only; --cidr adds IPv6, as in `--cidr 10.0.0.0/16,fd00::/48`.\n";
        }
    }
    output::human(&text)?;
    Ok(())
}

fn of(common: &Common) -> String {
    let files = common.cluster_files.iter();
    let files: Vec<String> = files.map(|file| file.display().to_string()).collect();
    match files.is_empty() {
        true => String::new(),
        false => format!(" in {}", printable(&files.join(" and "))),
    }
}

fn next_steps(
    directory: &Path,
    ci: CiSystem,
    repository: &Repository,
    is_read: bool,
    common: &Common,
) -> Result<(), Failure> {
    let directory = words::shell(&directory.to_string_lossy());
    let flags = match is_read {
        true => common.flags(),
        false => String::new(),
    };
    let mut steps = vec![
        (
            format!("cilium-ipam validate {directory}"),
            "check the files",
        ),
        (
            format!("cilium-ipam plan {directory}{flags}"),
            "show what would change, and why",
        ),
        (
            format!("cilium-ipam apply {directory}{flags}"),
            "show it, ask, and carry it out",
        ),
    ];
    if let Some(snapshot) = repository.snapshot_step(ci, &flags) {
        steps.push((snapshot, "for the plan in CI; commit the file"));
    }
    let (steps, hint) = (new_files::next_steps(&steps), repository.include_hint(ci));
    output::human(&format!("\n{steps}{hint}"))?;
    Ok(())
}
