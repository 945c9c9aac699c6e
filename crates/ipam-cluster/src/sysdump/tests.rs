//! Archives as `cilium sysdump` writes them, and others.

use std::io::Write as _;
use std::path::PathBuf;

use tempfile::TempDir;
use zip::ZipWriter;
use zip::write::SimpleFileOptions;

use super::*;
use crate::{Extent, observe};
use ipam_cilium::observed::{AllocatorStatus, CiliumKind, Observed};
use ipam_core::model::NodeName;

const FOLDER: &str = "cilium-sysdump-20260102-030405";

/// As the printer of a typed list writes it: items have no kind.
const NODES: &str = "apiVersion: v1
items:
- metadata: {name: n1, uid: u1, resourceVersion: '7'}
  spec: {podCIDR: 10.1.0.0/24, podCIDRs: [10.1.0.0/24]}
kind: NodeList
metadata: {resourceVersion: '9'}
";
const CILIUM_NODES: &str = "apiVersion: cilium.io/v2
items:
- metadata: {name: n1, uid: u2, resourceVersion: '8'}
  spec: {ipam: {podCIDRs: [10.1.0.0/24]}}
kind: CiliumNodeList
metadata: {}
";
const CONFIG: &str = "apiVersion: v1
data: {ipam: kubernetes}
kind: ConfigMap
metadata: {name: cilium-config, namespace: kube-system}
";
const SERVICES: &str = "apiVersion: v1\nitems: []\nkind: ServiceList\n";

/// The least that an import needs, by the stem of its file.
const LEAST: [(&str, &str); 4] = [
    ("k8s-nodes", NODES),
    ("ciliumnodes", CILIUM_NODES),
    ("cilium-configmap", CONFIG),
    ("k8s-services", SERVICES),
];

struct Dump {
    _folder: TempDir,
    path: PathBuf,
}

fn dump(write: impl FnOnce(&mut ZipWriter<std::fs::File>)) -> Dump {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("sysdump.zip");
    let mut zip = ZipWriter::new(std::fs::File::create(&path).unwrap());
    write(&mut zip);
    zip.finish().unwrap();
    Dump {
        _folder: folder,
        path,
    }
}

fn add(zip: &mut ZipWriter<std::fs::File>, name: &str, text: &[u8]) {
    zip.start_file(name, SimpleFileOptions::default()).unwrap();
    zip.write_all(text).unwrap();
}

fn path_of(stem: &str) -> String {
    format!("{FOLDER}/{stem}-20260102-030405.yaml")
}

/// An archive with the least files, of which some have another text.
fn with(others: &[(&str, &str)]) -> Dump {
    dump(|zip| {
        let is_other = |stem: &str| others.iter().any(|(other, _)| *other == stem);
        for (stem, text) in LEAST.iter().filter(|(stem, _)| !is_other(stem)) {
            add(zip, &path_of(stem), text.as_bytes());
        }
        for (stem, text) in others {
            match *stem {
                LOG => add(zip, &format!("{FOLDER}/{LOG}"), text.as_bytes()),
                stem => add(zip, &path_of(stem), text.as_bytes()),
            }
        }
    })
}

fn without(stem: &str, log: &str) -> Dump {
    dump(|zip| {
        for (other, text) in LEAST.iter().filter(|(other, _)| *other != stem) {
            add(zip, &path_of(other), text.as_bytes());
        }
        add(zip, &format!("{FOLDER}/{LOG}"), log.as_bytes());
    })
}

async fn observed(dump: &Dump) -> Result<Observed, ClusterError> {
    observe(&Sysdump::open(&dump.path)?, Extent::Plan).await
}

fn refusal(dump: &Dump) -> String {
    Sysdump::open(&dump.path).unwrap_err().to_string()
}

/// Why a kind is a blind spot.
fn blind(observed: &Observed, kind: ObservedKind) -> Option<&str> {
    observed.blind_spot(kind).map(|spot| spot.why.as_str())
}

