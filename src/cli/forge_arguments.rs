//! Flags and environment that name a repository or a pull request, what the pull request has shown
//! by the markers of our comments, and the token for it. The token is never an argument of the
//! command line, where every process of the machine could read it.

use std::fs::File;
use std::io::Read;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::ValueEnum;
use jiff::{SignedDuration, Timestamp};

use super::Common;
use super::failure::Failure;
use crate::render::{Circumstances, Occasion};
use forge::{
    CiEnvironment, Client, ForgeError, Kind, Marker, Outcome, Place, PlainHttp, PullRequest,
    Renewal, Repository, Token, post,
};
use ipam_cluster::open_regular;
use ipam_plan::plan::PlanDocument;

/// Longest event that is read, in bytes. GitHub sends at most 25 MB.
const LONGEST_EVENT: u64 = 32 * 1024 * 1024;

/// Longest file with a token that is read, in bytes.
const LONGEST_TOKEN: u64 = 64 * 1024;

const USER_AGENT: &str = concat!("cilium-ipam/", env!("CARGO_PKG_VERSION"));

/// The forge, and the repository there. In a CI job, its environment has all of it.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct ForgeArguments {
    /// The kind of forge. Default: that of the CI job.
    #[arg(long, hide_short_help = true, value_enum, value_name = "FORGE")]
    forge: Option<ForgeName>,
    /// The address of its API, such as `https://git.example/api/v1`. Default: that of the CI job.
    #[arg(long, hide_short_help = true, value_name = "URL")]
    api_url: Option<String>,
    /// The repository, such as `owner/name`. Default: that of the CI job.
    #[arg(long, hide_short_help = true, value_name = "NAME")]
    repository: Option<String>,
    /// Read the token from this file. Default: `GITHUB_TOKEN`, `GITLAB_TOKEN` or `GITEA_TOKEN`.
    #[arg(long, hide_short_help = true, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Allow an API without TLS on another machine. Others on the way can read the token.
    #[arg(long, hide_short_help = true)]
    allow_plain_http: bool,
}

/// Where a comment goes. In a CI job, its environment has all of it.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct PullRequestArguments {
    #[command(flatten)]
    forge: ForgeArguments,
    /// The number of the pull request or merge request. Default: that of the CI job.
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u64).range(1..))]
    pull_request: Option<u64>,
    /// The last commit of the pull request. If it has another one by now, nothing is posted.
    /// Default: that of the CI job.
    #[arg(long, value_name = "COMMIT")]
    commit: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ForgeName {
    Github,
    Gitlab,
    /// Gitea and Forgejo.
    Gitea,
}

impl From<ForgeName> for Kind {
    fn from(name: ForgeName) -> Kind {
        match name {
            ForgeName::Github => Kind::GitHub,
            ForgeName::Gitlab => Kind::GitLab,
            ForgeName::Gitea => Kind::Gitea,
        }
    }
}

/// A repository of a forge, and a client of the forge's API.
#[derive(Clone)]
pub(super) struct Forge {
    client: Arc<Client>,
    pub(super) repository: Repository,
    patience: Duration,
}

impl Forge {
    /// Asks the forge. `failed` says what was not done if it does not do it.
    pub(super) async fn ask<T: Send + 'static>(
        &self,
        failed: &str,
        work: impl FnOnce(&Client, &Repository, Duration) -> Result<T, ForgeError> + Send + 'static,
    ) -> Result<T, Failure> {
        let Forge {
            client,
            repository,
            patience,
        } = self.clone();
        let answer = tokio::task::spawn_blocking(move || work(&client, &repository, patience));
        let answer = match answer.await {
            Ok(answer) => answer,
            Err(panic) => return Failure::from_panic(panic),
        };
        answer.map_err(|error| Failure::Failed(format!("{failed}: {error}")))
    }
}

/// A pull request, and a client that may comment on it.
pub(super) struct Destination {
    forge: Forge,
    pull_request: PullRequest,
    head: Option<String>,
}

pub(super) fn ci_environment() -> Result<CiEnvironment, Failure> {
    Ok(CiEnvironment::detect(&variable, &|path| {
        let text = read(Path::new(path), LONGEST_EVENT);
        text.map_err(|why| ForgeError::Misconfigured(format!("the event in {path}: {why}")))
    })?)
}

