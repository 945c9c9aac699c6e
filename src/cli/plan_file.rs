//! Plan files: reads them, compares them with the expected plan, and prints their headers. No file
//! that a command writes may take the place of one that it reads, or of another output.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use super::Common;
use super::failure::Failure;
use super::interruption::Terminal;
use crate::render::{Paint, SHOWN_DIGITS, printable};
use ipam_cluster::open_regular;
use ipam_config::source::is_yaml;
use ipam_migrate::migration::ScheduleDocument;
use ipam_plan::plan::{Intent, PlanDocument};

/// Flags that name the expected plan.
#[derive(Debug, clap::Args)]
pub(super) struct Expectation {
    /// Apply only the plan with this digest, without confirmation.
    ///
    /// `plan --out` prints the digest; at least 32 of its 64 digits are required.
    #[arg(long, value_name = "DIGEST")]
    expect_digest: Option<DigestPrefix>,
    /// Refuse a plan file from another directory.
    #[arg(long, hide_short_help = true, value_name = "DIR")]
    directory: Option<PathBuf>,
    /// Apply a plan file without a digest, also without a terminal. Only for a file that no
    /// other user could replace since its review.
    #[arg(long, hide_short_help = true, conflicts_with = "expect_digest")]
    trust_plan_file: bool,
}

/// Longest file that is read, in bytes. A plan of 100,000 nodes has a tenth of it.
const LONGEST: u64 = 1 << 30;

/// Whether an argument is a file, or has the ending of a plan or a schedule and may be a missing one.
pub(super) fn is_named_as_plan(what: &Path) -> bool {
    what.is_file()
        || what
            .extension()
            .is_some_and(|extension| extension == "json")
}

/// What identifies a plan, or the schedule of a migration.
#[derive(Clone, Copy, Debug)]
pub(super) struct Identity<'p> {
    digest: &'p str,
    directory: &'p str,
    /// The commit of its files.
    commit: Option<&'p str>,
}

impl<'p> From<&'p PlanDocument> for Identity<'p> {
    fn from(plan: &'p PlanDocument) -> Identity<'p> {
        Identity {
            digest: &plan.digest,
            directory: &plan.source.directory,
            commit: plan.source.revision.as_deref(),
        }
    }
}

