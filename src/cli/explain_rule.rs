//! `explain-rule`: prints the page of a rule code. Needs no file, no cluster and no network.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use clap::builder::{PossibleValue, TypedValueParser};
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, Command, ValueEnum};
use serde::Serialize;

use super::failure::Failure;
use super::{ExitStatus, output};
use crate::render::{rule_list, rule_page};
use ipam_core::rules::{self, RuleCommand, RuleKind, RulePage, markdown};

/// Explain the code of a finding, a refusal or a blocked change: what was seen, why it matters,
/// what to do.
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// The code. Default: list all codes.
    #[arg(value_name = "CODE", value_parser = CodeParser, hide_possible_values = true)]
    code: Option<&'static RulePage>,
    /// Output format. Without a code, `json` and `markdown` have every page.
    #[arg(long, short, value_enum, default_value = "human")]
    output: PageFormat,
    /// Write every page as Markdown into this directory.
    #[arg(long, value_name = "DIR", conflicts_with = "code")]
    out_dir: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum PageFormat {
    Human,
    Json,
    Markdown,
}

/// A page as JSON. The texts are Markdown.
#[derive(Serialize)]
struct PageDocument {
    code: &'static str,
    family: &'static str,
    kinds: Vec<&'static str>,
    commands: Vec<&'static str>,
    summary: &'static str,
    seen: &'static str,
    why: &'static str,
    action: &'static str,
}

impl From<&'static RulePage> for PageDocument {
    fn from(page: &'static RulePage) -> PageDocument {
        let RulePage {
            code,
            family,
            kinds,
            commands,
            summary,
            seen,
            why,
            action,
        } = page;
        PageDocument {
            code,
            family,
            kinds: kinds.iter().copied().map(RuleKind::as_str).collect(),
            commands: commands.iter().copied().map(RuleCommand::as_str).collect(),
            summary,
            seen,
            why,
            action,
        }
    }
}

pub(super) fn run(arguments: &Arguments) -> Result<ExitStatus, Failure> {
    let Arguments {
        code,
        output,
        out_dir,
    } = arguments;
    match (code, output, out_dir) {
        (_, _, Some(directory)) => write(directory)?,
        (Some(page), PageFormat::Human, None) => output::data(&rule_page(page))?,
        (Some(page), PageFormat::Json, None) => output::json(&PageDocument::from(*page))?,
        (Some(page), PageFormat::Markdown, None) => output::data(&markdown::page(page))?,
        (None, PageFormat::Human, None) => output::data(&rule_list(rules::families()))?,
        (None, PageFormat::Json, None) => {
            output::json(&rules::pages().map(PageDocument::from).collect::<Vec<_>>())?;
        }
        (None, PageFormat::Markdown, None) => output::data(&markdown::all())?,
    }
    Ok(ExitStatus::Done)
}

fn write(directory: &Path) -> Result<(), Failure> {
    let failed = |path: &Path, error: std::io::Error| {
        Failure::Failed(format!("{} cannot be written: {error}", path.display()))
    };
    std::fs::create_dir_all(directory).map_err(|error| failed(directory, error))?;
    for (name, text) in markdown::files() {
        let path = directory.join(name);
        std::fs::write(&path, text).map_err(|error| failed(&path, error))?;
    }
    Ok(())
}

/// Finds the page of a code. Completion scripts list all codes.
#[derive(Clone, Debug)]
struct CodeParser;

impl TypedValueParser for CodeParser {
    type Value = &'static RulePage;

    fn parse_ref(
        &self,
        command: &Command,
        argument: Option<&Arg>,
        value: &OsStr,
    ) -> Result<&'static RulePage, clap::Error> {
        let given = value.to_string_lossy();
        // As a diagnostic prints it: `cilium-ipam::bad-cidr`.
        let code = given.strip_prefix("cilium-ipam::").unwrap_or(&given);
        rules::page(code).ok_or_else(|| unknown(command, argument, code))
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        let value = |page: &'static RulePage| PossibleValue::new(page.code).help(&*page.summary);
        Some(Box::new(rules::pages().map(value)))
    }
}

fn unknown(command: &Command, argument: Option<&Arg>, given: &str) -> clap::Error {
    let mut error = clap::Error::new(ErrorKind::InvalidValue).with_cmd(command);
    let argument = argument.map_or_else(|| "CODE".to_owned(), Arg::to_string);
    error.insert(ContextKind::InvalidArg, ContextValue::String(argument));
    error.insert(
        ContextKind::InvalidValue,
        ContextValue::String(given.to_owned()),
    );
    if let Some(nearest) = rules::nearest(given) {
        error.insert(
            ContextKind::SuggestedValue,
            ContextValue::String(nearest.to_owned()),
        );
    }
    let list = "`cilium-ipam explain-rule` lists all codes".into();
    error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![list]));
    error
}
