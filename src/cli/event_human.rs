//! Events of `watch` and the operator as lines for people.

use super::output::{Capped, fault, written};
use crate::render::{Detail, Paint, count, grouped, named, printable};
use ipam_cluster::Rollback;
use ipam_controller::apply::Outcome;
use ipam_controller::{ControllerEvent, Loaded, Waiting, WaitingChange};
use ipam_core::model::{Hazard, Severity, grouped_digits};
use ipam_core::text::joined;
use ipam_desired::Activity;
use ipam_plan::plan::{ChangeDocument, VersionRules};

/// The lines that people read about an event; empty for an event without lines.
pub(super) fn human(event: &ControllerEvent<'_>, detail: Detail) -> String {
    let line = |word: String, what: &str| format!("{word}  {what}\n");
    match event {
        ControllerEvent::ConfigApplied(loaded) => {
            line(Paint::Bold.on("in force"), &applied_files(loaded))
        }
        ControllerEvent::Invalid(loaded) => line(Paint::Red.on("invalid"), &faults(loaded)),
        ControllerEvent::Finished {
            change, outcome, ..
        } => {
            let (word, what) = finished(&ChangeDocument::from(*change), outcome);
            line(word, &what)
        }
        ControllerEvent::Waiting(waiting) => waiting_lines(waiting, detail),
        ControllerEvent::Planned(_)
        | ControllerEvent::Sending(_)
        | ControllerEvent::Conflict(_) => String::new(),
        ControllerEvent::Undone(target, pause) => {
            let what = format!(
                "{target}: another writer reverts the changes; next attempt in {} s",
                pause.as_secs()
            );
            line(Paint::Red.on("undone"), &printable(&what))
        }
        ControllerEvent::RolledBack(rollback) => {
            line(Paint::Red.on("rolled back"), &rollback_text(rollback))
        }
        ControllerEvent::Unhealthy(why) => line(Paint::Red.on("trouble"), &printable(&why.text)),
        ControllerEvent::Recovered => line(Paint::Green.on("recovered"), ""),
        ControllerEvent::Leading => line(Paint::Bold.on("leads"), ""),
        ControllerEvent::Standby(why) => line("stands by".to_owned(), &printable(why)),
    }
}

fn applied_files(loaded: &Loaded) -> String {
    let of = loaded
        .revision
        .as_ref()
        .map(|commit| format!(" of commit {commit}"))
        .unwrap_or_default();
    format!("{}{of}", count(loaded.documents.files.len(), "file"))
}

fn faults(loaded: &Loaded) -> String {
    let faults = loaded
        .findings
        .iter()
        .filter(|finding| finding.severity == Severity::Error);
    format!(
        "{}; the last good files stay in force",
        count(faults.count(), "fault")
    )
}

/// What happened to a change, and the object.
fn finished(change: &ChangeDocument, outcome: &Outcome) -> (String, String) {
    let object = change.target();
    match outcome {
        Outcome::Applied => {
            let (action, value) = written(change);
            let what = format!("{object}  {value}");
            (
                Paint::Green.on(action),
                printable(what.trim_end()).into_owned(),
            )
        }
        other => {
            let why = fault(other).unwrap_or_default();
            let what = format!("{object}  {why}");
            (Paint::Red.on("not written"), printable(&what).into_owned())
        }
    }
}

fn rollback_text(rollback: &Rollback) -> String {
    let Rollback {
        from,
        to,
        forgotten,
    } = rollback;
    let blocks = count(forgotten.len(), "block");
    format!(
        "the cluster went back from resourceVersion {from} to {to}; {blocks} that it lost are quarantined for their nodes"
    )
}

fn waiting_lines(waiting: &Waiting, detail: Detail) -> String {
    let Waiting {
        nodes,
        activity,
        for_a_person,
        refusals,
        warnings,
        blocked,
    } = waiting;
    let (waits, blocks) = (
        count(for_a_person.len(), "change"),
        grouped_digits(blocked.len()),
    );
    let paused = if *activity == Activity::Paused {
        ", paused"
    } else {
        ""
    };
    let mut text = format!(
        "seen  {}, {waits} for approval, {blocks} blocked{paused}\n",
        count(*nodes, "node")
    );
    let waits = for_a_person
        .iter()
        .map(|change| (change.target.to_string(), why_waits(change, *activity)));
    for (code, message) in warnings {
        push_line(&mut text, &format!("warning   {message} ({code})"));
    }
    push_groups(&mut text, "waits     ", waits, detail);
    let refused = refusals
        .iter()
        .map(|refusal| (refusal.message.clone(), refusal.help.clone()));
    let refused = Capped::new(refused, detail);
    for (message, help) in &refused.shown {
        push_line(&mut text, &format!("refused   {message}; {help}"));
    }
    push_more(&mut text, refused.hidden);
    let blocked = blocked
        .iter()
        .map(|(target, reason)| (target.to_string(), reason.to_string()));
    push_groups(&mut text, "blocked   ", blocked, detail);
    text
}

/// Adds one line for each reason, with the names of the reason's objects.
fn push_groups(
    text: &mut String,
    title: &str,
    entries: impl Iterator<Item = (String, String)>,
    detail: Detail,
) {
    let groups = grouped(entries.map(|(name, reason)| (reason, name)));
    let all: usize = groups.iter().map(|(_, names)| names.len()).sum();
    let groups = Capped::new(groups, detail);
    for (reason, names) in &groups.shown {
        push_line(text, &format!("{title}{}  {reason}", named(names, detail)));
    }
    let shown: usize = groups.shown.iter().map(|(_, names)| names.len()).sum();
    push_more(text, all - shown);
}

fn push_line(text: &mut String, line: &str) {
    text.push_str(&format!("    {}\n", printable(line)));
}

fn push_more(text: &mut String, hidden: usize) {
    if hidden > 0 {
        text.push_str(&format!(
            "    … and {} more; `cilium-ipam plan --show-all` shows all\n",
            grouped_digits(hidden)
        ));
    }
}

fn why_waits(change: &WaitingChange, activity: Activity) -> String {
    let hazard = hazard_text(change.hazard, activity);
    match change.needs_approval.as_slice() {
        [] if change.rules == VersionRules::Unknown => UNKNOWN_RULES.to_owned(),
        [] => hazard.to_owned(),
        blocks => format!("needs manual approval: {}", joined(blocks, "; ")),
    }
}

/// Why a change waits that depends on unknown rules of the running release.
pub(super) const UNKNOWN_RULES: &str =
    "needs approval: the rules of the running Cilium are unknown";

pub(super) fn hazard_text(hazard: Hazard, activity: Activity) -> &'static str {
    match hazard {
        Hazard::None if activity == Activity::Paused => "paused",
        Hazard::None => "stands behind what waits",
        Hazard::Disruptive => "disruptive",
        Hazard::Destructive => "destructive",
    }
}
