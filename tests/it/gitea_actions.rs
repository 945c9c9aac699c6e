//! The workflow of `init --ci gitea`, as it is, on a real Gitea with its real runner and a real API
//! server. `actions/checkout` and `actions/upload-artifact` are stand-ins, because jobs here reach no
//! other host.

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};
use testbed::{Client, Gitea, GiteaRunner, Options, PATIENCE, wait_until};

use super::server::{Server, kubernetes};
use super::support::{Folder, pool, repository};

const IPAM: &str = "/repos/owner/ipam";
const WORKFLOW: &str = "cilium-ipam.yaml";

/// What the workflow needs of `actions/checkout`.
const CHECKOUT: &str = r#"
name: checkout
description: Fetches the commit of the job.
runs:
  using: composite
  steps:
  - shell: bash
    run: |
      git init --quiet .
      git remote add origin "$SERVER/$REPOSITORY"
      header=$(printf 'x-access-token:%s' "$TOKEN" | base64 --wrap=0)
      git config http.extraheader "Authorization: Basic $header"
      git fetch --quiet --depth 1 origin "$COMMIT"
      git checkout --quiet --detach FETCH_HEAD
    env:
      SERVER: ${{ github.server_url }}
      REPOSITORY: ${{ github.repository }}
      COMMIT: ${{ github.sha }}
      TOKEN: ${{ github.token }}
"#;

/// What the workflow needs of `actions/upload-artifact`: it takes a file that may be missing.
const UPLOAD: &str = r#"
name: upload-artifact
description: Names the file that it would keep.
inputs:
  path:
    required: true
runs:
  using: composite
  steps:
  - shell: bash
    run: ls "$FILE" || true
    env:
      FILE: ${{ inputs.path }}
"#;

/// A repository of `owner` with pools and the workflow, and the cluster that they are for.
struct World {
    server: Server,
    gitea: Gitea,
    runner: GiteaRunner,
    owner: Client,
    /// The clone of `owner`.
    clone: Folder,
}

fn node(name: &str, rack: &str, block: Option<&str>) -> Value {
    let mut node = json!({"apiVersion": "v1", "kind": "Node",
        "metadata": {"name": name, "labels": {"rack": rack}}});
    if let Some(block) = block {
        node["spec"] = json!({"podCIDR": block, "podCIDRs": [block]});
    }
    node
}

fn rack(name: &str, range: &str) -> String {
    let selector = format!("{{matchLabels: {{rack: {name}}}}}");
    let spec = format!("{{cidrs: [{range}], blockSize: 24, nodeSelector: {selector}}}");
    pool(&format!("rack-{name}"), &spec)
}

#[track_caller]
fn git(folder: &Path, words: &[&str]) -> String {
    let mut command = Command::new("git");
    let who = ["-c", "user.name=t", "-c", "user.email=t@gitea.example"];
    command.current_dir(folder).args(who).args(words);
    command.env("HOME", folder).env("GIT_CONFIG_NOSYSTEM", "1");
    let output = command.output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "git {words:?}: {errors}");
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

impl World {
    fn new() -> World {
        let server = Server::start(&kubernetes("1.19.3", None), None, Options::default(), &[]);
        let first = node("n1", "a", Some("10.1.0.0/24"));
        server.nodes([first, node("n2", "c", None)]);
        let gitea = Gitea::start().unwrap();
        let owner = gitea.client(&gitea.user("owner", "all").unwrap());
        let programs = Path::new(env!("CARGO_BIN_EXE_cilium-ipam"));
        let runner = GiteaRunner::start(&gitea, programs.parent().unwrap()).unwrap();
        let world = World {
            server,
            gitea,
            runner,
            owner,
            clone: Folder::new(&[]),
        };
        world.actions();
        world.repository();
        world
    }

