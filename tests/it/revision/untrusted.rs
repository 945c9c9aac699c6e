//! Repositories that an attacker placed among the files.

use std::path::Path;

use super::{OTHER, POOL, commit, git, pools_of, repository, rules};
use crate::support::{Folder, pool, program};

/// The attacker's files: two pools, where the real files have one.
fn attackers() -> Folder {
    repository(&[
        ("a.yaml", &pool("evil", POOL)),
        ("b.yaml", &pool("evil-too", OTHER)),
    ])
    .0
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap().map(Result::unwrap) {
        let to = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy(&entry.path(), &to);
        } else {
            std::fs::copy(entry.path(), to).unwrap();
        }
    }
}

#[test]
fn a_bare_repository_among_the_files_is_never_asked() {
    let (folder, _) = repository(&[("pools/a.yaml", &pool("a", POOL)), ("pools/deep/x.txt", "")]);
    git(
        folder.path(),
        &["checkout", "--quiet", "-b", "pull-request"],
    );
    // As a pull request brings it: as `pools`, and as a folder that `main` does not have. Git keeps
    // no empty folders.
    std::fs::remove_dir_all(folder.join("pools")).unwrap();
    let evil = attackers();
    for place in ["pools", "more/pools.git"] {
        copy(&evil.join(".git"), &folder.join(place));
        git(
            &folder.join(place),
            &["--git-dir=.", "config", "core.bare", "true"],
        );
    }
    commit(folder.path());
    assert_eq!(
        git(&folder.join("pools"), &["show", "main:a.yaml"]),
        pool("evil", POOL).trim(),
        "git alone asks it"
    );
    let absolute = folder.join("pools");
    for directory in [
        "pools",
        "./pools/",
        "pools/deep/..",
        absolute.to_str().unwrap(),
        "pools/a.yaml",
    ] {
        assert_eq!(
            pools_of(&folder, directory, "main"),
            "valid: 1 pool",
            "{directory}"
        );
    }
    assert_eq!(
        rules(&folder, &["pools", "--revision", "HEAD"]),
        ["empty-directory"],
        "the pull request has no files"
    );
    assert_eq!(
        rules(&folder, &["more/pools.git", "--revision", "main"]),
        ["empty-directory"]
    );
    assert_eq!(
        rules(&folder, &["more/pools.git/objects", "--revision", "main"]),
        ["empty-directory"]
    );
}

#[test]
fn a_bare_repository_must_be_named_as_one() {
    let (folder, _) = repository(&[("pools/a.yaml", &pool("a", POOL))]);
    let outside = Folder::new(&[]);
    for name in ["pools", "pools.git"] {
        git(
            outside.path(),
            &[
                "clone",
                "--quiet",
                "--bare",
                folder.path().to_str().unwrap(),
                name,
            ],
        );
    }
    assert_eq!(
        rules(&outside, &["pools/pools", "--revision", "main"]),
        ["no-repository"]
    );
    assert_eq!(
        rules(&outside, &["pools.git/objects", "--revision", "main"]),
        ["no-repository"]
    );
    assert_eq!(
        pools_of(&outside, "pools.git/pools", "main"),
        "valid: 1 pool"
    );
    // The person's own setting for git must not keep it from a repository that is named as one.
    let mut command = program(
        outside.path(),
        &["validate", "pools.git/pools", "--revision", "main"],
    );
    command
        .env("GIT_CONFIG_COUNT", "1")
        .env("GIT_CONFIG_KEY_0", "safe.bareRepository");
    assert!(
        command
            .env("GIT_CONFIG_VALUE_0", "explicit")
            .output()
            .unwrap()
            .status
            .success()
    );
}

#[test]
fn a_repository_that_an_archive_brings_is_not_asked() {
    let (evil, pools) = (
        attackers(),
        [
            ("pools/a.yaml", &*pool("a", POOL)),
            ("other/a.yaml", "no YAML: ["),
        ],
    );
    let with = |plant: fn(&Folder, &Folder)| {
        let (folder, _) = repository(&pools);
        plant(&folder, &evil);
        rules(&folder, &["--revision", "main"])
    };
    let directory =
        |folder: &Folder, evil: &Folder| copy(&evil.join(".git"), &folder.join("pools/.git"));
    assert_eq!(with(directory), ["ambiguous-repository"]);
    let pointer = |folder: &Folder, evil: &Folder| {
        folder.write(
            "pools/.git",
            format!("gitdir: {}\n", evil.join(".git").display()),
        );
    };
    assert_eq!(with(pointer), ["ambiguous-repository"]);
    // The right repository, but `pools` would be its top.
    let top = |folder: &Folder, _: &Folder| folder.write("pools/.git", "gitdir: ../.git\n");
    assert_eq!(with(top), ["ambiguous-repository"]);
    // What the index no longer has, the revision has.
    let gone = |folder: &Folder, evil: &Folder| {
        git(folder.path(), &["rm", "-r", "--quiet", "pools"]);
        copy(&evil.join(".git"), &folder.join("pools/.git"));
    };
    assert_eq!(with(gone), ["ambiguous-repository"]);
    let broken =
        |folder: &Folder, _: &Folder| std::fs::create_dir(folder.join("pools/.git")).unwrap();
    assert_eq!(with(broken), ["no-repository"]);
    let link = |folder: &Folder, evil: &Folder| {
        std::fs::remove_dir_all(folder.join("pools")).unwrap();
        std::os::unix::fs::symlink(evil.path(), folder.join("pools")).unwrap();
    };
    assert_eq!(with(link), ["link-in-revision"]);
}