#[tokio::test]
async fn lists_become_the_objects_of_a_cluster() {
    let pods = "apiVersion: v1
kind: PodList
items:
- metadata: {name: kcm, namespace: kube-system, labels: {component: kube-controller-manager}}
  spec: {containers: [{name: kcm, command: [kube-controller-manager, --cluster-cidr=10.1.0.0/16]}]}
- metadata: {name: other, namespace: default}
";
    let daemon_sets = "apiVersion: apps/v1
kind: DaemonSetList
items:
- metadata: {name: cilium, namespace: kube-system, labels: {k8s-app: cilium}}
  spec: {template: {spec: {containers: [{name: cilium-agent, image: 'quay.io/cilium/cilium:v1.19.3'}]}}}
";
    let pools = "apiVersion: cilium.io/v2
kind: CiliumLoadBalancerIPPoolList
items:
- apiVersion: cilium.io/v2
  kind: CiliumLoadBalancerIPPool
  metadata: {name: blue}
  spec: {blocks: [{cidr: 20.0.10.0/24}]}
";
    let observed = observed(&with(&[
        ("k8s-pods", pods),
        ("cilium-daemonset", daemon_sets),
        ("ciliumloadbalancerippools", pools),
    ]))
    .await
    .unwrap();
    let name: NodeName = "n1".parse().unwrap();
    assert!(observed.nodes.contains_key(&name));
    assert!(observed.cilium_nodes.contains_key(&name));
    assert_eq!(observed.cilium.version.unwrap().0.to_string(), "1.19.3");
    assert_eq!(observed.address_pools.len(), 1);
    assert_eq!(observed.allocators[0].name, "kube-controller-manager");
    assert_eq!(observed.allocators[0].status, AllocatorStatus::Inactive);
    // No version collects these, so nothing is known of them.
    for kind in [
        ObservedKind::Claims,
        ObservedKind::ServiceCidr,
        ObservedKind::Definition(CiliumKind::Node),
    ] {
        assert!(blind(&observed, kind).is_some(), "{kind:?}");
        assert!(!Sysdump::collects(kind));
    }
}

/// cilium-cli before 0.11 has no log and one DaemonSet.
#[tokio::test]
async fn a_single_object_is_a_list_of_one() {
    let daemon_set = "apiVersion: apps/v1
kind: DaemonSet
metadata: {name: cilium, namespace: cilium-system, labels: {k8s-app: cilium}}
spec: {template: {spec: {containers: [{name: cilium-agent, image: 'quay.io/cilium/cilium:v1.13.4'}]}}}
";
    let config = CONFIG.replace("kube-system", "cilium-system");
    let observed = observed(&with(&[
        ("cilium-daemonset", daemon_set),
        ("cilium-configmap", &config),
    ]))
    .await
    .unwrap();
    assert_eq!(observed.cilium.version.unwrap().0.to_string(), "1.13.4");
    assert_eq!(observed.cilium.namespace.as_deref(), Some("cilium-system"));
}

#[tokio::test]
async fn a_missing_list_of_nodes_is_no_empty_cluster() {
    for stem in ["k8s-nodes", "ciliumnodes"] {
        let error = observed(&without(stem, "")).await.unwrap_err().to_string();
        assert!(
            error.contains(&format!("no file {stem}-DATE-TIME.yaml")),
            "{error}"
        );
    }
}

