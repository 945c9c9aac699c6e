//! Text from any source never acts as more than text on a terminal, in a comment or on a page.

use super::markdown::assert_text_only;
use super::support::{Folder, KUBERNETES, cluster, documents, repository};

/// Colours, a title, the direction of text, invisible tags, markup, links and commands for CI
/// systems. JSON escapes, so that they fit into a cluster file.
pub const HOSTILE: &str = r#"\u001b[31mred\u001b]0;title\u0007\u202Eevil\u2066\uDB40\uDC41<script>alert(1)</script>|x|`x`[a](http://a.example)**b**\r\nwww.a.example\n::set-output name=a::b\n  ::add-mask::c ##[set-output name=a;]b #\ufe0f#[x] ##vso[task.setvariable variable=a]b ##teamcity[a] travis_fold:start:a section_start:1:a\r\u001b[0K\n--- a\n+++ b"#;

/// Of which other hostile text is made.
const PIECES: [&str; 24] = [
    "##",
    "#",
    "[",
    "]",
    "vso[",
    "teamcity[a",
    "set-output name=a",
    "::",
    ":",
    "error::",
    "\n",
    "\r\n",
    "\r",
    " ",
    "\t",
    "\u{1b}[0m",
    "\u{1b}[0K",
    "\u{fe0f}",
    "é",
    "--- ",
    "+++",
    "travis_fold:",
    "section_end:1",
    "\"",
];

fn harmful(c: char) -> bool {
    let invisible = matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{e0000}'..='\u{e007f}');
    invisible || (c.is_control() && c != '\n' && c != '\t')
}

/// Whether a CI system takes the line, or what of it such a system may compare, for a command.
/// GitHub, Azure, TeamCity, Travis CI, GitLab and Buildkite.
fn is_command(line: &str) -> bool {
    let plain: String = line.chars().filter(char::is_ascii).collect();
    let is_other = |line: &str| {
        let start = line.trim_start();
        start
            .strip_prefix("::")
            .is_some_and(|rest| rest.contains("::"))
            || ["##[", "##vso[", "##teamcity["]
                .iter()
                .any(|marker| line.contains(marker))
    };
    let sections = [
        "travis_fold:",
        "travis_time:",
        "section_start:",
        "section_end:",
    ];
    let groups = ["--- ", "+++ ", "~~~ ", "^^^ "];
    is_other(line)
        || is_other(&plain)
        || sections.iter().any(|section| line.contains(section))
        || groups.iter().any(|group| line.starts_with(group))
}

/// A few of the pieces, with JSON's escapes.
fn made_of_pieces(random: &mut fastrand::Rng) -> String {
    let text: String = (0..12).filter_map(|_| random.choice(PIECES)).collect();
    let json = serde_json::to_string(&text).unwrap();
    json[1..json.len() - 1].to_owned()
}