    /// The stand-in, and the action of this repository.
    fn actions(&self) {
        let organization = json!({"username": "actions"});
        self.owner.create("/orgs", &organization).unwrap();
        let ours = std::fs::read_to_string(repository().join("action.yml")).unwrap();
        for (name, text) in [
            ("checkout", CHECKOUT),
            ("upload-artifact", UPLOAD),
            ("cilium-ipam", ours.as_str()),
        ] {
            let repository = json!({"name": name, "auto_init": true, "default_branch": "v4"});
            let repositories = "/orgs/actions/repos";
            self.owner.create(repositories, &repository).unwrap();
            let content = base64(text);
            let file = json!({"content": content, "message": "Add it", "branch": "v4"});
            let path = format!("/repos/actions/{name}");
            let action = format!("{path}/contents/action.yml");
            self.owner.create(&action, &file).unwrap();
            let third = json!({"new_branch_name": "v3", "old_branch_name": "v4"});
            self.owner
                .create(&format!("{path}/branches"), &third)
                .unwrap();
        }
    }

    /// Pools of the racks that have blocks, the workflow of `init`, and a snapshot.
    fn repository(&self) {
        let repository = json!({"name": "ipam", "default_branch": "main"});
        self.owner.create("/user/repos", &repository).unwrap();
        let bot = "write:issue,read:user,read:repository";
        let bot = self.gitea.user("bot", bot).unwrap();
        let member = format!("{IPAM}/collaborators/bot");
        // Gitea answers with nothing.
        let _ = self.owner.put(&member, &json!({"permission": "write"}));
        let kubeconfig = std::fs::read_to_string(self.server.plane.kubeconfig()).unwrap();
        for (name, data) in [("CILIUM_IPAM_TOKEN", bot), ("KUBECONFIG", kubeconfig)] {
            let path = format!("{IPAM}/actions/secrets/{name}");
            let _ = self.owner.put(&path, &json!({"data": data}));
        }
        let folder = self.clone.path();
        git(folder, &["init", "--quiet", "--initial-branch=main"]);
        let url = self.gitea.git_url("owner", "owner/ipam");
        git(folder, &["remote", "add", "origin", &url]);
        let init = ["init", "pools", "--offline", "--ci", "gitea", "--no-input"];
        self.clone.run(&init).expect(0);
        self.clone
            .write("pools/pools.yaml", rack("a", "10.1.0.0/16"));
        self.snapshot();
        self.commit("main", "Add the pools");
    }

    fn snapshot(&self) {
        let out = self.clone.join("cluster.json");
        let out = ["snapshot", "--out", out.to_str().unwrap()];
        self.server.run(&out).expect(0);
    }

    /// Commits everything, and pushes it to this branch.
    fn commit(&self, branch: &str, message: &str) -> String {
        let folder = self.clone.path();
        git(folder, &["add", "."]);
        git(folder, &["commit", "--quiet", "--message", message]);
        let to = format!("HEAD:refs/heads/{branch}");
        git(folder, &["push", "--quiet", "origin", &to]);
        git(folder, &["rev-parse", "HEAD"])
    }

    /// A branch from the newest main.
    fn branch(&self, name: &str) {
        let folder = self.clone.path();
        git(folder, &["fetch", "--quiet", "origin", "main"]);
        git(folder, &["checkout", "--quiet", "-B", name, "FETCH_HEAD"]);
    }

    fn open(&self, head: &str) -> u64 {
        let pull = json!({"title": head, "head": head, "base": "main"});
        let pull = self.owner.create(&format!("{IPAM}/pulls"), &pull).unwrap();
        pull["number"].as_u64().unwrap()
    }

    /// Merges the pull request in this way; gives the commit of the merge.
    fn merge(&self, number: u64, way: &str) -> String {
        let path = format!("{IPAM}/pulls/{number}");
        let merge = json!({"Do": way});
        // Until Gitea has checked it for conflicts, it refuses. Its answer to a merge is empty.
        wait_until("the pull request to be merged", PATIENCE, || {
            let _ = self.owner.create(&format!("{path}/merge"), &merge);
            let pull = self.owner.get(&path)?;
            let commit = pull["merge_commit_sha"].as_str().map(str::to_owned);
            Ok(commit.filter(|_| pull["merged"] == true))
        })
        .unwrap()
    }

    /// Waits for the run of this event at this commit; gives the conclusion of each job.
    #[track_caller]
    fn jobs(&self, event: &str, commit: &str) -> Vec<(String, String)> {
        let id = self.run(event, commit);
        let jobs = self.owner.get(&format!("{IPAM}/actions/runs/{id}/jobs"));
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let jobs = jobs.unwrap();
        let jobs = jobs["jobs"].as_array().unwrap().iter();
        jobs.map(|job| (text(&job["name"]), text(&job["conclusion"])))
            .collect()
    }

