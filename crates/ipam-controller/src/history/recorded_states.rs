//! What the records of a cluster show about the subject: a snapshot that the repository has, read
//! commit by commit on all cores, and the reports of applies, in files that a person names.

use std::collections::BTreeMap;
use std::io::Read;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{Commits, Found, HistoryQuestion, Period, SNAPSHOT, SaidInFile, contents, timelines};
use ipam_cluster::{Extent, FileCluster, observe, open_regular};
use ipam_config::source::{Content, PathHistory, Repository, Text};
use ipam_core::model::{Finding, Origin, Rule, Severity};
use ipam_doctor::history::{
    AppliedDocument, ApplyReport, Fact, HistoryDocument, Interval, RecordedDocument, Said, Subject,
    UnreadReport, recorded,
};

type Writer = Option<String>;

/// Largest recorded state, in bytes: several times that of a cluster of 5,000 nodes.
const LARGEST_STATE: u64 = 128 * 1024 * 1024;

pub(super) struct RecordedStates {
    /// Path of the file with the recorded states.
    pub(super) name: Arc<str>,
    pub(super) past: PathHistory,
    pub(super) found: Found<Fact, Writer>,
}

impl RecordedStates {
    /// Commits that recorded a state.
    pub(super) fn count(&self) -> usize {
        let changes = self.past.steps.iter().flat_map(|step| &step.changes);
        let recorded = changes.filter(|change| matches!(change.content, Content::Text(_)));
        recorded.count()
    }
}

pub(super) fn read(
    question: &HistoryQuestion,
    repository: &Repository,
) -> Result<RecordedStates, Box<Finding>> {
    let (path, name): (String, Arc<str>) = match &question.snapshot {
        None => (SNAPSHOT.to_owned(), SNAPSHOT.into()),
        Some(file) => (repository.path_of(file)?, file.display().to_string().into()),
    };
    let past = repository.of_file(&path, &name)?;
    if past.steps.is_empty() && question.snapshot.is_some() {
        return Err(no_snapshot(&name, &question.revision));
    }
    let subject = &question.subject;
    let said = |text: Text| match state(subject, text) {
        Ok(facts) => SaidInFile {
            said: Said::Facts(Arc::new(facts)),
            unread: Vec::new(),
        },
        Err(why) => SaidInFile::unreadable(why),
    };
    let mut states = BTreeMap::new();
    repository.texts(&contents(&past), LARGEST_STATE, |texts| {
        states.extend(on_all_cores(texts, |(id, text)| (id, said(text))));
    });
    // Removing the file does not mean that the cluster lost an object.
    let removed = SaidInFile::unreadable("the file was removed");
    let found = timelines(&past, &removed, &states);
    Ok(RecordedStates { name, past, found })
}

fn no_snapshot(name: &Arc<str>, revision: &str) -> Box<Finding> {
    let message = format!("the history of the Git revision `{revision}` has no file `{name}`");
    let finding = Finding::new(Severity::Error, Rule("unknown-revision"), message);
    let help = "name a file of the repository that `cilium-ipam snapshot --out` wrote";
    Box::new(finding.at(&Origin::whole_file(name), "").help(help))
}

/// One recorded state, or why it cannot be read.
fn state(subject: &Subject, text: Text) -> Result<BTreeMap<Fact, Writer>, String> {
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    let runtime = runtime.map_err(|error| error.to_string())?;
    let cluster = FileCluster::of_text(Path::new("the snapshot"), text?);
    let cluster = cluster.map_err(|error| error.to_string())?;
    let observed = runtime.block_on(observe(&cluster, Extent::Plan));
    let observed = observed.map_err(|error| error.to_string())?;
    Ok(recorded(subject, &observed))
}

/// The intervals that touch the period.
pub(super) fn documents(
    period: Period,
    past: &PathHistory,
    intervals: Vec<Interval<Fact, Writer>>,
    commits: &Commits,
) -> Vec<RecordedDocument> {
    let at = |step: usize| commits.shown(&past.steps[step].commit);
    let time = |step: usize| commits.time(&past.steps[step].commit);
    let intervals = intervals.into_iter();
    let intervals = intervals.filter(|one| period.touches(time(one.began), one.ended.map(time)));
    intervals
        .map(|one| {
            let not_yet = one.unread_since.unwrap_or(one.began).checked_sub(1);
            RecordedDocument {
                object: one.fact.object,
                field: one.fact.field,
                value: one.fact.value,
                relation: one.fact.relation,
                not_yet: not_yet.map(at),
                first_seen: at(one.began),
                last_seen: at(one.last_seen),
                gone: one.ended.map(at),
                written_by: one.last.mark,
            }
        })
        .collect()
}

