//! Several replicas: one leads, another takes over.

use serde_json::json;
use testbed::Ending;

use super::{GROUP, condition, in_rack, object, operator_of, pool, server, until};
use crate::running::{Running, http_get};

#[test]
fn whoever_stands_by_takes_over_and_a_pause_is_kept() {
    let mut server = server();
    server
        .plane
        .create(&format!("{GROUP}/ippools"), &pool("a", "10.20.0.0/16", "a"))
        .unwrap();
    let first = operator_of(&server);
    first.until("leads", json!({}));
    let second = operator_of(&server);
    let address = second.address();
    second.until("stands-by", json!({}));
    until("who stands by is ready, too", || {
        http_get(&address, "/readyz").0 == 200
    });
    server.nodes([in_rack("n1", "a")]);
    first.written("n1");
    first.kill();
    server.nodes([in_rack("n2", "a")]);
    assert_eq!(second.written("n2"), json!(["10.20.1.0/24"]));

    // The brake works whatever is wrong elsewhere.
    let faulty = object(
        "IPPool",
        "faulty",
        json!({"cidrs": ["10.50.0.0/16"], "blockSize": 8}),
    );
    server
        .plane
        .create(&format!("{GROUP}/ippools"), &faulty)
        .unwrap();
    condition(&server, "ippools/faulty", "Ready", "Invalid");
    let policy = object("IPAMPolicy", "default", json!({"paused": true}));
    server
        .plane
        .create(&format!("{GROUP}/ipampolicies"), &policy)
        .unwrap();
    second.until("seen", json!({"paused": true}));
    server.nodes([in_rack("n3", "a")]);
    let seen = second.until("seen", json!({"nodes": 3}));
    assert_eq!(
        seen["waiting"][0],
        json!({"kind": "Node", "name": "n3", "hazard": "paused"})
    );
    server
        .plane
        .patch(
            &format!("{GROUP}/ipampolicies/default"),
            &json!({"spec": {"paused": false}}),
        )
        .unwrap();
    server
        .plane
        .delete(&format!("{GROUP}/ippools/faulty"))
        .unwrap();
    assert_eq!(second.written("n3"), json!(["10.20.2.0/24"]));

    condition(&server, "ipampolicies/default", "Refused", "WithinLimits");
    server
        .plane
        .patch(
            &format!("{GROUP}/ipampolicies/default"),
            &json!({"spec": {"limits": {"assign": {"count": 1}}}}),
        )
        .unwrap();
    second.until("in-force", json!({}));
    server.nodes([in_rack("n5", "a"), in_rack("n6", "a"), in_rack("n7", "a")]);
    let status = condition(
        &server,
        "ipampolicies/default",
        "Refused",
        "LimitOrProtection",
    );
    assert!(status.to_string().contains("assign"), "{status}");
    let unlimited = json!({"spec": {"limits": null}});
    server
        .plane
        .patch(&format!("{GROUP}/ipampolicies/default"), &unlimited)
        .unwrap();
    condition(&server, "ipampolicies/default", "Refused", "WithinLimits");

    // One that ends by itself lets the next one lead at once.
    let third = operator_of(&server);
    third.until("stands-by", json!({}));
    assert_eq!(second.end(), 0);
    third.until("leads", json!({}));
    server.plane.restart_apiserver(Ending::Killed).unwrap();
    server.nodes([in_rack("n4", "a")]);
    assert_eq!(third.written("n4"), json!(["10.20.6.0/24"]));
}

#[test]
fn a_clock_that_jumps_neither_loses_the_lease_nor_takes_it() {
    let library = format!(
        "usr/lib/{}-linux-gnu/faketime/libfaketime.so.1",
        std::env::consts::ARCH
    );
    let library = testbed::or_skip!(testbed::debian_file("libfaketime", &library));
    let server = server();
    server
        .plane
        .create(&format!("{GROUP}/ippools"), &pool("a", "10.20.0.0/16", "a"))
        .unwrap();
    let clock = server.folder.join("clock");
    let jump = |by: &str| {
        server.folder.write("clock~", by);
        std::fs::rename(server.folder.join("clock~"), &clock).unwrap();
    };
    jump("+0");
    let variables = [
        ("LD_PRELOAD", library.to_str().unwrap()),
        ("FAKETIME_TIMESTAMP_FILE", clock.to_str().unwrap()),
        ("FAKETIME_NO_CACHE", "1"),
        ("FAKETIME_DONT_FAKE_MONOTONIC", "1"),
    ];
    let with_that_clock = || {
        let arguments = ["operator", "--listen", "127.0.0.1:0"];
        Running::start_with(
            server.folder.path(),
            server.plane.kubeconfig(),
            &arguments,
            &variables,
        )
    };
    let first = with_that_clock();
    first.until("leads", json!({}));
    let second = operator_of(&server);
    second.until("stands-by", json!({}));
    let lease = || {
        server
            .plane
            .get("/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/cilium-ipam-operator")
            .unwrap()
    };
    let holder = lease()["spec"]["holderIdentity"].clone();
    let renewed_by_that_clock = |by: &str| {
        let is_week = |at: &str| {
            at.parse::<jiff::Timestamp>()
                .unwrap()
                .duration_since(jiff::Timestamp::now())
                .as_hours()
                .abs()
                > 24
        };
        // Seen so twice by those who stand by, who look every second, and renewed every other
        // second.
        for _ in 0..3 {
            let version = lease()["metadata"]["resourceVersion"].clone();
            until("the Lease is renewed", || {
                let lease = lease();
                let at = lease["spec"]["renewTime"].as_str().unwrap().to_owned();
                lease["metadata"]["resourceVersion"] != version && is_week(&at) == (by != "+0")
            });
        }
    };
    for (index, by) in ["+7d", "-7d", "+0"].into_iter().enumerate() {
        jump(by);
        renewed_by_that_clock(by);
        assert_eq!(lease()["spec"]["holderIdentity"], holder, "{by}");
        let name = format!("n{index}");
        server.nodes([in_rack(&name, "a")]);
        let written = first.until("written", json!({"kind": "Node", "name": name}));
        let said = written["time"]
            .as_str()
            .unwrap()
            .parse::<jiff::Timestamp>()
            .unwrap();
        let apart = said.duration_since(jiff::Timestamp::now()).as_hours().abs();
        assert_eq!(apart > 24, by != "+0", "the clock did jump: {written}");
    }
    assert!(
        second.lines.try_iter().all(|line| line["event"] != "leads"),
        "the Lease was never free"
    );
    // One that stands by with a wrong clock takes over no sooner and no later.
    let third = with_that_clock();
    third.until("stands-by", json!({}));
    jump("+7d");
    renewed_by_that_clock("+7d");
    server.nodes([in_rack("n7", "a")]);
    first.written("n7");
    assert!(
        third.lines.try_iter().all(|line| line["event"] != "leads"),
        "by its clock the Lease is a week old"
    );
    first.kill();
    second.kill();
    server.nodes([in_rack("n8", "a")]);
    assert_eq!(third.written("n8"), json!(["10.20.4.0/24"]));
}
