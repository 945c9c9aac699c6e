//! The answer to each question, as text of bounded length. Reads the files and the cluster for each
//! one. Must never write, and never know the protocol.

use std::path::{Component, Path};

use super::tools::{
    ExplainQuestion, MapQuestion, PlanQuestion, Question, SimulateQuestion, SimulatedFile,
};
use crate::cli::doctor::examined;
use crate::cli::explain::explained;
use crate::cli::failure::Failure;
use crate::cli::files::Files;
use crate::cli::planning::planned;
use crate::cli::reading::{read, read_beside};
use crate::cli::show::read_and_plan;
use crate::cli::{Common, output};
use crate::render::map::area_list;
use crate::render::{Detail, PageLimit, examination_markdown, explanation, markdown};
use ipam_cilium::observed::Observed;
use ipam_cluster::Extent;
use ipam_config::documents::SourceFile;
use ipam_config::source::{Location, read as read_files};
use ipam_controller::{Job, Loaded, Scope, check_documents, load};
use ipam_core::model::ServiceName;
use ipam_core::net::{Range, RangeError};
use ipam_planner::doctor::conclusions;
use ipam_planner::map::AddressMap;
use ipam_planner::plan::{Selected, Selection};

/// The directory and the cluster of all questions.
pub(super) struct Subject {
    pub(super) files: Files,
    pub(super) common: Common,
}

impl Subject {
    pub(super) async fn answer(&self, question: Question) -> Result<String, Failure> {
        match question {
            Question::Plan(question) => self.plan(&question).await,
            Question::Simulate(question) => self.simulate(question).await,
            Question::Doctor => self.doctor().await,
            Question::Explain(question) => self.explain(&question).await,
            Question::Map(question) => self.map(&question).await,
        }
    }

    async fn plan(&self, question: &PlanQuestion) -> Result<String, Failure> {
        let location = self.files.location();
        let (loaded, observed) = read(location, &self.common, Extent::Plan, Scope::Ports).await?;
        self.shown(&loaded, observed, &question.targets)
    }

    async fn simulate(&self, question: SimulateQuestion) -> Result<String, Failure> {
        let SimulateQuestion { files, targets } = question;
        let location = self.files.location();
        for file in &files {
            check_path(&file.path)?;
        }
        let load = move || with_files(&location, &files);
        let (loaded, observed) =
            read_beside(load, &self.common, Extent::Plan, Scope::Ports).await?;
        self.shown(&loaded, observed, &targets)
    }

    fn shown(
        &self,
        loaded: &Loaded,
        observed: Option<Observed>,
        targets: &[String],
    ) -> Result<String, Failure> {
        let Some(observed) = observed else {
            return Err(Failure::Invalid(output::diagnostics(loaded, Detail::Short)));
        };
        let selection = selection(targets)?;
        let job = Job::files(loaded).limited_to(&selection);
        let (_, document) = planned(&job, &observed, &self.files.location().directory)?;
        Ok(markdown(&document.cut(), Detail::Short, PageLimit::COMMENT))
    }

    async fn doctor(&self) -> Result<String, Failure> {
        let location = self.files.location();
        let is_there = location.revision.is_some() || location.directory.exists();
        let loading = tokio::task::spawn_blocking(move || is_there.then(|| load(&location)));
        let loaded = loading.await.or_else(Failure::from_panic)?;
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
        Failure::Failed(format!("`{}` is no Service: {error}", name.escape_debug()))
    })
}

/// Refuses a path that would be another file on disk.
fn check_path(path: &str) -> Result<(), Failure> {
    let parts = Path::new(path).components();
    let is_below = parts
        .clone()
        .all(|part| matches!(part, Component::Normal(_)));
    match is_below && parts.count() > 0 && (path.ends_with(".yaml") || path.ends_with(".yml")) {
        true => Ok(()),
        false => Err(Failure::Failed(format!(
            "`{}` is no path of a YAML file in the directory, such as `racks/a.yaml`",
            path.escape_debug()
        ))),
    }
}

/// The files of the directory, with these in their place.
fn with_files(location: &Location, files: &[SimulatedFile]) -> Loaded {
    let found = read_files(location);
    let mut documents = found.documents;
    for file in files {
        let path = location.directory.join(&file.path);
        let path = path.to_string_lossy().into_owned();
        documents.files.retain(|known| *known.path != *path);
        if !file.text.is_empty() {
            documents.files.push(SourceFile {
                path: path.into(),
                text: file.text.as_str().into(),
            });
        }
    }
    documents.files.sort();
    Loaded {
        revision: found.commit,
        ..check_documents(documents, found.findings)
    }
}
