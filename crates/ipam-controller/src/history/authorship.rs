//! Which commit made a change: itself a step of the branch, or a commit that a merge brought.

use std::collections::{BTreeMap, BTreeSet};

use super::document_history::says;
use super::{Commits, HistoryQuestion};
use ipam_config::source::{BranchStep, Commit, PathHistory, Repository};
use ipam_core::model::Finding;
use ipam_doctor::history::{
    AskedDocument, Edge, Fact, Interval, MergeDocument, Place, pull_request,
};

/// Merges whose branches are searched. The changes of the others are shown as their own.
const MOST_MERGES: usize = 200;

pub(super) struct Authorship<'h> {
    question: &'h HistoryQuestion,
    repository: &'h Repository,
    past: &'h PathHistory,
    shallow: Option<String>,
}

/// What a commit did to a fact.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Deed {
    Added,
    Removed,
}

/// A change whose commit is searched.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Change {
    merge: String,
    /// From the top of the repository.
    path: String,
    fact: Fact,
    deed: Deed,
}

impl<'h> Authorship<'h> {
    pub(super) fn new(
        question: &'h HistoryQuestion,
        repository: &'h Repository,
        past: &'h PathHistory,
        shallow: Option<String>,
    ) -> Authorship<'h> {
        Authorship {
            question,
            repository,
            past,
            shallow,
        }
    }

    /// Intervals of documents that touch the period of the question, with their commits.
    pub(super) fn asked(
        &self,
        intervals: Vec<Interval<Fact, u32>>,
        commits: &mut Commits,
    ) -> Result<Vec<AskedDocument>, Box<Finding>> {
        let time = |step: usize| commits.time(&self.past.steps[step].commit);
        let period = self.question.period;
        let intervals: Vec<_> = intervals
            .into_iter()
            .filter(|one| period.touches(time(one.began), one.ended.map(time)))
            .collect();
        let made_by = self.made_by(&intervals, commits);
        commits.want(made_by.values());
        commits.read(self.repository)?;
        let edge = |deed, one: &Interval<Fact, u32>, step: usize, place: &Place<u32>| {
            let maker = self
                .change(deed, one, step, place)
                .and_then(|change| made_by.get(&change));
            self.edge(step, maker, place, commits)
        };
        let documents = intervals.iter().map(|one| {
            let mut from = edge(Deed::Added, one, one.began, &one.first);
            from.uncertain = self.uncertainty(one);
            let ended = one.ended;
            let until = ended.map(|step| edge(Deed::Removed, one, step, &one.last));
            let Fact {
                object,
                field,
                value,
                relation,
            } = one.fact.clone();
            AskedDocument {
                document: object,
                field,
                value,
                relation,
                from,
                until,
                unread_since: self.unread_since(one).map(|id| commits.shown(id)),
            }
        });
        Ok(documents.collect())
    }

    /// The commit from which on nothing tells whether the interval lasts.
    fn unread_since(&self, one: &Interval<Fact, u32>) -> Option<&str> {
        let next = one.last_seen + 1;
        let is_unread = one.ended != Some(next);
        let step = self.past.steps.get(next).filter(|_| is_unread)?;
        Some(&step.commit)
    }

    fn uncertainty(&self, one: &Interval<Fact, u32>) -> Option<String> {
        let commit = &self.past.steps[one.began].commit;
        if self.shallow.as_ref() == Some(commit) {
            return Some("the clone is shallow, and begins with this commit".to_owned());
        }
        let since = &self.past.steps[one.unread_since?].commit;
        let file = &one.first.file;
        let since = since.get(..12).unwrap_or(since);
        Some(format!("{file} could not be read since commit {since}"))
    }

    fn change(
        &self,
        deed: Deed,
        one: &Interval<Fact, u32>,
        step: usize,
        place: &Place<u32>,
    ) -> Option<Change> {
        let step = &self.past.steps[step];
        let mut changes = step.changes.iter();
        let file = changes.find(|change| change.file == place.file)?;
        Some(Change {
            merge: step.commit.clone(),
            path: file.path.clone(),
            fact: one.fact.clone(),
            deed,
        })
    }

    /// The commit of each change that a merge brought.
    fn made_by(
        &self,
        intervals: &[Interval<Fact, u32>],
        commits: &Commits,
    ) -> BTreeMap<Change, String> {
        let mut branches: BTreeMap<(&str, String), Vec<BranchStep>> = BTreeMap::new();
        let mut changes: Vec<Change> = Vec::new();
        for one in intervals {
            let began = self.change(Deed::Added, one, one.began, &one.first);
            let ended = one
                .ended
                .and_then(|step| self.change(Deed::Removed, one, step, &one.last));
            for change in began.into_iter().chain(ended) {
                let merge = commits.read.get(&change.merge);
                let Some(merge) = merge.filter(|commit| commit.parents.len() > 1) else {
                    continue;
                };
                let key = (merge.id.as_str(), change.path.clone());
                if !branches.contains_key(&key) && branches.len() < MOST_MERGES {
                    let steps = self.repository.brought_by(merge, &change.path);
                    branches.insert(key, steps);
                }
                changes.push(change);
            }
        }
        let said = self.texts_around(&changes, &branches);
        let maker = |change: Change| {
            let steps = branches.get(&(change.merge.as_str(), change.path.clone()))?;
            let maker = steps.iter().find(|step| is_made_by(&change, step, &said))?;
            let maker = maker.commit.clone();
            Some((change, maker))
        };
        changes.into_iter().filter_map(maker).collect()
    }

    /// Which of the facts each content has.
    fn texts_around(
        &self,
        changes: &[Change],
        branches: &BTreeMap<(&str, String), Vec<BranchStep>>,
    ) -> BTreeMap<String, BTreeSet<Fact>> {
        let ids: BTreeSet<String> = branches
            .values()
            .flatten()
            .flat_map(|step| step.before.iter().chain(&step.after))
            .cloned()
            .collect();
        let ids: Vec<String> = ids.into_iter().collect();
        let wanted: BTreeSet<&Fact> = changes.iter().map(|change| &change.fact).collect();
        let mut said = BTreeMap::new();
        self.repository
            .texts(&ids, Repository::LARGEST_FILE, |texts| {
                for (id, facts) in says(&self.question.subject, texts) {
                    let facts = facts.into_iter().filter(|fact| wanted.contains(fact));
                    said.insert(id, facts.collect());
                }
            });
        said
    }

    fn edge(
        &self,
        step: usize,
        maker: Option<&String>,
        place: &Place<u32>,
        commits: &Commits,
    ) -> Edge {
        let of_branch = &self.past.steps[step].commit;
        let request = |id: &str| pull_request(&commits.read.get(id)?.message);
        Edge {
            commit: commits.shown(maker.unwrap_or(of_branch)),
            merge: maker.and_then(|_| merge(commits.read.get(of_branch)?)),
            pull_request: request(of_branch).or_else(|| request(maker?)),
            file: place.file.to_string(),
            line: place.mark,
            uncertain: None,
        }
    }
}

fn is_made_by(change: &Change, step: &BranchStep, said: &BTreeMap<String, BTreeSet<Fact>>) -> bool {
    let has = |id: &Option<String>| {
        let facts = id.as_ref().and_then(|id| said.get(id));
        facts.is_some_and(|facts| facts.contains(&change.fact))
    };
    match change.deed {
        Deed::Added => has(&step.after) && !has(&step.before),
        Deed::Removed => has(&step.before) && !has(&step.after),
    }
}

fn merge(commit: &Commit) -> Option<MergeDocument> {
    Some(MergeDocument {
        id: commit.id.clone(),
        time: commit.committed.map(|time| time.to_string()),
        author: commit.author.clone(),
        subject: commit.subject().to_owned(),
    })
}
