//! `explain-rule`: prints the page of a rule code. Needs no file, no cluster and no network.

use std::ffi::OsStr;

use clap::builder::{PossibleValue, TypedValueParser};
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, Command};

use super::failure::Failure;
use super::{ExitStatus, Format, output};
use crate::render::{rule_list, rule_page};
use ipam_core::rules::{self, RulePage, markdown};

#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// The code. Default: list all codes.
    #[arg(value_name = "CODE", value_parser = CodeParser, hide_possible_values = true)]
    code: Option<&'static RulePage>,
    /// Output format. Without a code, `json` and `markdown` have every page.
    #[arg(long, short, value_parser = Format::among(&[Format::Human, Format::Json, Format::Markdown]), default_value = "human")]
    output: Format,
}

pub(super) fn run(arguments: &Arguments) -> Result<ExitStatus, Failure> {
    let Arguments { code, output } = arguments;
    match (code, output) {
        (Some(page), Format::Json) => output::json(page)?,
        (Some(page), Format::Markdown) => output::data(&markdown::page(page))?,
        (None, Format::Json) => {
            output::json(&rules::pages().collect::<Vec<_>>())?;
        }
        (None, Format::Markdown) => output::data(&markdown::all())?,
        (Some(page), _) => output::data(&rule_page(page))?,
        (None, _) => output::data(&rule_list(rules::families()))?,
    }
    Ok(ExitStatus::Done)
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
        // A diagnostic prints codes as `cilium-ipam::bad-cidr`.
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
