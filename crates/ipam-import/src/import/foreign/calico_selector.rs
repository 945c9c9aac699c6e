//! Calico's node selectors as LabelSelectors: comparisons joined by `&&`. Any other selector is an
//! error, because a LabelSelector has no alternatives and compares whole values only.
//!
//! Source: `libcalico-go/lib/selector` of Calico 3.32.

use std::collections::BTreeSet;

use ipam_core::model::{Operator, Requirement, RequirementError, Selector};

/// Why a selector of Calico is not translated.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum SelectorError {
    #[error("after {at} bytes, only {expected} can be translated")]
    Unsupported { at: usize, expected: &'static str },
    #[error(transparent)]
    Requirement(#[from] RequirementError),
}

/// The LabelSelector that selects the same nodes.
///
/// # Errors
/// Fails if the text has anything but comparisons joined by `&&`.
pub(super) fn translated(text: &str) -> Result<Selector, SelectorError> {
    let mut parser = Parser { text, at: 0 };
    let mut requirements = Vec::new();
    if parser.is_at_end() {
        return Ok(Selector::default());
    }
    // Parentheses around conjunctions change nothing, so that counting them is enough.
    let mut open = 0_usize;
    loop {
        while parser.cut("(") {
            open += 1;
        }
        requirements.extend(parser.comparison()?);
        while open > 0 && parser.cut(")") {
            open -= 1;
        }
        if open == 0 && parser.is_at_end() {
            return Ok(Selector::all_of(requirements));
        }
        parser.require("&&", if open == 0 { "`&&`" } else { "`&&` or `)`" })?;
    }
}

/// Reads a selector from left to right.
struct Parser<'t> {
    text: &'t str,
    /// Number of bytes that are parsed.
    at: usize,
}

impl<'t> Parser<'t> {
    /// Parses one comparison; `None` for `all()`.
    fn comparison(&mut self) -> Result<Option<Requirement>, SelectorError> {
        if self.cut("all(") {
            self.require(")", "`)`")?;
            return Ok(None);
        }
        let is_negated = self.cut("!");
        let (key, operator) = if self.cut("has(") {
            let key = self.label()?;
            self.require(")", "`)`")?;
            let operator = match is_negated {
                true => Operator::DoesNotExist,
                false => Operator::Exists,
            };
            (key, operator)
        } else if is_negated {
            return Err(self.unsupported("`has(…)` with `!`"));
        } else {
            (self.label()?, self.operator()?)
        };
        Ok(Some(Requirement::new(key, operator)?))
    }

    /// The operator after a label, with its values. Calico's `!=` and `not in` also select nodes
    /// without the label, as `NotIn` does.
    fn operator(&mut self) -> Result<Operator, SelectorError> {
        if self.cut("==") {
            return Ok(Operator::In([self.value()?].into()));
        }
        if self.cut("!=") {
            return Ok(Operator::NotIn([self.value()?].into()));
        }
        let is_negated = self.cut("not");
        if !self.cut("in") || self.rest().starts_with(is_of_label) {
            return Err(self.unsupported("`==`, `!=`, `in` and `not in`"));
        }
        let values = self.values()?;
        Ok(match is_negated {
            true => Operator::NotIn(values),
            false => Operator::In(values),
        })
    }

    /// Values in braces. A comma may follow the last one.
    fn values(&mut self) -> Result<BTreeSet<String>, SelectorError> {
        self.require("{", "a list in `{` and `}`")?;
        let mut values = BTreeSet::new();
        while !self.cut("}") {
            values.insert(self.value()?);
            if !self.cut(",") {
                self.require("}", "`,` or `}`")?;
                break;
            }
        }
        Ok(values)
    }

    fn value(&mut self) -> Result<String, SelectorError> {
        for quote in ["\"", "'"] {
            if self.cut(quote) {
                let (value, _) = self
                    .rest()
                    .split_once(quote)
                    .ok_or_else(|| self.unsupported("a value with a closing quote"))?;
                self.at += value.len() + quote.len();
                return Ok(value.to_owned());
            }
        }
        Err(self.unsupported("a quoted value"))
    }

    fn label(&mut self) -> Result<&'t str, SelectorError> {
        self.skip_space();
        let rest = self.rest();
        let end = rest.find(|c| !is_of_label(c)).unwrap_or(rest.len());
        if end == 0 {
            return Err(self.unsupported("a label, `has(…)`, `!has(…)` or `all()`"));
        }
        self.at += end;
        Ok(&rest[..end])
    }

    fn require(&mut self, sign: &str, expected: &'static str) -> Result<(), SelectorError> {
        match self.cut(sign) {
            true => Ok(()),
            false => Err(self.unsupported(expected)),
        }
    }

    /// Skips space and then `sign`. Returns whether the sign was there.
    fn cut(&mut self, sign: &str) -> bool {
        self.skip_space();
        let is_there = self.rest().starts_with(sign);
        if is_there {
            self.at += sign.len();
        }
        is_there
    }

    fn is_at_end(&mut self) -> bool {
        self.skip_space();
        self.rest().is_empty()
    }

    fn skip_space(&mut self) {
        let rest = self.rest();
        self.at += rest.len() - rest.trim_start_matches([' ', '\t']).len();
    }

    fn rest(&self) -> &'t str {
        &self.text[self.at..]
    }

    fn unsupported(&self, expected: &'static str) -> SelectorError {
        SelectorError::Unsupported {
            at: self.at,
            expected,
        }
    }
}

fn is_of_label(c: char) -> bool {
    c.is_ascii_alphanumeric() || "_./-".contains(c)
}

#[cfg(test)]
mod tests;
