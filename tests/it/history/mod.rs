//! `history`, on real repositories.

mod applied;
mod hostile;
mod large;
mod merges;
mod recorded;
mod repo;

use repo::{Repo, asked};

use crate::git::git;
use crate::support::{TextAssertions, pin, pool};

const POOL: &str = "{cidrs: [10.20.0.0/16], blockSize: 24}";

/// A history with merges, recorded states and a gap.
pub fn document() -> serde_json::Value {
    merges::merged().history(&["worker-7"])
}

/// A pool, then a pin of worker-7, which is moved to another file, changed, and reverted.
fn pinned() -> Repo {
    let mut repo = Repo::new();
    repo.write("pools/a.yaml", pool("rack-a", POOL));
    repo.commit("Ada", "Begin");
    repo.write("pools/pins.yaml", pin("worker-7", "10.20.7.0/24"));
    repo.commit("Bob", "Pin worker-7 (#12)");
    repo.git(&["mv", "pools/pins.yaml", "pools/nodes.yaml"]);
    repo.commit("Eve", "Rename the file");
    repo.write("pools/nodes.yaml", pin("worker-7", "10.20.9.0/24"));
    repo.commit("Eve", "Move worker-7 (#13)");
    repo
}

#[test]
fn a_pin_has_the_commit_that_wrote_it_and_the_one_that_ended_it() {
    let repo = pinned();
    let history = repo.history(&["worker-7"]);
    assert_eq!(
        asked(&history),
        [
            "NodeAssignment/worker-7 spec.podCIDRs 10.20.7.0/24: Pin worker-7 (#12) by Bob at pools/pins.yaml:4 until Move worker-7 (#13)",
            "NodeAssignment/worker-7 spec.podCIDRs 10.20.9.0/24: Move worker-7 (#13) by Eve at pools/nodes.yaml:4 until now",
        ]
    );
    let first = &history["asked"][0];
    assert_eq!(first["from"]["pull_request"], "#12");
    assert_eq!(first["until"]["pull_request"], "#13");
    assert_eq!(first["until"]["file"], "pools/nodes.yaml", "where it was");
    assert_eq!(first["from"]["commit"]["time"], "2026-03-02T12:00:00Z");
}

#[test]
fn an_address_has_the_pool_that_covers_it_and_each_pin() {
    let history = pinned().history(&["10.20.7.3"]);
    assert_eq!(
        asked(&history),
        [
            "IPPool/rack-a spec.cidrs 10.20.0.0/16: Begin by Ada at pools/a.yaml:4 until now",
            "NodeAssignment/worker-7 spec.podCIDRs 10.20.7.0/24: Pin worker-7 (#12) by Bob at pools/pins.yaml:4 until Move worker-7 (#13)",
        ]
    );
    assert_eq!(history["asked"][0]["relation"], "contains");
}

#[test]
fn a_period_limits_what_is_shown() {
    let repo = pinned();
    for (arguments, count) in [
        (&["--since", "2026-03-05"][..], 1),
        (&["--since", "2026-03-04T12:00:00Z"], 2),
        (&["--until", "2026-03-03"], 1),
        (&["--until", "2026-03-01"], 0),
        (&["--since", "2026-03-03", "--until", "2026-03-04"], 1),
    ] {
        let history = repo.history(&[&["worker-7"], arguments].concat());
        assert_eq!(asked(&history).len(), count, "{arguments:?}");
    }
    repo.run(&["worker-7", "--since", "soon"]).expect(1);
}

#[test]
fn a_revert_ends_a_pin_and_brings_it_back() {
    let mut repo = pinned();
    repo.git(&["revert", "--no-commit", "HEAD"]);
    repo.commit("Ada", "Revert \"Move worker-7 (#13)\" (#14)");
    let history = repo.history(&["10.20.7.0/24"]);
    let pins = asked(&history);
    assert_eq!(pins.len(), 3, "{pins:#?}");
    assert!(pins[2].contains("(#14) by Ada at pools/nodes.yaml:4 until now"));
    assert_eq!(history["asked"][2]["from"]["pull_request"], "#14");
}

#[test]
fn services_pools_and_the_policy_are_found() {
    let mut repo = Repo::new();
    repo.write(
        "pools/lb.yaml",
        "apiVersion: cilium.io/v2\nkind: CiliumLoadBalancerIPPool\nmetadata: {name: edge}\nspec: {blocks: [{cidr: 20.0.10.0/24}]}\n---\n\
         apiVersion: cilium-ipam.io/v1alpha1\nkind: ServiceAssignment\nmetadata: {name: web}\nspec: {service: shop/web, ips: [20.0.10.9]}\n---\n\
         apiVersion: cilium-ipam.io/v1alpha1\nkind: IPAMPolicy\nmetadata: {name: p}\nspec: {excluded: [20.0.10.0/28], protected: {nodes: [n1]}}\n",
    );
    repo.commit("Ada", "Begin");
    let found = |subject: &str| -> Vec<String> {
        let found = asked(&repo.history(&[subject]));
        let word = |line: &String| line.split(" spec.").next().unwrap().to_owned();
        found.iter().map(word).collect()
    };
    assert_eq!(found("shop/web"), ["ServiceAssignment/shop/web"]);
    assert_eq!(
        found("20.0.10.9"),
        [
            "CiliumLoadBalancerIPPool/edge",
            "IPAMPolicy",
            "ServiceAssignment/shop/web"
        ]
    );
    assert_eq!(found("n1"), ["IPAMPolicy"]);
    assert_eq!(found("pool/edge"), ["CiliumLoadBalancerIPPool/edge"]);
    assert!(found("n2").is_empty() && found("192.0.2.1").is_empty());
}

