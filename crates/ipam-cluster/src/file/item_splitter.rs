//! Cuts the JSON text of a `List` into its items while the text is read. It must never know what
//! an item means, and does not check its syntax.

use std::io::Read;
use std::ops::Range;

use memchr::{memchr2, memchr3};
use serde::Deserialize;
use serde::de::IgnoredAny;

/// Bytes that are read at once, and the size at which items are handed on.
pub(super) const BATCH: usize = 1 << 20;

/// Limit of the bytes outside items, for each item and for the list. `kubectl` prints fewer than
/// 100.
const MOST_AROUND: usize = 1 << 12;

/// The text may be no `List` of objects, or cannot be read. Reading it as a whole tells why.
#[derive(Debug)]
pub(super) struct Irregular;

/// Some items, one after the other.
pub(super) struct Batch {
    bytes: Vec<u8>,
    items: Vec<Range<usize>>,
}

impl Batch {
    /// The text of each item. It begins and ends with a brace.
    pub(super) fn items(&self) -> impl Iterator<Item = &[u8]> {
        self.items.iter().map(|item| &self.bytes[item.clone()])
    }
}

/// Where the next byte is.
#[derive(Clone, Copy)]
enum Place {
    /// Outside the list's items.
    Around,
    /// Between two items of the list.
    Between,
    /// In an item, which begins at this byte of the batch.
    Item(usize),
}

/// Where the next byte is in a string.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Quoting {
    Outside,
    Inside,
    /// Inside a string, after a backslash.
    Escaped,
}

impl Quoting {
    fn after(self, byte: u8) -> Quoting {
        match (self, byte) {
            (Quoting::Outside, b'"') | (Quoting::Escaped, _) => Quoting::Inside,
            (Quoting::Inside, b'\\') => Quoting::Escaped,
            (Quoting::Inside, b'"') => Quoting::Outside,
            (same, _) => same,
        }
    }
}

/// The last tokens of the list, if a list of items may follow.
#[derive(Clone, Copy, PartialEq, Eq)]
enum LastTokens {
    Other,
    Items,
    ItemsAndColon,
}

/// Whether the text has had items so far.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Found {
    Nothing,
    Items,
}

/// Reads batches of items.
pub(super) struct ItemSplitter<R> {
    input: R,
    place: Place,
    quoting: Quoting,
    /// Open braces of the item, or open braces and brackets around the items.
    depth: usize,
    last: LastTokens,
    found: Found,
    /// The text around the items. Each item is a zero.
    around: Vec<u8>,
    /// Bytes outside items since the last one.
    outside: usize,
    /// Where the last string of that text begins.
    string_start: usize,
}

/// Text of the list outside its items.
#[derive(Deserialize)]
struct Around {
    kind: String,
    #[serde(rename = "items")]
    _items: Vec<IgnoredAny>,
}

impl<R: Read> ItemSplitter<R> {
    pub(super) fn new(input: R) -> ItemSplitter<R> {
        ItemSplitter {
            input,
            place: Place::Around,
            quoting: Quoting::Outside,
            depth: 0,
            last: LastTokens::Other,
            found: Found::Nothing,
            around: Vec::new(),
            outside: 0,
            string_start: 0,
        }
    }

    /// Gives batches of about this many bytes.
    ///
    /// # Errors
    /// Fails if the text is irregular, or `take` fails. Batches were given before.
    pub(super) fn split(
        mut self,
        size: usize,
        mut take: impl FnMut(Batch) -> Result<(), Irregular>,
    ) -> Result<(), Irregular> {
        let (mut bytes, mut items) = (Vec::new(), Vec::new());
        loop {
            let scanned = bytes.len();
            let mut block = self.input.by_ref().take(size as u64);
            let read = block.read_to_end(&mut bytes).map_err(|_| Irregular)?;
            self.scan(&bytes, scanned, &mut items)?;
            if read == 0 {
                take(Batch { bytes, items })?;
                return self.ended();
            }
            let rest = match &mut self.place {
                Place::Item(start) if items.is_empty() && *start == 0 => continue,
                Place::Item(start) => bytes.split_off(std::mem::take(start)),
                Place::Around | Place::Between => Vec::new(),
            };
            let bytes = std::mem::replace(&mut bytes, rest);
            if !items.is_empty() {
                let items = std::mem::take(&mut items);
                take(Batch { bytes, items })?;
            }
        }
    }

