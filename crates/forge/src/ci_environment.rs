//! Reads the environment of a CI job: the forge and its API URL, the pull request, its last commit
//! and the token, or the reason why a comment could not be posted. The environment and the event's
//! text are arguments.

use std::fmt;
use std::time::Duration;

use serde_json::Value;
use ureq::http::Uri;

use crate::{Kind, PullRequest, Repository, Token};

/// What a CI job knows. All of it can be missing.
#[derive(Clone, Debug, Default)]
pub struct CiEnvironment {
    /// The forge that runs the CI.
    pub kind: Option<Kind>,
    /// Address of the forge's API.
    pub api_url: Option<String>,
    /// The repository that a pull request goes to.
    pub repository: Option<String>,
    /// The pull request of the job.
    pub pull_request: Option<PullRequest>,
    /// Last commit of the pull request when the job started.
    pub head: Option<String>,
    /// Commit that the CI job runs for.
    pub commit: Option<String>,
}

/// Looks up a variable. An empty one counts as missing.
type Lookup<'l> = &'l dyn Fn(&str) -> Option<String>;

impl CiEnvironment {
    /// `read` gives the text of the file with the event.
    ///
    /// # Errors
    /// Fails if that text is not JSON, or `read` fails.
    pub fn detect(
        lookup: Lookup<'_>,
        read: &dyn Fn(&str) -> Result<String, ForgeError>,
    ) -> Result<CiEnvironment, ForgeError> {
        let lookup = |name: &str| lookup(name).filter(|value| !value.is_empty());
        // Gitea's and Forgejo's runners set GITHUB_ACTIONS, too.
        if lookup("FORGEJO_ACTIONS").is_some() || lookup("GITEA_ACTIONS").is_some() {
            return of_actions(Kind::Gitea, &lookup, read);
        }
        if lookup("GITLAB_CI").is_some() {
            return Ok(of_gitlab(&lookup));
        }
        if lookup("GITHUB_ACTIONS").is_some() {
            return of_actions(Kind::GitHub, &lookup, read);
        }
        Ok(CiEnvironment::default())
    }
}

impl Token {
    /// The token in the environment, for this kind of forge.
    ///
    /// # Errors
    /// Fails if no variable has a token, or the token has invalid characters.
    pub fn of_environment(kind: Kind, lookup: Lookup<'_>) -> Result<Token, ForgeError> {
        let names = kind.token_variables();
        let found = names
            .iter()
            .find_map(|name| lookup(name).filter(|value| !value.is_empty()));
        if let Some(found) = found {
            return Token::new(&found);
        }
        let job = match (kind, lookup("CI_JOB_TOKEN")) {
            (Kind::GitLab, Some(_)) => {
                "; CI_JOB_TOKEN may not write notes, so make a project access token with the scope `api` and the role Reporter, and set it as a masked variable"
            }
            _ => "",
        };
        Err(ForgeError::Misconfigured(format!(
            "there is no token: set {}, or pass --token-file{job}",
            names.join(" or ")
        )))
    }
}

fn of_gitlab(lookup: Lookup<'_>) -> CiEnvironment {
    let first = |names: &[&str]| names.iter().find_map(|name| lookup(name));
    let number = lookup("CI_MERGE_REQUEST_IID").and_then(|number| number.parse().ok());
    CiEnvironment {
        kind: Some(Kind::GitLab),
        api_url: lookup("CI_API_V4_URL"),
        // The pipeline of a fork runs in the fork.
        repository: first(&["CI_MERGE_REQUEST_PROJECT_ID", "CI_PROJECT_ID"]),
        pull_request: number.map(PullRequest::Number),
        // Pipelines for merged results run on a commit that is in no branch.
        head: number
            .and_then(|_: u64| first(&["CI_MERGE_REQUEST_SOURCE_BRANCH_SHA", "CI_COMMIT_SHA"])),
        commit: lookup("CI_COMMIT_SHA"),
    }
}

