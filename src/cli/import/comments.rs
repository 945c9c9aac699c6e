//! Explains in YAML comments from what each part was inferred.

use crate::cli::new_files::yaml::comment;
use ipam_core::model::{NodeName, WritePath, WritePathChoice, count, first_of};
use ipam_core::text::joined;
use ipam_desired::PoolState;
use ipam_import::import::{Evidence, Inferred, InferredPool, InferredWritePath, RangeSource};

/// Limit of the nodes that a comment names.
const NAMED: usize = 6;

/// A document as a comment: uncommented, it is the document again.
pub(super) fn commented(document: &str) -> String {
    let lines = document.lines();
    lines.map(|line| format!("# {line}\n")).collect()
}

/// Comment above a pool: where its ranges and nodes come from.
pub(super) fn of_pool(pool: &InferredPool) -> String {
    let evidence = &pool.evidence;
    let mut text = comment(&format!("{} {}", source(pool), holders(evidence)));
    if !evidence.outside.is_empty() {
        text += &comment(&format!(
            "Nodes have blocks outside these: {}.",
            joined(&evidence.outside, ", ")
        ));
    }
    if let Some((key, value)) = &evidence.label {
        text += &comment(&format!(
            "Its nodes are those with the label {key}={value}."
        ));
    }
    if !evidence.waiting.is_empty() {
        text += &comment(&format!(
            "Disabled, so that nothing changes: {} no block, and an enabled pool would give {} one. Remove `disabled` to serve new nodes.",
            nodes(
                &evidence.waiting.iter().collect::<Vec<_>>(),
                "holds",
                "hold"
            ),
            if evidence.waiting.len() == 1 {
                "it"
            } else {
                "them"
            },
        ));
    }
    text
}

fn source(pool: &InferredPool) -> String {
    match pool.evidence.source {
        RangeSource::CiliumSettings => {
            "The CIDRs are those of `cluster-pool-ipv4-cidr` and `cluster-pool-ipv6-cidr` in cilium-config.".to_owned()
        }
        RangeSource::ControllerManager => {
            "The CIDRs are `--cluster-cidr` of kube-controller-manager.".to_owned()
        }
        RangeSource::HeldBlocks => {
            "No setting names its CIDRs: they are the smallest around the blocks of its nodes. Add CIDRs for new nodes.".to_owned()
        }
        RangeSource::UnusualBlocks => {
            "The CIDRs are blocks of another size than most nodes hold. The pool keeps them and gives no new ones.".to_owned()
        }
        RangeSource::PodPool => {
            let name = &pool.name;
            let text = format!("CIDRs and block sizes are those of CiliumPodIPPool {name}.");
            match pool.state {
                PoolState::Active => text,
                PoolState::Disabled => text
                    + " Cilium's operator goes on giving its blocks. While it is disabled here, cilium-ipam does not write it: remove `disabled` to take it over.",
            }
        }
    }
}

fn holders(evidence: &Evidence) -> String {
    let holders: Vec<&NodeName> = evidence.nodes.iter().collect();
    if holders.is_empty() {
        return "No node has a block of it.".to_owned();
    }
    let ends = evidence
        .held
        .iter()
        .map(|(first, last)| match first == last {
            true => first.to_string(),
            false => format!("{first} to {last}"),
        });
    format!(
        "{} {}.",
        nodes(&holders, "holds", "hold"),
        joined(ends, " and ")
    )
}

/// Number and names of the nodes, and the verb: `3 nodes (a, b, c) hold`.
fn nodes(names: &[&NodeName], one: &str, several: &str) -> String {
    let verb = if names.len() == 1 { one } else { several };
    format!(
        "{} ({}) {verb}",
        count(names.len(), "node"),
        first_of(NAMED, names)
    )
}

/// Comment on the Policy's write path: why it was chosen.
pub(super) fn of_write_path(path: &InferredWritePath) -> String {
    let text = match (path.used, path.choice) {
        (None, _) => "The IPAM mode of Cilium is unknown, so the write path is chosen when it is known.".to_owned(),
        (Some(WritePath::CiliumNode), WritePathChoice::Auto) => "Agents read their block from the CiliumNode (`cilium-node`), and Cilium's operator gives it. By its name, the path would be written beside the operator, so it is `auto`.".to_owned(),
        (Some(WritePath::NodeSpec), _) => "Agents read their block from the Node: `spec.podCIDRs`.".to_owned(),
        (Some(WritePath::NodeAnnotation), _) => "Agents read their block from annotations of the Node.".to_owned(),
        (Some(WritePath::CiliumNode), _) => "Agents read their block from the CiliumNode, and no operator gives any.".to_owned(),
        (Some(WritePath::PodIpPool), _) => "Cilium's operator gives blocks of `CiliumPodIPPool`s (ipam `multi-pool`).".to_owned(),
        (Some(WritePath::NodeConfig), _) => "Some agents read their block from the setting `ipv4-range` or `ipv6-range` of a CiliumNodeConfig.".to_owned(),
    };
    comment(&text)
}

/// Hostnames that a pool of Cilium takes from Services; empty without any.
pub(super) fn of_hostnames(inferred: &Inferred) -> String {
    if inferred.hostnames.is_empty() {
        return String::new();
    }
    let hostnames = inferred.hostnames.iter();
    let hostnames = hostnames.map(|(service, hostname)| format!("{service} {hostname}"));
    comment(&format!(
        "Services with hostnames of a cloud: {}. With any CiliumLoadBalancerIPPool, Cilium removes these hostnames. Set `loadBalancerClass` of the Services before you add the first pool.",
        first_of(NAMED, hostnames)
    ))
}

/// Comment on how Services keep their addresses; empty without Services.
pub(super) fn of_services(inferred: &Inferred) -> String {
    match inferred.served_services {
        0 => String::new(),
        services => comment(&format!(
            "{} an address of LB-IPAM. `cilium-ipam lb freeze` writes pins, so that Cilium keeps the addresses when pools change.",
            match services {
                1 => "1 Service holds".to_owned(),
                several => format!("{} hold", count(several, "Service")),
            }
        )),
    }
}
