//! A report as one HTML file, for a change ticket: the Markdown of a command as a page that needs
//! nothing but a browser. It runs no script and makes no request, and its policy allows neither.
//!
//! It must never know what it reports: the Markdown says that.
//!
//! What pages of one file share: a template with places, and digests for its policy.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use pulldown_cmark::{CowStr, Event, HeadingLevel, Options, Parser, Tag, TagEnd};
use sha2::{Digest, Sha256};

use super::markup::escaped;
use super::text::printable;

const PAGE: &str = include_str!("report.html");
const STYLE: &str = concat!(include_str!("colours.css"), include_str!("report.css"));

/// HTML of our Markdown: parts that fold, and the names in their titles.
const OURS: [&str; 7] = [
    "<details open>",
    "<details>",
    "</details>",
    "<summary>",
    "</summary>",
    "<code>",
    "</code>",
];

/// What a report is made from, where it is known.
#[derive(Clone, Debug, Default)]
pub struct ReportHeader {
    /// Name of the cluster, or its file.
    pub cluster: Option<String>,
    /// Version of Cilium.
    pub cilium: Option<String>,
    /// RFC 3339.
    pub time: String,
    /// Commit of the files.
    pub commit: Option<String>,
}

impl ReportHeader {
    fn html(&self) -> String {
        let ReportHeader {
            cluster,
            cilium,
            time,
            commit,
        } = self;
        let facts = [
            ("Cluster", cluster.as_deref()),
            ("Cilium", cilium.as_deref()),
            ("Time", Some(time)),
            ("Commit", commit.as_deref()),
            ("cilium-ipam", Some(env!("CARGO_PKG_VERSION"))),
        ];
        let fact = |(name, value): (&str, Option<&str>)| {
            let value = escaped(&printable(value?));
            Some(format!("<dt>{name}</dt><dd>{value}</dd>"))
        };
        facts.into_iter().filter_map(fact).collect()
    }
}

/// The page. `title` is the name that a browser shows for it.
pub fn report(title: &str, header: &ReportHeader, markdown: &str) -> String {
    let policy = format!(
        "default-src 'none'; style-src '{}'; base-uri 'none'; form-action 'none'",
        digest(STYLE)
    );
    let options = Options::ENABLE_TABLES | Options::ENABLE_TASKLISTS;
    let events = Parser::new_ext(markdown, options).map(as_report);
    let mut body = String::with_capacity(markdown.len() * 2);
    pulldown_cmark::html::push_html(&mut body, events);
    let parts = [
        ("POLICY", policy.as_str()),
        ("TITLE", &escaped(title)),
        ("STYLE", STYLE),
        ("HEADER", &header.html()),
        ("BODY", body.trim_end()),
    ];
    filled(PAGE, &parts)
}

/// The first heading of a page is its title, and HTML that is not ours is text.
fn as_report(event: Event<'_>) -> Event<'_> {
    match event {
        Event::Start(Tag::Heading {
            level,
            id,
            classes,
            attrs,
        }) => Event::Start(Tag::Heading {
            level: raised(level),
            id,
            classes,
            attrs,
        }),
        Event::End(TagEnd::Heading(level)) => Event::End(TagEnd::Heading(raised(level))),
        Event::Html(html) => Event::Html(only_ours(html)),
        Event::InlineHtml(html) => Event::InlineHtml(only_ours(html)),
        other => other,
    }
}

/// A comment of a pull request begins with a heading of the third level.
fn raised(level: HeadingLevel) -> HeadingLevel {
    match level {
        HeadingLevel::H1 | HeadingLevel::H2 | HeadingLevel::H3 => HeadingLevel::H1,
        HeadingLevel::H4 => HeadingLevel::H2,
        HeadingLevel::H5 => HeadingLevel::H3,
        HeadingLevel::H6 => HeadingLevel::H4,
    }
}

fn only_ours(html: CowStr<'_>) -> CowStr<'_> {
    let mut rest = html.to_string();
    for tag in OURS {
        rest = rest.replace(tag, "");
    }
    match rest.contains(['<', '>']) {
        true => escaped(&html).into(),
        false => html,
    }
}

/// The template with each `{{NAME}}` replaced, in this order, from left to right: a part that looks
/// like a place stays as it is.
pub(super) fn filled(template: &str, parts: &[(&str, &str)]) -> String {
    let (mut page, mut rest) = (String::new(), template);
    for (name, part) in parts {
        let place = format!("{{{{{name}}}}}");
        if let Some((before, after)) = rest.split_once(&place) {
            page.push_str(before);
            page.push_str(part);
            rest = after;
        }
    }
    page + rest
}

/// The digest by which a policy allows a script or a style.
pub(super) fn digest(text: &str) -> String {
    format!("sha256-{}", STANDARD.encode(Sha256::digest(text)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_template_has_every_place() {
        for name in ["POLICY", "TITLE", "STYLE", "HEADER", "BODY"] {
            let place = format!("{{{{{name}}}}}");
            assert_eq!(PAGE.matches(&place).count(), 1, "{name}");
        }
    }

    #[test]
    fn only_html_of_ours_is_kept() {
        let page = report(
            "</title><b>",
            &ReportHeader {
                cluster: Some("<b>".to_owned()),
                ..ReportHeader::default()
            },
            "### Plan\n\n<details open><summary>pool <code>a&lt;b</code></summary>\n\n| a |\n|---|\n| `<i>` |\n\n</details>\n\n<form>x</form>\n\n- [ ] <b>y</b> <!-- z -->\n",
        );
        assert!(page.contains("<h1>Plan</h1>"), "{page}");
        assert!(
            page.contains("<details open><summary>pool <code>a&lt;b</code></summary>"),
            "{page}"
        );
        assert!(page.contains("<td><code>&lt;i&gt;</code></td>"), "{page}");
        for foreign in ["<form", "<b>", "<i>", "<!-- z"] {
            assert!(!page.contains(foreign), "{foreign}: {page}");
        }
    }
}

#[cfg(test)]
mod html_page_tests {
    use super::*;

    #[test]
    fn parts_are_filled_once_and_from_left_to_right() {
        let parts = [("A", "{{B}}"), ("B", "{{A}}")];
        assert_eq!(filled("x{{A}}y{{B}}z", &parts), "x{{B}}y{{A}}z");
    }
}
