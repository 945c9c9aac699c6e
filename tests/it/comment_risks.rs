//! The risks that the comment of a pull request names, on clusters that have them: a node that moves
//! unnoticed among others, lost addresses, drift.

use super::comment::dry_run;
use super::markdown::assert_text_only;
use super::support::{Folder, KUBERNETES, TextAssertions, cluster, holds, node, pool};

/// Forty nodes get a first block, three get none, and one that runs Pods moves.
pub(super) fn hidden_move() -> Folder {
    let rack = |name: &str, range: &str| {
        let selector = format!("{{matchLabels: {{rack: {name}}}}}");
        pool(
            name,
            &format!("{{cidrs: [{range}], blockSize: 24, nodeSelector: {selector}}}"),
        )
    };
    let head = "apiVersion: cilium-ipam.io/v1alpha1\nkind:";
    let pin = format!(
        "{head} NodeAssignment\nmetadata: {{name: db-7}}\nspec: {{pool: a, podCIDRs: [10.20.9.0/24]}}\n"
    );
    let policy =
        format!("{head} IPAMPolicy\nmetadata: {{name: p}}\nspec: {{writePath: node-config}}\n");
    let moved = node("db-7", "a", &holds("10.20.5.0/24"));
    let named = r#"{"kubernetes.io/hostname":"db-7","rack""#;
    let mut nodes = vec![moved.replace(r#"{"rack""#, named)];
    nodes.extend((0..40).map(|number| node(&format!("n{number:02}"), "a", "")));
    nodes.extend((0..4).map(|number| node(&format!("edge-{number}"), "b", "")));
    Folder::new(&[
        ("pools/a.yaml", &rack("a", "10.20.0.0/16")),
        ("pools/b.yaml", &rack("b", "10.30.0.0/24")),
        ("pools/pin.yaml", &pin),
        ("pools/policy.yaml", &policy),
        ("cluster.json", &cluster("1.19.3", KUBERNETES, &nodes)),
    ])
}

#[test]
fn the_riskiest_change_is_named_beside_what_is_wrong() {
    let folder = hidden_move();
    let text = folder
        .expect("comment pools --cluster-file cluster.json --dry-run", 2)
        .stdout;
    let lines: Vec<&str> = text.lines().filter(|line| !line.is_empty()).collect();
    assert_eq!(
        lines[0],
        "### `pools`: 41 to assign, 1 to update, 1 moved; 3 blocked. 1 error found."
    );
    assert_eq!(
        lines[1],
        "**Merging this writes 42 changes:** 1 node moves to another block (a range of Pod addresses) when its agent restarts, 41 nodes get a block; 3 blocked objects stay as they are. The error below stops none of these writes."
    );
    assert_eq!(
        lines[2..7],
        [
            "**Look at first:** node `db-7` moves from `10.20.5.0/24` to `10.20.9.0/24` when its Cilium agent restarts, pinned by `pools/pin.yaml:3`",
            "- **Pods:** they keep their addresses until the node's Cilium agent restarts. No job restarts it: a person, a reboot or an upgrade does. Pods that still have an address of the old block then lose their network, until they are created again.",
            "- **How:** the new block is written to a `CiliumNodeConfig` for this node. Its agent reads that when it starts, and takes this block in place of the one in `Node.spec.podCIDRs`. That field can be written only once, so it keeps showing the old block, and no other node gets that block.",
            "- **Fix:** remove the pin, and the node keeps `10.20.5.0/24`; or drain the node before the merge, restart its agent after the apply job, delete the Pods that a drain leaves (those of DaemonSets), and then uncordon it",
            "- **Way back:** pin `10.20.5.0/24` in place of the new block, or apply the undo plan, which takes back all of the apply that can be undone; then drain the node and restart its agent again. Once the block is written, removing the pin is not enough",
        ]
    );
    let then = "**Then:** error `pool-exhausted`: pool `b`";
    assert!(lines[7].starts_with(then), "{text}");
    assert!(lines[7].contains("; **fix:** "), "{text}");
    assert_eq!(
        lines[8],
        "**Check:** the job of this comment fails (exit code 2) because of errors. A branch that requires it does not take the merge."
    );
    // The first lines tell the only move, and its old block is not drift.
    for absent in [
        "<summary>move when",
        "differs from Git",
        "node-spec",
        "node-config",
    ] {
        assert!(!text.contains(absent), "{absent} in {text}");
    }
    let blocked =
        "| no pool can serve it: b is full | widen the pool, or add a further pool that matches |";
    text.assert_has(blocked);
    let pool = "<summary>pool <code>a</code>, 40 changes: lowest free block of pool a; written to <code>Node.spec.podCIDRs</code></summary>";
    text.assert_has(pool);
    a_protected_move_has_one_way_out(&folder);
}

fn a_protected_move_has_one_way_out(folder: &Folder) {
    let policy = folder.read("pools/policy.yaml");
    let protected = "writePath: node-config, protected: {nodes: [db-7]}";
    let policy = policy.replace("writePath: node-config", protected);
    folder.write("pools/policy.yaml", policy);
    let text = dry_run(folder.path(), &["pools", "--cluster-file", "cluster.json"]);
    let text = text.expect(5).stdout;
    assert_text_only(&text);
    for part in [
        "\n**The apply job will write nothing; if `cilium-ipam watch` or `cilium-ipam operator` follows these files, merging still writes 41 changes: they need no person.** The whole plan is refused by `protected-node`. Without this refusal, the job would write 42 changes: ",
        " A `watch` at rest leaves no trace in the cluster, so it may run unseen.\n",
        "\n**Look at first:** refused by `protected-node`: node `db-7` would move from `10.20.5.0/24` to `10.20.9.0/24`, and is protected; **fix:** remove the pin, and the node keeps its block; if it is to move, first remove the protection, in a change of its own\n",
        "\n**Riskiest change, if nothing refused it:** node `db-7` moves ",
        "\n- **Fix:** remove the pin, and the node keeps `10.20.5.0/24`; or drain ",
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
}

/// A LoadBalancer Service that has this address.
fn with_address(name: &str, address: &str) -> String {
    format!(
        r#"{{"apiVersion":"v1","kind":"Service","metadata":{{"name":"{name}","namespace":"shop","uid":"u-{name}","creationTimestamp":"2026-01-01T00:00:00Z"}},"spec":{{"type":"LoadBalancer","ports":[{{"port":443,"protocol":"TCP"}}]}},"status":{{"loadBalancer":{{"ingress":[{{"ip":"{address}"}}]}},"conditions":[{{"type":"cilium.io/IPAMRequestSatisfied","status":"True","lastTransitionTime":"2026-01-01T00:00:00Z","reason":"satisfied","message":""}}]}}}}"#
    )
}

/// A pool of LoadBalancer addresses in a file.
fn address_pool(name: &str, cidr: &str) -> String {
    format!(
        "apiVersion: cilium.io/v2alpha1\nkind: CiliumLoadBalancerIPPool\nmetadata: {{name: {name}}}\nspec: {{blocks: [{{cidr: {cidr}}}]}}\n"
    )
}

/// Cilium takes addresses away only once there is a pool, so no pool had the address before.
#[test]
fn an_address_that_a_new_pool_takes_counts_once() {
    let objects = [with_address("web", "203.0.113.10")];
    let folder = Folder::new(&[
        ("pools/new.yaml", &address_pool("new", "198.51.100.0/24")),
        ("cluster.json", &cluster("1.19.3", KUBERNETES, &objects)),
    ]);
    let text = dry_run(folder.path(), &["pools", "--cluster-file", "cluster.json"]);
    let text = text.expect(5).stdout;
    let title = text.lines().next().unwrap();
    assert_eq!(
        title,
        "### `pools`: refused for 1 reason; 1 address would be lost; 1 LoadBalancer change, 0 moved."
    );
    text.assert_has("**destructive:** pool `new`");
}

/// A pool shrinks: one Service certainly loses its address, and two may.
pub(super) fn lost_address() -> Folder {
    let held = r#"{"apiVersion":"cilium.io/v2alpha1","kind":"CiliumLoadBalancerIPPool","metadata":{"name":"public","creationTimestamp":"2026-01-01T00:00:00Z"},"spec":{"blocks":[{"cidr":"203.0.113.0/24"}]}}"#;
    let objects = [
        held.to_owned(),
        with_address("web", "203.0.113.10"),
        with_address("api", "203.0.113.11"),
        with_address("dns", "203.0.113.200"),
    ];
    let smaller = address_pool("public", "203.0.113.0/25");
    Folder::new(&[
        ("pools/public.yaml", &smaller),
        ("cluster.json", &cluster("1.19.3", KUBERNETES, &objects)),
    ])
}

#[test]
fn a_lost_address_has_its_cause_beside_it() {
    let folder = lost_address();
    let text = dry_run(folder.path(), &["pools", "--cluster-file", "cluster.json"]);
    let text = text.expect(5).stdout;
    assert_text_only(&text);
    let cause = "the cause: pool `public` changes from `203.0.113.0/24` to `203.0.113.0/25` (`pools/public.yaml:3`)";
    for line in [
        "### `pools`: refused for 1 reason; 1 address would be lost, 2 might be lost; 1 LoadBalancer change, 0 moved.".to_owned(),
        "**The apply job will write nothing:** the whole plan is refused by `lost-addresses`. Without this refusal, the job would write 1 change: 1 LoadBalancer pool shrinks and is adopted; 0 nodes move. `cilium-ipam watch` and `cilium-ipam operator` write none of it without a person, either.".to_owned(),
        "**destructive:** pool `public` shrinks, and cilium-ipam manages it from then on".to_owned(),
        "**Look at first:** Service `shop/dns` would lose `203.0.113.200` if this were applied: no pool covers it".to_owned(),
        "- **Cause:** pool `public` changes from `203.0.113.0/24` to `203.0.113.0/25` (`pools/public.yaml:3`)".to_owned(),
        "- **Afterwards:** it then gets an IPv4 address of public".to_owned(),
        "- **Fix:** keep the addresses in `public` until the Services have others: pin each Service to an address that stays (`ServiceAssignment`) when its clients can follow; to lose them on purpose, pass `--waive lost-addresses=3` to `comment` and to `apply` (the number counts those at risk, too)".to_owned(),
        format!(
            "- **address at risk:** 2 Services might lose an address if this were applied: the range of the pool with this address changes, and Cilium then gives the addresses of that range anew, so another Service may get it first; {cause}; these: `shop/api` `203.0.113.11`, `shop/web` `203.0.113.10`"
        ),
    ] {
        assert!(text.lines().any(|shown| shown == line), "{line} in {text}");
    }
    assert_eq!(text.matches("203.0.113.200").count(), 1, "{text}");
    assert_eq!(text.to_lowercase().matches("**fix:**").count(), 1, "{text}");

    let waived = ["pools", "--cluster-file", "cluster.json", "--waive"];
    let waived = dry_run(
        folder.path(),
        &[&waived[..], &["lost-addresses=3"]].concat(),
    );
    let waived = waived.expect(0).stdout;
    for part in [
        "Service `shop/dns` loses `203.0.113.200` when this is applied: ",
        "2 Services may lose an address when this is applied: ",
    ] {
        assert!(waived.contains(part), "{part} in {waived}");
    }
}

#[test]
fn drift_is_told_as_a_difference_with_its_writer_and_what_a_merge_does() {
    let drifted = r#"{"apiVersion":"v1","kind":"Node","metadata":{"name":"n","uid":"u","resourceVersion":"1","annotations":{"network.cilium.io/ipv4-pod-cidr":"10.20.9.0/24"},"managedFields":[{"manager":"kubectl-annotate","operation":"Update","time":"2026-02-01T10:00:00Z","fieldsV1":{"f:metadata":{"f:annotations":{"f:network.cilium.io/ipv4-pod-cidr":{}}}}}]},"spec":{"podCIDR":"10.20.5.0/24","podCIDRs":["10.20.5.0/24"]}}"#;
    let folder = Folder::new(&[
        (
            "pools/a.yaml",
            &pool("a", "{cidrs: [10.20.0.0/16], blockSize: 24}"),
        ),
        (
            "cluster.json",
            &cluster("1.19.3", KUBERNETES, &[drifted.into()]),
        ),
    ]);
    let text = dry_run(folder.path(), &["pools", "--cluster-file", "cluster.json"]);
    let text = text.expect(0).stdout;
    assert_text_only(&text);
    for part in [
        "### `pools`: 1 drifted node; no changes. 0 of 1 node matches the files, 0 moved.\n",
        "**Merging this writes nothing:** there is nothing to change; 0 nodes move.\n",
        "<details open><summary>the cluster differs from Git in 1 field, as it is now</summary>",
        "| field | last written by | a merge writes | objects |",
        "| `kubectl-annotate` at `2026-02-01T10:00:00Z` | nothing of it | `n` shows `10.20.9.0/24` (expected `10.20.5.0/24`) |",
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
}
