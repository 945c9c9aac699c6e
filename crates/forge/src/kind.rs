//! The kinds of forges, and how they differ for a person. Must never know requests.

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
