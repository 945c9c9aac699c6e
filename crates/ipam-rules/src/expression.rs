//! An expression as people write it, parsed once. Knows no values.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

use cel::{Env, IdedExpr};

use crate::Fields;
use crate::check::check;
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

/// Why a text is no expression, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{fault}")]
pub struct CompileError {
    pub fault: Fault,
    /// Bytes of the text that the fault is about; `None` for the whole text.
    pub at: Option<Range<usize>>,
}

/// Why a text is no expression.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    #[error("it is empty")]
    Empty,
    #[error("it has {length} bytes, and may have {MAX_LENGTH}")]
    TooLong { length: usize },
    #[error("it is nested more than {MAX_DEPTH} deep")]
    TooDeep,
    #[error("{0}")]
    Syntax(String),
    #[error("there is no variable `{name}`")]
    UnknownVariable { name: String, known: Vec<String> },
    #[error("there is no function `{name}`")]
    UnknownFunction { name: String, known: Vec<String> },
    #[error("there is no field `{}`", .name.escape_debug())]
    UnknownField { name: String, known: Vec<String> },
    #[error("a text, a number or a list has no field `{}`", .0.escape_debug())]
    NoFields(String),
    #[error("the field that is compared is never `{}`", .value.escape_debug())]
    UnknownValue { value: String, known: Vec<String> },
    #[error("{0} cannot be used in a rule")]
    Unsupported(&'static str),
    #[error("the parser failed")]
    Internal,
}

impl Fault {
    /// The unknown name or text of the fault, and the known ones.
    pub fn unknown(&self) -> Option<(&str, &[String])> {
        match self {
            Fault::UnknownVariable { name, known }
            | Fault::UnknownFunction { name, known }
            | Fault::UnknownField { name, known }
            | Fault::UnknownValue { value: name, known } => Some((name, known)),
            Fault::Empty
            | Fault::TooLong { .. }
            | Fault::TooDeep
            | Fault::Syntax(_)
            | Fault::NoFields(_)
            | Fault::Unsupported(_)
            | Fault::Internal => None,
        }
    }
}

impl From<Fault> for CompileError {
    fn from(fault: Fault) -> CompileError {
        CompileError { fault, at: None }
    }
}

impl Expression {
    /// Parses an expression over these variables, and checks the fields that it names.
    ///
    /// # Errors
    /// Fails if the text is no expression, uses an unknown name, or exceeds a limit.
    pub fn compile(source: &str, variables: &Fields) -> Result<Expression, CompileError> {
        if source.trim().is_empty() {
            return Err(Fault::Empty.into());
        }
        if source.len() > MAX_LENGTH {
            let length = source.len();
            return Err(Fault::TooLong { length }.into());
        }
        let parsed = with_large_stack(|| parse(source, variables));
        parsed.unwrap_or_else(|| Err(Fault::Internal.into()))
    }

    /// The text of the expression.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// The variables that the expression uses.
    pub fn variables(&self) -> &BTreeSet<String> {
        &self.variables
    }

    pub(crate) fn metered(&self) -> &IdedExpr {
        &self.metered
    }
}

fn parse(source: &str, variables: &Fields) -> Result<Expression, CompileError> {
    let parser = Env::stdlib().parser();
    let (parsed, places) = parser
        .max_recursion_depth(u16::try_from(MAX_DEPTH).unwrap_or(u16::MAX))
        .error_recovery_limit(1)
        .parse_with_source_info(source)
        .map_err(|errors| syntax(source, &errors))?;
    if depth(&parsed) > MAX_DEPTH {
        return Err(Fault::TooDeep.into());
    }
    check(&parsed, variables, &places)?;
    let names: Vec<&str> = variables.keys().copied().collect();
    let (metered, used) = place(parsed, &names).map_err(|fault| located(source, fault))?;
    Ok(Expression {
        source: source.into(),
        metered: Arc::new(metered),
        variables: used,
    })
}

/// The first place of an unknown name.
fn located(source: &str, fault: Fault) -> CompileError {
    let name = fault.unknown().map(|(name, _)| name);
    let at = name.and_then(|name| source.find(name).map(|start| start..start + name.len()));
    CompileError { fault, at }
}

fn syntax(source: &str, errors: &cel::ParseErrors) -> CompileError {
    let Some(first) = errors.errors.first() else {
        return Fault::Internal.into();
    };
    let message = first.msg.as_str();
    if message.contains("ecursion limit") {
        return Fault::TooDeep.into();
    }
    let message = message.strip_prefix("Syntax error: ").unwrap_or(message);
    let message: String = message.chars().take(160).collect();
    let message = message.escape_debug().to_string().replace("\\'", "'");
    CompileError {
        fault: Fault::Syntax(message),
        at: byte(source, first.pos).map(|start| start..start + 1),
    }
}

/// The byte at a line and a column, which count from 1.
fn byte(source: &str, (line, column): (isize, isize)) -> Option<usize> {
    let line = usize::try_from(line).ok()?.checked_sub(1)?;
    let column = usize::try_from(column).ok()?.checked_sub(1)?;
    let before: usize = source.split_inclusive('\n').take(line).map(str::len).sum();
    let text = source.get(before..)?;
    let within = text.char_indices().nth(column);
    Some(before + within.map_or(text.len(), |(byte, _)| byte))
}
