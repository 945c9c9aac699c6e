//! The answer to each question, as text of bounded length. Reads the files and the cluster for each
//! one. Must never write, and never know the protocol.

use super::tools::{
    ExplainQuestion, MapQuestion, PlanQuestion, Question, SimulateQuestion, SimulatedFile,
    SimulatedNodes,
};
use crate::cli::Common;
use crate::cli::base::planned;
use crate::cli::capacity::counted;
use crate::cli::doctor::examined;
use crate::cli::explain::explained;
use crate::cli::failure::Failure;
use crate::cli::files::Files;
use crate::cli::show::read_and_plan;
use crate::cli::target::{read, read_beside, read_cluster};
use crate::render::map::area_list;
use crate::render::{
    Detail, PageLimit, capacity_markdown, examination_markdown, explanation, markdown,
    simulation_markdown,
};
use ipam_cilium::observed::Observed;
use ipam_cluster::Extent;
use ipam_config::source::{Replacement, read_replaced};
use ipam_controller::{Job, Loaded, Scope, check_documents, load};
use ipam_core::model::{Selector, ServiceName};
use ipam_core::net::{Range, RangeError};
use ipam_desired::Desired;
use ipam_doctor::doctor::conclusions;
use ipam_doctor::map::AddressMap;
use ipam_plan::capacity::CapacityDocument;
use ipam_plan::plan::{Selected, Selection};
use ipam_plan::simulate::{Group, NodesChange, SimulationDocument, simulate};

/// Longest last line of an answer that is cut, in bytes.
const LONGEST_REST: usize = 100;

/// The directory and the cluster of all questions.
pub(super) struct Subject {
    pub(super) files: Files,
    pub(super) common: Common,
}

impl Subject {
    pub(super) async fn answer(&self, question: Question) -> Result<String, Failure> {
        let answer = match question {
            Question::Plan(question) => self.plan(&question).await,
            Question::Simulate(question) => self.simulate(question).await,
            Question::Capacity => self.capacity().await,
            Question::Doctor => self.doctor().await,
            Question::Explain(question) => self.explain(&question).await,
            Question::Map(question) => self.map(&question).await,
        };
        answer.map(limited)
    }

    async fn plan(&self, question: &PlanQuestion) -> Result<String, Failure> {
        let location = self.files.location();
        let (loaded, observed) = read(location, &self.common, Extent::Plan, Scope::Ports).await?;
        self.shown(&loaded, observed, &question.targets)
    }

    async fn simulate(&self, question: SimulateQuestion) -> Result<String, Failure> {
        let SimulateQuestion {
            files,
            targets,
            add,
            remove,
            max_pods,
        } = question;
        let change = nodes_change(add, remove.as_deref(), max_pods)?;
        if !change.is_empty() && !targets.is_empty() {
            let why = "`targets` limits a plan of changed files: omit it with `add` and `remove`";
            return Err(Failure::Failed(why.to_owned()));
        }
        let location = self.files.location();
        if files.is_empty() && !self.has_files() {
            let observed = read_cluster(&self.common, Extent::Examination).await?;
            return Ok(joined(None, &observed, &change));
        }
        let replacements: Vec<Replacement> = files.into_iter().map(Replacement::from).collect();
        let reading = tokio::task::spawn_blocking(move || read_replaced(&location, &replacements));
        let found = reading.await.or_else(Failure::from_panic)?;
        let found = found.map_err(Failure::Failed)?;
        let load = move || Loaded {
            revision: found.commit,
            ..check_documents(found.documents, found.findings)
        };
        let (extent, scope) = match change.is_empty() {
            true => (Extent::Plan, Scope::Ports),
            false => (Extent::Examination, Scope::Subnets),
        };
        let (loaded, observed) = read_beside(load, &self.common, extent, scope).await?;
        match observed {
            Some(observed) if !change.is_empty() => {
                Ok(joined(Some(&loaded.desired), &observed, &change))
            }
            observed => self.shown(&loaded, observed, &targets),
        }
    }

    async fn capacity(&self) -> Result<String, Failure> {
        let loaded = self.loaded().await?;
        if let Some(loaded) = loaded.as_ref().filter(|loaded| loaded.has_errors()) {
            return Err(Failure::invalid(loaded, Detail::Short));
        }
        let (_, capacity) = counted(loaded.as_ref(), &self.common).await?;
        let document = CapacityDocument::new(&capacity);
        Ok(capacity_markdown(
            &document,
            Detail::Short,
            PageLimit::COMMENT,
        ))
    }

    fn has_files(&self) -> bool {
        let location = self.files.location();
        location.revision.is_some() || location.directory.exists()
    }

    /// The files, if there are any.
    async fn loaded(&self) -> Result<Option<Loaded>, Failure> {
        let (location, is_there) = (self.files.location(), self.has_files());
        let loading = tokio::task::spawn_blocking(move || is_there.then(|| load(&location)));
        loading.await.or_else(Failure::from_panic)
    }

