//! A legend for the comment of a pull request: the words of ours that it uses.

use super::markup::prose;

/// Longest legend in bytes, so that a page leaves room for it.
pub(super) const LONGEST: usize = 900;

/// A word in all its forms, and what it means.
const WORDS: [(&str, &[&str], &str); 6] = [
    (
        "Pin",
        &["pin", "pins", "pinned"],
        "a `NodeAssignment` or `ServiceAssignment` in the files, which fixes the addresses of one node or Service",
    ),
    (
        "Protected",
        &["protected", "protected-node", "protected-pool"],
        "the Policy or an annotation forbids to disrupt it or to take addresses from it",
    ),
    (
        "Adopted",
        &["adopt", "adopted"],
        "a person or another tool made the object; from the apply on, these files manage it",
    ),
    (
        "Blocked",
        &["blocked"],
        "a wanted change that cannot be made now; on a node without a block, no Pod gets an address",
    ),
    (
        "Misplaced",
        &["misplaced"],
        "the node holds a block that the files would not give it today; it stays until a person moves it",
    ),
    (
        "Digest",
        &["digest"],
        "a fingerprint of these changes; an apply that names it makes no others",
    ),
];

/// The legend for this text; empty without any of the words.
pub(super) fn legend(text: &str) -> String {
    let is_letter = |c: char| c.is_ascii_alphanumeric() || c == '-';
    let lower = text.to_lowercase();
    let used: Vec<&str> = lower.split(|c| !is_letter(c)).collect();
    let is_used = |forms: &[&str]| used.iter().any(|word| forms.contains(word));
    let known = WORDS.iter().filter(|(_, forms, _)| is_used(forms));
    let sentences: Vec<String> = known
        .map(|(word, _, meaning)| format!("**{word}:** {}.", prose(meaning)))
        .collect();
    match sentences.is_empty() {
        true => String::new(),
        false => format!("\n{}\n", sentences.join(" ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_legend_has_the_used_words_alone_and_fits() {
        assert_eq!(legend("spinning, by-pin"), "");
        let two = legend("Pinned. The digest");
        assert!(
            two.starts_with("\n**Pin:** a `NodeAssignment` or "),
            "{two}"
        );
        assert_eq!(two.matches("**").count(), 4, "{two}");
        let all: Vec<&str> = WORDS.iter().map(|(word, ..)| *word).collect();
        let all = legend(&all.join(" "));
        assert!(all.len() <= LONGEST, "{}", all.len());
        assert_eq!(all.matches("**").count(), 2 * WORDS.len(), "{all}");
    }
}
