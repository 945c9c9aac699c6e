//! The configurations of containerd and of the kubelet.

use std::path::Path;

use serde_json::json;

use super::SOCKET;
use super::image::IMAGE;

/// What limits this machine, not the node, is switched off: AppArmor, and OOM scores below the
/// machine's own.
pub(super) fn containerd(folder: &Path, networks: usize) -> String {
    let (plugins, lists) = (folder.join("bin"), folder.join("net.d"));
    let (plugins, lists) = (plugins.display(), lists.display());
    format!(
        r#"version = 3
root = '/var/lib/containerd'
state = '/run/containerd'
disabled_plugins = ['io.containerd.internal.v1.opt']

[grpc]
address = '{SOCKET}'

[plugins.'io.containerd.cri.v1.images'.pinned_images]
sandbox = '{IMAGE}'

[plugins.'io.containerd.cri.v1.runtime']
disable_apparmor = true
restrict_oom_score_adj = true

[plugins.'io.containerd.cri.v1.runtime'.cni]
bin_dirs = ['{plugins}']
conf_dir = '{lists}'
max_conf_num = {networks}
use_internal_loopback = true

[plugins.'io.containerd.cri.v1.runtime'.containerd]
default_runtime_name = 'runc'

[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
runtime_type = 'io.containerd.runc.v2'
"#
    )
}

/// With no parts of the machine reserved, and with the shortest intervals that the kubelet allows.
pub(super) fn kubelet(folder: &Path, cgroup: &str) -> String {
    json!({
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "authentication": {"anonymous": {"enabled": true}, "webhook": {"enabled": false}},
        "authorization": {"mode": "AlwaysAllow"},
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": cgroup,
        "cgroupsPerQOS": false,
        "containerRuntimeEndpoint": format!("unix://{SOCKET}"),
        "enforceNodeAllocatable": [],
        "evictionHard": {"nodefs.available": "1Mi"},
        "failCgroupV1": false,
        "failSwapOn": false,
        "fileCheckFrequency": "1s",
        "maxPods": 2000,
        "nodeStatusUpdateFrequency": "1s",
        "podLogsDir": folder.join("log/pods"),
        "readOnlyPort": 0,
        "serializeImagePulls": false,
        "staticPodPath": folder.join("manifests"),
        "syncFrequency": "1s",
        "volumePluginDir": "/var/lib/kubelet/volume-plugins",
        "volumeStatsAggPeriod": "1s",
    })
    .to_string()
}
