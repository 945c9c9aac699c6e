//! The lock and the claims on a real API server.

use std::io::Read;
use std::process::{Child, ChildStderr, Command, Stdio};

use rustix::pty::{OpenptFlags, ioctl_tiocgptpeer, openpt, unlockpt};
use serde_json::{Value, json};

use super::server::{Server, node};
use super::support::{TextAssertions, pin, policy, pool, program};

const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases";

fn server() -> Server {
    let server = Server::usual();
    server.folder.write(
        "pools/a.yaml",
        pool("a", "{cidrs: [10.20.0.0/16], blockSize: 24}"),
    );
    // One after the other: the older one is served first, and clocks tell seconds only.
    server.nodes([node("n1", json!({}))]);
    server.nodes([node("n2", json!({}))]);
    server
}

fn now(add: i64) -> String {
    let now = jiff::Timestamp::now() + jiff::SignedDuration::from_secs(add);
    format!("{now:.6}")
}

/// The Lease of another apply that holds the lock.
fn somebody_holds(server: &Server) {
    holds_a_lease(server, "cilium-ipam", "apply", "alice@laptop");
}

/// For an hour.
fn holds_a_lease(server: &Server, name: &str, operation: &str, holder: &str) {
    let annotations = json!({"cilium-ipam.io/operation": operation});
    let spec = json!({"holderIdentity": holder, "leaseDurationSeconds": 3_600, "acquireTime": "2026-01-01T00:00:00.000000Z", "renewTime": now(0)});
    let lease = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": name, "annotations": annotations}, "spec": spec});
    server.plane.create(LEASES, &lease).unwrap();
}

fn lease(server: &Server) -> Value {
    server.plane.get(&format!("{LEASES}/cilium-ipam")).unwrap()
}

#[test]
fn who_holds_the_lock_is_told_and_waited_for() {
    let server = server();
    somebody_holds(&server);
    let refused = server.expect("apply --auto-approve", 6).stderr;
    refused.assert_has("alice@laptop holds the lock since 2026-01-01T00:00:00Z, for: apply");
    refused.assert_has("--lock-timeout");
    assert!(server.pod_cidrs().values().all(Vec::is_empty));
    // The lease of a killed holder expires.
    let spec = json!({"leaseDurationSeconds": 3, "renewTime": now(0)});
    server
        .plane
        .patch(&format!("{LEASES}/cilium-ipam"), &json!({"spec": spec}))
        .unwrap();
    let ran = server.expect("apply --auto-approve --lock-timeout 60s", 0);
    ran.stderr.assert_has("waiting for alice@laptop");
    assert_eq!(
        lease(&server)["spec"]["holderIdentity"],
        "",
        "it is given back"
    );
    assert_eq!(server.pod_cidrs()["n2"], ["10.20.1.0/24"]);
}

/// A job refuses a plan as a whole; the operator writes what needs no person.
#[test]
fn a_comment_names_the_operator_that_writes_what_a_job_refuses() {
    let server = server();
    let mut moved = node("n3", json!({"kubernetes.io/hostname": "n3"}));
    moved["spec"] = json!({"podCIDR": "10.20.9.0/24", "podCIDRs": ["10.20.9.0/24"]});
    server.nodes([moved]);
    let policy = policy("{writePath: node-config, protected: {nodes: [n3]}}");
    server.folder.write("pools/policy.yaml", policy);
    server
        .folder
        .write("pools/pin.yaml", pin("n3", "10.20.5.0/24"));
    let says = |text: &str| {
        let page = server.expect("comment --dry-run", 5).stdout;
        let all = "merging still writes 2 changes: they need no person.** ";
        let unseen = "`watch` at rest leaves no trace in the cluster, so it may run unseen.\n";
        for part in [all, &format!(" {text} {unseen}")] {
            assert!(page.contains(part), "{part} in {page}");
        }
    };
    says("A");
    // The operator holds the lock of an apply as `watch` does, while it writes.
    holds_a_lease(&server, "cilium-ipam", "watch", "pod-1");
    says("A");
    holds_a_lease(&server, "cilium-ipam-operator", "operator", "pod-1");
    says("`cilium-ipam operator` runs on this cluster as `pod-1`; a");
    // It died long ago.
    let old = json!({"spec": {"renewTime": now(-7_200)}});
    let lease = format!("{LEASES}/cilium-ipam-operator");
    server.plane.patch(&lease, &old).unwrap();
    says("A");
}

