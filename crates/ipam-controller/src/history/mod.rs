//! Joins Git and the pure history: reads the past of a directory and of a snapshot, and makes the
//! intervals in which documents and recorded states named a subject. Reads reports of applies
//! beside them. Prints nothing.

mod authorship;
mod document_history;
mod recorded_states;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

use jiff::Timestamp;

use self::authorship::Authorship;
use ipam_config::source::{Commit, Content, FileChange, PathHistory, Repository};
use ipam_core::model::Finding;
use ipam_doctor::history::{
    Beginning, CommitDocument, GapDocument, HistoryDocument, Interval, Said, Shallow, Subject,
    Timeline,
};

/// Default file of recorded states. The CI files that `init` writes use this file.
const SNAPSHOT: &str = "cluster.json";

/// A question about the past of an object or of addresses.
#[derive(Clone, Debug)]
pub struct HistoryQuestion {
    pub subject: Subject,
    pub directory: PathBuf,
    /// The Git revision with which the history ends.
    pub revision: String,
    /// The file of recorded states; `None` is `cluster.json` at the top of the repository.
    pub snapshot: Option<PathBuf>,
    /// Paths of reports of applies, or of folders of reports.
    pub applied: Vec<PathBuf>,
    pub period: Period,
}

/// The period of the question. `None` means no limit on this side.
#[derive(Clone, Copy, Debug, Default)]
pub struct Period {
    pub since: Option<Timestamp>,
    pub until: Option<Timestamp>,
}

impl Period {
    /// Whether an interval from `began` to `ended` overlaps the period. An unknown time counts as
    /// overlapping.
    fn touches(self, began: Option<Timestamp>, ended: Option<Option<Timestamp>>) -> bool {
        let ended = ended.flatten();
        let is_before = self
            .since
            .zip(ended)
            .is_some_and(|(since, ended)| ended < since);
        let is_after = self
            .until
            .zip(began)
            .is_some_and(|(until, began)| began > until);
        !is_before && !is_after
    }
}

/// Reads the history. Blocks the thread.
///
/// # Errors
/// Fails if the directory has no Git history that can be read.
pub fn history(question: &HistoryQuestion) -> Result<HistoryDocument, Box<Finding>> {
    let repository = Repository::open(&question.directory, &question.revision)?;
    let past = repository.of_directory()?;
    let shallow = repository.cut_off()?;
    let found = document_history::read(question, &repository, &past);
    let states = recorded_states::read(question, &repository)?;
    let mut commits = Commits::default();
    let last = repository.commit.clone();
    commits.want([&last, &past.steps[0].commit]);
    commits.of_intervals(&past, &found.intervals);
    commits.of_intervals(&past, &found.gaps);
    commits.of_intervals(&states.past, &states.found.intervals);
    commits.of_intervals(&states.past, &states.found.gaps);
    commits.read(&repository)?;
    let begins = beginning(&repository, &past, shallow.clone(), &commits);
    let directory = question.directory.display().to_string();
    let subject = question.subject.to_string();
    let mut document = HistoryDocument::new(subject, directory, commits.shown(&last), begins);
    let authorship = Authorship::new(question, &repository, &past, shallow);
    document.asked = authorship.asked(found.intervals, &mut commits)?;
    document.snapshots = states.count();
    document.unread = gaps(question.period, &past, found.gaps, &commits);
    let unread = gaps(question.period, &states.past, states.found.gaps, &commits);
    document.unread.extend(unread);
    document.snapshot = (document.snapshots > 0).then(|| states.name.to_string());
    document.recorded = recorded_states::documents(
        question.period,
        &states.past,
        states.found.intervals,
        &commits,
    );
    recorded_states::add(question, &mut document);
    Ok(document)
}

fn beginning(
    repository: &Repository,
    past: &PathHistory,
    shallow: Option<String>,
    commits: &Commits,
) -> Beginning {
    let first = &past.steps[0].commit;
    let is_cut_off = shallow.as_ref() == Some(first);
    Beginning {
        commit: commits.shown(first),
        moved_from: match is_cut_off {
            true => Vec::new(),
            false => repository.moved_from(first),
        },
        shallow: shallow.map(|commit| Shallow { commit }),
    }
}

/// A place that cannot be read: the file and the reason.
type Unread = (Arc<str>, String);

/// Intervals of facts, and of what could not be read.
struct Found<K, M> {
    intervals: Vec<Interval<K, M>>,
    gaps: Vec<Interval<Unread, ()>>,
}

/// What one version of a file says: facts with their marks, such as lines, and parts that cannot be
/// read.
#[derive(Clone)]
struct SaidInFile<K, M> {
    said: Said<K, M>,
    unread: Vec<String>,
}

