//! The ranges of which kube-controller-manager cuts a block for each Node, by its flags, by those of
//! the k3s server that contains it, or by the configuration of kubeadm.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use super::controller_process::{ALLOCATE, AllocatorStatus, CommandLine, ranges_flag, ranges_of};
use super::view::{nullable, yaml_of_key};
use ipam_core::model::PerFamily;
use ipam_core::net::{Block, BlockSize, Family, Range};

/// Where the ranges of a controller are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CidrSource {
    /// `--cluster-cidr`.
    Flags,
    /// `podSubnet` of the ConfigMap `kubeadm-config`.
    Kubeadm,
}

/// The visible part of `--cluster-cidr` of a controller.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ClusterCidrs {
    pub source: CidrSource,
    pub ranges: Vec<Range>,
    /// Of each range it cuts blocks of this size. None if that is not visible, or if it takes blocks
    /// from a cloud.
    pub block_sizes: PerFamily<BlockSize>,
}

const CLUSTER_CIDR: &str = "cluster-cidr";
const ALLOCATOR_TYPE: &str = "cidr-allocator-type";

/// Flag and default of each family (`cmd/kube-controller-manager/app/core.go` @ 1.36).
const MASK_SIZES: [(Family, &str, u64); 2] = [
    (Family::Ipv4, "node-cidr-mask-size-ipv4", 24),
    (Family::Ipv6, "node-cidr-mask-size-ipv6", 64),
];

/// The flag for clusters of one family.
const MASK_SIZE: &str = "node-cidr-mask-size";

/// The annotation of a Node with the arguments of k3s, those of its configuration file included.
pub(super) const K3S_ARGUMENTS: &str = "k3s.io/node-args";

/// Passes an argument to the kube-controller-manager in k3s.
const K3S_PASSED: &str = "--kube-controller-manager-arg";

/// Key of the configuration in the ConfigMap `kubeadm-config`.
pub(super) const KUBEADM_KEY: &str = "ClusterConfiguration";

