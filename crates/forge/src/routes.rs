//! The requests of each kind of forge, and what their answers mean, as documented. Sends nothing.

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::{ApiUrl, Comment, Kind, Repository};

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

    /// One page of comments, the oldest first. Gitea has one page, whatever is asked for.
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