    fn ended(&self) -> Result<(), Irregular> {
        let text = std::str::from_utf8(&self.around).map_err(|_| Irregular)?;
        let around: Around = serde_json::from_str(text).map_err(|_| Irregular)?;
        // A key that is spelled with an escape is found by the parser alone.
        match (around.kind.as_str(), self.found) {
            ("List", Found::Items) => Ok(()),
            _ => Err(Irregular),
        }
    }

    fn scan(
        &mut self,
        bytes: &[u8],
        from: usize,
        items: &mut Vec<Range<usize>>,
    ) -> Result<(), Irregular> {
        let mut at = from;
        while at < bytes.len() {
            match self.place {
                Place::Item(start) => {
                    at = self.end_of_item(bytes, at);
                    if self.depth == 0 {
                        items.push(start..at);
                        self.around.push(b'0');
                        self.outside = 0;
                        self.place = Place::Between;
                    }
                }
                Place::Between | Place::Around if self.outside == MOST_AROUND => {
                    return Err(Irregular);
                }
                Place::Between => {
                    self.between(bytes[at], at)?;
                    (self.outside, at) = (self.outside + 1, at + 1);
                }
                Place::Around => {
                    self.around(bytes[at])?;
                    (self.outside, at) = (self.outside + 1, at + 1);
                }
            }
        }
        Ok(())
    }

    /// The byte after the item, or the end of the bytes. Only braces are counted: in an object, all
    /// brackets are closed before the last brace.
    fn end_of_item(&mut self, bytes: &[u8], from: usize) -> usize {
        let mut at = from;
        while at < bytes.len() {
            let found = match self.quoting {
                Quoting::Escaped => Some(0),
                Quoting::Inside => memchr2(b'"', b'\\', &bytes[at..]),
                Quoting::Outside => memchr3(b'"', b'{', b'}', &bytes[at..]),
            };
            let Some(found) = found else {
                return bytes.len();
            };
            let byte = bytes[at + found];
            at += found + 1;
            match (self.quoting, byte) {
                (Quoting::Outside, b'{') => self.depth += 1,
                (Quoting::Outside, b'}') => self.depth -= 1,
                _ => {}
            }
            if self.depth == 0 {
                return at;
            }
            self.quoting = self.quoting.after(byte);
        }
        at
    }

    fn between(&mut self, byte: u8, at: usize) -> Result<(), Irregular> {
        match byte {
            b'{' => {
                self.depth = 1;
                self.place = Place::Item(at);
            }
            b',' => self.around.push(byte),
            b']' => {
                self.around.push(byte);
                self.depth = 1;
                self.place = Place::Around;
            }
            b' ' | b'\n' | b'\r' | b'\t' => {}
            _ => return Err(Irregular),
        }
        Ok(())
    }

    fn around(&mut self, byte: u8) -> Result<(), Irregular> {
        let is_regular = self.depth > 0 || b"{ \n\r\t".contains(&byte);
        // The first byte of a YAML file shows that the file is not JSON.
        if !is_regular && !self.around.contains(&b'{') {
            return Err(Irregular);
        }
        self.around.push(byte);
        let quoting = self.quoting;
        self.quoting = quoting.after(byte);
        match (quoting, byte) {
            (Quoting::Inside, b'"') => {
                if self.depth == 1 && &self.around[self.string_start..] == b"\"items\"" {
                    self.last = LastTokens::Items;
                }
            }
            (Quoting::Inside | Quoting::Escaped, _)
            | (Quoting::Outside, b' ' | b'\n' | b'\r' | b'\t') => {}
            (Quoting::Outside, b'"') => {
                self.string_start = self.around.len() - 1;
                self.last = LastTokens::Other;
            }
            (Quoting::Outside, b':') if self.last == LastTokens::Items => {
                self.last = LastTokens::ItemsAndColon;
            }
            (Quoting::Outside, b'[') if self.last == LastTokens::ItemsAndColon => {
                (self.last, self.found) = (LastTokens::Other, Found::Items);
                self.place = Place::Between;
            }
            (Quoting::Outside, _) => self.depth = self.depth_after(byte)?,
        }
        Ok(())
    }

