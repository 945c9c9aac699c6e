//! The error that a runtime gets.

use serde_json::{Value, json};

use crate::cni::SpecVersion;

/// The reason, in numbers that runtimes know (SPEC.md, "Error"). Plugins own the numbers from 100.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorCode {
    /// The version of the specification is not supported.
    IncompatibleVersion,
    /// An environment variable is missing or invalid.
    InvalidEnvironment,
    /// A file, or the kernel, fails.
    Io,
    /// Standard input is not the configuration of a network.
    Decoding,
    InvalidConfiguration,
    /// A retry may succeed.
    TryAgainLater,
    /// An ADD cannot succeed now (STATUS).
    NotAvailable,
    /// OpenStack refuses.
    Refused,
    /// An interface no longer has what its ADD gave (CHECK).
    Missing,
}

impl ErrorCode {
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

/// Longest message, in characters: it may contain the text of a server.
const LONGEST: usize = 600;

/// Escapes characters that a terminal would interpret.
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

/// An error with its way out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct CniError {
    pub code: ErrorCode,
    pub message: String,
    /// How to fix it.
    pub details: String,
}

impl CniError {
    /// Creates an error. Escapes both texts.
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

    /// Adds a second problem to the message.
    #[must_use]
    pub fn and_also(mut self, also: &str) -> CniError {
        self.message = format!("{}; {}", self.message, shown(also));
        self
    }

    /// The JSON of the specification.
    pub fn to_json(&self, version: SpecVersion) -> Value {
        let CniError {
            code,
            message,
            details,
        } = self;
        json!({"cniVersion": version.as_str(), "code": code.number(), "msg": message, "details": details})
    }
}
