//! The metrics of the daemon, and its answers to kubelet's probes.

use serde_json::json;
use testbed::openstack::{MEMBER_PASSWORD, Options};
use testbed::or_skip;

use crate::neutron::daemon::{Daemon, DaemonSet, in_pool};
use crate::neutron::support::{Plugin, stack};
use crate::readme::metrics;
use crate::running::http_get;
use crate::support::{TextAssertions, repository};

#[test]
fn the_port_tells_what_the_daemon_sees() {
    let stack = or_skip!(stack(&Options::default()));
    let network = stack.create_network("pods").unwrap();
    stack
        .create_subnet(&network, "10.1.0.0/24", &json!({}))
        .unwrap();
    let plugin = Plugin::new(&stack, &network, "n1").with("deadlineSeconds", json!(10));
    let plugin = plugin.with("warmPool", json!({"free": 2}));
    let set = DaemonSet::new(&[&plugin]);
    let daemon = set.start_with(&["--listen", "0"]);
    let address = address(&set, &daemon);
    let get = |path: &str| http_get(&address, path);
    daemon.wait_until("the daemon to be ready", || get("/readyz").0 == 200);
    daemon.wait_until("the pool to be filled", || in_pool(&plugin, "free") == 2);
    for path in ["/livez", "/healthz", "/readyz"] {
        assert_eq!(get(path), (200, "ok\n".to_owned()), "{path}");
    }
    assert_eq!(get("/").0, 404);
    let shows = |sample: &str| get("/metrics").1.lines().any(|line| line == sample);
    let port = |state: &str, count: u32| {
        shows(&format!(
            "neutron_node_ports{{network=\"examplenet\",state=\"{state}\"}} {count}"
        ))
    };
    daemon.wait_until("two free ports", || port("free", 2) && port("attached", 0));
    plugin.add("a");
    daemon.wait_until("one attached port", || {
        port("free", 2) && port("attached", 1)
    });
    let text = get("/metrics").1;
    let page = std::fs::read_to_string(repository().join("docs/src/reference/metrics.md")).unwrap();
    metrics::has_all(&page, &text);
    for sample in [
        "neutron_node_warm_pool_wanted{network=\"examplenet\"} 2",
        "neutron_node_failing{network=\"examplenet\"} 0",
        "neutron_node_lost_ports{network=\"examplenet\"} 0",
    ] {
        assert!(text.lines().any(|line| line == sample), "{sample}\n{text}");
    }
    for start in [
        "neutron_node_syncs_total{network=\"examplenet\",outcome=\"succeeded\"} ",
        "neutron_node_last_sync_timestamp_seconds{network=\"examplenet\"} ",
        "neutron_node_openstack_request_seconds_count{service=\"keystone\",method=\"POST\",status=\"201\"} 1",
        "neutron_node_openstack_request_seconds_count{service=\"neutron\",method=\"POST\",status=\"201\"} ",
    ] {
        assert!(text.contains(start), "{start}\n{text}");
    }
    stack.neutron().stop();
    daemon.wait_until("the failure to show", || {
        shows("neutron_node_failing{network=\"examplenet\"} 1") && get("/readyz").0 == 503
    });
    let why = get("/readyz").1;
    // The errors are in the log.
    assert_eq!(why.trim_end(), "failing, see the log: examplenet");
    assert_eq!(get("/livez").0, 200, "kubelet must not restart it");
    let text = get("/metrics").1;
    let failed = "neutron_node_syncs_total{network=\"examplenet\",outcome=\"failed\"} ";
    text.assert_has(failed);
    assert!(!(text + &why).contains(MEMBER_PASSWORD));
    stack.neutron().start().unwrap();
    daemon.wait_until("the daemon to recover", || get("/readyz").0 == 200);
    assert_eq!(daemon.end(), 0);
}

/// A daemon that cannot listen ends: kubelet would otherwise restart it for ever without a word.
#[test]
fn a_port_in_use_is_an_error() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let set = DaemonSet::new(&[]);
    assert_eq!(set.ends_with(&["--listen", &port]), 1);
    let expected = format!("--listen 127.0.0.1:{port}: ");
    assert!(set.log().contains(&expected), "{}", set.log());
}

/// Where it listens, by its log.
fn address(set: &DaemonSet, daemon: &Daemon<'_>) -> String {
    let start = "health: listening on ";
    daemon.wait_until("the daemon to listen", || set.log().contains(start));
    let log = set.log();
    let (_, rest) = log.split_once(start).unwrap();
    rest.lines().next().unwrap().to_owned()
}
