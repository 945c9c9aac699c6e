//! Reading the files of a commit, and finding the repository of a directory.

use super::{OTHER, POOL, commit, git, pools_of, repository, rules};
use crate::support::{Folder, TextAssertions, pool, program};

#[test]
fn what_lies_in_the_work_tree_does_not_matter() {
    let (folder, _) = repository(&[
        ("pools/a.yaml", &pool("a", POOL)),
        ("pools/deep/er/b c.yml", &pool("b", OTHER)),
    ]);
    git(folder.path(), &["tag", "both"]);
    folder.write("pools/.hidden/c.yaml", "no YAML: [");
    folder.write("pools/notes.txt", "no YAML: [");
    folder.write("pools-too/d.yaml", "no YAML: [");
    commit(folder.path());
    folder.write("pools/a.yaml", "no YAML: [");
    for (directory, revision) in [
        ("pools", "HEAD"),
        ("pools/", "main"),
        ("./pools", "both"),
        ("pools", "main~1"),
    ] {
        let valid = folder
            .run(&["validate", directory, "--revision", revision])
            .expect(0);
        assert!(
            valid.stdout.starts_with("valid: 2 pools, 0 pins"),
            "{}",
            valid.stdout
        );
    }
    folder.expect("validate", 3);
    std::fs::remove_dir_all(folder.join("pools")).unwrap();
    folder.expect("validate --revision HEAD", 0);
    let file = folder
        .run(&["validate", "pools/deep/er/b c.yml", "--revision", "HEAD"])
        .expect(0);
    assert!(
        file.stdout.starts_with("valid: 1 pool, 0 pins"),
        "{}",
        file.stdout
    );
}

#[test]
fn a_revision_has_its_own_ignore_file() {
    let (folder, _) = repository(&[
        ("pools/.cilium-ipamignore", "/old\n"),
        ("pools/a.yaml", &pool("a", POOL)),
        ("pools/old/b.yaml", &pool("b", OTHER)),
        ("pools/old/c.yaml", "no YAML: ["),
    ]);
    let valid = folder.expect("validate --revision HEAD", 0);
    valid.stdout.assert_has("valid: 1 pool, 0 pins");
    valid.all().assert_has("ignored 1 path: `old`");
    std::fs::remove_file(folder.join("pools/old/c.yaml")).unwrap();
    std::fs::remove_file(folder.join("pools/.cilium-ipamignore")).unwrap();
    assert!(
        folder
            .expect("validate", 0)
            .stdout
            .starts_with("valid: 2 pools")
    );
    assert_eq!(pools_of(&folder, "pools", "HEAD"), "valid: 1 pool");
    commit(folder.path());
    assert_eq!(pools_of(&folder, "pools", "HEAD"), "valid: 2 pools");
    std::os::unix::fs::symlink("a.yaml", folder.join("pools/.cilium-ipamignore")).unwrap();
    commit(folder.path());
    let found = rules(&folder, &["--revision", "HEAD"]);
    assert!(found.contains(&"link-in-revision".to_owned()), "{found:?}");
}

#[test]
fn places_are_those_of_the_files_and_faults_are_told() {
    let (folder, _) = repository(&[(
        "pools/a.yaml",
        &pool("a", "{cidrs: [10.20.0.0/16], blockSize: 8}"),
    )]);
    let report = folder.expect("validate --revision HEAD -o json", 3).json();
    assert_eq!(
        report["findings"][0]["origin"]["file"], "pools/a.yaml",
        "{report}"
    );
    assert!(
        report["findings"][0]["origin"]["snippet"]
            .as_str()
            .is_some_and(|line| line.contains("blockSize: 8"))
    );

    folder.write("pools/a.yaml", pool("a", POOL));
    std::os::unix::fs::symlink("a.yaml", folder.join("pools/link.yaml")).unwrap();
    folder.write("pools/bytes.yaml", b"\xff\xfe");
    folder.write("pools/large.yaml", vec![b'#'; 8 * 1024 * 1024 + 1]);
    folder.write("empty/notes.txt", "");
    commit(folder.path());
    assert_eq!(
        rules(&folder, &["--revision", "HEAD"]),
        ["not-utf8", "file-too-large", "link-in-revision"]
    );
    assert_eq!(
        rules(&folder, &["empty", "--revision", "HEAD"]),
        ["empty-directory"]
    );
    assert_eq!(
        rules(&folder, &["nowhere", "--revision", "HEAD"]),
        ["empty-directory"]
    );
    for unknown in [
        "nobody",
        "--all",
        "HEAD:pools",
        "HEAD..main",
        "",
        "no\nname",
    ] {
        assert_eq!(
            rules(&folder, &[&format!("--revision={unknown}")]),
            ["unknown-revision"],
            "{unknown:?}"
        );
    }
    git(folder.path(), &["tag", "main", "HEAD~1"]);
    assert_eq!(
        rules(&folder, &["--revision=main"]),
        ["unknown-revision"],
        "a branch and a tag"
    );
    assert_eq!(
        rules(&folder, &[".git/objects", "--revision", "HEAD"]),
        ["no-repository"]
    );
    std::os::unix::fs::symlink("pools", folder.join("elsewhere")).unwrap();
    assert_eq!(
        rules(&folder, &["elsewhere", "--revision", "HEAD"]),
        ["link-in-revision"]
    );
    let outside = Folder::new(&[("pools/a.yaml", &pool("a", POOL))]);
    assert_eq!(rules(&outside, &["--revision", "HEAD"]), ["no-repository"]);
}