#[tokio::test]
async fn the_log_says_why_a_kind_is_missing() {
    let log = "🔍 Collecting Cilium nodes
⚠️ Collecting Cilium LoadBalancer IP Pools: failed to collect Cilium LoadBalancer IP pools: ciliumloadbalancerippools.cilium.io is forbidden: \u{1b}[2J
⚠️ Collecting Cilium Pod IP Pools: failed to collect Cilium Pod IP pools: the server could not find the requested resource (get ciliumpodippools.cilium.io)
⚠️ Collecting Cilium Node Configs: failed to collect Cilium Node configs: the server could not find the requested resource
";
    let observed = observed(&without("", log)).await.unwrap();
    let why = blind(&observed, ObservedKind::LoadBalancerPool).unwrap();
    assert!(
        why.contains("is forbidden") && !why.contains('\u{1b}'),
        "{why}"
    );
    assert_eq!(blind(&observed, ObservedKind::PodIpPool), None);
    assert_eq!(blind(&observed, ObservedKind::CiliumNodeConfig), None);
    // The log does not name it.
    assert!(blind(&observed, ObservedKind::CiliumOperator).is_some());
}

#[tokio::test]
async fn cilium_nodes_are_never_taken_for_not_served() {
    let log = "⚠️ Collecting Cilium nodes: failed to collect Cilium nodes: the server could not find the requested resource (get ciliumnodes.cilium.io)";
    let error = observed(&without("ciliumnodes", log)).await.unwrap_err();
    assert!(error.to_string().contains("could not find"), "{error}");
}

#[tokio::test]
async fn a_file_that_was_not_collected_whole_hides_its_kind() {
    for (text, why) in [
        ("", "is empty"),
        ("# nothing\n", "is empty"),
        (
            "apiVersion: v1\nkind: Status\nmessage: no\n",
            "has a `Status`",
        ),
        ("kind: NodeList\napiVersion: v1\n", "a list without items"),
        (
            "kind: NodeList\napiVersion: v1\nmetadata: {continue: abc}\nitems: []\n",
            "only the first part",
        ),
        (
            "kind: NodeList\napiVersion: v1\nitems: [7]\n",
            "no object as item 1",
        ),
        (
            "kind: NodeList\nitems: [{metadata: {name: a}}]\n",
            "has an item that",
        ),
        (
            "kind: NodeList\napiVersion: v1\nitems: [{apiVersion: v1, kind: Pod}]\n",
            "which is not of nodes",
        ),
    ] {
        let error = observed(&with(&[("k8s-nodes", text)])).await.unwrap_err();
        let error = error.to_string();
        assert!(
            error.contains(why) && error.contains("k8s-nodes-"),
            "{error}"
        );
    }
}

#[tokio::test]
async fn an_empty_list_is_no_missing_one() {
    for items in ["null", "[]"] {
        let pods = format!("apiVersion: v1\nitems: {items}\nkind: PodList\n");
        let observed = observed(&with(&[("k8s-pods", &pods)])).await.unwrap();
        assert_eq!(blind(&observed, ObservedKind::ControllerPod), None);
    }
}

#[tokio::test]
async fn several_documents_are_one_list() {
    let more = NODES.replace("n1", "n2").replace("u1", "u3");
    let text = format!("---\n{NODES}---\n{more}");
    let observed = observed(&with(&[("k8s-nodes", &text)])).await.unwrap();
    assert_eq!(observed.nodes.len(), 2);
    let twice = format!("{NODES}---\n{NODES}");
    let error = refusal(&with(&[("k8s-nodes", &twice)]));
    assert!(error.contains("Node `n1` appears twice"), "{error}");
}

#[test]
fn text_that_is_no_yaml_names_its_file() {
    for text in ["kind: [", "a: b: c", "{"] {
        let error = refusal(&with(&[("k8s-nodes", text)]));
        assert!(
            error.contains("its file k8s-nodes-20260102-030405.yaml"),
            "{error}"
        );
    }
    let latin = dump(|zip| add(zip, &path_of("k8s-nodes"), b"kind: \xe9\xff"));
    assert!(refusal(&latin).contains("is not UTF-8 text"));
}

#[test]
fn a_cut_off_archive_is_refused_at_every_length() {
    let whole = with(&[]);
    let bytes = std::fs::read(&whole.path).unwrap();
    for length in (0..bytes.len()).step_by(13) {
        std::fs::write(&whole.path, &bytes[..length]).unwrap();
        assert!(Sysdump::open(&whole.path).is_err(), "{length}");
    }
    std::fs::write(&whole.path, &bytes).unwrap();
    Sysdump::open(&whole.path).unwrap();
}

#[test]
fn a_damaged_archive_never_passes_for_another_cluster() {
    let whole = with(&[]);
    let bytes = std::fs::read(&whole.path).unwrap();
    let start = bytes
        .windows(4)
        .position(|four| four == b"PK\x01\x02")
        .unwrap();
    let unharmed = format!("{:?}", Sysdump::open(&whole.path).unwrap());
    for place in (64..start).step_by(7) {
        let mut damaged = bytes.clone();
        damaged[place] ^= 0x20;
        std::fs::write(&whole.path, &damaged).unwrap();
        if let Ok(sysdump) = Sysdump::open(&whole.path) {
            assert_eq!(format!("{sysdump:?}"), unharmed, "{place}");
        }
    }
}

#[test]
fn a_file_over_the_limit_is_not_unpacked() {
    let bomb = "#".repeat(1 << 20);
    let limits = Limits {
        file: 100_000,
        ..Limits::SYSDUMP
    };
    let dump = with(&[("ciliumpodippools", &bomb)]);
    assert!(std::fs::metadata(&dump.path).unwrap().len() < 10_000);
    let sysdump = Sysdump::within(limits, &dump.path).unwrap();
    let Some(Seen::Hidden(why)) = sysdump.unseen.get(&ObservedKind::PodIpPool) else {
        panic!("{:?}", sysdump.unseen);
    };
    assert!(why.contains("is too large: 1 MiB"), "{why}");
    // The limit of all files together.
    let limits = Limits {
        all: 350,
        ..Limits::SYSDUMP
    };
    let sysdump = Sysdump::within(limits, &dump.path).unwrap();
    assert!(
        sysdump.unseen.contains_key(&ObservedKind::Node),
        "{:?}",
        sysdump.unseen
    );
}

#[test]
fn a_list_of_tiny_items_is_refused_before_it_fills_the_memory() {
    let items = "- {}\n".repeat(1_000_000);
    let nodes = format!("apiVersion: v1\nkind: NodeList\nitems:\n{items}");
    let dump = with(&[("k8s-nodes", &nodes)]);
    let error = refusal(&dump);
    assert!(error.contains("too many values"), "{error}");
}

#[test]
fn a_file_of_much_more_than_its_packed_size_is_not_unpacked() {
    let dump = with(&[("ciliumpodippools", &"#".repeat(5 << 20))]);
    let sysdump = Sysdump::open(&dump.path).unwrap();
    let Some(Seen::Hidden(why)) = sysdump.unseen.get(&ObservedKind::PodIpPool) else {
        panic!("{:?}", sysdump.unseen);
    };
    assert!(why.contains("is too large: 5 MiB"), "{why}");
}

/// The places of a four-byte signature.
fn places(bytes: &[u8], signature: [u8; 4]) -> Vec<usize> {
    let windows = bytes.windows(4).enumerate();
    windows
        .filter(|(_, four)| *four == signature)
        .map(|(place, _)| place)
        .collect()
}

#[test]
fn a_wrong_size_in_the_archive_does_not_lift_the_limit() {
    let bomb = "#".repeat(1 << 20);
    let dump = with(&[("ciliumpodippools", &bomb)]);
    let mut bytes = std::fs::read(&dump.path).unwrap();
    let size = u32::try_from(bomb.len()).unwrap().to_le_bytes();
    for place in places(&bytes, size) {
        bytes[place..place + 4].copy_from_slice(&10_u32.to_le_bytes());
    }
    std::fs::write(&dump.path, &bytes).unwrap();
    let limits = Limits {
        file: 100_000,
        ..Limits::SYSDUMP
    };
    match Sysdump::within(limits, &dump.path) {
        Ok(sysdump) => {
            let why = &sysdump.unseen[&ObservedKind::PodIpPool];
            assert!(format!("{why:?}").contains("is too large"), "{why:?}");
        }
        Err(error) => assert!(error.to_string().contains("is damaged"), "{error}"),
    }
}

#[test]
fn an_archive_with_too_many_files_is_refused() {
    let dump = dump(|zip| {
        for number in 0..2_000 {
            add(zip, &format!("{FOLDER}/logs-{number}.log"), b"");
        }
    });
    let few = Limits {
        files: 100,
        ..Limits::SYSDUMP
    };
    let error = Sysdump::within(few, &dump.path).unwrap_err().to_string();
    assert!(error.contains("more than 100 files"), "{error}");
    let small = Limits {
        directory: 10_000,
        ..Limits::SYSDUMP
    };
    let error = Sysdump::within(small, &dump.path).unwrap_err().to_string();
    assert!(
        error.contains("the list of its files is too long"),
        "{error}"
    );
}

#[test]
fn paths_that_climb_are_refused() {
    for name in [
        "../k8s-nodes-20260102-030405.yaml",
        "a/../../k8s-nodes-20260102-030405.yaml",
        "/etc/k8s-nodes-20260102-030405.yaml",
    ] {
        let error = refusal(&dump(|zip| add(zip, name, NODES.as_bytes())));
        assert!(error.contains("outside its folder"), "{name}: {error}");
    }
    let error = refusal(&dump(|zip| {
        let options = SimpleFileOptions::default();
        zip.add_symlink(path_of("k8s-nodes"), "/etc/passwd", options)
            .unwrap();
    }));
    assert!(error.contains("outside its folder"), "{error}");
}

#[test]
fn an_encrypted_file_is_named() {
    let dump = with(&[]);
    let mut bytes = std::fs::read(&dump.path).unwrap();
    // Bit 0 of the flags, in the header of each file and in the directory.
    for (signature, flags) in [(*b"PK\x03\x04", 6), (*b"PK\x01\x02", 8)] {
        for place in places(&bytes, signature) {
            bytes[place + flags] |= 1;
        }
    }
    std::fs::write(&dump.path, &bytes).unwrap();
    let error = refusal(&dump);
    assert!(error.contains("is encrypted"), "{error}");
}

#[test]
fn two_files_of_one_kind_are_refused() {
    let error = refusal(&dump(|zip| {
        add(zip, "a/k8s-nodes-20260102-030405.yaml", NODES.as_bytes());
        add(zip, "b/k8s-nodes-20260102-030406.yaml", NODES.as_bytes());
    }));
    assert!(error.contains("two files of nodes"), "{error}");
    let dump = dump(|zip| {
        add(zip, "a/k8s-nodes-20260102-030405.yaml", NODES.as_bytes());
        add(zip, "a/k8s-nodes-20260102-030406.yaml", NODES.as_bytes());
    });
    let text = std::fs::read(&dump.path).unwrap();
    let mut bytes = text.clone();
    for place in places(&text, *b"0406") {
        bytes[place + 3] = b'5';
    }
    std::fs::write(&dump.path, &bytes).unwrap();
    let error = refusal(&dump);
    assert!(error.contains("two files of the same name"), "{error}");
}

#[test]
fn an_archive_of_something_else_is_refused() {
    let error = refusal(&dump(|zip| add(zip, "holiday.txt", b"sun")));
    assert!(error.contains("no file of `cilium sysdump`"), "{error}");
    // Names that only look alike.
    for name in [
        "k8s-nodes.yaml",
        "k8s-nodes-today.yaml",
        "my-k8s-nodes-20260102-030405.yaml",
        "k8s-nodes-20260102-030405.yaml.gz",
    ] {
        let error = refusal(&dump(|zip| add(zip, name, NODES.as_bytes())));
        assert!(
            error.contains("no file of `cilium sysdump`"),
            "{name}: {error}"
        );
    }
}

#[tokio::test]
async fn nothing_is_written() {
    use crate::Cluster as _;
    let sysdump = Sysdump::open(&with(&[]).path).unwrap();
    let claims = Write::claims(&ipam_core::claims::Claims::default(), None, None);
    let error = sysdump.write(&claims).await.unwrap_err();
    assert!(error.to_string().contains("read-only"), "{error}");
}
