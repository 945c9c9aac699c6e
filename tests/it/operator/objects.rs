//! Custom resources: what the server accepts, and what the operator does and reports.

use serde_json::{Value, json};

use super::{
    DEFINITIONS, GROUP, condition, in_rack, install_definitions, object, operator_of, pool, server,
    until,
};
use crate::running::http_get;
use crate::server::Server;
use crate::support::TextAssertions;

fn events(server: &Server) -> Vec<(String, String, String)> {
    let events = server
        .plane
        .list("/api/v1/namespaces/default/events")
        .unwrap();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let ours = events
        .iter()
        .filter(|event| event["source"]["component"] == "cilium-ipam");
    ours.map(|event| {
        (
            text(&event["involvedObject"]["name"]),
            text(&event["reason"]),
            text(&event["message"]),
        )
    })
    .collect()
}

#[test]
fn the_server_takes_what_files_say_and_refuses_what_is_wrong() {
    let server = server();
    let pools = format!("{GROUP}/ippools");
    let both = json!({"cidrs": ["10.20.0.0/16", "fd00:20::/48"], "blockSize": {"ipv4": 24, "ipv6": 64}, "priority": 5,
        "nodeSelector": {"matchExpressions": [{"key": "rack", "operator": "In", "values": ["a"]}]},
        "reserved": ["10.20.0.0/22", "10.20.9.0-10.20.9.255"]});
    let taken = server
        .plane
        .create(&pools, &object("IPPool", "both", both.clone()))
        .unwrap();
    assert_eq!(
        taken["spec"], both,
        "nothing is added and nothing is dropped"
    );
    let pin = object(
        "NodeAssignment",
        "worker-7",
        json!({"podCIDRs": ["10.20.30.0/24"]}),
    );
    server
        .plane
        .create(&format!("{GROUP}/nodeassignments"), &pin)
        .unwrap();
    let service = object(
        "ServiceAssignment",
        "web",
        json!({"service": "shop/web", "ips": ["20.0.10.9"]}),
    );
    server
        .plane
        .create(&format!("{GROUP}/serviceassignments"), &service)
        .unwrap();
    let policy = object(
        "IPAMPolicy",
        "default",
        json!({"writePath": "auto", "quarantine": "5m", "limits": {"release": {"count": 0}}}),
    );
    server
        .plane
        .create(&format!("{GROUP}/ipampolicies"), &policy)
        .unwrap();

    let wrong = [
        (
            "ippools",
            "IPPool",
            json!({"cidrs": ["10.20.0.1/16"], "blockSize": 24}),
            "must not have bits set behind its prefix",
        ),
        (
            "ippools",
            "IPPool",
            json!({"cidrs": ["ten"], "blockSize": 24}),
            "must be a CIDR",
        ),
        (
            "ippools",
            "IPPool",
            json!({"cidrs": [], "blockSize": 24}),
            "should have at least 1 items",
        ),
        (
            "ippools",
            "IPPool",
            json!({"cidrs": ["10.20.0.0/16"]}),
            "spec.blockSize: Required value",
        ),
        (
            "ippools",
            "IPPool",
            json!({"cidrs": ["10.20.0.0/16"], "blockSize": 24, "nodeSelector": {"matchExpressions": [{"key": "a", "operator": "In"}]}}),
            "In and NotIn need values",
        ),
        (
            "nodeassignments",
            "NodeAssignment",
            json!({"podCIDRs": ["10.0.0.0/24", "10.0.1.0/24"]}),
            "at most one block for each family",
        ),
        (
            "serviceassignments",
            "ServiceAssignment",
            json!({"service": "web", "ips": ["20.0.10.9"]}),
            "should match",
        ),
        (
            "serviceassignments",
            "ServiceAssignment",
            json!({"service": "a/web", "ips": ["20.0.10"]}),
            "must be an address",
        ),
        (
            "ipampolicies",
            "IPAMPolicy",
            json!({"writePath": "wherever"}),
            "Unsupported value",
        ),
    ];
    for (path, kind, spec, message) in wrong {
        let error = server
            .plane
            .create(&format!("{GROUP}/{path}"), &object(kind, "wrong", spec))
            .unwrap_err()
            .to_string();
        assert!(error.contains(message), "{message}: {error}");
    }
}

