//! GitHub and GitLab with one merged pull request, as their documentation describes them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use super::comment_forges::{Answer, Asked, TOKEN, ok, serve};
use super::support::{Folder, KUBERNETES, Ran, cluster, node, pool, program, ran};

pub(super) const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";

/// A later commit of the main branch.
pub(super) const LATER: &str = "89abcdef0123456789abcdef0123456789abcdef";

/// Before the merge of pull request 7, and after it.
pub(super) const BEFORE: &str = "2026-01-01T00:00:00Z";
pub(super) const MERGED: &str = "2026-01-01T00:10:00Z";
pub(super) const AFTER: &str = "2026-01-01T00:10:01Z";

/// When a comment was edited: before the merge.
const EDITED: &str = "2026-01-01T00:05:00Z";

/// A comment or an issue of a forge.
#[derive(Clone, Debug)]
pub(super) struct Text {
    pub(super) body: String,
    pub(super) state: &'static str,
    edits: usize,
}

/// Texts of a forge by number: comments, or issues.
pub(super) type Texts = Arc<Mutex<BTreeMap<u64, Text>>>;

#[derive(Clone, Copy, PartialEq)]
pub(super) enum Forge {
    GitHub,
    GitLab,
}

/// What can be otherwise after the merge of pull request 7 of [`COMMIT`] into the main branch.
#[derive(Clone, Copy)]
pub(super) struct Facts {
    /// The last commit of the main branch.
    pub(super) last: &'static str,
    /// The directory that [`LATER`] has changed.
    pub(super) changed: &'static str,
    /// The name of the main branch.
    pub(super) branch: &'static str,
    /// When our comment was posted.
    pub(super) commented: &'static str,
    /// The branch that was merged into.
    pub(super) target: &'static str,
}

pub(super) const FACTS: Facts = Facts {
    last: COMMIT,
    changed: "pools",
    branch: "main",
    commented: BEFORE,
    target: "main",
};

/// A server with a merged pull request.
pub(super) struct World {
    forge: Forge,
    api: String,
    pub(super) comments: Texts,
    pub(super) issues: Texts,
    facts: Arc<Mutex<Facts>>,
    pub(super) folder: Folder,
}

fn listed(texts: &Texts, forge: Forge, facts: Facts) -> Answer {
    let texts = texts.lock().unwrap();
    let open = texts.iter().filter(|(_, text)| text.state == "open");
    let one = |(number, Text { body, edits, .. }): (&u64, &Text)| {
        let changed = if *edits == 0 { facts.commented } else { EDITED };
        let mut text = json!({"id": number, "body": body, "created_at": facts.commented,
            "updated_at": changed});
        match forge {
            Forge::GitHub => {
                text["number"] = json!(number);
                text["user"] = json!({"login": "bot"});
            }
            Forge::GitLab => {
                text["iid"] = json!(number);
                text["description"] = json!(body);
                text["author"] = json!({"username": "bot"});
            }
        }
        text
    };
    ok(&open.map(one).collect())
}

fn deleted(texts: &Texts, asked: &Asked) -> Answer {
    let number = asked.path.rsplit('/').next().unwrap().parse().unwrap();
    match texts.lock().unwrap().remove(&number) {
        Some(_) => (204, String::new(), String::new()),
        None => (404, String::new(), String::new()),
    }
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
        let last = texts.keys().next_back().copied().unwrap_or_default();
        let number = number.unwrap_or(last + 1);
        let state = if closes { "closed" } else { "open" };
        let edits = texts.get(&number).map_or(0, |text| text.edits + 1);
        let body = text.unwrap().to_owned();
        texts.insert(number, Text { body, state, edits });
        number
    };
    let user = match forge {
        Forge::GitHub => json!({"id": number, "number": number, "body": ""}),
        Forge::GitLab => json!({"id": number, "iid": number, "body": ""}),
    };
    ok(&user)
}

/// Entries of one page of a folder of GitLab.
const PAGE: usize = 100;

/// The folders of a commit by path. The top has more files than one page.
fn folders(commit: &str, changed: &str) -> BTreeMap<&'static str, Vec<(String, String)>> {
    let of = |path: &str| match commit == LATER && !changed.is_empty() && changed.starts_with(path)
    {
        true => format!("later-{}", path.replace('/', "-")),
        false => path.replace('/', "-"),
    };
    let tree = |name: &str, path: &str| (name.to_owned(), of(path));
    let documents = (0..PAGE).map(|number| (format!("document-{number:03}"), "1".to_owned()));
    let mut top: Vec<(String, String)> = documents.collect();
    top.extend([tree("net", "net"), tree("pools", "pools")]);
    BTreeMap::from([("", top), ("net", vec![tree("pools", "net/pools")])])
}

