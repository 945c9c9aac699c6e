//! What a runtime is told when it does not work.

use serde_json::{Value, json};

use crate::cni::SpecVersion;

/// Why, in numbers that runtimes know (SPEC.md, "Error").
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorCode {
    /// The version of the specification is not spoken.
    IncompatibleVersion,
    /// The environment lacks something, or says something impossible.
    InvalidEnvironment,
    /// A file could not be read or written.
    Io,
    /// Standard input is not what it should be.
    Decoding,
    /// The network's configuration cannot be used.
    InvalidConfiguration,
    /// It may work when it is tried again.
    TryAgainLater,
    /// Nothing can be added at the moment.
    NotAvailable,
    /// OpenStack does not let us.
    Refused,
    /// The cluster's own state contradicts what was asked, as CHECK finds it.
    Missing,
}

impl ErrorCode {
    /// The number.
    pub fn number(self) -> u16 {
        match self {
            ErrorCode::IncompatibleVersion => 1,
            ErrorCode::InvalidEnvironment => 4,
            ErrorCode::Io => 5,
            ErrorCode::Decoding => 6,
            ErrorCode::InvalidConfiguration => 7,
            ErrorCode::TryAgainLater => 11,
            ErrorCode::NotAvailable => 50,
            ErrorCode::Refused => 100,
            ErrorCode::Missing => 101,
        }
    }
}

/// Longest text that is told, in characters: others' words may be part of it.
const LONGEST: usize = 600;

/// Without what a terminal would not show, or take for more than text.
fn shown(text: &str) -> String {
    let mut shown = String::new();
    for c in text.chars().take(LONGEST) {
        match c {
            '\'' | '"' | '\\' => shown.push(c),
            _ => shown.extend(c.escape_debug()),
        }
    }
    shown
}

/// An error as it is answered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct CniError {
    /// Why.
    pub code: ErrorCode,
    /// What is wrong.
    pub message: String,
    /// The way out.
    pub details: String,
}

impl CniError {
    /// An error with its way out. Whatever stands in them is fit to be shown.
    pub fn new(
        code: ErrorCode,
        message: impl Into<String>,
        details: impl Into<String>,
    ) -> CniError {
        CniError {
            code,
            message: shown(&message.into()),
            details: shown(&details.into()),
        }
    }

    /// The same, with something else that went wrong on the way out.
    #[must_use]
    pub fn and_also(mut self, also: &str) -> CniError {
        self.message = format!("{}; {}", self.message, shown(also));
        self
    }

    /// As the runtime reads it.
    pub fn to_json(&self, version: SpecVersion) -> Value {
        let CniError {
            code,
            message,
            details,
        } = self;
        json!({"cniVersion": version.as_str(), "code": code.number(), "msg": message, "details": details})
    }
}
