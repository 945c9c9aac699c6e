//! Files as a Git revision has them, from real repositories.

use std::path::Path;
use std::process::Command;

use serde_json::json;
use testbed::Options;

use super::running::{Running, http_get};
use super::server::{Server, kubernetes, node};
use super::support::{Folder, cluster, node as node_json, pool, program};

const POOL: &str = "{cidrs: [10.20.0.0/16], blockSize: 24}";
/// What is written to annotations can be taken back.
const ANNOTATION: &str = "apiVersion: cilium-ipam.io/v1alpha1\nkind: Policy\nmetadata: {name: p}\nspec: {writePath: node-annotation}\n";
const OTHER: &str = "{cidrs: [10.30.0.0/16], blockSize: 24}";

#[track_caller]
fn git(folder: &Path, arguments: &[&str]) -> String {
    let mut command = Command::new("git");
    command.arg("-C").arg(folder).args([
        "-c",
        "user.name=n",
        "-c",
        "user.email=e",
        "-c",
        "commit.gpgsign=false",
    ]);
    // Without the person's environment: in a hook it names the person's repository.
    command
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap())
        .env("HOME", folder);
    command
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_SYSTEM", "/dev/null");
    let output = command.args(arguments).output().unwrap();
    assert!(
        output.status.success(),
        "{arguments:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// Commits everything, and gives the id.
fn commit(folder: &Path) -> String {
    git(folder, &["add", "--all"]);
    git(folder, &["commit", "--quiet", "--message", "m"]);
    git(folder, &["rev-parse", "HEAD"])
}

fn repository(files: &[(&str, &str)]) -> (Folder, String) {
    let folder = Folder::new(files);
    git(
        folder.path(),
        &["init", "--quiet", "--initial-branch", "main"],
    );
    let id = commit(folder.path());
    (folder, id)
}

fn rules(folder: &Folder, arguments: &[&str]) -> Vec<String> {
    let ran = folder
        .run(&[&["validate", "-o", "json"], arguments].concat())
        .expect(3)
        .json();
    let findings = ran["findings"].as_array().unwrap();
    findings
        .iter()
        .map(|finding| finding["rule"].as_str().unwrap().to_owned())
        .collect()
}

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
    folder.run(&["validate"]).expect(3);
    std::fs::remove_dir_all(folder.join("pools")).unwrap();
    folder.run(&["validate", "--revision", "HEAD"]).expect(0);
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
fn places_are_those_of_the_files_and_faults_are_told() {
    let (folder, _) = repository(&[(
        "pools/a.yaml",
        &pool("a", "{cidrs: [10.20.0.0/16], blockSize: 8}"),
    )]);
    let report = folder
        .run(&["validate", "--revision", "HEAD", "-o", "json"])
        .expect(3)
        .json();
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

/// What the attacker wants to be read: two pools, where the real files are one.
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

/// The pools that `validate` counts, where it is valid.
fn pools_of(folder: &Folder, directory: &str, revision: &str) -> String {
    let valid = folder
        .run(&["validate", directory, "--revision", revision])
        .expect(0);
    valid.stdout.split(',').next().unwrap().to_owned()
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
    folder.run(&["validate", "--revision", "HEAD"]).expect(0);
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

#[test]
fn a_saved_plan_is_applied_from_its_own_commit() {
    let items = [node_json("n", "a", "")];
    let (folder, id) = repository(&[
        ("pools/a.yaml", &pool("a", POOL)),
        ("pools/policy.yaml", ANNOTATION),
    ]);
    folder.write(
        "cluster.json",
        cluster(
            "1.19.3",
            r#""ipam":"kubernetes","annotate-k8s-node":"true""#,
            &items,
        ),
    );
    let plan = ["plan", "--cluster", "cluster.json", "--revision", "main"];
    let shown = folder
        .run(&[&plan[..], &["--out", "plan.json"]].concat())
        .expect(0);
    assert!(
        shown.stdout.contains(&format!("files of commit {id}")),
        "{}",
        shown.stdout
    );
    let page = folder
        .run(&[&plan[..], &["--output", "markdown"]].concat())
        .expect(0)
        .stdout;
    assert!(page.contains(&format!("`pools` at `{id}`")), "{page}");
    folder.write("pools/a.yaml", pool("a", OTHER));
    commit(folder.path());
    let apply = ["apply", "plan.json", "--cluster", "cluster.json"];
    let refused = folder
        .run(&[&apply[..], &["--revision", "main"]].concat())
        .expect(4)
        .stderr;
    assert!(
        refused.contains(&format!(
            "made from the files of commit {id}, and --revision asks for `main`"
        )),
        "{refused}"
    );
    folder.write("other.json", folder.read("cluster.json"));
    let of_its_own = [
        "apply",
        "plan.json",
        "--cluster",
        "other.json",
        "--revision",
        "main~1",
    ];
    folder.run(&of_its_own).expect(0);
    folder
        .run(&["plan", "--cluster", "cluster.json", "--out", "loose.json"])
        .expect(0);
    let loose = folder
        .run(&[
            "apply",
            "loose.json",
            "--cluster",
            "cluster.json",
            "--revision",
            "main",
        ])
        .expect(4)
        .stderr;
    assert!(
        loose.contains(
            "made from files of no commit, and --revision asks for `main`, which is commit"
        ),
        "{loose}"
    );
    folder.run(&apply).expect(0);
    let written = folder.read("cluster.json");
    assert!(
        written.contains("10.20.0.0/24"),
        "of the commit that was planned: {written}"
    );
    let mut undo = std::fs::read_dir(folder.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let undo = undo.find(|name| name.starts_with("undo-")).unwrap();
    let document: serde_json::Value = serde_json::from_str(&folder.read(&undo)).unwrap();
    assert_eq!(
        document["source"]["revision"],
        serde_json::Value::Null,
        "it is judged by the files as they are then"
    );
    folder
        .run(&[
            "apply",
            &undo,
            "--auto-approve",
            "--cluster",
            "cluster.json",
        ])
        .expect(0);
    assert!(
        !folder
            .read("cluster.json")
            .contains("network.cilium.io/ipv4-pod-cidr")
    );
}

#[test]
fn watch_follows_a_branch_and_keeps_the_last_good_commit() {
    let server = Server::start(
        &kubernetes("1.19.3", None),
        Some("1.19.3"),
        Options::default(),
        &[],
    );
    let folder = server.folder.path();
    server.folder.write("pools/a.yaml", pool("a", POOL));
    server.folder.write(".gitignore", "/*\n!/pools\n");
    git(folder, &["init", "--quiet", "--initial-branch", "main"]);
    let first = commit(folder);
    server.nodes([node("n1", json!({}))]);
    let arguments = ["watch", "--revision", "main", "--listen", "127.0.0.1:0"];
    let watching = Running::start(folder, server.plane.kubeconfig(), &arguments);
    let address = watching.address();
    watching.until("in-force", json!({"revision": first}));
    assert_eq!(watching.written("n1"), json!(["10.20.0.0/24"]));
    let claims = || {
        server
            .plane
            .get("/api/v1/namespaces/kube-system/configmaps/cilium-ipam-claims")
            .unwrap()
    };
    assert_eq!(claims()["data"]["revision"], first.as_str());

    server.folder.write("pools/a.yaml", "no YAML: [");
    let faulty = commit(folder);
    watching.until("invalid", json!({"revision": faulty}));
    server.nodes([node("n2", json!({}))]);
    assert_eq!(
        watching.written("n2"),
        json!(["10.20.1.0/24"]),
        "the last good commit stays in force"
    );
    let (_, metrics) = http_get(&address, "/metrics");
    assert!(
        metrics.contains(&format!(
            "cilium_ipam_source_revision{{revision=\"{first}\"}} 1"
        )),
        "{metrics}"
    );
    assert!(
        metrics.contains("cilium_ipam_source_invalid 1"),
        "{metrics}"
    );
    assert_eq!(http_get(&address, "/readyz").0, 200);

    git(folder, &["checkout", "--quiet", "-b", "elsewhere"]);
    server.folder.write("pools/a.yaml", pool("a", OTHER));
    commit(folder);
    git(folder, &["branch", "--force", "main", "elsewhere~2"]);
    watching.until("in-force", json!({"revision": first}));
    git(folder, &["branch", "--force", "main", "elsewhere"]);
    let third = git(folder, &["rev-parse", "elsewhere"]);
    watching.until("in-force", json!({"revision": third}));
    server.nodes([node("n3", json!({}))]);
    assert_eq!(watching.written("n3"), json!(["10.30.0.0/24"]));
    assert_eq!(claims()["data"]["revision"], third.as_str());
    assert_eq!(watching.end(), 0);
}

#[test]
fn a_git_file_is_no_directory_of_pools() {
    let (folder, _) = repository(&[("pools/a.yaml", &pool("a", POOL))]);
    git(folder.path(), &["worktree", "add", "-q", "tree"]);
    let said = folder
        .run(&["validate", "tree/.git", "--revision", "HEAD"])
        .expect(3)
        .stderr;
    assert!(
        said.contains("it lies where git keeps its own files"),
        "{said}"
    );
    folder.write("tree/.git", "gitdir: /no/such/place\n");
    let said = folder
        .run(&["validate", "tree/pools", "--revision", "HEAD"])
        .expect(3)
        .stderr;
    assert!(
        said.contains("the file `.git` there leads to no repository"),
        "{said}"
    );
}
