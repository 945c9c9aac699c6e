//! `apply --reviewed` and `drift` on GitHub and GitLab as their documentation describes them. Only
//! the hosted services can show that they do what they document; `gitea_actions` has a real Gitea.

use serde_json::{Value, json};

use super::git::git;
use super::review_world::{
    AFTER, APPLY, COMMENT, COMMIT, FACTS, Facts, Forge, LATER, MERGED, World,
};
use super::support::{Folder, TextAssertions};

#[test]
fn a_merge_applies_the_plan_that_was_shown_and_no_other_one() {
    for forge in [Forge::GitHub, Forge::GitLab] {
        let world = World::new(forge);
        // Nothing was shown.
        let refused = world.run(&APPLY).expect(4);
        assert!(refused.stderr.contains("no comment of ours"), "{refused:?}");
        let told = world.comments();
        assert!(told[0].contains("**not applied**"), "{told:?}");
        assert!(
            told[0].contains("1 node gets a block"),
            "the plan of now: {told:?}"
        );

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

/// A person needs the plan and its digest then, and has nothing to repair.
#[test]
fn an_apply_whose_first_write_is_refused_is_told_as_not_applied() {
    let world = World::new(Forge::GitHub);
    world.run(&COMMENT).expect(0);
    let cluster = world.folder.read("cluster.json");
    let last = cluster.replace(
        r#""resourceVersion":"7""#,
        &format!(r#""resourceVersion":"{}""#, u64::MAX),
    );
    assert_ne!(last, cluster);
    world.folder.write("cluster.json", last);
    let refused = world.run(&APPLY).expect(1);
    assert!(refused.stdout.contains("Applied 0 changes; 1 not applied"));
    let told = world.comments().remove(1);
    for part in [
        "**not applied**\n\nThe claims in ConfigMap ",
        "no resourceVersion is left",
        "\n- `n1`: not tried, because applying stopped before\n",
        "\nThe plan that the apply began with:\n\n### `pools`: 1 to assign, 0 moved.\n",
        "To apply exactly this by hand: `cilium-ipam apply pools --expect-digest ",
    ] {
        assert!(told.contains(part), "{part} in {told}");
    }

    world.folder.write("cluster.json", cluster);
    world.run(&APPLY).expect(0);
    assert!(world.comments()[1].contains("applied as reviewed"));
}

/// The comment shows the refusal, and the merge does not lift it.
#[test]
fn a_rule_refuses_a_plan_that_was_reviewed() {
    for forge in [Forge::GitHub, Forge::GitLab] {
        let world = World::new(forge);
        let policy = |expression: &str| {
            let head = "apiVersion: cilium-ipam.io/v1alpha1\nkind: IPAMPolicy\nmetadata: {name: p}";
            let rules = format!("spec:\n  rules:\n  - {{name: few, expression: {expression}}}\n");
            world
                .folder
                .write("pools/policy.yaml", format!("{head}\n{rules}"));
        };
        policy("plan.changes.size() < 1");
        world.run(&COMMENT).expect(5);
        let shown = world.comments().remove(0);
        // Once, although it is a refusal and an error.
        shown.assert_has("`: refused for 1 reason; ");
        assert_eq!(shown.matches("rule `few` is broken").count(), 1, "{shown}");
        let refused = world.run(&APPLY).expect(4);
        assert!(
            refused.stderr.contains("rule `few` is broken"),
            "{refused:?}"
        );
        assert!(!world.folder.read("cluster.json").contains("podCIDR\""));
        let told = world.comments();
        assert!(
            told.iter().any(|text| text.contains("**not applied**")),
            "{told:?}"
        );

        // Another rule makes another plan, which needs its own review.
        policy("plan.changes.size() < 2");
        world.run(&APPLY).expect(4);
        world.run(&COMMENT).expect(0);
        world.run(&APPLY).expect(0);
        assert!(world.folder.read("cluster.json").contains("10.20.0.0/24"));
    }
}

/// A late job, or a job that a user runs again after a revert, would apply outdated changes.
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

        // A later commit that does not change the directory.
        world.is(Facts {
            changed: "",
            ..reverted
        });
        world.run(&APPLY).expect(0);
        assert!(world.folder.read("cluster.json").contains("10.20.0.0/24"));
        let told = world.comments();
        assert!(told[1].contains("applied as reviewed"), "{told:?}");

        // Again, after the revert: the comment keeps the result of the earlier job.
        world.is(reverted);
        world.run(&APPLY).expect(4);
        assert_eq!(world.comments(), told);
        let other = world.run(&["apply", "net", "--reviewed"]).expect(1);
        assert!(other.stderr.contains("`net` cannot be read"), "{other:?}");
        world.folder.write("absent/a.yaml", "");
        let other = world.run(&["apply", "absent", "--reviewed"]).expect(1);
        assert!(other.stderr.contains("has no `absent`"), "{other:?}");
    }
}

/// Another directory of the same name at the top says nothing.
#[test]
fn a_job_in_a_folder_of_the_clone_compares_the_files_that_it_reads() {
    for forge in [Forge::GitHub, Forge::GitLab] {
        let world = World::new(forge);
        let pool = world.folder.read("pools/a.yaml");
        world.folder.write("net/pools/a.yaml", pool);
        world.run_in("net", &COMMENT).expect(0);
        let moved = |changed: &'static str| Facts {
            last: LATER,
            changed,
            branch: "release/1",
            target: "release/1",
            ..FACTS
        };
        world.is(moved("net/pools"));
        let refused = world.run_in("net", &APPLY).expect(4);
        let expected = "outdated: branch release/1 has others in pools";
        assert!(refused.stderr.contains(expected), "{refused:?}");
        world.is(moved("pools"));
        world.run_in("net", &APPLY).expect(0);
        assert!(world.folder.read("cluster.json").contains("10.20.0.0/24"));
    }
}