impl ForgeArguments {
    /// The repository. Sends nothing. `otherwise` is the fix if this is not a CI job.
    pub(super) fn open(
        &self,
        around: &CiEnvironment,
        patience: SignedDuration,
        otherwise: &str,
    ) -> Result<Forge, Failure> {
        let kind = self.forge.map(Kind::from).or(around.kind);
        let Some(kind) = kind else {
            return Err(Failure::Failed(otherwise.to_owned()));
        };
        let plain = match self.allow_plain_http {
            true => PlainHttp::Anywhere,
            false => PlainHttp::OnLoopback,
        };
        let api = around.api(kind, self.api_url.as_deref(), plain)?;
        let repository = around.repository(self.repository.as_deref())?;
        let client = Client::new(kind, api, self.token(kind)?, USER_AGENT)?;
        Ok(Forge {
            client: Arc::new(client),
            repository,
            patience: patience.unsigned_abs(),
        })
    }

    fn token(&self, kind: Kind) -> Result<Token, Failure> {
        let Some(file) = &self.token_file else {
            return Ok(Token::of_environment(kind, &variable)?);
        };
        let text = read(file, LONGEST_TOKEN)
            .map_err(|why| Failure::Failed(format!("the token in {}: {why}", file.display())))?;
        Ok(Token::new(&text)?)
    }
}

impl PullRequestArguments {
    /// The last commit of the pull request, if it is known.
    pub(super) fn head(&self) -> Result<Option<String>, Failure> {
        match &self.commit {
            Some(commit) => Ok(Some(commit.clone())),
            None => Ok(ci_environment()?.head),
        }
    }

    /// Where the comment goes. Sends nothing.
    pub(super) fn destination(&self, patience: SignedDuration) -> Result<Destination, Failure> {
        let around = ci_environment()?;
        let otherwise = "no pull request is known: this is not a job of GitHub, GitLab, Gitea or Forgejo; pass --forge, --repository and --pull-request, or --dry-run to print the comment";
        let forge = self.forge.open(&around, patience, otherwise)?;
        let given = self.pull_request.map(PullRequest::Number);
        let Some(pull_request) = given.or(around.pull_request) else {
            return Err(Failure::Failed(
                "the pull request is unknown: the event of this job has none; pass --pull-request"
                    .to_owned(),
            ));
        };
        // The CI's commit is the head of the CI's own pull request, not of one given by a flag.
        let of_ci = match self.pull_request {
            None => around.head,
            Some(_) => None,
        };
        Ok(Destination {
            forge,
            pull_request,
            head: self.commit.clone().or(of_ci),
        })
    }
}

impl Destination {
    /// Makes the text of this time the one comment with this marker.
    pub(super) async fn post(
        self,
        marker: Marker,
        text: String,
        time: String,
    ) -> Result<Outcome, Failure> {
        let Destination {
            forge,
            pull_request,
            head,
        } = self;
        let posting = move |client: &Client, repository: &Repository, patience| {
            let place = Place {
                repository: repository.clone(),
                pull_request,
            };
            // `apply --reviewed` refuses a comment that was edited.
            let renewal = Renewal::Anew { time: &time };
            let head = head.as_deref();
            post(client, &place, &marker, &text, renewal, head, patience)
        };
        forge.ask("the comment was not posted", posting).await
    }
}

impl From<ForgeError> for Failure {
    fn from(error: ForgeError) -> Failure {
        Failure::Failed(error.to_string())
    }
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// The text of a regular file of bounded size.
fn read(path: &Path, longest: u64) -> std::io::Result<String> {
    let mut text = String::new();
    let file: File = open_regular(path)?;
    file.take(longest + 1).read_to_string(&mut text)?;
    match text.len() as u64 > longest {
        true => Err(std::io::Error::other(format!(
            "it is longer than {longest} bytes"
        ))),
        false => Ok(text),
    }
}

const PREFIX: &str = "<!-- cilium-ipam plan ";
const SUFFIX: &str = " -->";

/// The line of an outcome after which the cluster is no longer as it was.
pub(super) const APPLIED: &str = "<!-- cilium-ipam applied -->\n";

/// Hexadecimal digits of SHA-256.
const DIGITS: usize = 64;

/// The subject of a text that `cilium-ipam` writes to a forge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Comment {
    /// The plan of a pull request.
    Plan,
    /// The outcome of the apply of a plan.
    Outcome,
    /// Differences in the cluster.
    Drift,
    /// Differences in the part of the cluster that these flags select.
    DriftOfPart(String),
}

