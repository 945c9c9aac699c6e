//! The effects of a plan on Services. Many Services that lose an address for one reason are one row.

use super::causes::grouped;
use super::human::{Detail, limit};
use super::model::{Form, Listing, Row, UpTo, first};
use super::phrase::Phrase;
use super::text::{Paint, count};
use ipam_cilium::lbipam::Certainty;
use ipam_plan::plan::{LossTime, ServiceEffectDocument};

/// All effects on Services. Services that lose an address come first, and each cause has a row.
pub(super) fn effects(services: &[ServiceEffectDocument], detail: Detail) -> Listing<'_> {
    let (losing, others): (Vec<_>, Vec<_>) = services
        .iter()
        .partition(|service| !service.loses.is_empty());
    let mut groups: Vec<Vec<&ServiceEffectDocument>> = Vec::new();
    for (_, group) in grouped(losing.into_iter().map(|service| (cause(service), service))) {
        match group.len() > limit(detail) {
            true => groups.push(group),
            false => groups.extend(group.into_iter().map(|service| vec![service])),
        }
    }
    let always = groups.len();
    groups.extend(others.into_iter().map(|service| vec![service]));
    Listing {
        always,
        ..Listing::new(
            Phrase::new("effects on Services"),
            "Service",
            &[first("Service"), first("what")],
        )
        .counted(count(services.len(), "Service"))
        .rows(groups, move |group| match &group[..] {
            [service] => row(service),
            several => row_of(several, detail),
        })
    }
}

/// Services that lose an address.
pub(super) fn losing(services: &[ServiceEffectDocument]) -> Listing<'_> {
    let losing = services.iter().filter(|one| !one.loses.is_empty());
    of_services("losses", "losing Service", losing.collect()).form(Form::Lines, UpTo(5))
}

/// Effects on Services that keep their addresses.
pub(super) fn other_effects(services: &[ServiceEffectDocument]) -> Listing<'_> {
    let others = services.iter().filter(|one| one.loses.is_empty());
    of_services("other effects", "other Service", others.collect())
}

fn of_services<'p>(
    title: &str,
    noun: &'static str,
    services: Vec<&'p ServiceEffectDocument>,
) -> Listing<'p> {
    Listing::new(Phrase::new(title), noun, &[first("Service"), first("what")])
        .counted(count(services.len(), "Service"))
        .rows(services, row)
}

fn row(service: &ServiceEffectDocument) -> Row {
    let (paint, sign) = match (service.loses.is_empty(), service.gains.is_empty()) {
        (false, _) => (Paint::Red, "!"),
        (true, false) => (Paint::Green, "+"),
        (true, true) => (Paint::Yellow, "~"),
    };
    let (name, what) = (Phrase::of(&service_name(service)), effect(service));
    let line = Phrase::new("**Service** ").then(name.clone()).words(" ");
    let line = line.then(what.clone());
    Row::new([name, what]).sign(paint, sign).line(line)
}

fn service_name(service: &ServiceEffectDocument) -> String {
    format!("{}/{}", service.namespace, service.name)
}

/// `loses 20.0.10.1 now: no pool covers it`, and so on.
fn effect(service: &ServiceEffectDocument) -> Phrase {
    let loses = service.loses.iter().map(|lost| {
        let (loses, when) = (lost.certainty.verb(), lost.when.in_words());
        format!("{loses} {} {when}: {}", lost.address, lost.reason)
    });
    let waits = match service.certainty {
        Certainty::Certain => "waits",
        Certainty::LeftToChance => "may wait",
    };
    let pending = service.pending.iter();
    let pending = pending.map(|reason| format!("{waits}: {reason}"));
    sentences(loses.chain(service.gains.iter().cloned()).chain(pending))
}

fn sentences(all: impl Iterator<Item = String>) -> Phrase {
    let all = all.map(|one| Phrase::prose(&one));
    all.reduce(|before, next| before.words("; ").then(next))
        .unwrap_or_default()
}

/// Services lose addresses for one cause if these parts are equal.
type Cause<'p> = (
    Vec<(Certainty, LossTime, &'p str)>,
    Option<&'p str>,
    &'p [String],
);

/// The losses without their addresses; whether another address follows, in words; and why the
/// Service then waits.
fn cause(service: &ServiceEffectDocument) -> Cause<'_> {
    let losses = service.loses.iter();
    let losses = losses.map(|lost| (lost.certainty, lost.when, &*lost.reason));
    let follows = (!service.gains.is_empty()).then_some("each gets another address");
    (losses.collect(), follows, &service.pending)
}

/// `default/a, default/b … and 398 more  lose an address now: no pool covers it`
fn row_of(services: &[&ServiceEffectDocument], detail: Detail) -> Row {
    let names: Vec<String> = services.iter().map(|one| service_name(one)).collect();
    let (losses, follows, pending) = services.first().map(|one| cause(one)).unwrap_or_default();
    let losses = losses.into_iter().map(|(certainty, when, reason)| {
        let lose = match certainty {
            Certainty::Certain => "lose",
            Certainty::LeftToChance => "may lose",
        };
        format!("{lose} an address {}: {reason}", when.in_words())
    });
    let pending = pending.iter().map(|reason| format!("wait: {reason}"));
    let what = sentences(losses.chain(follows.map(str::to_owned)).chain(pending));
    Row::new([Phrase::names(&names, detail), what])
        .sign(Paint::Red, "!")
        .of(services.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::terminal::listing;
    use ipam_plan::plan::LostAddressDocument;

    fn losing_service(number: usize) -> ServiceEffectDocument {
        ServiceEffectDocument {
            namespace: "default".to_owned(),
            name: format!("s-{number}"),
            loses: vec![LostAddressDocument {
                address: format!("20.0.10.{number}"),
                when: LossTime::Now,
                certainty: Certainty::Certain,
                reason: "no pool covers it".to_owned(),
                cause: None,
            }],
            gains: Vec::new(),
            pending: Vec::new(),
            certainty: Certainty::Certain,
        }
    }

    #[test]
    fn many_services_with_one_cause_are_one_row() {
        let mut services: Vec<_> = (1..=400).map(losing_service).collect();
        services.push(ServiceEffectDocument {
            name: "other".to_owned(),
            loses: vec![LostAddressDocument {
                reason: "the pool is disabled".to_owned(),
                ..losing_service(1).loses[0].clone()
            }],
            ..losing_service(1)
        });
        let short = listing(effects(&services, Detail::Short), Detail::Short);
        assert_eq!(short.lines().count(), 4, "{short}");
        assert!(short.contains("default/s-10 … and 390 more  lose an address now"));
        assert!(short.contains("default/other  loses 20.0.10.1 now: the pool is disabled"));
        let full = listing(effects(&services, Detail::Full), Detail::Full);
        assert_eq!(full.lines().count(), 403);
    }
}
