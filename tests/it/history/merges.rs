//! Who made a change that a merge brought, and when it came into the branch.

use super::POOL;
use super::repo::{Repo, asked};
use crate::support::{KUBERNETES, cluster, holds, node, pin, pool};

fn begun() -> Repo {
    let mut repo = Repo::new();
    repo.write("pools/a.yaml", pool("rack-a", POOL));
    repo.commit("Ada", "Begin");
    repo
}

/// A merged pin, a snapshot that shows it, and a file that cannot be read.
pub fn merged() -> Repo {
    let mut repo = begun();
    repo.git(&["checkout", "--quiet", "-b", "pin"]);
    repo.write("pools/pins.yaml", pin("worker-7", "10.20.7.0/24"));
    repo.commit("Bob", "Pin worker-7");
    repo.git(&["checkout", "--quiet", "main"]);
    repo.merge("Carl", "pin", "Merge pull request #12 from bob/pin");
    let nodes = [node("worker-7", "a", &holds("10.20.7.0/24"))];
    repo.write("cluster.json", cluster("1.19.3", KUBERNETES, &nodes));
    repo.write("pools/bad.yaml", "kind: [");
    repo.commit("CI", "Snapshot");
    repo
}

#[test]
fn the_author_is_that_of_the_merged_commit_and_the_time_that_of_the_merge() {
    let mut repo = begun();
    repo.git(&["checkout", "--quiet", "-b", "pin"]);
    repo.write("pools/pins.yaml", pin("worker-7", "10.20.7.0/24"));
    repo.commit("Bob", "Pin worker-7");
    repo.write(
        "pools/pins.yaml",
        format!("# why\n{}", pin("worker-7", "10.20.7.0/24")),
    );
    repo.commit("Eve", "Say why");
    repo.git(&["checkout", "--quiet", "main"]);
    repo.write("README", "x");
    repo.commit("Ada", "Meanwhile");
    let merge = repo.merge(
        "Carl",
        "pin",
        "Merge pull request #12 from bob/pin\n\nPin worker-7",
    );
    let history = repo.history(&["worker-7"]);
    assert_eq!(
        asked(&history),
        [
            "NodeAssignment/worker-7 spec.podCIDRs 10.20.7.0/24: Pin worker-7 by Bob at pools/pins.yaml:5 until now"
        ]
    );
    let from = &history["asked"][0]["from"];
    assert_eq!(from["pull_request"], "#12");
    assert_eq!(from["merge"]["id"], merge.as_str());
    assert_eq!(from["merge"]["author"], "Carl");
    // Before the merge, the branch did not have it.
    assert_eq!(
        asked(&repo.history(&["worker-7", "--until", "2026-03-05"])).len(),
        0
    );
    assert_eq!(
        asked(&repo.history(&["worker-7", "--until", "2026-03-06"])).len(),
        1
    );
}

#[test]
fn a_merge_that_removes_a_pin_has_the_author_of_the_removal() {
    let mut repo = begun();
    repo.write("pools/pins.yaml", pin("worker-7", "10.20.7.0/24"));
    repo.commit("Ada", "Pin worker-7 (#3)");
    repo.git(&["checkout", "--quiet", "-b", "unpin"]);
    repo.git(&["rm", "--quiet", "pools/pins.yaml"]);
    repo.commit("Bob", "Remove the pin");
    repo.git(&["checkout", "--quiet", "main"]);
    repo.merge(
        "Carl",
        "unpin",
        "Merge branch 'unpin' into 'main'\n\nSee merge request net/pools!9",
    );
    let until = &repo.history(&["worker-7"])["asked"][0]["until"];
    assert_eq!(until["commit"]["author"], "Bob");
    assert_eq!(until["pull_request"], "net/pools!9");
    assert_eq!(until["merge"]["author"], "Carl");
}

#[test]
fn a_change_of_the_merge_itself_is_the_merges_own() {
    let mut repo = begun();
    repo.git(&["checkout", "--quiet", "-b", "other"]);
    repo.write(
        "pools/b.yaml",
        pool("rack-b", "{cidrs: [10.30.0.0/16], blockSize: 24}"),
    );
    repo.commit("Bob", "Add a pool");
    repo.git(&["checkout", "--quiet", "main"]);
    repo.git(&["merge", "--quiet", "--no-ff", "--no-commit", "other"]);
    repo.write("pools/pins.yaml", pin("worker-7", "10.20.7.0/24"));
    repo.commit("Carl", "Merge other");
    let from = &repo.history(&["worker-7"])["asked"][0]["from"];
    assert_eq!(from["commit"]["author"], "Carl");
    assert!(from["merge"].is_null(), "{from:#}");
}

#[test]
fn rebased_and_squashed_commits_are_steps_of_their_own() {
    let mut repo = begun();
    repo.git(&["checkout", "--quiet", "-b", "pins"]);
    repo.write("pools/one.yaml", pin("worker-1", "10.20.1.0/24"));
    repo.commit("Bob", "Pin worker-1");
    repo.git(&["checkout", "--quiet", "main"]);
    repo.write("README", "x");
    repo.commit("Ada", "Meanwhile");
    repo.git(&["checkout", "--quiet", "pins"]);
    repo.git(&["rebase", "--quiet", "main"]);
    repo.git(&["checkout", "--quiet", "main"]);
    repo.git(&["merge", "--quiet", "--ff-only", "pins"]);
    repo.git(&["checkout", "--quiet", "-b", "more"]);
    repo.write("pools/two.yaml", pin("worker-2", "10.20.2.0/24"));
    repo.commit("Eve", "wip");
    repo.git(&["checkout", "--quiet", "main"]);
    repo.git(&["merge", "--quiet", "--squash", "more"]);
    repo.commit("Eve", "Pin worker-2 (#21)");
    let history = repo.history(&["10.20.1.0/23"]);
    let pins = asked(&history);
    assert_eq!(
        pins,
        [
            "IPPool/rack-a spec.cidrs 10.20.0.0/16: Begin by Ada at pools/a.yaml:4 until now",
            "NodeAssignment/worker-1 spec.podCIDRs 10.20.1.0/24: Pin worker-1 by Bob at pools/one.yaml:4 until now",
        ]
    );
    // The author wrote it on the second day, and the rebase committed it on the third.
    assert_eq!(
        history["asked"][1]["from"]["commit"]["time"],
        "2026-03-03T12:00:00Z"
    );
    let squashed = &repo.history(&["worker-2"])["asked"][0]["from"];
    assert_eq!(squashed["pull_request"], "#21");
    assert!(squashed["merge"].is_null());
}
