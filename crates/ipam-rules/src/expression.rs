//! An expression as people write it, parsed once. Knows no values.

use std::collections::BTreeSet;
use std::sync::Arc;

use cel::{Env, IdedExpr};

use crate::judge::with_large_stack;
use crate::meter::{depth, place};

/// Longest expression in bytes.
pub const MAX_LENGTH: usize = 4096;

/// Deepest nesting of an expression.
pub const MAX_DEPTH: usize = 64;

/// An expression that may be evaluated.
#[derive(Clone, Debug)]
pub struct Expression {
    source: Arc<str>,
    metered: Arc<IdedExpr>,
    variables: BTreeSet<String>,
}

/// Why a text is no expression.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CompileError {
    #[error("it is empty")]
    Empty,
    #[error("it has {length} bytes, and may have {MAX_LENGTH}")]
    TooLong { length: usize },
    #[error("it is nested more than {MAX_DEPTH} deep")]
    TooDeep,
    /// Line and column count from 1.
    #[error("{message} (line {line}, column {column} of the expression)")]
    Syntax {
        line: usize,
        column: usize,
        message: String,
    },
    #[error("there is no variable `{0}`")]
    UnknownVariable(String),
    #[error("there is no function `{0}`")]
    UnknownFunction(String),
    #[error("{0} cannot be used in a rule")]
    Unsupported(&'static str),
    #[error("the parser failed")]
    Internal,
}

impl Expression {
    /// Parses an expression over these variables.
    ///
    /// # Errors
    /// Fails if the text is no expression, uses an unknown name, or exceeds a limit.
    pub fn compile(source: &str, variables: &[&str]) -> Result<Expression, CompileError> {
        if source.trim().is_empty() {
            return Err(CompileError::Empty);
        }
        if source.len() > MAX_LENGTH {
            let length = source.len();
            return Err(CompileError::TooLong { length });
        }
        with_large_stack(|| parse(source, variables)).unwrap_or(Err(CompileError::Internal))
    }

    /// The text.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// The variables that it uses.
    pub fn variables(&self) -> &BTreeSet<String> {
        &self.variables
    }

    pub(crate) fn metered(&self) -> &IdedExpr {
        &self.metered
    }
}

fn parse(source: &str, variables: &[&str]) -> Result<Expression, CompileError> {
    let parser = Env::stdlib().parser();
    let parsed = parser
        .max_recursion_depth(u16::try_from(MAX_DEPTH).unwrap_or(u16::MAX))
        .error_recovery_limit(1)
        .parse(source)
        .map_err(|errors| syntax(&errors))?;
    if depth(&parsed) > MAX_DEPTH {
        return Err(CompileError::TooDeep);
    }
    let (metered, used) = place(parsed, variables)?;
    Ok(Expression {
        source: source.into(),
        metered: Arc::new(metered),
        variables: used,
    })
}

fn syntax(errors: &cel::ParseErrors) -> CompileError {
    let Some(first) = errors.errors.first() else {
        return CompileError::Internal;
    };
    if first.msg.contains("recursion") {
        return CompileError::TooDeep;
    }
    let position = |at: isize| usize::try_from(at).unwrap_or(0).max(1);
    let message: String = first.msg.chars().take(160).collect();
    CompileError::Syntax {
        line: position(first.pos.0),
        column: position(first.pos.1),
        message: message.escape_debug().to_string().replace("\\'", "'"),
    }
}
