//! Annotations with pod CIDRs that hide one another or that Cilium does not read, fields of nodes that
//! are no CIDRs, and annotations of Services that only look like those of LB-IPAM.

use super::finding;
use ipam_cilium::behaviours;
use ipam_cilium::lbipam::ADDRESSES;
use ipam_cilium::observed::{
    AnnotationKeys, AnnotationReads, FamilyUse, HoldingField, ModeSeen, Node, Observed,
    read_service_annotations,
};
use ipam_core::model::{Finding, IpamMode, ObjectRef, ServiceName, Severity};
use ipam_core::net::{Block, Family};
use ipam_core::text::{joined, most_similar};

pub(super) fn faults(observed: &Observed) -> Vec<Finding> {
    let is_kubernetes = observed.cilium.mode() == ModeSeen::Known(IpamMode::Kubernetes);
    let mut findings = Vec::new();
    for node in observed.nodes.values() {
        let reads = observed.annotation_reads(node);
        findings.extend(unreadable(node, is_kubernetes && node.spec.is_empty()));
        if is_kubernetes {
            for family in Family::BOTH {
                findings.extend(hidden(node, family, reads));
                findings.extend(outweighed(observed, node, family));
                findings.extend(not_read(observed, node, family, reads));
            }
        } else if let Some((block, field)) = misleading(observed, node) {
            let message = format!(
                "node `{}` carries {block} in an annotation that this IPAM mode does not read",
                node.name
            );
            let finding = finding(Severity::Info, "annotation-not-used", message)
                .about(ObjectRef::node(&node.name));
            let finding = finding
                .seen([format!("{field}: {block}")])
                .causes("nothing; it misleads people and other programs that read it");
            findings.push(finding.help("remove the annotation"));
        }
    }
    findings
}

/// An annotation that names another block than that of the node's Pods. Agents up to 1.11 write the
/// right one at each start.
fn misleading(observed: &Observed, node: &Node) -> Option<(Block, HoldingField)> {
    let lives = observed.pod_blocks_of(&node.name);
    let mut annotated = Family::BOTH
        .into_iter()
        .filter_map(|family| node.annotated(family));
    annotated.find(|(block, _)| observed.knows_pod_blocks() && !lives.contains(block))
}

fn unreadable(node: &Node, is_needed: bool) -> Option<Finding> {
    let (text, severity) = match (&node.unreadable_spec, &node.unreadable_annotation) {
        (Some(text), _) => (text, Severity::Error),
        (None, Some(text)) => (
            text,
            if is_needed {
                Severity::Error
            } else {
                Severity::Info
            },
        ),
        (None, None) => return None,
    };
    let message = format!(
        "node `{}` shows a block that is not a CIDR ({text})",
        node.name
    );
    let finding = finding(severity, "unreadable-block", message).about(ObjectRef::node(&node.name));
    let causes = match severity {
        Severity::Error => "its agent ignores it, and may wait for a block when it restarts",
        _ => "nothing now: its agent does not read that field",
    };
    Some(
        finding
            .seen([text.clone()])
            .causes(causes)
            .help("fix the field by hand"),
    )
}

/// The newer key, which an agent writes itself, hides the older one (`pkg/annotation/k8s.go` Get).
fn hidden(node: &Node, family: Family, reads: AnnotationReads) -> Option<Finding> {
    let (newer, older) = (
        node.annotation.get(family)?,
        node.old_annotation.get(family)?,
    );
    (newer != older && reads == AnnotationReads::Yes(AnnotationKeys::Both)).then_some(())?;
    let message = format!(
        "on node `{}` the annotation with the older key, {older}, is hidden by the newer one, {newer}",
        node.name
    );
    let evidence = [
        format!("{}: {newer}", HoldingField::Annotation),
        format!("{}: {older}", HoldingField::OldAnnotation),
    ];
    let finding = finding(Severity::Warning, "annotation-shadowed", message)
        .about(ObjectRef::node(&node.name))
        .seen(evidence);
    Some(
        finding
            .causes("an edit of the older key has no effect")
            .help("write both keys alike, as `cilium-ipam apply` does"),
    )
}