/// A world with this text in every free field; it has JSON's escapes.
pub fn folder(h: &str) -> Folder {
    let items = documents(&repository().join("tests/it/hostile_text/cluster.yaml"));
    let items: Vec<String> = items
        .iter()
        .map(|item| item.to_string().replace("HOSTILE", h))
        .collect();
    let claims = claims_of(h);
    let settings = format!(
        r#"{KUBERNETES},"annotate-k8s-node":"{h}","enable-ipv4":"true","enable-bgp-control-plane":"true""#
    );
    let yaml = format!(
        "metadata: {{name: z, labels: {{a: \"{}\"}}}}",
        h.replace("\\uDB40\\uDC41", "")
    );
    let comment: String = h.replace("\\n", " ").replace("\\u", "u");
    Folder::new(&[
        ("cluster.json", &cluster("1.19.3", &settings, &items)),
        ("pools/a.yaml", include_str!("hostile_text/pools.yaml")),
        (
            "bad/a.yaml",
            &format!(
                "apiVersion: cilium-ipam.io/v1alpha1\nkind: IPPool\n{yaml}\nspec: {{cidrs: [\"{}\"], \"{}\": 1}} # {comment}\n",
                "\\e[31m\\u202e<script>", "\\e[31m\\u202e<b>"
            ),
        ),
        ("evil/\u{202e}\u{1b}[31m.yaml", "kind: [\n"),
        ("version.json", &format!(r#"{{"format_version":"{h}"}}"#)),
        (
            "field.json",
            &format!(r#"{{"format_version":"1.1","intent":"{h}"}}"#),
        ),
        ("list.json", &format!(r#"{{"kind":"{h}","items":[]}}"#)),
        ("claims.json", &cluster("1.19.3", KUBERNETES, &[claims])),
    ])
}

fn claims_of(h: &str) -> String {
    let text =
        format!(r#"{{\"format_version\":\"1.0\",\"claims\":[{{\"block\":\"{h}\"}}],\"{h}\":1}}"#);
    format!(
        r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"cilium-ipam-claims","namespace":"kube-system"}},"data":{{"claims.json":"{text}"}}}}"#
    )
}

const UPGRADE: &[&str] = &[
    "upgrade",
    "--to=1.20",
    "--no-pools",
    "--cluster",
    "cluster.json",
];
const UPGRADE_MARKDOWN: &[&str] = &[
    "upgrade",
    "--to=1.20",
    "--no-pools",
    "-o=markdown",
    "--cluster",
    "cluster.json",
];

/// Commands, and the exit codes that they have with [`HOSTILE`] text.
const COMMANDS: [(&[&str], i32); 42] = [
    (&["plan", "--show-all", "--cluster", "cluster.json"], 5),
    (&["plan", "-o", "json", "--cluster", "cluster.json"], 5),
    (&["plan", "-o", "markdown", "--cluster", "cluster.json"], 5),
    (&["show", "nodes", "--cluster", "cluster.json"], 0),
    (
        &["show", "nodes", "-o", "json", "--cluster", "cluster.json"],
        0,
    ),
    (&["show", "pools", "--cluster", "cluster.json"], 0),
    (&["show", "lb", "--cluster", "cluster.json"], 0),
    (
        &["show", "lb", "-o", "json", "--cluster", "cluster.json"],
        0,
    ),
    (&["capacity", "-o", "wide", "--cluster", "cluster.json"], 0),
    (&["capacity", "-o", "json", "--cluster", "cluster.json"], 0),
    (
        &["capacity", "-o", "markdown", "--cluster", "cluster.json"],
        0,
    ),
    (&["capacity", "-o", "html", "--cluster", "cluster.json"], 0),
    (&["simulate", "--add", "3", "--cluster", "cluster.json"], 0),
    (
        &[
            "simulate",
            "--add",
            "3",
            "-o",
            "markdown",
            "--cluster",
            "cluster.json",
        ],
        0,
    ),
    (&["snapshot", "--cluster", "cluster.json"], 0),
    (&["doctor", "--cluster", "cluster.json"], 2),
    (&["doctor", "-o", "json", "--cluster", "cluster.json"], 2),
    (&["doctor", "-o", "sarif", "--cluster", "cluster.json"], 2),
    (
        &["doctor", "-o", "markdown", "--cluster", "cluster.json"],
        2,
    ),
    (&["doctor", "-o", "html", "--cluster", "cluster.json"], 2),
    (&["plan", "-o", "html", "--cluster", "cluster.json"], 5),
    (&["doctor", "-o", "junit", "--cluster", "cluster.json"], 2),
    (&["doctor", "bad", "--cluster", "cluster.json"], 2),
    (UPGRADE, 2),
    (UPGRADE_MARKDOWN, 2),
    (&["explain", "labels", "--cluster", "cluster.json"], 0),
    (&["explain", "10.0.0.0/8", "--cluster", "cluster.json"], 0),
    (&["explain", "\u{1b}[31m", "--cluster", "cluster.json"], 1),
    (&["validate", "bad"], 3),
    (&["validate", "bad", "-o", "json"], 3),
    (&["validate", "no\n::error::pools ##[group]"], 3),
    (&["plan", "bad", "--cluster", "cluster.json"], 3),
    (
        &["plan", "bad", "-o", "markdown", "--cluster", "cluster.json"],
        3,
    ),
    (&["plan", "evil", "--cluster", "cluster.json"], 3),
    (&["plan", "--no\n::error::such ##[group] \u{1b}[2K"], 1),
    (
        &["plan", "--output", "\n::error::such ##[group] \u{1b}[2K"],
        1,
    ),
    (&["apply", "--auto-approve", "--cluster", "cluster.json"], 5),
    (
        &[
            "apply",
            "--auto-approve",
            "--waive",
            "lost-addresses=9",
            "--cluster",
            "cluster.json",
        ],
        0,
    ),
    (&["apply", "version.json"], 1),
    (&["apply", "field.json"], 1),
    (&["plan", "--cluster", "list.json"], 8),
    (&["plan", "--cluster", "claims.json"], 8),
];

#[track_caller]
fn assert_harmless(command: &[&str], text: &str) {
    let found = text.chars().find(|c| harmful(*c));
    assert!(
        found.is_none(),
        "{command:?} prints {found:?}:\n{}",
        text.escape_debug()
    );
    let found = text.lines().find(|line| is_command(line));
    assert!(found.is_none(), "{command:?} prints a command: {found:?}");
}

#[test]
fn nothing_harmful_is_printed_anywhere() {
    let folder = folder(HOSTILE);
    let mut said = String::new();
    for (command, code) in COMMANDS {
        let ran = folder.run(command).expect(code);
        for text in [&ran.stdout, &ran.stderr] {
            assert_harmless(command, text);
            said.push_str(text);
        }
    }
    for broken in [
        "#\\#[set-output",
        "#\\#vso[task",
        "\\::set-output",
        "#\\u0023[set-output",
        "&#35;vso[",
        "&#58;:set-output",
    ] {
        assert!(said.contains(broken), "the test reaches it: {broken}");
    }
}

#[test]
fn no_line_is_a_command_of_a_ci_system() {
    let mut random = fastrand::Rng::with_seed(19);
    for _ in 0..4 {
        let folder = folder(&made_of_pieces(&mut random));
        for (command, _) in COMMANDS {
            let ran = folder.run(command);
            assert_harmless(command, &ran.stdout);
            assert_harmless(command, &ran.stderr);
        }
    }
}

#[test]
fn markdown_has_no_markup_but_ours() {
    let folder = folder(HOSTILE);
    for (directory, code) in [("pools", 5), ("bad", 3)] {
        let page = folder
            .run(&[
                "plan",
                directory,
                "-o",
                "markdown",
                "--cluster",
                "cluster.json",
            ])
            .expect(code)
            .stdout;
        assert!(page.contains("<script>"), "the test reaches it: {page}");
        assert_eq!(
            page.contains("\n````"),
            directory == "pools",
            "the diffs are there: {page}"
        );
        assert_text_only(&page);
    }
    let page = folder
        .expect("doctor -o markdown --cluster cluster.json", 2)
        .stdout;
    assert!(page.contains("<script>"), "the test reaches it: {page}");
    assert_text_only(&page);
}
