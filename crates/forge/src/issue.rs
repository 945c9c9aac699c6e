//! Opens, updates and closes the one issue of ours for each marker. The marker is the hidden first
//! line of the issue, by which it is found again. Must never know what an issue says.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::client::patiently;
use crate::routes::{Request, Routes};
use crate::{Client, ForgeError, Kind, Repository};

/// Issues of one page. Gitea gives no more.
const PAGE: usize = 50;

/// Maximum number of pages of open issues to read.
const PAGES: usize = 100;

/// An issue of a repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Issue {
    /// Number of the issue.
    pub number: u64,
    /// Address of the issue's page, if the forge names it.
    pub url: Option<String>,
    author: String,
    body: String,
}

/// What the issue shall be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IssueWanted<'w> {
    /// Open, with this title and text.
    Open {
        /// Title of the issue: one line of plain text.
        title: &'w str,
        /// Text of the issue, in Markdown.
        text: &'w str,
    },
    /// Closed, with this text.
    Closed {
        /// Text of the issue, in Markdown.
        text: &'w str,
    },
}

/// What [`keep_issue`] did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IssueKept {
    /// No issue was open; a new one was opened.
    Opened(Issue),
    /// An issue was open; its text was replaced.
    Updated(Issue),
    /// The open issue was closed.
    Closed(Issue),
    /// No issue is open, and none is wanted.
    None,
}

/// Makes the one open issue of ours with this marker what it shall be. Issues of other accounts are
/// left alone. Retries for the time of `patience`.
///
/// # Errors
/// Fails if the forge refuses it, or does not answer in time.
pub fn keep_issue(
    client: &Client,
    repository: &Repository,
    marker: &Marker,
    wanted: IssueWanted<'_>,
    patience: Duration,
) -> Result<IssueKept, ForgeError> {
    let tracker = Tracker {
        client,
        repository,
        marker,
    };
    patiently(patience, || tracker.keep(wanted))
}

/// The issues of one repository.
struct Tracker<'c> {
    client: &'c Client,
    repository: &'c Repository,
    marker: &'c Marker,
}

/// The state to write.
#[derive(Clone, Copy)]
enum State {
    Open,
    Closed,
}

impl Tracker<'_> {
    fn keep(&self, wanted: IssueWanted<'_>) -> Result<IssueKept, ForgeError> {
        let ours = self.ours()?;
        match (wanted, ours.split_first()) {
            (IssueWanted::Open { title, text }, None) => self.open(title, text),
            (IssueWanted::Open { title: _, text }, Some((first, doubles))) => {
                let kept = self.write(first.number, State::Open, text)?;
                for double in doubles {
                    self.write(double.number, State::Closed, "A double of another issue.")?;
                }
                Ok(IssueKept::Updated(kept))
            }
            (IssueWanted::Closed { .. }, None) => Ok(IssueKept::None),
            (IssueWanted::Closed { text }, Some((first, doubles))) => {
                for double in doubles {
                    self.write(double.number, State::Closed, text)?;
                }
                let closed = self.write(first.number, State::Closed, text)?;
                Ok(IssueKept::Closed(closed))
            }
        }
    }

    /// The open issues of the token's account that have the marker, the oldest first.
    fn ours(&self) -> Result<Vec<Issue>, ForgeError> {
        let me = self.client.my_name()?;
        let open = self.open_issues()?.into_values();
        let is_ours = |issue: &Issue| issue.author == me && self.marker.is_in(&issue.body);
        Ok(open.filter(is_ours).collect())
    }

    fn open_issues(&self) -> Result<BTreeMap<u64, Issue>, ForgeError> {
        let routes = &self.client.routes;
        let mut all = BTreeMap::new();
        let mut seen = 0;
        for page in 1..=PAGES {
            let request = routes.open_issues(self.repository, page);
            let Value::Array(listed) = self.client.ask(&request)? else {
                return Err(self.client.unexpected(&request, "it is not a list"));
            };
            seen += listed.len();
            if listed.is_empty() {
                return Ok(all);
            }
            let issues = listed.iter().filter_map(|one| routes.issue(one));
            all.extend(issues.map(|issue| (issue.number, issue)));
        }
        Err(ForgeError::Misconfigured(format!(
            "the repository has more than {seen} open issues: close old ones"
        )))
    }

    fn open(&self, title: &str, text: &str) -> Result<IssueKept, ForgeError> {
        let routes = &self.client.routes;
        let request = routes.create_issue(self.repository, title, &self.marker.before(text));
        Ok(IssueKept::Opened(self.ask(&request)?))
    }

    fn write(&self, number: u64, state: State, text: &str) -> Result<Issue, ForgeError> {
        let text = self.marker.before(text);
        let routes = &self.client.routes;
        self.ask(&routes.update_issue(self.repository, number, state, &text))
    }

    fn ask(&self, request: &Request) -> Result<Issue, ForgeError> {
        let issue = self.client.routes.issue(&self.client.ask(request)?);
        issue.ok_or_else(|| self.client.unexpected(request, "it is not an issue"))
    }
}

impl Routes {
    fn issues(&self, repository: &Repository) -> String {
        format!("{}/issues", self.repository(repository))
    }