    /// Waits for the end of the run of this event at this commit; gives its number.
    #[track_caller]
    fn run(&self, event: &str, commit: &str) -> u64 {
        let run = wait_until("the run of the workflow", PATIENCE, || {
            let listed = self.owner.get(&format!("{IPAM}/actions/runs"))?;
            let runs = listed["workflow_runs"].as_array().cloned();
            let is_it = |run: &Value| {
                let seen = run["event"].as_str().unwrap_or_default();
                let branch = run["head_branch"].as_str().unwrap_or_default();
                seen.starts_with(event)
                    && run["head_sha"] == commit
                    && run["status"] == "completed"
                    && (event == PULL || PUSHED.contains(&branch))
            };
            Ok(runs.into_iter().flatten().find(is_it))
        });
        let run = run.unwrap_or_else(|why| panic!("{why}\n{}", self.trace()));
        run["id"].as_u64().unwrap()
    }

    /// Fails with the logs if a job of this event at this commit ended otherwise.
    #[track_caller]
    fn expect(&self, event: &str, commit: &str, jobs: &[(&str, &str)]) {
        let mut seen = self.jobs(event, commit);
        seen.sort();
        let expected: Vec<(String, String)> = jobs
            .iter()
            .map(|(name, end)| ((*name).to_owned(), (*end).to_owned()))
            .collect();
        assert_eq!(seen, expected, "{}", self.trace());
    }

    /// The log of every job, and of the runner.
    fn trace(&self) -> String {
        let mut text = std::fs::read_to_string(self.runner.log()).unwrap_or_default();
        let listed = self.owner.get(&format!("{IPAM}/actions/tasks")).unwrap();
        text += &format!("{listed:#}\n");
        for job in 1..100 {
            let log = format!("{IPAM}/actions/jobs/{job}/logs");
            if let Ok(log) = self.owner.get_bytes(&log) {
                text += &format!("--- job {job}\n{}\n", String::from_utf8_lossy(&log));
            }
        }
        text
    }

    /// Number, author and text of each comment.
    fn comments(&self, number: u64) -> Vec<(u64, String, String)> {
        let path = format!("{IPAM}/issues/{number}/comments");
        let listed = self.owner.get(&path).unwrap();
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let one = |comment: &Value| {
            let (author, body) = (text(&comment["user"]["login"]), text(&comment["body"]));
            (comment["id"].as_u64().unwrap(), author, body)
        };
        listed.as_array().unwrap().iter().map(one).collect()
    }

    fn block(&self, node: &str) -> Vec<String> {
        self.server.pod_cidrs()[node].clone()
    }
}

fn base64(text: &str) -> String {
    use base64::Engine;
    base64::engine::general_purpose::STANDARD.encode(text)
}

/// How the names begin that Gitea's API gives the events of `pull_request_target`.
const PULL: &str = "pull_request";

/// The branches whose pushes count. A rebase gives the main branch a commit that was pushed to
/// another one before.
const PUSHED: [&str; 2] = ["main", "action"];

#[test]
#[ignore = "slow: builds Gitea and its runner, for minutes the first time"]
fn the_workflow_of_init_reviews_applies_and_watches() {
    let world = World::new();
    let first = git(world.clone.path(), &["rev-parse", "HEAD"]);
    let both = [("apply", "success"), ("validate", "success")];
    let skipped = [
        ("comment", "skipped"),
        ("drift", "skipped"),
        ("plan", "skipped"),
    ];
    let push = |end: &'static str| {
        let mut jobs = [&both[..], &skipped[..]].concat();
        jobs[0].1 = end;
        jobs.sort_unstable();
        jobs
    };
    // Nothing is to do, so no review is needed.
    world.expect("push", &first, &push("success"));
    let applied = a_merge_applies_what_the_comment_showed(&world, &push("success"));
    // A new node, and a new snapshot with it.
    world.server.nodes([node("n3", "d", None)]);
    world.branch("main");
    world.snapshot();
    world.commit("main", "Take a new snapshot");
    a_fork_gets_a_comment_and_runs_nothing(&world);
    a_merge_after_the_cluster_moved_is_refused(&world, &push("failure"));
    an_old_job_that_runs_again_applies_nothing(&world, &applied, &push("failure"));
    drift_opens_an_issue_and_its_end_closes_it(&world);
    a_comment_that_changed_after_the_merge_approves_nothing(&world, &push("failure"));
    the_action_runs_a_command(&world);
    the_workflow_for_github_needs_only_the_token_of_its_jobs(&world, &push("success"));
}

