//! Calico's selector language: its meaning, and the LabelSelector with the same meaning.
//!
//! Source: `libcalico-go/lib/selector/parser` of Calico 3.32.

use super::calico_tokens::{Token, Tokens};
use super::conjunction::PartOfValue;
use super::label_set::{Inexpressible, LabelSet};

/// The longest selector that is read, in bytes. Calico allows 1,024.
const LONGEST: usize = 65_536;

/// Why a text is not a selector of Calico.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum SelectorError {
    /// Something else was expected after this number of bytes.
    #[error("expected {expected} after {at} bytes")]
    Expected { at: usize, expected: &'static str },
    /// Calico rejects `global()` in pools.
    #[error("`global()` selects no nodes")]
    Global,
    #[error("it is longer than {LONGEST} bytes")]
    TooLong,
}

/// One comparison.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Atom {
    All,
    Has(String),
    In(String, Vec<String>),
    Part(String, PartOfValue, String),
}

/// A step of the selector in postfix order, so that nesting costs no stack.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    Atom(Atom),
    Not,
    And,
    Or,
}

/// An operator that waits for its right side.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Waiting {
    Open,
    Or,
    And,
    Not,
}

/// A parsed selector of Calico.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CalicoSelector(Vec<Step>);

impl CalicoSelector {
    /// # Errors
    /// Fails if Calico rejects the text, or if it is longer than 64 KiB.
    pub(super) fn parse(text: &str) -> Result<CalicoSelector, SelectorError> {
        if text.len() > LONGEST {
            return Err(SelectorError::TooLong);
        }
        let mut parser = Parser {
            tokens: Tokens::new(text),
            steps: Vec::new(),
            waiting: Vec::new(),
        };
        let Some(first) = parser.tokens.next()? else {
            return Ok(CalicoSelector(vec![Step::Atom(Atom::All)]));
        };
        parser.read(first)?;
        Ok(CalicoSelector(parser.steps))
    }

    /// The nodes that it selects.
    ///
    /// # Errors
    /// Fails if the selector has too many alternatives.
    pub(super) fn nodes(&self) -> Result<LabelSet, Inexpressible> {
        /// A set and its complement. Only one of them may be too complex.
        type Sides = [Result<LabelSet, Inexpressible>; 2];
        let mut stack: Vec<Sides> = Vec::new();
        let both = |join: fn(LabelSet, LabelSet) -> Result<LabelSet, Inexpressible>, one, two| {
            let (one, two): (Result<_, _>, Result<_, _>) = (one, two);
            join(one?, two?)
        };
        for step in &self.0 {
            let sides = match step {
                Step::Atom(atom) => {
                    let (set, complement) = atom.sets();
                    [Ok(set), Ok(complement)]
                }
                Step::Not => {
                    let [set, complement] = pop(&mut stack)?;
                    [complement, set]
                }
                Step::And | Step::Or => {
                    let ([set, complement], [left, left_complement]) =
                        (pop(&mut stack)?, pop(&mut stack)?);
                    match step {
                        Step::And => [
                            both(LabelSet::and, left, set),
                            both(LabelSet::or, left_complement, complement),
                        ],
                        Step::Atom(_) | Step::Not | Step::Or => [
                            both(LabelSet::or, left, set),
                            both(LabelSet::and, left_complement, complement),
                        ],
                    }
                }
            };
            stack.push(sides);
        }
        let [set, _] = pop(&mut stack)?;
        set
    }
}

/// The parser pushes every operand before its operator, so the stack is never empty.
fn pop<T>(stack: &mut Vec<T>) -> Result<T, Inexpressible> {
    stack.pop().ok_or(Inexpressible::TooComplex)
}

impl Atom {
    /// The set of the comparison and its complement.
    fn sets(&self) -> (LabelSet, LabelSet) {
        let both = |set: LabelSet, key: &str| (set.clone(), set.complement_of_one(key));
        match self {
            Atom::All => (LabelSet::everything(), LabelSet::nothing()),
            Atom::Has(key) => both(LabelSet::with_label(key), key),
            Atom::In(key, values) => both(LabelSet::with_value(key, values.iter().cloned()), key),
            Atom::Part(key, comparison, part) => (
                LabelSet::with_part(key, *comparison, part),
                LabelSet::without_part(key, *comparison, part),
            ),
        }
    }
}

/// A shunting yard: operators wait until their right side is read.
struct Parser<'t> {
    tokens: Tokens<'t>,
    steps: Vec<Step>,
    waiting: Vec<Waiting>,
}

