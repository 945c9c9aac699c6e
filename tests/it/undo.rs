//! Undo plans: what they undo, what they report about changes that cannot be undone, and when they
//! are stale.

use rustix::pty::{OpenptFlags, ioctl_tiocgptpeer, openpt, unlockpt};
use serde_json::{Value, json};

use super::safety_arguments::{dual_stack, running};
use super::support::{Folder, Ran, TextAssertions, args, node, program, ran};

const KEYS: [&str; 2] = [
    "network.cilium.io/ipv6-pod-cidr",
    "io.cilium.network.ipv6-pod-cidr",
];

/// Two nodes with IPv4; an apply gave both an IPv6 block and left `undo.json`.
pub(super) fn applied() -> Folder {
    let folder = dual_stack(&running(&[("n1", "a"), ("n2", "b")]), "{quarantine: 1h}");
    let words = args("apply --cluster cluster.json --auto-approve --waive disruptive-percent");
    folder
        .run(&[&words[..], &["--undo-out", "undo.json"]].concat())
        .expect(0);
    folder
}

fn annotations(folder: &Folder, name: &str) -> Value {
    let list: Value = serde_json::from_str(&folder.read("cluster.json")).unwrap();
    let node = list["items"]
        .as_array()
        .unwrap()
        .iter()
        .find(|item| item["metadata"]["name"] == name)
        .unwrap();
    node["metadata"]["annotations"].clone()
}

fn undo(folder: &Folder, code: i32) -> String {
    let ran = folder.expect(
        "apply undo.json --auto-approve --cluster cluster.json --undo-out redo.json",
        code,
    );
    ran.stdout + &ran.stderr
}