const REVIEWED: [(&str, &str); 5] = [
    ("apply", "skipped"),
    ("comment", "success"),
    ("drift", "skipped"),
    ("plan", "success"),
    ("validate", "skipped"),
];

/// A pull request, and the commit of its merge.
struct Applied {
    number: u64,
    commit: String,
}

fn a_merge_applies_what_the_comment_showed(world: &World, pushed: &[(&str, &str)]) -> Applied {
    world.branch("rack-c");
    world.clone.write("pools/c.yaml", rack("c", "10.3.0.0/16"));
    let commit = world.commit("rack-c", "Add rack c");
    let number = world.open("rack-c");
    world.expect(PULL, &commit, &REVIEWED);
    let [(id, author, text)] = &world.comments(number)[..] else {
        panic!("{:?}", world.comments(number))
    };
    assert_eq!(author, "bot");
    assert!(
        text.contains("1 to assign") && text.contains(&commit),
        "{text}"
    );

    // The range moves: another plan.
    world.clone.write("pools/c.yaml", rack("c", "10.4.0.0/16"));
    let commit = world.commit("rack-c", "Move rack c");
    world.expect(PULL, &commit, &REVIEWED);
    let [(same, _, text)] = &world.comments(number)[..] else {
        panic!("doubled: {:?}", world.comments(number))
    };
    assert_eq!(same, id);
    assert!(
        text.contains("10.4.0.0/24") && text.contains(&commit),
        "{text}"
    );

    assert!(world.block("n2").is_empty());
    let merged = world.merge(number, "merge");
    world.expect("push", &merged, pushed);
    assert_eq!(world.block("n2"), ["10.4.0.0/24"], "{}", world.trace());
    let told = world.comments(number);
    assert_eq!(told.len(), 2, "{told:?}");
    assert!(told[1].2.contains("applied as reviewed"), "{told:?}");
    assert!(told[1].2.contains("Applied 1 change;"), "{told:?}");
    Applied {
        number,
        commit: merged,
    }
}

/// `mallory` changes the workflow in the fork, too.
fn a_fork_gets_a_comment_and_runs_nothing(world: &World) {
    let token = world.gitea.user("mallory", "all").unwrap();
    let mallory = world.gitea.client(&token);
    mallory
        .create(&format!("{IPAM}/forks"), &json!({}))
        .unwrap();
    let fork = Folder::new(&[]);
    let url = world.gitea.git_url("mallory", "mallory/ipam");
    git(fork.path(), &["clone", "--quiet", &url, "."]);
    let trap = fork.join("ran");
    let workflow = format!(".gitea/workflows/{WORKFLOW}");
    let text = fork.read(&workflow);
    let trapped = text.replace(
        "run: git fetch",
        &format!("run: touch {} && git fetch", trap.display()),
    );
    assert_ne!(text, trapped);
    fork.write(&workflow, trapped);
    fork.write("pools/x.yaml", rack("d", "10.9.0.0/16"));
    git(fork.path(), &["add", "."]);
    git(
        fork.path(),
        &["commit", "--quiet", "--message", "Take rack d"],
    );
    git(
        fork.path(),
        &["push", "--quiet", "origin", "HEAD:refs/heads/x"],
    );
    let commit = git(fork.path(), &["rev-parse", "HEAD"]);
    let pull = json!({"title": "x", "head": "mallory:x", "base": "main"});
    let pull = mallory.create(&format!("{IPAM}/pulls"), &pull).unwrap();
    let number = pull["number"].as_u64().unwrap();
    world.expect(PULL, &commit, &REVIEWED);
    let [(_, author, text)] = &world.comments(number)[..] else {
        panic!("{:?}", world.comments(number))
    };
    assert_eq!(author, "bot");
    assert!(text.contains("1 to assign"), "{text}");
    assert!(!trap.exists(), "a step of the fork ran");
}

