//! `comment` on GitHub and GitLab as their documentation describes them, and on servers that want
//! the token. Only the hosted services can show that they do what they document.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use super::support::{Folder, Ran, TextAssertions, program, ran, repository};

pub const TOKEN: &str = "glpat-0123456789abcdefghij";

/// An answer: status, further headers, body.
pub type Answer = (u16, String, String);

/// A request: method, path with query, head, body.
pub struct Asked {
    pub method: String,
    pub path: String,
    head: String,
    pub body: Value,
}

type Answering = dyn Fn(&Asked) -> Answer + Send + Sync;

/// Serves on loopback until the test's process ends; gives host and port.
pub fn serve(answer: impl Fn(&Asked) -> Answer + Send + Sync + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let answer: Arc<Answering> = Arc::new(answer);
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let answer = answer.clone();
            std::thread::spawn(move || connection(stream, &*answer));
        }
    });
    address
}

fn connection(stream: TcpStream, answer: &Answering) -> Option<()> {
    let mut reader = BufReader::new(stream.try_clone().ok()?);
    let mut writer = stream;
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        reader.read_line(&mut head).ok().filter(|read| *read > 0)?;
    }
    let length = head.to_lowercase();
    let length = length.split("content-length: ").nth(1);
    let length = length.map_or(0, |rest| {
        rest.split("\r\n").next().unwrap().parse().unwrap()
    });
    let mut body = Vec::new();
    reader.take(length).read_to_end(&mut body).ok()?;
    let mut words = head.split(' ').map(str::to_owned);
    let asked = Asked {
        method: words.next()?,
        path: words.next()?,
        body: serde_json::from_slice(&body).unwrap_or_default(),
        head: head.clone(),
    };
    let (status, headers, body) = answer(&asked);
    let size = body.len();
    let head = format!(
        "HTTP/1.1 {status} X\r\nConnection: close\r\nContent-Length: {size}\r\n{headers}\r\n"
    );
    writer.write_all(head.as_bytes()).ok()?;
    writer.write_all(body.as_bytes()).ok()
}

pub fn ok(body: &Value) -> Answer {
    (200, String::new(), body.to_string())
}

/// The comments of a pull request: number, author, text.
type Comments = Arc<Mutex<BTreeMap<u64, (String, String)>>>;

/// Adds a comment.
fn written(comments: &Comments, me: &str, asked: &Asked) -> u64 {
    let text = asked.body["body"].as_str().unwrap().to_owned();
    let mut comments = comments.lock().unwrap();
    let id = comments.keys().max().copied().unwrap_or_default() + 1;
    comments.insert(id, (me.to_owned(), text));
    id
}

fn deleted(comments: &Comments, asked: &Asked) -> Answer {
    let number = asked.path.rsplit('/').next().unwrap().parse().unwrap();
    comments.lock().unwrap().remove(&number).unwrap();
    (204, String::new(), String::new())
}

fn page_of(comments: &Comments, asked: &Asked, author: impl Fn(&str) -> Value) -> Value {
    let page = asked.path.split("&page=").nth(1).unwrap();
    let page: usize = page.split('&').next().unwrap().parse().unwrap();
    let comments = comments.lock().unwrap();
    let on_page = comments.iter().skip((page - 1) * 100).take(100);
    let one = |(id, (name, text)): (&u64, &(String, String))| {
        let mut comment = author(name);
        comment["id"] = json!(id);
        comment["body"] = json!(text);
        comment["created_at"] = json!("2026-01-01T00:00:00Z");
        comment["updated_at"] = json!("2026-01-01T00:00:00Z");
        comment
    };
    on_page.map(one).collect()
}

/// As <https://docs.github.com/en/rest/issues/comments> says.
fn github(comments: Comments) -> String {
    const ME: &str = "github-actions[bot]";
    serve(move |asked| {
        asked.head.assert_has(&format!("Bearer {TOKEN}\r\n"));
        let path = asked.path.split('?').next().unwrap();
        match (asked.method.as_str(), path) {
            ("POST", "/api/graphql") => ok(&json!({"data": {"viewer": {"login": ME}}})),
            ("GET", "/api/v3/repos/o/r/pulls") => {
                asked.path.assert_has("head=fork:wide&");
                ok(&json!([{"number": 7, "head": {"sha": "abc"}}]))
            }
            ("GET", "/api/v3/repos/o/r/pulls/7") => ok(&json!({"head": {"sha": "abc"}})),
            ("GET", "/api/v3/repos/o/r/issues/7/comments") => ok(&page_of(
                &comments,
                asked,
                |name| json!({"user": {"login": name}}),
            )),
            ("POST", "/api/v3/repos/o/r/issues/7/comments") => {
                let id = written(&comments, ME, asked);
                ok(&json!({"id": id, "body": "", "user": {"login": ME}}))
            }
            ("DELETE", path) if path.starts_with("/api/v3/repos/o/r/issues/comments/") => {
                deleted(&comments, asked)
            }
            _ => (
                404,
                String::new(),
                json!({"message": "Not Found"}).to_string(),
            ),
        }
    })
}