impl<'p> From<&'p ScheduleDocument> for Identity<'p> {
    fn from(schedule: &'p ScheduleDocument) -> Identity<'p> {
        Identity {
            digest: &schedule.digest,
            directory: &schedule.directory,
            commit: schedule.revision.as_deref(),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PlanOrigin {
    /// Saved in a file.
    Earlier,
    /// Planned by this process.
    Now,
    /// The schedule of a migration, saved in a file.
    EarlierSchedule,
    /// The schedule of a migration, made by this process.
    ScheduleNow,
}

impl PlanOrigin {
    fn hint(self) -> &'static str {
        match self {
            PlanOrigin::Earlier => {
                "look at it with `cilium-ipam show FILE`, or plan again and review it"
            }
            PlanOrigin::Now => {
                "the files, the cluster or the flags differ from those of that plan: run `cilium-ipam plan`, review that plan and pass its digest"
            }
            PlanOrigin::EarlierSchedule => {
                "run `cilium-ipam migrate plan --out FILE` again and review it"
            }
            PlanOrigin::ScheduleNow => {
                "the files, the cluster or the flags differ from those of that schedule: run `cilium-ipam migrate plan`, review that schedule and pass its digest"
            }
        }
    }
}

/// Checks that `--revision` names the commit of a saved plan.
pub(super) fn check_commit<'p>(
    saved: impl Into<Identity<'p>>,
    revision: &str,
    commit: Option<&str>,
) -> Result<(), Failure> {
    let saved: Identity<'_> = saved.into();
    if saved.commit == commit {
        return Ok(());
    }
    let made = match saved.commit {
        Some(commit) => format!("the files of commit {commit}"),
        None => "files of no commit".to_owned(),
    };
    let resolved = commit
        .map(|commit| format!(", which is commit {commit}"))
        .unwrap_or_default();
    let what =
        format!("the plan was made from {made}, and --revision asks for `{revision}`{resolved}");
    Err(Failure::Unexpected {
        what,
        hint: "plan again with this revision, and review that plan",
    })
}

/// The first digits of a digest, or all of them.
#[derive(Clone, Debug)]
struct DigestPrefix(String);

/// Digits that a plan shows, and that `--expect-digest` requires: 128 bits. The author of a plan
/// controls its input, so a collision of 64 bits takes seconds.
const SHORTEST: usize = SHOWN_DIGITS;

/// Number of hexadecimal digits of SHA-256.
const WHOLE: usize = 64;

impl FromStr for DigestPrefix {
    type Err = String;

    fn from_str(text: &str) -> Result<DigestPrefix, String> {
        let is_digest = (SHORTEST..=WHOLE).contains(&text.len())
            && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        match is_digest {
            true => Ok(DigestPrefix(text.to_ascii_lowercase())),
            false => Err(format!(
                "expected {SHORTEST} to {WHOLE} hexadecimal digits, as `plan --out` prints them"
            )),
        }
    }
}

impl Expectation {
    /// Whether the digest of the plan is given, which approves it.
    pub(super) fn names_the_plan(&self) -> bool {
        self.expect_digest.is_some()
    }

    /// Refuses a plan file that neither a digest nor a person at a terminal vouches for. Another
    /// job could have replaced the file.
    pub(super) fn check_trust(&self, terminal: Terminal) -> Result<(), Failure> {
        match (self.names_the_plan() || self.trust_plan_file, terminal) {
            (true, _) | (false, Terminal::Present) => Ok(()),
            (false, Terminal::Absent(why)) => Err(Failure::Failed(format!(
                "{why}; nothing was written: pass --expect-digest with the digest of the reviewed plan, or --trust-plan-file if no other user could replace the file"
            ))),
        }
    }

    /// Refuses a plan with another digest.
    pub(super) fn check_digest<'p>(
        &self,
        plan: impl Into<Identity<'p>>,
        made: PlanOrigin,
    ) -> Result<(), Failure> {
        let plan: Identity<'_> = plan.into();
        match &self.expect_digest {
            Some(DigestPrefix(expected)) if !plan.digest.starts_with(expected) => {
                let digest = plan.digest;
                let what = format!(
                    "the plan has the digest {digest}, and --expect-digest asks for {expected}"
                );
                Err(Failure::Unexpected {
                    what,
                    hint: made.hint(),
                })
            }
            _ => Ok(()),
        }
    }

    /// Refuses a plan file of another directory, and the flag without a plan file.
    pub(super) fn check_directory<'p>(
        &self,
        saved: Option<impl Into<Identity<'p>>>,
        made: PlanOrigin,
    ) -> Result<(), Failure> {
        match (&self.directory, saved.map(Into::into)) {
            (Some(expected), Some(saved))
                if !is_same_place(expected, Path::new(saved.directory)) =>
            {
                let expected = expected.display();
                let directory = saved.directory;
                let what = format!(
                    "the plan was made from `{directory}`, and --directory asks for `{expected}`"
                );
                Err(Failure::Unexpected {
                    what,
                    hint: made.hint(),
                })
            }
            (Some(_), None) => {
                let message = "--directory requires a plan file: to apply a directory, name it without the flag";
                Err(Failure::Failed(message.to_owned()))
            }
            _ => Ok(()),
        }
    }
}

/// Whether two paths are the same, even if they do not exist.
pub(super) fn is_same_place(one: &Path, other: &Path) -> bool {
    let same = |one: std::io::Result<PathBuf>, other: std::io::Result<PathBuf>| matches!((one, other), (Ok(one), Ok(other)) if one == other);
    same(std::path::absolute(one), std::path::absolute(other))
        || same(one.canonicalize(), other.canonicalize())
}

/// Reads a plan file. Refuses a damaged or edited one.
pub(super) fn read(file: &Path) -> Result<PlanDocument, Failure> {
    let fault = |error: &dyn std::fmt::Display| {
        Failure::Failed(format!("{} cannot be used: {error}", file.display()))
    };
    let mut text = String::new();
    open_regular(file)
        .and_then(|opened| opened.take(LONGEST + 1).read_to_string(&mut text))
        .map_err(|error| fault(&error))?;
    if text.len() as u64 > LONGEST {
        return Err(fault(&"it is longer than 1 GiB, as no plan is"));
    }
    if ScheduleDocument::read(&text).is_ok() {
        return Err(fault(
            &"it is the schedule of a migration, for `cilium-ipam migrate apply FILE`",
        ));
    }
    PlanDocument::parse(&text).map_err(|error| fault(&error))
}

/// The header of a plan file: everything except its changes.
pub(super) fn introduction(file: &Path, plan: &PlanDocument) -> String {
    let title = match plan.intent {
        Intent::Files => "saved plan",
        Intent::Undo => "undo plan",
    };
    let waivers = if plan.waivers.is_empty() {
        "none".to_owned()
    } else {
        plan.waivers.join(", ")
    };
    let mut lines = vec![("directory", plan.source.directory.as_str())];
    lines.extend(
        plan.source
            .revision
            .as_deref()
            .map(|commit| ("commit", commit)),
    );
    lines.extend([
        ("waivers", waivers.as_str()),
        ("digest", plan.digest.as_str()),
    ]);
    let mut text = format!(
        "{} {}\n",
        Paint::Bold.on(title),
        printable(&file.to_string_lossy())
    );
    lines
        .iter()
        .for_each(|(name, value)| text.push_str(&format!("  {name:10} {}\n", printable(value))));
    text
}

