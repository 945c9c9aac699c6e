//! Flags of several `migrate` commands: what moves, and by which rules.

use clap::ValueEnum;
use clap::builder::{EnumValueParser, TypedValueParser as _};
use jiff::SignedDuration;

use crate::cli::completions;
use crate::cli::failure::Failure;
use crate::cli::files::duration;
use ipam_cilium::observed::Observed;
use ipam_core::model::{NodeName, Selector};
use ipam_migrate::migration::{
    CheckDocument, DrainRules, Goal, Handling, KubeletRestart, MethodChoice, MigrationRequest,
    Rules, is_control_plane,
};
use ipam_plan::plan::Selected;

/// Limit for evictions, and for any other step, unless flags say otherwise.
const TIMEOUT: SignedDuration = SignedDuration::from_mins(10);

/// What moves.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct RequestArguments {
    /// Move only this node. Repeatable. Nodes of the control plane move only if they are named.
    #[arg(long, value_name = "NAME", add = completions::nodes())]
    node: Vec<NodeName>,
    /// Move only nodes with these labels, such as `rack=a,!gpu`. Control-plane nodes are not moved.
    #[arg(long, short = 'l', value_name = "SELECTOR", conflicts_with_all = ["node", "target"])]
    selector: Option<Selector>,
    /// Move only this object: `node/NAME`, which is the same as `--node NAME`, or `label:SELECTOR`.
    /// Repeatable.
    #[arg(long, value_name = "OBJECT", value_parser = target, add = completions::node_targets())]
    target: Vec<Selected>,
    /// Change Cilium's IPAM mode instead. Every node keeps its block.
    #[arg(
        long,
        value_name = "MODE",
        conflicts_with = "method",
        value_parser = EnumValueParser::<ToIpam>::new().try_map(ToIpam::goal)
    )]
    to_ipam: Option<Goal>,
    /// How nodes get other blocks in IPAM mode `kubernetes`.
    #[arg(long, value_enum, value_name = "METHOD", default_value = "auto")]
    method: MethodName,
    /// Evict Pods without a controller. They are lost.
    #[arg(long)]
    force: bool,
    /// Evict Pods with an `emptyDir`. Its data is lost.
    #[arg(long)]
    delete_emptydir_data: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ToIpam {
    /// Agents read their blocks from the Node.
    Kubernetes,
    /// Agents read their blocks from the CiliumNode.
    ClusterPool,
    /// Refused: Cilium converts a cluster itself.
    #[value(hide = true)]
    MultiPool,
}

