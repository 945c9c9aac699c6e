//! The flags of every command: the cluster, OpenStack, and how much is printed.

use std::path::PathBuf;

use jiff::SignedDuration;

use super::completions;
use super::failure::Failure;
use super::files;
use super::forge_arguments::now;
use super::target::Target;
use crate::render::{Detail, ReportHeader};
use ipam_cilium::observed::Observed;
use ipam_cluster::Opening;
use ipam_cluster::live::Connection;

/// Flags of every command.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct Common {
    /// Use the cluster in this file.
    ///
    /// The file is a `v1 List` in JSON or YAML, as `kubectl get nodes,ciliumnodes,… -o json` prints
    /// it, or the archive of a `cilium sysdump`, which is only read. Repeat the flag if the
    /// cluster's objects are in several files. `apply` accepts only one file.
    #[arg(long = "cluster-file", alias = "cluster", global = true, value_name = "FILE",
        conflicts_with_all = ["kubeconfig", "context"], add = completions::cluster_files())]
    pub(super) cluster_files: Vec<PathBuf>,
    /// The kubeconfig file to use.
    #[arg(long, global = true, value_name = "FILE")]
    pub(super) kubeconfig: Option<PathBuf>,
    /// The kubeconfig context to use.
    #[arg(long, global = true, value_name = "NAME", add = completions::of_kubeconfig())]
    pub(super) context: Option<String>,
    /// The namespace of Cilium's DaemonSet, operator and ConfigMap. Default: `kube-system`; if it has
    /// no `cilium-config`, the only other namespace that has one and whose agents run on nodes.
    #[arg(long, global = true, hide_short_help = true, value_name = "NAMESPACE", value_parser = namespace)]
    pub(super) cilium_namespace: Option<String>,
    /// OpenStack's clouds.yaml, for pools that are subnets of Neutron and for allowed address
    /// pairs. Default: where OpenStack's clients look for it.
    #[arg(long, global = true, hide_short_help = true, value_name = "FILE")]
    pub(super) clouds_file: Option<PathBuf>,
    /// The cloud in that file. Default: `OS_CLOUD`, or the only cloud.
    #[arg(long, global = true, hide_short_help = true, value_name = "NAME")]
    pub(super) os_cloud: Option<String>,
    /// Use a Neutron in this file instead of OpenStack: JSON with `ports` and `subnets` as Neutron's
    /// API lists them. `apply` writes address pairs there. Only with a cluster in a file: pairs of a
    /// recording say nothing about a live cluster.
    #[arg(long, global = true, hide_short_help = true, value_name = "FILE", requires = "cluster_files",
        conflicts_with_all = ["clouds_file", "os_cloud"])]
    pub(super) neutron_file: Option<PathBuf>,
    /// How long to retry when the API server fails or is busy, such as `30s`.
    #[arg(long, global = true, hide_short_help = true, value_name = "DURATION", default_value = "30s", value_parser = files::duration)]
    pub(super) retry_timeout: SignedDuration,
    /// Never ask. Fail if a question is required.
    #[arg(long, global = true)]
    pub(super) no_input: bool,
    /// Show every change, node and finding.
    ///
    /// By default, long lists are cut and counted.
    #[arg(long, global = true)]
    pub(super) show_all: bool,
    /// Print each request to the API server and to OpenStack.
    ///
    /// Prints method, place, status and time on stderr, and never queries, credentials or bodies.
    #[arg(long, short, global = true, overrides_with = "verbose")]
    pub(super) verbose: bool,
    /// Print no progress and no next steps.
    ///
    /// Results, findings, warnings and questions are still printed.
    #[arg(long, short, global = true, conflicts_with = "verbose")]
    pub(super) quiet: bool,
    /// Print without colours, as with `NO_COLOR=1`.
    #[arg(long, global = true, hide_short_help = true)]
    pub(super) no_color: bool,
}

impl Common {
    /// Whether a flag names the cluster.
    pub(super) fn names_a_cluster(&self) -> bool {
        !self.cluster_files.is_empty() || self.kubeconfig.is_some() || self.context.is_some()
    }

    /// The flags that select the cluster, to be appended to a command.
    pub(super) fn flags(&self) -> String {
        let named = |flag: &str, path: &PathBuf| format!(" --{flag} {}", path.display());
        let file = |flag, path: &Option<PathBuf>| path.as_ref().map(|path| named(flag, path));
        let clusters = self.cluster_files.iter();
        let context = self
            .context
            .as_ref()
            .map(|context| format!(" --context {context}"));
        let cloud = self
            .os_cloud
            .as_ref()
            .map(|cloud| format!(" --os-cloud {cloud}"));
        let parts = [
            Some(clusters.map(|path| named("cluster-file", path)).collect()),
            file("kubeconfig", &self.kubeconfig),
            context,
            file("clouds-file", &self.clouds_file),
            cloud,
            file("neutron-file", &self.neutron_file),
        ];
        parts.into_iter().flatten().collect()
    }

    pub(super) fn connection(&self, patience: SignedDuration) -> Connection {
        let (kubeconfig, context) = (self.kubeconfig.clone(), self.context.clone());
        Connection {
            kubeconfig,
            context,
            cilium_namespace: self.cilium_namespace.clone(),
            patience: patience.unsigned_abs(),
        }
    }

    /// What a report is made from: the cluster as the flags name it, and Cilium as it is observed.
    pub(super) fn report_header(&self, observed: Option<&Observed>) -> ReportHeader {
        let files = self
            .cluster_files
            .iter()
            .map(|file| file.display().to_string());
        let files: Vec<String> = files.collect();
        let version = observed.and_then(|observed| observed.cilium.version);
        ReportHeader {
            cluster: self
                .context
                .clone()
                .or((!files.is_empty()).then(|| files.join(", "))),
            cilium: version.map(|(version, _)| version.to_string()),
            time: now(),
            commit: None,
        }
    }

    pub(super) fn detail(&self) -> Detail {
        if self.show_all {
            Detail::Full
        } else {
            Detail::Short
        }
    }

    pub(super) async fn target(&self, opening: Opening) -> Result<Target, Failure> {
        Target::open(self, opening).await
    }
}

/// The name of a namespace: it becomes part of paths.
fn namespace(text: &str) -> Result<String, &'static str> {
    let is_allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let is_edge = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    match text.len() <= 63
        && text.starts_with(is_edge)
        && text.ends_with(is_edge)
        && text.chars().all(is_allowed)
    {
        true => Ok(text.to_owned()),
        false => Err("expected the name of a namespace, such as `kube-system`"),
    }
}