#[test]
fn a_submodule_is_asked_only_where_the_outer_repository_is_ruled_out() {
    let (folder, _) = repository(&[("pools/a.yaml", &pool("a", POOL))]);
    let evil = attackers();
    git(
        folder.path(),
        &["checkout", "--quiet", "-b", "pull-request"],
    );
    git(folder.path(), &["rm", "-r", "--quiet", "pools"]);
    let add = [
        "-c",
        "protocol.file.allow=always",
        "submodule",
        "--quiet",
        "add",
        evil.path().to_str().unwrap(),
        "pools",
    ];
    git(folder.path(), &add);
    std::os::unix::fs::symlink("pools", folder.join("alias")).unwrap();
    commit(folder.path());
    assert_eq!(
        git(&folder.join("pools"), &["show", "main:a.yaml"]),
        pool("evil", POOL).trim(),
        "git alone asks it"
    );
    assert_eq!(
        rules(&folder, &["pools", "--revision", "main"]),
        ["ambiguous-repository"]
    );
    assert_eq!(
        rules(&folder, &["alias", "--revision", "main"]),
        ["link-in-revision"]
    );
    let mut command = program(folder.path(), &["validate", "--revision", "main"]);
    let output = command
        .env("GIT_CEILING_DIRECTORIES", folder.path())
        .output()
        .unwrap();
    assert!(
        String::from_utf8_lossy(&output.stdout).starts_with("valid: 2 pools"),
        "the person says which: {output:?}"
    );
}

#[test]
fn settings_and_owners_are_those_of_git() {
    let (folder, _) = repository(&[("pools/a.yaml", &pool("a", POOL))]);
    let elsewhere = Folder::new(&[]);
    git(
        folder.path(),
        &[
            "config",
            "core.worktree",
            elsewhere.path().to_str().unwrap(),
        ],
    );
    assert_eq!(rules(&folder, &["--revision", "main"]), ["no-repository"]);
    git(folder.path(), &["config", "--unset", "core.worktree"]);
    git(
        elsewhere.path(),
        &[
            "clone",
            "--quiet",
            "--bare",
            folder.path().to_str().unwrap(),
            "x.git",
        ],
    );
    for (folder, directory) in [(&folder, "pools"), (&elsewhere, "x.git/pools")] {
        let mut command = program(
            folder.path(),
            &["validate", directory, "--revision", "main"],
        );
        let output = command
            .env("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(
            said.contains("dubious ownership") && said.contains("safe.directory"),
            "{directory}: {said}"
        );
    }
}

#[test]
fn a_repository_runs_nothing_of_its_own() {
    let (folder, _) = repository(&[
        ("pools/a.yaml", &pool("a", POOL)),
        ("pools/.gitattributes", "*.yaml filter=f diff=f\n"),
    ]);
    let marker = folder.join("marker");
    let touch = format!("touch {}", marker.display());
    for key in [
        "core.fsmonitor",
        "core.pager",
        "filter.f.smudge",
        "filter.f.process",
        "diff.f.textconv",
        "core.sshCommand",
    ] {
        git(folder.path(), &["config", key, &touch]);
    }
    folder.expect("validate --revision HEAD", 0);
    assert!(!marker.exists());
    // A promised object that is missing would be fetched, by whatever the repository names.
    git(
        folder.path(),
        &["config", "remote.origin.url", &format!("ext::{touch}")],
    );
    git(folder.path(), &["config", "protocol.ext.allow", "always"]);
    git(folder.path(), &["config", "remote.origin.promisor", "true"]);
    git(
        folder.path(),
        &["config", "extensions.partialClone", "origin"],
    );
    git(
        folder.path(),
        &["config", "core.repositoryFormatVersion", "1"],
    );
    let blob = git(folder.path(), &["rev-parse", "HEAD:pools/a.yaml"]);
    std::fs::remove_file(folder.join(&format!(".git/objects/{}/{}", &blob[..2], &blob[2..])))
        .unwrap();
    assert_eq!(
        rules(&folder, &["--revision", "HEAD"]),
        ["unreadable-revision"]
    );
    assert!(!marker.exists());
}