fn a_merge_after_the_cluster_moved_is_refused(world: &World, pushed: &[(&str, &str)]) {
    world.branch("rack-d");
    world.clone.write("pools/d.yaml", rack("d", "10.5.0.0/16"));
    let commit = world.commit("rack-d", "Add rack d");
    let number = world.open("rack-d");
    world.expect(PULL, &commit, &REVIEWED);
    // A node that no reader of the comment knew of.
    world.server.nodes([node("n0", "d", None)]);
    let merged = world.merge(number, "squash");
    world.expect("push", &merged, pushed);
    assert!(world.block("n3").is_empty() && world.block("n0").is_empty());
    let told = world.comments(number);
    assert_eq!(told.len(), 2, "{told:?}");
    let outcome = &told[1].2;
    assert!(outcome.contains("**not applied**"), "{outcome}");
    assert!(
        outcome.contains("the files or the cluster have changed"),
        "{outcome}"
    );
    assert!(
        outcome.contains("2 to assign"),
        "the plan of now: {outcome}"
    );
}

/// By now, the main branch has other pools.
fn an_old_job_that_runs_again_applies_nothing(
    world: &World,
    applied: &Applied,
    pushed: &[(&str, &str)],
) {
    let told = world.comments(applied.number);
    let run = world.run("push", &applied.commit);
    let path = format!("{IPAM}/actions/runs/{run}/rerun");
    let _ = world.owner.create(&path, &json!({}));
    world.expect("push", &applied.commit, pushed);
    assert!(
        world
            .trace()
            .contains("are outdated: branch main has others in pools"),
        "{}",
        world.trace()
    );
    assert_eq!(world.comments(applied.number), told);
}

/// Gitea moves `merged_at` with later changes of the pull request, so the comment would look older
/// than the merge.
fn a_comment_that_changed_after_the_merge_approves_nothing(
    world: &World,
    refused: &[(&str, &str)],
) {
    let manual = json!({"allow_manual_merge": true, "has_pull_requests": true});
    world.owner.patch(IPAM, &manual).unwrap();
    world.server.nodes([node("n5", "f", None)]);
    world.branch("main");
    world.snapshot();
    world.commit("main", "Take a snapshot with n5");
    world.branch("rack-f");
    world.clone.write("pools/f.yaml", rack("f", "10.7.0.0/16"));
    let commit = world.commit("rack-f", "Add rack f");
    let number = world.open("rack-f");
    world.expect(PULL, &commit, &REVIEWED);
    let to_main = ["push", "--quiet", "origin", "HEAD:refs/heads/main"];
    git(world.clone.path(), &to_main);
    world.expect("push", &commit, refused);
    let trace = world.trace();
    assert!(trace.contains("with no pull request"), "{trace}");

    let pull = format!("{IPAM}/pulls/{number}");
    let merge = json!({"Do": "manually-merged", "MergeCommitID": commit});
    let _ = world.owner.create(&format!("{pull}/merge"), &merge);
    let merged = world.owner.get(&pull).unwrap();
    assert_eq!(merged["merged"], true, "{merged:#}");
    let (id, _, mut text) = world.comments(number).remove(0);
    let comment = format!("{IPAM}/issues/comments/{id}");
    // Gitea's clock has whole seconds.
    wait_until("a comment that is younger than the merge", PATIENCE, || {
        text.push_str("edited\n");
        let edited = world.owner.patch(&comment, &json!({"body": text}))?;
        Ok((edited["updated_at"].as_str() > merged["closed_at"].as_str()).then_some(()))
    })
    .unwrap();
    let touch = json!({"allow_maintainer_edit": true});
    world.owner.patch(&pull, &touch).unwrap();
    let touched = world.owner.get(&pull).unwrap();
    assert_eq!(touched["closed_at"], merged["closed_at"]);
    assert!(touched["merged_at"].as_str() > merged["merged_at"].as_str());
    let run = world.run("push", &commit);
    let rerun = format!("{IPAM}/actions/runs/{run}/rerun");
    let _ = world.owner.create(&rerun, &json!({}));
    world.expect("push", &commit, refused);
    let expected = format!("was changed after pull request {number} was merged");
    assert!(world.trace().contains(&expected), "{}", world.trace());
    assert!(world.block("n5").is_empty());
}

