//! Findings as miette diagnostics, with an excerpt of the file.

use std::fmt::{self, Write};

use miette::{
    Diagnostic, GraphicalTheme, LabeledSpan, MietteHandler, MietteHandlerOpts, ReportHandler,
    SourceCode,
};

use super::causes::cut;
use super::excerpt::{Excerpt, Sources, sentence};
use super::human::Detail;
use super::text::{pointer, printable};
use super::wrap::NARROWEST;
use ipam_config::documents::Documents;
use ipam_core::model::{Finding, Label, Severity};

/// Findings as text, the worst first, each with its place in the file, its code and its fix. The
/// short form shows the first few of each rule and counts the others.
pub fn diagnostics(findings: &[Finding], documents: &Documents, detail: Detail) -> String {
    let handler = handler();
    let mut text = String::new();
    let cut = cut(findings, detail);
    let mut sources = Sources::new(documents);
    for finding in &cut.shown {
        let report = Report {
            finding,
            excerpt: excerpt(finding, &mut sources),
            url: format!("cilium-ipam::{}", finding.rule),
        };
        if write!(text, "{}", Rendered(&handler, &report)).is_err() {
            text.push_str(&format!(
                "{}: {}\n",
                finding.severity,
                printable(&sentence(&finding.message))
            ));
        }
        text.push('\n');
    }
    cut.further()
        .for_each(|line| text.push_str(&format!("{line}\n")));
    let pointer = pointer(findings.iter().map(|finding| finding.rule.0));
    pointer
        .iter()
        .for_each(|line| text.push_str(&format!("{line}\n\n")));
    text
}

/// Lines are as wide as `COLUMNS` says, or the terminal, or 80 columns.
fn handler() -> MietteHandler {
    let options = MietteHandlerOpts::new()
        .force_graphical(true)
        .graphical_theme(GraphicalTheme::unicode())
        .terminal_links(true);
    let columns = std::env::var("COLUMNS").ok();
    match columns.and_then(|columns| columns.parse::<usize>().ok()) {
        Some(columns) => options.width(columns.max(NARROWEST)).build(),
        None => options.build(),
    }
}

struct Rendered<'r>(&'r MietteHandler, &'r dyn Diagnostic);

impl fmt::Display for Rendered<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.debug(self.1, f)
    }
}

fn excerpt(finding: &Finding, sources: &mut Sources<'_>) -> Option<Excerpt> {
    let origin = finding.origin.as_ref()?;
    let related = finding.related.iter().map(|label| &label.origin);
    sources.excerpt(
        origin,
        related.filter(|related| related.file == origin.file),
    )
}

struct Report<'f> {
    finding: &'f Finding,
    excerpt: Option<Excerpt>,
    url: String,
}

impl Report<'_> {
    /// The bytes of a further place, where its text is shown.
    fn shown(&self, label: &Label) -> Option<std::ops::Range<usize>> {
        let here = self.finding.origin.as_ref().map(|origin| &origin.file);
        let excerpt = self
            .excerpt
            .as_ref()
            .filter(|_| Some(&label.origin.file) == here)?;
        excerpt.shown(&label.origin)
    }
}

impl fmt::Display for Report<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&printable(&sentence(&self.finding.message)))?;
        match &self.finding.origin {
            // The finding is about the whole file or directory, and the message names it.
            Some(origin) if origin.bytes == (0, 0) => Ok(()),
            Some(origin) if self.excerpt.is_none() => write!(f, " ({origin}:{})", origin.column),
            _ => Ok(()),
        }
    }
}

impl fmt::Debug for Report<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for Report<'_> {}

impl Diagnostic for Report<'_> {
    fn code<'a>(&'a self) -> Option<Box<dyn fmt::Display + 'a>> {
        Some(Box::new(&self.url))
    }

    fn severity(&self) -> Option<miette::Severity> {
        Some(match self.finding.severity {
            Severity::Error => miette::Severity::Error,
            Severity::Warning => miette::Severity::Warning,
            Severity::Info => miette::Severity::Advice,
        })
    }

    fn help<'a>(&'a self) -> Option<Box<dyn fmt::Display + 'a>> {
        let elsewhere = self
            .finding
            .related
            .iter()
            .filter(|label| self.shown(label).is_none());
        let mut help = printable(&sentence(&self.finding.help)).into_owned();
        elsewhere.for_each(|label| {
            help.push_str(&format!(
                "\nsee also {} ({})",
                label.origin,
                printable(&label.text)
            ))
        });
        (!help.is_empty()).then(|| Box::new(help) as Box<dyn fmt::Display>)
    }

    fn source_code(&self) -> Option<&dyn SourceCode> {
        self.excerpt
            .as_ref()
            .map(|excerpt| excerpt as &dyn SourceCode)
    }

    fn labels(&self) -> Option<Box<dyn Iterator<Item = LabeledSpan> + '_>> {
        let main = self
            .excerpt
            .as_ref()?
            .shown(self.finding.origin.as_ref()?)?;
        let main = LabeledSpan::new_primary_with_span(Some(self.finding.label.clone()), main);
        let related = self
            .finding
            .related
            .iter()
            .filter_map(|label| Some((label, self.shown(label)?)));
        let related = related
            .map(|(label, bytes)| LabeledSpan::new_with_span(Some(label.text.clone()), bytes));
        Some(Box::new(std::iter::once(main).chain(related)))
    }
}
