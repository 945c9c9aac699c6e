//! Output files: a symbolic link is replaced and never followed, no output takes the place of an
//! input, and `--report-out` is checked before the first write.

use std::os::unix::fs::symlink;

use super::safety_arguments::{dual_stack, running};
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
        &["map", "--out", "out.html"],
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
fn a_link_in_the_place_of_an_undo_plan_is_replaced() {
    let folder = dual_stack(&running(&[("n1", "a")]), "{quarantine: 1h}");
    folder.write("theirs", "untouched");
    for target in ["theirs", "missing"] {
        let _ = std::fs::remove_file(folder.join("undo.json"));
        symlink(target, folder.join("undo.json")).unwrap();
        let before = folder.read("cluster.json");
        let words = ["apply", "--auto-approve", "--waive", "disruptive-percent"];
        let more = ["--cluster", "cluster.json", "--undo-out", "undo.json"];
        folder.run(&[words, more].concat()).expect(0);
        assert_eq!(folder.read("theirs"), "untouched");
        assert!(!folder.join("missing").exists());
        let made = folder.join("undo.json").symlink_metadata().unwrap();
        assert!(made.is_file(), "{target}");
        folder.write("cluster.json", before);
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

/// An output that takes the place of an input destroys it, even if a link leads there.
#[test]
fn no_output_takes_the_place_of_an_input() {
    for words in [
        &["plan", "--out"][..],
        &["map", "--out"],
        &["snapshot", "--out"],
        &["apply", "--auto-approve", "--report-out"],
        &["apply", "--auto-approve", "--undo-out"],
        &["migrate", "plan", "--out"],
    ] {
        let folder = folder();
        std::fs::create_dir(folder.join("other")).unwrap();
        symlink("../pools", folder.join("other/pools")).unwrap();
        symlink("cluster.json", folder.join("link.json")).unwrap();
        symlink("pools/a.yaml", folder.join("link.yaml")).unwrap();
        folder.write("cluster.html", folder.read("cluster.json"));
        let (cluster, pool) = (folder.read("cluster.json"), folder.read("pools/a.yaml"));
        let of_cluster = match words[0] {
            "map" => &["cluster.html", "other/../cluster.html"][..],
            _ => &[
                "cluster.json",
                "./cluster.json",
                "other/../cluster.json",
                "link.json",
            ],
        };
        let of_pools = match words[0] {
            "map" | "snapshot" => &[][..],
            _ => &[
                "pools/a.yaml",
                "other/pools/a.yaml",
                "link.yaml",
                "pools/new.yml",
            ],
        };
        let file = of_cluster[0];
        for output in of_cluster.iter().chain(of_pools) {
            let more = [output, "--cluster-file", file];
            let refused = folder.run(&[words, &more].concat()).expect(1);
            let expected = format!("must not replace `{output}`: ");
            assert!(refused.stderr.contains(&expected), "{words:?} {refused:?}");
        }
        assert_eq!(folder.read("cluster.json"), cluster, "{words:?}");
        assert_eq!(folder.read("pools/a.yaml"), pool, "{words:?}");
    }
}

#[test]
fn no_output_takes_the_place_of_another_one_the_plan_or_the_kubeconfig() {
    let folder = folder();
    let on_file = ["--cluster-file", "cluster.json"];
    folder
        .run(&[&["plan", "--out", "plan.json"][..], &on_file].concat())
        .expect(0);
    let apply = ["apply", "--auto-approve", "--report-out"];
    for (words, expected) in [
        (&["o.json", "--undo-out", "./o.json"][..], "of --undo-out"),
        (
            &["plan.json", "--trust-plan-file", "plan.json"],
            "of the plan",
        ),
    ] {
        let refused = folder
            .run(&[&apply[..], words, &on_file].concat())
            .expect(1);
        assert!(refused.stderr.contains(expected), "{refused:?}");
    }
    folder.write("config", "untouched");
    for words in [
        &["plan", "--out", "config", "--kubeconfig", "./config"][..],
        &["snapshot", "--out", "./config", "--kubeconfig", "config"],
    ] {
        let refused = folder.run(words).expect(1);
        let expected = "it is the file of the kubeconfig";
        assert!(refused.stderr.contains(expected), "{refused:?}");
        assert_eq!(folder.read("config"), "untouched");
    }
}