/// Reads the variables of GitHub Actions, and of forges that set the same ones.
fn of_actions(
    kind: Kind,
    lookup: Lookup<'_>,
    read: &dyn Fn(&str) -> Result<String, ForgeError>,
) -> Result<CiEnvironment, ForgeError> {
    let prefixes: &[&str] = match kind {
        Kind::Gitea => &["FORGEJO", "GITEA", "GITHUB"],
        Kind::GitHub | Kind::GitLab => &["GITHUB"],
    };
    let variable = |name: &str| {
        prefixes
            .iter()
            .find_map(|prefix| lookup(&format!("{prefix}_{name}")))
    };
    let event: Value = match variable("EVENT_PATH") {
        None => Value::Null,
        Some(path) => serde_json::from_str(&read(&path)?).map_err(|why| {
            ForgeError::Misconfigured(format!("the event in {path} is not JSON: {why}"))
        })?,
    };
    let of_server = |url: String| match kind {
        Kind::Gitea => format!("{url}/api/v1"),
        Kind::GitHub | Kind::GitLab => format!("{url}/api/v3"),
    };
    let (pull_request, head) = of_event(&event);
    Ok(CiEnvironment {
        kind: Some(kind),
        api_url: variable("API_URL").or_else(|| variable("SERVER_URL").map(of_server)),
        repository: variable("REPOSITORY"),
        pull_request,
        head,
        commit: variable("SHA"),
    })
}

/// Pull request of the event that started a job, and the last commit of the pull request.
fn of_event(event: &Value) -> (Option<PullRequest>, Option<String>) {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let direct = &event["pull_request"];
    if let Some(number) = direct["number"].as_u64() {
        return (
            Some(PullRequest::Number(number)),
            text(&direct["head"]["sha"]),
        );
    }
    if let Some(number) = event["issue"]["number"].as_u64() {
        let is_pull = event["issue"]["pull_request"].is_object();
        return (is_pull.then_some(PullRequest::Number(number)), None);
    }
    of_workflow_run(&event["workflow_run"])
}

/// The pull request of the run that triggered this run. For a fork, GitHub names no pull request.
fn of_workflow_run(run: &Value) -> (Option<PullRequest>, Option<String>) {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let head = text(&run["head_sha"]);
    if let Some(number) = run["pull_requests"][0]["number"].as_u64() {
        return (Some(PullRequest::Number(number)), head);
    }
    let is_of_pull_request = run["event"] == "pull_request";
    let owner = text(&run["head_repository"]["owner"]["login"]);
    match (is_of_pull_request, owner, text(&run["head_branch"]), &head) {
        (true, Some(owner), Some(branch), Some(commit)) => (
            Some(PullRequest::OfBranch {
                owner,
                branch,
                commit: commit.clone(),
            }),
            head,
        ),
        _ => (None, head),
    }
}

/// Settings of the user, or else of the CI job.
impl CiEnvironment {
    /// The URL of the API: the given URL, or else the URL of the CI job or of the hosted service.
    ///
    /// # Errors
    /// Fails if the URL is unknown or not safe.
    pub fn api(
        &self,
        kind: Kind,
        given: Option<&str>,
        plain: PlainHttp,
    ) -> Result<ApiUrl, ForgeError> {
        let hosted = match kind {
            Kind::GitHub => Some("https://api.github.com"),
            Kind::GitLab => Some("https://gitlab.com/api/v4"),
            Kind::Gitea => None,
        };
        let of_ci = match self.kind == Some(kind) {
            true => self.api_url.as_deref(),
            false => None,
        };
        match given.or(of_ci).or(hosted) {
            Some(url) => ApiUrl::parse(url, plain),
            None => Err(ForgeError::Misconfigured(
                "the address of the API is unknown: pass --api-url, such as `https://git.example/api/v1`".to_owned(),
            )),
        }
    }