#[test]
fn nodes_get_blocks_of_pools_and_everything_is_told() {
    let server = server();
    let pools = format!("{GROUP}/ippools");
    server
        .plane
        .create(&pools, &pool("a", "10.20.0.0/23", "a"))
        .unwrap();
    let operator = operator_of(&server);
    let address = operator.address();
    operator.until("leads", json!({}));
    server.nodes([in_rack("n1", "a")]);
    assert_eq!(operator.written("n1"), json!(["10.20.0.0/24"]));
    assert_eq!(http_get(&address, "/livez").0, 200);
    until("it is ready", || http_get(&address, "/readyz").0 == 200);
    assert_eq!(http_get(&address, "/secrets").0, 404);

    let status = condition(&server, "ippools/a", "Ready", "Applied");
    assert_eq!(status["observedGeneration"], 1);
    until("the pool's counts are right", || {
        server.plane.get(&format!("{pools}/a")).unwrap()["status"]["blocks"][0]
            == json!({"family": "IPv4", "total": 2, "used": 1, "reserved": 0, "free": 1})
    });

    for name in ["n2", "n3"] {
        server.nodes([in_rack(name, "a")]);
    }
    condition(&server, "ippools/a", "Exhausted", "NodesWithoutBlock");
    until("the status shows the plan after the write", || {
        server.plane.get(&format!("{pools}/a")).unwrap()["status"]["nodes"] == 2
    });
    let metrics = http_get(&address, "/metrics").1;
    for line in [
        r#"cilium_ipam_capacity{kind="IPPool",name="a",family="IPv4",state="used"} 2"#,
        r#"cilium_ipam_pool_exhausted{pool="a"} 1"#,
        r#"cilium_ipam_writes_total{kind="Node",outcome="applied"} 2"#,
        r#"cilium_ipam_blocked{kind="Node"} 1"#,
        r#"cilium_ipam_findings{rule="duplicate-block",severity="error"} 0"#,
        "cilium_ipam_leader 1",
        "cilium_ipam_node_block_wait_seconds_count 2",
        "# EOF",
    ] {
        assert!(metrics.contains(line), "no {line} in:\n{metrics}");
    }
    let told = |about: &str, reason: &str| {
        events(&server)
            .iter()
            .any(|(name, why, _)| name == about && why == reason)
    };
    until("Events tell of it", || {
        told("n1", "PodCIDRAssigned") && told("n3", "PodCIDRBlocked") && told("a", "Exhausted")
    });

    // The API server accepts this invalid object. The operator reports it and does not use it.
    let narrow = json!({"spec": {"blockSize": 8}});
    server.plane.patch(&format!("{pools}/a"), &narrow).unwrap();
    operator.until("invalid", json!({}));
    let status = condition(&server, "ippools/a", "Ready", "Invalid");
    assert_eq!(status["observedGeneration"], 2, "{status}");
    let metrics = http_get(&address, "/metrics").1;
    metrics.assert_has("cilium_ipam_source_invalid 1");
    let wide = json!({"spec": {"blockSize": 24, "cidrs": ["10.20.0.0/23", "10.21.0.0/24"]}});
    server.plane.patch(&format!("{pools}/a"), &wide).unwrap();
    assert_eq!(operator.written("n3"), json!(["10.21.0.0/24"]));
    condition(&server, "ippools/a", "Exhausted", "Enough");
    let pin = object(
        "NodeAssignment",
        "n1",
        json!({"podCIDRs": ["10.20.0.0/24"]}),
    );
    server
        .plane
        .create(&format!("{GROUP}/nodeassignments"), &pin)
        .unwrap();
    condition(&server, "nodeassignments/n1", "Assigned", "Done");
    assert_eq!(operator.end(), 0);
}

