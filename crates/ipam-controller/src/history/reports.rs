//! What applies changed: the reports that they wrote, in files that a person names.

use std::io::Read;
use std::path::{Path, PathBuf};

use super::{HistoryQuestion, Period};
use ipam_cluster::open_regular;
use ipam_planner::history::{AppliedDocument, ApplyReport, HistoryDocument, UnreadReport};

/// Largest report, in bytes: several times that of an apply to 100,000 nodes.
const LARGEST: u64 = 128 * 1024 * 1024;

/// Most files of one folder.
const FILES: usize = 100_000;

/// Adds the changes of all reports, the earliest first.
pub(super) fn add(question: &HistoryQuestion, document: &mut HistoryDocument) {
    let mut unread = Vec::new();
    for named in &question.applied {
        for file in files(named, &mut unread) {
            let name = file.display().to_string();
            match read(&file) {
                Ok(report) => {
                    document.reports += 1;
                    if is_in(question.period, &report) {
                        let found = report.about(&question.subject, &name);
                        document.applied.extend(found);
                    }
                }
                Err(why) => unread.push(UnreadReport { file: name, why }),
            }
        }
    }
    let order = |one: &AppliedDocument| (one.time.clone(), one.object.clone());
    document.applied.sort_by_cached_key(order);
    document.unread_reports = unread;
}

/// The file, or the JSON files of the folder in order.
fn files(named: &Path, unread: &mut Vec<UnreadReport>) -> Vec<PathBuf> {
    let mut fail = |why: String| {
        let file = named.display().to_string();
        unread.push(UnreadReport { file, why });
    };
    if !named.is_dir() {
        return vec![named.to_owned()];
    }
    let listed = match named.read_dir() {
        Ok(listed) => listed,
        Err(error) => {
            fail(error.to_string());
            return Vec::new();
        }
    };
    let is_json = |file: &PathBuf| file.extension().is_some_and(|text| text == "json");
    let mut files: Vec<PathBuf> = Vec::new();
    for entry in listed {
        match entry {
            Ok(entry) => files.extend(Some(entry.path()).filter(is_json)),
            Err(error) => fail(error.to_string()),
        }
    }
    files.sort();
    if files.len() > FILES {
        fail(format!(
            "it has more than {FILES} files; the later ones are not read"
        ));
        files.truncate(FILES);
    }
    files
}

fn read(file: &Path) -> Result<ApplyReport, String> {
    let opened = open_regular(file).map_err(|error| error.to_string())?;
    let mut text = String::new();
    let read = opened.take(LARGEST + 1).read_to_string(&mut text);
    read.map_err(|error| error.to_string())?;
    if text.len() as u64 > LARGEST {
        return Err(format!("it is longer than {LARGEST} bytes"));
    }
    ApplyReport::read(&text).map_err(|error| format!("it is no report of an apply: {error}"))
}

fn is_in(period: Period, report: &ApplyReport) -> bool {
    period.touches(Some(report.began), Some(Some(report.began)))
}
