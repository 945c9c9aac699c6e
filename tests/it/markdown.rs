//! The plan as Markdown, rendered as Git hosts do it: text from elsewhere stays text.

use comrak::{Options, markdown_to_html};

use super::support::{TextAssertions, repository, run};
use cilium_ipam::render::{Detail, PageLimit, grouped_digits, human, log_text, markdown};
use ipam_cilium::lbipam::Certainty;
use ipam_core::text::printable;
use ipam_plan::plan::{
    DriftDocument, EditDocument, LossTime, LostAddressDocument, MisplacedDocument, OriginDocument,
    PlanDocument, RefusalDocument, ServiceEffectDocument, TargetKind, UnapprovedBlockDocument,
    WriterDocument,
};

/// Hostile text is made of these: markup, mentions and references of GitHub, GitLab and Gitea,
/// links, and what Markdown escapes with.
pub const PIECES: [&str; 72] = [
    "@octocat",
    "@",
    "@org/team",
    "#12",
    "#",
    "GH-12",
    "JIRA-7",
    "owner/repo#3",
    "!12",
    "!",
    "$12",
    "$x$",
    "%12",
    "%\"m\"",
    "~label",
    "~~",
    "&12",
    "&epic",
    "&#64;",
    "&amp;",
    "&lt;",
    "[vulnerability:1]",
    "^alert#1",
    "*iteration:1",
    "[[wiki]]",
    "[a](http://a.example)",
    "![a](x)",
    "[^1]",
    "[ ]",
    "https://a.example/x",
    "www.a.example",
    "ftp://x",
    "mailto:a@b.example",
    "a@b.example",
    "<b>",
    "</code>",
    "</details>",
    "<!--",
    "-->",
    "<https://a.example>",
    "deadbeef",
    "0123456789abcdef0123456789abcdef01234567",
    ":tada:",
    ":",
    "`",
    "``",
    "```",
    "|",
    "\\|",
    "\\",
    "\\`",
    "*b*",
    "**b**",
    "_b_",
    "==b==",
    "||b||",
    "{+b+}",
    "- ",
    "1. ",
    "> ",
    "\n",
    "\r\n",
    "\t",
    " ",
    "  ",
    "é",
    "10.0.0.0/24",
    "fd00::/64",
    "worker",
    "##[group]x",
    "pool",
    "\u{200b}",
];

/// Patterns that a page's text, outside code, must not contain. They are simple, and stricter
/// than the filters of the hosts.
fn reference(text: &str) -> Option<String> {
    let chars: Vec<char> = text.chars().collect();
    let is_word =
        |c: Option<&char>| c.is_some_and(|c| c.is_alphanumeric() || *c == '_' || *c == '"');
    let pairs = chars
        .iter()
        .enumerate()
        .filter(|(at, _)| is_word(chars.get(at + 1)));
    for (at, sign) in pairs {
        if "@#!$%~&^*".contains(*sign) {
            return Some(chars[at..].iter().collect());
        }
    }
    let words = text.split(|c: char| !c.is_alphanumeric());
    let is_id = |word: &&str| word.len() >= 7 && word.chars().all(|c| c.is_ascii_hexdigit());
    if let Some(id) = words.into_iter().find(is_id) {
        return Some(id.to_owned());
    }
    let is_ticket = |word: &&str| {
        let split = word
            .rsplit_once('-')
            .filter(|(name, _)| name.chars().any(|c| c.is_ascii_uppercase()));
        split.is_some_and(|(_, number)| number.starts_with(|c: char| c.is_ascii_digit()))
    };
    let is_emoji = |word: &&str| {
        word.split(':').skip(1).any(|name| !name.is_empty()) && word.matches(':').count() > 1
    };
    let markers = ["://", "www.", "[", "]", "mailto:", "<", "\\", "{", "=="];
    text.split_whitespace()
        .find(|word| {
            is_ticket(word) || is_emoji(word) || markers.iter().any(|marker| word.contains(marker))
        })
        .map(str::to_owned)
}

