//! The programs of the testbed: which there are, and where their binaries lie.
//!
//! A binary is built once into a cache folder that git ignores. Several processes may ask
//! at once: one builds, the others wait for it.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::error::{Error, Result};
use crate::gitea;
use crate::golang::{Cgo, Recipe, workspace};
use crate::process::isolated;

/// Moves the cache, so that fresh clones can share it.
const CACHE_VARIABLE: &str = "CILIUM_IPAM_TESTBED_CACHE";
/// The ecosystem's usual way to say where these programs are.
const ASSETS_VARIABLE: &str = "KUBEBUILDER_ASSETS";
const ASSETS: [Program; 3] = [Program::KubeApiserver, Program::Etcd, Program::Kubectl];
const KUBERNETES_MINOR: &str = "36";
const KUBERNETES_RELEASE: &str = "1.36.3";
const HELM_RELEASE: &str = "3.22.0";
const CONTAINERD_RELEASE: &str = "2.4.2";

/// A release line of Cilium whose programs the testbed can build.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum CiliumVersion {
    /// The last line whose load-balancer pools know `cidrs`.
    V1_15,
    /// The first one that reads the annotations `lbipam.cilium.io/…`.
    V1_16,
    /// The last one that serves waiting Services before those with addresses.
    V1_17,
    /// The last patch release before satisfied Services came first.
    V1_18,
    /// A current line.
    V1_19,
    /// The newest line: LB-IPAM was rewritten.
    V1_20,
}

impl CiliumVersion {
    /// Every line, the oldest first.
    pub const ALL: [Self; 6] = [
        Self::V1_15,
        Self::V1_16,
        Self::V1_17,
        Self::V1_18,
        Self::V1_19,
        Self::V1_20,
    ];
    /// Lines whose operators are built on demand only: each takes minutes. [`find`] tells whether
    /// they are there.
    pub const ON_DEMAND: [Self; 3] = [Self::V1_16, Self::V1_17, Self::V1_18];

    /// The release as Cilium writes it, without a `v`.
    #[must_use]
    pub fn release(self) -> &'static str {
        match self {
            Self::V1_15 => "1.15.19",
            Self::V1_16 => "1.16.6",
            Self::V1_17 => "1.17.6",
            Self::V1_18 => "1.18.1",
            Self::V1_19 => "1.19.3",
            Self::V1_20 => "1.20.2",
        }
    }

    /// Flags that lift the limit of its operator's requests.
    #[must_use]
    pub fn unlimited(self) -> [&'static str; 2] {
        match self {
            Self::V1_15 | Self::V1_16 => ["--k8s-client-qps=2000", "--k8s-client-burst=2000"],
            _ => [
                "--operator-k8s-client-qps=2000",
                "--operator-k8s-client-burst=2000",
            ],
        }
    }

    fn module(self) -> &'static str {
        match self {
            Self::V1_15 => "cilium-1.15",
            Self::V1_16 => "cilium-1.16",
            Self::V1_17 => "cilium-1.17",
            Self::V1_18 => "cilium-1.18",
            Self::V1_19 => "cilium-1.19",
            Self::V1_20 => "cilium-1.20",
        }
    }
}

/// One of the plugins that CNI's own project makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum CniPlugin {
    /// A veth pair between the node and a Pod.
    Ptp,
    /// A link with a hardware address of its own on one of the node's.
    Macvlan,
    /// A link with the hardware address of one of the node's.
    Ipvlan,
    /// A veth pair into a bridge of the node.
    Bridge,
    /// A link of the node, handed over.
    HostDevice,
    /// A tap device.
    Tap,
    /// Settings of a link that another plugin made.
    Tuning,
    /// Addresses from files of the node.
    HostLocal,
}

impl CniPlugin {
    /// What configurations call it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Ptp => "ptp",
            Self::Macvlan => "macvlan",
            Self::Ipvlan => "ipvlan",
            Self::Bridge => "bridge",
            Self::HostDevice => "host-device",
            Self::Tap => "tap",
            Self::Tuning => "tuning",
            Self::HostLocal => "host-local",
        }
    }

    fn package(self) -> &'static str {
        match self {
            Self::Ptp => "github.com/containernetworking/plugins/plugins/main/ptp",
            Self::Macvlan => "github.com/containernetworking/plugins/plugins/main/macvlan",
            Self::Ipvlan => "github.com/containernetworking/plugins/plugins/main/ipvlan",
            Self::Bridge => "github.com/containernetworking/plugins/plugins/main/bridge",
            Self::HostDevice => "github.com/containernetworking/plugins/plugins/main/host-device",
            Self::Tap => "github.com/containernetworking/plugins/plugins/main/tap",
            Self::Tuning => "github.com/containernetworking/plugins/plugins/meta/tuning",
            Self::HostLocal => "github.com/containernetworking/plugins/plugins/ipam/host-local",
        }
    }
}

