//! Output files: a symbolic link is replaced and never followed, and `--report-out` is checked before
//! the first write.

use std::os::unix::fs::symlink;

use super::support::{Folder, KUBERNETES, cluster, node, pool};

const POOL: &str = "{cidrs: [10.20.0.0/16], blockSize: 24}";

fn folder() -> Folder {
    let cluster = cluster("1.19.3", KUBERNETES, &[node("n", "a", "")]);
    Folder::new(&[
        ("cluster.json", &cluster),
        ("pools/a.yaml", &pool("a", POOL)),
    ])
}

/// In a folder such as `/tmp`, the link may belong to another user.
#[test]
fn a_link_in_the_place_of_an_output_is_replaced() {
    for words in [
        &["plan", "--out", "out.json"][..],
        &["snapshot", "--out", "out.json"],
        &["map", "--out", "out.svg"],
        &["apply", "--auto-approve", "--report-out", "out.json"],
    ] {
        let folder = folder();
        folder.write("theirs", "untouched");
        let name = words[words.len() - 1];
        symlink("theirs", folder.join(name)).unwrap();
        folder
            .run(&[words, &["--cluster", "cluster.json"]].concat())
            .expect(0);
        assert_eq!(folder.read("theirs"), "untouched", "{words:?}");
        let made = folder.join(name).symlink_metadata().unwrap();
        assert!(made.is_file(), "{words:?}");
    }
}

#[test]
fn a_report_that_cannot_be_written_stops_an_apply_before_its_first_write() {
    let folder = folder();
    let before = folder.read("cluster.json");
    for report in ["missing/report.json", "pools", "/dev/stdout"] {
        let words = ["apply", "--auto-approve", "--cluster", "cluster.json"];
        let refused = folder
            .run(&[&words[..], &["--report-out", report]].concat())
            .expect(1);
        let expected = format!("the report cannot be written to {report}");
        assert!(refused.stderr.contains(&expected), "{refused:?}");
        assert_eq!(folder.read("cluster.json"), before, "{report}");
        assert!(!refused.stderr.contains("undo plan"), "{refused:?}");
    }
}