#[cfg(unix)]
#[test]
fn a_link_is_compared_by_its_target_and_a_file_by_itself() {
    let world = World::new(Forge::GitHub);
    std::os::unix::fs::symlink("pools", world.folder.join("net")).unwrap();
    world
        .run(&["comment", "net", "--pull-request", "7"])
        .expect(0);
    world.is(Facts {
        last: LATER,
        ..FACTS
    });
    let apply = ["apply", "net", "--reviewed"];
    let refused = world.run(&apply).expect(4);
    assert!(refused.stderr.contains("outdated"), "{refused:?}");
    // The link leads elsewhere by now, and its old target is as it was.
    world.is(Facts {
        last: LATER,
        changed: "net",
        ..FACTS
    });
    let refused = world.run(&apply).expect(4);
    assert!(refused.stderr.contains("outdated"), "{refused:?}");
    assert!(!world.folder.read("cluster.json").contains("podCIDR\""));
    world.folder.write("document-007", "");
    let file = world
        .run(&["apply", "document-007", "--reviewed"])
        .expect(1);
    assert!(!file.stderr.contains("has no `"), "{file:?}");
    let outside = Folder::new(&[("pools/a.yaml", "")]);
    let outside = outside.join("pools");
    let words = ["apply", outside.to_str().unwrap(), "--reviewed"];
    let refused = world.run(&words).expect(1);
    assert!(refused.stderr.contains("not in a clone"), "{refused:?}");
    std::fs::remove_dir(world.folder.join(".git")).unwrap();
    let refused = world.run(&APPLY).expect(1);
    assert!(
        refused.stderr.contains("no folder above it has a `.git`"),
        "{refused:?}"
    );
}

#[test]
fn a_revision_of_another_commit_is_not_what_was_merged() {
    let world = World::new(Forge::GitHub);
    let folder = world.folder.path();
    git(folder, &["init", "-q"]);
    git(folder, &["add", "pools"]);
    git(folder, &["commit", "-q", "-m", "Add a pool"]);
    world.run(&COMMENT).expect(0);
    let refused = world
        .run(&[&APPLY[..], &["--revision", "HEAD"]].concat())
        .expect(1);
    let expected = format!("and the merge made commit {COMMIT}");
    assert!(refused.stderr.contains(&expected), "{refused:?}");
}

#[test]
fn the_outcome_is_the_newest_until_the_plan_is_applied() {
    let world = World::new(Forge::GitHub);
    world.run(&APPLY).expect(4);
    assert!(world.comments()[0].contains("has no comment of ours"));
    let reverted = Facts {
        last: LATER,
        ..FACTS
    };
    world.is(reverted);
    world.run(&APPLY).expect(4);
    assert!(world.comments()[0].contains("are outdated"));
    world.is(FACTS);
    world.run(&COMMENT).expect(0);
    world.run(&APPLY).expect(0);
    let told = world.comments();
    assert!(told[0].contains("applied as reviewed"), "{told:?}");
    // Refused for another plan, and not for other files.
    world.has_more_nodes(&["n2"]);
    world.run(&APPLY).expect(4);
    assert_eq!(world.comments(), told);
}