/// As GitLab parses it, with more than any host turns on.
fn options() -> Options<'static> {
    let mut options = Options::default();
    let on = &mut options.extension;
    (
        on.table,
        on.autolink,
        on.strikethrough,
        on.tasklist,
        on.footnotes,
    ) = (true, true, true, true, true);
    (
        on.inline_footnotes,
        on.superscript,
        on.description_lists,
        on.multiline_block_quotes,
    ) = (true, true, true, true);
    (
        on.alerts,
        on.math_dollars,
        on.math_code,
        on.wikilinks_title_after_pipe,
        on.spoiler,
    ) = (true, true, true, true, true);
    (on.underline, on.highlight, on.insert, on.subtext) = (true, true, true, true);
    options.parse.relaxed_autolinks = true;
    options.render.r#unsafe = true;
    options
}

/// A piece of a page: its text, and the elements that it is in.
#[derive(Debug)]
pub struct Node {
    text: String,
    inside: Vec<String>,
}

/// The text of a page, piece by piece. Fails on any element that the page should not have.
fn nodes(html: &str) -> Vec<Node> {
    const OURS: [&str; 17] = [
        "h3", "p", "ul", "li", "strong", "code", "pre", "details", "summary", "table", "thead",
        "tbody", "tr", "th", "td", "br", "hr",
    ];
    let (mut nodes, mut inside, mut rest) = (Vec::new(), Vec::<String>::new(), html);
    while let Some(at) = rest.find('<') {
        let (text, tail) = rest.split_at(at);
        nodes.push(Node {
            text: unescaped(text),
            inside: inside.clone(),
        });
        let (tag, after) = tail[1..]
            .split_once('>')
            .unwrap_or_else(|| panic!("no tag: {tail}"));
        let name = tag.split_whitespace().next().unwrap_or_default();
        let (closes, name) = name
            .strip_prefix('/')
            .map_or((false, name), |name| (true, name));
        assert!(OURS.contains(&name), "<{tag}> in {html}");
        if closes {
            assert_eq!(inside.pop().as_deref(), Some(name), "{html}");
        } else {
            inside.push(name.to_owned());
        }
        rest = after;
    }
    assert!(inside.is_empty() && rest.trim().is_empty(), "{html}");
    nodes
}

fn unescaped(html: &str) -> String {
    let plain = [
        ("&lt;", "<"),
        ("&gt;", ">"),
        ("&quot;", "\""),
        ("&#124;", "|"),
        ("&#96;", "`"),
        ("&#35;", "#"),
        ("&#58;", ":"),
    ];
    plain
        .iter()
        .fold(html.to_owned(), |text, (from, to)| text.replace(from, to))
        .replace("&amp;", "&")
}

/// A name or a value as a page shows it: whole.
fn whole(text: &str) -> String {
    printable(text)
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ")
}

/// A sentence as a page shows it. Backticks around a word mark code, so they do not count.
fn sentence(text: &str) -> String {
    whole(&text.replace('`', ""))
}

/// The texts of the cells, without the headings.
fn cells(nodes: &[Node]) -> Vec<String> {
    let mut cells = vec![String::new()];
    let mut was_in = false;
    for node in nodes {
        let is_in = node.inside.iter().any(|element| element == "td");
        match (was_in, is_in) {
            (_, true) => cells.last_mut().unwrap().push_str(&node.text),
            (true, false) => cells.push(String::new()),
            (false, false) => {}
        }
        was_in = is_in;
    }
    cells.pop();
    cells.iter().map(|cell| whole(cell)).collect()
}

