//! Findings as miette diagnostics with the text that they are about, and as JSON.

use std::fmt;

use miette::{Diagnostic, GraphicalReportHandler, GraphicalTheme, LabeledSpan, NamedSource, SourceCode};

use super::findings::cut;
use super::human::Detail;
use super::text::{masked, printable};
use crate::desired::Documents;
use crate::model::{Finding, FindingGroup, Origin, Severity, grouped};
use crate::plan::FindingDocument;

/// Findings as text, the worst first, each with its place in the file, a code and a way out. In short form, the first
/// few of each rule, and how many more there are.
pub fn diagnostics(findings: &[Finding], documents: &Documents, detail: Detail) -> String {
    let handler = GraphicalReportHandler::new_themed(GraphicalTheme::unicode()).with_width(100);
    let mut text = String::new();
    let cut = cut(findings, detail);
    for finding in &cut.shown {
        let source = source_of(finding, documents);
        let report = Report { finding, source, url: format!("cilium-ipam::{}", finding.rule) };
        if handler.render_report(&mut text, &report).is_err() {
            text.push_str(&format!("{}: {}\n", finding.severity, printable(&finding.message)));
        }
        text.push('\n');
    }
    cut.rest().for_each(|line| text.push_str(&format!("{line}\n")));
    text
}

/// All findings as JSON, one entry for each cause, with the line of text that it is about. In short form, with the first few objects of
/// each.
pub fn finding_documents(findings: &[Finding], documents: &Documents, detail: Detail) -> Vec<FindingDocument> {
    let document = |group: &FindingGroup<'_>| {
        let mut document = FindingDocument::from(group);
        if let (Some(place), Some(origin)) = (document.origin.as_mut(), group.first.origin.as_ref()) {
            place.snippet = line_of(origin, documents);
        }
        match detail {
            Detail::Short => document.cut(),
            Detail::Full => document,
        }
    };
    grouped(findings).iter().map(document).collect()
}

fn text_of<'d>(origin: &Origin, documents: &'d Documents) -> Option<&'d str> {
    documents.files.iter().find(|file| file.path == origin.file).map(|file| &*file.text)
}

fn line_of(origin: &Origin, documents: &Documents) -> Option<String> {
    text_of(origin, documents)?.lines().nth(origin.line as usize - 1).map(str::to_owned)
}

fn source_of(finding: &Finding, documents: &Documents) -> Option<NamedSource<String>> {
    let origin = finding.origin.as_ref()?;
    let text = text_of(origin, documents)?;
    let related = finding.related.iter().map(|label| &label.origin).filter(|related| related.file == origin.file);
    let mut marked = std::iter::once(origin).chain(related);
    if !marked.all(|origin| line_at(text, origin.bytes.0).is_some_and(|line| line.len() <= LONGEST_LINE)) {
        return None;
    }
    Some(NamedSource::new(&*origin.file, masked(text)))
}

/// The line that a byte is in.
fn line_at(text: &str, byte: usize) -> Option<&str> {
    let start = text.get(..byte)?.rfind('\n').map_or(0, |newline| newline + 1);
    Some(text[start..].lines().next().unwrap_or_default())
}

/// Longest line that is shown, in bytes: what is longer helps nobody, and the renderer cannot pad beyond 65,535 columns.
const LONGEST_LINE: usize = 2000;

struct Report<'f> {
    finding: &'f Finding,
    source: Option<NamedSource<String>>,
    url: String,
}

impl fmt::Display for Report<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&printable(&self.finding.message))?;
        match &self.finding.origin {
            // The whole file, or a directory: the message names it.
            Some(origin) if origin.bytes == (0, 0) => Ok(()),
            Some(origin) if self.source.is_none() => write!(f, " ({origin}:{})", origin.column),
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
        let here = self.finding.origin.as_ref().map(|origin| &origin.file);
        let elsewhere = self.finding.related.iter().filter(|label| Some(&label.origin.file) != here);
        let mut help = printable(&self.finding.help).into_owned();
        elsewhere.for_each(|label| help.push_str(&format!("\nsee also {} ({})", label.origin, printable(&label.text))));
        (!help.is_empty()).then(|| Box::new(help) as Box<dyn fmt::Display>)
    }

    fn source_code(&self) -> Option<&dyn SourceCode> {
        self.source.as_ref().map(|source| source as &dyn SourceCode)
    }

    fn labels(&self) -> Option<Box<dyn Iterator<Item = LabeledSpan> + '_>> {
        self.source.as_ref()?;
        let origin = self.finding.origin.as_ref()?;
        let main = LabeledSpan::new_primary_with_span(Some(self.finding.label.clone()), origin.byte_range());
        let beside = self.finding.related.iter().filter(|label| label.origin.file == origin.file);
        let beside =
            beside.map(|label| LabeledSpan::new_with_span(Some(label.text.clone()), label.origin.byte_range()));
        Some(Box::new(std::iter::once(main).chain(beside)))
    }
}
