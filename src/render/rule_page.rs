//! The page of a rule code, the list of all codes, and the line that points to them.

use std::collections::BTreeSet;

use super::text::Paint;
use ipam_core::rules::{RuleFamily, RulePage};

/// The page of a code for a terminal.
pub fn rule_page(page: &RulePage) -> String {
    let mut text = format!(
        "{}\n{}\n{}\n",
        Paint::Bold.on(page.code),
        page.summary,
        Paint::Dim.on(&page.place())
    );
    for (heading, body) in page.sections() {
        text.push_str(&format!(
            "\n{}\n{}",
            Paint::Bold.on(heading),
            indented(body)
        ));
    }
    text
}

/// Every code with its summary, by family.
pub fn rule_list(families: &[RuleFamily]) -> String {
    let pages = families.iter().flat_map(|family| &family.pages);
    let width = pages.map(|page| page.code.len()).max().unwrap_or_default();
    let mut text = String::new();
    for RuleFamily { title, pages, .. } in families {
        text.push_str(&format!("{}\n", Paint::Bold.on(title)));
        for RulePage { code, summary, .. } in pages {
            text.push_str(&format!("  {code:width$}  {summary}\n"));
        }
        text.push('\n');
    }
    text + &pointer_to("CODE") + "\n"
}

/// One line for the end of a list of findings: how to read about their codes.
pub(super) fn pointer<'c>(codes: impl IntoIterator<Item = &'c str>) -> Option<String> {
    let mut codes = codes.into_iter();
    let first = codes.next()?;
    let is_only = codes.all(|code| code == first);
    Some(pointer_to(if is_only { first } else { "CODE" }))
}

/// The same for a list that does not show its codes: names them.
pub(super) fn pointer_with_codes<'c>(codes: impl IntoIterator<Item = &'c str>) -> Option<String> {
    let codes: BTreeSet<&str> = codes.into_iter().collect();
    let line = pointer(codes.iter().copied())?;
    Some(match codes.len() {
        1 => line,
        _ => {
            let codes: Vec<&str> = codes.into_iter().collect();
            format!("{line} Codes here: {}.", codes.join(", "))
        }
    })
}

fn pointer_to(code: &str) -> String {
    format!("Run `cilium-ipam explain-rule {code}` for what to do.")
}

/// Lines with two blanks before them. The marks of code blocks become four.
fn indented(body: &str) -> String {
    let mut text = String::new();
    let mut is_code = false;
    for line in body.lines() {
        if line.starts_with("```") {
            is_code = !is_code;
        } else if line.is_empty() {
            text.push('\n');
        } else {
            let indent = if is_code { "      " } else { "  " };
            text.push_str(&format!("{indent}{line}\n"));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_is_named_if_it_is_the_only_one() {
        let line = |codes: &[&'static str]| pointer(codes.iter().copied());
        assert_eq!(line(&[]), None);
        assert_eq!(
            line(&["no-pool", "no-pool"]).unwrap(),
            "Run `cilium-ipam explain-rule no-pool` for what to do."
        );
        assert_eq!(
            line(&["no-pool", "bad-cidr"]).unwrap(),
            "Run `cilium-ipam explain-rule CODE` for what to do."
        );
    }

    #[test]
    fn codes_that_are_not_shown_are_named_once() {
        assert_eq!(
            pointer_with_codes(["no-pool", "node-pools-exhausted", "no-pool"]).unwrap(),
            "Run `cilium-ipam explain-rule CODE` for what to do. Codes here: no-pool, node-pools-exhausted."
        );
        assert_eq!(
            pointer_with_codes(["no-pool"]).unwrap(),
            "Run `cilium-ipam explain-rule no-pool` for what to do."
        );
    }

    #[test]
    fn code_blocks_are_indented_further_and_lose_their_marks() {
        let text = indented("Do this:\n\n```sh\ncilium-ipam plan\n```");
        assert_eq!(text, "  Do this:\n\n      cilium-ipam plan\n");
    }
}
