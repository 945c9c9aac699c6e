//! `show lb`: LoadBalancer pools and Services in Cilium's own columns, and our expectation where it
//! differs.

use serde::Serialize;

use super::failure::Failure;
use super::show::{Column, or_dash, text};
use super::target::read_cluster;
use super::{Common, ExitStatus, Format, output};
use crate::render::{by_name, diagnostics, grouped_digits, natural_order, printable};
use ipam_cilium::lbipam::{
    AddressPool, Counts, GainedAddress, LbService, OperatorState, Pending, ServiceOutcome,
    ServingState, conflicts,
};
use ipam_cilium::observed::{AddressPoolStatus, Observed};
use ipam_cluster::Extent;
use ipam_config::documents::Documents;
use ipam_core::net::{Family, Range};
use ipam_core::text::joined;
use ipam_plan::check;
use ipam_plan::plan::Outlook;

#[derive(Debug, clap::Args)]
pub(super) struct Flags {
    /// Output format.
    #[arg(long, short, value_parser = Format::among(&[Format::Human, Format::Json, Format::Yaml]), default_value = "human")]
    output: Format,
}

#[derive(Serialize)]
struct Tables {
    format_version: &'static str,
    pools: Vec<PoolRow>,
    services: Vec<ServiceRow>,
}

/// The numbers are Cilium's, as text. `expected` has our own counts.
#[derive(Serialize)]
struct PoolRow {
    name: String,
    disabled: bool,
    conflicting: Option<String>,
    total: Option<String>,
    used: Option<String>,
    available: Option<String>,
    expected: Expected,
}

#[derive(Serialize)]
struct Expected {
    conflicting: bool,
    total: u128,
    used: u128,
    available: u128,
}

#[derive(Serialize)]
struct ServiceRow {
    namespace: String,
    name: String,
    external_ips: Vec<String>,
    /// Hostnames that a cloud gave.
    hostnames: Vec<String>,
    pools: Vec<String>,
    /// Reason of Cilium's condition.
    reason: Option<String>,
    /// Expected changes that Cilium does not report itself.
    expected: Vec<String>,
}

pub(super) async fn run(flags: &Flags, common: &Common) -> Result<ExitStatus, Failure> {
    let observed = read_cluster(common, Extent::Plan).await?;
    let tables = tables(&observed);
    match flags.output {
        Format::Json => output::json(&tables)?,
        Format::Yaml => output::yaml(&tables)?,
        _ => {
            output::talk(&diagnostics(
                &[
                    check::about_cilium(&observed),
                    check::load_balancing(&observed),
                ]
                .concat(),
                &Documents::default(),
                common.detail(),
            ));
            output::human(&both(&tables))?;
        }
    }
    Ok(ExitStatus::Done)
}

fn tables(observed: &Observed) -> Tables {
    let outlook = Outlook::new(observed);
    let (next, pools) = (outlook.next(), &outlook.pools);
    let conflicts = conflicts(pools, OperatorState::Running(pools));
    let pool_row = |pool: &AddressPool| {
        let status = observed
            .address_pools
            .get(&pool.name)
            .map(|seen| seen.status.clone())
            .unwrap_or_default();
        let counted: Counts = next.counts.get(&pool.name).copied().unwrap_or_default();
        // The operator shows one number for both families.
        let of_both = |count: fn(&Counts, Family) -> u128| {
            let [ipv4, ipv6] = Family::BOTH.map(|family| count(&counted, family));
            ipv4.saturating_add(ipv6)
        };
        let conflicting = conflicts.contains_key(pool.name.as_str());
        let AddressPoolStatus {
            conflicting: reported,
            total: reported_total,
            used: reported_used,
            available: reported_available,
        } = status;
        PoolRow {
            name: pool.name.clone(),
            disabled: pool.state == ServingState::Disabled,
            conflicting: reported,
            total: reported_total,
            used: reported_used,
            available: reported_available,
            expected: Expected {
                conflicting,
                total: of_both(Counts::total_of),
                used: of_both(Counts::used_of),
                available: of_both(Counts::available_of),
            },
        }
    };
    let service_row = |(name, next): (&ipam_core::model::ServiceName, &ServiceOutcome)| {
        Some(row_of(observed.services.get(name)?, next, &outlook))
    };
    let served = next.outcomes.iter().filter_map(service_row);
    let not_served = outlook.not_served().map(|(service, why, _)| ServiceRow {
        expected: vec![format!("not served: {why}")],
        ..row_of(service, &ServiceOutcome::default(), &outlook)
    });
    Tables {
        format_version: "1.1",
        pools: pools.iter().map(pool_row).collect(),
        services: served.chain(not_served).collect(),
    }
}