impl<'t> Parser<'t> {
    fn read(&mut self, first: Token<'t>) -> Result<(), SelectorError> {
        let mut token = first;
        loop {
            if self.starts_operand(token)? {
                token = self.required("a comparison")?;
                continue;
            }
            loop {
                self.emit_down_to(Waiting::Not);
                let Some(next) = self.tokens.next()? else {
                    return self.finish();
                };
                match next {
                    Token::Close => {
                        self.emit_down_to(Waiting::Or);
                        if self.waiting.pop() != Some(Waiting::Open) {
                            return Err(self.tokens.expected("`(` before this `)`"));
                        }
                    }
                    Token::And => {
                        self.emit_down_to(Waiting::And);
                        self.waiting.push(Waiting::And);
                        break;
                    }
                    Token::Or => {
                        self.emit_down_to(Waiting::Or);
                        self.waiting.push(Waiting::Or);
                        break;
                    }
                    _ => return Err(self.tokens.expected("`&&`, `||` or the end")),
                }
            }
            token = self.required("a comparison")?;
        }
    }

    /// Whether the token begins an operand that goes on. Otherwise the operand is complete.
    fn starts_operand(&mut self, token: Token<'t>) -> Result<bool, SelectorError> {
        match token {
            Token::Not => {
                self.waiting.push(Waiting::Not);
                return Ok(true);
            }
            Token::Open => {
                self.waiting.push(Waiting::Open);
                return Ok(true);
            }
            Token::All => self.steps.push(Step::Atom(Atom::All)),
            Token::Global => return Err(SelectorError::Global),
            Token::Has(key) => self.steps.push(Step::Atom(Atom::Has(key.to_owned()))),
            Token::Label(key) => self.comparison(key.to_owned())?,
            _ => return Err(self.tokens.expected("a comparison")),
        }
        Ok(false)
    }

    fn comparison(&mut self, key: String) -> Result<(), SelectorError> {
        let (atom, is_negated) = match self.required("an operator after the label")? {
            Token::Equal => (Atom::In(key, vec![self.text()?]), false),
            Token::NotEqual => (Atom::In(key, vec![self.text()?]), true),
            Token::In => (Atom::In(key, self.set()?), false),
            Token::NotIn => (Atom::In(key, self.set()?), true),
            Token::Part(comparison) => (Atom::Part(key, comparison, self.text()?), false),
            _ => return Err(self.tokens.expected("an operator after the label")),
        };
        self.steps.push(Step::Atom(atom));
        if is_negated {
            self.steps.push(Step::Not);
        }
        Ok(())
    }

    fn text(&mut self) -> Result<String, SelectorError> {
        match self.required("a quoted value")? {
            Token::Text(text) => Ok(text.to_owned()),
            _ => Err(self.tokens.expected("a quoted value")),
        }
    }

    /// Values in braces. A comma may follow the last one.
    fn set(&mut self) -> Result<Vec<String>, SelectorError> {
        if self.required("`{`")? != Token::OpenSet {
            return Err(self.tokens.expected("`{`"));
        }
        let mut values = Vec::new();
        loop {
            match self.required("`}`")? {
                Token::CloseSet => return Ok(values),
                Token::Text(value) => values.push(value.to_owned()),
                _ => return Err(self.tokens.expected("a quoted value or `}`")),
            }
            match self.required("`,` or `}`")? {
                Token::CloseSet => return Ok(values),
                Token::Comma => {}
                _ => return Err(self.tokens.expected("`,` or `}`")),
            }
        }
    }

    fn required(&mut self, expected: &'static str) -> Result<Token<'t>, SelectorError> {
        let token = self.tokens.next()?;
        token.ok_or_else(|| self.tokens.expected(expected))
    }

    /// Emits the waiting operators that bind at least as closely as `loosest`.
    fn emit_down_to(&mut self, loosest: Waiting) {
        while let Some(waiting) = self.waiting.pop_if(|waiting| *waiting >= loosest) {
            match waiting {
                Waiting::Not => self.steps.push(Step::Not),
                Waiting::And => self.steps.push(Step::And),
                Waiting::Or => self.steps.push(Step::Or),
                Waiting::Open => {}
            }
        }
    }

    fn finish(&mut self) -> Result<(), SelectorError> {
        self.emit_down_to(Waiting::Or);
        match self.waiting.is_empty() {
            true => Ok(()),
            false => Err(self.tokens.expected("`)`")),
        }
    }
}

#[cfg(test)]
mod tests;