/// A folder of a commit as GitHub and GitLab list it.
fn files(path: &str, query: &str, facts: Facts) -> Option<Answer> {
    let kind = |name: &str| {
        if name.starts_with("document") {
            "blob"
        } else {
            "tree"
        }
    };
    if let Some(id) = path.strip_prefix("/repos/o/r/git/trees/") {
        let folders = [COMMIT, LATER].map(|commit| (commit, folders(commit, facts.changed)));
        let found = folders.iter().find_map(|(commit, folders)| {
            let (_, net) = folders[""].iter().find(|(name, _)| name == "net")?;
            match id {
                id if id == *commit => Some(folders[""].clone()),
                id if id == net => Some(folders["net"].clone()),
                _ => None,
            }
        });
        let one =
            |(name, id): &(String, String)| json!({"path": name, "type": kind(name), "sha": id});
        let listed: Value = found?.iter().map(one).collect();
        return Some(ok(&json!({"tree": listed, "truncated": false})));
    }
    let query: BTreeMap<&str, &str> = query
        .split('&')
        .filter_map(|one| one.split_once('='))
        .collect();
    if path != "/projects/12/repository/tree" {
        return None;
    }
    let folders = folders(query["ref"], facts.changed);
    let page: usize = query["page"].parse().unwrap();
    let one = |(name, id): &(String, String)| json!({"name": name, "type": kind(name), "id": id});
    let listed = folders
        .get(query["path"])?
        .iter()
        .skip((page - 1) * PAGE)
        .take(PAGE);
    Some(ok(&listed.map(one).collect()))
}

fn answer(asked: &Asked, forge: Forge, facts: Facts, comments: &Texts, issues: &Texts) -> Answer {
    let (path, query) = asked.path.split_once('?').unwrap_or((&asked.path, ""));
    let is_beyond = query.contains("page=2");
    let branch = facts.branch.replace('/', "%2F");
    let (repository, merged, branch) = match forge {
        Forge::GitHub => (
            "/repos/o/r",
            format!("/repos/o/r/commits/{COMMIT}/pulls"),
            format!("/repos/o/r/branches/{branch}"),
        ),
        Forge::GitLab => (
            "/projects/12",
            format!("/projects/12/repository/commits/{COMMIT}/merge_requests"),
            format!("/projects/12/repository/branches/{branch}"),
        ),
    };
    let text = |asked: &Asked, texts: &Texts| match asked.method.as_str() {
        "GET" if is_beyond => ok(&json!([])),
        "GET" => listed(texts, forge, facts),
        "DELETE" => deleted(texts, asked),
        _ => written(texts, asked, forge),
    };
    let (base, target) = (json!({"ref": facts.target}), facts.target);
    let path = path.strip_prefix("/api").unwrap();
    match path {
        "/graphql" => ok(&json!({"data": {"viewer": {"login": "bot"}}})),
        "/user" => ok(&json!({"username": "bot"})),
        path if path == repository => ok(&json!({"default_branch": facts.branch})),
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
    pub(super) fn new(forge: Forge) -> World {
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
        std::fs::create_dir(folder.join(".git")).unwrap();
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

    pub(super) fn has_nodes(&self, names: &[&str]) {
        let nodes: Vec<String> = names.iter().map(|name| node(name, "a", "")).collect();
        let text = cluster("1.19.3", KUBERNETES, &nodes);
        self.folder.write("cluster.json", text);
    }

    /// Beside those that are there, with what they hold.
    pub(super) fn has_more_nodes(&self, names: &[&str]) {
        let mut all: Value = serde_json::from_str(&self.folder.read("cluster.json")).unwrap();
        let nodes = names.iter().map(|name| node(name, "a", ""));
        let nodes = nodes.map(|node| serde_json::from_str::<Value>(&node).unwrap());
        all["items"].as_array_mut().unwrap().extend(nodes);
        self.folder.write("cluster.json", all.to_string());
    }

    pub(super) fn is(&self, facts: Facts) {
        *self.facts.lock().unwrap() = facts;
    }

    pub(super) fn run(&self, words: &[&str]) -> Ran {
        self.run_in("", words)
    }

    /// Runs in a folder of the repository.
    pub(super) fn run_in(&self, folder: &str, words: &[&str]) -> Ran {
        let cluster = self.folder.join("cluster.json");
        let on = ["--cluster-file", cluster.to_str().unwrap()];
        let mut command = program(&self.folder.join(folder), &[words, &on].concat());
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
    pub(super) fn comments(&self) -> Vec<String> {
        let comments = self.comments.lock().unwrap();
        comments.values().map(|text| text.body.clone()).collect()
    }

    /// The numbers of the comments in order.
    pub(super) fn numbers(&self) -> Vec<u64> {
        self.comments.lock().unwrap().keys().copied().collect()
    }

    /// Another job of the account edits a comment.
    pub(super) fn edit(&self, number: u64, change: impl Fn(&str) -> String) {
        let mut comments = self.comments.lock().unwrap();
        let text = comments.get_mut(&number).unwrap();
        text.body = change(&text.body);
        text.edits += 1;
    }

    /// Another job of the account posts a comment.
    pub(super) fn post(&self, body: String) {
        let mut comments = self.comments.lock().unwrap();
        let last = comments.keys().next_back().copied().unwrap_or_default();
        let (state, edits) = ("open", 0);
        comments.insert(last + 1, Text { body, state, edits });
    }
}

pub(super) const COMMENT: [&str; 4] = ["comment", "./pools/", "--pull-request", "7"];
pub(super) const APPLY: [&str; 3] = ["apply", "pools", "--reviewed"];
