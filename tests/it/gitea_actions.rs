//! The workflow of `init --ci gitea`, as it is, on a real Gitea with its real runner and a real API
//! server.

use serde_json::{Value, json};
use testbed::{PATIENCE, wait_until};

use super::git::git;
use super::gitea_world::{IPAM, PULL, WORKFLOW, World, node, rack};
use super::support::{Folder, TextAssertions};

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
    the_schedule_starts_the_check(&world);
    a_comment_that_was_edited_approves_nothing(&world, &push("failure"));
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
    text.assert_has("1 node gets a block");
    text.assert_has(&commit);

    // The range moves: another plan.
    world.clone.write("pools/c.yaml", rack("c", "10.4.0.0/16"));
    let commit = world.commit("rack-c", "Move rack c");
    world.expect(PULL, &commit, &REVIEWED);
    let [(other, _, text)] = &world.comments(number)[..] else {
        panic!("doubled: {:?}", world.comments(number))
    };
    assert_ne!(other, id);
    text.assert_has("10.4.0.0/24");
    text.assert_has(&commit);

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
    let trapped = text.replace(" git -c ", &format!(" touch {} && git -c ", trap.display()));
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
    text.assert_has("1 node gets a block");
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
    outcome.assert_has("**not applied**");
    outcome.assert_has("the files or the cluster have changed");
    assert!(
        outcome.contains("2 nodes get a block"),
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

/// Gitea moves `merged_at` with later changes of the pull request, so the edit would look older than
/// the merge.
fn a_comment_that_was_edited_approves_nothing(world: &World, refused: &[(&str, &str)]) {
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
    trace.assert_has("with no pull request");

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
    let expected = format!("in pull request {number} was edited after it was posted");
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
    assert!(
        open[0]["body"]
            .as_str()
            .unwrap()
            .contains("2 nodes get a block")
    );
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
    body.assert_has("matches the files");
    body.assert_has(&main);
}

/// Gitea looks for due checks each minute.
fn the_schedule_starts_the_check(world: &World) {
    world.server.nodes([node("n6", "d", None)]);
    world.branch("main");
    let workflow = format!(".gitea/workflows/{WORKFLOW}");
    let text = world.clone.read(&workflow);
    let often = text.replace("cron: \"17 * * * *\"", "cron: \"* * * * *\"");
    assert_ne!(text, often);
    world.clone.write(&workflow, often);
    world.commit("main", "Look for drift each minute");
    let open = format!("{IPAM}/issues?type=issues&state=open");
    let opened = wait_until("a scheduled check to open an issue", PATIENCE, || {
        let issues = world.owner.get(&open)?;
        let first = issues.as_array().and_then(|issues| issues.first().cloned());
        Ok(first)
    });
    let opened = opened.unwrap_or_else(|why| panic!("{why}\n{}", world.trace()));
    let body = opened["body"].as_str().unwrap();
    body.assert_has("1 node gets a block");
    let runs = format!("{IPAM}/actions/runs?event=schedule");
    let runs = world.owner.get(&runs).unwrap();
    assert!(runs["workflow_runs"][0].is_object(), "{runs:#}");
    // The later parts have their own nodes.
    let pools = world.clone.join("pools");
    let apply = ["apply", pools.to_str().unwrap(), "--auto-approve"];
    world.server.run(&apply).expect(0);
    world.clone.write(&workflow, text);
    world.commit("main", "Look for drift each hour");
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
    world.use_stand_ins(".github");
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