/// A program that the testbed can build.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Program {
    /// The Kubernetes API server.
    KubeApiserver,
    /// The API server's store.
    Etcd,
    /// Saves snapshots of etcd.
    Etcdctl,
    /// Restores them.
    Etcdutl,
    /// Kubernetes' own allocator of pod CIDRs lives in here.
    KubeControllerManager,
    /// Binds Pods to Nodes.
    KubeScheduler,
    /// Kubernetes' own kubelet without containers, and the runtime that it asks.
    HollowKubelet,
    /// Kubernetes' own kubelet.
    Kubelet,
    /// Translates the addresses of Services on a node.
    KubeProxy,
    /// The usual client.
    Kubectl,
    /// The container runtime.
    Containerd,
    /// Keeps a Pod's containers for it.
    ContainerdShim,
    /// Its command line.
    Ctr,
    /// Cilium's operator, for clusters that Cilium does the IPAM of.
    CiliumOperator(CiliumVersion),
    /// Says which pod CIDR an agent would use for a Node. See [`parse_node`](crate::parse_node).
    ParseNodeOracle,
    /// Says what an agent would be set to on a node. See [`agent_settings`](crate::agent_settings).
    NodeSettingsOracle,
    /// Measures Kubernetes' allocator: `cidrset -blocks N [-fragmented]` prints one line of JSON.
    CidrsetBenchmark,
    /// Sends PATCHes as fast as a server takes them.
    RawLoop,
    /// Cilium's agent. It needs a kernel of its own.
    CiliumAgent(CiliumVersion),
    /// The CNI plugin by which Pods get their network from that agent.
    CiliumCni(CiliumVersion),
    /// Installs charts.
    Helm,
    /// Simulates the kubelets of Nodes without machines.
    Kwok,
    /// Acts as a container runtime: attaches network namespaces to networks.
    Cnitool,
    /// What `cnitool` and container runtimes run.
    CniPlugin(CniPlugin),
    /// A registry of images and charts.
    Registry,
    /// Pushes images to a registry and pulls them.
    Crane,
    /// Writes Debian and RPM packages.
    Nfpm,
    /// OpenTofu: its size is a yardstick.
    Tofu,
    /// Installs plugins of kubectl.
    Krew,
    /// Gives addresses to Services.
    MetalLbController,
    /// Keeps Git repositories and pull requests.
    Gitea,
    /// Runs the jobs of its workflows.
    GiteaRunner,
}

impl Program {
    fn file_name(self) -> String {
        match self {
            Self::KubeApiserver => "kube-apiserver".to_owned(),
            Self::Etcd => "etcd".to_owned(),
            Self::Etcdctl => "etcdctl".to_owned(),
            Self::Etcdutl => "etcdutl".to_owned(),
            Self::KubeControllerManager => "kube-controller-manager".to_owned(),
            Self::KubeScheduler => "kube-scheduler".to_owned(),
            Self::HollowKubelet => "hollowkubelet".to_owned(),
            Self::Kubelet => "kubelet".to_owned(),
            Self::KubeProxy => "kube-proxy".to_owned(),
            Self::Kubectl => "kubectl".to_owned(),
            Self::Containerd => "containerd".to_owned(),
            Self::ContainerdShim => "containerd-shim-runc-v2".to_owned(),
            Self::Ctr => "ctr".to_owned(),
            Self::CiliumOperator(version) => format!("cilium-operator-{}", version.release()),
            Self::ParseNodeOracle => "parsenode".to_owned(),
            Self::NodeSettingsOracle => "nodesettings".to_owned(),
            Self::CidrsetBenchmark => "cidrset".to_owned(),
            Self::RawLoop => "rawloop".to_owned(),
            Self::CiliumAgent(version) => format!("cilium-agent-{}", version.release()),
            Self::CiliumCni(version) => format!("cilium-cni-{}", version.release()),
            Self::Helm => "helm".to_owned(),
            Self::Kwok => "kwok".to_owned(),
            Self::Cnitool => "cnitool".to_owned(),
            Self::CniPlugin(plugin) => plugin.name().to_owned(),
            Self::Registry => "registry".to_owned(),
            Self::Crane => "crane".to_owned(),
            Self::Nfpm => "nfpm".to_owned(),
            Self::Tofu => "tofu".to_owned(),
            Self::Krew => "krew".to_owned(),
            Self::MetalLbController => "metallb-controller".to_owned(),
            Self::Gitea => "gitea".to_owned(),
            Self::GiteaRunner => "gitea-runner".to_owned(),
        }
    }

