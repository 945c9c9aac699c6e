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
const ANNOTATION: &str =
    "apiVersion: cilium-ipam.io/v1alpha1\nkind: Policy\nmetadata: {name: p}\nspec: {writePath: node-annotation}\n";
const OTHER: &str = "{cidrs: [10.30.0.0/16], blockSize: 24}";

#[track_caller]
fn git(folder: &Path, arguments: &[&str]) -> String {
    let mut command = Command::new("git");
    command.arg("-C").arg(folder).args(["-c", "user.name=n", "-c", "user.email=e", "-c", "commit.gpgsign=false"]);
    // Without the person's environment: in a hook it names the person's repository.
    command.env_clear().env("PATH", std::env::var_os("PATH").unwrap()).env("HOME", folder);
    command.env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_SYSTEM", "/dev/null");
    let output = command.args(arguments).output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
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
    git(folder.path(), &["init", "--quiet", "--initial-branch", "main"]);
    let id = commit(folder.path());
    (folder, id)
}

fn rules(folder: &Folder, arguments: &[&str]) -> Vec<String> {
    let ran = folder.run(&[&["validate", "-o", "json"], arguments].concat()).expect(3).json();
    let findings = ran["findings"].as_array().unwrap();
    findings.iter().map(|finding| finding["rule"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn what_lies_in_the_work_tree_does_not_matter() {
    let (folder, _) = repository(&[("pools/a.yaml", &pool("a", POOL)), ("pools/deep/er/b c.yml", &pool("b", OTHER))]);
    git(folder.path(), &["tag", "both"]);
    folder.write("pools/.hidden/c.yaml", "no YAML: [");
    folder.write("pools/notes.txt", "no YAML: [");
    folder.write("pools-too/d.yaml", "no YAML: [");
    commit(folder.path());
    folder.write("pools/a.yaml", "no YAML: [");
    for (directory, revision) in [("pools", "HEAD"), ("pools/", "main"), ("./pools", "both"), ("pools", "main~1")] {
        let valid = folder.run(&["validate", directory, "--revision", revision]).expect(0);
        assert!(valid.stdout.starts_with("valid: 2 pools, 0 pins"), "{}", valid.stdout);
    }
    folder.run(&["validate"]).expect(3);
    std::fs::remove_dir_all(folder.join("pools")).unwrap();
    folder.run(&["validate", "--revision", "HEAD"]).expect(0);
    let file = folder.run(&["validate", "pools/deep/er/b c.yml", "--revision", "HEAD"]).expect(0);
    assert!(file.stdout.starts_with("valid: 1 pool, 0 pins"), "{}", file.stdout);
}

#[test]
fn places_are_those_of_the_files_and_faults_are_told() {
    let (folder, _) = repository(&[("pools/a.yaml", &pool("a", "{cidrs: [10.20.0.0/16], blockSize: 8}"))]);
    let report = folder.run(&["validate", "--revision", "HEAD", "-o", "json"]).expect(3).json();
    assert_eq!(report["findings"][0]["origin"]["file"], "pools/a.yaml", "{report}");
    assert!(report["findings"][0]["origin"]["snippet"].as_str().is_some_and(|line| line.contains("blockSize: 8")));

    folder.write("pools/a.yaml", pool("a", POOL));
    std::os::unix::fs::symlink("a.yaml", folder.join("pools/link.yaml")).unwrap();
    folder.write("pools/bytes.yaml", b"\xff\xfe");
    folder.write("pools/large.yaml", vec![b'#'; 8 * 1024 * 1024 + 1]);
    folder.write("empty/notes.txt", "");
    commit(folder.path());
    assert_eq!(rules(&folder, &["--revision", "HEAD"]), ["not-utf8", "file-too-large", "link-in-revision"]);
    assert_eq!(rules(&folder, &["empty", "--revision", "HEAD"]), ["empty-directory"]);
    assert_eq!(rules(&folder, &["nowhere", "--revision", "HEAD"]), ["empty-directory"]);
    for unknown in ["nobody", "--all", "HEAD:pools", "HEAD..main", "", "no\nname"] {
        assert_eq!(rules(&folder, &[&format!("--revision={unknown}")]), ["unknown-revision"], "{unknown:?}");
    }
    git(folder.path(), &["tag", "main", "HEAD~1"]);
    assert_eq!(rules(&folder, &["--revision=main"]), ["unknown-revision"], "a branch and a tag");
    assert_eq!(rules(&folder, &[".git/objects", "--revision", "HEAD"]), ["no-repository"]);
    std::os::unix::fs::symlink("pools", folder.join("elsewhere")).unwrap();
    assert_eq!(rules(&folder, &["elsewhere", "--revision", "HEAD"]), ["link-in-revision"]);
    let outside = Folder::new(&[("pools/a.yaml", &pool("a", POOL))]);
    assert_eq!(rules(&outside, &["--revision", "HEAD"]), ["no-repository"]);
}

#[test]
fn a_hook_of_another_repository_and_a_bare_one() {
    let (folder, _) = repository(&[("pools/a.yaml", &pool("a", POOL)), ("more/b.yaml", &pool("b", OTHER))]);
    let (other, _) = repository(&[("pools/c.yaml", "no YAML: [")]);
    let mut command = program(folder.path(), &["validate", "--revision", "HEAD"]);
    command.env("GIT_DIR", other.join(".git")).env("GIT_WORK_TREE", other.path()).env("GIT_INDEX_FILE", "nowhere");
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.starts_with("valid: 1 pool,"), "{said} {}", String::from_utf8_lossy(&output.stderr));
    let bare = Folder::new(&[]);
    git(bare.path(), &["clone", "--quiet", "--bare", folder.path().to_str().unwrap(), "bare.git"]);
    let valid = bare.run(&["validate", "bare.git/pools", "--revision", "main"]).expect(0);
    assert!(valid.stdout.starts_with("valid: 1 pool,"), "{}", valid.stdout);
}

#[test]
fn a_repository_runs_nothing_of_its_own() {
    let (folder, _) =
        repository(&[("pools/a.yaml", &pool("a", POOL)), ("pools/.gitattributes", "*.yaml filter=f diff=f\n")]);
    let marker = folder.join("marker");
    let touch = format!("touch {}", marker.display());
    for key in
        ["core.fsmonitor", "core.pager", "filter.f.smudge", "filter.f.process", "diff.f.textconv", "core.sshCommand"]
    {
        git(folder.path(), &["config", key, &touch]);
    }
    folder.run(&["validate", "--revision", "HEAD"]).expect(0);
    assert!(!marker.exists());
    // A promised object that is missing would be fetched, by whatever the repository names.
    git(folder.path(), &["config", "remote.origin.url", &format!("ext::{touch}")]);
    git(folder.path(), &["config", "protocol.ext.allow", "always"]);
    git(folder.path(), &["config", "remote.origin.promisor", "true"]);
    git(folder.path(), &["config", "extensions.partialClone", "origin"]);
    git(folder.path(), &["config", "core.repositoryFormatVersion", "1"]);
    let blob = git(folder.path(), &["rev-parse", "HEAD:pools/a.yaml"]);
    std::fs::remove_file(folder.join(&format!(".git/objects/{}/{}", &blob[..2], &blob[2..]))).unwrap();
    assert_eq!(rules(&folder, &["--revision", "HEAD"]), ["unreadable-revision"]);
    assert!(!marker.exists());
}

#[test]
fn a_saved_plan_is_applied_from_its_own_commit() {
    let items = [node_json("n", "a", "")];
    let (folder, id) = repository(&[("pools/a.yaml", &pool("a", POOL)), ("pools/policy.yaml", ANNOTATION)]);
    folder.write("cluster.json", cluster("1.19.3", r#""ipam":"kubernetes","annotate-k8s-node":"true""#, &items));
    let plan = ["plan", "--cluster", "cluster.json", "--revision", "main"];
    let shown = folder.run(&[&plan[..], &["--out", "plan.json"]].concat()).expect(0);
    assert!(shown.stdout.contains(&format!("files of commit {id}")), "{}", shown.stdout);
    let page = folder.run(&[&plan[..], &["--output", "markdown"]].concat()).expect(0).stdout;
    assert!(page.contains(&format!("`pools` at `{id}`")), "{page}");
    folder.write("pools/a.yaml", pool("a", OTHER));
    commit(folder.path());
    let apply = ["apply", "plan.json", "--cluster", "cluster.json"];
    let refused = folder.run(&[&apply[..], &["--revision", "main"]].concat()).expect(1);
    assert!(refused.stderr.contains("is of its own files"), "{}", refused.stderr);
    folder.run(&apply).expect(0);
    let written = folder.read("cluster.json");
    assert!(written.contains("10.20.0.0/24"), "of the commit that was planned: {written}");
    let mut undo =
        std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let undo = undo.find(|name| name.starts_with("undo-")).unwrap();
    let document: serde_json::Value = serde_json::from_str(&folder.read(&undo)).unwrap();
    assert_eq!(document["source"]["revision"], serde_json::Value::Null, "it is judged by the files as they are then");
    folder.run(&["apply", &undo, "--auto-approve", "--cluster", "cluster.json"]).expect(0);
    assert!(!folder.read("cluster.json").contains("network.cilium.io/ipv4-pod-cidr"));
}

#[test]
fn watch_follows_a_branch_and_keeps_the_last_good_commit() {
    let server = Server::start(&kubernetes("1.19.3", None), Some("1.19.3"), Options::default(), &[]);
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
    let claims = || server.plane.get("/api/v1/namespaces/kube-system/configmaps/cilium-ipam-claims").unwrap();
    assert_eq!(claims()["data"]["revision"], first.as_str());

    server.folder.write("pools/a.yaml", "no YAML: [");
    let faulty = commit(folder);
    watching.until("invalid", json!({"revision": faulty}));
    server.nodes([node("n2", json!({}))]);
    assert_eq!(watching.written("n2"), json!(["10.20.1.0/24"]), "the last good commit stays in force");
    let (_, metrics) = http_get(&address, "/metrics");
    assert!(metrics.contains(&format!("cilium_ipam_source_revision{{revision=\"{first}\"}} 1")), "{metrics}");
    assert!(metrics.contains("cilium_ipam_source_invalid 1"), "{metrics}");
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
