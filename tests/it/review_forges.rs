//! `apply --reviewed` and `drift` on GitHub and GitLab as their documentation describes them. Only
//! the hosted services can show that they do what they document; `gitea_actions` has a real Gitea.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use super::comment_forges::{Answer, Asked, TOKEN, ok, serve};
use super::support::{Folder, KUBERNETES, Ran, cluster, node, pool, program, ran};

const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";

/// A later commit of the main branch.
const LATER: &str = "89abcdef0123456789abcdef0123456789abcdef";

/// Before the merge of pull request 7, and after it.
const BEFORE: &str = "2026-01-01T00:00:00Z";
const MERGED: &str = "2026-01-01T00:10:00Z";
const AFTER: &str = "2026-01-01T00:10:01Z";

/// Texts of a forge by number: comments, or issues. The state of an issue is its second part.
type Texts = Arc<Mutex<BTreeMap<u64, (String, &'static str)>>>;

#[derive(Clone, Copy, PartialEq)]
enum Forge {
    GitHub,
    GitLab,
}

/// What can be otherwise after the merge of pull request 7 of [`COMMIT`] into the main branch.
#[derive(Clone, Copy)]
struct Facts {
    /// The last commit of the main branch.
    last: &'static str,
    /// Id of the directory's tree in [`LATER`]. In `COMMIT`, it is `pools`.
    later_files: &'static str,
    /// When our comment got its text.
    commented: &'static str,
    /// The branch that was merged into.
    target: &'static str,
}

const FACTS: Facts = Facts {
    last: COMMIT,
    later_files: "others",
    commented: BEFORE,
    target: "main",
};

/// A server with a merged pull request.
struct World {
    forge: Forge,
    api: String,
    comments: Texts,
    issues: Texts,
    facts: Arc<Mutex<Facts>>,
    folder: Folder,
}

fn listed(texts: &Texts, forge: Forge, facts: Facts) -> Answer {
    let texts = texts.lock().unwrap();
    let open = texts.iter().filter(|(_, (_, state))| *state == "open");
    let one = |(number, (text, _)): (&u64, &(String, &str))| match forge {
        Forge::GitHub => {
            json!({"id": number, "number": number, "body": text, "user": {"login": "bot"},
                "updated_at": facts.commented})
        }
        Forge::GitLab => json!({"id": number, "iid": number, "body": text, "description": text,
            "author": {"username": "bot"}, "updated_at": facts.commented}),
    };
    ok(&open.map(one).collect())
}

/// Creates or changes a text; answers with it.
fn written(texts: &Texts, asked: &Asked, forge: Forge) -> Answer {
    let number = asked.path.rsplit('/').next().unwrap().parse();
    let closes = asked.body["state"] == "closed" || asked.body["state_event"] == "close";
    let text = asked.body["body"]
        .as_str()
        .or(asked.body["description"].as_str());
    let number: u64 = {
        let mut texts = texts.lock().unwrap();
        let number = number.unwrap_or(texts.len() as u64 + 1);
        let state = if closes { "closed" } else { "open" };
        texts.insert(number, (text.unwrap().to_owned(), state));
        number
    };
    let user = match forge {
        Forge::GitHub => json!({"id": number, "number": number, "body": ""}),
        Forge::GitLab => json!({"id": number, "iid": number, "body": ""}),
    };
    ok(&user)
}

/// The tree of a commit as GitHub and GitLab list it.
fn files(path: &str, query: &str, facts: Facts) -> Option<Answer> {
    let file = |id: &str| ("a.yaml", "blob", format!("file of {id}"));
    let pools = |id: &str| {
        vec![
            ("pools", "tree", id.to_owned()),
            ("README", "blob", "1".to_owned()),
        ]
    };
    let of_github = path.strip_prefix("/repos/o/r/git/trees/");
    let of_gitlab = path == "/projects/12/repository/tree";
    let of_later = query.starts_with(&format!("ref={LATER}&"));
    let tree_of_gitlab = if of_later { facts.later_files } else { "pools" };
    let entries = match of_github {
        Some(COMMIT) => pools("pools"),
        Some(LATER) => pools(facts.later_files),
        Some(tree) => vec![file(tree)],
        None if of_gitlab && query.contains("path=pools&") => vec![file(tree_of_gitlab)],
        None if of_gitlab => pools(tree_of_gitlab),
        None => return None,
    };
    let one = |(name, kind, id): &(&str, &str, String)| match of_github {
        Some(_) => json!({"path": name, "type": kind, "sha": id}),
        None => json!({"name": name, "type": kind, "id": id}),
    };
    let listed: Value = entries.iter().map(one).collect();
    Some(match of_github {
        Some(_) => ok(&json!({"tree": listed, "truncated": false})),
        None => ok(&listed),
    })
}

fn answer(asked: &Asked, forge: Forge, facts: Facts, comments: &Texts, issues: &Texts) -> Answer {
    let (path, query) = asked.path.split_once('?').unwrap_or((&asked.path, ""));
    let is_beyond = query.contains("page=2");
    let (repository, merged, branch) = match forge {
        Forge::GitHub => (
            "/repos/o/r",
            format!("/repos/o/r/commits/{COMMIT}/pulls"),
            "/repos/o/r/branches/main",
        ),
        Forge::GitLab => (
            "/projects/12",
            format!("/projects/12/repository/commits/{COMMIT}/merge_requests"),
            "/projects/12/repository/branches/main",
        ),
    };
    let text = |asked: &Asked, texts: &Texts| match asked.method.as_str() {
        "GET" if is_beyond => ok(&json!([])),
        "GET" => listed(texts, forge, facts),
        _ => written(texts, asked, forge),
    };
    let (base, target) = (json!({"ref": facts.target}), facts.target);
    let path = path.strip_prefix("/api").unwrap();
    match path {
        "/graphql" => ok(&json!({"data": {"viewer": {"login": "bot"}}})),
        "/user" => ok(&json!({"username": "bot"})),
        path if path == repository => ok(&json!({"default_branch": "main"})),
        path if path == branch => ok(&json!({"commit": {"sha": facts.last, "id": facts.last}})),
        path if path == merged => ok(&json!([
            {"number": 3, "merged_at": null, "iid": 3, "base": base, "target_branch": target},
            {"number": 7, "merged_at": MERGED, "iid": 7, "base": base, "target_branch": target},
        ])),
        path if path.contains("/7/") || path.contains("/comments/") => text(asked, comments),
        path if path.contains("/issues") => text(asked, issues),
        path => files(path, query, facts).unwrap_or((404, String::new(), String::new())),
    }
}

impl World {
    fn new(forge: Forge) -> World {
        let (comments, issues) = (Texts::default(), Texts::default());
        let facts = Arc::new(Mutex::new(FACTS));
        let address = {
            let (comments, issues, facts) = (comments.clone(), issues.clone(), facts.clone());
            serve(move |asked| {
                let facts = *facts.lock().unwrap();
                answer(asked, forge, facts, &comments, &issues)
            })
        };
        let spec = "{cidrs: [10.20.0.0/16], blockSize: 24}";
        let folder = Folder::new(&[("pools/a.yaml", &pool("a", spec))]);
        let world = World {
            forge,
            api: format!("http://{address}/api"),
            comments,
            issues,
            facts,
            folder,
        };
        world.has_nodes(&["n1"]);
        world
    }

    fn has_nodes(&self, names: &[&str]) {
        let nodes: Vec<String> = names.iter().map(|name| node(name, "a", "")).collect();
        let text = cluster("1.19.3", KUBERNETES, &nodes);
        self.folder.write("cluster.json", text);
    }

    /// Beside those that are there, with what they hold.
    fn has_more_nodes(&self, names: &[&str]) {
        let mut all: Value = serde_json::from_str(&self.folder.read("cluster.json")).unwrap();
        let nodes = names.iter().map(|name| node(name, "a", ""));
        let nodes = nodes.map(|node| serde_json::from_str::<Value>(&node).unwrap());
        all["items"].as_array_mut().unwrap().extend(nodes);
        self.folder.write("cluster.json", all.to_string());
    }

    fn is(&self, facts: Facts) {
        *self.facts.lock().unwrap() = facts;
    }

    fn run(&self, words: &[&str]) -> Ran {
        let on = ["--cluster-file", "cluster.json"];
        let mut command = program(self.folder.path(), &[words, &on].concat());
        match self.forge {
            Forge::GitHub => command
                .env("GITHUB_ACTIONS", "true")
                .env("GITHUB_API_URL", &self.api)
                .env("GITHUB_REPOSITORY", "o/r")
                .env("GITHUB_SHA", COMMIT)
                .env("GITHUB_TOKEN", TOKEN),
            Forge::GitLab => command
                .env("GITLAB_CI", "true")
                .env("CI_API_V4_URL", &self.api)
                .env("CI_PROJECT_ID", "12")
                .env("CI_COMMIT_SHA", COMMIT)
                .env("GITLAB_TOKEN", TOKEN),
        };
        ran(command.output().unwrap())
    }

    /// The comments in order.
    fn comments(&self) -> Vec<String> {
        let comments = self.comments.lock().unwrap();
        comments.values().map(|(text, _)| text.clone()).collect()
    }
}

const COMMENT: [&str; 4] = ["comment", "./pools/", "--pull-request", "7"];
const APPLY: [&str; 3] = ["apply", "pools", "--reviewed"];

#[test]
fn a_merge_applies_the_plan_that_was_shown_and_no_other_one() {
    for forge in [Forge::GitHub, Forge::GitLab] {
        let world = World::new(forge);
        // Nothing was shown.
        let refused = world.run(&APPLY).expect(4);
        assert!(refused.stderr.contains("no comment of ours"), "{refused:?}");
        let told = world.comments();
        assert!(told[0].contains("**not applied**"), "{told:?}");
        assert!(told[0].contains("1 to assign"), "the plan of now: {told:?}");

        world.run(&COMMENT).expect(0);
        world.has_nodes(&["n1", "n2"]);
        let stale = world.run(&APPLY).expect(4);
        assert!(stale.stderr.contains("have changed since"), "{stale:?}");
        assert!(!world.folder.read("cluster.json").contains("podCIDR\""));

        world.has_nodes(&["n1"]);
        let applied = world.run(&APPLY).expect(0);
        assert!(
            applied.stderr.contains("Told pull request 7"),
            "{applied:?}"
        );
        assert!(world.folder.read("cluster.json").contains("10.20.0.0/24"));
        let told = world.comments();
        assert_eq!(told.len(), 2, "updated, not doubled: {told:?}");
        assert!(told[0].contains("applied as reviewed"), "{told:?}");
        // The job runs again.
        let again = world.run(&APPLY).expect(0);
        assert!(again.stderr.contains("Told pull request 7"), "{again:?}");
        assert!(world.comments()[0].contains("Applied 0 changes"));
    }
}

/// A late job, or one that a person runs again after a revert, would apply what is no longer wanted.
#[test]
fn a_commit_whose_files_the_branch_left_behind_is_not_applied() {
    for forge in [Forge::GitHub, Forge::GitLab] {
        let world = World::new(forge);
        world.run(&COMMENT).expect(0);
        let reverted = Facts {
            last: LATER,
            ..FACTS
        };
        world.is(reverted);
        let refused = world.run(&APPLY).expect(4);
        let expected = format!("outdated: branch main has others in pools by commit {LATER}");
        assert!(refused.stderr.contains(&expected), "{refused:?}");
        assert!(!world.folder.read("cluster.json").contains("podCIDR\""));
        assert!(world.comments()[1].contains("**not applied**"));

        // A later commit that leaves the directory alone.
        world.is(Facts {
            later_files: "pools",
            ..reverted
        });
        world.run(&APPLY).expect(0);
        assert!(world.folder.read("cluster.json").contains("10.20.0.0/24"));
        let told = world.comments();
        assert!(told[1].contains("applied as reviewed"), "{told:?}");

        // Again, after the revert: what the job did before stays told.
        world.is(reverted);
        world.run(&APPLY).expect(4);
        assert_eq!(world.comments(), told);
        let other = world.run(&["apply", "net", "--reviewed"]).expect(1);
        assert!(other.stderr.contains("has no directory `net`"), "{other:?}");
    }
}

#[test]
fn a_comment_that_the_reviewers_cannot_have_seen_approves_nothing() {
    for (facts, expected) in [
        (
            Facts {
                commented: AFTER,
                ..FACTS
            },
            "was changed after pull request 7 was merged",
        ),
        (
            Facts {
                target: "dev",
                ..FACTS
            },
            "came to branch main with no pull request",
        ),
    ] {
        for forge in [Forge::GitHub, Forge::GitLab] {
            let world = World::new(forge);
            world.run(&COMMENT).expect(0);
            world.is(facts);
            let refused = world.run(&APPLY).expect(4);
            assert!(refused.stderr.contains(expected), "{refused:?}");
            assert!(!world.folder.read("cluster.json").contains("podCIDR\""));
            world.is(Facts {
                commented: MERGED,
                ..FACTS
            });
            world.run(&APPLY).expect(0);
        }
    }
}

/// The part agrees, and the rest does not.
#[test]
fn a_part_of_the_cluster_has_an_issue_of_its_own() {
    let world = World::new(Forge::GitHub);
    world.run(&["drift", "pools"]).expect(0);
    world
        .run(&["apply", "pools", "--auto-approve", "--target", "node/n1"])
        .expect(0);
    world.has_more_nodes(&["n2"]);
    let part = world
        .run(&["drift", "pools", "--target", "node/n1"])
        .expect(0);
    assert_eq!(
        part.stderr,
        "The selected part of the cluster is as the files say.\n"
    );
    let whole = world.run(&["drift", "pools"]).expect(0);
    assert!(whole.stderr.contains("updated issue 1"), "{whole:?}");
    let other = world
        .run(&["drift", "pools", "--target", "node/n2"])
        .expect(0);
    assert!(other.stderr.contains("opened issue 2"), "{other:?}");
}

#[test]
fn a_comment_of_a_plan_file_approves_nothing() {
    let world = World::new(Forge::GitHub);
    world
        .run(&["plan", "pools", "--out", "plan.json"])
        .expect(0);
    let mut words = COMMENT.to_vec();
    words.splice(1..2, ["--plan", "plan.json"]);
    world.run(&words).expect(0);
    let refused = world.run(&APPLY).expect(4);
    assert!(refused.stderr.contains("no comment of ours"), "{refused:?}");
}

#[test]
fn one_issue_is_open_while_the_cluster_differs() {
    for forge in [Forge::GitHub, Forge::GitLab] {
        let world = World::new(forge);
        let opened = world.run(&["drift", "pools"]).expect(0);
        assert!(opened.stderr.contains("opened issue 1"), "{opened:?}");
        let updated = world
            .run(&["drift", "pools", "--fail-on", "changes"])
            .expect(2);
        assert!(updated.stderr.contains("updated issue 1"), "{updated:?}");
        world.run(&["apply", "pools", "--auto-approve"]).expect(0);
        let closed = world.run(&["drift", "pools"]).expect(0);
        assert!(closed.stderr.contains("closed issue 1"), "{closed:?}");
        let issues = world.issues.lock().unwrap().clone();
        let [(_, (text, state))] = &issues.iter().collect::<Vec<_>>()[..] else {
            panic!("{issues:?}")
        };
        assert_eq!(*state, "closed");
        assert!(text.contains("The cluster is as the files in `pools` say."));
        let none = world.run(&["drift", "pools"]).expect(0);
        assert_eq!(none.stderr, "The cluster is as the files say.\n");
    }
}

#[test]
fn a_review_is_for_a_directory() {
    let world = World::new(Forge::GitHub);
    world
        .run(&["plan", "pools", "--out", "plan.json"])
        .expect(0);
    let refused = world.run(&["apply", "plan.json", "--reviewed"]).expect(1);
    assert!(refused.stderr.contains("for a directory"), "{refused:?}");
    assert!(
        world
            .run(&["drift", "pools", "--dry-run"])
            .expect(0)
            .stdout
            .contains("1 to assign")
    );
    assert!(world.issues.lock().unwrap().is_empty());
    let by_hand = world.run(&["apply", "pools", "--reviewed", "--merge-commit", "main"]);
    let by_hand: Value = json!(by_hand.expect(1).stderr);
    assert!(
        by_hand.as_str().unwrap().contains("is no commit"),
        "{by_hand}"
    );
}

/// Windows that never open again, that open next year, and that open within seconds.
#[test]
fn an_apply_in_windows_writes_only_while_one_is_open() {
    let world = World::new(Forge::GitHub);
    let policy = |window: &str| {
        let spec = format!("{{migration: {{windows: [{window}]}}}}");
        let head = "apiVersion: cilium-ipam.io/v1alpha1\nkind: Policy\nmetadata: {name: p}";
        world
            .folder
            .write("pools/policy.yaml", format!("{head}\nspec: {spec}\n"));
    };
    let refuse = ["--maintenance-windows", "refuse"];
    let wait = ["--maintenance-windows", "wait"];
    let reviewed = |mode: [&str; 2]| world.run(&[&APPLY[..], &mode].concat());
    policy("{schedule: \"0 0 0 1 1 * 2001\", duration: 1h}");
    world.run(&COMMENT).expect(0);
    for mode in [refuse, wait] {
        let refused = reviewed(mode).expect(4);
        let expected = "no maintenance window is open: none of the Policy opens any more";
        assert!(refused.stderr.contains(expected), "{refused:?}");
    }
    assert!(world.comments()[1].contains("No maintenance window is open"));
    policy("{schedule: \"0 0 1 1 *\", duration: 1s}");
    let refused = reviewed(refuse).expect(4);
    assert!(
        refused.stderr.contains("the next one opens at 20"),
        "{refused:?}"
    );
    assert!(!world.folder.read("cluster.json").contains("podCIDR\""));

    // It opens in five seconds, and for long enough that a busy machine does not miss it.
    let second = (jiff::Timestamp::now().as_second() + 5) % 60;
    policy(&format!(
        "{{schedule: \"{second} * * * * *\", duration: 50s}}"
    ));
    world.run(&COMMENT).expect(0);
    reviewed(wait).expect(0);
    assert!(world.folder.read("cluster.json").contains("10.20.0.0/24"));
    // Nothing is left to do, so no window is needed.
    policy("{schedule: \"0 0 1 1 *\", duration: 1s}");
    reviewed(refuse).expect(0);
}
