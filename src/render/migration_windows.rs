//! The maintenance windows of a migration: whether one is open, and when the next one opens.

use jiff::Timestamp;
use serde::Serialize;

use super::text::printable;
use ipam_desired::WindowState;
use ipam_planner::migration::ApprovedFiles;

/// The windows as JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct WindowsStatus {
    /// The windows of the Policy that was approved. Without one, nodes begin at any time.
    pub windows: Vec<String>,
    /// Whether nodes may begin now.
    pub open: bool,
    /// When the open window closes, if that is within a week.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<String>,
    /// When the next window opens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub opens: Option<String>,
}

impl WindowsStatus {
    /// `None` if this program does not understand the windows.
    pub(super) fn new(files: &ApprovedFiles, now: Timestamp) -> Option<WindowsStatus> {
        let text = |at: Timestamp| at.to_string();
        let (open, until, opens) = match files.policy()?.state_at(now) {
            WindowState::Open { until } => (true, until.map(text), None),
            WindowState::Closed { opens } => (false, None, opens.map(text)),
        };
        Some(WindowsStatus {
            windows: files.windows.iter().map(ToString::to_string).collect(),
            open,
            until,
            opens,
        })
    }

    fn state(&self) -> String {
        match (self.open, &self.until, &self.opens) {
            (true, Some(until), _) => format!("open until {until}"),
            (true, None, _) => "open".to_owned(),
            (false, _, Some(opens)) => format!("closed, the next one opens at {opens}"),
            (false, _, None) => "closed, and none opens again".to_owned(),
        }
    }

    /// What nodes that have not begun wait for.
    pub(super) fn waits_for(&self) -> Option<String> {
        (!self.open).then(|| match &self.opens {
            Some(opens) => format!("a maintenance window, which opens at {opens}"),
            None => "a maintenance window, and none opens again".to_owned(),
        })
    }

    pub(super) fn text(&self) -> String {
        match self.windows.is_empty() {
            true => String::new(),
            false => format!(
                "  maintenance windows: {}: {}\n",
                printable(&self.windows.join(", ")),
                self.state()
            ),
        }
    }
}