/// `spec.podCIDRs` always wins (`pkg/k8s/node.go` ParseNode).
fn outweighed(observed: &Observed, node: &Node, family: Family) -> Option<Finding> {
    let (spec, (annotated, field)) = (node.spec.get(family)?, node.annotated(family)?);
    // With the setting `ipv4-range`, the agent writes the block that it uses into the annotation.
    (*spec != annotated && !observed.pod_blocks_of(&node.name).contains(&annotated))
        .then_some(())?;
    let message = format!(
        "on node `{}` the annotation, {annotated}, is not read, because spec.podCIDRs has {spec}",
        node.name
    );
    let evidence = [
        format!("spec.podCIDRs: {spec}"),
        format!("{field}: {annotated}"),
    ];
    let finding = finding(Severity::Warning, "annotation-overridden-by-spec", message)
        .about(ObjectRef::node(&node.name))
        .seen(evidence);
    Some(
        finding
            .causes(format!("the node stays in {spec}"))
            .help("remove the annotation, or re-create the Node without spec.podCIDRs"),
    )
}

fn not_read(
    observed: &Observed,
    node: &Node,
    family: Family,
    reads: AnnotationReads,
) -> Option<Finding> {
    let (block, field) = node
        .annotated(family)
        .filter(|_| node.spec.get(family).is_none())?;
    (reads == AnnotationReads::GateClosed).then_some(())?;
    let waits = observed.cilium.use_of(family) == FamilyUse::Required;
    let severity = if waits {
        Severity::Error
    } else {
        Severity::Warning
    };
    let message = format!(
        "node `{}` has {block} in an annotation only, and this Cilium does not read it",
        node.name
    );
    let evidence = [
        format!("{field}: {block}"),
        "annotate-k8s-node is not \"true\"".to_owned(),
    ];
    let finding = finding(severity, "annotation-not-read", message)
        .about(ObjectRef::node(&node.name))
        .seen(evidence);
    let finding = finding.causes("when its agent starts, it waits for a block indefinitely");
    Some(finding.help("set `annotate-k8s-node: \"true\"` in cilium-config (Helm: annotateK8sNode=true), or write spec.podCIDRs with `cilium-ipam apply`"))
}

/// Annotations that no version reads, and newer ones that this version does not read.
pub(super) fn unread(observed: &Observed) -> Vec<Finding> {
    let unread = observed.unread_annotations.iter();
    let unread = unread.flat_map(|(name, keys)| keys.iter().map(move |key| unknown(name, key)));
    unread.chain(too_new(observed)).collect()
}

fn of(name: &ServiceName, key: &str, whose: &str) -> Finding {
    let message = format!(
        "Service `{}` has the annotation `{}`, which {whose} reads",
        name.to_string().escape_debug(),
        key.escape_debug()
    );
    finding(Severity::Warning, "service-annotation-not-read", message)
        .about(ObjectRef::service(name))
        .causes("Cilium ignores it")
}

fn unknown(name: &ServiceName, key: &str) -> Finding {
    of(name, key, "no version of Cilium").help(advice(key))
}

/// Advice on what the author of an unknown annotation key probably meant.
fn advice(key: &str) -> String {
    let lower = key.to_ascii_lowercase();
    let (domain, name) = lower.split_once('/').unwrap_or((&lower, ""));
    if name.contains("pool") {
        return match domain {
            "ipam.cilium.io" => "this annotation is read from Pods and namespaces, not from Services",
            _ => "Cilium has no annotation for a pool: label the Service, and let the `serviceSelector` of the pool select the label",
        }
        .to_owned();
    }
    let bare = name
        .trim_start_matches("lb-ipam-")
        .trim_start_matches("lbipam-");
    let names =
        read_service_annotations().filter_map(|known| known.strip_prefix("lbipam.cilium.io/"));
    match most_similar(bare, names) {
        Some(meant) => format!("did you mean `lbipam.cilium.io/{meant}`?"),
        None => {
            let known = read_service_annotations()
                .filter(|known| known.starts_with("lbipam.cilium.io/"))
                .map(|known| format!("`{known}`"));
            format!("remove it; Cilium reads {}", joined(known, ", "))
        }
    }
}

/// `lbipam.cilium.io/ips` up to 1.15, where only its older key is read.
fn too_new(observed: &Observed) -> Vec<Finding> {
    let rules = observed.lb_rules();
    if rules.is_of(behaviours::NEWER_SERVICE_ANNOTATIONS) {
        return Vec::new();
    }
    let services = observed.services.values();
    let newer_only = services
        .filter(|service| service.addresses.newer.is_some() && service.addresses.older.is_none());
    let [newer, older] = ADDRESSES;
    newer_only
        .map(|service| {
            of(&service.name, newer, "Cilium before 1.16 never")
                .help(format!("use `{older}`, which every version reads"))
        })
        .collect()
}