    /// The repository: the given one, or else the repository of the CI job.
    ///
    /// # Errors
    /// Fails if the repository is unknown or its name is invalid.
    pub fn repository(&self, given: Option<&str>) -> Result<Repository, ForgeError> {
        match given.or(self.repository.as_deref()) {
            Some(repository) => repository.parse(),
            None => Err(ForgeError::Misconfigured(
                "the repository is unknown: pass --repository, such as `owner/name`".to_owned(),
            )),
        }
    }
}

/// Where `http` without TLS is allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlainHttp {
    /// Only to loopback addresses of this machine.
    OnLoopback,
    /// To any host, because the user allowed it.
    Anywhere,
}

/// The address below which an API lies, without a slash at its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiUrl(String);

impl fmt::Display for ApiUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl ApiUrl {
    /// # Errors
    /// Fails if the address is invalid, or others on the way could read the token.
    pub fn parse(text: &str, plain: PlainHttp) -> Result<ApiUrl, ForgeError> {
        let fault = |why: &str| {
            // An address with credentials must not be repeated.
            let shown = match text.contains('@') {
                true => "the address of the API".to_owned(),
                false => format!("`{}`", text.escape_debug()),
            };
            Err(ForgeError::Misconfigured(format!("{shown} {why}")))
        };
        let Ok(uri) = text.parse::<Uri>() else {
            return fault("is not an address of an API, such as `https://git.example/api/v1`");
        };
        let authority = uri.authority().map_or("", |authority| authority.as_str());
        let host = uri.host().unwrap_or_default();
        let is_safe = match uri.scheme_str() {
            Some("https") => true,
            Some("http") => plain == PlainHttp::Anywhere || is_loopback(host),
            _ => return fault("is not an address of an API, such as `https://git.example/api/v1`"),
        };
        if authority.contains('@') || uri.query().is_some() || text.contains('#') || host.is_empty()
        {
            return fault("must have a host and a path only");
        }
        if !is_safe {
            return fault(
                "has no TLS, so others on the way could read the token: use https, or pass --allow-plain-http",
            );
        }
        Ok(ApiUrl(text.trim_end_matches('/').to_owned()))
    }

    /// Whether two addresses have the same scheme, host and port.
    pub(crate) fn has_origin_of(&self, other: &str) -> bool {
        let origin = |text: &str| {
            let uri = text.parse::<Uri>().ok()?;
            let scheme = uri.scheme_str()?.to_owned();
            let port = uri.port_u16().unwrap_or(match scheme.as_str() {
                "https" => 443,
                _ => 80,
            });
            let authority = uri.authority()?.as_str();
            let host = uri.host()?.to_ascii_lowercase();
            (!authority.contains('@')).then_some((scheme, host, port))
        };
        origin(&self.0).is_some_and(|own| Some(own) == origin(other))
    }

    /// Whether the host is this machine.
    pub(crate) fn is_here(&self) -> bool {
        let uri = self.0.parse::<Uri>();
        uri.is_ok_and(|uri| is_loopback(uri.host().unwrap_or_default()))
    }
}

fn is_loopback(host: &str) -> bool {
    let is_ipv4 = host.split('.').count() == 4
        && host
            .bytes()
            .all(|byte| byte.is_ascii_digit() || byte == b'.');
    host == "[::1]" || host.eq_ignore_ascii_case("localhost") || is_ipv4 && host.starts_with("127.")
}

