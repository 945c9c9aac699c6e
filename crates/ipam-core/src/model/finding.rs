//! What a check found, and where in the files it comes from.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use super::ObjectRef;

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// Nothing may be planned from these files.
    Error,
    /// Probably not what was meant.
    Warning,
    /// Worth knowing.
    Info,
}

impl Severity {
    /// Lower-case word, as printed and in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Severity::Error => "error",
            Severity::Warning => "warning",
            Severity::Info => "info",
        }
    }
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// Stable code of a rule, in kebab-case; people put it into their CI, so it is never reused for
/// another meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rule(pub &'static str);

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.0)
    }
}

/// A place in a file of the directory. Lines and columns count from 1, columns in characters.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Origin {
    /// Path as given by the person, with `/`.
    pub file: Arc<str>,
    /// Line.
    pub line: u32,
    /// Column.
    pub column: u32,
    /// Bytes of the file.
    pub bytes: ByteSpan,
}

/// Start and end as byte offsets, in a form that can be ordered.
pub type ByteSpan = (usize, usize);

impl Origin {
    /// The whole of a file that could not be read as documents.
    pub fn whole_file(file: &Arc<str>) -> Origin {
        Origin {
            file: file.clone(),
            line: 1,
            column: 1,
            bytes: (0, 0),
        }
    }

    /// The bytes as a range.
    pub fn byte_range(&self) -> Range<usize> {
        self.bytes.0..self.bytes.1
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.line)
    }
}

/// A second place that belongs to a finding.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Label {
    /// The place.
    pub origin: Origin,
    /// What is there.
    pub text: String,
}

/// Result of a check. Ordered by severity, then place, then rule, so that a list of them is stable.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    /// How bad it is.
    pub severity: Severity,
    /// The place in the files, when the fault is there.
    pub origin: Option<Origin>,
    /// The rule that found it.
    pub rule: Rule,
    /// The object it is about, where there is one.
    pub subject: Option<ObjectRef>,
    /// Further objects that it is about.
    pub other_subjects: Vec<ObjectRef>,
    /// What is wrong, as a sentence without a full stop.
    pub message: String,
    /// What the marked text is.
    pub label: String,
    /// The way out.
    pub help: String,
    /// Other places that belong to it.
    pub related: Vec<Label>,
    /// What was seen that shows it: an object's field and its value, each.
    pub evidence: Vec<String>,
    /// What comes of it.
    pub consequence: String,
}

impl Finding {
    /// A finding with a message; the other parts are added by the `with_` functions.
    pub fn new(severity: Severity, rule: Rule, message: impl Into<String>) -> Finding {
        Finding {
            severity,
            rule,
            message: message.into(),
            origin: None,
            subject: None,
            other_subjects: Vec::new(),
            label: String::new(),
            help: String::new(),
            related: Vec::new(),
            evidence: Vec::new(),
            consequence: String::new(),
        }
    }

    /// Says where it is, and what is there.
    #[must_use]
    pub fn at(mut self, origin: &Origin, label: impl Into<String>) -> Finding {
        self.origin = Some(origin.clone());
        self.label = label.into();
        self
    }

    /// Says whom it is about.
    #[must_use]
    pub fn about(mut self, subject: ObjectRef) -> Finding {
        self.subject = Some(subject);
        self
    }

    /// Names a further object that it is about.
    #[must_use]
    pub fn about_also(mut self, subject: ObjectRef) -> Finding {
        self.other_subjects.push(subject);
        self
    }

    /// All objects that it is about.
    pub fn subjects(&self) -> impl Iterator<Item = &ObjectRef> {
        self.subject.iter().chain(&self.other_subjects)
    }

    /// Says what to do.
    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> Finding {
        self.help = help.into();
        self
    }

    /// Says what shows it.
    #[must_use]
    pub fn seen(mut self, evidence: impl IntoIterator<Item = String>) -> Finding {
        self.evidence.extend(evidence);
        self
    }

    /// Says what comes of it.
    #[must_use]
    pub fn causes(mut self, consequence: impl Into<String>) -> Finding {
        self.consequence = consequence.into();
        self
    }

    /// Adds another place.
    #[must_use]
    pub fn and(mut self, origin: &Origin, text: impl Into<String>) -> Finding {
        self.related.push(Label {
            origin: origin.clone(),
            text: text.into(),
        });
        self
    }
}