    fn recipe(self) -> Recipe {
        match self {
            Self::KubeApiserver => kubernetes("k8s.io/kubernetes/cmd/kube-apiserver"),
            Self::Etcd => kubernetes("go.etcd.io/etcd/server/v3"),
            Self::Etcdctl => plain("etcd", "go.etcd.io/etcd/etcdctl/v3"),
            Self::Etcdutl => plain("etcd", "go.etcd.io/etcd/etcdutl/v3"),
            Self::KubeControllerManager => {
                kubernetes("k8s.io/kubernetes/cmd/kube-controller-manager")
            }
            Self::KubeScheduler => kubernetes("k8s.io/kubernetes/cmd/kube-scheduler"),
            Self::HollowKubelet => kubernetes("./hollowkubelet"),
            Self::Kubelet => kubernetes("k8s.io/kubernetes/cmd/kubelet"),
            Self::KubeProxy => kubernetes("k8s.io/kubernetes/cmd/kube-proxy"),
            Self::Kubectl => kubernetes("k8s.io/kubernetes/cmd/kubectl"),
            Self::Containerd => containerd("github.com/containerd/containerd/v2/cmd/containerd"),
            Self::ContainerdShim => {
                containerd("github.com/containerd/containerd/v2/cmd/containerd-shim-runc-v2")
            }
            Self::Ctr => containerd("github.com/containerd/containerd/v2/cmd/ctr"),
            Self::CidrsetBenchmark => kubernetes("./cidrset"),
            Self::RawLoop => plain("rawloop", "."),
            Self::CiliumOperator(version) => Recipe {
                tags: "ipam_provider_operator",
                ..cilium(version, "github.com/cilium/cilium/operator")
            },
            Self::CiliumAgent(version) => cilium(version, "github.com/cilium/cilium/daemon"),
            Self::CiliumCni(version) => {
                cilium(version, "github.com/cilium/cilium/plugins/cilium-cni")
            }
            Self::ParseNodeOracle => cilium(CiliumVersion::V1_19, "./parsenode"),
            Self::NodeSettingsOracle => cilium(CiliumVersion::V1_19, "./nodesettings"),
            Self::Helm => Recipe {
                module: "helm",
                package: "helm.sh/helm/v3/cmd/helm",
                tags: "",
                linker_flags: format!(
                    "-s -w -X helm.sh/helm/v3/internal/version.version=v{HELM_RELEASE}"
                ),
                cgo: Cgo::Without,
            },
            Self::Kwok => plain("kwok", "sigs.k8s.io/kwok/cmd/kwok"),
            Self::Cnitool => plain("cni", "github.com/containernetworking/cni/cnitool"),
            Self::CniPlugin(plugin) => plain("cni", plugin.package()),
            Self::Registry => plain(
                "registry",
                "github.com/distribution/distribution/v3/cmd/registry",
            ),
            Self::Crane => plain("crane", "github.com/google/go-containerregistry/cmd/crane"),
            Self::Nfpm => plain("nfpm", "github.com/goreleaser/nfpm/v2/cmd/nfpm"),
            Self::Tofu => plain("opentofu", "github.com/opentofu/opentofu/cmd/tofu"),
            Self::Krew => plain("krew", "sigs.k8s.io/krew/cmd/krew"),
            Self::MetalLbController => plain("metallb", "go.universe.tf/metallb/controller"),
            Self::Gitea => Recipe {
                tags: "sqlite sqlite_unlock_notify",
                cgo: Cgo::Sqlite,
                ..plain("gitea", gitea::MODULE)
            },
            Self::GiteaRunner => plain("gitea-runner", "gitea.com/gitea/runner"),
        }
    }
}

/// Without these linker flags the server reports v0.0.0, and clients misbehave.
fn kubernetes(package: &'static str) -> Recipe {
    let version = "k8s.io/component-base/version";
    Recipe {
        module: "kubernetes",
        package,
        tags: "",
        linker_flags: format!(
            "-s -w -X {version}.gitVersion=v{KUBERNETES_RELEASE} -X {version}.gitMajor=1 \
             -X {version}.gitMinor={KUBERNETES_MINOR}"
        ),
        cgo: Cgo::Without,
    }
}

fn plain(module: &'static str, package: &'static str) -> Recipe {
    Recipe {
        module,
        package,
        tags: "",
        linker_flags: "-s -w".to_owned(),
        cgo: Cgo::Without,
    }
}

/// With the version that its release has, and without what needs headers in C.
fn containerd(package: &'static str) -> Recipe {
    let version = "github.com/containerd/containerd/v2/version.Version";
    Recipe {
        tags: "no_btrfs no_zfs no_devmapper",
        linker_flags: format!("-s -w -X {version}={CONTAINERD_RELEASE}"),
        ..plain("containerd", package)
    }
}