/// The stack of a thread, in bytes. A parser recurses as deep as a file is nested.
const STACK: usize = 16 * 1024 * 1024;

/// The results, in the order of the items. If the system gives no thread, those of its share are
/// missing.
pub(super) fn on_all_cores<T: Send, R: Send>(items: Vec<T>, job: impl Fn(T) -> R + Sync) -> Vec<R> {
    let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
    let share = items.len().div_ceil(cores).max(1);
    let mut items = items.into_iter().peekable();
    let (mut shares, job) = (Vec::new(), &job);
    while items.peek().is_some() {
        shares.push(items.by_ref().take(share).collect::<Vec<T>>());
    }
    std::thread::scope(|scope| {
        let threads: Vec<_> = shares
            .into_iter()
            .filter_map(|share| {
                let thread = std::thread::Builder::new().stack_size(STACK);
                let work = move || share.into_iter().map(job).collect::<Vec<R>>();
                thread.spawn_scoped(scope, work).ok()
            })
            .collect();
        let results = threads.into_iter().filter_map(|thread| thread.join().ok());
        results.flatten().collect()
    })
}

/// Largest report, in bytes: several times that of an apply to 100,000 nodes.
const LARGEST: u64 = 128 * 1024 * 1024;

/// Limit of the files that are read of one folder.
const FILES: usize = 100_000;

/// Adds the changes in the reports of `apply` to the history, the earliest first.
pub(super) fn add(question: &HistoryQuestion, document: &mut HistoryDocument) {
    let mut unread = Vec::new();
    for named in &question.applied {
        for file in files(named, &mut unread) {
            let name = file.display().to_string();
            match read_report(&file) {
                Ok(report) => {
                    document.reports += 1;
                    if is_in(question.period, &report) {
                        let found = report.about(&question.subject, &name);
                        document.applied.extend(found);
                    }
                }
                Err(why) => unread.push(UnreadReport { file: name, why }),
            }
        }
    }
    let order = |one: &AppliedDocument| (one.time.clone(), one.object.clone());
    document.applied.sort_by_cached_key(order);
    document.unread_reports = unread;
}

/// The file, or the JSON files of the folder in order.
fn files(named: &Path, unread: &mut Vec<UnreadReport>) -> Vec<PathBuf> {
    let mut fail = |why: String| {
        let file = named.display().to_string();
        unread.push(UnreadReport { file, why });
    };
    if !named.is_dir() {
        return vec![named.to_owned()];
    }
    let listed = match named.read_dir() {
        Ok(listed) => listed,
        Err(error) => {
            fail(error.to_string());
            return Vec::new();
        }
    };
    let is_json = |file: &PathBuf| file.extension().is_some_and(|text| text == "json");
    let mut files: Vec<PathBuf> = Vec::new();
    for entry in listed {
        match entry {
            Ok(entry) => files.extend(Some(entry.path()).filter(is_json)),
            Err(error) => fail(error.to_string()),
        }
    }
    files.sort();
    if files.len() > FILES {
        fail(format!(
            "it has more than {FILES} files; the later ones are not read"
        ));
        files.truncate(FILES);
    }
    files
}

fn read_report(file: &Path) -> Result<ApplyReport, String> {
    let opened = open_regular(file).map_err(|error| error.to_string())?;
    let mut text = String::new();
    let read = opened.take(LARGEST + 1).read_to_string(&mut text);
    read.map_err(|error| error.to_string())?;
    if text.len() as u64 > LARGEST {
        return Err(format!("it is longer than {LARGEST} bytes"));
    }
    ApplyReport::read(&text).map_err(|error| format!("it is no report of an apply: {error}"))
}

fn is_in(period: Period, report: &ApplyReport) -> bool {
    period.touches(Some(report.began), Some(Some(report.began)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_in_the_order_of_the_items() {
        for count in [0, 1, 2, 7, 100] {
            let items: Vec<usize> = (0..count).collect();
            assert_eq!(on_all_cores(items.clone(), |item| item), items);
        }
    }
}
