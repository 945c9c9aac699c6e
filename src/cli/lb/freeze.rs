//! `lb freeze`: writes a pin for every address that is held and not pinned yet, in one file for each
//! Service.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use super::report::{Files, Report};
use super::{Flags, changed};
use crate::cli::failure::Failure;
use crate::cli::new_files::yaml::{comment, head, list, yaml};
use crate::cli::new_files::{Difference, NewFile, difference, text, trial, write_all};
use crate::cli::{Common, ExitStatus};
use ipam_cilium::observed::Observed;
use ipam_controller::{Job, Loaded};
use ipam_core::model::ServiceName;
use ipam_import::freeze::{Freeze, FrozenPin, Judgement, Left, WhyLeft, freeze, judge};
use ipam_plan::plan::PlanDocument;

/// Limit of the trial plans: each but the last leaves out pins that the plan blocks.
const TRIALS: usize = 5;

/// Files whose plan writes pins and changes nothing else.
struct Trial {
    files: Vec<NewFile>,
    document: PlanDocument,
}

pub(super) async fn run(flags: &Flags, common: &Common) -> Result<ExitStatus, Failure> {
    let (loaded, observed) = flags.read(common).await?;
    let known: BTreeSet<&ServiceName> = observed.services.keys().collect();
    flags.refuse_unknown(&known)?;
    let mut decided = freeze(&flags.frozen(), &loaded.desired, &observed);
    let differences = differences(flags, &decided)?;
    let trial = settled(flags, common, &mut decided, &loaded, &observed)?;
    let is_written = differences.is_empty() && !flags.dry_run && !trial.files.is_empty();
    if is_written {
        write_all(&trial.files)?;
    }
    let report = Report {
        flags,
        common,
        files: Files::Written(&trial.files),
        is_done: is_written,
        pinned: decided.pinned.len(),
        left: &decided.left,
        notes: notes(&decided.pins),
        differences: &differences,
        document: &trial.document,
    };
    report.show()?;
    match (differences.is_empty(), decided.left.is_empty()) {
        (true, true) => Ok(ExitStatus::Done),
        (true, false) => Ok(ExitStatus::Findings),
        (false, _) => Err(Failure::Failed(
            "files of an earlier freeze differ from the cluster; nothing was written. Edit or remove them, or name other Services with --service".to_owned(),
        )),
    }
}

/// The files that exist and have another text than a freeze would write now.
fn differences(flags: &Flags, decided: &Freeze) -> Result<Vec<Difference>, Failure> {
    let new = decided.pins.iter();
    let new = new.map(|pin| (&pin.service, &pin.addresses[..]));
    let others = decided.left.iter().filter_map(|left| match &left.why {
        WhyLeft::PinnedToOthers { held, .. } => Some((&left.service, &held[..])),
        _ => None,
    });
    let mut differences = Vec::new();
    for (service, addresses) in new.chain(others) {
        let file = file(&flags.directory, service, addresses)?;
        if let Some(old) = text(&file.path)? {
            differences.extend(difference(&file.path, Some(&old), &file.text, "freeze"));
        }
    }
    Ok(differences)
}

fn settled(
    flags: &Flags,
    common: &Common,
    decided: &mut Freeze,
    loaded: &Loaded,
    observed: &Observed,
) -> Result<Trial, Failure> {
    let without = Job::files(loaded).plan(observed);
    for _ in 0..TRIALS {
        let files = files(flags, &decided.pins)?;
        let overwritten = paths(&files);
        let changed = changed(loaded, &files, &overwritten, common)?;
        let with = Job::files(&changed).plan(observed);
        match judge(&decided.pins, &without, &with) {
            Judgement::Good => {
                let document = trial::document(&flags.directory, &with, common.detail());
                return Ok(Trial { files, document });
            }
            Judgement::Without(left) => leave_out(decided, left),
            Judgement::Refused(what) => {
                return Err(Failure::Failed(format!(
                    "the pins would change something else, so nothing was written: {what}"
                )));
            }
        }
    }
    Err(Failure::Failed(
        "no pins were found whose plan changes nothing else; nothing was written".to_owned(),
    ))
}

fn files(flags: &Flags, pins: &[FrozenPin]) -> Result<Vec<NewFile>, Failure> {
    pins.iter()
        .map(|pin| file(&flags.directory, &pin.service, &pin.addresses))
        .collect()
}

fn paths(files: &[NewFile]) -> BTreeSet<String> {
    let paths = files.iter().map(|file| file.path.to_string_lossy());
    paths.map(std::borrow::Cow::into_owned).collect()
}

fn leave_out(decided: &mut Freeze, left: Vec<Left>) {
    let names: BTreeSet<&ServiceName> = left.iter().map(|left| &left.service).collect();
    decided.pins.retain(|pin| !names.contains(&pin.service));
    decided.left.extend(left);
    decided.left.sort_by(|a, b| a.service.cmp(&b.service));
}

/// What a person should know of Services that Cilium makes for other objects.
fn notes(pins: &[FrozenPin]) -> Vec<String> {
    let made = pins.iter().filter_map(|pin| {
        let owner = pin.owner.as_ref()?;
        Some(format!(
            "{owner} made Service {}: Cilium keeps the annotation when it updates the Service, and loses it when it creates the Service again",
            pin.service
        ))
    });
    made.collect()
}

/// The folder below the directory of the files.
pub(super) const FOLDER: &str = "frozen";

pub(super) fn path(directory: &Path, service: &ServiceName) -> PathBuf {
    directory
        .join(FOLDER)
        .join(service.namespace())
        .join(format!("{}.yaml", service.name()))
}

/// The file of a pin. `addresses` are sorted.
pub(super) fn file(
    directory: &Path,
    service: &ServiceName,
    addresses: &[IpAddr],
) -> Result<NewFile, Failure> {
    let mut text = comment(
        "Written by `cilium-ipam lb freeze`: the Service held these addresses. `cilium-ipam lb thaw` removes this file as long as it is as written.",
    );
    let name = format!("{}.{}", service.namespace(), service.name());
    text += &head("ServiceAssignment", &name)?;
    text += &format!("  service: {}\n", yaml(&service.to_string())?);
    text += &list("ips", addresses)?;
    Ok(NewFile {
        path: path(directory, service),
        text,
    })
}
