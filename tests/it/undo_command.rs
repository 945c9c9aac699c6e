//! `undo`: its list, and what it applies.

use super::safety_arguments::{dual_stack, running};
use super::support::{Folder, TextAssertions, args};

/// Two nodes with IPv4; an apply gave both an IPv6 block.
fn applied() -> Folder {
    let folder = dual_stack(&running(&[("n1", "a"), ("n2", "b")]), "{quarantine: 1h}");
    folder.expect(
        "apply --cluster-file cluster.json --auto-approve --waive disruptive-percent",
        0,
    );
    folder
}

#[test]
fn undo_plans_are_in_one_folder_that_git_ignores() {
    let folder = applied();
    assert_eq!(folder.read(".cilium-ipam/undo/.gitignore"), "*\n");
    let list = folder.expect("undo", 0);
    list.stdout.assert_has(".cilium-ipam/undo/undo-");
    list.stdout.assert_has("pools");
    list.stderr.assert_has("cilium-ipam undo last");
    let json = folder.json("undo -o json");
    assert_eq!(json["items"][0]["changes"], 2, "{json:#}");
    let quiet = folder.expect("undo --quiet", 0);
    assert_eq!(quiet.stderr, "");
}

#[test]
fn the_newest_undo_plan_is_applied_and_the_files_are_not_forgotten() {
    let folder = applied();
    let undone = folder.expect("undo last --auto-approve --cluster-file cluster.json", 0);
    undone.stdout.assert_has("Applied 2 changes");
    let last = undone.stderr.lines().last().unwrap();
    assert_eq!(
        last,
        "Now change the files in `pools`, too, or the next apply makes the same changes."
    );
    assert!(!folder.read("cluster.json").contains("ipv6-pod-cidr"));
    // The newest undo plan is now that of the undo.
    folder.expect("undo last --auto-approve --cluster-file cluster.json", 0);
    assert!(folder.read("cluster.json").contains("ipv6-pod-cidr"));
}

#[test]
fn an_undo_plan_is_found_by_its_name_and_by_its_path() {
    let folder = applied();
    let list = folder.json("undo -o json");
    let path = list["items"][0]["file"].as_str().unwrap();
    let name = path.rsplit('/').next().unwrap();
    folder.expect(
        &format!("undo {name} --auto-approve --cluster-file cluster.json"),
        0,
    );
    let again = folder.expect(
        &format!("apply {path} --auto-approve --cluster-file cluster.json"),
        0,
    );
    (again.stdout + &again.stderr).assert_has("done already");
}

#[test]
fn what_is_no_undo_plan_is_refused() {
    let folder = dual_stack(&running(&[("n1", "a")]), "{quarantine: 1h}");
    for other in ["undo-z.json", "undo-20260101T000000Z.0x.json"] {
        folder.write(&format!(".cilium-ipam/undo/{other}"), "{}");
    }
    let none = folder.expect("undo", 1).stderr;
    none.assert_has("there is no undo plan in .cilium-ipam/undo");
    folder.run(&args("plan --cluster-file cluster.json --out plan.json"));
    for other in ["pools", "plan.json"] {
        let refused = folder.expect(&format!("undo {other} --cluster-file cluster.json"), 1);
        refused.stderr.assert_has("is not an undo plan");
    }
}