fn row_of(service: &LbService, next: &ServiceOutcome, outlook: &Outlook<'_>) -> ServiceRow {
    let has = |pool: &&AddressPool| {
        let covers = |address: &std::net::IpAddr| {
            pool.ranges
                .iter()
                .any(|range| range.range.contains(&Range::from(*address)))
        };
        pool.selects(&service.labels) && service.ingress.iter().any(covers)
    };
    let loses = outlook.lost(service).into_iter();
    let loses = loses.map(|lost| outlook.in_words(&lost));
    let gains = next.gains.iter().map(GainedAddress::to_string);
    let is_reported = |reason: &str| service.reason.as_deref() == Some(reason);
    let pending = next
        .pending
        .iter()
        .map(Pending::reason)
        .filter(|reason| !is_reported(reason));
    let pending = pending.map(|reason| format!("pending: {reason}"));
    let hostnames = service.hostnames.iter();
    ServiceRow {
        namespace: service.name.namespace().to_owned(),
        name: service.name.name().to_owned(),
        external_ips: service.ingress.iter().map(ToString::to_string).collect(),
        hostnames: hostnames.map(|one| one.hostname.clone()).collect(),
        pools: outlook
            .pools
            .iter()
            .filter(has)
            .map(|pool| pool.name.clone())
            .collect(),
        reason: service.reason.clone(),
        expected: loses.chain(gains).chain(pending).collect(),
    }
}

fn safe(text: &str) -> String {
    printable(text).into_owned()
}

/// Addresses and hostnames of a Service, as `kubectl get services` shows them.
fn served(row: &ServiceRow) -> String {
    match joined(row.external_ips.iter().chain(&row.hostnames), ",") {
        none if none.is_empty() => "<pending>".to_owned(),
        served => safe(&served),
    }
}

fn reported(value: &Option<String>) -> String {
    or_dash(&safe(value.as_deref().unwrap_or_default()))
}

fn listed(items: &[String]) -> String {
    or_dash(&safe(&items.join(",")))
}

const POOLS: [Column<PoolRow>; 7] = [
    ("NAME", |row| safe(&row.name)),
    ("DISABLED", |row| row.disabled.to_string()),
    ("CONFLICTING", |row| reported(&row.conflicting)),
    ("TOTAL", |row| reported(&row.total)),
    ("USED", |row| reported(&row.used)),
    ("AVAILABLE", |row| reported(&row.available)),
    ("EXPECTED", |row| or_dash(&difference(row))),
];

const SERVICES: [Column<ServiceRow>; 6] = [
    ("NAMESPACE", |row| safe(&row.namespace)),
    ("NAME", |row| safe(&row.name)),
    ("EXTERNAL-IP", served),
    ("POOL", |row| listed(&row.pools)),
    ("REASON", |row| reported(&row.reason)),
    ("EXPECTED", |row| listed(&row.expected)),
];

fn both(tables: &Tables) -> String {
    let pools = by_name(&tables.pools, |row| &row.name);
    let mut services: Vec<&ServiceRow> = tables.services.iter().collect();
    services.sort_by(|a, b| {
        let by_namespace = natural_order(&a.namespace, &b.namespace);
        by_namespace.then_with(|| natural_order(&a.name, &b.name))
    });
    format!("{}\n{}", text(&POOLS, &pools), text(&SERVICES, &services))
}

/// Our own numbers, if Cilium's differ or are missing.
fn difference(row: &PoolRow) -> String {
    let Expected {
        conflicting,
        total,
        used,
        available,
    } = row.expected;
    let is = |theirs: &Option<String>, ours: u128| theirs.as_deref() == Some(&ours.to_string());
    let mut parts = Vec::new();
    if row.conflicting.as_deref() != Some(if conflicting { "True" } else { "False" }) {
        parts.push(
            if conflicting {
                "conflicting"
            } else {
                "no conflict"
            }
            .to_owned(),
        );
    }
    if !(is(&row.total, total) && is(&row.used, used) && is(&row.available, available)) {
        let [total, used, available] = [total, used, available].map(grouped_digits);
        parts.push(format!("{total} total, {used} used, {available} available"));
    }
    parts.join("; ")
}