impl<K, M> SaidInFile<K, M> {
    fn unreadable(why: impl Into<String>) -> SaidInFile<K, M> {
        SaidInFile {
            said: Said::Unreadable,
            unread: vec![why.into()],
        }
    }
}

/// The texts of a history, newest first: if they are too large together, the oldest stay unread.
fn contents(past: &PathHistory) -> Vec<String> {
    let changes = past.steps.iter().rev().flat_map(|step| &step.changes);
    let mut seen = BTreeSet::new();
    let ids = changes.filter_map(|change| match &change.content {
        Content::Text(id) => seen.insert(id).then(|| id.clone()),
        Content::Removed | Content::Elsewhere(_) => None,
    });
    ids.collect()
}

fn gaps(
    period: Period,
    past: &PathHistory,
    gaps: Vec<Interval<Unread, ()>>,
    commits: &Commits,
) -> Vec<GapDocument> {
    let at = |step: usize| commits.shown(&past.steps[step].commit);
    let time = |step: usize| commits.time(&past.steps[step].commit);
    let gaps = gaps.into_iter();
    let gaps = gaps.filter(|gap| period.touches(time(gap.began), gap.ended.map(time)));
    gaps.map(|gap| GapDocument {
        file: gap.fact.0.to_string(),
        why: gap.fact.1,
        from: at(gap.began),
        until: gap.ended.map(at),
    })
    .collect()
}

/// A timeline of what cannot be read, beside that of the facts. `read` has the contents by their
/// ids, and `removed` is what a removed file says.
fn timelines<K: Ord + Clone, M: Clone>(
    past: &PathHistory,
    removed: &SaidInFile<K, M>,
    read: &BTreeMap<String, SaidInFile<K, M>>,
) -> Found<K, M> {
    let (mut facts, mut gaps) = (Timeline::default(), Timeline::default());
    for step in &past.steps {
        let (mut said, mut unread) = (Vec::new(), Vec::new());
        for FileChange { file, content, .. } in &step.changes {
            let found = match content {
                Content::Removed => removed.clone(),
                Content::Elsewhere(why) => SaidInFile::unreadable(*why),
                Content::Text(id) => {
                    let unread = || SaidInFile::unreadable("it was not read");
                    read.get(id).cloned().unwrap_or_else(unread)
                }
            };
            let whys = found.unread.into_iter();
            let whys = whys.map(|why| ((file.clone(), why), ())).collect();
            unread.push((file.clone(), Said::Facts(Arc::new(whys))));
            said.push((file.clone(), found.said));
        }
        gaps.step(unread);
        facts.step(said);
    }
    Found {
        intervals: facts.finish(),
        gaps: gaps.finish(),
    }
}

/// Commits by their ids. Wanted ones are collected first, and then read together.
#[derive(Default)]
struct Commits {
    wanted: BTreeSet<String>,
    read: BTreeMap<String, Commit>,
}

impl Commits {
    fn want<'i>(&mut self, ids: impl IntoIterator<Item = &'i String>) {
        let new = ids.into_iter().filter(|id| !self.read.contains_key(*id));
        self.wanted.extend(new.cloned());
    }

    fn of_intervals<K, M>(&mut self, past: &PathHistory, intervals: &[Interval<K, M>]) {
        for interval in intervals {
            let unread = interval.unread_since;
            let not_yet = unread.unwrap_or(interval.began).checked_sub(1);
            let steps = [interval.began, interval.last_seen, interval.last_seen + 1];
            let steps = steps.into_iter().chain(interval.ended);
            let steps = steps.chain(unread).chain(not_yet);
            self.want(steps.filter_map(|step| Some(&past.steps.get(step)?.commit)));
        }
    }

    fn read(&mut self, repository: &Repository) -> Result<(), Box<Finding>> {
        let wanted = std::mem::take(&mut self.wanted);
        let ids: Vec<&str> = wanted.iter().map(String::as_str).collect();
        self.read.extend(repository.commits(&ids)?);
        Ok(())
    }

    fn time(&self, id: &str) -> Option<Timestamp> {
        self.read.get(id)?.committed
    }

    fn shown(&self, id: &str) -> CommitDocument {
        let commit = self.read.get(id);
        CommitDocument {
            id: id.to_owned(),
            time: self.time(id).map(|time| time.to_string()),
            author: commit.map(|one| one.author.clone()).unwrap_or_default(),
            email: commit.map(|one| one.email.clone()).unwrap_or_default(),
            subject: commit
                .map(|one| one.subject().to_owned())
                .unwrap_or_default(),
        }
    }
}
