//! Services that lose an address, by cause, for the comment of a pull request.

use std::collections::BTreeMap;

use super::human::{Detail, limit};
use super::markdown::place;
use super::markdown_page::Page;
use super::model::{Form, Listing, Row, UpTo};
use super::phrase::Phrase;
use super::text::grouped_digits;
use ipam_cilium::lbipam::Certainty;
use ipam_plan::plan::{
    ChangeDocument, LossTime, LostAddressDocument, PlanDocument, RefusalDocument,
    ServiceEffectDocument, TargetKind,
};

/// Lost addresses with one cause and one consequence.
pub(super) struct Loss<'p> {
    /// The refusals of the plan: with one, nothing is lost yet.
    refusals: &'p [RefusalDocument],
    /// The first lost address of the group.
    lost: &'p LostAddressDocument,
    /// What the Services get instead.
    then: Vec<&'p str>,
    change: Option<&'p ChangeDocument>,
    /// Each Service with the address that it loses.
    services: Vec<(&'p ServiceEffectDocument, &'p str)>,
}

/// The certain losses come first.
pub(super) fn losses(plan: &PlanDocument) -> Vec<Loss<'_>> {
    let changes: BTreeMap<String, &ChangeDocument> = plan
        .changes
        .iter()
        .filter(|change| !change.is_of_node())
        .map(|change| (change.target(), change))
        .collect();
    let mut all: BTreeMap<_, Loss<'_>> = BTreeMap::new();
    for service in &plan.services {
        let then = service.gains.iter().chain(&service.pending);
        let then: Vec<&str> = then.map(String::as_str).collect();
        for lost in &service.loses {
            let LostAddressDocument {
                address,
                when,
                certainty,
                reason,
                cause,
            } = lost;
            let key = (*certainty, *when, reason, cause, then.clone());
            let loss = all.entry(key).or_insert_with(|| Loss {
                refusals: &plan.refusals,
                lost,
                then: service.gains.iter().map(String::as_str).collect(),
                change: cause.as_ref().and_then(|key| changes.get(key).copied()),
                services: Vec::new(),
            });
            loss.services.push((service, address));
        }
    }
    all.into_values().collect()
}

