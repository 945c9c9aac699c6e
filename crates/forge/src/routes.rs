//! The kinds of forges, the requests of each kind, and what their answers mean, as documented; and
//! how a person or the CI names a pull request. Sends nothing.

use std::fmt;
use std::str::FromStr;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::ForgeError;
use crate::{ApiUrl, Comment};

/// Entries of one page of a list: of comments, or of a folder.
pub(crate) const PAGE: usize = 100;

/// A request to the API.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) method: &'static str,
    pub(crate) url: String,
    pub(crate) body: Option<Value>,
}

/// The requests of one kind of forge.
#[derive(Clone, Debug)]
pub(crate) struct Routes {
    pub(crate) kind: Kind,
    pub(crate) api: ApiUrl,
}

impl Request {
    pub(crate) fn get(url: String) -> Request {
        Request {
            method: "GET",
            url,
            body: None,
        }
    }
}

impl Routes {
    /// Asks who the token belongs to. With the token of a workflow, GitHub answers this by GraphQL
    /// only.
    pub(crate) fn me(&self) -> Request {
        let api = self.api.to_string();
        match self.kind {
            Kind::GitLab | Kind::Gitea => Request::get(format!("{api}/user")),
            Kind::GitHub => Request {
                method: "POST",
                url: match api.strip_suffix("/v3") {
                    // Enterprise Server has the two side by side below `/api`.
                    Some(above) => format!("{above}/graphql"),
                    None => format!("{api}/graphql"),
                },
                body: Some(json!({"query": "query { viewer { login } }"})),
            },
        }
    }

    /// The name in the answer to [`Routes::me`], as in comments.
    pub(crate) fn my_name(&self, answer: &Value) -> Option<String> {
        let name = match self.kind {
            Kind::GitHub => &answer["data"]["viewer"]["login"],
            Kind::GitLab => &answer["username"],
            Kind::Gitea => &answer["login"],
        };
        name.as_str().map(str::to_owned)
    }

    pub(crate) fn repository(&self, repository: &Repository) -> String {
        match self.kind {
            Kind::GitLab => format!("{}/projects/{}", self.api, repository.segment()),
            Kind::GitHub | Kind::Gitea => format!("{}/repos/{repository}", self.api),
        }
    }

    fn discussion(&self, repository: &Repository, number: u64) -> String {
        let repository = self.repository(repository);
        match self.kind {
            Kind::GitLab => format!("{repository}/merge_requests/{number}/notes"),
            Kind::GitHub | Kind::Gitea => format!("{repository}/issues/{number}/comments"),
        }
    }

    /// Request of one page of comments, the oldest first. Gitea answers with all comments at once.
    pub(crate) fn comments(&self, repository: &Repository, number: u64, page: usize) -> Request {
        let order = match self.kind {
            Kind::GitLab => "&sort=asc&order_by=created_at",
            Kind::GitHub | Kind::Gitea => "",
        };
        let list = self.discussion(repository, number);
        Request::get(format!("{list}?per_page={PAGE}&page={page}{order}"))
    }

    pub(crate) fn create(&self, repository: &Repository, number: u64, text: &str) -> Request {
        Request {
            method: "POST",
            url: self.discussion(repository, number),
            body: Some(json!({"body": text})),
        }
    }

    pub(crate) fn update(
        &self,
        repository: &Repository,
        number: u64,
        comment: u64,
        text: &str,
    ) -> Request {
        Request {
            method: match self.kind {
                Kind::GitLab => "PUT",
                Kind::GitHub | Kind::Gitea => "PATCH",
            },
            url: self.one_comment(repository, number, comment),
            body: Some(json!({"body": text})),
        }
    }

    pub(crate) fn delete(&self, repository: &Repository, number: u64, comment: u64) -> Request {
        Request {
            method: "DELETE",
            url: self.one_comment(repository, number, comment),
            body: None,
        }
    }

    fn one_comment(&self, repository: &Repository, number: u64, comment: u64) -> String {
        match self.kind {
            Kind::GitLab => format!("{}/{comment}", self.discussion(repository, number)),
            Kind::GitHub | Kind::Gitea => {
                format!("{}/issues/comments/{comment}", self.repository(repository))
            }
        }
    }