    fn open_issues(&self, repository: &Repository, page: usize) -> Request {
        let issues = self.issues(repository);
        Request::get(match self.kind {
            Kind::GitHub => format!("{issues}?state=open&per_page={PAGE}&page={page}"),
            Kind::GitLab => format!("{issues}?state=opened&per_page={PAGE}&page={page}"),
            Kind::Gitea => format!("{issues}?state=open&type=issues&limit={PAGE}&page={page}"),
        })
    }

    fn create_issue(&self, repository: &Repository, title: &str, text: &str) -> Request {
        let body = match self.kind {
            Kind::GitLab => json!({"title": title, "description": text}),
            Kind::GitHub | Kind::Gitea => json!({"title": title, "body": text}),
        };
        Request {
            method: "POST",
            url: self.issues(repository),
            body: Some(body),
        }
    }

    fn update_issue(
        &self,
        repository: &Repository,
        number: u64,
        state: State,
        text: &str,
    ) -> Request {
        let (method, body) = match (self.kind, state) {
            (Kind::GitLab, State::Open) => ("PUT", json!({"description": text})),
            (Kind::GitLab, State::Closed) => {
                ("PUT", json!({"description": text, "state_event": "close"}))
            }
            (Kind::GitHub | Kind::Gitea, State::Open) => ("PATCH", json!({"body": text})),
            (Kind::GitHub | Kind::Gitea, State::Closed) => {
                ("PATCH", json!({"body": text, "state": "closed"}))
            }
        };
        Request {
            method,
            url: format!("{}/{number}", self.issues(repository)),
            body: Some(body),
        }
    }

    /// An issue of a list, or as the answer to a write. `None` for another form, and for a pull
    /// request, which GitHub lists as well.
    fn issue(&self, answer: &Value) -> Option<Issue> {
        let (number, author, body, url) = match self.kind {
            Kind::GitLab => ("iid", "username", "description", "web_url"),
            Kind::GitHub | Kind::Gitea => ("number", "login", "body", "html_url"),
        };
        let user = match self.kind {
            Kind::GitLab => &answer["author"],
            Kind::GitHub | Kind::Gitea => &answer["user"],
        };
        if answer["pull_request"].is_object() {
            return None;
        }
        Some(Issue {
            number: answer[number].as_u64()?,
            url: answer[url].as_str().map(str::to_owned),
            author: user[author].as_str().unwrap_or_default().to_owned(),
            // An issue may have no text.
            body: answer[body].as_str().unwrap_or_default().to_owned(),
        })
    }
}

/// Identifies one comment of a pull request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Marker(String);

impl Marker {
    /// The marker of what these texts identify, such as a directory and a cluster. It contains none
    /// of them.
    #[must_use]
    pub fn new(identity: &[&str]) -> Marker {
        let mut hash = Sha256::new();
        for text in identity {
            hash.update(text.len().to_be_bytes());
            hash.update(text);
        }
        let digest = hash.finalize();
        let digits = digest[..16].iter().map(|byte| format!("{byte:02x}"));
        Marker(digits.collect())
    }

    /// Whether a text begins with this marker.
    pub(crate) fn is_in(&self, body: &str) -> bool {
        body.lines().next().map(str::trim_end) == Some(self.to_string().as_str())
    }

    /// The text with this marker as its first line.
    pub(crate) fn before(&self, text: &str) -> String {
        format!("{self}\n{text}")
    }
}

impl fmt::Display for Marker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "<!-- cilium-ipam comment {} -->", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn routes(kind: Kind) -> Routes {
        crate::routes::tests::routes(kind, "https://git.example/api")
    }

    #[test]
    fn a_pull_request_is_no_issue() {
        let mut listed = json!({"number": 3, "user": {"login": "bot"}, "body": null});
        assert_eq!(routes(Kind::GitHub).issue(&listed).unwrap().number, 3);
        listed["pull_request"] = Value::Null;
        assert!(routes(Kind::Gitea).issue(&listed).is_some());
        listed["pull_request"] = json!({"url": "https://git.example"});
        assert!(routes(Kind::GitHub).issue(&listed).is_none());
    }

    #[test]
    fn each_forge_closes_in_its_own_words() {
        let project = "group/name".parse().unwrap();
        let close = |kind| routes(kind).update_issue(&project, 7, State::Closed, "gone");
        let gitlab = close(Kind::GitLab);
        assert_eq!(
            (gitlab.method, gitlab.url.as_str()),
            (
                "PUT",
                "https://git.example/api/projects/group%2Fname/issues/7"
            )
        );
        assert_eq!(gitlab.body.unwrap()["state_event"], "close");
        let gitea = close(Kind::Gitea);
        assert_eq!(
            (gitea.method, gitea.url.as_str()),
            ("PATCH", "https://git.example/api/repos/group/name/issues/7")
        );
        assert_eq!(gitea.body.unwrap()["state"], "closed");
    }
}

#[cfg(test)]
mod marker_tests {
    use super::*;

    #[test]
    fn each_identity_has_its_own_marker_without_its_text() {
        let marker = Marker::new(&["--> @team", "prod"]);
        assert_eq!(marker, Marker::new(&["--> @team", "prod"]));
        assert_ne!(marker, Marker::new(&["--> @teamprod", ""]));
        assert!(!marker.to_string().contains("team"));
        assert!(marker.is_in(&marker.before("text")));
        assert!(marker.is_in(&format!("{marker}\r\ntext")));
        assert!(!marker.is_in(&format!("quoted: {marker}")));
        assert!(!marker.is_in(""));
    }
}