/// A plan that has something of everything.
pub fn plan() -> PlanDocument {
    let planned = |example: &str| -> PlanDocument {
        let (pools, cluster) = (
            format!("examples/{example}/pools"),
            format!("examples/{example}/cluster.yaml"),
        );
        let ran = run(
            repository(),
            &[
                "plan",
                &pools,
                "--cluster",
                &cluster,
                "-o",
                "json",
                "--fail-on",
                "never",
            ],
        )
        .expect(0);
        serde_json::from_value(ran.json()).unwrap()
    };
    let (mut plan, other) = (planned("fall-over"), planned("load-balancer-pins"));
    plan.changes.extend(other.changes);
    plan.findings.extend(other.findings);
    let text = String::new;
    let lost = LostAddressDocument {
        address: text(),
        when: LossTime::Now,
        certainty: Certainty::Certain,
        reason: text(),
        cause: None,
    };
    let service = |loses| ServiceEffectDocument {
        namespace: text(),
        name: text(),
        loses,
        gains: vec![text()],
        pending: vec![text()],
        certainty: Certainty::LeftToChance,
    };
    plan.services = vec![service(vec![lost]), service(Vec::new())];
    plan.refusals = vec![RefusalDocument {
        rule: text(),
        message: text(),
        help: text(),
        waiver: None,
    }];
    let drift = DriftDocument {
        kind: TargetKind::Port,
        name: text(),
        field: text(),
        expected: text(),
        seen: text(),
        manager: Some(text()),
        time: None,
    };
    plan.drift = vec![drift];
    let misplaced = MisplacedDocument {
        kind: TargetKind::Node,
        name: text(),
        block: text(),
        field: text(),
        pool: Some(text()),
        code: text(),
        reason: text(),
        help: text(),
        origin: None,
    };
    plan.misplaced = vec![misplaced];
    plan.waivers = vec![text()];
    let unapproved = UnapprovedBlockDocument {
        block: text(),
        source: text(),
        writer: Some(WriterDocument {
            manager: text(),
            time: text(),
        }),
        code: text(),
        reason: text(),
    };
    plan.changes[0].needs_approval = vec![unapproved];
    plan.summary.needs_approval = 1;
    plan
}

/// The plan with this text wherever others may have written it.
pub fn with_text(mut plan: PlanDocument, text: &str) -> PlanDocument {
    let all = |origin: &mut Option<OriginDocument>| {
        origin
            .iter_mut()
            .for_each(|origin| origin.file = text.into())
    };
    (plan.source.directory, plan.source.revision) = (text.into(), Some(text.into()));
    plan.waivers.fill(text.into());
    for change in &mut plan.changes {
        (change.name, change.write_path, change.reason) = (text.into(), text.into(), text.into());
        (change.pool, change.after) = (Some(text.into()), vec![text.into()]);
        change.failure_domain = Some(text.into());
        for block in &mut change.needs_approval {
            (block.block, block.source, block.reason) = (text.into(), text.into(), text.into());
            let writer = block.writer.as_mut().unwrap();
            (writer.manager, writer.time) = (text.into(), text.into());
        }
        if let EditDocument::AddressPool(Some(manifest)) = &mut change.edit {
            manifest.labels.insert(text.to_owned(), text.to_owned());
        }
    }
    for finding in &mut plan.findings {
        (finding.rule, finding.message) = (text.into(), text.into());
        all(&mut finding.origin);
    }
    for blocked in &mut plan.blocked {
        (blocked.name, blocked.reason, blocked.unblock) = (text.into(), text.into(), text.into());
    }
    for misplaced in &mut plan.misplaced {
        (misplaced.name, misplaced.block) = (text.into(), text.into());
        (misplaced.pool, misplaced.reason, misplaced.help) =
            (Some(text.into()), text.into(), text.into());
    }
    for drift in &mut plan.drift {
        (drift.name, drift.field, drift.expected, drift.seen) =
            (text.into(), text.into(), text.into(), text.into());
        drift.manager = Some(text.into());
    }
    for refusal in &mut plan.refusals {
        (refusal.rule, refusal.message, refusal.help) = (text.into(), text.into(), text.into());
    }
    for service in &mut plan.services {
        (service.namespace, service.name) = (text.into(), text.into());
        service.gains.fill(text.into());
        service.pending.fill(text.into());
        service.loses.iter_mut().for_each(|lost| {
            (lost.address, lost.reason) = (text.into(), text.into());
            lost.cause = Some(format!("CiliumLoadBalancerIPPool/{text}"));
        });
    }
    plan
}

