//! The merged pull request that a commit of a branch came with. Must never know comments.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;

use crate::patience::patiently;
use crate::routes::{Request, Routes, time};
use crate::{Client, ForgeError, Kind, Repository};

/// A merged pull request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Merged {
    /// Its number.
    pub number: u64,
    /// When it was merged, by the forge's clock.
    pub time: Timestamp,
}

/// The merged pull request that brought this commit to this branch; `None` if it came without one.
///
/// # Errors
/// Fails if the forge refuses it, or does not answer in time.
pub fn merged_with(
    client: &Client,
    repository: &Repository,
    branch: &str,
    commit: &str,
    patience: Duration,
) -> Result<Option<Merged>, ForgeError> {
    check_commit(commit)?;
    let request = client.routes.merged_with(repository, commit);
    let answer = patiently(patience, || client.ask(&request));
    match answer {
        // Gitea answers so for a commit without a pull request, and also if the token may not see
        // pull requests. Then it does not list them, either.
        Err(ForgeError::Denied { status: 404, .. }) if client.routes.kind == Kind::Gitea => {
            let request = client.routes.pull_requests(repository);
            patiently(patience, || client.ask(&request))?;
            Ok(None)
        }
        answer => Ok(client.routes.merged(&answer?, branch)),
    }
}

/// Refuses what could be another path of the API, or another commit tomorrow.
pub(crate) fn check_commit(text: &str) -> Result<(), ForgeError> {
    let is_digits = text.bytes().all(|byte| byte.is_ascii_hexdigit());
    match is_digits && matches!(text.len(), 40 | 64) {
        true => Ok(()),
        false => Err(ForgeError::Misconfigured(format!(
            "`{}` is not a commit: expected its 40 or 64 hexadecimal digits",
            text.escape_debug()
        ))),
    }
}

impl Routes {
    fn merged_with(&self, repository: &Repository, commit: &str) -> Request {
        let repository = self.repository(repository);
        Request::get(match self.kind {
            Kind::GitHub => format!("{repository}/commits/{commit}/pulls"),
            Kind::GitLab => format!("{repository}/repository/commits/{commit}/merge_requests"),
            Kind::Gitea => format!("{repository}/commits/{commit}/pull"),
        })
    }

    fn pull_requests(&self, repository: &Repository) -> Request {
        let repository = self.repository(repository);
        Request::get(format!("{repository}/pulls?state=closed&limit=1"))
    }

    fn merged(&self, answer: &Value, branch: &str) -> Option<Merged> {
        let one = std::slice::from_ref(answer);
        let all = answer.as_array().map_or(one, Vec::as_slice);
        let (number, to) = match self.kind {
            Kind::GitLab => ("iid", "/target_branch"),
            Kind::GitHub | Kind::Gitea => ("number", "/base/ref"),
        };
        let is_to_branch = |pull: &&Value| pull.pointer(to).is_some_and(|to| to == branch);
        let when = match self.kind {
            // `merged_at` moves with later changes of the pull request (Gitea 1.26).
            Kind::Gitea => "closed_at",
            Kind::GitHub | Kind::GitLab => "merged_at",
        };
        let is_merged = |pull: &&Value| pull["merged_at"].is_string();
        let merged = |pull: &Value| {
            let time = time(&pull[when])?;
            let number = pull[number].as_u64()?;
            Some(Merged { number, time })
        };
        let mut all = all.iter().filter(is_to_branch).filter(is_merged);
        all.find_map(merged)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn routes(kind: Kind) -> Routes {
        crate::routes::tests::routes(kind, "https://git.example/api")
    }

    /// A pull request as each forge describes it.
    fn pull(number: u64, branch: &str, merged_at: Option<&str>) -> Value {
        json!({"number": number, "iid": number, "merged_at": merged_at, "closed_at": merged_at,
            "base": {"ref": branch}, "target_branch": branch})
    }

    #[test]
    fn only_a_pull_request_that_was_merged_into_the_branch_counts() {
        let time = "2026-01-01T00:00:00Z";
        let merged = Merged {
            number: 5,
            time: time.parse().unwrap(),
        };
        let main = pull(5, "main", Some(time));
        let all = [
            pull(3, "main", None),
            pull(4, "dev", Some(time)),
            main.clone(),
        ];
        for kind in [Kind::GitHub, Kind::GitLab] {
            let found = |answer: &[Value]| routes(kind).merged(&json!(answer), "main");
            assert_eq!(found(&all), Some(merged));
            assert_eq!(found(&all[..2]), None);
            assert_eq!(found(&[]), None);
        }
        assert_eq!(routes(Kind::Gitea).merged(&main, "main"), Some(merged));
        assert_eq!(routes(Kind::Gitea).merged(&main, "dev"), None);

        let mut manual = main.clone();
        manual["merged_at"] = json!("2035-01-01T00:00:00Z");
        assert_eq!(routes(Kind::Gitea).merged(&manual, "main"), Some(merged));
        let closed = json!({"closed_at": time, "merged_at": null, "number": 5,
            "base": {"ref": "main"}});
        assert_eq!(routes(Kind::Gitea).merged(&closed, "main"), None);
    }

    #[test]
    fn a_commit_cannot_leave_its_path() {
        assert!(check_commit(&"0a".repeat(20)).is_ok());
        for bad in ["", "main", "../../user", &"0g".repeat(20), &"a".repeat(41)] {
            assert!(check_commit(bad).is_err(), "{bad}");
        }
    }
}
