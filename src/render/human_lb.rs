//! LoadBalancer pools, pins and Services of a plan, for a person at a terminal.
//!
//! Pools of Pods of a plan, for a person at a terminal.
//!
//! Ports of VMs of a plan, for a person at a terminal.

use super::headlines::manifest_diff;
use super::human::{Detail, limit, more, sign, values};
use super::text::{Paint, count, printable};
use ipam_cilium::lbipam::Certainty;
use ipam_core::text::by_name;
use ipam_plan::plan::{ChangeDocument, ServiceEffectDocument, TargetKind};

/// Pools with their diffs, and pins.
pub(super) fn changes(changes: &[ChangeDocument], detail: Detail) -> String {
    let mut text = String::new();
    for (kind, title) in [
        (TargetKind::AddressPool, "LoadBalancer pools"),
        (TargetKind::Service, "pinned Services"),
    ] {
        let of_kind = by_name(
            changes.iter().filter(|change| change.kind == kind),
            |change| &change.name,
        );
        if of_kind.is_empty() {
            continue;
        }
        text.push_str(&format!(
            "\n{} ({})\n",
            Paint::Bold.on(title),
            count(of_kind.len(), "change")
        ));
        let shown = &of_kind[..of_kind.len().min(limit(detail))];
        for change in shown {
            text.push_str(&line(change));
            for line in manifest_diff(change) {
                text.push_str(&format!("      {}\n", painted(&line)));
            }
        }
        text.push_str(&more(of_kind.len() - shown.len()));
    }
    text
}

fn line(change: &ChangeDocument) -> String {
    let values = |values: &[String]| {
        if values.is_empty() {
            "none".to_owned()
        } else {
            values.join(" ")
        }
    };
    let (before, after) = (values(&change.before), values(&change.after));
    let values = if before == after || change.before.is_empty() {
        after
    } else {
        format!("{before} -> {after}")
    };
    let head = format!(
        "  {} {} {}  {}  {}",
        sign(change.action),
        change.action,
        printable(&change.name),
        printable(&values),
        printable(&change.write_path),
    );
    format!(
        "{}\n      {}\n",
        head.trim_end(),
        Paint::Dim.on(&printable(&change.reason))
    )
}

fn painted(line: &str) -> String {
    let text = printable(line);
    match line.chars().next() {
        Some('+') => Paint::Green.on(&text),
        Some('-') => Paint::Red.on(&text),
        Some('@') => Paint::Dim.on(&text),
        _ => text.into_owned(),
    }
}

/// Effects on Services. Services that lose an address come first.
pub(super) fn effects(services: &[ServiceEffectDocument], detail: Detail) -> String {
    if services.is_empty() {
        return String::new();
    }
    let mut sorted: Vec<&ServiceEffectDocument> = services.iter().collect();
    sorted.sort_by_key(|service| service.loses.is_empty());
    let mut text = format!(
        "\n{} ({})\n",
        Paint::Bold.on("effects on Services"),
        count(services.len(), "Service")
    );
    // Every Service that loses an address is named.
    let losing = sorted
        .iter()
        .filter(|service| !service.loses.is_empty())
        .count();
    let shown = &sorted[..sorted.len().min(limit(detail).max(losing))];
    for service in shown {
        let (sign, paint) = match (service.loses.is_empty(), service.gains.is_empty()) {
            (false, _) => ("!", Paint::Red),
            (true, false) => ("+", Paint::Green),
            (true, true) => ("~", Paint::Yellow),
        };
        let name = format!("{}/{}", service.namespace, service.name);
        let what = effect_parts(service).join("; ");
        text.push_str(&format!(
            "  {} {}  {}\n",
            paint.on(sign),
            printable(&name),
            printable(&what)
        ));
    }
    text + &more(sorted.len() - shown.len())
}

/// `loses 20.0.10.1 now: no pool covers it`, and so on.
pub(super) fn effect_parts(service: &ServiceEffectDocument) -> Vec<String> {
    let loses = service.loses.iter().map(|lost| {
        let (loses, when) = (lost.certainty.verb(), lost.when.in_words());
        format!("{loses} {} {when}: {}", lost.address, lost.reason)
    });
    let waits = match service.certainty {
        Certainty::Certain => "waits",
        Certainty::LeftToChance => "may wait",
    };
    let pending = service
        .pending
        .iter()
        .map(|reason| format!("{waits}: {reason}"));
    loses
        .chain(service.gains.iter().cloned())
        .chain(pending)
        .collect()
}

/// Kinds of a pool of Pods, and of the object that selects it for nodes.
pub(super) const KINDS: [TargetKind; 2] = [TargetKind::PodPool, TargetKind::NodeConfig];

/// The changes of `CiliumPodIPPool`s and `CiliumNodeConfig`s.
pub(super) fn pod_pool_changes(changes: &[ChangeDocument], detail: Detail) -> String {
    let of_pools = by_name(
        changes.iter().filter(|change| KINDS.contains(&change.kind)),
        |change| &change.name,
    );
    if of_pools.is_empty() {
        return String::new();
    }
    let mut text = format!(
        "\n{} ({})\n",
        Paint::Bold.on("Pod pools"),
        count(of_pools.len(), "change")
    );
    let shown = &of_pools[..of_pools.len().min(limit(detail))];
    for change in shown {
        text.push_str(&format!(
            "  {} {}/{}  {}\n      {}\n",
            sign(change.action),
            change.kind,
            printable(&change.name),
            printable(&values(change)),
            Paint::Dim.on(&printable(&change.reason))
        ));
    }
    text + &more(of_pools.len() - shown.len())
}

/// The changes of `allowed_address_pairs`.
pub(super) fn port_changes(changes: &[ChangeDocument], detail: Detail) -> String {
    let ports = by_name(
        changes
            .iter()
            .filter(|change| change.kind == TargetKind::Port),
        |change| &change.name,
    );
    if ports.is_empty() {
        return String::new();
    }
    let mut text = format!(
        "\n{} ({})\n",
        Paint::Bold.on("Ports of VMs, allowed_address_pairs"),
        count(ports.len(), "change")
    );
    let shown = &ports[..ports.len().min(limit(detail))];
    for change in shown {
        let added = change.after.iter().map(|range| format!("+{range}"));
        let removed = change.before.iter().map(|range| format!("-{range}"));
        let values: Vec<String> = added.chain(removed).collect();
        text.push_str(&format!(
            "  {} Port/{}  {}\n      {}\n",
            Paint::Yellow.on("~"),
            printable(&change.name),
            printable(&values.join(" ")),
            Paint::Dim.on(&printable(&change.reason))
        ));
    }
    text + &more(ports.len() - shown.len())
}
