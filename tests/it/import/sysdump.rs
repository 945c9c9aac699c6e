//! Archives of `cilium sysdump`. The unit tests of `ipam-cluster` have damaged and hostile ones.

use std::collections::BTreeMap;
use std::io::Write as _;

use serde_json::{Value, json};
use zip::write::{SimpleFileOptions, ZipWriter};

use super::{CLUSTER_POOL, cilium_node, operator};
use crate::support::{Folder, KUBERNETES, TextAssertions, cluster, holds, node};

/// Files of a sysdump without their date.
type Files = BTreeMap<&'static str, String>;

/// The files that cilium-cli writes for the objects of a cluster file. Items of typed lists have no
/// kind.
fn files(cluster: &str) -> Files {
    let list: Value = serde_json::from_str(cluster).unwrap();
    let mut files = Files::new();
    for (stem, api, kind) in [
        ("k8s-nodes", "v1", "Node"),
        ("k8s-services", "v1", "Service"),
        ("k8s-pods", "v1", "Pod"),
        ("ciliumnodes", "cilium.io/v2", "CiliumNode"),
        ("cilium-daemonset", "apps/v1", "DaemonSet"),
        ("ciliumnodeconfigs", "cilium.io/v2", "CiliumNodeConfig"),
        ("ciliumpodippools", "cilium.io/v2alpha1", "CiliumPodIPPool"),
        (
            "ciliumloadbalancerippools",
            "cilium.io/v2",
            "CiliumLoadBalancerIPPool",
        ),
    ] {
        let of_kind = list["items"].as_array().unwrap().iter();
        let of_kind = of_kind.filter(|item| item["kind"] == kind).map(|item| {
            let mut item = item.clone();
            item.as_object_mut()
                .unwrap()
                .retain(|key, _| key != "kind" && key != "apiVersion");
            item
        });
        let list = json!({"apiVersion": api, "kind": format!("{kind}List"), "metadata": {"resourceVersion": "99"},
            "items": of_kind.collect::<Vec<_>>()});
        files.insert(stem, serde_yaml::to_string(&list).unwrap());
    }
    for (stem, kind) in [
        ("cilium-configmap", "ConfigMap"),
        ("cilium-operator-deployment", "Deployment"),
    ] {
        let mut items = list["items"].as_array().unwrap().iter();
        if let Some(item) = items.find(|item| item["kind"] == kind) {
            files.insert(stem, serde_yaml::to_string(item).unwrap());
        }
    }
    files
}

fn write(folder: &Folder, name: &str, files: &Files) {
    let mut zip = ZipWriter::new(std::fs::File::create(folder.join(name)).unwrap());
    for (stem, text) in files {
        let path = format!("cilium-sysdump-20260102-030405/{stem}-20260102-030405.yaml");
        zip.start_file(path, SimpleFileOptions::default()).unwrap();
        zip.write_all(text.as_bytes()).unwrap();
    }
    zip.finish().unwrap();
}

/// A cluster file and the sysdump of the same cluster.
fn both(settings: &str, items: &[String]) -> (Folder, Files) {
    let cluster = cluster(
        "1.19.3",
        settings,
        &[items, &[operator("cluster-pool")]].concat(),
    );
    let files = files(&cluster);
    let folder = Folder::new(&[("cluster.json", &cluster)]);
    write(&folder, "sysdump.zip", &files);
    (folder, files)
}

