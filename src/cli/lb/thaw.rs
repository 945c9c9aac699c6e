//! `lb thaw`: removes the pins that `lb freeze` wrote.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use super::freeze::{self, FOLDER};
use super::report::{Files, Report};
use super::{Flags, changed};
use crate::cli::failure::Failure;
use crate::cli::new_files::{text, trial};
use crate::cli::{Common, ExitStatus};
use ipam_cilium::observed::Observed;
use ipam_controller::{Job, Loaded};
use ipam_core::model::ServiceName;
use ipam_desired::ServicePin;
use ipam_import::freeze::{Left, WhyLeft, moved, other_changes};
use ipam_plan::plan::{Plan, PlanDocument};

/// The files that go.
#[derive(Default)]
struct Thawed {
    services: BTreeSet<ServiceName>,
    paths: Vec<PathBuf>,
    left: Vec<Left>,
}

pub(super) async fn run(flags: &Flags, common: &Common) -> Result<ExitStatus, Failure> {
    let (loaded, observed) = flags.read(common).await?;
    let pinned = loaded.desired.service_pins.keys();
    flags.refuse_unknown(&pinned.chain(observed.services.keys()).collect())?;
    let thawed = thawed(flags, &loaded)?;
    let without = Job::files(&loaded).plan(&observed);
    let gone = thawed.paths.iter().map(|path| path.to_string_lossy());
    let gone: BTreeSet<String> = gone.map(std::borrow::Cow::into_owned).collect();
    let changed = changed(&loaded, &[], &gone, common)?;
    let with = Job::files(&changed).plan(&observed);
    refuse_moves(&without, &with)?;
    let is_done = !flags.dry_run && !thawed.paths.is_empty();
    if is_done {
        remove(flags, &thawed.paths)?;
    }
    let document: PlanDocument = trial::document(&flags.directory, &with, common.detail());
    let report = Report {
        flags,
        common,
        files: Files::Removed(&thawed.paths),
        is_done,
        pinned: 0,
        left: &thawed.left,
        notes: notes(&thawed, &observed),
        differences: &[],
        document: &document,
    };
    report.show()?;
    Ok(ExitStatus::Done)
}

fn thawed(flags: &Flags, loaded: &Loaded) -> Result<Thawed, Failure> {
    let mut thawed = Thawed::default();
    let pins = loaded.desired.service_pins.values();
    for pin in pins.filter(|pin| flags.has(&pin.service)) {
        let path = freeze::path(&flags.directory, &pin.service);
        let is_here = path.to_string_lossy() == *pin.origin.file;
        match is_here && is_as_written(flags, pin)? {
            true => {
                thawed.services.insert(pin.service.clone());
                thawed.paths.push(path);
            }
            // Without --service, pins of other files are no news.
            false if is_here || !flags.services.is_empty() => thawed.left.push(Left {
                service: pin.service.clone(),
                why: WhyLeft::Blocked {
                    reason: format!("{} is not as `lb freeze` writes it", pin.origin),
                    unblock: "remove the ServiceAssignment by hand".to_owned(),
                },
            }),
            false => {}
        }
    }
    Ok(thawed)
}

fn is_as_written(flags: &Flags, pin: &ServicePin) -> Result<bool, Failure> {
    let mut addresses: Vec<IpAddr> = pin.addresses().iter().map(|one| one.address).collect();
    addresses.sort();
    let file = freeze::file(&flags.directory, &pin.service, &addresses)?;
    Ok(text(&file.path)?.as_deref() == Some(&*file.text))
}

fn refuse_moves(without: &Plan, with: &Plan) -> Result<(), Failure> {
    match other_changes(without, with, |_| false).or_else(|| moved(without, with)) {
        None => Ok(()),
        Some(what) => Err(Failure::Failed(format!(
            "without these pins something else would change, so no file was removed: {what}"
        ))),
    }
}

fn remove(flags: &Flags, paths: &[PathBuf]) -> Result<(), Failure> {
    for path in paths {
        std::fs::remove_file(path).map_err(|error| {
            Failure::Failed(format!("{} cannot be removed: {error}", path.display()))
        })?;
    }
    // Only empty folders go. That others have files is no failure.
    let folders: BTreeSet<&Path> = paths.iter().filter_map(|path| path.parent()).collect();
    for folder in folders {
        let _ = std::fs::remove_dir(folder);
    }
    let _ = std::fs::remove_dir(flags.directory.join(FOLDER));
    Ok(())
}

/// How to remove the annotations. They may be of others by now, so no plan removes them.
fn notes(thawed: &Thawed, observed: &Observed) -> Vec<String> {
    let key = observed.lb_rules().addresses_annotation();
    let mut asking: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for name in &thawed.services {
        let service = observed.services.get(name);
        if service.is_some_and(|service| service.request_at(key).is_some()) {
            asking
                .entry(name.namespace())
                .or_default()
                .push(name.name());
        }
    }
    let note = |(namespace, names): (&str, Vec<&str>)| {
        let asks = if names.len() == 1 { "asks" } else { "ask" };
        format!(
            "{} of namespace {namespace} still {asks} for what the pin says. To end it: `kubectl annotate service --namespace {namespace} {} {key}-`",
            ipam_core::model::count(names.len(), "Service"),
            names.join(" ")
        )
    };
    asking.into_iter().map(note).collect()
}