/// The files that a run reads.
pub(super) struct Inputs<'i> {
    files: Vec<(&'static str, PathBuf)>,
    /// The directory of pools, or its only file.
    directory: Option<&'i Path>,
}

impl<'i> Inputs<'i> {
    /// Those that the flags of every command name.
    pub(super) fn of(common: &Common) -> Inputs<'i> {
        let flags = [
            ("--clouds-file", &common.clouds_file),
            ("--neutron-file", &common.neutron_file),
        ];
        let clusters = common.cluster_files.iter().cloned();
        let named = flags
            .into_iter()
            .filter_map(|(flag, file)| Some((flag, file.clone()?)))
            .chain(clusters.map(|file| ("--cluster-file", file)));
        let kubeconfigs = kubeconfigs(common).into_iter();
        Inputs {
            files: named
                .chain(kubeconfigs.map(|file| ("the kubeconfig", file)))
                .collect(),
            directory: None,
        }
    }

    pub(super) fn with_directory(self, directory: &'i Path) -> Inputs<'i> {
        Inputs {
            directory: Some(directory),
            ..self
        }
    }

    pub(super) fn with_plan_file(mut self, file: Option<&Path>) -> Inputs<'i> {
        self.files
            .extend(file.map(|file| ("the plan", file.to_owned())));
        self
    }

    /// Refuses outputs that would replace an input or another output. Each has the name of its flag.
    pub(super) fn check(&self, outputs: &[(&'static str, Option<&Path>)]) -> Result<(), Failure> {
        let mut taken = self.files.clone();
        for (flag, output) in outputs {
            let Some(output) = output else { continue };
            let refused = |why: String| {
                let file = output.display();
                Err(Failure::Failed(format!(
                    "{flag} must not replace `{file}`: {why}; nothing was written: name another file"
                )))
            };
            if let Some((name, _)) = taken.iter().find(|(_, file)| is_same(output, file)) {
                return refused(format!("it is the file of {name}"));
            }
            if let Some(directory) = self.directory.filter(|one| is_read_from(output, one)) {
                return refused(format!("files are read from `{}`", directory.display()));
            }
            taken.push((flag, output.to_path_buf()));
        }
        Ok(())
    }
}

/// The kubeconfig files that a client reads.
fn kubeconfigs(common: &Common) -> Vec<PathBuf> {
    if let Some(file) = &common.kubeconfig {
        return vec![file.clone()];
    }
    match std::env::var_os("KUBECONFIG").filter(|files| !files.is_empty()) {
        Some(files) => std::env::split_paths(&files).collect(),
        None => std::env::home_dir()
            .map(|home| home.join(".kube/config"))
            .into_iter()
            .collect(),
    }
}

/// Whether two names lead to one file, or are one link.
fn is_same(one: &Path, other: &Path) -> bool {
    let places = [place(one), target(one)];
    [place(other), target(other)]
        .into_iter()
        .flatten()
        .any(|other| places.iter().flatten().any(|one| *one == other))
}

/// Whether a name is that of a file that is read from this directory, also through a link.
fn is_read_from(file: &Path, directory: &Path) -> bool {
    let Some(root) = target(directory) else {
        return false;
    };
    let is_read = |path: &PathBuf| path.starts_with(&root) && (root.is_file() || is_yaml(path));
    [place(file), target(file)].iter().flatten().any(is_read)
}

/// Where a name lies. A link stays one.
fn place(file: &Path) -> Option<PathBuf> {
    let absolute = std::path::absolute(file).ok()?;
    Some(target(absolute.parent()?)?.join(absolute.file_name()?))
}

/// Where a name leads to.
fn target(file: &Path) -> Option<PathBuf> {
    std::fs::canonicalize(file).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_has_enough_digits_and_nothing_else() {
        let digits = "0123456789abcdef".repeat(2);
        for good in [&digits, &format!("{digits}AB"), &"a".repeat(64)] {
            assert_eq!(
                good.parse::<DigestPrefix>().unwrap().0,
                good.to_ascii_lowercase()
            );
        }
        for bad in [
            "",
            "0123456789abcdef",
            &"a".repeat(31),
            &"g".repeat(32),
            &format!("sha256:{digits}"),
            &"a".repeat(65),
        ] {
            assert!(bad.parse::<DigestPrefix>().is_err(), "{bad}");
        }
    }

    #[test]
    fn a_place_is_the_same_however_it_is_spelled() {
        for (one, other, is_same) in [
            ("pools", "./pools/", true),
            ("no/such/place", "./no/such//place", true),
            ("src/../src", "src", true),
            ("pools", "examples", false),
        ] {
            assert_eq!(
                is_same_place(Path::new(one), Path::new(other)),
                is_same,
                "{one} {other}"
            );
        }
    }
}
