//! The part of a file that a finding shows: the lines around each place, cut where they are long.
//! Its size does not grow with the file or with the length of its lines.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use miette::{MietteError, MietteSpanContents, SourceCode, SourceSpan, SpanContents};

use super::text::masked;
use ipam_config::documents::{Documents, Lines};
use ipam_core::model::Origin;

/// Length of the longest line that is shown whole, in bytes.
const LONGEST_LINE: usize = 240;

/// Characters of a longer line that are shown before a place, and from the place on.
const BEFORE: usize = 60;
const FROM: usize = 120;

/// Lines between two places: more are left out.
const BETWEEN: usize = 8;

/// Bytes of the longest sentence that is shown whole. A sentence may quote a file.
const LONGEST_SENTENCE: usize = 1_000;

/// Replaces the part that is cut out of a line. Its length in bytes counts.
const CUT: &str = "…";

/// The files. Each is indexed once, on first use.
pub(super) struct Sources<'d> {
    texts: BTreeMap<&'d str, &'d Arc<str>>,
    lines: BTreeMap<&'d str, Lines>,
}

impl<'d> Sources<'d> {
    pub(super) fn new(documents: &'d Documents) -> Sources<'d> {
        let texts = documents
            .files
            .iter()
            .rev()
            .map(|file| (&*file.path, &file.text))
            .collect();
        Sources {
            texts,
            lines: BTreeMap::new(),
        }
    }

    fn lines(&mut self, file: &str) -> Option<&Lines> {
        let (file, text) = self.texts.get_key_value(file)?;
        Some(self.lines.entry(file).or_insert_with(|| Lines::new(text)))
    }

    /// The line of a place, or the part of it around the place.
    pub(super) fn line(&mut self, origin: &Origin) -> Option<String> {
        let lines = self.lines(&origin.file)?;
        let (line, at) = (origin.line as usize, origin.bytes.0);
        (line <= lines.count()).then(|| around(lines, line, at).1)
    }

    /// The excerpt for a place and for others in the same file.
    pub(super) fn excerpt<'o>(
        &mut self,
        main: &'o Origin,
        others: impl Iterator<Item = &'o Origin>,
    ) -> Option<Excerpt> {
        Some(Excerpt::new(self.lines(&main.file)?, main, others))
    }
}

/// A sentence of limited length: a longer one keeps its start and its end.
pub(super) fn sentence(text: &str) -> Cow<'_, str> {
    if text.len() <= LONGEST_SENTENCE {
        return Cow::Borrowed(text);
    }
    let (head, tail) = (
        text.floor_char_boundary(LONGEST_SENTENCE * 2 / 3),
        text.len() - LONGEST_SENTENCE / 4,
    );
    Cow::Owned(format!(
        "{}{CUT}{}",
        &text[..head],
        &text[text.ceil_char_boundary(tail)..]
    ))
}

/// The bytes of a line that are shown for a place in it, and their text, of the same length.
fn around(lines: &Lines, line: usize, at: usize) -> (Range<usize>, String) {
    let (whole, text) = (lines.range(line), lines.text(line));
    if whole.len() <= LONGEST_LINE {
        return (whole, text.to_owned());
    }
    let at = text.floor_char_boundary(at.saturating_sub(whole.start));
    let start = text[..at]
        .char_indices()
        .rev()
        .nth(BEFORE)
        .map_or(0, |(start, _)| start);
    let end = text[at..]
        .char_indices()
        .nth(FROM)
        .map_or(text.len(), |(end, _)| at + end);
    let shown = &text[start..end];
    let head = if start > 0 {
        shown.ceil_char_boundary(CUT.len())
    } else {
        0
    };
    let tail = if end < text.len() {
        shown.floor_char_boundary(shown.len() - CUT.len())
    } else {
        shown.len()
    };
    let mark = |length: usize| {
        if length == 0 {
            String::new()
        } else {
            CUT.to_owned() + &" ".repeat(length - CUT.len())
        }
    };
    let text = mark(head) + &shown[head..tail] + &mark(shown.len() - tail);
    (whole.start + start..whole.start + end, text)
}