#[test]
fn a_sysdump_gives_the_files_of_its_cluster() {
    let service = json!({"apiVersion": "v1", "kind": "Service",
        "metadata": {"name": "web", "namespace": "shop", "uid": "w", "resourceVersion": "3",
            "annotations": {"lbipam.cilium.io/ips": "20.0.10.7"}},
        "spec": {"type": "LoadBalancer", "clusterIP": "10.96.0.9", "ipFamilies": ["IPv4"], "ports": [{"port": 80}]},
        "status": {"loadBalancer": {"ingress": [{"ip": "20.0.10.7"}]}}});
    let pool = json!({"apiVersion": "cilium.io/v2", "kind": "CiliumLoadBalancerIPPool",
        "metadata": {"name": "blue", "uid": "p", "resourceVersion": "4"}, "spec": {"blocks": [{"cidr": "20.0.10.0/24"}]}});
    let others = [service.to_string(), pool.to_string()];
    let racks: Vec<String> = [
        ("n1", "a", "10.20.0.0/24"),
        ("n2", "a", "10.20.1.0/24"),
        ("n3", "b", "10.21.7.0/24"),
        ("n4", "b", "10.21.4.0/24"),
    ]
    .iter()
    .flat_map(|(name, rack, block)| [node(name, rack, &holds(block)), cilium_node(name, &[block])])
    .collect();
    let flat: Vec<String> = (0..4)
        .flat_map(|number| {
            let name = format!("n{number}");
            [
                node(&name, "a", ""),
                cilium_node(&name, &[&format!("10.0.{number}.0/24")]),
            ]
        })
        .collect();
    for (settings, items) in [(KUBERNETES, racks), (CLUSTER_POOL, flat)] {
        let (folder, _) = both(settings, &[&items[..], &others].concat());
        let ran = folder.expect("import --sysdump sysdump.zip", 0);
        ran.stdout
            .assert_has("No changes. 4 nodes match the files, 0 moved.");
        // What no archive has.
        ran.stderr.assert_has("claims of cilium-ipam, customresourcedefinitions.apiextensions.k8s.io, record of a migration, servicecidrs");
        // The cluster itself gives the same files, and none is written.
        folder.expect("import --cluster-file cluster.json", 0);
        folder.expect(
            "plan --cluster-file cluster.json --fail-on changes,misplaced,error",
            0,
        );
        let plan = folder.json("plan --cluster-file sysdump.zip -o json");
        assert_eq!(
            (&plan["changes"], &plan["misplaced"]),
            (&json!([]), &json!([])),
            "{plan:#}"
        );
        let doctor = folder.run(&["doctor", "--cluster-file", "sysdump.zip", "-o", "json"]);
        assert!([0, 2].contains(&doctor.code), "{}", doctor.all());
        let ran = folder.expect("apply --cluster-file sysdump.zip --auto-approve", 1);
        ran.stderr.assert_has("a sysdump is read-only");
    }
}

#[test]
fn a_sysdump_without_a_needed_list_gives_no_files() {
    for (stem, resource) in [
        ("k8s-nodes", "nodes"),
        ("ciliumnodes", "ciliumnodes.cilium.io"),
        ("k8s-services", "services"),
        ("cilium-configmap", "configmaps"),
        (
            "ciliumloadbalancerippools",
            "ciliumloadbalancerippools.cilium.io",
        ),
    ] {
        let (folder, mut files) = both(
            KUBERNETES,
            &[
                node("n1", "a", &holds("10.1.0.0/24")),
                cilium_node("n1", &[]),
            ],
        );
        files.remove(stem);
        write(&folder, "sysdump.zip", &files);
        let ran = folder.expect("import --sysdump sysdump.zip", 8);
        let missing = format!("no file {stem}-DATE-TIME.yaml");
        ran.stderr.assert_has(&missing);
        ran.stderr.assert_has(resource);
        assert!(!folder.join("pools").exists());
    }
}

#[test]
fn other_files_are_no_sysdump() {
    let (folder, _) = both(KUBERNETES, &[]);
    let ran = folder.expect("import --sysdump cluster.json", 1);
    ran.stderr.assert_has("use --cluster-file");
    let ran = folder.expect("import --sysdump missing.zip", 8);
    ran.stderr.assert_has("missing.zip");
    let bytes = std::fs::read(folder.join("sysdump.zip")).unwrap();
    std::fs::write(folder.join("sysdump.zip"), &bytes[..bytes.len() / 2]).unwrap();
    let ran = folder.expect("import --sysdump sysdump.zip", 8);
    ran.stderr.assert_has("not a whole zip archive");
    folder.expect(
        "import --sysdump sysdump.zip --cluster-file cluster.json",
        1,
    );
}