#[test]
fn a_moved_directory_begins_where_it_begins() {
    let mut repo = pinned();
    repo.git(&["mv", "pools", "site"]);
    repo.commit("Eve", "Move the directory");
    let history = repo.history(&["worker-7", "site"]);
    assert_eq!(
        asked(&history),
        [
            "NodeAssignment/worker-7 spec.podCIDRs 10.20.9.0/24: Move the directory by Eve at site/nodes.yaml:4 until now"
        ]
    );
    assert_eq!(
        history["begins"]["moved_from"],
        serde_json::json!(["pools"])
    );
    let before = repo.history(&["worker-7", "pools"]);
    assert!(asked(&before)[1].ends_with("until Move the directory"));
    assert_eq!(before["begins"]["commit"]["subject"], "Begin");
}

#[test]
fn broken_yaml_in_between_is_told_and_ends_nothing() {
    let mut repo = Repo::new();
    let pinned = pin("worker-7", "10.20.7.0/24");
    repo.write("pools/pins.yaml", &pinned);
    repo.commit("Ada", "Pin");
    repo.write("pools/pins.yaml", format!("<<<<<<< HEAD\n{pinned}"));
    repo.commit("Bob", "Break it");
    repo.write("pools/pins.yaml", &pinned);
    repo.commit("Ada", "Repair it");
    let history = repo.history(&["worker-7"]);
    assert_eq!(
        asked(&history),
        [
            "NodeAssignment/worker-7 spec.podCIDRs 10.20.7.0/24: Pin by Ada at pools/pins.yaml:4 until now"
        ]
    );
    let unread = &history["unread"][0];
    assert_eq!(unread["file"], "pools/pins.yaml");
    assert_eq!(unread["from"]["subject"], "Break it");
    assert_eq!(unread["until"]["subject"], "Repair it");
}

#[test]
fn a_pin_whose_file_cannot_be_read_any_more_has_no_end() {
    let mut repo = Repo::new();
    repo.write("pools/pins.yaml", pin("worker-7", "10.20.7.0/24"));
    repo.commit("Ada", "Pin");
    repo.write("pools/pins.yaml", "kind: [\n");
    repo.commit("Bob", "Break it");
    repo.write("pools/other.yaml", pool("rack-a", POOL));
    repo.commit("Ada", "Add a pool");
    let ran = repo.run(&["worker-7"]).expect(0);
    ran.stdout.assert_has("until  an unknown time");
    let pinned = &repo.history(&["worker-7"])["asked"][0];
    assert!(pinned["until"].is_null());
    assert_eq!(pinned["unread_since"]["subject"], "Break it");
    std::fs::remove_file(repo.folder.join("pools/pins.yaml")).unwrap();
    repo.commit("Eve", "Remove it");
    let pinned = &repo.history(&["worker-7"])["asked"][0];
    assert_eq!(pinned["until"]["commit"]["author"], "Eve");
    assert_eq!(pinned["unread_since"]["subject"], "Break it");
}

#[test]
fn what_a_file_says_after_a_repair_may_be_older() {
    let mut repo = Repo::new();
    repo.write("pools/pins.yaml", "kind: [\n");
    repo.commit("Ada", "Break it");
    repo.write("pools/pins.yaml", pin("worker-7", "10.20.7.0/24"));
    repo.commit("Ada", "Repair it");
    let history = repo.history(&["worker-7"]);
    let why = history["asked"][0]["from"]["uncertain"].as_str().unwrap();
    assert!(
        why.starts_with("pools/pins.yaml could not be read since"),
        "{why}"
    );
}

#[test]
fn a_shallow_clone_says_where_it_begins() {
    let repo = pinned();
    let place = repo.folder.join("shallow");
    let from = format!("file://{}", repo.folder.path().display());
    let clone = [
        "clone",
        "--quiet",
        "--depth=2",
        &from,
        place.to_str().unwrap(),
    ];
    git(repo.folder.path(), &clone);
    let ran = crate::support::run(&place, &["history", "worker-7", "-o", "json"]).expect(0);
    let history = ran.json();
    let first = git(&place, &["rev-parse", "HEAD~1"]);
    assert_eq!(history["begins"]["shallow"]["commit"], first.as_str());
    assert!(
        history["asked"][0]["from"]["uncertain"]
            .as_str()
            .unwrap()
            .contains("shallow")
    );
    assert!(history["asked"][1]["from"]["uncertain"].is_null());
    let human = crate::support::run(&place, &["history", "worker-7"]).expect(0);
    human.stdout.assert_has("the clone is shallow");
}

#[test]
fn what_people_see() {
    insta::assert_snapshot!(pinned().run(&["worker-7"]).all());
}

#[test]
fn a_place_without_history_is_refused() {
    let repo = pinned();
    for (arguments, code) in [
        (&["worker-7", "nowhere"][..], "empty-directory"),
        (&["worker-7", "--revision", "nowhere"], "unknown-revision"),
        (&["worker-7", "--snapshot", "none.json"], "unknown-revision"),
        (&["worker-7", "/"], "no-repository"),
    ] {
        let ran = repo.run(arguments).expect(3);
        assert!(ran.stderr.contains(code), "{arguments:?}: {}", ran.stderr);
    }
}
