//! `upgrade` on cluster files: what it prints, its exit codes, and what it refuses.

use super::support::{Folder, KUBERNETES, Ran, TextAssertions, cluster, holds, node};

const BLUE: &str = r#"{"apiVersion":"cilium.io/v2alpha1","kind":"CiliumLoadBalancerIPPool","metadata":{"name":"blue","uid":"1","resourceVersion":"1","creationTimestamp":"2026-01-01T00:00:00Z"},"spec":{"cidrs":[{"cidr":"20.0.10.0/24"}]}}"#;
const IN_FILES: &str = "\
apiVersion: cilium.io/v2alpha1
kind: CiliumLoadBalancerIPPool
metadata: {name: blue}
spec:
  cidrs: [{cidr: 20.0.10.0/24}]
";

fn service(name: &str, address: &str) -> String {
    format!(
        r#"{{"apiVersion":"v1","kind":"Service","metadata":{{"name":"{name}","namespace":"shop"}},"spec":{{"type":"LoadBalancer","ports":[{{"port":80}}]}},"status":{{"loadBalancer":{{"ingress":[{{"ip":"{address}"}}]}}}}}}"#
    )
}

/// 1.15.19 with a pool of `cidrs`, three Services, a node that takes another block at its next
/// start, and native routing by a key that ends.
fn old() -> Folder {
    let settings = format!(r#"{KUBERNETES},"tunnel":"disabled","bgp-announce-lb-ip":"true""#);
    let seen = r#"{"apiVersion":"cilium.io/v2","kind":"CiliumNode","metadata":{"name":"n1"},"spec":{"ipam":{"podCIDRs":["10.20.7.0/24"]}}}"#;
    let mut items = vec![
        BLUE.to_owned(),
        node("n1", "a", &holds("10.20.1.0/24")),
        seen.to_owned(),
    ];
    items.extend((1..4).map(|index| service(&format!("web-{index}"), &format!("20.0.10.{index}"))));
    let folder = Folder::new(&[("pools/lb.yaml", IN_FILES)]);
    folder.write("cluster.json", cluster("1.15.19", &settings, &items));
    folder
}

fn upgrade(folder: &Folder, arguments: &[&str]) -> Ran {
    folder.run(&[&["upgrade", "--cluster-file", "cluster.json"], arguments].concat())
}

#[test]
fn for_people() {
    insta::assert_snapshot!(upgrade(&old(), &["--to", "1.17"]).all());
}

#[test]
fn for_a_change_ticket() {
    let ran = upgrade(&old(), &["--to", "1.17", "-o", "markdown"]).expect(2);
    insta::assert_snapshot!(ran.stdout);
}

#[test]
fn for_programs() {
    let ran = upgrade(&old(), &["--to", "1.16.19", "-o", "json"]).expect(2);
    insta::assert_snapshot!(ran.stdout);
}

/// The kinds of these objects are read by nothing else.
#[test]
fn objects_of_cilium_in_the_files_name_what_to_write() {
    let config = "apiVersion: cilium.io/v2alpha1\nkind: CiliumNodeConfig\nmetadata: {name: mtu, namespace: kube-system}\nspec: {}\n";
    let policy = "apiVersion: cilium.io/v2alpha1\nkind: CiliumBGPPeeringPolicy\nmetadata: {name: rack}\nspec: {}\n";
    let list = "apiVersion: v1\nkind: List\nitems:\n- apiVersion: cilium.io/v2alpha1\n  kind: CiliumBGPPeerConfig\n  metadata: {name: tor}\n  spec: {transport: {localPort: 1790}}\n";
    let folder = Folder::new(&[
        ("pools/lb.yaml", IN_FILES),
        ("pools/a.yaml", &format!("{config}---\n{policy}")),
        ("pools/list.yaml", list),
    ]);
    let items = [node("n1", "a", &holds("10.20.1.0/24"))];
    folder.write("cluster.json", cluster("1.17.15", KUBERNETES, &items));
    let told = upgrade(&folder, &["--to", "1.20.1", "pools"])
        .expect(2)
        .stdout;
    for part in [
        "upgrade-manifest-version 1 CiliumBGPPeeringPolicy in the files is no longer served",
        "pools/a.yaml:6: write CiliumBGPClusterConfig, CiliumBGPPeerConfig and CiliumBGPAdvertisement instead",
        "upgrade-manifest-version 1 CiliumNodeConfig in the files is no longer served",
        "CiliumNodeConfig kube-system/mtu: has `cilium.io/v2alpha1`, which is not served",
        "pools/a.yaml:1: write `apiVersion: cilium.io/v2`",
        "upgrade-manifest-deprecated 1 CiliumBGPPeerConfig in the files has a deprecated API version",
        "pools/list.yaml:4: after the hop, write `apiVersion: cilium.io/v2`, and remove `transport.localPort`",
        "upgrade-manifest-deprecated 1 CiliumLoadBalancerIPPool in the files",
        "pools/lb.yaml:1: write `apiVersion: cilium.io/v2`",
    ] {
        assert!(told.contains(part), "{part} in {told}");
    }
}

#[test]
fn two_thousand_services_of_one_cause_are_one_entry() {
    let folder = Folder::new(&[]);
    let pool = BLUE.replace("20.0.10.0/24", "20.0.0.0/16");
    let address = |index: usize| format!("20.0.{}.{}", index / 200, index % 200 + 1);
    let services = (0..2_000).map(|index| service(&format!("s{index}"), &address(index)));
    let items: Vec<String> = std::iter::once(pool).chain(services).collect();
    folder.write("cluster.json", cluster("1.15.19", KUBERNETES, &items));
    let ran = upgrade(&folder, &["--to", "1.16"]).expect(2);
    ran.stdout.assert_has("2,000 Services lose addresses");
    ran.stdout
        .assert_has("… and 1,990 more; --show-all shows all");
    assert!(ran.stdout.lines().count() < 50, "{}", ran.stdout);
    let full = upgrade(&folder, &["--to", "1.16", "--show-all"]).expect(2);
    assert!(full.stdout.lines().count() > 2_000);
    let markdown = upgrade(&folder, &["--to", "1.16", "-o", "markdown"]).expect(2);
    assert!(markdown.stdout.lines().count() < 50, "{}", markdown.stdout);
}