/// Fails on a page with a reference, or markup that is not ours; gives its text.
#[track_caller]
pub fn assert_text_only(page: &str) -> Vec<Node> {
    assert!(page.len() <= 65_535);
    assert_eq!(
        log_text(page),
        page,
        "nothing in it is a command of a CI system"
    );
    // GitLab and bots obey these where a line starts with them.
    assert!(!page.lines().any(|line| line.starts_with('/')), "{page}");
    let nodes = nodes(&markdown_to_html(page, &options()));
    for node in &nodes {
        let is_code = node
            .inside
            .iter()
            .any(|element| element == "code" || element == "pre");
        let found = if is_code { None } else { reference(&node.text) };
        assert!(found.is_none(), "{found:?} in {:?} of\n{page}", node.text);
    }
    nodes
}

#[test]
fn text_of_others_is_never_a_reference_or_markup() {
    let plan = plan();
    let mut random = fastrand::Rng::with_seed(19);
    let alone = PIECES.iter().map(|piece| (*piece).to_owned());
    let mixed = (0..150).map(|_| {
        (0..random.usize(2..10))
            .filter_map(|_| random.choice(PIECES))
            .collect::<String>()
    });
    for text in alone.chain(mixed.collect::<Vec<_>>()) {
        let page = markdown(
            &with_text(plan.clone(), &text),
            Detail::Full,
            PageLimit::COMMENT,
        );
        let nodes = assert_text_only(&page);
        // A row for each node that changes: name, block, write path, reason.
        let cells = cells(&nodes);
        let (name, reason) = (whole(&text), sentence(&text));
        let is_row = |cells: &[String]| {
            cells[..3].iter().all(|cell| *cell == name) && sentence(&cells[3]) == reason
        };
        assert!(
            cells.windows(4).any(is_row),
            "{text:?} is not shown as {name:?} and {reason:?} but {cells:?} in\n{page}"
        );
        let titles: String = nodes
            .iter()
            .filter(|node| node.inside.iter().any(|element| element == "summary"))
            .map(|node| node.text.as_str())
            .collect();
        assert!(
            whole(&titles).contains(&whole(&format!("pool {name}, 4 changes"))) || name.is_empty(),
            "{text:?}: {titles}"
        );
    }
}

#[test]
fn blocks_that_need_approval_come_first_and_are_counted() {
    let mut plan = plan();
    let mut change = plan.changes[0].clone();
    change.needs_approval[0].block = "10.9.0.0/24".into();
    change.needs_approval[0].source = "CiliumNode.spec.ipam.podCIDRs".into();
    plan.changes = (0..12)
        .map(|number| {
            change.name = format!("worker-{number}");
            change.clone()
        })
        .collect();
    plan.summary.needs_approval = 12;
    let page = markdown(&plan, Detail::Short, PageLimit::COMMENT);
    assert_text_only(&page);
    let (before, list) = page
        .split_once(
            "**12 blocks shown only by a CiliumNode or an unread annotation need approval**",
        )
        .unwrap();
    assert!(!before.contains("<details>"), "{page}");
    assert!(
        list.trim_start().starts_with(
            "- block `10.9.0.0/24` of `worker-0`: only `CiliumNode.spec.ipam.podCIDRs` shows it"
        ),
        "{page}"
    );
    assert!(list.contains("\n- … and 2 more\n"), "{page}");
}

