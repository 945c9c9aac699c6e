//! The merged pull request that a commit of a branch came with. Must never know comments.

use std::time::Duration;

use serde_json::Value;

use crate::patience::patiently;
use crate::routes::{Request, Routes};
use crate::{Client, ForgeError, Kind, Repository};

/// The number of the merged pull request that brought this commit; `None` if it was pushed without
/// one.
///
/// # Errors
/// Fails if the forge refuses it, or does not answer in time.
pub fn merged_with(
    client: &Client,
    repository: &Repository,
    commit: &str,
    patience: Duration,
) -> Result<Option<u64>, ForgeError> {
    if !is_commit(commit) {
        return Err(ForgeError::Misconfigured(format!(
            "`{}` is no commit: expected its 40 or 64 hexadecimal digits",
            commit.escape_debug()
        )));
    }
    let request = client.routes.merged_with(repository, commit);
    let answer = patiently(patience, || client.ask(&request));
    match answer {
        // Gitea answers so for a commit without a pull request.
        Err(ForgeError::Denied { status: 404, .. }) if client.routes.kind == Kind::Gitea => {
            Ok(None)
        }
        answer => Ok(client.routes.merged_number(&answer?)),
    }
}

fn is_commit(text: &str) -> bool {
    matches!(text.len(), 40 | 64) && text.bytes().all(|byte| byte.is_ascii_hexdigit())
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

    fn merged_number(&self, answer: &Value) -> Option<u64> {
        let listed = answer.as_array();
        let mut all = listed.into_iter().flatten();
        match self.kind {
            Kind::Gitea => answer["number"].as_u64(),
            Kind::GitHub => all.find(|one| one["merged_at"].is_string())?["number"].as_u64(),
            Kind::GitLab => all.find(|one| one["state"] == "merged")?["iid"].as_u64(),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn routes(kind: Kind) -> Routes {
        crate::routes::tests::routes(kind, "https://git.example/api")
    }

    #[test]
    fn only_a_merged_pull_request_counts() {
        let open = json!({"number": 3, "merged_at": null, "iid": 3, "state": "opened"});
        let merged =
            json!({"number": 4, "merged_at": "2026-01-01T00:00:00Z", "iid": 5, "state": "merged"});
        let both = json!([open, merged]);
        assert_eq!(routes(Kind::GitHub).merged_number(&both), Some(4));
        assert_eq!(routes(Kind::GitLab).merged_number(&both), Some(5));
        assert_eq!(routes(Kind::Gitea).merged_number(&merged), Some(4));
        for kind in [Kind::GitHub, Kind::GitLab] {
            assert_eq!(routes(kind).merged_number(&json!([open])), None);
            assert_eq!(routes(kind).merged_number(&json!([])), None);
        }
    }

    #[test]
    fn a_commit_cannot_leave_its_path() {
        assert!(is_commit(&"0a".repeat(20)));
        for bad in ["", "main", "../../user", &"0g".repeat(20), &"a".repeat(41)] {
            assert!(!is_commit(bad), "{bad}");
        }
    }
}
