//! Networks that only a NetworkAttachmentDefinition configures: the daemon reads them from the runtime's
//! cache.

use serde_json::json;
use testbed::openstack::Options;
use testbed::or_skip;

use super::daemon::{DaemonSet, in_pool};
use super::support::{Plugin, ports, stack};

#[test]
fn a_network_of_the_runtimes_cache_has_a_pool_while_pods_use_it() {
    let stack = or_skip!(stack(&Options::default()));
    let network = stack.create_network("pods").unwrap();
    stack
        .create_subnet(&network, "10.1.0.0/24", &json!({}))
        .unwrap();
    let plugin = Plugin::new(&stack, &network, "n1").with("warmPool", json!({"free": 2}));
    // No file configures it.
    let set = DaemonSet::new(&[]);
    let addresses = plugin.add("a");
    set.remember_of("a", &addresses, &plugin.configuration);
    let daemon = set.start();
    daemon.wait_until("the pool to be filled", || in_pool(&plugin, "free") == 2);
    assert_eq!(ports(&stack, &network).len(), 3, "{}", set.log());
    drop(daemon);
    plugin.del("a");
    set.forget("a");
    // Another process knows it still, and empties it.
    let daemon = set.start();
    daemon.wait_until("the pool to be emptied", || {
        ports(&stack, &network).is_empty()
    });
    let stored = set.state().join("networks/examplenet.json");
    daemon.wait_until("the network to be forgotten", || !stored.exists());
    assert!(!set.log().contains("no configuration"), "{}", set.log());
}
