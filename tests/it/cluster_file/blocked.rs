//! What blocks a change, and with which reason.

use super::{POOL, blocked, cilium_node, folder, plan};
use crate::support::{Folder, KUBERNETES, holds, node, pin, pool};

#[test]
fn blocks_with_their_reasons() {
    let kubernetes = |more: &str| format!("{KUBERNETES}{more}");
    let annotation = "apiVersion: cilium-ipam.io/v1alpha1\nkind: IPAMPolicy\nmetadata: {name: p}\nspec: {writePath: node-annotation}\n";
    let with_policy = [pool("a", POOL), annotation.to_owned()];
    let bare = [node("n", "a", "")];
    let controller = r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"kcm","namespace":"kube-system","labels":{"component":"kube-controller-manager"}},"spec":{"containers":[{"name":"kcm","command":["kube-controller-manager","--allocate-node-cidrs=true"]}]}}"#;
    let cases = [
        (
            folder(
                "1.19.3",
                r#""ipam":"cluster-pool""#,
                &bare,
                &[pool("a", POOL)],
            ),
            "what Cilium's operator does is unknown",
        ),
        (
            folder("1.19.3", "", &bare, &[pool("a", POOL)]),
            "what Cilium's operator does is unknown",
        ),
        (
            folder("1.19.3", r#""ipam":"eni""#, &bare, &[pool("a", POOL)]),
            "another allocator",
        ),
        (
            folder("1.19.3", r#""ipam":"novel""#, &bare, &[pool("a", POOL)]),
            "unknown ipam `novel`",
        ),
        (
            folder("1.19.3", KUBERNETES, &bare, &with_policy),
            "annotate-k8s-node is not \"true\"",
        ),
        (
            folder("digest-only", KUBERNETES, &bare, &with_policy),
            "version is unknown",
        ),
        (
            folder(
                "1.19.3",
                KUBERNETES,
                &[node("n", "a", ""), controller.into()],
                &[pool("a", POOL)],
            ),
            "--allocate-node-cidrs=true",
        ),
        (
            folder(
                "1.19.3",
                KUBERNETES,
                &[node("n", "a", r#""podCIDRs":["ten"]"#)],
                &[pool("a", POOL)],
            ),
            "cannot be read",
        ),
        (
            folder(
                "1.19.3",
                KUBERNETES,
                &bare,
                &[pool(
                    "a",
                    "{cidrs: [10.20.0.0/16], blockSize: 24, disabled: true}",
                )],
            ),
            "a is disabled",
        ),
        (
            folder(
                "1.19.3",
                KUBERNETES,
                &bare,
                &[pool(
                    "a",
                    "{cidrs: [10.20.0.0/16], blockSize: 24, nodeSelector: {matchLabels: {rack: b}}}",
                )],
            ),
            "no pool matches",
        ),
        (
            folder(
                "1.19.3",
                KUBERNETES,
                &[node("n", "a", &holds("10.20.1.0/24"))],
                &[pool("a", POOL), pin("n", "10.20.2.0/24")],
            ),
            "never moves by itself",
        ),
        (
            folder(
                "1.19.3",
                KUBERNETES,
                &[node("n", "a", ""), node("m", "a", &holds("10.20.2.0/24"))],
                &[pool("a", POOL), pin("n", "10.20.2.0/24")],
            ),
            "held by node m",
        ),
        (
            folder(
                "1.19.3",
                KUBERNETES,
                &[node("n", "a", &holds("10.20.2.0/24"))],
                &[pool(
                    "a",
                    "{cidrs: [10.20.0.0/16, \"fd00::/48\"], blockSize: {ipv4: 24, ipv6: 64}}",
                )],
            ),
            "write-once",
        ),
        (
            folder(
                "1.19.3",
                &kubernetes(r#","annotate-k8s-node":"no""#),
                &bare,
                &with_policy,
            ),
            "annotate-k8s-node is not \"true\"",
        ),
    ];
    for (folder, expected) in cases {
        let reason = blocked(&folder);
        assert!(reason.contains(expected), "{reason} / {expected}");
        folder
            .run(&["apply", "--cluster", "cluster.json", "--auto-approve"])
            .expect(0);
    }
}

#[test]
fn without_cilium_everything_waits() {
    let list = format!(
        r#"{{"apiVersion":"v1","kind":"List","items":[{}]}}"#,
        node("n", "a", "")
    );
    let folder = Folder::new(&[("cluster.json", &list), ("pools/a.yaml", &pool("a", POOL))]);
    assert!(blocked(&folder).contains("no cilium-config"));
}

#[test]
fn families_that_cilium_does_not_use_or_cannot_do_without() {
    let dual = "{cidrs: [10.20.0.0/16, \"fd00::/48\"], blockSize: {ipv4: 24, ipv6: 64}}";
    let off = format!(r#"{KUBERNETES},"enable-ipv4":"true","enable-ipv6":"false""#);
    let on = format!(r#"{KUBERNETES},"enable-ipv4":"true","enable-ipv6":"true""#);
    let bare = [node("n", "a", "")];
    let of_off = plan(&folder("1.19.3", &off, &bare, &[pool("a", dual)]));
    assert_eq!(
        of_off["changes"][0]["after"],
        serde_json::json!(["10.20.0.0/24"])
    );
    let six_pinned = pin("n", "10.20.3.0/24")
        .replace("\"10.20.3.0/24\"", "\"10.20.3.0/24\", \"fd00:0:0:5::/64\"");
    assert!(
        blocked(&folder(
            "1.19.3",
            &off,
            &bare,
            &[pool("a", dual), six_pinned]
        ))
        .contains("IPv6 switched off")
    );
    let stale = [
        node("n", "a", &holds("10.20.1.0/24")),
        cilium_node("n", r#""10.20.1.0/24","fd00::/64""#),
    ];
    assert_eq!(
        plan(&folder("1.19.3", &off, &stale, &[pool("a", dual)]))["summary"]["unchanged"],
        1
    );

    assert!(blocked(&folder("1.19.3", &on, &bare, &[pool("a", POOL)])).contains("a gives no IPv6"));
    let both = [
        pool(
            "a",
            "{cidrs: [10.20.0.0/24, \"fd00::/48\"], blockSize: {ipv4: 24, ipv6: 64}}",
        ),
        pool("z", "{cidrs: [10.21.0.0/16], blockSize: 24}"),
    ];
    let two = [node("n1", "a", ""), node("n2", "a", "")];
    let of_on = plan(&folder("1.19.3", &on, &two, &both));
    assert_eq!(of_on["summary"]["assign"], 1);
    assert_eq!(
        of_on["blocked"][0]["reason"],
        "no pool can serve it: a is full, z gives no IPv6"
    );
}

#[test]
fn a_node_that_has_all_that_its_pool_gives_wants_nothing_of_another() {
    let settings = r#""ipam":"kubernetes","annotate-k8s-node":"true""#;
    let full = r#"{cidrs: [10.20.0.0/24, "fd00:20::/48"], blockSize: {ipv4: 24, ipv6: 64}, reserved: [10.20.0.0/24], priority: 1}"#;
    let pools = [
        pool("a", full),
        pool("fallback", "{cidrs: [10.22.0.0/16], blockSize: 24}"),
    ];
    let folder = folder("1.19.3", settings, &[node("n", "a", "")], &pools);
    folder
        .run(&["apply", "--cluster", "cluster.json", "--auto-approve"])
        .expect(0);
    assert!(folder.read("cluster.json").contains("10.22.0.0/24"));
    folder
        .run(&["plan", "--cluster", "cluster.json", "--detailed-exitcode"])
        .expect(0);
}