/// As <https://docs.gitlab.com/api/notes/> says.
fn gitlab(comments: Comments) -> String {
    const ME: &str = "project_12_bot";
    serve(move |asked| {
        asked.head.assert_has(&format!("Bearer {TOKEN}\r\n"));
        let path = asked.path.split('?').next().unwrap();
        let notes = "/api/v4/projects/12/merge_requests/7/notes";
        match (asked.method.as_str(), path) {
            ("GET", "/api/v4/user") => ok(&json!({"username": ME})),
            ("GET", "/api/v4/projects/12/merge_requests/7") => ok(&json!({"sha": "abc"})),
            ("GET", path) if path == notes => {
                let author = |name: &str| json!({"author": {"username": name}});
                ok(&page_of(&comments, asked, author))
            }
            ("POST", path) if path == notes => {
                let id = written(&comments, ME, asked);
                ok(&json!({"id": id, "body": "", "author": {"username": ME}}))
            }
            ("DELETE", path) if path.starts_with(notes) => deleted(&comments, asked),
            _ => (
                404,
                String::new(),
                json!({"message": "404 Not found"}).to_string(),
            ),
        }
    })
}

fn comment(variables: &[(&str, &str)], arguments: &[&str]) -> Ran {
    let folder = repository().join("examples/racks");
    let racks = ["comment", "pools", "--cluster-file", "cluster.yaml"];
    let mut command = program(&folder, &[&racks[..], arguments].concat());
    command.envs(variables.iter().copied());
    let ran = ran(command.output().unwrap());
    assert!(
        !ran.stdout.contains(TOKEN) && !ran.stderr.contains(TOKEN),
        "{ran:?}"
    );
    ran
}

/// 250 comments of others, one of them with our marker.
fn discussion() -> Comments {
    let comments = (1..=250).map(|id| (id, ("someone".to_owned(), format!("comment {id}"))));
    Arc::new(Mutex::new(comments.collect()))
}

/// How `comment` tells what it did for one plan, the same one and another one.
const TOLD: [(&str, &[&str]); 3] = [
    ("Posted comment 251", &[]),
    ("Already up to date: comment 251", &[]),
    (
        "Replaced the older comment by comment 252",
        &["--fail-on", "never"],
    ),
];

fn has_one_of(comments: &Comments, me: &str) {
    let comments = comments.lock().unwrap();
    let ours: Vec<_> = comments.values().filter(|(name, _)| name == me).collect();
    assert_eq!(ours.len(), 1, "{ours:?}");
    assert!(ours[0].1.contains("7 nodes get a block"), "{ours:?}");
    assert_eq!(comments.len(), 251);
}

#[test]
fn github_is_asked_as_it_documents_for_a_fork_too() {
    let comments = discussion();
    let address = github(comments.clone());
    let run = json!({"workflow_run": {
        "event": "pull_request", "head_sha": "abc", "head_branch": "wide",
        "head_repository": {"owner": {"login": "fork"}}, "pull_requests": [],
    }});
    let own = json!({"pull_request": {"number": 7, "head": {"sha": "abc"}}});
    let folder = Folder::new(&[
        ("run.json", &run.to_string()),
        ("own.json", &own.to_string()),
    ]);
    for (event, (told, flags)) in ["run.json", "own.json", "own.json"].iter().zip(TOLD) {
        let event = folder.join(event);
        let variables = [
            ("GITHUB_ACTIONS", "true"),
            ("GITHUB_API_URL", &format!("http://{address}/api/v3")),
            ("GITHUB_REPOSITORY", "o/r"),
            ("GITHUB_EVENT_PATH", event.to_str().unwrap()),
            ("GITHUB_TOKEN", TOKEN),
        ];
        let posted = comment(&variables, flags).expect(0);
        assert_eq!(posted.stderr, format!("{told}\n"));
    }
    has_one_of(&comments, "github-actions[bot]");
}

#[test]
fn gitlab_is_asked_as_it_documents() {
    let comments = discussion();
    let api = format!("http://{}/api/v4", gitlab(comments.clone()));
    let variables = [
        ("GITLAB_CI", "true"),
        ("CI_API_V4_URL", api.as_str()),
        ("CI_PROJECT_ID", "12"),
        ("CI_MERGE_REQUEST_IID", "7"),
        ("CI_COMMIT_SHA", "abc"),
        ("CI_JOB_TOKEN", "job-token"),
    ];
    let refused = comment(&variables, &[]).expect(1).stderr;
    refused.assert_has("CI_JOB_TOKEN may not write notes");
    let with_token = [&variables[..], &[("GITLAB_TOKEN", TOKEN)]].concat();
    for (told, flags) in TOLD {
        let posted = comment(&with_token, flags).expect(0);
        assert_eq!(posted.stderr, format!("{told}\n"));
    }
    has_one_of(&comments, "project_12_bot");
    let moved = comment(&with_token, &["--commit", "older"]).expect(0);
    assert_eq!(
        moved.stderr,
        "The pull request has moved on to abc: nothing was posted.\n"
    );
}