#[test]
fn one_file_of_several_is_refused_as_on_disk() {
    let (good, other) = (pool("a", POOL), pool("b", OTHER));
    let (folder, _) = repository(&[
        ("pools/a.yaml", &good),
        ("pools/b.yaml", &other),
        ("deep/a.yaml", &good),
        ("deep/er/b.yaml", &other),
        ("alone/a.yaml", &good),
    ]);
    for file in ["pools/a.yaml", "deep/a.yaml"] {
        let refused = [file, "--revision", "HEAD"];
        assert_eq!(rules(&folder, &refused), ["one-of-several-files"]);
    }
    let alone = ["validate", "alone/a.yaml", "--revision", "HEAD"];
    folder.run(&alone).expect(0);
}

#[test]
fn a_hook_of_another_repository_and_a_bare_one() {
    let (folder, _) = repository(&[
        ("pools/a.yaml", &pool("a", POOL)),
        ("more/b.yaml", &pool("b", OTHER)),
    ]);
    let (other, _) = repository(&[("pools/c.yaml", "no YAML: [")]);
    let mut command = program(folder.path(), &["validate", "--revision", "HEAD"]);
    command
        .env("GIT_DIR", other.join(".git"))
        .env("GIT_WORK_TREE", other.path())
        .env("GIT_INDEX_FILE", "nowhere");
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(
        said.starts_with("valid: 1 pool,"),
        "{said} {}",
        String::from_utf8_lossy(&output.stderr)
    );
    let bare = Folder::new(&[]);
    git(
        bare.path(),
        &[
            "clone",
            "--quiet",
            "--bare",
            folder.path().to_str().unwrap(),
            "bare.git",
        ],
    );
    let valid = bare
        .run(&["validate", "bare.git/pools", "--revision", "main"])
        .expect(0);
    assert!(
        valid.stdout.starts_with("valid: 1 pool,"),
        "{}",
        valid.stdout
    );
}

#[test]
fn worktrees_and_clones_inside_another_work_tree_are_themselves() {
    let (folder, _) = repository(&[("pools/a.yaml", &pool("a", POOL))]);
    git(
        folder.path(),
        &["worktree", "add", "--quiet", "-b", "side", "trees/side"],
    );
    folder.write("trees/side/pools/b.yaml", pool("b", OTHER));
    commit(&folder.join("trees/side"));
    assert_eq!(
        pools_of(&folder, "trees/side/pools", "HEAD"),
        "valid: 2 pools",
        "HEAD is the worktree's"
    );
    assert_eq!(pools_of(&folder, "pools", "HEAD"), "valid: 1 pool");
    // As CI checks a second repository out beside the first one.
    let (other, _) = repository(&[
        ("pools/a.yaml", &pool("a", POOL)),
        ("pools/b.yaml", &pool("b", OTHER)),
    ]);
    git(
        folder.path(),
        &["clone", "--quiet", other.path().to_str().unwrap(), "infra"],
    );
    assert_eq!(pools_of(&folder, "infra/pools", "main"), "valid: 2 pools");
    std::os::unix::fs::symlink("trees/side", folder.join("trees/current")).unwrap();
    let side = Folder::new(&[]);
    std::os::unix::fs::symlink(folder.join("trees/side"), side.join("current")).unwrap();
    assert_eq!(
        pools_of(&side, "current/pools", "HEAD"),
        "valid: 2 pools",
        "a link that no work tree has"
    );
}

#[test]
fn a_git_file_is_no_directory_of_pools() {
    let (folder, _) = repository(&[("pools/a.yaml", &pool("a", POOL))]);
    git(folder.path(), &["worktree", "add", "-q", "tree"]);
    let said = folder
        .expect("validate tree/.git --revision HEAD", 3)
        .stderr;
    said.assert_has("it is inside git's own directory");
    folder.write("tree/.git", "gitdir: /no/such/place\n");
    let said = folder
        .expect("validate tree/pools --revision HEAD", 3)
        .stderr;
    said.assert_has("the file `.git` points to no repository");
}
