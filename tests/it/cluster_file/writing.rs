//! What an apply writes into the file, and what it leaves as it is.

use serde_json::Value;

use super::{POOL, folder};
use crate::support::{Folder, KUBERNETES, TextAssertions, args, holds, node, pool};

#[test]
fn what_is_not_written_stays_byte_for_byte() {
    let folder = folder(
        "1.19.3",
        KUBERNETES,
        &[node("n1", "a", &holds("10.20.7.0/24")), node("n2", "a", "")],
        &[pool("a", POOL)],
    );
    let before = folder.read("cluster.json");
    folder.expect("apply --cluster cluster.json --auto-approve", 0);
    let after = folder.read("cluster.json");
    let lines: Vec<&str> = before
        .lines()
        .filter(|line| !line.contains("\"n2\""))
        .collect();
    assert!(lines.iter().all(|line| after.contains(line)), "{after}");
    let list: Value = serde_json::from_str(&after).unwrap();
    let n2 = &list["items"][5];
    assert_eq!(
        n2["spec"],
        serde_json::json!({"podCIDR": "10.20.0.0/24", "podCIDRs": ["10.20.0.0/24"]})
    );
    assert_eq!(n2["metadata"]["resourceVersion"], "9");
}

#[test]
fn nobody_is_asked_without_a_terminal() {
    let folder = folder(
        "1.19.3",
        KUBERNETES,
        &[node("n", "a", "")],
        &[pool("a", POOL)],
    );
    let before = folder.read("cluster.json");
    let ran = folder.expect("apply --cluster cluster.json", 1);
    ran.stderr.assert_has("--auto-approve");
    assert_eq!(folder.read("cluster.json"), before);
}

#[test]
fn a_snapshot_of_a_file_plans_the_same() {
    let secret = r#"{"apiVersion":"v1","kind":"Secret","metadata":{"name":"s"},"data":{"password":"aHVudGVyMg=="}}"#;
    let folder = folder(
        "1.19.3",
        &format!(r#"{KUBERNETES},"password":"hunter2""#),
        &[secret.into(), node("n", "a", "")],
        &[pool("a", POOL)],
    );
    folder.expect("snapshot --cluster cluster.json --out snapshot.json", 0);
    assert!(
        !folder.read("snapshot.json").contains("hunter2")
            && !folder.read("snapshot.json").contains("aHVudGVyMg")
    );
    let of_snapshot = folder.expect("plan --cluster snapshot.json -o json", 0);
    assert_eq!(
        of_snapshot.stdout,
        folder
            .expect("plan --cluster cluster.json -o json", 0)
            .stdout
    );
}

#[test]
fn a_file_that_cannot_be_saved_has_nothing_applied() {
    use std::os::unix::fs::PermissionsExt;
    let folder = folder(
        "1.19.3",
        KUBERNETES,
        &[node("n", "a", "")],
        &[pool("a", POOL)],
    );
    folder.write("locked/cluster.json", folder.read("cluster.json"));
    let allow = |mode| {
        std::fs::set_permissions(folder.join("locked"), std::fs::Permissions::from_mode(mode))
            .unwrap()
    };
    allow(0o555);
    let unwritable = std::fs::write(folder.join("locked/probe"), "").is_err();
    let ran = folder.run(&args(
        "apply --cluster locked/cluster.json --auto-approve -o json",
    ));
    allow(0o755);
    // The administrator may write anywhere; there is nothing to see then.
    if unwritable {
        let report = ran.expect(8).json();
        assert_eq!(report["applied"], serde_json::json!([]));
        assert!(
            report["not_applied"][0]["why"]
                .as_str()
                .unwrap()
                .contains("not saved")
        );
    }
}

#[test]
fn a_faulty_command_line_is_a_failure_of_its_own() {
    let folder = Folder::new(&[]);
    let _ = folder.expect("plan --bogus", 1);
    let _ = folder.expect("--help", 0);
}