/// The current time, as it is written in texts.
pub(super) fn now() -> String {
    let now = Timestamp::from_second(Timestamp::now().as_second());
    now.map(|now| now.to_string()).unwrap_or_default()
}

/// The facts of a text other than the plan; `time` is that of [`now`].
pub(super) fn circumstances<'c>(
    commit: Option<&'c str>,
    cluster_name: Option<&'c str>,
    common: &'c Common,
    time: &'c str,
    occasion: Occasion,
) -> Circumstances<'c> {
    Circumstances {
        commit,
        cluster: cluster_name.or(common.context.as_deref()),
        time,
        occasion,
        unattended: None,
        check: None,
    }
}

/// The marker for a directory, however it is spelled, and the name of a cluster.
pub(super) fn marker(about: &Comment, directory: &str, cluster_name: Option<&str>) -> Marker {
    let directory = spelled_one_way(directory);
    let cluster = cluster_name.unwrap_or_default();
    match about {
        Comment::Plan => Marker::new(&[&directory, cluster]),
        Comment::Outcome => Marker::new(&[&directory, cluster, "outcome"]),
        Comment::Drift => Marker::new(&[&directory, cluster, "drift"]),
        Comment::DriftOfPart(limit) => Marker::new(&[&directory, cluster, "drift", limit]),
    }
}

/// The directory without `.` and doubled slashes.
fn spelled_one_way(directory: &str) -> String {
    let parts = Path::new(directory).components();
    let parts = parts.filter(|part| *part != Component::CurDir);
    parts.collect::<PathBuf>().to_string_lossy().into_owned()
}

/// The line of a comment that names the plan which it shows. A refused plan cannot be applied.
pub(super) fn hidden_line(plan: &PlanDocument) -> String {
    match plan.refusals.is_empty() {
        true => format!("{PREFIX}{}{SUFFIX}\n", plan.substance()),
        false => String::new(),
    }
}

/// The plan that a comment shows. Only the line after the marker counts: below it are names from
/// files.
pub(super) fn shown_plan(comment: &str) -> Option<&str> {
    let line = comment.lines().nth(1)?.trim_end();
    let digest = line.strip_prefix(PREFIX)?.strip_suffix(SUFFIX)?;
    let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    (digest.len() == DIGITS && digest.bytes().all(is_digit)).then_some(digest)
}

/// Whether an outcome has [`APPLIED`] after the marker.
pub(super) fn tells_of_an_apply(outcome: &str) -> bool {
    outcome.lines().nth(1).map(str::trim_end) == Some(APPLIED.trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_has_one_comment_however_it_is_spelled() {
        for same in ["a/pools", "./a/pools/", "a//pools", "a/./pools"] {
            assert_eq!(spelled_one_way(same), "a/pools", "{same}");
        }
        assert_ne!(spelled_one_way("/a/pools"), "a/pools");
    }

    #[test]
    fn only_the_second_line_names_the_plan() {
        let digest = "0a".repeat(32);
        let line = format!("{PREFIX}{digest}{SUFFIX}");
        let named = |text: &str| shown_plan(text).map(str::to_owned);
        assert_eq!(
            named(&format!("marker\n{line}\ntext")),
            Some(digest.clone())
        );
        assert_eq!(named(&format!("marker\r\n{line}\r\ntext")), Some(digest));
        for text in [
            format!("{line}\nmarker"),
            format!("marker\ntext\n{line}"),
            format!("marker\n> {line}"),
            format!("marker\n{PREFIX}0a{SUFFIX}"),
            format!("marker\n{PREFIX}{}{SUFFIX}", "0A".repeat(32)),
        ] {
            assert_eq!(named(&text), None, "{text}");
        }
    }
}
