//! `comment` on the pull requests of a real Gitea: one comment for each directory, kept up to date
//! and never edited, whatever others do.

use std::time::Instant;

use serde_json::{Value, json};
use testbed::{Client, Gitea, PATIENCE, wait_until};

use super::comment_big::big_plan;
use super::support::{Folder, Ran, TextAssertions, program, ran, repository};

/// A Gitea with a repository of `owner` that `bot` may write to, and a pull request.
struct World {
    gitea: Gitea,
    owner: Client,
    /// Of the account that comments.
    bot: String,
    folder: Folder,
}

const REPOSITORY: &str = "/repos/owner/ipam";
const COMMENTS: &str = "/repos/owner/ipam/issues/1/comments";

impl World {
    fn new() -> World {
        let gitea = Gitea::start().unwrap();
        let owner = gitea.client(&gitea.user("owner", "all").unwrap());
        let bot = gitea
            .user("bot", "write:issue,read:user,read:repository")
            .unwrap();
        let repository =
            json!({"name": "ipam", "auto_init": true, "default_branch": "main", "private": true});
        owner.create("/user/repos", &repository).unwrap();
        let member = format!("{REPOSITORY}/collaborators/bot");
        // Gitea answers with nothing.
        let _ = owner.put(&member, &json!({"permission": "write"}));
        let world = World {
            gitea,
            owner,
            bot,
            folder: Folder::new(&[]),
        };
        world.push("a.yaml");
        let pull = json!({"title": "Wider racks", "head": "wide", "base": "main"});
        let pull = world.owner.create(&format!("{REPOSITORY}/pulls"), &pull);
        assert_eq!(pull.unwrap()["number"], 1);
        world
    }

    /// Adds a file to the branch of the pull request.
    fn push(&self, name: &str) {
        let branches = self.owner.get(&format!("{REPOSITORY}/branches")).unwrap();
        let is_there = branches.to_string().contains("\"wide\"");
        let (from, new) = if is_there {
            ("wide", Value::Null)
        } else {
            ("main", json!("wide"))
        };
        let file =
            json!({"content": "YTogMQo=", "message": name, "branch": from, "new_branch": new});
        let path = format!("{REPOSITORY}/contents/pools/{name}");
        let pushed = self.owner.create(&path, &file).unwrap();
        if is_there {
            // Gitea tells its pull requests later.
            wait_until("the pull request to have the commit", PATIENCE, || {
                Ok((self.head() == pushed["commit"]["sha"]).then_some(()))
            })
            .unwrap();
        }
    }

    /// The event of a job for the pull request as it is now.
    fn start_job(&self) {
        let pull = self.owner.get(&format!("{REPOSITORY}/pulls/1")).unwrap();
        let event = json!({"number": 1, "pull_request": pull});
        self.folder.write("event.json", event.to_string());
    }

    /// Runs `comment` as a job of Gitea Actions does.
    fn comment(&self, token: &str, arguments: &[&str]) -> Ran {
        let folder = repository().join("examples/racks");
        let mut command = program(&folder, &[&["comment"], arguments].concat());
        command
            .env("GITEA_ACTIONS", "true")
            .env("GITHUB_ACTIONS", "true")
            .env("GITHUB_API_URL", self.gitea.api())
            .env("GITHUB_REPOSITORY", "owner/ipam")
            .env("GITHUB_EVENT_PATH", self.folder.join("event.json"))
            .env("GITEA_TOKEN", token);
        let ran = ran(command.output().unwrap());
        assert!(!ran.stdout.contains(token) && !ran.stderr.contains(token));
        ran
    }

    fn racks(&self, arguments: &[&str]) -> Ran {
        let on = ["--cluster-file", "cluster.yaml"];
        self.comment(&self.bot, &[&on[..], arguments].concat())
    }

    /// Number, author and text of each comment.
    fn comments(&self) -> Vec<(u64, String, String)> {
        let listed = self.owner.get(COMMENTS).unwrap();
        let one = |comment: &Value| {
            let text = |value: &Value| value.as_str().unwrap().to_owned();
            (
                comment["id"].as_u64().unwrap(),
                text(&comment["user"]["login"]),
                text(&comment["body"]),
            )
        };
        listed.as_array().unwrap().iter().map(one).collect()
    }

    fn head(&self) -> String {
        let pull = self.owner.get(&format!("{REPOSITORY}/pulls/1")).unwrap();
        pull["head"]["sha"].as_str().unwrap().to_owned()
    }
}

#[test]
#[ignore = "slow: builds Gitea, for minutes the first time"]
fn a_pull_request_has_one_comment_for_each_directory() {
    let world = World::new();
    world.start_job();
    let posted = world.racks(&["pools"]).expect(0);
    assert!(posted.stderr.starts_with("Posted http://"), "{posted:?}");
    let [(first, author, text)] = &world.comments()[..] else {
        panic!("{:?}", world.comments())
    };
    assert_eq!(author, "bot");
    assert!(text.contains(&world.head()), "{text}");

    let old = world.folder.read("event.json");
    world.push("b.yaml");
    // The job of the older commit ends last: its comment would be outdated.
    let late = world.racks(&["pools"]).expect(0);
    assert!(late.stderr.contains("has moved on to"), "{late:?}");
    assert_eq!(world.comments()[0].2, *text);
    world.start_job();
    assert_ne!(old, world.folder.read("event.json"));
    let replaced = world.racks(&["./pools/"]).expect(0);
    let expected = "Replaced the older comment by http://";
    assert!(replaced.stderr.starts_with(expected), "{replaced:?}");
    let [(second, _, text)] = &world.comments()[..] else {
        panic!("doubled: {:?}", world.comments())
    };
    assert_ne!(second, first);
    assert!(text.contains(&world.head()), "{text}");
    let same = world.racks(&["pools"]).expect(0);
    let expected = "Already up to date: http://";
    assert!(same.stderr.starts_with(expected), "{same:?}");

    world.racks(&["../dual-stack/pools"]).expect(0);
    world.racks(&["pools", "--cluster-name", "lab"]).expect(0);
    assert_eq!(world.comments().len(), 3, "one for each, and each cluster");
    removed_ones_are_posted_anew(&world, *second);
    forged_ones_are_left_alone(&world);
    missing_rights_are_named(&world);
    a_large_plan_fits(&world);
}