    fn depth_after(&mut self, byte: u8) -> Result<usize, Irregular> {
        self.last = LastTokens::Other;
        match byte {
            b'{' | b'[' => Ok(self.depth + 1),
            b'}' | b']' => self.depth.checked_sub(1).ok_or(Irregular),
            _ => Ok(self.depth),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::items::items_of;

    fn split(text: &str, size: usize) -> Option<Vec<String>> {
        let mut found = Vec::new();
        let take = |batch: Batch| {
            found.extend(
                batch
                    .items()
                    .map(|item| String::from_utf8(item.to_vec()).unwrap()),
            );
            Ok(())
        };
        ItemSplitter::new(text.as_bytes())
            .split(size, take)
            .ok()
            .map(|()| found)
    }

    #[test]
    fn items_are_those_of_a_parser_for_each_size_of_a_read() {
        for text in [
            r#"{"kind":"List","items":[]}"#,
            r#"{"kind":"List","items":[{}]}"#,
            r#" { "apiVersion" : "v1" , "items" : [ {"a":"}{\"\\"} , {"b":[{"c":{}}]} ] , "kind" : "List" } "#,
            r#"{"metadata":{"items":[{"no":"item"}]},"items":[{"x":"\\\"}"}],"kind":"List"}"#,
            r#"{"items":[{"é":"ü{"},{"y":"["},{"z":"]"}],"more":[1,{"items":[{}]}],"kind":"List","self":"items"}"#,
        ] {
            let expected: Vec<String> = items_of(text)
                .unwrap()
                .0
                .iter()
                .map(|item| item.get().to_owned())
                .collect();
            for size in 1..=text.len() + 1 {
                assert_eq!(
                    split(text, size).as_ref(),
                    Some(&expected),
                    "{size} of {text}"
                );
            }
        }
    }

    #[test]
    fn a_text_that_may_be_no_list_is_irregular() {
        for text in [
            "",
            "  ",
            "apiVersion: v1\nkind: List\nitems: []\n",
            "\u{feff}{\"kind\":\"List\",\"items\":[]}",
            r#"[{"kind":"List","items":[]}]"#,
            r#"{"kind":"List"}"#,
            r#"{"items":[]}"#,
            r#"{"kind":"NodeList","items":[{}]}"#,
            r#"{"kind":"List","items":[{}"#,
            r#"{"kind":"List","items":[{}]"#,
            r#"{"kind":"List","items":[{},]}"#,
            r#"{"kind":"List","items":[{}{}]}"#,
            r#"{"kind":"List","items":[,{}]}"#,
            r#"{"kind":"List","items":[null]}"#,
            r#"{"kind":"List","items":[[{}]]}"#,
            r#"{"kind":"List","items":[{}],"items":[{}]}"#,
            r#"{"kind":"List","items":[{}]}}"#,
            r#"{"kind":"List","items":[{}]} {"kind":"List","items":[{}]}"#,
            r#"{"kind":"List","it\u0065ms":[{}],"items":[{}]}"#,
            r#"{"kind":"List","it\u0065ms":[{}]}"#,
            r#"{"kind":"List","items" "items":[{}]}"#,
            r#"{"kind":"List","items":{"items":[{}]}}"#,
        ] {
            for size in 1..=text.len() + 1 {
                assert_eq!(split(text, size), None, "{size} of {text}");
            }
        }
    }

    #[test]
    fn long_texts_around_items_are_irregular() {
        let long = " ".repeat(MOST_AROUND);
        for text in [
            format!(r#"{{"kind":"List",{long}"items":[]}}"#),
            format!(r#"{{"kind":"List","items":[{{}},{long}{{}}]}}"#),
            format!(r#"{{"kind":"List","items":[{{}}]}}{long}"#),
        ] {
            assert_eq!(split(&text, BATCH), None);
            assert!(split(&text.replace(&long, " "), BATCH).is_some());
        }
        let many = vec!["{}"; 2 * MOST_AROUND].join(", ");
        let text = format!(r#"{{"kind":"List","items":[{many}]}}"#);
        assert_eq!(
            split(&text, BATCH).map(|items| items.len()),
            Some(2 * MOST_AROUND)
        );
    }

    #[test]
    fn text_around_items_that_is_no_utf_8_is_irregular() {
        let text = b"{\"kind\":\"List\",\"note\":\"\xff\",\"items\":[]}";
        assert!(
            ItemSplitter::new(&text[..])
                .split(BATCH, |_| Ok(()))
                .is_err()
        );
    }
}
