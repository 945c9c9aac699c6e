//! Text and objects from strangers, and repositories of other forms.

use super::repo::{Repo, asked};
use crate::git::git;
use crate::support::{Folder, TextAssertions, pin, run};

const NODE: &str = "worker-7";
const BLOCK: &str = "10.20.7.0/24";

#[test]
fn authors_messages_and_names_reach_no_terminal() {
    let mut repo = Repo::new();
    let evil = "\u{1b}]0;owned\u{7}\u{202e}::error::x\n::add-mask::y";
    repo.write("pools/\u{1b}[2J a\nb.yaml", pin(NODE, BLOCK));
    repo.commit(
        "E\u{1b}[31mve",
        &format!("{evil}\n\nSee merge request a\u{1b}[1m!7"),
    );
    repo.write("pools/bad.yaml", "\u{1b}[31m: [\n");
    repo.commit("Eve", evil);
    for format in ["human", "json"] {
        let ran = repo.run(&[NODE, "-o", format]).expect(0);
        assert!(ran.stdout.contains(BLOCK), "{}", ran.stdout);
        let plain = ran.stdout.replace("\u{1b}[1m", "").replace("\u{1b}[0m", "");
        assert!(!plain.contains(['\u{1b}', '\u{7}', '\u{202e}']), "{plain}");
        let is_command = |line: &str| line.trim_start().starts_with("::");
        assert!(!plain.lines().any(is_command), "{plain}");
    }
}

#[test]
fn grafts_of_a_clone_do_not_change_the_past() {
    let mut repo = Repo::new();
    repo.write("pools/a.yaml", pin(NODE, BLOCK));
    repo.commit("Ada", "Begin");
    let first = repo.git(&["rev-parse", "HEAD"]);
    repo.write("pools/a.yaml", pin(NODE, "10.20.8.0/24"));
    repo.commit("Eve", "Move");
    repo.write("README", "x");
    repo.commit("Ada", "Explain");
    let before = repo.history(&[NODE]);
    let head = repo.git(&["rev-parse", "HEAD"]);
    // As if Ada had moved the node.
    repo.write(".git/info/grafts", format!("{head} {first}\n"));
    assert_eq!(asked(&repo.history(&[NODE])), asked(&before));
}

#[test]
fn links_submodules_and_odd_files_are_told() {
    let mut repo = Repo::new();
    repo.write("pools/a.yaml", pin(NODE, BLOCK));
    repo.write("pools/big.yaml", "# \n".repeat(3_000_000));
    repo.write("pools/latin.yaml", b"# \xff\n");
    std::os::unix::fs::symlink("a.yaml", repo.folder.join("pools/link.yaml")).unwrap();
    repo.write("pools/.hidden.yaml", "kind: [\n");
    repo.commit("Ada", "Begin");
    let id = repo.git(&["rev-parse", "HEAD"]);
    let entry = format!("160000,{id},pools/sub");
    repo.git(&["update-index", "--add", "--cacheinfo", &entry]);
    repo.git(&["commit", "--quiet", "-m", "Add a submodule"]);
    let history = repo.history(&[NODE]);
    assert_eq!(asked(&history).len(), 1);
    let unread: Vec<&str> = history["unread"]
        .as_array()
        .unwrap()
        .iter()
        .map(|gap| gap["why"].as_str().unwrap())
        .collect();
    assert_eq!(
        unread,
        [
            "it is larger than 8 MiB",
            "it is not UTF-8",
            "it is a link",
            "it is a submodule"
        ]
    );
}

#[test]
fn a_repository_with_longer_ids_and_a_bare_one_are_read() {
    let mut repo = Repo::of_format("sha256");
    repo.write("pools/a.yaml", pin(NODE, BLOCK));
    let id = repo.commit("Ada", "Pin (#2)");
    assert_eq!(id.len(), 64);
    let elsewhere = Folder::new(&[]);
    let bare = elsewhere.join("bare.git");
    let clone = ["clone", "--quiet", "--bare", ".", bare.to_str().unwrap()];
    git(repo.folder.path(), &clone);
    for history in [
        repo.history(&[NODE]),
        run(&bare, &["history", NODE, "./pools", "-o", "json"]).json(),
    ] {
        assert_eq!(history["asked"][0]["from"]["commit"]["id"], id.as_str());
    }
}

#[test]
fn a_missing_object_is_a_gap_and_a_missing_tree_an_error() {
    let mut repo = Repo::new();
    repo.write("pools/a.yaml", pin(NODE, BLOCK));
    repo.commit("Ada", "Pin");
    repo.write("pools/a.yaml", pin(NODE, "10.20.8.0/24"));
    repo.commit("Ada", "Change the pin");
    repo.write("pools/a.yaml", pin(NODE, "10.20.9.0/24"));
    repo.commit("Ada", "Change it again");
    let remove = |name: &str| {
        let id = repo.git(&["rev-parse", name]);
        let file = format!(".git/objects/{}/{}", &id[..2], &id[2..]);
        std::fs::remove_file(repo.folder.join(&file)).unwrap();
    };
    remove("HEAD~1:pools/a.yaml");
    let history = repo.history(&[NODE]);
    let blocks = asked(&history);
    assert_eq!(blocks.len(), 2, "{blocks:#?}");
    assert_eq!(
        history["unread"][0]["why"],
        "the clone does not have its content"
    );
    let why = history["asked"][1]["from"]["uncertain"].as_str().unwrap();
    why.assert_has("could not be read");
    remove("HEAD~1:pools");
    let ran = repo.run(&[NODE]).expect(3);
    ran.stderr.assert_has("unreadable-revision");
}