#[test]
fn what_was_written_is_taken_back_and_can_be_done_again() {
    let folder = applied();
    assert_eq!(annotations(&folder, "n1")[KEYS[0]], "fd00:20::/64");
    let plan: Value = serde_json::from_str(&folder.read("undo.json")).unwrap();
    assert_eq!(
        (&plan["intent"], &plan["summary"]["release"]),
        (&json!("undo"), &json!(2))
    );
    assert_eq!(
        plan["waivers"],
        json!(["release-percent"]),
        "what it needs is named"
    );
    assert_eq!(plan["changes"][0]["hazard"], "destructive");
    undo(&folder, 0);
    assert_eq!(
        annotations(&folder, "n1")
            .as_object()
            .map_or(0, serde_json::Map::len),
        0
    );
    assert!(
        undo(&folder, 0).contains("done already: 2 changes"),
        "it is not stale, it is done"
    );
    // The blocks rest, and the nodes that had them get them back.
    assert!(
        folder
            .read("cluster.json")
            .contains(r#"\"quarantined\":[{\"block\":\"fd00:20::/64\",\"node\":\"n1\""#)
    );
    let protected = folder.expect(
        "apply redo.json --auto-approve --cluster cluster.json --protect-node n1",
        5,
    );
    protected
        .stderr
        .assert_has("node `n1` would need a restart");
    folder.expect("apply redo.json --auto-approve --cluster cluster.json", 0);
    assert_eq!(annotations(&folder, "n2")[KEYS[1]], "fd00:20:0:1::/64");
}

#[test]
fn freed_blocks_rest() {
    let folder = applied();
    undo(&folder, 0);
    let list = folder.read("cluster.json");
    let with_newcomer = list.replacen(
        "\"items\":[",
        &format!("\"items\":[{},", node("n0", "a", "")),
        1,
    );
    folder.write("cluster.json", with_newcomer);
    let plan = folder.run(&args(
        "plan --cluster cluster.json -o json --waive disruptive-percent",
    ));
    let plan = plan.expect(0).json();
    let blocks: Vec<&str> = plan["changes"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|change| change["after"][0].as_str())
        .collect();
    assert!(
        blocks.contains(&"fd00:20::/64") && blocks.contains(&"fd00:20:0:1::/64"),
        "{blocks:?}"
    );
    let newcomer = plan["changes"]
        .as_array()
        .unwrap()
        .iter()
        .find(|change| change["name"] == "n0")
        .unwrap();
    assert_eq!(
        newcomer["after"],
        json!(["10.20.2.0/24", "fd00:20:0:2::/64"])
    );
}

#[test]
fn what_changed_meanwhile_makes_it_stale() {
    let folder = applied();
    let other = folder
        .read("cluster.json")
        .replace("fd00:20::/64", "fd00:20:0:77::/64");
    folder.write("cluster.json", other);
    assert!(
        undo(&folder, 4)
            .contains("Node/n1: saved to get no block, but it shows something else by now")
    );
    assert_eq!(
        annotations(&folder, "n2")[KEYS[0]],
        "fd00:20:0:1::/64",
        "nothing may be written"
    );
}

/// Undo files in the folder, and those with default names.
fn undo_files(folder: &Folder) -> Vec<String> {
    let places = [folder.path().to_owned(), folder.join(".cilium-ipam/undo")];
    let entries = places.map(std::fs::read_dir).into_iter().flatten();
    let names = entries.flatten().flatten();
    names
        .map(|entry| entry.file_name().into_string().unwrap())
        .filter(|name| name.starts_with("undo"))
        .collect()
}

#[test]
fn where_nothing_can_be_taken_back_no_undo_plan_is_left() {
    let folder = dual_stack(&[node("n", "a", "")], "");
    let plan = folder.expect("plan --cluster cluster.json", 0).stdout;
    plan.assert_has("1 change cannot be undone: spec.podCIDRs is write-once");
    let said = folder
        .expect("apply --cluster cluster.json --auto-approve", 0)
        .stdout;
    said.assert_has("No undo plan: 1 change cannot be taken back.");
    said.assert_has("by hand: drain the node and re-create its Node object");
    assert_eq!(undo_files(&folder), [""; 0]);
    let again = folder.json("apply --cluster cluster.json --auto-approve -o json");
    assert_eq!(again["undo"], Value::Null, "nothing was done");
}

#[test]
fn what_cannot_be_taken_back_is_in_the_undo_plan_of_the_rest() {
    let folder = dual_stack(
        &[running(&[("n1", "a")]), vec![node("n2", "a", "")]].concat(),
        "",
    );
    let words = args("apply --cluster cluster.json --auto-approve --waive disruptive-percent");
    let said = folder
        .run(&[&words[..], &["--undo-out", "undo.json"]].concat())
        .expect(0)
        .stdout;
    said.assert_has("Undo plan, takes back 1 of 2 changes: undo.json");
    let plan: Value = serde_json::from_str(&folder.read("undo.json")).unwrap();
    assert!(
        plan["blocked"][0]["unblock"]
            .as_str()
            .unwrap()
            .contains("re-create its Node object")
    );
    let told = undo(&folder, 0);
    told.assert_has("! n2\n");
    told.assert_has("it keeps 10.20.1.0/24");
}

#[test]
fn plans_and_undo_plans_are_for_their_owner_alone() {
    use std::os::unix::fs::PermissionsExt;
    let folder = applied();
    let mode = |file: &str| {
        std::fs::metadata(folder.join(file))
            .unwrap()
            .permissions()
            .mode()
            & 0o777
    };
    folder.write("plan.json", "an older plan");
    std::fs::set_permissions(folder.join("plan.json"), PermissionsExt::from_mode(0o644)).unwrap();
    folder.expect("plan --cluster cluster.json --out plan.json", 0);
    assert_eq!((mode("undo.json"), mode("plan.json")), (0o600, 0o600));
}

/// Runs with a terminal as stdin and this typed text.
fn at_a_terminal(folder: &Folder, arguments: &[&str], typed: &str) -> Ran {
    use std::io::Write;
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY;
    let terminal = openpt(flags).unwrap();
    unlockpt(&terminal).unwrap();
    let mut program = program(folder.path(), arguments);
    program.stdin(ioctl_tiocgptpeer(&terminal, flags).unwrap());
    let mut keyboard = std::fs::File::from(terminal);
    keyboard.write_all(typed.as_bytes()).unwrap();
    ran(program.output().unwrap())
}

#[test]
fn an_undo_plan_is_shown_and_asked_about() {
    let folder = applied();
    let before = folder.read("cluster.json");
    let words = args("apply undo.json --cluster cluster.json --undo-out redo.json");
    let refused = folder.run(&words).expect(1).stderr;
    refused.assert_has("stdin is not a terminal");
    refused.assert_has("pass --auto-approve");
    assert!(
        folder
            .run(&[&words[..], &["--no-input"]].concat())
            .expect(1)
            .stderr
            .contains("--no-input is set")
    );
    for other in ["y\n", "\n", "no\n"] {
        let said = at_a_terminal(&folder, &words, other).expect(1).stderr;
        said.assert_has("undo plan undo.json");
        said.assert_has("Undo: 2 to release.");
        said.assert_has("2 to release");
        said.assert_lacks("unchanged");
        said.assert_has("Take these changes back?");
        said.assert_has("not approved");
    }
    assert_eq!(folder.read("cluster.json"), before);
    assert_eq!(
        undo_files(&folder),
        ["undo.json"],
        "nothing is to be redone"
    );
    at_a_terminal(&folder, &words, "yes\n").expect(0);
    assert_eq!(
        annotations(&folder, "n1")
            .as_object()
            .map_or(0, serde_json::Map::len),
        0
    );
    // One that is done already needs no answer.
    let done = folder.run(&words[..4]).expect(0).stderr;
    done.assert_has("Undo: nothing to take back.");
    done.assert_lacks(" the files, ");
}

#[test]
fn whose_digest_is_named_is_not_asked_about() {
    let folder = applied();
    let digest =
        serde_json::from_str::<Value>(&folder.read("undo.json")).unwrap()["digest"].clone();
    let words = args("apply undo.json --cluster cluster.json --expect-digest");
    folder
        .run(&[&words[..], &["0123456789abcdef0123456789abcdef"]].concat())
        .expect(4);
    let said = folder
        .run(&[&words[..], &[digest.as_str().unwrap()]].concat())
        .expect(0)
        .stderr;
    assert!(
        said.contains(&format!("digest {}", &digest.as_str().unwrap()[..16])),
        "it is the one that is shown: {said}"
    );
}

#[test]
fn a_plan_file_is_shown_without_a_cluster() {
    let folder = applied();
    let digest =
        serde_json::from_str::<Value>(&folder.read("undo.json")).unwrap()["digest"].clone();
    let shown = folder.expect("show undo.json", 0).stdout;
    assert!(
        shown
            .starts_with("undo plan undo.json\n  directory  pools\n  waivers    release-percent\n"),
        "{shown}"
    );
    assert!(
        shown.contains("- n1  fd00:20::/64 -> none") && shown.contains(digest.as_str().unwrap()),
        "{shown}"
    );
    assert_eq!(folder.expect("show plan undo.json", 0).stdout, shown);
    let json = folder.json("show undo.json -o json");
    assert_eq!(
        json,
        serde_json::from_str::<Value>(&folder.read("undo.json")).unwrap()
    );
    assert!(
        folder
            .expect("show plan -o markdown undo.json", 0)
            .stdout
            .contains("2 to release")
    );
    folder.write(
        "edited.json",
        folder
            .read("undo.json")
            .replace("fd00:20::/64", "fd00:20:0:9::/64"),
    );
    assert!(
        folder
            .expect("show edited.json", 1)
            .stderr
            .contains("do not match its digest")
    );
    assert!(
        folder
            .expect("show podes", 1)
            .stderr
            .contains("`show pools`")
    );
}

#[test]
fn what_stands_in_an_undo_plan_is_not_trusted() {
    let folder = applied();
    let plan = folder.read("undo.json");
    folder.write(
        "undo.json",
        plan.replace("fd00:20::/64", "fd00:20:0:9::/64"),
    );
    assert!(undo(&folder, 1).contains("do not match its digest"));
}

/// Changes a saved plan and its digest, as anyone who can write the file can.
pub fn forge(folder: &Folder, file: &str, change: impl Fn(&mut Value)) {
    let mut plan: Value = serde_json::from_str(&folder.read(file)).unwrap();
    change(&mut plan);
    plan["digest"] = ipam_plan::plan::PlanDocument::resealed(&plan.to_string())
        .unwrap()
        .digest
        .into();
    folder.write(file, plan.to_string());
}

#[test]
fn a_forged_undo_plan_moves_nothing_and_gives_nothing_that_no_pool_gives() {
    let folder = applied();
    let before = folder.read("cluster.json");
    forge(&folder, "undo.json", |plan| {
        plan["changes"][0]["edit"] = json!({"metadata.annotations": {KEYS[0]: "fd00:20:0:99::/64", KEYS[1]: "fd00:20:0:99::/64"}});
    });
    undo(&folder, 4);
    assert_eq!(folder.read("cluster.json"), before);

    let folder = applied();
    undo(&folder, 0);
    for (other, code) in [
        // The other node gets its block back.
        ("2001:db8::/64", 7),
        ("10.20.7.0/24", 4),
        ("fd00:20::/63", 4),
    ] {
        let redo = folder.read("redo.json");
        forge(&folder, "redo.json", |plan| {
            plan["changes"][0]["edit"] =
                json!({"metadata.annotations": {KEYS[0]: other, KEYS[1]: other}});
        });
        let ran = folder.expect(
            "apply redo.json --auto-approve --cluster cluster.json",
            code,
        );
        assert!(
            !folder.read("cluster.json").contains(other),
            "{other}: {}",
            ran.stderr
        );
        folder.write("redo.json", redo);
    }
}

#[test]
fn what_is_given_back_is_nobody_elses_by_now() {
    let folder = applied();
    undo(&folder, 0);
    folder.write(
        "pools/pin.yaml",
        super::support::pin("later", "fd00:20::/64"),
    );
    let stale = folder.expect("apply redo.json --auto-approve --cluster cluster.json", 7);
    let stale = stale.stdout;
    stale.assert_has("fd00:20::/64 cannot be given back");
}

#[test]
fn it_works_after_the_files_were_reverted_and_a_node_is_gone() {
    let folder = applied();
    folder.write(
        "pools/a.yaml",
        super::support::pool("a", "{cidrs: [10.20.0.0/16], blockSize: 24}"),
    );
    let list = folder
        .read("cluster.json")
        .replace(r#""uid": "uid-n2""#, r#""uid": "uid-of-its-successor""#);
    folder.write("cluster.json", list);
    assert!(undo(&folder, 0).contains("left out: 1 object, gone or re-created since"));
    assert_eq!(
        annotations(&folder, "n1")
            .as_object()
            .map_or(0, serde_json::Map::len),
        0
    );
    assert_eq!(
        annotations(&folder, "n2")[KEYS[0]],
        "fd00:20:0:1::/64",
        "another object is left alone"
    );
}

#[test]
fn no_file_is_overwritten() {
    let folder = applied();
    let same = args("apply undo.json --auto-approve --cluster cluster.json --undo-out undo.json");
    assert!(
        folder
            .run(&same)
            .expect(1)
            .stderr
            .contains("--undo-out must not replace `undo.json`: it is the file of the plan")
    );
}

#[test]
fn a_place_that_cannot_be_written_stops_before_the_first_write() {
    let folder = dual_stack(&running(&[("n1", "a")]), "");
    let before = folder.read("cluster.json");
    let words = args("apply --cluster cluster.json --auto-approve --undo-out missing/undo.json");
    assert!(
        folder
            .run(&words)
            .expect(1)
            .stderr
            .contains("the undo plan cannot be written")
    );
    assert_eq!(folder.read("cluster.json"), before);
}
