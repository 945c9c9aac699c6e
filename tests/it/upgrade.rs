//! `upgrade` on cluster files: what it prints, its exit codes, and what it refuses.

use super::support::{Folder, KUBERNETES, Ran, cluster, holds, node};

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

#[test]
fn nothing_changes() {
    let folder = Folder::new(&[]);
    let items = [node("n1", "a", &holds("10.20.1.0/24"))];
    folder.write("cluster.json", cluster("1.18.3", KUBERNETES, &items));
    let ran = upgrade(&folder, &["--to", "1.19.3"]).expect(0);
    assert!(
        ran.stdout.contains("1.18.3 to 1.19.3\n  nothing changes"),
        "{}",
        ran.stdout
    );
    let ran = upgrade(&folder, &["--to", "1.18.3"]).expect(0);
    assert!(
        ran.stdout.contains("Cilium 1.18.3 runs already"),
        "{}",
        ran.stdout
    );
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

/// A minor release alone means its latest patch release, also if that minor release runs.
#[test]
fn later_patches_of_the_running_minor_release_are_judged() {
    let folder = Folder::new(&[]);
    let items = [node("n1", "a", &holds("10.20.1.0/24"))];
    folder.write("cluster.json", cluster("1.19.1", KUBERNETES, &items));
    let ran = upgrade(&folder, &["--to", "1.19"]).expect(0);
    let expected = "1.19.1 to a later patch release of 1.19\n  no difference between these patch releases is known to this program";
    assert!(ran.stdout.contains(expected), "{}", ran.stdout);
    let markdown = upgrade(&folder, &["--to", "1.19", "-o", "markdown"]).expect(0);
    let expected = "No difference between these patch releases is known to this program.";
    assert!(markdown.stdout.contains(expected), "{}", markdown.stdout);

    // Services of one key with two addresses, which 1.19.4 moves, and 1.18.8 did.
    let keyed = |name: &str, address: &str| {
        let key = r#""namespace":"shop","annotations":{"lbipam.cilium.io/sharing-key":"edge"}"#;
        service(name, address).replace(r#""namespace":"shop""#, key)
    };
    let items = [
        BLUE.replace("cidrs", "blocks"),
        keyed("a", "20.0.10.1"),
        keyed("b", "20.0.10.2"),
    ];
    let told = |version: &str, minor: &str| {
        folder.write("cluster.json", cluster(version, KUBERNETES, &items));
        let ran = upgrade(&folder, &["--to", minor, "-o", "json"]);
        ran.json()["hops"][0]["changes"].to_string()
    };
    assert!(told("1.19.1", "1.19").contains("1.19.4"));
    for version in ["1.19.4", "1.19.5"] {
        let told = told(version, "1.19");
        assert!(!told.contains("upgrade-patch-to-avoid"), "{told}");
    }
    assert!(told("1.18.7", "1.18").contains("1.18.8"));
}

/// One node speaks BGP by its CiliumNodeConfig alone.
#[test]
fn bgp_that_a_node_config_switches_on_ends_as_well() {
    let folder = Folder::new(&[]);
    let labelled = |name: &str| {
        let with_label = format!(r#""name":"{name}","labels":{{"host":"{name}"}}"#);
        format!(
            r#"{{"apiVersion":"v1","kind":"Node","metadata":{{{with_label}}},"spec":{{"podCIDRs":["10.20.1.0/24"]}}}}"#
        )
    };
    let config = r#"{"apiVersion":"cilium.io/v2","kind":"CiliumNodeConfig","metadata":{"name":"bgp","namespace":"kube-system"},"spec":{"nodeSelector":{"matchLabels":{"host":"n1"}},"defaults":{"enable-bgp-control-plane":"true"}}}"#;
    let policy = r#"{"apiVersion":"cilium.io/v2alpha1","kind":"CiliumBGPPeeringPolicy","metadata":{"name":"old"},"spec":{"nodeSelector":{},"virtualRouters":[{"localASN":65001,"exportPodCIDR":true,"neighbors":[]}]}}"#;
    let items = [
        labelled("n1"),
        labelled("n2"),
        config.to_owned(),
        policy.to_owned(),
    ];
    folder.write("cluster.json", cluster("1.18.3", KUBERNETES, &items));
    let ran = upgrade(&folder, &["--to", "1.19.3", "-o", "json"]).expect(2);
    let json = ran.json();
    let changes = json["hops"][0]["changes"].as_array().unwrap();
    let ended = changes
        .iter()
        .find(|change| change["code"] == "upgrade-node-announcement");
    let objects = ended.unwrap()["objects"].as_array().unwrap();
    let names: Vec<&serde_json::Value> = objects.iter().map(|object| &object["name"]).collect();
    assert_eq!(names, ["n1"], "{json:#}");
}

#[test]
fn a_disabled_pool_of_the_files_is_named_with_its_line() {
    let folder = Folder::new(&[]);
    let pool = BLUE
        .replace("cidrs", "blocks")
        .replace(r#""spec":{"#, r#""spec":{"disabled":true,"#);
    let in_files = IN_FILES.replace("cidrs:", "disabled: true\n  blocks:");
    folder.write("pools/lb.yaml", in_files);
    let items = [pool, service("web", "20.0.10.1")];
    folder.write("cluster.json", cluster("1.18.3", KUBERNETES, &items));
    let ran = upgrade(&folder, &["--to", "1.19.3", "-o", "json"]).expect(2);
    let json = ran.json();
    let change = &json["hops"][0]["changes"][0];
    assert_eq!(change["code"], "upgrade-address-lost", "{json:#}");
    let file = &change["files"][0];
    let text = file.to_string();
    assert!(text.contains("pools/lb.yaml"), "{json:#}");
    assert!(text.contains("disabled: true"), "{json:#}");
}

#[test]
fn what_cannot_be_judged_is_no_success() {
    let folder = Folder::new(&[]);
    folder.write("cluster.json", cluster("1.18.3", r#""ipam":"eni""#, &[]));
    let ran = upgrade(&folder, &["--to", "1.19.3"]).expect(8);
    let expected = "nodes: another allocator decides in ipam `eni`; this hides which nodes take or announce another block";
    assert!(ran.stdout.contains(expected), "{}", ran.stdout);
}

#[test]
fn what_is_refused() {
    let folder = old();
    let refused = |arguments: &[&str], expected: &str| {
        let ran = upgrade(&folder, arguments).expect(1);
        assert!(ran.stderr.contains(expected), "{}", ran.stderr);
        assert_eq!(ran.stdout, "");
    };
    refused(
        &["--to", "1.21"],
        "Cilium 1.21 is newer than the newest known release, 1.20.2",
    );
    refused(&["--to", "1.14"], "Cilium 1.15.19 runs, and 1.14 is older");
    refused(&["--to", "new"], "not a version, such as 1.19.3 or 1.19");
    refused(
        &["--to", "1.16", "--from", "1.14.19"],
        "Cilium 1.15.19 runs, by the image tag",
    );
}

#[test]
fn the_running_version_is_given_where_it_is_unknown() {
    let folder = Folder::new(&[]);
    let unknown = cluster("1.15.19", KUBERNETES, &[]).replace(":v1.15.19", "@sha256:00");
    folder.write("cluster.json", unknown);
    let ran = upgrade(&folder, &["--to", "1.16"]).expect(1);
    assert!(ran.stderr.contains("pass --from VERSION"), "{}", ran.stderr);
    let ran = upgrade(&folder, &["--to", "1.16", "--from", "1.15.19"]).expect(0);
    assert!(
        ran.stdout.contains("running version by --from"),
        "{}",
        ran.stdout
    );
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
    assert!(
        ran.stdout.contains("2,000 Services lose addresses"),
        "{}",
        ran.stdout
    );
    assert!(
        ran.stdout
            .contains("… and 1,990 more; --show-all shows all"),
        "{}",
        ran.stdout
    );
    assert!(ran.stdout.lines().count() < 50, "{}", ran.stdout);
    let full = upgrade(&folder, &["--to", "1.16", "--show-all"]).expect(2);
    assert!(full.stdout.lines().count() > 2_000);
    let markdown = upgrade(&folder, &["--to", "1.16", "-o", "markdown"]).expect(2);
    assert!(markdown.stdout.lines().count() < 50, "{}", markdown.stdout);
}
