//! The output formats of all commands.

use clap::ValueEnum;
use clap::builder::{PossibleValuesParser, TypedValueParser};

/// How a command prints its result. The parser of its argument allows only what the command has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Format {
    Human,
    Wide,
    Json,
    Yaml,
    Sarif,
    Junit,
    Github,
    /// For an issue, a pull request or a change ticket.
    Markdown,
    /// One file with everything, for a change ticket.
    Html,
}

impl Format {
    pub(super) fn plain() -> impl TypedValueParser<Value = Format> {
        Format::among(&[Format::Human, Format::Json])
    }

    /// Parser for a command that prints a table of objects. The names follow `kubectl get`.
    pub(super) fn table() -> impl TypedValueParser<Value = Format> {
        Format::among(&[Format::Human, Format::Wide, Format::Json, Format::Yaml])
    }

    /// Parser for a command whose result is a report to pass on.
    pub(super) fn report() -> impl TypedValueParser<Value = Format> {
        Format::among(&[Format::Human, Format::Json, Format::Markdown, Format::Html])
    }

    pub(super) fn among(formats: &[Format]) -> impl TypedValueParser<Value = Format> {
        let offered = formats.iter().filter_map(ValueEnum::to_possible_value);
        PossibleValuesParser::new(offered).try_map(|name| Format::from_str(&name, false))
    }
}