/// Flags for a Gitea at this address.
fn gitea_flags(address: &str) -> [String; 8] {
    let api = format!("http://{address}/api/v1");
    let flags = [
        "--forge",
        "gitea",
        "--api-url",
        &api,
        "--repository",
        "o/r",
        "--pull-request",
        "7",
    ];
    flags.map(str::to_owned)
}

fn comment_at(address: &str, more: &[&str]) -> Ran {
    let flags = gitea_flags(address);
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    comment(&[("GITEA_TOKEN", TOKEN)], &[&flags[..], more].concat())
}

#[test]
fn the_token_goes_to_no_other_host_and_into_no_message() {
    let seen = Arc::new(Mutex::new(0));
    let thief = {
        let seen = seen.clone();
        serve(move |_| {
            *seen.lock().unwrap() += 1;
            ok(&json!({"login": "thief"}))
        })
    };
    let elsewhere = serve(move |_| {
        let to = format!("Location: http://{thief}/api/v1/user\r\n");
        (302, to, String::new())
    });
    let refused = comment_at(&elsewhere, &[]).expect(1).stderr;
    refused.assert_has("redirects to 127.0.0.1");
    assert_eq!(*seen.lock().unwrap(), 0);

    let echo = serve(|_| {
        let body = json!({"message": format!("bad token {TOKEN}")});
        (403, String::new(), body.to_string())
    });
    let refused = comment_at(&echo, &[]).expect(1).stderr;
    refused.assert_has("they repeat the token");

    let plain = comment_at("git.example", &[]).expect(1).stderr;
    plain.assert_has("has no TLS");
    let folder = Folder::new(&[("token", "two words")]);
    let file = folder.join("token");
    let bad = comment_at(&echo, &["--token-file", file.to_str().unwrap()]).expect(1);
    assert!(
        bad.stderr.contains("characters that no token has"),
        "{bad:?}"
    );
}

#[test]
fn a_redirect_on_one_host_is_followed_and_a_busy_server_asked_again() {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let address = {
        let asked = asked.clone();
        serve(move |request| {
            let mut asked = asked.lock().unwrap();
            let path = request.path.split('?').next().unwrap().to_owned();
            asked.push(format!("{} {path}", request.method));
            match (asked.len(), request.method.as_str(), path.as_str()) {
                (1, ..) => (503, String::new(), String::new()),
                (2, ..) => {
                    let host = request.head.split("ost: ").nth(1).unwrap();
                    let host = host.split("\r\n").next().unwrap();
                    let to = format!("Location: http://{host}/api/v1/me\r\n");
                    (302, to, String::new())
                }
                (_, "GET", "/api/v1/me") => ok(&json!({"login": "bot"})),
                (_, "GET", "/api/v1/user") => ok(&json!({"login": "bot"})),
                (_, "GET", _) => ok(&json!([])),
                _ => ok(&json!({"id": 1, "body": "", "user": {"login": "bot"}})),
            }
        })
    };
    let posted = comment_at(&address, &[]).expect(0);
    assert_eq!(posted.stderr, "Posted comment 1\n");
    let comments = "/api/v1/repos/o/r/issues/7/comments";
    assert_eq!(
        *asked.lock().unwrap(),
        [
            "GET /api/v1/user".to_owned(),
            "GET /api/v1/user".to_owned(),
            "GET /api/v1/me".to_owned(),
            format!("GET {comments}"),
            format!("POST {comments}"),
            format!("GET {comments}"),
        ]
    );
}

#[test]
fn a_lost_answer_to_a_post_makes_no_double() {
    let comments: Comments = Arc::default();
    let posts = Arc::new(Mutex::new(0));
    let address = {
        let (comments, posts) = (comments.clone(), posts.clone());
        serve(move |asked| match asked.method.as_str() {
            "GET" if asked.path == "/api/v1/user" => ok(&json!({"login": "bot"})),
            "GET" => ok(&page_of(
                &comments,
                asked,
                |name| json!({"user": {"login": name}}),
            )),
            _ => {
                written(&comments, "bot", asked);
                *posts.lock().unwrap() += 1;
                (502, String::new(), String::new())
            }
        })
    };
    let posted = comment_at(&address, &[]).expect(0);
    assert_eq!(posted.stderr, "Already up to date: comment 1\n");
    assert_eq!(comments.lock().unwrap().len(), 1);
    assert_eq!(*posts.lock().unwrap(), 1);
}