/// Adjacent lines of a file, or a part of a long line.
#[derive(Debug)]
struct Piece {
    /// Number of the first line, from 1.
    line: usize,
    /// Characters of that line before the text, so that columns count on.
    column: usize,
    bytes: Range<usize>,
    /// Text of the piece, of the same length as `bytes`.
    text: String,
}

/// What is shown of a file.
#[derive(Debug)]
pub(super) struct Excerpt {
    file: Arc<str>,
    pieces: Vec<Piece>,
}

impl Excerpt {
    fn new<'o>(
        lines: &Lines,
        main: &'o Origin,
        others: impl Iterator<Item = &'o Origin>,
    ) -> Excerpt {
        let mut marked: BTreeMap<usize, &Origin> = BTreeMap::new();
        for origin in std::iter::once(main).chain(others) {
            marked.entry(origin.line as usize).or_insert(origin);
        }
        let is_short = |line: usize| {
            (1..=lines.count()).contains(&line) && lines.range(line).len() <= LONGEST_LINE
        };
        let mut excerpt = Excerpt {
            file: main.file.clone(),
            pieces: Vec::new(),
        };
        let mut whole: Option<Range<usize>> = None;
        for (line, origin) in marked {
            if !is_short(line) {
                excerpt.whole_lines(lines, whole.take());
                excerpt.part_of_line(lines, line, origin);
                continue;
            }
            let from = if is_short(line - 1) { line - 1 } else { line };
            let to = if is_short(line + 1) {
                line + 2
            } else {
                line + 1
            };
            match &mut whole {
                Some(before)
                    if from <= before.end + BETWEEN && (before.end..from).all(is_short) =>
                {
                    before.end = to
                }
                _ => excerpt.whole_lines(lines, whole.replace(from..to)),
            }
        }
        excerpt.whole_lines(lines, whole);
        excerpt
    }

    fn whole_lines(&mut self, lines: &Lines, whole: Option<Range<usize>>) {
        let Some(Range { start: line, end }) = whole else {
            return;
        };
        let bytes = lines.range(line).start..lines.range(end).start;
        let text = masked(&lines.between(bytes.clone()).replace("\r\n", " \n"));
        self.pieces.push(Piece {
            line,
            column: 0,
            bytes,
            text,
        });
    }

    fn part_of_line(&mut self, lines: &Lines, line: usize, origin: &Origin) {
        let (bytes, text) = around(lines, line, origin.bytes.0);
        let text = masked(&text);
        let before = text[..origin.bytes.0.saturating_sub(bytes.start)]
            .chars()
            .count();
        let column = (origin.column as usize).saturating_sub(1 + before);
        self.pieces.push(Piece {
            line,
            column,
            bytes,
            text,
        });
    }

    fn piece(&self, bytes: &Range<usize>) -> Option<&Piece> {
        self.pieces
            .iter()
            .find(|piece| piece.bytes.start <= bytes.start && bytes.end <= piece.bytes.end)
    }

    /// The bytes of a place that are shown; `None` if the place lies in a part that is cut out.
    pub(super) fn shown(&self, origin: &Origin) -> Option<Range<usize>> {
        let start = origin.bytes.0;
        let piece = self
            .pieces
            .iter()
            .find(|piece| piece.bytes.contains(&start) || piece.bytes.end == start)?;
        let first = start - piece.bytes.start;
        // In a line that is cut, a place may end in the middle of `CUT`.
        let last = piece
            .text
            .floor_char_boundary(origin.bytes.1.max(start) - piece.bytes.start);
        piece
            .text
            .is_char_boundary(first)
            .then_some(start..piece.bytes.start + last)
    }
}