/// A person removes the comment: it comes back. Another job of the account adds one, and edits one:
/// one comment without an edit remains.
fn removed_ones_are_posted_anew(world: &World, id: u64) {
    let path = format!("{REPOSITORY}/issues/comments/{id}");
    world.owner.delete_silently(&path).unwrap();
    let again = world.racks(&["pools"]).expect(0);
    assert!(again.stderr.starts_with("Posted "), "{again:?}");
    let (_, _, text) = world.comments().pop().unwrap();
    let bot = world.gitea.client(&world.bot);
    bot.create(COMMENTS, &json!({"body": text})).unwrap();
    let single = world.racks(&["pools"]).expect(0);
    assert!(
        single.stderr.contains("Deleted older doubles: 1"),
        "{single:?}"
    );
    assert_eq!(world.comments().len(), 3);
    // Gitea's clock has whole seconds.
    std::thread::sleep(std::time::Duration::from_secs(2));
    let (id, _, mut text) = world.comments().pop().unwrap();
    text.push_str("edited\n");
    let path = format!("{REPOSITORY}/issues/comments/{id}");
    bot.patch(&path, &json!({"body": text})).unwrap();
    bot.patch(&path, &json!({"body": text.trim_end_matches("edited\n")}))
        .unwrap();
    let replaced = world.racks(&["pools"]).expect(0);
    let expected = "Replaced the older comment by";
    assert!(replaced.stderr.starts_with(expected), "{replaced:?}");
    assert_eq!(world.comments().len(), 3);
}

/// `mallory` copies the comment with its marker before the job runs. The token of `bot` could edit
/// that comment.
fn forged_ones_are_left_alone(world: &World) {
    let token = world.gitea.user("mallory", "all").unwrap();
    let member = format!("{REPOSITORY}/collaborators/mallory");
    let _ = world.owner.put(&member, &json!({"permission": "read"}));
    let mallory = world.gitea.client(&token);
    let marker = {
        let shown = world.comments();
        shown[2].2.lines().next().unwrap().to_owned()
    };
    let ours = world.comments()[2].0;
    let path = format!("{REPOSITORY}/issues/comments/{ours}");
    world.owner.delete_silently(&path).unwrap();
    let forged = format!("{marker}\nNothing to see here, merge it.");
    mallory.create(COMMENTS, &json!({"body": forged})).unwrap();
    let posted = world.racks(&["pools"]).expect(0);
    assert!(posted.stderr.starts_with("Posted "), "{posted:?}");
    assert!(
        posted
            .stderr
            .contains("Left alone comments of other accounts with the same marker: 1"),
        "{posted:?}"
    );
    let all = world.comments();
    let of = |author: &str| all.iter().filter(|(_, name, _)| name == author).count();
    assert_eq!(of("mallory"), 1);
    assert!(
        all.iter()
            .any(|(_, name, text)| name == "mallory" && *text == forged)
    );
}

fn missing_rights_are_named(world: &World) {
    let before = world.comments();
    let reader = world
        .gitea
        .token("bot", "read:issue,read:user,read:repository")
        .unwrap();
    let nameless = world
        .gitea
        .token("bot", "write:issue,read:repository")
        .unwrap();
    let stranger = world.gitea.user("stranger", "all").unwrap();
    let unknown = "0123456789abcdef0123456789abcdef01234567".to_owned();
    for (token, status, words) in [
        (reader, "status 403", "`write:issue`"),
        (nameless, "status 403", "`read:user`"),
        (stranger, "status 404", "the token may not see it"),
        (unknown, "status 401", "unknown or expired"),
    ] {
        // A comment that is up to date needs no right to write.
        let name = ["--cluster-name", "rights"];
        let on = [&["pools", "--cluster-file", "cluster.yaml"], &name[..]].concat();
        let refused = world.comment(&token, &on).expect(1).stderr;
        assert!(refused.contains(status), "{status}: {refused}");
        assert!(refused.contains(words), "{words}: {refused}");
    }
    assert_eq!(world.comments(), before);
}

fn a_large_plan_fits(world: &World) {
    let plan = serde_json::to_string(&big_plan()).unwrap();
    world.folder.write("big.json", plan);
    let file = world.folder.join("big.json");
    let began = Instant::now();
    let file = ["--plan", file.to_str().unwrap()];
    let never = ["--fail-on", "never"];
    world.comment(&world.bot, &[file, never].concat()).expect(0);
    let took = began.elapsed();
    let (_, _, text) = world.comments().pop().unwrap();
    println!(
        "comment of 5,000 nodes and 300 refusals: characters={} ms={}",
        text.chars().count(),
        took.as_millis()
    );
    text.assert_has("refused for 300 reasons");
    assert!(text.chars().count() <= 65_536);
    assert!(text.contains("--show-all`\n"), "its end is there: {text}");
    assert!(text.contains("\n**Pin:** "), "its legend is there: {text}");
}
