//! The import of generated clusters.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::{changes_nothing, cilium_node, import, operator};
use crate::support::{Folder, cluster, node};

/// A cluster of up to 12 nodes with blocks of two sizes, in any field that its mode reads.
#[derive(Clone, Debug)]
struct World {
    mode: Mode,
    is_dual: bool,
    /// Rack, number of the block, whether it is of half the size, and whether the node has one.
    nodes: Vec<(char, u8, bool, bool)>,
    flags: Vec<&'static str>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Spec,
    SpecBesideControllerManager,
    Annotation,
    ClusterPool,
    ExternalClusterPool,
}

fn worlds() -> impl Strategy<Value = World> {
    let modes = prop::sample::select(vec![
        Mode::Spec,
        Mode::SpecBesideControllerManager,
        Mode::Annotation,
        Mode::ClusterPool,
        Mode::ExternalClusterPool,
    ]);
    let numbers = prop::collection::btree_set(0u8..40, 1..12);
    let each = prop::collection::vec(
        (
            prop::sample::select(vec!['a', 'b', 'c']),
            prop::bool::weighted(0.15),
            prop::bool::weighted(0.9),
        ),
        12,
    );
    let flags = prop::sample::select(vec![
        vec![],
        vec!["--by-label", "rack"],
        vec!["--by-label", "none"],
    ]);
    (modes, any::<bool>(), numbers, each, any::<bool>(), flags).prop_map(
        |(mode, is_dual, numbers, each, sorted, flags)| {
            let mut nodes: Vec<_> = numbers
                .into_iter()
                .zip(each)
                .map(|(number, (rack, half, has))| (rack, number, half, has))
                .collect();
            if sorted {
                let mut racks: Vec<char> = nodes.iter().map(|node| node.0).collect();
                racks.sort_unstable();
                nodes
                    .iter_mut()
                    .zip(racks)
                    .for_each(|(node, rack)| node.0 = rack);
            }
            nodes[0].3 = true;
            World {
                mode,
                is_dual,
                nodes,
                flags,
            }
        },
    )
}

impl World {
    fn cluster(&self) -> String {
        let mode = match self.mode {
            Mode::Spec | Mode::SpecBesideControllerManager | Mode::Annotation => "kubernetes",
            Mode::ClusterPool | Mode::ExternalClusterPool => "cluster-pool",
        };
        let settings = format!(
            r#""ipam":"{mode}","enable-ipv6":"{}","annotate-k8s-node":"{}","cluster-pool-ipv4-cidr":"10.20.0.0/16","cluster-pool-ipv4-mask-size":"24","cluster-pool-ipv6-cidr":"fd00:20::/48","cluster-pool-ipv6-mask-size":"64""#,
            self.is_dual,
            self.mode == Mode::Annotation
        );
        let mut items = vec![operator(match self.mode {
            Mode::ClusterPool => "cluster-pool",
            _ => "kubernetes",
        })];
        if self.mode == Mode::SpecBesideControllerManager {
            items.push(json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "kube-controller-manager-cp2", "namespace": "kube-system", "labels": {"component": "kube-controller-manager"}},
                "spec": {"containers": [{"name": "c", "command": ["kube-controller-manager", "--allocate-node-cidrs=true", "--cluster-cidr=10.20.0.0/16,fd00:20::/48"]}]}}).to_string());
        }
        for (index, (rack, number, half, has)) in self.nodes.iter().enumerate() {
            let (name, mut blocks) = (format!("n{index:02}"), Vec::new());
            if *has {
                blocks.push(format!("10.20.{number}.0/{}", if *half { 25 } else { 24 }));
                blocks.extend(self.is_dual.then(|| format!("fd00:20:0:{number:x}::/64")));
            }
            let mut item: Value =
                serde_json::from_str(&node(&name, &rack.to_string(), "")).unwrap();
            match self.mode {
                _ if blocks.is_empty() => {}
                Mode::Spec | Mode::SpecBesideControllerManager => {
                    item["spec"] = json!({"podCIDR": blocks[0], "podCIDRs": blocks})
                }
                Mode::Annotation => {
                    let mut annotations = json!({"network.cilium.io/ipv4-pod-cidr": blocks[0]});
                    if let Some(second) = blocks.get(1) {
                        annotations["network.cilium.io/ipv6-pod-cidr"] = json!(second);
                    }
                    item["metadata"]["annotations"] = annotations;
                }
                Mode::ClusterPool | Mode::ExternalClusterPool => {}
            }
            items.push(item.to_string());
            let texts: Vec<&str> = blocks.iter().map(String::as_str).collect();
            if matches!(self.mode, Mode::ClusterPool | Mode::ExternalClusterPool) {
                items.push(cilium_node(&name, &texts));
            }
        }
        cluster("1.19.3", &settings, &items)
    }
}

/// `cargo xtask prove properties` asks for more.
fn cases() -> u32 {
    std::env::var("PROPTEST_CASES")
        .ok()
        .and_then(|cases| cases.parse().ok())
        .unwrap_or(200)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), ..ProptestConfig::default() })]

    #[test]
    fn the_import_of_any_cluster_changes_nothing(world in worlds()) {
        let folder = Folder::new(&[("cluster.json", &world.cluster())]);
        import(&folder, &world.flags).expect(0);
        let plan = changes_nothing(&folder);
        let waiting: Vec<String> = world.nodes.iter().enumerate().filter(|(_, node)| !node.3).map(|(index, _)| format!("n{index:02}")).collect();
        let blocked: Vec<&str> = plan["blocked"].as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap()).collect();
        prop_assert_eq!(blocked, waiting, "only nodes without a block wait");
    }
}
