//! Saved plans of a commit, and `watch` on a branch.

use serde_json::json;

use super::{OTHER, POOL, commit, git, repository};
use crate::running::{Running, http_get};
use crate::server::{Server, node};
use crate::support::{TextAssertions, args, cluster, node as node_json, policy, pool};

#[test]
fn a_saved_plan_is_applied_from_its_own_commit() {
    let items = [node_json("n", "a", "")];
    let (folder, id) = repository(&[
        ("pools/a.yaml", &pool("a", POOL)),
        // Writes to annotations can be undone.
        ("pools/policy.yaml", &policy("{writePath: node-annotation}")),
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
    shown.stdout.assert_has(&format!("files of commit {id}"));
    let page = folder
        .run(&[&plan[..], &["--output", "markdown"]].concat())
        .expect(0)
        .stdout;
    page.assert_has(&format!("`pools` at `{id}`"));
    folder.write("pools/a.yaml", pool("a", OTHER));
    commit(folder.path());
    let apply = args("apply plan.json --trust-plan-file --cluster cluster.json");
    let refused = folder
        .run(&[&apply[..], &["--revision", "main"]].concat())
        .expect(4)
        .stderr;
    refused.assert_has(&format!(
        "made from the files of commit {id}, and --revision asks for `main`"
    ));
    folder.write("other.json", folder.read("cluster.json"));
    let of_its_own =
        args("apply plan.json --trust-plan-file --cluster other.json --revision main~1");
    folder.run(&of_its_own).expect(0);
    folder.expect("plan --cluster cluster.json --out loose.json", 0);
    let loose = folder
        .expect(
            "apply loose.json --trust-plan-file --cluster cluster.json --revision main",
            4,
        )
        .stderr;
    loose.assert_has(
        "made from files of no commit, and --revision asks for `main`, which is commit",
    );
    folder.run(&apply).expect(0);
    let written = folder.read("cluster.json");
    assert!(
        written.contains("10.20.0.0/24"),
        "of the commit that was planned: {written}"
    );
    let undo = folder.json("undo -o json")["items"][0]["file"].clone();
    let undo = undo.as_str().unwrap();
    let document: serde_json::Value = serde_json::from_str(&folder.read(undo)).unwrap();
    assert_eq!(
        document["source"]["revision"],
        serde_json::Value::Null,
        "it is judged by the files as they are then"
    );
    folder
        .run(&["apply", undo, "--auto-approve", "--cluster", "cluster.json"])
        .expect(0);
    assert!(
        !folder
            .read("cluster.json")
            .contains("network.cilium.io/ipv4-pod-cidr")
    );
}

#[test]
fn watch_follows_a_branch_and_keeps_the_last_good_commit() {
    let server = Server::usual();
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
    metrics.assert_has(&format!(
        "cilium_ipam_source_revision{{revision=\"{first}\"}} 1"
    ));
    metrics.assert_has("cilium_ipam_source_invalid 1");
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