impl Loss<'_> {
    /// Whether [`Loss::phrase`] names all Services.
    pub(super) fn is_short(&self) -> bool {
        self.services.len() <= limit(Detail::Short)
    }

    /// The loss as a sentence: `Service a/b loses 20.0.10.1 now: no pool covers it; …`.
    pub(super) fn phrase(&self) -> Phrase {
        let parts = self.answers();
        parts
            .into_iter()
            .fold(self.headline(), |phrase, (what, part)| {
                let label = match what {
                    "Cause" => "; the cause: ",
                    "Services" => "; these: ",
                    _ => "; ",
                };
                phrase.words(label).then(part)
            })
    }

    /// The loss without its effects: `Service a/b loses 20.0.10.1 now: no pool covers it`
    pub(super) fn headline(&self) -> Phrase {
        let head = match &self.services[..] {
            [(service, address)] => Phrase::new("Service ")
                .value(&name(service))
                .words(&format!(" {} ", self.verb("loses")))
                .value(address),
            several => Phrase::new(&format!(
                "{} Services {} an address",
                grouped_digits(several.len()),
                self.verb("lose")
            )),
        };
        head.words(&format!(" {}: ", self.time()))
            .sentence(&self.lost.reason)
    }

    /// The change that is the cause, the Services if they are several, and what they get then.
    pub(super) fn answers(&self) -> Vec<(&'static str, Phrase)> {
        let cause = self.change.map(|change| ("Cause", cause(change)));
        let services = (self.services.len() > 1).then(|| {
            let all = Phrase::listed(self.services.iter().map(lost), ", ", Detail::Short);
            ("Services", all)
        });
        let then = self.afterwards().map(|then| ("Afterwards", then));
        [cause, services, then].into_iter().flatten().collect()
    }

    /// Effects of the loss: `it then gets …; it then waits: …`
    fn afterwards(&self) -> Option<Phrase> {
        let who = match self.services.len() {
            1 => "it",
            _ => "each",
        };
        let waits = match self.services.first() {
            Some((service, _)) if service.certainty != Certainty::Certain => "may wait",
            _ => "then waits",
        };
        let then = self.then.iter();
        let then = then.map(|then| Phrase::new(&format!("{who} then ")).sentence(then));
        let waiting = self.waits();
        let waiting = waiting.map(|why| Phrase::new(&format!("{who} {waits}: ")).sentence(why));
        then.chain(waiting)
            .reduce(|before, next| before.words("; ").then(next))
    }

    fn waits(&self) -> impl Iterator<Item = &str> {
        let first = self.services.first().into_iter();
        first.flat_map(|(service, _)| service.pending.iter().map(String::as_str))
    }

    /// `certain` is the verb of a certain loss that nothing refuses.
    fn verb(&self, certain: &'static str) -> &'static str {
        match (self.is_certain(), self.refusals.is_empty()) {
            (true, true) => certain,
            (true, false) => "would lose",
            (false, true) => "may lose",
            (false, false) => "might lose",
        }
    }

    pub(super) fn is_certain(&self) -> bool {
        self.lost.certainty == Certainty::Certain
    }

    /// Time of the loss, in words for a reader of a plan.
    fn time(&self) -> &'static str {
        match (self.lost.when, self.refusals.is_empty()) {
            (LossTime::Now, true) => "when this is applied",
            (LossTime::Now, false) => "if this were applied",
            (later, _) => later.in_words(),
        }
    }

    /// How the Services can keep their addresses.
    pub(super) fn fix(&self) -> Phrase {
        match self.change {
            Some(change) if change.kind != TargetKind::Service => Phrase::new(
                "keep the addresses in ",
            )
            .value(&change.name)
            .words(" until the Services have others: pin each Service to an address that stays (")
            .value("ServiceAssignment")
            .words(") when its clients can follow"),
            _ => Phrase::new(
                "keep the address in a pool that selects the Service, until its clients use another",
            ),
        }
    }

    /// Rows of the loss: a line, and lines with the Services that it does not name.
    fn rows(&self) -> Vec<Row> {
        let most = limit(Detail::Short);
        let label = match self.is_certain() {
            true => "**lost address:** ",
            false => "**address at risk:** ",
        };
        let first = Row::new([Phrase::new(label).then(self.phrase())]);
        let first = first.of(self.services.len().min(most));
        let rest = self.services.get(most..).unwrap_or_default();
        let further = rest.chunks(most).map(|services| {
            let services = services.iter().map(lost);
            let count = services.len();
            Row::new([Phrase::new("and ").then(Phrase::listed(services, ", ", Detail::Full))])
                .of(count)
        });
        [first].into_iter().chain(further).collect()
    }
}

/// A Service with the address that it loses.
fn lost((service, address): &(&ServiceEffectDocument, &str)) -> Phrase {
    Phrase::of(&name(service)).words(" ").value(address)
}

fn name(service: &ServiceEffectDocument) -> String {
    format!("{}/{}", service.namespace, service.name)
}

/// The change that removes an address, with its place in the files.
fn cause(change: &ChangeDocument) -> Phrase {
    let what = match change.kind {
        TargetKind::Service => Phrase::new("its pin"),
        _ => Phrase::new("pool ").value(&change.name),
    };
    let (before, after) = (change.before.join(" "), change.after.join(" "));
    let what = match after.is_empty() {
        true => what.words(" goes"),
        false if before == after => what.words(" changes, see below"),
        false if before.is_empty() => what.words(" is new, with ").value(&after),
        false => what
            .words(" changes from ")
            .value(&before)
            .words(" to ")
            .value(&after),
    };
    what.at(change.origin.as_ref().map(place))
}

/// Every lost address, never folded away, without those that the first lines tell.
pub(super) fn losing_services(page: &mut Page<'_>, losses: &[Loss<'_>], told: Option<&Loss<'_>>) {
    let is_told = |loss: &&Loss<'_>| {
        loss.is_short() && told.is_some_and(|told| std::ptr::eq(told.lost, loss.lost))
    };
    let losses = losses.iter().filter(|loss| !is_told(loss));
    let rows: Vec<Row> = losses.flat_map(Loss::rows).collect();
    let listing = Listing::new(Phrase::default(), "lost address", &[]);
    page.listing(listing.form(Form::Lines, UpTo(5)).rows(rows, |row| row));
}
