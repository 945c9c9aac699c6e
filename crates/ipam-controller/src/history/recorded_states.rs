//! What the recorded states of a cluster show about the subject: a snapshot that the repository has,
//! commit by commit.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use super::all_cores::on_all_cores;
use super::{Commits, Found, HistoryQuestion, Period, SNAPSHOT, Unread, contents, finished};
use ipam_cluster::{Extent, FileCluster, observe};
use ipam_config::source::{Content, PathHistory, Repository, Text};
use ipam_core::model::{Finding, Origin, Rule, Severity};
use ipam_planner::history::{Fact, Interval, RecordedDocument, Said, Subject, Timeline, recorded};

type Writer = Option<String>;

/// One recorded state, or why it cannot be read.
type State = Result<Arc<BTreeMap<Fact, Writer>>, String>;

/// Largest recorded state, in bytes: several times that of a cluster of 5,000 nodes.
const LARGEST_STATE: u64 = 128 * 1024 * 1024;

pub(super) struct RecordedStates {
    /// The file.
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
    let mut states: BTreeMap<String, State> = BTreeMap::new();
    repository.texts(&contents(&past), LARGEST_STATE, |texts| {
        let subject = &question.subject;
        states.extend(on_all_cores(texts, |(id, text)| (id, state(subject, text))));
    });
    let (mut facts, mut gaps) = (Timeline::default(), Timeline::default());
    for step in &past.steps {
        let changes = step.changes.iter().map(|change| {
            let state = match &change.content {
                // The cluster did not lose anything by it.
                Content::Removed => Err("the file was removed".to_owned()),
                Content::Elsewhere(why) => Err((*why).to_owned()),
                Content::Text(id) => {
                    let unread = || Err("it was not read".to_owned());
                    states.get(id).cloned().unwrap_or_else(unread)
                }
            };
            (change.file.clone(), state)
        });
        let changes: Vec<(Arc<str>, State)> = changes.collect();
        gaps.step(changes.iter().map(|(file, state)| {
            let why = state.as_ref().err();
            let unread = why.map(|why| ((file.clone(), why.clone()), ()));
            let unread: BTreeMap<Unread, ()> = unread.into_iter().collect();
            (file.clone(), Said::Facts(Arc::new(unread)))
        }));
        facts.step(
            changes
                .into_iter()
                .map(|(file, state)| (file, state.map_or(Said::Unreadable, Said::Facts))),
        );
    }
    let found = finished(facts, gaps);
    Ok(RecordedStates { name, past, found })
}

fn no_snapshot(name: &Arc<str>, revision: &str) -> Box<Finding> {
    let message = format!("the history of the Git revision `{revision}` has no file `{name}`");
    let finding = Finding::new(Severity::Error, Rule("unknown-revision"), message);
    let help = "name a file of the repository that `cilium-ipam snapshot --out` wrote";
    Box::new(finding.at(&Origin::whole_file(name), "").help(help))
}

fn state(subject: &Subject, text: Text) -> State {
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    let runtime = runtime.map_err(|error| error.to_string())?;
    let cluster = FileCluster::of_text(Path::new("the snapshot"), text?);
    let cluster = cluster.map_err(|error| error.to_string())?;
    let observed = runtime.block_on(observe(&cluster, Extent::Plan));
    let observed = observed.map_err(|error| error.to_string())?;
    Ok(Arc::new(recorded(subject, &observed)))
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
