//! Which files of a directory are read: extensions, links, names.

use super::{GOOD, folder};
use crate::support::pool;

#[test]
fn places_that_are_no_files() {
    let folder = folder();
    let rule = |arguments: &[&str]| {
        let ran = folder.run(&[arguments, &["-o", "json"]].concat()).expect(3);
        ran.json()["findings"][0]["rule"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    assert_eq!(rule(&["validate", "nowhere"]), "missing-directory");
    std::fs::create_dir(folder.join("empty")).unwrap();
    assert_eq!(rule(&["validate", "empty"]), "empty-directory");
    folder.write("latin/a.yaml", b"kind: IPP\xf6l\n");
    assert_eq!(rule(&["validate", "latin"]), "not-utf8");
    folder.write("latin/a.yaml", b"kind: IPPool\n# caf\xc3\xa9 \xe9\n");
    let report = folder.expect("validate latin -o json", 3).json();
    let origin = &report["findings"][0]["origin"];
    assert_eq!(
        (origin["line"].as_u64(), origin["column"].as_u64()),
        (Some(2), Some(8))
    );
    folder.write("large/a.yaml", vec![b'#'; 50 * 1024 * 1024]);
    assert_eq!(rule(&["validate", "large"]), "file-too-large");
    folder.write("outside.yaml", pool("a", GOOD));
    std::fs::create_dir(folder.join("linked")).unwrap();
    std::os::unix::fs::symlink(folder.join("outside.yaml"), folder.join("linked/a.yaml")).unwrap();
    assert_eq!(rule(&["validate", "linked"]), "link-outside");
    std::fs::create_dir(folder.join("dangling")).unwrap();
    std::os::unix::fs::symlink("gone.yaml", folder.join("dangling/a.yaml")).unwrap();
    assert_eq!(rule(&["validate", "dangling"]), "unreadable-file");
    folder.write("several/a.yaml", pool("a", GOOD));
    folder.write("several/notes.yaml", "kind: ConfigMap\n");
    folder.expect("validate several/a.yaml", 0);
    folder.write("several/deep/b.yml", pool("b", GOOD));
    assert_eq!(
        rule(&["validate", "several/a.yaml"]),
        "one-of-several-files"
    );
    folder.write("blank/a.yaml", "");
    folder.write("blank/b.yaml", "# nothing yet\n");
    assert_eq!(rule(&["validate", "blank"]), "empty-directory");
    std::fs::create_dir(folder.join("pipe")).unwrap();
    assert!(
        std::process::Command::new("mkfifo")
            .arg(folder.join("pipe/a.yaml"))
            .status()
            .unwrap()
            .success()
    );
    assert_eq!(rule(&["validate", "pipe"]), "unreadable-file");
}

#[test]
fn the_case_of_an_extension_does_not_matter() {
    let folder = folder();
    folder.write("pools/a.YAML", pool("a", GOOD));
    folder.write(
        "pools/b.Yml",
        pool("b", "{cidrs: [10.21.0.0/16], blockSize: 24, priority: 1}"),
    );
    assert_eq!(
        folder.expect("validate", 0).stdout,
        "valid: 2 pools, 0 pins, 0 warnings\n"
    );
}

#[test]
fn links_within_the_directory_are_followed_once() {
    let folder = folder();
    folder.write("pools/.data/a.yaml", pool("a", GOOD));
    std::os::unix::fs::symlink(".data/a.yaml", folder.join("pools/a.yaml")).unwrap();
    std::os::unix::fs::symlink(".", folder.join("pools/loop")).unwrap();
    assert_eq!(
        folder.expect("validate", 0).stdout,
        "valid: 1 pool, 0 pins, 0 warnings\n"
    );
}

/// Emacs locks `a.yaml` by a link `.#a.yaml`, others by names without a dot: no such link makes the
/// files around it invalid.
#[test]
fn a_link_to_nowhere_is_a_fault_only_where_it_should_be_yaml() {
    let folder = folder();
    folder.write("pools/a.yaml", pool("a", GOOD));
    std::os::unix::fs::symlink("me@host.4711", folder.join("pools/lock")).unwrap();
    let report = folder.json("validate -o json");
    assert_eq!(report["findings"][0]["rule"], "dangling-link");
    folder.expect("plan --cluster cluster.json", 0);
    std::fs::remove_file(folder.join("pools/a.yaml")).unwrap();
    let report = folder.expect("validate -o json", 3).json();
    assert!(
        report["findings"]
            .as_array()
            .unwrap()
            .iter()
            .any(|finding| finding["rule"] == "empty-directory")
    );
}

#[test]
fn hostile_names_do_not_reach_the_terminal() {
    let folder = folder();
    folder.write(
        "pools/a.yaml",
        pool("a", "{cidrs: [\"\\e[31mred\\u202e\"], blockSize: 24}"),
    );
    let ran = folder.expect("validate", 3);
    assert!(
        !ran.stderr.contains('\u{1b}') && !ran.stderr.contains('\u{202e}'),
        "{}",
        ran.stderr
    );
}