/// Why a request to the forge failed.
#[derive(Debug, thiserror::Error)]
pub enum ForgeError {
    /// Settings of the environment or the command line.
    #[error("{0}")]
    Misconfigured(String),
    /// No answer, or the server is busy: a later attempt may succeed.
    #[error("{place}: {why}")]
    Unavailable {
        /// Method and address of the request.
        place: String,
        /// What failed: the connection, or the server with its message.
        why: String,
        /// Pause before a retry, if the server asked for one.
        retry_after: Option<Duration>,
    },
    /// The token is unknown, expired, or lacks a permission.
    #[error("{place}: status {status}{words}: {way_out}")]
    Denied {
        /// Method and address of the request.
        place: String,
        /// Status of the answer: 401, 403 or 404.
        status: u16,
        /// The words of the server, or nothing.
        words: String,
        /// Which permission or setting may be missing, for people.
        way_out: String,
    },
    /// The server answers with a status that no other variant covers.
    #[error("{place}: status {status}{words}")]
    Refused {
        /// Method and address of the request.
        place: String,
        status: u16,
        /// The words of the server, or nothing.
        words: String,
    },
    /// An answer in another form than documented.
    #[error("{place}: unexpected answer: {why}")]
    Unexpected {
        /// Method and address of the request.
        place: String,
        /// What the answer lacks.
        why: String,
    },
    /// The server sends the request, and with it the token, elsewhere.
    #[error(
        "{place}: the server redirects to {to}, and the token is not sent there; set --api-url to the final address"
    )]
    Redirected {
        /// Method and address of the request.
        place: String,
        /// Host that the server redirects to.
        to: String,
    },
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::json;

    use super::*;

    fn detect(variables: &[(&str, &str)], event: &Value) -> CiEnvironment {
        let variables: BTreeMap<&str, &str> = variables.iter().copied().collect();
        let lookup = |name: &str| variables.get(name).map(|value| (*value).to_owned());
        CiEnvironment::detect(&lookup, &|_| Ok(event.to_string())).unwrap()
    }

    const GITHUB: [(&str, &str); 4] = [
        ("GITHUB_ACTIONS", "true"),
        ("GITHUB_API_URL", "https://api.github.com"),
        ("GITHUB_REPOSITORY", "owner/name"),
        ("GITHUB_EVENT_PATH", "event.json"),
    ];

    #[test]
    fn gitea_and_forgejo_look_like_github_and_are_told_apart() {
        let event = json!({"pull_request": {"number": 7, "head": {"sha": "abc"}}});
        let github = detect(&GITHUB, &event);
        assert_eq!(github.kind, Some(Kind::GitHub));
        for flag in ["GITEA_ACTIONS", "FORGEJO_ACTIONS"] {
            let own = ("GITHUB_API_URL", "https://git.example/api/v1");
            let found = detect(&[&GITHUB[..], &[(flag, "true"), own]].concat(), &event);
            assert_eq!(found.kind, Some(Kind::Gitea));
            assert_eq!(found.api_url.as_deref(), Some("https://git.example/api/v1"));
            assert_eq!(found.pull_request, Some(PullRequest::Number(7)));
            assert_eq!(found.head.as_deref(), Some("abc"));
        }
        let server = [
            ("FORGEJO_ACTIONS", "true"),
            ("FORGEJO_SERVER_URL", "https://codeberg.org"),
        ];
        assert_eq!(
            detect(&server, &Value::Null).api_url.as_deref(),
            Some("https://codeberg.org/api/v1")
        );
    }

    #[test]
    fn a_run_for_a_fork_names_its_branch_only() {
        let mut run = json!({
            "event": "pull_request", "head_sha": "abc", "head_branch": "wide",
            "head_repository": {"owner": {"login": "fork"}}, "pull_requests": [],
        });
        let of = |run: &Value| detect(&GITHUB, &json!({"workflow_run": run})).pull_request;
        assert_eq!(
            of(&run),
            Some(PullRequest::OfBranch {
                owner: "fork".to_owned(),
                branch: "wide".to_owned(),
                commit: "abc".to_owned(),
            })
        );
        run["event"] = json!("push");
        assert_eq!(of(&run), None);
        run["pull_requests"] = json!([{"number": 3}]);
        assert_eq!(of(&run), Some(PullRequest::Number(3)));
    }

    #[test]
    fn an_issue_is_no_pull_request() {
        let of = |event| detect(&GITHUB, &event).pull_request;
        assert_eq!(of(json!({"issue": {"number": 5}})), None);
        let pull = json!({"issue": {"number": 5, "pull_request": {}}});
        assert_eq!(of(pull), Some(PullRequest::Number(5)));
        assert_eq!(of(json!({"ref": "refs/heads/main"})), None);
    }

    #[test]
    fn a_merge_request_of_a_fork_is_of_the_target_project() {
        let found = detect(
            &[
                ("GITLAB_CI", "true"),
                ("CI_API_V4_URL", "https://gitlab.example/api/v4"),
                ("CI_PROJECT_ID", "99"),
                ("CI_MERGE_REQUEST_PROJECT_ID", "12"),
                ("CI_MERGE_REQUEST_IID", "7"),
                ("CI_COMMIT_SHA", "merged"),
                ("CI_MERGE_REQUEST_SOURCE_BRANCH_SHA", "abc"),
            ],
            &Value::Null,
        );
        assert_eq!(found.repository.as_deref(), Some("12"));
        assert_eq!(found.pull_request, Some(PullRequest::Number(7)));
        assert_eq!(found.head.as_deref(), Some("abc"));
    }

    #[test]
    fn a_job_token_of_gitlab_is_no_token_for_notes() {
        let lookup = |name: &str| (name == "CI_JOB_TOKEN").then(|| "secret".to_owned());
        let error = Token::of_environment(Kind::GitLab, &lookup)
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("CI_JOB_TOKEN may not write notes"),
            "{error}"
        );
        assert!(!error.contains("secret"), "{error}");
        let empty = |_: &str| Some(String::new());
        let error = Token::of_environment(Kind::Gitea, &empty)
            .unwrap_err()
            .to_string();
        assert!(
            error.starts_with("there is no token: set GITEA_TOKEN or FORGEJO_TOKEN or"),
            "{error}"
        );
    }

    #[test]
    fn the_address_of_the_ci_is_for_its_own_forge() {
        let found = detect(&GITHUB, &Value::Null);
        let api = |kind, given| found.api(kind, given, PlainHttp::OnLoopback);
        let text = |api: ApiUrl| api.to_string();
        assert_eq!(
            text(api(Kind::GitHub, None).unwrap()),
            "https://api.github.com"
        );
        assert!(api(Kind::Gitea, None).is_err());
        let own = "https://git.example/api/v1";
        assert_eq!(text(api(Kind::Gitea, Some(own)).unwrap()), own);
    }
}