#[test]
fn a_comment_that_the_reviewers_cannot_have_seen_approves_nothing() {
    for (facts, expected) in [
        (
            Facts {
                commented: AFTER,
                ..FACTS
            },
            "was posted after pull request 7 was merged",
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

/// A job of the same account replaces the digest after the review, or adds a comment of its own.
#[test]
fn a_comment_of_ours_that_another_job_wrote_approves_nothing() {
    for forge in [Forge::GitHub, Forge::GitLab] {
        let world = World::new(forge);
        world.run(&COMMENT).expect(0);
        let reviewed = world.comments().remove(0);
        world.has_nodes(&["n1", "n2"]);
        world.run(&COMMENT).expect(0);
        let unreviewed = world.comments().remove(0);
        assert_ne!(digest(&reviewed), digest(&unreviewed));

        let world = World::new(forge);
        world.run(&COMMENT).expect(0);
        world.has_nodes(&["n1", "n2"]);
        let swapped = |text: &str| text.replace(digest(&reviewed), digest(&unreviewed));
        world.edit(1, swapped);
        let refused = world.run(&APPLY).expect(4);
        let expected = "in pull request 7 was edited after it was posted";
        assert!(refused.stderr.contains(expected), "{refused:?}");
        world.edit(1, |_| "hidden".to_owned());
        world.post(swapped(&reviewed));
        world.post(reviewed.clone());
        let refused = world.run(&APPLY).expect(4);
        let expected = "has 2 comments of ours for this directory";
        assert!(refused.stderr.contains(expected), "{refused:?}");
        assert!(!world.folder.read("cluster.json").contains("podCIDR\""));

        // The job of the pull request shows the plan again.
        world.run(&COMMENT).expect(0);
        world.run(&APPLY).expect(0);
        assert!(world.folder.read("cluster.json").contains("10.20.1.0/24"));
    }
}

fn digest(comment: &str) -> &str {
    let line = comment.lines().nth(1).unwrap();
    line.split(' ').nth(3).unwrap()
}

#[test]
fn another_plan_is_a_new_comment_and_the_same_one_leaves_it() {
    for forge in [Forge::GitHub, Forge::GitLab] {
        let world = World::new(forge);
        let first = world.run(&COMMENT).expect(0);
        assert_eq!(first.stderr, "Posted comment 1\n");
        let shown = world.comments();
        // The text has the time of a second.
        std::thread::sleep(std::time::Duration::from_millis(1100));
        let same = world.run(&COMMENT).expect(0);
        assert_eq!(same.stderr, "Already up to date: comment 1\n");
        assert_eq!(world.comments(), shown);

        world.has_nodes(&["n1", "n2"]);
        let other = world.run(&COMMENT).expect(0);
        assert_eq!(other.stderr, "Replaced the older comment by comment 2\n");
        assert_eq!(world.numbers(), [2]);
        world.edit(2, str::to_owned);
        let edited = world.run(&COMMENT).expect(0);
        assert_eq!(edited.stderr, "Replaced the older comment by comment 3\n");
        world.post(world.comments().remove(0));
        let doubled = world.run(&COMMENT).expect(0);
        assert_eq!(
            doubled.stderr,
            "Already up to date: comment 4\nDeleted older doubles: 1\n"
        );
        assert_eq!(world.numbers(), [4]);
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
        "The selected part of the cluster matches the files; no issue is open\nNo changes to 1 selected node. 1 change is not in this plan.\n"
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
        let [(_, issue)] = &issues.iter().collect::<Vec<_>>()[..] else {
            panic!("{issues:?}")
        };
        assert_eq!(issue.state, "closed");
        assert!(
            issue
                .body
                .contains("The cluster matches the files in `pools`. No changes. ")
        );
        let none = world.run(&["drift", "pools"]).expect(0);
        assert_eq!(
            none.stderr,
            "The cluster matches the files; no issue is open\nNo changes. 1 node matches the files, 0 moved.\n"
        );
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
            .contains("1 node gets a block")
    );
    assert!(world.issues.lock().unwrap().is_empty());
    let by_hand = world.run(&["apply", "pools", "--reviewed", "--merge-commit", "main"]);
    let by_hand: Value = json!(by_hand.expect(1).stderr);
    assert!(
        by_hand.as_str().unwrap().contains("is not a commit"),
        "{by_hand}"
    );
}

/// Windows that never open again, that open next year, and that open within seconds.
#[test]
fn an_apply_in_windows_writes_only_while_one_is_open() {
    let world = World::new(Forge::GitHub);
    let policy = |window: &str| {
        let spec = format!("{{migration: {{windows: [{window}]}}}}");
        let head = "apiVersion: cilium-ipam.io/v1alpha1\nkind: IPAMPolicy\nmetadata: {name: p}";
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
    policy("{schedule: \"0 0 1 1 *\", duration: 1m}");
    let refused = reviewed(refuse).expect(4);
    assert!(
        refused.stderr.contains("the next one opens at 20"),
        "{refused:?}"
    );
    assert!(!world.folder.read("cluster.json").contains("podCIDR\""));

    // It opens in five seconds, and for long enough that a busy machine does not miss it.
    let opens = jiff::Timestamp::now().as_second() + 5;
    let (second, minute) = (opens % 60, opens / 60 % 60);
    policy(&format!(
        "{{schedule: \"{second} {minute} * * * *\", duration: 1m}}"
    ));
    world.run(&COMMENT).expect(0);
    reviewed(wait).expect(0);
    assert!(world.folder.read("cluster.json").contains("10.20.0.0/24"));
    // Nothing is left to do, so no window is needed.
    policy("{schedule: \"0 0 1 1 *\", duration: 1m}");
    reviewed(refuse).expect(0);
    reviewed(wait).expect(0);
    // What will not be applied does not wait.
    world.has_more_nodes(&["n2"]);
    let refused = reviewed(wait).expect(4);
    assert!(refused.stderr.contains("have changed since"), "{refused:?}");
}