fn cilium(version: CiliumVersion, package: &'static str) -> Recipe {
    Recipe {
        module: version.module(),
        package,
        tags: "",
        linker_flags: format!(
            "-s -w -X github.com/cilium/cilium/pkg/version.ciliumVersion={}",
            version.release()
        ),
        cgo: Cgo::Without,
    }
}

/// Where the binaries of the programs lie that [`build`] was asked for.
#[derive(Debug, Clone)]
pub struct Programs {
    paths: BTreeMap<Program, PathBuf>,
}

impl Programs {
    /// The binary of one program.
    ///
    /// # Errors
    /// Fails if [`build`] was not asked for it.
    pub fn path(&self, program: Program) -> Result<&Path> {
        match self.paths.get(&program) {
            Some(path) => Ok(path),
            None => Err(Error::NotBuilt(program.file_name())),
        }
    }

    /// A command that runs the program with `home` as its home folder and with nothing
    /// else of the environment but `PATH`.
    ///
    /// # Errors
    /// Fails if [`build`] was not asked for the program.
    pub fn command(&self, program: Program, home: &Path) -> Result<Command> {
        Ok(isolated(self.path(program)?, home))
    }
}

/// Finds the binaries of `programs` and builds the missing ones. The first build takes minutes and
/// reports its progress on stderr.
///
/// # Errors
/// Fails if there is no Go toolchain, or a build fails.
pub fn build(programs: &[Program]) -> Result<Programs> {
    let mut paths = BTreeMap::new();
    for &program in programs {
        paths.insert(program, find_or_build(program)?);
    }
    Ok(Programs { paths })
}

/// Finds the binaries of `on_demand` without building them, and those of `programs` as [`build`]
/// does.
///
/// # Errors
/// Fails with [`Error::Missing`] if a binary of `on_demand` is not there, or as [`build`] does.
pub fn find(on_demand: &[Program], programs: &[Program]) -> Result<Programs> {
    let mut paths = BTreeMap::new();
    for &program in on_demand {
        let path = cached(program, &program.recipe())?;
        if !path.exists() {
            return Err(Error::Missing {
                what: "all-operators",
                why: format!(
                    "{} is not built; `cargo xtask testbed build --all-operators` builds it",
                    program.file_name()
                ),
            });
        }
        paths.insert(program, path);
    }
    paths.extend(build(programs)?.paths);
    Ok(Programs { paths })
}

fn cached(program: Program, recipe: &Recipe) -> Result<PathBuf> {
    let folder = cache().join(recipe.fingerprint()?).join("bin");
    Ok(folder.join(program.file_name()))
}

fn find_or_build(program: Program) -> Result<PathBuf> {
    if let Some(path) = in_assets(program) {
        return Ok(path);
    }
    let recipe = program.recipe();
    let path = cached(program, &recipe)?;
    if !path.exists() {
        let folder = path.parent().unwrap_or(&path);
        fs::create_dir_all(folder).map_err(Error::file(folder))?;
        build_once(&recipe, &path)?;
    }
    Ok(path)
}

/// Builds under a lock: two Go builds of the same sources at once would only fight for
/// memory. The name appears once the binary is complete.
fn build_once(recipe: &Recipe, path: &Path) -> Result<()> {
    let lock_path = path.with_added_extension("lock");
    let lock = File::create(&lock_path).map_err(Error::file(&lock_path))?;
    lock.lock().map_err(Error::file(&lock_path))?;
    if path.exists() {
        return Ok(());
    }
    let package = recipe.package;
    eprintln!(
        "testbed: building {package} of {}; minutes the first time",
        recipe.module
    );
    let start = std::time::Instant::now();
    let unfinished = path.with_added_extension("unfinished");
    recipe.build(&unfinished)?;
    fs::rename(&unfinished, path).map_err(Error::file(path))?;
    eprintln!(
        "testbed: built {package} in {} s",
        start.elapsed().as_secs()
    );
    Ok(())
}

/// The folder for all that is fetched or built.
pub(crate) fn cache() -> PathBuf {
    match std::env::var_os(CACHE_VARIABLE) {
        Some(folder) => PathBuf::from(folder),
        None => workspace().join(".cache/testbed"),
    }
}

/// All three or none: no real setup has a server of one release with the store of another.
fn in_assets(program: Program) -> Option<PathBuf> {
    let folder = PathBuf::from(std::env::var_os(ASSETS_VARIABLE)?);
    let complete = ASSETS
        .iter()
        .all(|asset| folder.join(asset.file_name()).exists());
    (complete && ASSETS.contains(&program)).then(|| folder.join(program.file_name()))
}