#[cfg(test)]
mod address_tests {
    use super::*;

    #[test]
    fn a_token_goes_over_tls_or_stays_on_the_machine() {
        for good in [
            "https://api.github.com",
            "https://git.example:8443/api/v1/",
            "http://127.0.0.1:3000/api/v1",
            "http://[::1]:3000/api/v1",
            "http://localhost/api/v1",
        ] {
            let url = ApiUrl::parse(good, PlainHttp::OnLoopback).unwrap();
            assert_eq!(url.to_string(), good.trim_end_matches('/'));
        }
        for (bad, why) in [
            ("http://git.example/api/v1", "has no TLS"),
            ("http://127.0.0.1.example/api/v1", "has no TLS"),
            ("ftp://git.example", "is not an address"),
            ("git.example", "is not an address"),
            ("", "is not an address"),
            (
                "https://user:secret@git.example",
                "the address of the API must have",
            ),
            ("https://git.example/?a=b", "must have"),
        ] {
            let error = ApiUrl::parse(bad, PlainHttp::OnLoopback).unwrap_err();
            let error = error.to_string();
            assert!(error.contains(why), "{bad}: {error}");
            assert!(!error.contains("secret"), "{error}");
        }
        assert!(ApiUrl::parse("http://git.example/api", PlainHttp::Anywhere).is_ok());
    }

    #[test]
    fn an_origin_has_scheme_host_and_port() {
        let url = ApiUrl::parse("https://git.example/api", PlainHttp::OnLoopback).unwrap();
        assert!(url.has_origin_of("https://GIT.example:443/other"));
        for other in [
            "http://git.example/api",
            "https://git.example:444/api",
            "https://git.example.evil/api",
            "https://git.example@evil/api",
            "https://x@git.example/api",
            "/relative",
        ] {
            assert!(!url.has_origin_of(other), "{other}");
        }
    }
}