    /// A comment of a list, or as the answer to a write. `None` for another form.
    pub(crate) fn comment(&self, answer: &Value) -> Option<Comment> {
        let author = match self.kind {
            Kind::GitLab => &answer["author"]["username"],
            Kind::GitHub | Kind::Gitea => &answer["user"]["login"],
        };
        Some(Comment {
            id: answer["id"].as_u64()?,
            // The account may be deleted.
            author: author.as_str().unwrap_or_default().to_owned(),
            body: answer["body"].as_str()?.to_owned(),
            url: answer["html_url"].as_str().map(str::to_owned),
            created: time(&answer["created_at"]),
            changed: time(&answer["updated_at"]),
        })
    }

    pub(crate) fn pull_request(&self, repository: &Repository, number: u64) -> Request {
        let repository = self.repository(repository);
        Request::get(match self.kind {
            Kind::GitLab => format!("{repository}/merge_requests/{number}"),
            Kind::GitHub | Kind::Gitea => format!("{repository}/pulls/{number}"),
        })
    }

    /// The last commit of a pull request.
    pub(crate) fn head(&self, answer: &Value) -> Option<String> {
        let head = match self.kind {
            Kind::GitLab => &answer["sha"],
            Kind::GitHub | Kind::Gitea => &answer["head"]["sha"],
        };
        head.as_str().map(str::to_owned)
    }

    /// The open pull requests of a branch. Only GitHub selects by branch.
    pub(crate) fn of_branch(&self, repository: &Repository, owner: &str, branch: &str) -> Request {
        let head = format!("{}:{}", encoded(owner), encoded(branch));
        let repository = self.repository(repository);
        Request::get(format!(
            "{repository}/pulls?state=open&head={head}&per_page={PAGE}"
        ))
    }

    /// The number of the pull request with this last commit.
    pub(crate) fn number_of(&self, answer: &Value, commit: &str) -> Option<u64> {
        let all = answer.as_array()?;
        let is_it = |one: &&Value| self.head(one).as_deref() == Some(commit);
        all.iter().find(is_it)?["number"].as_u64()
    }
}

/// A time of an answer.
pub(crate) fn time(value: &Value) -> Option<Timestamp> {
    value.as_str()?.parse().ok()
}

/// A text as a value of a query, or as one segment of a path.
pub(crate) fn encoded(text: &str) -> String {
    let one = |byte: u8| match byte {
        b'-' | b'_' | b'.' | b'~' => char::from(byte).to_string(),
        _ if byte.is_ascii_alphanumeric() => char::from(byte).to_string(),
        _ => format!("%{byte:02X}"),
    };
    text.bytes().map(one).collect()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::PlainHttp;

    pub(crate) fn routes(kind: Kind, api: &str) -> Routes {
        let api = ApiUrl::parse(api, PlainHttp::OnLoopback).unwrap();
        Routes { kind, api }
    }

    #[test]
    fn github_asks_by_graphql_who_it_is() {
        for (api, url) in [
            ("https://api.github.com", "https://api.github.com/graphql"),
            (
                "https://ghe.example/api/v3",
                "https://ghe.example/api/graphql",
            ),
        ] {
            let routes = routes(Kind::GitHub, api);
            assert_eq!(routes.me().url, url);
            let answer = json!({"data": {"viewer": {"login": "github-actions[bot]"}}});
            assert_eq!(
                routes.my_name(&answer).as_deref(),
                Some("github-actions[bot]")
            );
            assert_eq!(routes.my_name(&json!({"data": null, "errors": []})), None);
        }
    }

    #[test]
    fn gitlab_takes_a_path_as_one_segment() {
        let routes = routes(Kind::GitLab, "https://gitlab.com/api/v4");
        let project = "group/sub/name".parse().unwrap();
        let update = routes.update(&project, 7, 42, "text");
        assert_eq!(
            (update.method, update.url.as_str()),
            (
                "PUT",
                "https://gitlab.com/api/v4/projects/group%2Fsub%2Fname/merge_requests/7/notes/42"
            )
        );
    }

    #[test]
    fn a_branch_of_a_fork_cannot_add_to_the_query() {
        let routes = routes(Kind::GitHub, "https://api.github.com");
        let request = routes.of_branch(&"o/r".parse().unwrap(), "fork", "a&state=all#é");
        assert!(
            request
                .url
                .contains("?state=open&head=fork:a%26state%3Dall%23%C3%A9&"),
            "{}",
            request.url
        );
        let open = json!([
            {"number": 3, "head": {"sha": "old"}},
            {"number": 4, "head": {"sha": "new"}},
        ]);
        assert_eq!(routes.number_of(&open, "new"), Some(4));
        assert_eq!(routes.number_of(&open, "newer"), None);
    }
}

