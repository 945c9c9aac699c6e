//! What a person meets who does not know the program yet: no files, slips of the keyboard, and more
//! output than wanted.

use super::support::{Folder, TextAssertions, node, pool};

fn folder() -> Folder {
    let pools = pool("rack-a", "{cidrs: [10.0.0.0/16], blockSize: 24}");
    Folder::with_cluster(&[node("worker-1", "a", "")], &[("pools/a.yaml", &pools)])
}

#[test]
fn without_a_directory_the_commands_that_write_one_are_named() {
    let folder = Folder::with_cluster(&[], &[]);
    for line in [
        "plan --cluster-file cluster.json",
        "apply --cluster-file cluster.json",
        "show pools --cluster-file cluster.json",
        "validate",
    ] {
        let told = folder.expect(line, 3).stderr;
        told.assert_has("`cilium-ipam import`");
        told.assert_has("`cilium-ipam init`");
    }
}

#[test]
fn a_subject_that_resembles_nothing_gets_no_suggestion() {
    let folder = folder();
    let told = |subject: &str| {
        let line = format!("explain {subject} --cluster-file cluster.json");
        folder.expect(&line, 1).stderr
    };
    told("foo").assert_lacks("did you mean");
    told("worker1").assert_has("did you mean `worker-1`?");
    told("rak-a").assert_has("did you mean `pool/rack-a`?");
    told("pool/rak-a").assert_has("did you mean `pool/rack-a`?");
}

#[test]
fn quiet_prints_results_and_no_progress() {
    let folder = folder();
    let line = "plan --cluster-file cluster.json --out plan.json";
    folder.expect(line, 0).stderr.assert_has("Saved.");
    let quiet = folder.expect(&format!("{line} -q"), 0);
    quiet.stderr.assert_lacks("Saved.");
    quiet.stdout.assert_has("worker-1");
    let applied = folder.expect("apply --auto-approve -q --cluster-file cluster.json", 0);
    applied.stdout.assert_has("Applied 1 change");
    folder.expect("plan -q -v", 1).stderr.assert_has("--quiet");
}