#[test]
fn a_pool_in_use_is_not_lost() {
    let server = server();
    let pools = format!("{GROUP}/ippools");
    server
        .plane
        .create(&pools, &pool("a", "10.20.0.0/16", "a"))
        .unwrap();
    let operator = operator_of(&server);
    server.nodes([in_rack("n1", "a")]);
    operator.written("n1");
    condition(&server, "ippools/a", "Ready", "Applied");
    server.plane.delete(&format!("{pools}/a")).unwrap();
    let status = condition(&server, "ippools/a", "Ready", "InUse");
    assert_eq!(status["nodes"], 1, "{status}");
    server.nodes([in_rack("n2", "a")]);
    let blocked = operator.until("seen", json!({"nodes": 2}));
    assert_eq!(
        blocked["blocked"][0]["name"], "n2",
        "it gives nothing new: {blocked}"
    );
    server.plane.delete("/api/v1/nodes/n1").unwrap();
    until("the pool is gone", || {
        server.plane.list(&pools).unwrap().is_empty()
    });
}

#[test]
fn a_pool_with_faults_that_was_deleted_keeps_what_it_gave() {
    let server = server();
    let pools = format!("{GROUP}/ippools");
    server
        .plane
        .create(&pools, &pool("a", "10.20.0.0/16", "a"))
        .unwrap();
    let operator = operator_of(&server);
    server.nodes([in_rack("n1", "a")]);
    operator.written("n1");
    server
        .plane
        .patch(
            &format!("{pools}/a"),
            &json!({"spec": {"reserved": ["10.20.0.0-10.20"]}}),
        )
        .unwrap();
    condition(&server, "ippools/a", "Ready", "Invalid");
    server.plane.delete(&format!("{pools}/a")).unwrap();
    server
        .plane
        .create(
            &pools,
            &object(
                "IPPool",
                "b",
                json!({"cidrs": ["10.40.0.0/16"], "blockSize": 24}),
            ),
        )
        .unwrap();
    condition(&server, "ippools/b", "Ready", "Applied");
    server.nodes([in_rack("n2", "a")]);
    assert_eq!(
        operator.written("n2"),
        json!(["10.40.0.0/24"]),
        "it is in nobody's way"
    );
    server.plane.get(&format!("{pools}/a")).unwrap();
    // One that was never in force has given nothing.
    let never = object(
        "IPPool",
        "never",
        json!({"cidrs": ["10.50.0.0/16"], "blockSize": 24, "nodeSelector": null}),
    );
    server.plane.create(&pools, &never).unwrap();
    let status = condition(&server, "ippools/never", "Ready", "Invalid");
    assert!(
        status["conditions"]
            .to_string()
            .contains("`spec.nodeSelector` is empty"),
        "{status}"
    );
    server.plane.delete(&format!("{pools}/never")).unwrap();
    until("it is gone", || {
        server.plane.get(&format!("{pools}/never")).is_err()
    });
    server.plane.delete("/api/v1/nodes/n1").unwrap();
    until("it is gone, too", || {
        server.plane.get(&format!("{pools}/a")).is_err()
    });
}

#[test]
fn definitions_that_come_late_or_go_never_mean_that_nothing_is_asked_for() {
    let server = Server::usual();
    let operator = operator_of(&server);
    let unread = operator.until("invalid", json!({"rules": ["objects-unread"]}));
    assert_eq!(unread["findings"].as_array().unwrap().len(), 4, "{unread}");
    install_definitions(&server);
    server
        .plane
        .create(&format!("{GROUP}/ippools"), &pool("a", "10.20.0.0/16", "a"))
        .unwrap();
    server.nodes([in_rack("n1", "a")]);
    operator.written("n1");
    let policy = object(
        "IPAMPolicy",
        "default",
        json!({"excluded": ["10.20.1.0/24"]}),
    );
    server
        .plane
        .create(&format!("{GROUP}/ipampolicies"), &policy)
        .unwrap();
    condition(&server, "ipampolicies/default", "Ready", "Applied");
    // It takes its objects away first.
    server
        .plane
        .delete(&format!("{DEFINITIONS}/ipampolicies.cilium-ipam.io"))
        .unwrap();
    operator.until("invalid", json!({"rules": ["objects-unread"]}));
    server.nodes([in_rack("n2", "a")]);
    assert_eq!(
        operator.written("n2"),
        json!(["10.20.2.0/24"]),
        "the last valid ones still apply"
    );
}
