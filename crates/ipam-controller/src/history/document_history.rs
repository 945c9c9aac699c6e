//! What the documents of a directory said about the subject, from step to step. Each content is
//! parsed once, however many commits have it.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::recorded_states::on_all_cores;
use super::{Found, HistoryQuestion, contents, timelines};
use ipam_config::documents::{Named, Naming, SourceFile, named};
use ipam_config::source::{PathHistory, Repository, Text};
use ipam_doctor::history::{Fact, Said, Subject};

/// Facts that one content of a file states, with their lines.
type SaidInFile = super::SaidInFile<Fact, u32>;

pub(super) fn read(
    question: &HistoryQuestion,
    repository: &Repository,
    past: &PathHistory,
) -> Found<Fact, u32> {
    let mut said: BTreeMap<String, SaidInFile> = BTreeMap::new();
    repository.texts(&contents(past), Repository::LARGEST_FILE, |texts| {
        said.extend(parsed(&question.subject, texts));
    });
    let removed = SaidInFile {
        said: Said::Facts(Arc::default()),
        unread: Vec::new(),
    };
    timelines(past, &removed, &said)
}

fn parsed(subject: &Subject, texts: Vec<(String, Text)>) -> Vec<(String, SaidInFile)> {
    on_all_cores(texts, |(id, text)| (id, said_in(subject, text)))
}

/// The facts of contents; none of those that cannot be read.
pub(super) fn says(subject: &Subject, texts: Vec<(String, Text)>) -> Vec<(String, Vec<Fact>)> {
    let facts = |said: SaidInFile| match said.said {
        Said::Facts(facts) => facts.keys().cloned().collect(),
        Said::Unreadable => Vec::new(),
    };
    let parsed = parsed(subject, texts).into_iter();
    parsed.map(|(id, said)| (id, facts(said))).collect()
}

fn said_in(subject: &Subject, text: Text) -> SaidInFile {
    let text = match text {
        Ok(text) => text,
        Err(why) => return SaidInFile::unreadable(why),
    };
    let file = SourceFile {
        path: Arc::default(),
        text: text.into(),
    };
    let found = match named(&file) {
        Ok(found) => found,
        Err(finding) => {
            let line = finding.origin.as_ref().map_or(1, |origin| origin.line);
            return SaidInFile::unreadable(format!("line {line}: {}", finding.message));
        }
    };
    let mut facts = BTreeMap::new();
    for named in found.named {
        if let Some((fact, line)) = fact(subject, named) {
            facts.entry(fact).or_insert(line);
        }
    }
    SaidInFile {
        said: Said::Facts(Arc::new(facts)),
        unread: found.unread,
    }
}

fn fact(subject: &Subject, named: Named) -> Option<(Fact, u32)> {
    let relation = named.range.and_then(|range| subject.relation(&range));
    let is_named = match (subject, &named.naming) {
        (Subject::Node(subject), Naming::Node(name))
        | (Subject::Service(subject), Naming::Service(name))
        | (Subject::Pool(subject), Naming::Pool(name)) => subject == name,
        _ => false,
    };
    let fact = Fact {
        object: named.document,
        field: named.field.to_owned(),
        value: named.value,
        relation,
    };
    (is_named || relation.is_some()).then_some((fact, named.line))
}