fn drift_opens_an_issue_and_its_end_closes_it(world: &World) {
    let issues = |state: &str| {
        let path = format!("{IPAM}/issues?type=issues&state={state}");
        world.owner.get(&path).unwrap().as_array().unwrap().clone()
    };
    let main = world.owner.get(&format!("{IPAM}/branches/main")).unwrap();
    let main = main["commit"]["id"].as_str().unwrap().to_owned();
    let seen = std::cell::Cell::new(0);
    let check = || {
        let path = format!("{IPAM}/actions/workflows/{WORKFLOW}/dispatches");
        let _ = world.owner.create(&path, &json!({"ref": "main"}));
        wait_until("the check to end", PATIENCE, || {
            let listed = world
                .owner
                .get(&format!("{IPAM}/actions/runs?event=workflow_dispatch"))?;
            let runs = listed["workflow_runs"]
                .as_array()
                .cloned()
                .unwrap_or_default();
            let is_done =
                |run: &&Value| run["event"] == "workflow_dispatch" && run["status"] == "completed";
            let done = runs.iter().filter(is_done).count();
            Ok((done > seen.get()).then_some(done))
        })
        .map(|done| seen.set(done))
        .unwrap_or_else(|why| panic!("{why}\n{}", world.trace()));
    };
    check();
    let open = issues("open");
    assert_eq!(open.len(), 1, "{}", world.trace());
    assert_eq!(open[0]["title"], "The cluster differs from pools");
    assert!(open[0]["body"].as_str().unwrap().contains("2 to assign"));
    check();
    assert_eq!(issues("open").len(), 1, "updated, not doubled");

    world.branch("main");
    let pools = world.clone.join("pools");
    let apply = ["apply", pools.to_str().unwrap(), "--auto-approve"];
    world.server.run(&apply).expect(0);
    check();
    assert!(issues("open").is_empty(), "{}", world.trace());
    let closed = issues("closed");
    assert_eq!(closed.len(), 1);
    let body = closed[0]["body"].as_str().unwrap();
    assert!(
        body.contains("is as the files") && body.contains(&main),
        "{body}"
    );
}

fn the_action_runs_a_command(world: &World) {
    world.branch("action");
    let workflow = "on: {push: {branches: [action]}}\njobs:\n  check:\n    runs-on: ubuntu-latest\n    steps:\n    - uses: actions/checkout@v4\n    - uses: actions/cilium-ipam@v4\n      with: {command: validate, arguments: \"--strict\\n--no-color\"}\n";
    world.clone.write(".gitea/workflows/action.yaml", workflow);
    let commit = world.commit("action", "Use the action");
    world.expect("push", &commit, &[("check", "success")]);
}

/// Gitea runs it as well. Its jobs comment as an account of Gitea's own.
fn the_workflow_for_github_needs_only_the_token_of_its_jobs(
    world: &World,
    pushed: &[(&str, &str)],
) {
    world.server.nodes([node("n4", "e", None)]);
    world.branch("main");
    let of_gitea = world.clone.join(".gitea/workflows").join(WORKFLOW);
    std::fs::remove_file(of_gitea).unwrap();
    world
        .clone
        .run(&["init", "pools", "--ci", "github"])
        .expect(0);
    world.snapshot();
    world.commit("main", "Use the workflow of GitHub");
    world.branch("rack-e");
    world.clone.write("pools/e.yaml", rack("e", "10.6.0.0/16"));
    let commit = world.commit("rack-e", "Add rack e");
    let number = world.open("rack-e");
    world.expect(PULL, &commit, &REVIEWED);
    let shown = world.comments(number);
    let trace = world.trace();
    assert_eq!(shown.len(), 1, "{trace}");
    assert_eq!(shown[0].1, "gitea-actions", "{trace}");
    let merged = world.merge(number, "rebase");
    world.expect("push", &merged, pushed);
    assert_eq!(world.block("n4"), ["10.6.0.0/24"], "{}", world.trace());
    assert!(world.comments(number)[1].2.contains("applied as reviewed"));
}
