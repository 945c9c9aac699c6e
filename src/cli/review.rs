//! What a pull request has shown: the markers of our comments, and the plan that a comment shows.
//! Must never know requests.

use std::path::{Component, Path, PathBuf};

use forge::Marker;
use jiff::Timestamp;

use super::Common;
use crate::render::{Circumstances, Occasion};
use ipam_planner::plan::PlanDocument;

const PREFIX: &str = "<!-- cilium-ipam plan ";
const SUFFIX: &str = " -->";

/// The line of an outcome after which the cluster is no longer as it was.
pub(super) const APPLIED: &str = "<!-- cilium-ipam applied -->\n";

/// Hexadecimal digits of SHA-256.
const DIGITS: usize = 64;

/// The subject of a text of ours in a forge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Comment {
    /// The plan of a pull request.
    Plan,
    /// The outcome of its apply.
    Outcome,
    /// What differs in the cluster.
    Drift,
    /// What differs in the part that these flags select.
    DriftOfPart(String),
}

/// The time of a text.
pub(super) fn now() -> String {
    let now = Timestamp::from_second(Timestamp::now().as_second());
    now.map(|now| now.to_string()).unwrap_or_default()
}

/// What a text says beside the plan; `time` is that of [`now`].
pub(super) fn circumstances<'c>(
    commit: Option<&'c str>,
    cluster_name: Option<&'c str>,
    common: &'c Common,
    time: &'c str,
    occasion: Occasion,
) -> Circumstances<'c> {
    Circumstances {
        commit,
        cluster: cluster_name.or(common.context.as_deref()),
        time,
        occasion,
        unattended: None,
        check: None,
    }
}

/// The marker for a directory, however it is spelled, and the name of a cluster.
pub(super) fn marker(about: &Comment, directory: &str, cluster_name: Option<&str>) -> Marker {
    let directory = spelled_one_way(directory);
    let cluster = cluster_name.unwrap_or_default();
    match about {
        Comment::Plan => Marker::new(&[&directory, cluster]),
        Comment::Outcome => Marker::new(&[&directory, cluster, "outcome"]),
        Comment::Drift => Marker::new(&[&directory, cluster, "drift"]),
        Comment::DriftOfPart(limit) => Marker::new(&[&directory, cluster, "drift", limit]),
    }
}

/// The directory without `.` and doubled slashes.
fn spelled_one_way(directory: &str) -> String {
    let parts = Path::new(directory).components();
    let parts = parts.filter(|part| *part != Component::CurDir);
    parts.collect::<PathBuf>().to_string_lossy().into_owned()
}

/// The line of a comment that names the plan which it shows. A refused plan cannot be applied.
pub(super) fn hidden_line(plan: &PlanDocument) -> String {
    match plan.refusals.is_empty() {
        true => format!("{PREFIX}{}{SUFFIX}\n", plan.substance()),
        false => String::new(),
    }
}

/// The plan that a comment shows. Only the line after the marker counts: below it are names from
/// files.
pub(super) fn shown_plan(comment: &str) -> Option<&str> {
    let line = comment.lines().nth(1)?.trim_end();
    let digest = line.strip_prefix(PREFIX)?.strip_suffix(SUFFIX)?;
    let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    (digest.len() == DIGITS && digest.bytes().all(is_digit)).then_some(digest)
}

/// Whether an outcome has [`APPLIED`] after the marker.
pub(super) fn tells_of_an_apply(outcome: &str) -> bool {
    outcome.lines().nth(1).map(str::trim_end) == Some(APPLIED.trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_has_one_comment_however_it_is_spelled() {
        for same in ["a/pools", "./a/pools/", "a//pools", "a/./pools"] {
            assert_eq!(spelled_one_way(same), "a/pools", "{same}");
        }
        assert_ne!(spelled_one_way("/a/pools"), "a/pools");
    }

    #[test]
    fn only_the_second_line_names_the_plan() {
        let digest = "0a".repeat(32);
        let line = format!("{PREFIX}{digest}{SUFFIX}");
        let named = |text: &str| shown_plan(text).map(str::to_owned);
        assert_eq!(
            named(&format!("marker\n{line}\ntext")),
            Some(digest.clone())
        );
        assert_eq!(named(&format!("marker\r\n{line}\r\ntext")), Some(digest));
        for text in [
            format!("{line}\nmarker"),
            format!("marker\ntext\n{line}"),
            format!("marker\n> {line}"),
            format!("marker\n{PREFIX}0a{SUFFIX}"),
            format!("marker\n{PREFIX}{}{SUFFIX}", "0A".repeat(32)),
        ] {
            assert_eq!(named(&text), None, "{text}");
        }
    }
}
