//! Releases of Cilium that are unknown: every command tells it, and what depends on their rules needs
//! approval.

use serde_json::{Value, json};
use testbed::Options;

use super::operator::until;
use super::running::Running;
use super::server::{Server, kubernetes, node as live_node};
use super::support::{
    Folder, KUBERNETES, TextAssertions, address_pool, cluster, holds, node, pool,
};

const POOL: &str = "{cidrs: [10.20.0.0/16], blockSize: 24}";
const UNKNOWN: [&str; 5] = ["1.21.0", "1.30.1", "1.20.3", "1.15.20", "1.18.0-rc.1"];

fn running(version: &str) -> Folder {
    let items = [node("n1", "a", &holds("10.20.1.0/24")), node("n2", "a", "")];
    Folder::new(&[
        ("cluster.json", &cluster(version, KUBERNETES, &items)),
        ("pools/a.yaml", &pool("a", POOL)),
    ])
}

fn on_file<'a>(command: &[&'a str]) -> Vec<&'a str> {
    [command, &["--cluster-file", "cluster.json"]].concat()
}

#[test]
fn every_command_tells_that_a_release_is_unknown() {
    for version in UNKNOWN {
        let folder = running(version);
        for command in [
            &["plan", "pools", "--fail-on", "never"][..],
            &["doctor", "pools", "--fail-on", "never"],
            &["show", "nodes", "pools"],
            &["show", "pools", "pools"],
            &["show", "lb"],
            &["explain", "n1", "pools"],
        ] {
            let ran = folder.run(&on_file(command));
            assert_eq!(ran.code, 0, "{command:?}: {}", ran.stderr);
            let text = ran.stdout + &ran.stderr;
            assert!(
                text.contains("unknown-version"),
                "{version} {command:?}: {text}"
            );
            assert!(
                text.contains(&format!("Cilium {version}")),
                "{version} {command:?}: {text}"
            );
        }
        let fail_on = on_file(&["plan", "pools", "--fail-on", "unknown-version"]);
        folder.run(&fail_on).expect(2);
    }
    for version in ["1.20.2", "1.11.0", "1.15.19-vendor.2"] {
        let folder = running(version);
        let ran = folder.run(&on_file(&["plan", "pools", "--fail-on", "unknown-version"]));
        assert_eq!(ran.code, 0, "{version}: {}", ran.stderr);
        assert!(
            !(ran.stdout + &ran.stderr).contains("unknown-version"),
            "{version}"
        );
    }
}

/// A tag that is no release, and no chart label or CRD.
#[test]
fn a_release_that_nothing_tells_is_unknown() {
    let folder = running("1.19.3");
    let seen = folder.read("cluster.json");
    for image in [":2024.5.1", ":latest", ":v2.0.0", "@sha256:0123"] {
        let hidden = seen.replace(":v1.19.3\"", &format!("{image}\""));
        assert_ne!(seen, hidden);
        folder.write("cluster.json", hidden);
        let plan = on_file(&["plan", "pools", "--fail-on", "unknown-version"]);
        let text = folder.run(&plan).expect(2).all();
        text.assert_has("tells the release of Cilium");
    }
}

#[test]
fn an_upgrade_to_an_unknown_release_is_not_judged() {
    let folder = running("1.19.3");
    let to = |version: &str| folder.run(&on_file(&["upgrade", "--no-pools", "--to", version]));
    for version in ["1.20.3", "1.19.9", "1.20.0-rc.1"] {
        let ran = to(version).expect(8);
        assert!(
            ran.stdout.contains("could not be checked"),
            "{version}: {}",
            ran.stdout
        );
        assert!(
            ran.stdout.contains(&format!("Cilium {version}")),
            "{version}: {}",
            ran.stdout
        );
        ran.stdout.assert_lacks("nothing changes");
    }
    for version in ["1.21", "1.30.0"] {
        let ran = to(version).expect(1);
        ran.stderr.assert_has("newer than the newest known release");
    }
    to("1.19.4").expect(0);
    let candidate = running("1.18.0-rc.1");
    let ran = candidate
        .run(&on_file(&["upgrade", "--no-pools", "--to", "1.18.0"]))
        .expect(8);
    ran.stdout.assert_has("1.18.0-rc.1");
}

/// `spec.podCIDRs` are the same in every release; a LoadBalancer pool waits.
#[test]
fn watch_writes_only_what_every_release_reads() {
    let options = Options {
        service_cluster_ip_range: "10.96.0.0/16".into(),
        ..Options::default()
    };
    let server = Server::start(&kubernetes("1.21.0", None), Some("1.20.2"), options, &[]);
    server.folder.write("pools/a.yaml", pool("a", POOL));
    server.folder.write(
        "pools/lb.yaml",
        address_pool("blue", "{blocks: [{cidr: 20.0.10.0/24}]}"),
    );
    let watching = Running::start(server.folder.path(), server.plane.kubeconfig(), &["watch"]);
    let seen: Value = watching.until("seen", json!({"waiting_count": 1}));
    assert_eq!(seen["warnings"][0]["rule"], "unknown-version", "{seen}");
    assert_eq!(seen["waiting"][0]["name"], "blue", "{seen}");
    let why = seen["waiting"][0]["hazard"].as_str().unwrap();
    assert!(why.contains("needs approval"), "{seen}");
    server.nodes([live_node("n1", json!({}))]);
    assert_eq!(watching.written("n1"), json!(["10.20.0.0/24"]));
    let pools = "/apis/cilium.io/v2/ciliumloadbalancerippools";
    assert!(server.plane.list(pools).unwrap().is_empty());
    server.expect("apply --auto-approve --no-lock", 0);
    until("a person's approval writes the pool", || {
        server.plane.list(pools).unwrap().len() == 1
    });
    watching.end();
}
