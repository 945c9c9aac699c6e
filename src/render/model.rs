//! A report as every output format shows it: its verdict, and sections with what they list. Filled
//! once from a plan, a schedule or an examination; `terminal.rs` and `markdown_page.rs` show it.

use super::phrase::Phrase;
use super::text::{Paint, grouped_digits};

/// A report for a terminal or a page: the verdict, and the sections that explain it.
pub(super) struct Report<'p> {
    /// Stands at the top, and again at the end: long output scrolls the first line away.
    pub(super) verdict: String,
    /// Lines right below the verdict.
    pub(super) below: Vec<String>,
    pub(super) sections: Vec<Section<'p>>,
}

pub(super) enum Section<'p> {
    Listing(Listing<'p>),
    /// A note on a line of its own.
    Note(Phrase),
    /// A side note on a line of its own.
    Aside(Phrase),
}

impl<'p> From<Listing<'p>> for Section<'p> {
    fn from(listing: Listing<'p>) -> Section<'p> {
        Section::Listing(listing)
    }
}

/// The rows below a title. Without a row, nothing is shown.
pub(super) struct Listing<'p> {
    pub(super) title: Phrase,
    /// How many there are, such as `3 nodes`.
    pub(super) how_many: String,
    /// Words that a terminal shows after `how_many`.
    pub(super) remark: &'static str,
    /// Colour of the title on a terminal.
    pub(super) paint: Paint,
    /// The form of the rows on a page.
    pub(super) form: Form,
    pub(super) columns: Vec<Column>,
    /// Whether the first cells of a row stand below those of the row above on a terminal.
    pub(super) aligned: bool,
    pub(super) rows: Box<dyn ExactSizeIterator<Item = Row> + 'p>,
    /// Rows that even a short output of a terminal has.
    pub(super) always: usize,
    /// Rows that are left out, in words, and their number.
    pub(super) rest: Option<(String, usize)>,
    /// Noun for one row, to count rows that do not fit on a page.
    pub(super) noun: &'static str,
    pub(super) up_to: UpTo,
    /// Codes of rules that a terminal points to.
    pub(super) codes: Vec<&'p str>,
}

/// The shape of rows on a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// Lines, each of which names its subject.
    Lines,
    /// Lines below the title of the listing.
    Titled,
    /// Lines below a heading.
    Headed,
    /// A table that the host of a page shows at once.
    Open,
    /// A table that the host of a page folds away.
    Folded,
}

/// Eighths of the page that a section and all before it may fill, so that a long one leaves room
/// for those after it.
#[derive(Clone, Copy, Debug)]
pub(super) struct UpTo(pub(super) usize);

/// Limit of a listing that may fill the whole page.
pub(super) const WHOLE: UpTo = UpTo(8);

/// A column: its heading on a page, where it is empty for none, and its place on a terminal.
#[derive(Clone, Copy, Debug)]
pub(super) struct Column {
    pub(super) heading: &'static str,
    pub(super) place: Place,
}

/// Where a terminal shows a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// In the line of the row, at least as wide as this if the rows are aligned.
    First(usize),
    /// In a line below.
    Below,
    /// In a line below, as a side note.
    Aside,
    /// In a line below, as a side note, once for adjacent rows with the same cell.
    Shared,
    /// Not on a terminal: only a page shows the cell.
    Page,
}

pub(super) const fn first(heading: &'static str) -> Column {
    let place = Place::First(0);
    Column { heading, place }
}

pub(super) const fn below(heading: &'static str) -> Column {
    let place = Place::Below;
    Column { heading, place }
}

pub(super) const fn aside(heading: &'static str) -> Column {
    let place = Place::Aside;
    Column { heading, place }
}

pub(super) const fn shared(heading: &'static str) -> Column {
    let place = Place::Shared;
    Column { heading, place }
}

pub(super) const fn page(heading: &'static str) -> Column {
    let place = Place::Page;
    Column { heading, place }
}

/// A row: a cell for each column.
#[derive(Default)]
pub(super) struct Row {
    /// Before the row on a terminal.
    pub(super) sign: Option<(Paint, &'static str)>,
    pub(super) cells: Vec<Phrase>,
    /// The line of a page. Default: the cells.
    pub(super) line: Option<Phrase>,
    /// Lines below the row, each with a word that says what it is, or none.
    pub(super) details: Vec<(&'static str, Phrase)>,
    /// Number of entries that the row stands for.
    pub(super) count: usize,
    /// A diff below the row, or below the table of a page, where it has this title.
    pub(super) diff: Option<(Phrase, Vec<String>)>,
    /// Whether the row only counts left-out rows, in its first cell.
    pub(super) is_rest: bool,
}

impl Row {
    pub(super) fn new(cells: impl IntoIterator<Item = Phrase>) -> Row {
        Row {
            cells: cells.into_iter().collect(),
            count: 1,
            ..Row::default()
        }
    }

    pub(super) fn sign(self, paint: Paint, sign: &'static str) -> Row {
        let sign = Some((paint, sign));
        Row { sign, ..self }
    }

    pub(super) fn line(self, line: Phrase) -> Row {
        let line = Some(line);
        Row { line, ..self }
    }

    pub(super) fn of(self, count: usize) -> Row {
        Row { count, ..self }
    }
}

impl<'p> Listing<'p> {
    /// A table, folded on a page. `noun` names one row.
    pub(super) fn new(title: Phrase, noun: &'static str, columns: &[Column]) -> Listing<'p> {
        Listing {
            title,
            how_many: String::new(),
            remark: "",
            paint: Paint::Bold,
            form: Form::Folded,
            columns: columns.to_vec(),
            aligned: false,
            rows: Box::new(std::iter::empty()),
            always: 0,
            rest: None,
            noun,
            up_to: WHOLE,
            codes: Vec::new(),
        }
    }

    pub(super) fn counted(self, how_many: String) -> Listing<'p> {
        Listing { how_many, ..self }
    }

    pub(super) fn form(self, form: Form, up_to: UpTo) -> Listing<'p> {
        Listing {
            form,
            up_to,
            ..self
        }
    }

    /// Adds a row for each item. A row is built when it is shown.
    pub(super) fn rows<T: 'p>(
        self,
        items: impl IntoIterator<Item = T, IntoIter: ExactSizeIterator + 'p>,
        row: impl FnMut(T) -> Row + 'p,
    ) -> Listing<'p> {
        let rows = Box::new(items.into_iter().map(row));
        Listing { rows, ..self }
    }

    /// A row for each of the first items, and the number of the others.
    pub(super) fn first_rows<T: 'p>(
        self,
        mut items: Vec<T>,
        most: usize,
        row: impl FnMut(T) -> Row + 'p,
    ) -> Listing<'p> {
        let more = items.len().saturating_sub(most);
        items.truncate(most);
        let rest = (more > 0).then(|| (format!("{} more", grouped_digits(more)), more));
        self.rows(items, row).rest(rest)
    }

    pub(super) fn rest(self, rest: Option<(String, usize)>) -> Listing<'p> {
        Listing { rest, ..self }
    }
}