/// A kind of forge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// github.com, and GitHub Enterprise Server.
    GitHub,
    /// gitlab.com, and GitLab on a server of your own.
    GitLab,
    /// Gitea, and Forgejo, which has the same API.
    Gitea,
}

impl Kind {
    /// Most characters of a comment.
    #[must_use]
    pub fn limit(self) -> usize {
        match self {
            Kind::GitHub | Kind::Gitea => 65_536,
            Kind::GitLab => 1_000_000,
        }
    }

    /// The environment variables in which a token is looked for, in order.
    #[must_use]
    pub fn token_variables(self) -> &'static [&'static str] {
        match self {
            Kind::GitHub => &["GITHUB_TOKEN", "GH_TOKEN"],
            Kind::GitLab => &["GITLAB_TOKEN"],
            Kind::Gitea => &["GITEA_TOKEN", "FORGEJO_TOKEN", "GITHUB_TOKEN"],
        }
    }

    /// The right that a comment needs.
    #[must_use]
    pub fn right(self) -> &'static str {
        match self {
            Kind::GitHub => {
                "it needs `permissions: {pull-requests: write}` in the workflow; pull requests from forks get no token that may write, so post from a `workflow_run`"
            }
            Kind::GitLab => {
                "it needs the scope `api` and the role Reporter or higher in this project; CI_JOB_TOKEN may not write notes"
            }
            Kind::Gitea => {
                "it needs the scopes `write:issue` and `read:user`, and its user must be able to read the repository"
            }
        }
    }

    /// The name for people.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Kind::GitHub => "GitHub",
            Kind::GitLab => "GitLab",
            Kind::Gitea => "Gitea",
        }
    }
}

/// `owner/name`, or for GitLab also the number of a project or a longer path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Repository(String);

impl FromStr for Repository {
    type Err = ForgeError;

    fn from_str(text: &str) -> Result<Repository, ForgeError> {
        let is_part = |part: &str| {
            let good = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
            !part.is_empty() && part != "." && part != ".." && part.bytes().all(good)
        };
        let is_number = text.parse::<u64>().is_ok();
        match is_number || text.contains('/') && text.split('/').all(is_part) {
            true => Ok(Repository(text.to_owned())),
            false => Err(ForgeError::Misconfigured(format!(
                "`{}` is not a repository, such as `owner/name`",
                text.escape_debug()
            ))),
        }
    }
}

impl fmt::Display for Repository {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Repository {
    /// As one segment of a path.
    pub(crate) fn segment(&self) -> String {
        self.0.replace('/', "%2F")
    }
}

/// How a pull request is named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PullRequest {
    /// Its number.
    Number(u64),
    /// The open one of this branch at this commit. GitHub's `workflow_run` has no number for pull
    /// requests from forks.
    OfBranch {
        /// Owner of the fork.
        owner: String,
        /// The branch in the fork.
        branch: String,
        /// The last commit of the branch.
        commit: String,
    },
}

/// Where a comment goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The repository that the change goes to.
    pub repository: Repository,
    /// The pull request.
    pub pull_request: PullRequest,
}

#[cfg(test)]
mod place_tests {
    use super::*;

    #[test]
    fn a_repository_cannot_leave_its_path() {
        for good in ["owner/name", "group/sub.group/na_me-1", "42"] {
            assert_eq!(good.parse::<Repository>().unwrap().to_string(), good);
        }
        for bad in [
            "", "name", "a/", "/a", "a//b", "a/../b", "a/b?x", "a/b c", "a/é",
        ] {
            assert!(bad.parse::<Repository>().is_err(), "{bad}");
        }
    }
}