/// An apply with a terminal as stdin, and the terminal.
fn apply_at_a_terminal(server: &Server, flags: &[&str]) -> (Child, ChildStderr, std::fs::File) {
    let options = OpenptFlags::RDWR | OpenptFlags::NOCTTY;
    let terminal = openpt(options).unwrap();
    unlockpt(&terminal).unwrap();
    let kubeconfig = server.plane.kubeconfig().to_str().unwrap();
    let arguments = [&["apply", "--kubeconfig", kubeconfig], flags].concat();
    let mut program = program(server.folder.path(), &arguments);
    program.stdin(ioctl_tiocgptpeer(&terminal, options).unwrap());
    program.stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = program.spawn().unwrap();
    let stderr = child.stderr.take().unwrap();
    (child, stderr, terminal.into())
}

/// Reads until the text ends like this.
fn read_to(stderr: &mut ChildStderr, end: &str) {
    let mut text = Vec::new();
    let mut byte = [0];
    while !text.ends_with(end.as_bytes()) {
        let read = stderr.read(&mut byte).unwrap();
        assert_eq!(read, 1, "{}", String::from_utf8_lossy(&text));
        text.push(byte[0]);
    }
}

fn interrupt(mut child: Child, mut stderr: ChildStderr, signal: &str, code: i32) {
    let id = child.id().to_string();
    assert!(
        Command::new("kill")
            .args([signal, &id])
            .status()
            .unwrap()
            .success()
    );
    let mut text = String::new();
    stderr.read_to_string(&mut text).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(code), "{text}");
    text.assert_has("interrupted; nothing was written");
}

#[test]
fn a_signal_before_the_approval_releases_the_lock() {
    let server = server();
    for (signal, code) in [("-INT", 130), ("-TERM", 143)] {
        let (child, mut stderr, _terminal) = apply_at_a_terminal(&server, &[]);
        read_to(&mut stderr, "Type `yes` to continue: ");
        assert_ne!(lease(&server)["spec"]["holderIdentity"], "", "{signal}");
        interrupt(child, stderr, signal, code);
        assert_eq!(lease(&server)["spec"]["holderIdentity"], "", "{signal}");
    }
    assert!(server.pod_cidrs().values().all(Vec::is_empty));
}

#[test]
fn a_signal_ends_the_wait_for_the_lock() {
    let server = server();
    somebody_holds(&server);
    let (child, mut stderr, _terminal) =
        apply_at_a_terminal(&server, &["--lock-timeout", "10m", "--auto-approve"]);
    read_to(&mut stderr, "waiting for alice@laptop");
    interrupt(child, stderr, "-INT", 130);
    assert_eq!(lease(&server)["spec"]["holderIdentity"], "alice@laptop");
}

#[test]
fn no_lock_is_needed_for_blocks_to_stay_unique() {
    let server = server();
    somebody_holds(&server);
    server.expect("apply --auto-approve --no-lock", 0);
    assert_eq!(lease(&server)["spec"]["holderIdentity"], "alice@laptop");
    let claims = server
        .plane
        .get("/api/v1/namespaces/kube-system/configmaps/cilium-ipam-claims")
        .unwrap();
    assert_eq!(
        claims["metadata"]["labels"]["app.kubernetes.io/managed-by"],
        "cilium-ipam"
    );
    assert_eq!(
        claims["data"]["claims.json"],
        r#"{"format_version":"1.0","claims":[],"quarantined":[]}"#
    );
}

#[test]
fn a_claim_of_another_apply_is_kept_on_the_real_server_too() {
    let server = server();
    let n2 = server.plane.get("/api/v1/nodes/n2").unwrap();
    let (uid, version) = (&n2["metadata"]["uid"], &n2["metadata"]["resourceVersion"]);
    let claim =
        json!({"block": "10.20.0.0/24", "node": "n2", "uid": uid, "resource_version": version});
    let claims = json!({"format_version": "1.0", "claims": [claim]}).to_string();
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "cilium-ipam-claims"}, "data": {"claims.json": claims}});
    server
        .plane
        .create("/api/v1/namespaces/kube-system/configmaps", &map)
        .unwrap();
    server.expect("apply --auto-approve", 0);
    assert_eq!(server.pod_cidrs()["n1"], ["10.20.1.0/24"]);
    assert_eq!(server.pod_cidrs()["n2"], ["10.20.0.0/24"]);
}