impl SourceCode for Excerpt {
    /// With context a whole piece; without, only the span.
    fn read_span<'a>(
        &'a self,
        span: &SourceSpan,
        before: usize,
        _after: usize,
    ) -> Result<Box<dyn SpanContents<'a> + 'a>, MietteError> {
        let bytes = span.offset()..span.offset() + span.len();
        let piece = self.piece(&bytes).ok_or(MietteError::OutOfBounds)?;
        let Piece {
            line,
            column,
            bytes: Range { start, .. },
            text,
        } = piece;
        let (name, line) = (self.file.to_string(), line - 1);
        let contents = if before == 0 {
            let head = &text[..bytes.start - start];
            let line = line + head.matches('\n').count();
            let column = match head.rfind('\n') {
                Some(newline) => head[newline + 1..].chars().count(),
                None => column + head.chars().count(),
            };
            let data = &text.as_bytes()[bytes.start - start..bytes.end - start];
            MietteSpanContents::new_named(name, data, *span, line, column, 1)
        } else {
            let whole = SourceSpan::from((*start, text.len()));
            MietteSpanContents::new_named(
                name,
                text.as_bytes(),
                whole,
                line,
                *column,
                text.matches('\n').count(),
            )
        };
        Ok(Box::new(contents))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ipam_config::documents::SourceFile;

    fn documents(text: &str) -> Documents {
        Documents {
            files: vec![SourceFile {
                path: "a.yaml".into(),
                text: text.into(),
            }],
        }
    }

    fn origin(text: &str, what: &str) -> Origin {
        let start = text.find(what).unwrap();
        let line_start = text[..start].rfind('\n').map_or(0, |newline| newline + 1);
        let number = |count: usize| u32::try_from(count).unwrap() + 1;
        let (line, column) = (
            text[..start].matches('\n').count(),
            text[line_start..start].chars().count(),
        );
        Origin {
            file: "a.yaml".into(),
            line: number(line),
            column: number(column),
            bytes: (start, start + what.len()),
        }
    }

    fn shown(text: &str, what: &str) -> String {
        Sources::new(&documents(text))
            .line(&origin(text, what))
            .unwrap()
    }

    #[test]
    fn a_long_line_is_cut_around_the_place() {
        assert_eq!(shown("a: x\nb: y\n", "y"), "b: y");
        let ascii = format!("{}HERE{}", "a".repeat(100_000), "b".repeat(100_000));
        let line = shown(&ascii, "HERE");
        assert_eq!(line, format!("…{}HERE{}…", "a".repeat(58), "b".repeat(113)));
        let wide = format!("{}HERE{}", "😀".repeat(100_000), "é".repeat(100_000));
        let line = shown(&wide, "HERE");
        assert!(
            line.starts_with("… 😀") && line.ends_with("é… ") && line.contains("😀HEREé"),
            "{line}"
        );
        let at_the_start = shown(&ascii, "aa");
        assert!(
            at_the_start.starts_with("aaa") && at_the_start.ends_with("a…"),
            "{at_the_start}"
        );
    }

    #[test]
    fn an_excerpt_holds_as_little_of_a_large_file_as_of_a_small_one() {
        let long = "x".repeat(1_000_000);
        let text = format!(
            "{long}\nfirst: 1\n{}\n{long} second: {long}\nlast: 1\n",
            "- 1\n".repeat(100_000)
        );
        let documents = documents(&text);
        let mut sources = Sources::new(&documents);
        let (first, second, last) = (
            origin(&text, "first"),
            origin(&text, "second"),
            origin(&text, "last"),
        );
        let excerpt = sources
            .excerpt(&first, [&second, &last].into_iter())
            .unwrap();
        let lines: Vec<(usize, usize)> = excerpt
            .pieces
            .iter()
            .map(|piece| (piece.line, piece.text.len()))
            .collect();
        assert_eq!(lines, [(2, 13), (100_004, 181), (100_005, 8)]);
        for piece in &excerpt.pieces {
            assert_eq!(piece.bytes.len(), piece.text.len());
        }
        for place in [&first, &second, &last] {
            let bytes = excerpt.shown(place).unwrap();
            let span = SourceSpan::from((bytes.start, bytes.len()));
            let contents = excerpt.read_span(&span, 0, 0).unwrap();
            assert_eq!(
                (contents.line() + 1, contents.column() + 1),
                (place.line as usize, place.column as usize)
            );
            assert_eq!(contents.data(), text[bytes].as_bytes());
        }
    }

    #[test]
    fn a_long_sentence_keeps_its_start_and_its_end() {
        assert_eq!(sentence("short"), "short");
        let long = sentence(&format!("`{}` is no CIDR", "é".repeat(1_000_000))).into_owned();
        assert!(
            long.starts_with("`é")
                && long.ends_with("é` is no CIDR")
                && long.len() < LONGEST_SENTENCE,
            "{long}"
        );
    }
}