impl ToIpam {
    fn goal(self) -> Result<Goal, &'static str> {
        match self {
            ToIpam::Kubernetes => Ok(Goal::ToKubernetes),
            ToIpam::ClusterPool => Ok(Goal::ToClusterPool),
            ToIpam::MultiPool => Err(
                "use Cilium's own conversion (1.20 and later): set `enable-cluster-pool-to-multi-pool-migration` for its operator; the guide on `migrate` lists the risks",
            ),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum MethodName {
    /// A `CiliumNodeConfig` gives the node another block.
    Auto,
    /// The Node is deleted and created again. Its kubelet must be restarted.
    RecreateNode,
}

/// An object that `migrate` can move.
fn target(text: &str) -> Result<Selected, String> {
    match text.parse()? {
        selected @ (Selected::Node(_) | Selected::Labels(_)) => Ok(selected),
        Selected::Pool(_) | Selected::Service(_) => {
            Err("a migration moves nodes: write it as node/NAME or label:KEY=VALUE".to_owned())
        }
    }
}

impl RequestArguments {
    /// The request, with the nodes that the cluster has for labels.
    ///
    /// # Errors
    /// Fails if no node has the labels: a request without nodes would move all.
    pub(super) fn resolved(&self, observed: &Observed) -> Result<MigrationRequest, Failure> {
        let mut request = self.request();
        let of_targets = self.target.iter().filter_map(|target| match target {
            Selected::Labels(selector) => Some(selector),
            Selected::Node(_) | Selected::Pool(_) | Selected::Service(_) => None,
        });
        for selector in of_targets.chain(&self.selector) {
            let nodes = observed.nodes.values();
            let matching = || nodes.clone().filter(|node| selector.matches(&node.labels));
            if matching().next().is_none() {
                return Err(Failure::Failed(format!(
                    "no node has the labels `{selector}`; `cilium-ipam show nodes` lists the nodes"
                )));
            }
            let movable = matching().filter(|node| !is_control_plane(node));
            let movable: Vec<NodeName> = movable.map(|node| node.name.clone()).collect();
            if movable.is_empty() {
                return Err(Failure::Failed(format!(
                    "only nodes of the control plane have the labels `{selector}`; name each with --node to move it"
                )));
            }
            request.nodes.extend(movable);
        }
        Ok(request)
    }

    /// Whether labels select nodes, which only the cluster knows.
    pub(super) fn has_labels(&self) -> bool {
        let is_labels = |target: &Selected| matches!(target, Selected::Labels(_));
        self.selector.is_some() || self.target.iter().any(is_labels)
    }

    /// The request, without the nodes of labels.
    pub(super) fn request(&self) -> MigrationRequest {
        let of_targets = self.target.iter().filter_map(|target| match target {
            Selected::Node(name) => Some(name),
            Selected::Labels(_) | Selected::Pool(_) | Selected::Service(_) => None,
        });
        MigrationRequest {
            goal: self.to_ipam.unwrap_or(Goal::Blocks),
            nodes: self.node.iter().chain(of_targets).cloned().collect(),
            method: match self.method {
                MethodName::Auto => MethodChoice::Auto,
                MethodName::RecreateNode => MethodChoice::RecreateNode,
            },
            drain: DrainRules {
                unmanaged: handling(self.force),
                empty_dir: handling(self.delete_emptydir_data),
            },
        }
    }
}

fn handling(is_allowed: bool) -> Handling {
    match is_allowed {
        true => Handling::Evict,
        false => Handling::Refuse,
    }
}

/// How nodes move.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct RulesArguments {
    /// How long one step of a node may take, except the drain. Default: 10m.
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    timeout: Option<SignedDuration>,
    /// How long the drain of a node may take. Default: 10m.
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    drain_timeout: Option<SignedDuration>,
    /// Who restarts the kubelet of a Node that was created again. Default: by-person.
    #[arg(long, value_enum, value_name = "WHO")]
    kubelet_restart: Option<KubeletName>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum KubeletName {
    /// A person, when the migration pauses for it.
    ByPerson,
    /// It restarts by itself: the migration does not pause.
    NotAwaited,
}

impl RulesArguments {
    /// The rules of a new migration.
    pub(super) fn rules(&self, request: &MigrationRequest) -> Rules {
        self.amended(Rules {
            drain: request.drain,
            kubelet: KubeletRestart::default(),
            drain_timeout: TIMEOUT,
            timeout: TIMEOUT,
        })
    }

    /// The rules of a migration that continues: its own, unless a flag says otherwise.
    pub(super) fn amended(&self, rules: Rules) -> Rules {
        // The record has whole seconds.
        let whole = |time: SignedDuration| SignedDuration::from_secs(time.as_secs());
        Rules {
            drain: rules.drain,
            kubelet: match self.kubelet_restart {
                None => rules.kubelet,
                Some(KubeletName::ByPerson) => KubeletRestart::ByPerson,
                Some(KubeletName::NotAwaited) => KubeletRestart::NotAwaited,
            },
            drain_timeout: self.drain_timeout.map_or(rules.drain_timeout, whole),
            timeout: self.timeout.map_or(rules.timeout, whole),
        }
    }
}

/// A check of every moved node.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct CheckArguments {
    /// Run this command with `sh -c` for every moved node, before it takes Pods again. The variable
    /// `CILIUM_IPAM_NODE` has its name. It is run again until it exits with 0, or until --timeout
    /// is over.
    #[arg(long, value_name = "COMMAND")]
    pub(super) check: Option<String>,
    /// How long one run of that command may take.
    #[arg(long, value_name = "DURATION", default_value = "1m", value_parser = duration)]
    pub(super) check_timeout: SignedDuration,
}

impl CheckArguments {
    /// What the migration's record keeps of the check; `None` without a check.
    pub(super) fn document(&self) -> Option<CheckDocument> {
        self.check.as_deref().map(CheckDocument::of_command)
    }
}
