//! Our own words with values of the cluster in them, for every output format. Each value is marked
//! as it is added, so that its text cannot end the mark.

use super::human::{Detail, limit};
use super::markup::{Markup, Pieces};
use super::text::{grouped_digits, printable};

/// Words and values, in the order of reading.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Phrase(Vec<Part>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Words(String),
    Value(String),
    Sentence(String),
    Listed {
        shown: Vec<Phrase>,
        /// Between two of them on a page. A terminal has a comma.
        between: &'static str,
        more: usize,
    },
}

impl Phrase {
    pub(super) fn new(words: &str) -> Phrase {
        Phrase::default().words(words)
    }

    /// A name or a value.
    pub(super) fn of(value: &str) -> Phrase {
        Phrase::default().value(value)
    }

    /// A sentence. Backticks in pairs mark code.
    pub(super) fn prose(text: &str) -> Phrase {
        Phrase::default().sentence(text)
    }

    /// Values, each of which can be copied alone from a page.
    pub(super) fn values<T: ToString>(values: impl IntoIterator<Item = T>) -> Phrase {
        let mut phrase = Phrase::default();
        for value in values {
            let between = if phrase.0.is_empty() { "" } else { " " };
            phrase = phrase.words(between).value(&value.to_string());
        }
        phrase
    }

    /// The first names of a list, and the number of the other ones.
    pub(super) fn names(names: &[String], detail: Detail) -> Phrase {
        Phrase::listed(names.iter().map(|name| Phrase::of(name)), " ", detail)
    }

    /// The first phrases of a list, and the number of the other ones.
    pub(super) fn listed(
        mut all: impl ExactSizeIterator<Item = Phrase>,
        between: &'static str,
        detail: Detail,
    ) -> Phrase {
        let shown = all.by_ref().take(limit(detail)).collect();
        Phrase(vec![Part::Listed {
            shown,
            between,
            more: all.len(),
        }])
    }

    pub(super) fn words(mut self, words: &str) -> Phrase {
        if !words.is_empty() {
            self.0.push(Part::Words(words.to_owned()));
        }
        self
    }

    /// A name or a value.
    pub(super) fn value(mut self, value: &str) -> Phrase {
        self.0.push(Part::Value(value.to_owned()));
        self
    }

    /// Adds a sentence, which is shown like [`Phrase::prose`].
    pub(super) fn sentence(mut self, text: &str) -> Phrase {
        self.0.push(Part::Sentence(text.to_owned()));
        self
    }

    /// The place in the files, in brackets.
    pub(super) fn at(self, place: Option<impl ToString>) -> Phrase {
        match place {
            Some(place) => self.words(" (").value(&place.to_string()).words(")"),
            None => self,
        }
    }

    pub(super) fn then(mut self, phrase: Phrase) -> Phrase {
        self.0.extend(phrase.0);
        self
    }

    /// The phrase as text for a terminal, without colours.
    pub(super) fn text(&self) -> String {
        let text = |part: &Part| match part {
            Part::Words(words) => words.clone(),
            Part::Value(text) | Part::Sentence(text) => printable(text).into_owned(),
            Part::Listed { shown, more, .. } => {
                let shown: Vec<String> = shown.iter().map(Phrase::text).collect();
                let more = match more {
                    0 => String::new(),
                    more => format!(" … and {} more", grouped_digits(*more)),
                };
                shown.join(", ") + &more
            }
        };
        self.0.iter().map(text).collect()
    }

    fn pieces(&self) -> Pieces {
        let mut pieces = Pieces::default();
        for part in &self.0 {
            match part {
                Part::Words(words) => pieces.words(words),
                Part::Value(value) => pieces.code(&printable(value)),
                Part::Sentence(text) => pieces.append(Pieces::of(text)),
                Part::Listed {
                    shown,
                    between,
                    more,
                } => {
                    for (place, phrase) in shown.iter().enumerate() {
                        pieces.words(if place == 0 { "" } else { between });
                        pieces.append(phrase.pieces());
                    }
                    if *more > 0 {
                        pieces.words(&format!("{between}and {} more", grouped_digits(*more)));
                    }
                }
            }
        }
        pieces
    }

    pub(super) fn markdown(&self) -> Markup {
        self.pieces().markdown()
    }

    /// In raw HTML, in which Markdown means nothing.
    pub(super) fn html(&self) -> String {
        self.pieces().html()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_stays_whole_in_a_phrase() {
        let title = Phrase::new("pool ").value("a`b@c|d").words(", 2 changes");
        assert_eq!(title.text(), "pool a`b@c|d, 2 changes");
        assert_eq!(
            title.markdown().as_str(),
            "pool `a`&#96;`b@c`&#124;`d`, 2 changes"
        );
        assert_eq!(
            title.html(),
            "pool <code>a</code>&#96;<code>b@c</code>&#124;<code>d</code>, 2 changes"
        );
    }

    #[test]
    fn a_list_names_the_first_ones() {
        let names: Vec<String> = (1..=12).map(|number| format!("n-{number}")).collect();
        let listed = Phrase::names(&names, Detail::Short);
        assert!(listed.text().ends_with("n-9, n-10 … and 2 more"));
        let page = listed.markdown();
        assert!(page.as_str().ends_with("`n-9` `n-10` and 2 more"), "{page}");
    }
}