    fn shown(
        &self,
        loaded: &Loaded,
        observed: Option<Observed>,
        targets: &[String],
    ) -> Result<String, Failure> {
        let Some(observed) = observed else {
            return Err(Failure::invalid(loaded, Detail::Short));
        };
        let selection = selection(targets)?;
        let job = Job::files(loaded).limited_to(&selection);
        let (_, document) = planned(&job, &observed, &self.files.location().directory)?;
        Ok(markdown(&document.cut(), Detail::Short, PageLimit::COMMENT))
    }

    async fn doctor(&self) -> Result<String, Failure> {
        let loaded = self.loaded().await?;
        let (observed, findings) = examined(loaded.as_ref(), &[], |_| (), &self.common).await?;
        let conclusions = conclusions(&observed);
        Ok(examination_markdown(
            &conclusions,
            &findings,
            Detail::Short,
            PageLimit::COMMENT,
        ))
    }

    async fn explain(&self, question: &ExplainQuestion) -> Result<String, Failure> {
        let with = question.with.as_deref().map(service).transpose()?;
        let location = self.files.location();
        let explained = explained(&question.subject, with.as_ref(), location, &self.common);
        Ok(explanation(&explained.await?))
    }

    async fn map(&self, question: &MapQuestion) -> Result<String, Failure> {
        let part: Range = (question.area.parse())
            .map_err(|error: RangeError| Failure::Failed(error.to_string()))?;
        let (loaded, observed, plan) = read_and_plan(self.files.location(), &self.common).await?;
        let map = AddressMap::new(&loaded.desired, &observed, &plan);
        Ok(area_list(&map, &part))
    }
}

impl From<SimulatedFile> for Replacement {
    fn from(file: SimulatedFile) -> Replacement {
        let SimulatedFile { path, text } = file;
        Replacement {
            path,
            text: Some(text).filter(|text| !text.is_empty()),
        }
    }
}

/// What nodes get that join.
fn joined(desired: Option<&Desired>, observed: &Observed, change: &NodesChange) -> String {
    let document = SimulationDocument::new(&simulate(desired, observed, change));
    simulation_markdown(&document, PageLimit::COMMENT)
}

fn nodes_change(
    nodes: Vec<SimulatedNodes>,
    remove: Option<&str>,
    pod_limit: Option<u64>,
) -> Result<NodesChange, Failure> {
    let group = |SimulatedNodes { count, labels }: SimulatedNodes| Group {
        count: count as usize,
        labels,
    };
    let groups = nodes.into_iter().map(group).collect();
    NodesChange::new(groups, remove.map(selector).transpose()?, pod_limit)
        .map_err(|error| Failure::Failed(error.to_string()))
}

fn selector(text: &str) -> Result<Selector, Failure> {
    text.parse()
        .map_err(|error| Failure::Failed(format!("`remove`: {error}")))
}

fn selection(targets: &[String]) -> Result<Selection, Failure> {
    let targets = targets.iter().map(|target| {
        target
            .parse::<Selected>()
            .map_err(|error| Failure::Failed(format!("the target `{target}`: {error}")))
    });
    Ok(Selection {
        targets: targets.collect::<Result<_, _>>()?,
        excluded: Vec::new(),
    })
}

fn service(name: &str) -> Result<ServiceName, Failure> {
    name.parse().map_err(|error| {
        Failure::Failed(format!(
            "`{}` is not a Service: {error}",
            name.escape_debug()
        ))
    })
}

/// The text up to a limit, cut between two lines, or within the first one if that is longer.
pub(super) fn limited(text: String) -> String {
    let PageLimit { bytes, .. } = PageLimit::COMMENT;
    if text.len() <= bytes {
        return text;
    }
    let room = bytes - LONGEST_REST;
    let room = text.floor_char_boundary(room);
    let Some(end) = text[..room].rfind('\n') else {
        return format!("{}… and {} more bytes\n", &text[..room], text.len() - room);
    };
    let (kept, rest) = text.split_at(end + 1);
    let rest = rest.lines().count();
    format!("{kept}\n… and {rest} more lines: ask for less\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_answer_ends_with_a_whole_line_and_a_count() {
        assert_eq!(limited("short\n".to_owned()), "short\n");
        let one = limited("ä".repeat(100_000));
        assert!(one.len() <= PageLimit::COMMENT.bytes);
        assert!(one.ends_with(" more bytes\n"), "{one}");
        let line = "ä".repeat(99);
        let cut = limited(format!("{line}\n").repeat(10_000));
        assert!(cut.len() <= PageLimit::COMMENT.bytes);
        let lines: Vec<&str> = cut.lines().collect();
        let kept = lines.iter().filter(|one| **one == line).count();
        assert_eq!(lines.len(), kept + 2);
        let rest = format!("… and {} more lines: ask for less", 10_000 - kept);
        assert_eq!(lines.last(), Some(&rest.as_str()));
    }
}