#[test]
fn names_and_addresses_can_be_copied() {
    let page = markdown(&plan(), Detail::Full, PageLimit::COMMENT);
    let nodes = assert_text_only(&page);
    let code: Vec<&str> = nodes
        .iter()
        .filter(|node| node.inside.iter().any(|element| element == "code"))
        .map(|node| node.text.as_str())
        .collect();
    for copied in [
        "worker-3",
        "10.21.0.0/24",
        "rack-a",
        "spec.podCIDRs",
        "pool-exhausted",
        "infra/dns-tcp",
        "2001:db8:7::10",
    ] {
        assert!(code.contains(&copied), "{copied} in {code:?}");
    }
    assert!(
        page.contains("| lowest free block of pool overflow (rack-a is full) |"),
        "sentences are text: {page}"
    );
    assert!(!page.contains('\\'), "nothing shows escapes: {page}");
}

#[test]
fn what_does_not_fit_is_counted_and_comes_last() {
    let mut plan = plan();
    let change = plan
        .changes
        .iter()
        .find(|change| change.is_of_node())
        .unwrap()
        .clone();
    let pool = |number: usize| format!("a-pool-with-a-long-name-{number:03}");
    let of = |pool: String| (0..400).map(move |node| (pool.clone(), node));
    plan.changes = (0..60)
        .flat_map(|number| of(pool(number)))
        .map(|(pool, node)| {
            let mut change = change.clone();
            change.needs_approval.clear();
            (change.pool, change.name) = (Some(pool), format!("a-node-with-a-long-name-{node:05}"));
            change
        })
        .collect();
    plan.summary.needs_approval = 0;
    plan.source.directory = "d".repeat(4000);
    let page = markdown(&plan, Detail::Full, PageLimit::COMMENT);
    assert_text_only(&page);
    let line = page
        .lines()
        .find(|line| line.starts_with("Too long for a comment"))
        .unwrap();
    let shown = page.matches("| `a-node-with-a-long-name-").count();
    let whole = page.matches("` | `spec.podCIDRs` | lowest free").count();
    assert!(shown > 400, "{shown}");
    assert_eq!(shown, whole, "no row is cut");
    assert!(
        page.contains(
            "<details><summary>pool <code>a-pool-with-a-long-name-000</code>, 400 changes"
        )
    );
    let left_out = grouped_digits(60 * 400 - shown);
    line.assert_has(&format!("see the JSON output: {left_out} changes"));
    // More important than the changes, so they are shown.
    let is_first = |mark: &str| page.find(mark).unwrap() < page.find("| `a-node-").unwrap();
    for mark in ["**refused**", "<summary>blocked, 1 ", "**Service**"] {
        assert!(is_first(mark), "{mark} in\n{page}");
    }
}

#[test]
fn names_are_in_the_order_of_their_numbers() {
    let mut plan = plan();
    let change = plan.changes.iter().find(|change| change.is_of_node());
    let change = change.unwrap().clone();
    let named = |pool: &str, name: &str| {
        let mut change = change.clone();
        (change.pool, change.name) = (Some(pool.to_owned()), name.to_owned());
        change.needs_approval.clear();
        change
    };
    plan.summary.needs_approval = 0;
    plan.changes = vec![
        named("rack-10", "worker-1"),
        named("rack-2", "worker-10"),
        named("rack-2", "worker-9"),
    ];
    for text in [
        markdown(&plan, Detail::Short, PageLimit::COMMENT),
        human(&plan, Detail::Short),
    ] {
        let words = text.split(|c: char| c.is_whitespace() || c == '`');
        let names: Vec<&str> = words.filter(|word| word.starts_with("worker-")).collect();
        let changed: Vec<&str> = names
            .into_iter()
            .filter(|name| ["worker-1", "worker-9", "worker-10"].contains(name))
            .collect();
        assert_eq!(changed, ["worker-9", "worker-10", "worker-1"], "{text}");
    }
}
