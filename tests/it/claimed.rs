//! Claims that fill their object. What plans make of single claims is in `cases/claims`.

use super::support::{Folder, TextAssertions, cluster, node, pool};

const POOL: &str = "{cidrs: [10.20.0.0/30], blockSize: 31}";

fn folder(claims: &str) -> Folder {
    let text = claims.replace('"', "\\\"");
    let map = format!(
        r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"cilium-ipam-claims","namespace":"kube-system","uid":"c","resourceVersion":"5"}},"data":{{"claims.json":"{text}"}}}}"#
    );
    let items = [map, node("n1", "a", ""), node("n2", "a", "")];
    Folder::with_cluster(&items, &[("pools/a.yaml", &pool("a", POOL))])
}

/// A cluster file refuses a ConfigMap over 1 MiB, as an API server does; the claims of 1,000 of
/// these nodes alone take as much.
#[test]
fn claims_are_split_by_their_bytes() {
    let items: Vec<String> = (0..1_500)
        .map(|number| node(&format!("n{number:0>199}"), "a", ""))
        .collect();
    let two = "{cidrs: [10.0.0.0/8, \"fd00:20::/48\"], blockSize: {ipv4: 26, ipv6: 64}}";
    let settings = r#""ipam":"kubernetes","enable-ipv4":"true","enable-ipv6":"true""#;
    let folder = Folder::new(&[
        ("cluster.json", &cluster("1.19.3", settings, &items)),
        ("pools/a.yaml", &pool("a", two)),
    ]);
    let ran = folder.expect("apply --cluster cluster.json --auto-approve -o json", 0);
    assert_eq!(ran.json()["applied"].as_array().unwrap().len(), 1_500);
    folder.expect("plan --cluster cluster.json --detailed-exitcode", 0);
}

#[test]
fn a_quarantine_without_room_for_a_claim_is_named() {
    let rest = |number: u32| {
        let [_, b, c, d] = (number * 16).to_be_bytes();
        format!(
            r#"{{"block":"11.{b}.{c}.{d}/28","node":"{number:0>200}","free_at":"2999-01-01T00:00:00Z"}}"#
        )
    };
    let entries: Vec<String> = (0..3_875).map(rest).collect();
    let record = |entries: &[String]| {
        format!(
            r#"{{"format_version":"1.0","quarantined":[{}]}}"#,
            entries.join(",")
        )
    };
    assert!(
        (1_044_480..1_048_576).contains(&record(&entries).len()),
        "{}",
        record(&entries).len()
    );
    let full = folder(&record(&entries));
    let before = full.read("cluster.json");
    let ran = full
        .run(&["apply", "--cluster", "cluster.json", "--auto-approve"])
        .expect(1);
    let why = "have no room for more: 3875 blocks are quarantined, 0 are claimed";
    ran.stderr.assert_has(why);
    ran.stderr.assert_has("shorten `quarantine`");
    assert_eq!(full.read("cluster.json"), before);
    let room = folder(&record(&entries[..3_700]));
    room.run(&["apply", "--cluster", "cluster.json", "--auto-approve"])
        .expect(0);
}
