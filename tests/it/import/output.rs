//! What `import` prints, and what it refuses.

use serde_json::json;

use super::{import, with};
use crate::support::{KUBERNETES, TextAssertions, holds, node};

#[test]
fn a_second_run_shows_the_difference_and_overwrites_nothing() {
    let items = [
        node("n1", "a", &holds("10.20.0.0/24")),
        node("n2", "a", &holds("10.20.1.0/24")),
    ];
    let folder = with(KUBERNETES, &items);
    import(&folder, &[]).expect(0);
    let equal = import(&folder, &[]).expect(0);
    equal.stdout.assert_has("nothing was written");
    let edited = folder
        .read("pools/ippools.yaml")
        .replace("10.20.0.0/23", "10.20.0.0/16");
    folder.write("pools/ippools.yaml", &edited);
    folder.write(
        "pools/more/own.yaml",
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\n",
    );
    std::fs::remove_file(folder.join("pools/policy.yaml")).unwrap();
    let ran = import(&folder, &[]).expect(1);
    for part in [
        "--- pools/ippools.yaml\n+++ pools/ippools.yaml (import)\n",
        "-  - 10.20.0.0/16\n+  - 10.20.0.0/23\n",
        "--- /dev/null\n+++ pools/policy.yaml (import)\n",
        "Only in the directory: pools/more/own.yaml\n",
    ] {
        assert!(ran.stdout.contains(part), "{part}: {}", ran.all());
    }
    ran.stderr
        .assert_has("pools differs from the cluster's import; nothing was written");
    assert_eq!(folder.read("pools/ippools.yaml"), edited);
    assert!(!folder.join("pools/policy.yaml").exists());
    let json = import(&folder, &["-o", "json"]).expect(1).json();
    assert!(
        json["difference"].as_str().unwrap().contains("own.yaml") && json["written"] == false,
        "{json:#}"
    );
}

#[test]
fn a_dry_run_and_json_show_the_files() {
    let items = [node("n1", "a", &holds("10.20.0.0/24"))];
    let folder = with(KUBERNETES, &items);
    let ran = import(&folder, &["--dry-run"]).expect(0);
    ran.stdout.assert_has("==> pools/ippools.yaml <==");
    ran.stdout.assert_has("- 10.20.0.0/24");
    let json = import(&folder, &["--dry-run", "-o", "json", "other"])
        .expect(0)
        .json();
    assert_eq!(
        (&json["written"], &json["directory"]),
        (&json!(false), &json!("other"))
    );
    assert!(!folder.join("pools").exists() && !folder.join("other").exists());
    let json = import(&folder, &["-o", "json"]).expect(0).json();
    assert_eq!(json["written"], true);
    for file in json["files"].as_array().unwrap() {
        assert_eq!(
            folder.read(file["path"].as_str().unwrap()),
            file["text"].as_str().unwrap()
        );
    }
    assert_eq!(json["plan"]["unchanged"], 1);
}

#[test]
fn clusters_that_cannot_be_imported() {
    let ran = import(&with(KUBERNETES, &[node("n1", "a", "")]), &[]).expect(1);
    ran.stderr
        .assert_has("no node has a block, and no setting names a range");
    let ran = import(&with(r#""ipam":"eni""#, &[node("n1", "a", "")]), &[]).expect(1);
    ran.stderr.assert_has("pools for nodes have no effect");
}

#[test]
fn a_directory_that_cannot_be_read_is_no_empty_one() {
    let folder = with(KUBERNETES, &[node("n1", "a", &holds("10.20.0.0/24"))]);
    folder.write("pools/policy.txt", "no YAML");
    std::fs::write(folder.join("pools/own.yaml"), b"kind: \xff\xfe").unwrap();
    let ran = import(&folder, &[]).expect(3);
    ran.stderr.assert_has("pools/own.yaml");
    assert!(!folder.join("pools/ippools.yaml").exists());
    // An empty directory is one to write into.
    std::fs::remove_file(folder.join("pools/own.yaml")).unwrap();
    import(&folder, &[]).expect(0);
}