/// `ClusterConfiguration` of kubeadm, in any of its API versions.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct KubeadmView {
    #[serde(deserialize_with = "nullable")]
    networking: NetworkingView,
    #[serde(deserialize_with = "nullable")]
    controller_manager: ControllerManagerView,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct NetworkingView {
    #[serde(deserialize_with = "nullable")]
    pod_subnet: String,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ControllerManagerView {
    #[serde(deserialize_with = "nullable")]
    extra_args: ExtraArgs,
}

/// A map up to `v1beta3`, a list from `v1beta4` on.
#[derive(Deserialize)]
#[serde(untagged)]
enum ExtraArgs {
    Map(BTreeMap<String, String>),
    List(Vec<ExtraArg>),
}

#[derive(Deserialize)]
struct ExtraArg {
    name: String,
    #[serde(default)]
    value: String,
}

impl Default for ExtraArgs {
    fn default() -> ExtraArgs {
        ExtraArgs::List(Vec::new())
    }
}

impl ClusterCidrs {
    pub(super) const NONE: ClusterCidrs = ClusterCidrs {
        source: CidrSource::Flags,
        ranges: Vec::new(),
        block_sizes: PerFamily::NONE,
    };

    /// By the flags of a container.
    pub(super) fn of(lines: &[CommandLine]) -> ClusterCidrs {
        let ranges = ranges_of(lines, CLUSTER_CIDR);
        ClusterCidrs {
            source: CidrSource::Flags,
            block_sizes: block_sizes(lines, &ranges),
            ranges,
        }
    }

    /// By the configuration from which kubeadm made the flags. An extra argument replaces the flag that
    /// kubeadm writes itself (`cmd/kubeadm/app/phases/controlplane/manifests.go` @ 1.36).
    pub(super) fn of_kubeadm(text: &str) -> Result<ClusterCidrs, serde_json::Error> {
        let view: KubeadmView = yaml_of_key(KUBEADM_KEY, text)?;
        let subnet = view.networking.pod_subnet;
        let mut flags = BTreeMap::new();
        if !subnet.is_empty() {
            flags.insert(ALLOCATE.to_owned(), "true".to_owned());
            flags.insert(CLUSTER_CIDR.to_owned(), subnet);
        }
        match view.controller_manager.extra_args {
            ExtraArgs::Map(map) => flags.extend(map),
            ExtraArgs::List(list) => {
                flags.extend(list.into_iter().map(|one| (one.name, one.value)));
            }
        }
        let word = |(name, value)| format!("--{name}={value}");
        let line = CommandLine::new(flags.iter().map(word).collect());
        Ok(match line.allocation() {
            Some(AllocatorStatus::Active) => ClusterCidrs {
                source: CidrSource::Kubeadm,
                ..ClusterCidrs::of(&[line])
            },
            _ => ClusterCidrs::NONE,
        })
    }

    /// By the annotation [`K3S_ARGUMENTS`] of a server's Node; `None` for an agent. Without
    /// `--cluster-cidr`, k3s takes the default of the family of its Node.
    pub(super) fn of_k3s(annotation: &str, family: Family) -> Option<ClusterCidrs> {
        let mut found = ClusterCidrs::of_server(annotation)?;
        if found.ranges.is_empty() {
            let default = match family {
                Family::Ipv4 => "10.42.0.0/16",
                Family::Ipv6 => "fd00:42::/56",
            };
            found
                .ranges
                .extend(Block::lenient(default).ok().map(Block::range));
        }
        Some(found)
    }

    /// By the arguments of a server of k3s; `None` for an agent.
    fn of_server(annotation: &str) -> Option<ClusterCidrs> {
        let words: Vec<String> = serde_json::from_str(annotation).ok()?;
        let is_server = words.first().is_some_and(|first| first == "server");
        is_server.then(|| ClusterCidrs::of(&[CommandLine::new(unwrapped(&words))]))
    }

    /// Flags from which [`ClusterCidrs::of`] reads the same.
    pub(super) fn words(&self) -> Vec<String> {
        let mut words: Vec<String> = ranges_flag(CLUSTER_CIDR, &self.ranges)
            .into_iter()
            .collect();
        for (family, flag, default) in MASK_SIZES {
            match self.block_sizes.get(family) {
                Some(size) if u64::from(size.prefix_len()) == default => {}
                Some(size) => words.push(format!("--{flag}={}", size.prefix_len())),
                None => words.push(format!("--{flag}=$")),
            }
        }
        words
    }

    /// Adds the ranges of another process of the same program.
    pub(super) fn add(&mut self, ranges: &[Range]) {
        for range in ranges {
            if !self.ranges.contains(range) {
                self.ranges.push(*range);
            }
        }
    }
}

/// The annotation with nothing but the flags that are read: others may be secrets.
pub(super) fn slim_k3s_arguments(annotation: &str) -> String {
    let Some(found) = ClusterCidrs::of_server(annotation) else {
        return "[]".to_owned();
    };
    let mut kept = vec!["server".to_owned()];
    kept.extend(found.words());
    serde_json::Value::from(kept).to_string()
}

/// The configuration with nothing but the flags that are read: others may be secrets. Text that cannot
/// be read stays unreadable.
pub(super) fn slim_kubeadm(text: &str) -> String {
    let Ok(found) = ClusterCidrs::of_kubeadm(text) else {
        return "unreadable".to_owned();
    };
    let words = found.words().into_iter();
    let flags = words.filter_map(|word| {
        let (name, value) = word.strip_prefix("--")?.split_once('=')?;
        Some((name.to_owned(), Value::from(value)))
    });
    let mut flags: serde_json::Map<String, Value> = flags.collect();
    if found.source == CidrSource::Kubeadm {
        flags.insert(ALLOCATE.to_owned(), "true".into());
    }
    serde_json::json!({"controllerManager": {"extraArgs": flags}}).to_string()
}

/// The words, with the arguments for kube-controller-manager as flags of their own.
fn unwrapped(words: &[String]) -> Vec<String> {
    let mut unwrapped = Vec::new();
    let mut is_passed = false;
    for word in words {
        match word.strip_prefix(K3S_PASSED) {
            _ if is_passed => unwrapped.push(format!("--{word}")),
            // The arguments have what the file says.
            _ if word == "--config" || word.starts_with("--config=") => {}
            Some("") => {}
            Some(value) if value.starts_with('=') => unwrapped.push(format!("--{}", &value[1..])),
            Some(_) | None => unwrapped.push(word.clone()),
        }
        is_passed = !is_passed && word == K3S_PASSED;
    }
    unwrapped
}

fn block_sizes(lines: &[CommandLine], ranges: &[Range]) -> PerFamily<BlockSize> {
    let flag = |key: &str| lines.iter().find_map(|line| line.flag(key));
    let mut sizes = PerFamily::NONE;
    if flag(ALLOCATOR_TYPE).is_some_and(|name| name != "RangeAllocator") {
        return sizes;
    }
    let is_hidden = lines.iter().any(CommandLine::hides_flags);
    for (family, key, default) in MASK_SIZES {
        let is_alone = ranges.iter().all(|range| range.family() == family);
        let written = flag(key).or_else(|| flag(MASK_SIZE).filter(|_| is_alone));
        let length = match written.filter(|text| *text != "0") {
            Some(text) => text.parse().ok(),
            None => (!is_hidden).then_some(default),
        };
        *sizes.get_mut(family) = length.and_then(|length| BlockSize::new(family, length).ok());
    }
    sizes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(words: &[&str]) -> ClusterCidrs {
        let words = words.iter().map(|word| (*word).to_owned()).collect();
        ClusterCidrs::of(&[CommandLine::new(words)])
    }

    fn shown(cidrs: &ClusterCidrs) -> String {
        let ranges = cidrs.ranges.iter().map(Range::to_string);
        let sizes = cidrs
            .block_sizes
            .iter()
            .map(|size| size.prefix_len().to_string());
        ranges.chain(sizes).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn sizes_by_flags_and_defaults() {
        for (words, expected) in [
            (
                &["--cluster-cidr", "10.1.0.0/16,fd00::/48"][..],
                "10.1.0.0/16 fd00::/48 24 64",
            ),
            (
                &["--cluster-cidr=10.1.0.0/16", "--node-cidr-mask-size=26"],
                "10.1.0.0/16 26 64",
            ),
            (
                &["--cluster-cidr=fd00::/48", "--node-cidr-mask-size=60"],
                "fd00::/48 24 60",
            ),
            (
                &[
                    "--cluster-cidr=10.1.0.0/16,fd00::/48",
                    "--node-cidr-mask-size-ipv6=56",
                ],
                "10.1.0.0/16 fd00::/48 24 56",
            ),
            (
                &["--cluster-cidr=10.1.0.0/16", "--node-cidr-mask-size=0"],
                "10.1.0.0/16 24 64",
            ),
            (
                &[
                    "--cluster-cidr=10.1.0.0/16",
                    "--cidr-allocator-type=CloudAllocator",
                ],
                "10.1.0.0/16",
            ),
            (
                &["kcm", "--cluster-cidr=10.1.0.0/16", "$FLAGS"],
                "10.1.0.0/16",
            ),
        ] {
            let cidrs = read(words);
            assert_eq!(shown(&cidrs), expected, "{words:?}");
            let again = cidrs.words();
            let again: Vec<&str> = again.iter().map(String::as_str).collect();
            assert_eq!(read(&again), cidrs, "{words:?}");
        }
    }

    #[test]
    fn configurations_of_kubeadm() {
        for (text, expected) in [
            ("networking: {podSubnet: 10.1.0.0/16}", "10.1.0.0/16 24 64"),
            (
                "networking: {podSubnet: '10.1.0.0/16,fd00::/48'}\ncontrollerManager: {extraArgs: {node-cidr-mask-size-ipv4: '25', token: secret}}",
                "10.1.0.0/16 fd00::/48 25 64",
            ),
            (
                "networking: {podSubnet: 10.1.0.0/16}\ncontrollerManager: {extraArgs: [{name: cluster-cidr, value: 10.2.0.0/16}, {name: token, value: secret}]}",
                "10.2.0.0/16 24 64",
            ),
            (
                "networking: {podSubnet: 10.1.0.0/16}\ncontrollerManager: {extraArgs: [{name: allocate-node-cidrs, value: 'false'}]}",
                "",
            ),
            (
                "networking: {podSubnet: 10.1.0.0/16}\ncontrollerManager: {extraArgs: {controllers: '*,-nodeipam'}}",
                "",
            ),
            (
                "controllerManager: {extraArgs: {allocate-node-cidrs: 'true', cluster-cidr: 10.1.0.0/16}}",
                "10.1.0.0/16 24 64",
            ),
            // kubeadm passes no range.
            ("networking: {}\ncontrollerManager:\n", ""),
            ("", ""),
        ] {
            let read = |text: &str| ClusterCidrs::of_kubeadm(text).unwrap();
            assert_eq!(shown(&read(text)), expected, "{text}");
            let slimmed = slim_kubeadm(text);
            assert_eq!(read(&slimmed), read(text), "{slimmed}");
            assert!(!slimmed.contains("secret"), "{slimmed}");
        }
        ClusterCidrs::of_kubeadm(&slim_kubeadm("networking: 7")).unwrap_err();
    }

    #[test]
    fn arguments_of_k3s() {
        let of = |annotation: &str, family| {
            let read = |text: &str| ClusterCidrs::of_k3s(text, family);
            let slimmed = slim_k3s_arguments(annotation);
            assert_eq!(read(&slimmed), read(annotation), "{slimmed}");
            assert!(!slimmed.contains("secret"), "{slimmed}");
            read(annotation)
                .map(|cidrs| shown(&cidrs))
                .unwrap_or_default()
        };
        let passed = r#"["server","--token","secret","--cluster-cidr","10.9.0.0/20","--kube-controller-manager-arg","node-cidr-mask-size=22"]"#;
        assert_eq!(of(passed, Family::Ipv4), "10.9.0.0/20 22 64");
        let joined = r#"["server","--kube-controller-manager-arg=node-cidr-mask-size-ipv4=25"]"#;
        assert_eq!(of(joined, Family::Ipv4), "10.42.0.0/16 25 64");
        for config in [
            r#""--config","/etc/k3s.yaml""#,
            r#""--config=/etc/k3s.yaml""#,
        ] {
            let with_file = format!(r#"["server",{config},"--cluster-cidr=10.9.0.0/20"]"#);
            assert_eq!(of(&with_file, Family::Ipv4), "10.9.0.0/20 24 64");
        }
        assert_eq!(of(r#"["server"]"#, Family::Ipv6), "fd00:42::/56 24 64");
        assert_eq!(of(r#"["agent","--token","secret"]"#, Family::Ipv4), "");
        assert_eq!(of("secret", Family::Ipv4), "");
    }
}
