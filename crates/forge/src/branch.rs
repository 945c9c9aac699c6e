//! A branch of a repository: whether the main branch has the same files in a directory as a
//! commit, and the merged pull request that a commit came with. Must never know what the files
//! say.

use std::collections::BTreeMap;
use std::path::{Component, Path};
use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;

use super::client::patiently;
use super::routes::time;
use crate::routes::{PAGE, Request, Routes, encoded};
use crate::{Client, ForgeError, Kind, Repository};

/// Limit of the pages that are read of a folder's list.
const PAGES: usize = 1_000;

/// How the files of a directory in the branch are related to those of a commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FilesInBranch {
    /// The branch and the commit have the same files in the directory.
    Same,
    /// The files in the directory differ; the id of the branch's last commit.
    Changed(String),
}

/// The branch that pull requests go to unless they name another one.
///
/// # Errors
/// Fails if the forge refuses it, or does not answer in time.
pub fn default_branch(
    client: &Client,
    repository: &Repository,
    patience: Duration,
) -> Result<String, ForgeError> {
    let request = Request::get(client.routes.repository(repository));
    let answer = patiently(patience, || client.ask(&request))?;
    let name = answer["default_branch"].as_str().map(str::to_owned);
    name.ok_or_else(|| client.unexpected(&request, "it names no default branch"))
}

/// Compares what lies at these paths in the last commit of the branch with that of another commit:
/// files, links, or directories with all their files. The paths are from the top of the repository.
///
/// # Errors
/// Fails if the commit has nothing at a path, if a path leads out of the repository, if the forge
/// refuses it, or does not answer in time.
pub fn files_in_branch(
    client: &Client,
    repository: &Repository,
    branch: &str,
    commit: &str,
    paths: &[String],
    patience: Duration,
) -> Result<FilesInBranch, ForgeError> {
    check_commit(commit)?;
    let files = Files { client, repository };
    patiently(patience, || {
        // The paths are read even if `commit` is the last one: comparing ids reports no wrong path.
        let here: Vec<Content> = paths
            .iter()
            .map(|path| files.required_content(commit, path))
            .collect::<Result<_, _>>()?;
        let last = files.last_commit(branch)?;
        if last == commit {
            return Ok(FilesInBranch::Same);
        }
        for (path, here) in paths.iter().zip(here) {
            if files.at(&last, &names(path)?)? != Some(here) {
                return Ok(FilesInBranch::Changed(last));
            }
        }
        Ok(FilesInBranch::Same)
    })
}

/// The names on the way to the directory.
fn names(directory: &str) -> Result<Vec<&str>, ForgeError> {
    let mut names = Vec::new();
    for part in Path::new(directory).components() {
        match part {
            Component::CurDir => {}
            Component::Normal(name) => names.extend(name.to_str()),
            Component::ParentDir | Component::RootDir | Component::Prefix(_) => {
                return Err(ForgeError::Misconfigured(format!(
                    "`{}` is not a path from the top of the repository: run in its top folder, and name the directory from there",
                    directory.escape_debug()
                )));
            }
        }
    }
    Ok(names)
}

/// An entry of a folder. Two of the same id and kind have the same content.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Entry {
    id: String,
    kind: String,
}

impl Entry {
    fn is_folder(&self) -> bool {
        self.kind == "tree"
    }
}

type Entries = BTreeMap<String, Entry>;

/// The content of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Content {
    /// The content of the repository's top folder.
    Top(Entries),
    Entry(Entry),
}

/// The files of one repository.
struct Files<'c> {
    client: &'c Client,
    repository: &'c Repository,
}

impl Files<'_> {
    fn last_commit(&self, branch: &str) -> Result<String, ForgeError> {
        let routes = &self.client.routes;
        let request = routes.branch(self.repository, branch);
        let answer = self.client.ask(&request)?;
        let id = routes.last_commit(&answer);
        id.ok_or_else(|| self.client.unexpected(&request, "it names no last commit"))
    }

    /// The content at a path of a commit. Fails if the commit lacks the path.
    fn required_content(&self, commit: &str, path: &str) -> Result<Content, ForgeError> {
        let content = self.at(commit, &names(path)?)?;
        content.ok_or_else(|| {
            ForgeError::Misconfigured(format!(
                "commit {commit} has no `{}` from the top of the repository: run the job in a clone of this commit",
                path.escape_debug()
            ))
        })
    }

    /// The directory, the file or the link, if the commit has it.
    fn at(&self, commit: &str, names: &[&str]) -> Result<Option<Content>, ForgeError> {
        let mut folder = Folder {
            id: commit.to_owned(),
            commit,
            path: String::new(),
        };
        let Some((last, above)) = names.split_last() else {
            return self.entries(&folder).map(Content::Top).map(Some);
        };
        for name in above {
            let mut entries = self.entries(&folder)?;
            let Some(entry) = entries.remove(*name).filter(Entry::is_folder) else {
                return Ok(None);
            };
            folder.id = entry.id;
            folder.path = match folder.path.as_str() {
                "" => (*name).to_owned(),
                above => format!("{above}/{name}"),
            };
        }
        Ok(self.entries(&folder)?.remove(*last).map(Content::Entry))
    }

    fn entries(&self, folder: &Folder<'_>) -> Result<Entries, ForgeError> {
        let routes = &self.client.routes;
        let mut all = Entries::new();
        for page in 1..=PAGES {
            let request = routes.folder(self.repository, folder, page);
            let answer = self.client.ask(&request)?;
            let Some(listed) = routes.entries(&answer) else {
                return Err(self
                    .client
                    .unexpected(&request, "it is not a list of files"));
            };
            let known = all.len();
            all.extend(listed);
            match routes.has_more(&answer) {
                false => return Ok(all),
                // A server without pages repeats the same entries.
                true if all.len() == known => break,
                true => {}
            }
        }
        Err(ForgeError::Misconfigured(format!(
            "the folder `{}` of the repository has too many files to compare them",
            folder.path.escape_debug()
        )))
    }
}

/// A folder of a commit. Each forge names it in its own way.
struct Folder<'c> {
    /// Id of its tree, or of the commit for the top.
    id: String,
    commit: &'c str,
    path: String,
}

impl Routes {
    fn branch(&self, repository: &Repository, branch: &str) -> Request {
        let repository = self.repository(repository);
        let branch = encoded(branch);
        Request::get(match self.kind {
            Kind::GitHub | Kind::Gitea => format!("{repository}/branches/{branch}"),
            Kind::GitLab => format!("{repository}/repository/branches/{branch}"),
        })
    }

    fn last_commit(&self, answer: &Value) -> Option<String> {
        let id = match self.kind {
            Kind::GitHub => &answer["commit"]["sha"],
            Kind::GitLab | Kind::Gitea => &answer["commit"]["id"],
        };
        id.as_str().map(str::to_owned)
    }

    fn folder(&self, repository: &Repository, folder: &Folder<'_>, page: usize) -> Request {
        let repository = self.repository(repository);
        let Folder { id, commit, path } = folder;
        let path = encoded(path);
        Request::get(match self.kind {
            Kind::GitHub => format!("{repository}/git/trees/{id}"),
            Kind::Gitea => format!("{repository}/git/trees/{id}?per_page={PAGE}&page={page}"),
            Kind::GitLab => format!(
                "{repository}/repository/tree?ref={commit}&path={path}&per_page={PAGE}&page={page}"
            ),
        })
    }

    fn entries(&self, answer: &Value) -> Option<Entries> {
        let (list, name, id) = match self.kind {
            Kind::GitLab => (answer, "name", "id"),
            Kind::GitHub | Kind::Gitea => (&answer["tree"], "path", "sha"),
        };
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let one = |entry: &Value| {
            let (id, kind) = (text(&entry[id])?, text(&entry["type"])?);
            Some((text(&entry[name])?, Entry { id, kind }))
        };
        list.as_array()?.iter().map(one).collect()
    }

    /// Whether the list goes on. GitHub has one page, and says so if it has not all of it.
    fn has_more(&self, answer: &Value) -> bool {
        match self.kind {
            Kind::GitLab => answer.as_array().is_some_and(|list| list.len() >= PAGE),
            Kind::GitHub | Kind::Gitea => answer["truncated"] == true,
        }
    }
}

/// A merged pull request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Merged {
    /// Number of the pull request.
    pub number: u64,
    /// When the pull request was merged, by the forge's clock.
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

    #[test]
    fn a_directory_is_named_from_the_top() {
        assert_eq!(names("./a//b/").unwrap(), ["a", "b"]);
        assert!(names(".").unwrap().is_empty());
        for outside in ["/a", "../a", "a/../../b"] {
            let error = names(outside).unwrap_err().to_string();
            assert!(error.contains("top folder"), "{error}");
        }
    }

    #[test]
    fn each_forge_lists_folders_in_its_own_form() {
        let folder = Folder {
            id: "0a".to_owned(),
            commit: "0b",
            path: "a b/c".to_owned(),
        };
        let repository = "o/r".parse().unwrap();
        let of_trees =
            json!({"tree": [{"path": "x", "sha": "1", "type": "blob", "mode": "100644"}]});
        let of_gitlab = json!([{"name": "x", "id": "1", "type": "blob", "path": "a b/c/x"}]);
        for (kind, url, answer) in [
            (Kind::GitHub, "repos/o/r/git/trees/0a", &of_trees),
            (
                Kind::Gitea,
                "repos/o/r/git/trees/0a?per_page=100&page=2",
                &of_trees,
            ),
            (
                Kind::GitLab,
                "projects/o%2Fr/repository/tree?ref=0b&path=a%20b%2Fc&per_page=100&page=2",
                &of_gitlab,
            ),
        ] {
            let routes = crate::routes::tests::routes(kind, "https://git.example/api");
            let request = routes.folder(&repository, &folder, 2);
            assert_eq!(request.url, format!("https://git.example/api/{url}"));
            let entries = routes.entries(answer).unwrap();
            assert_eq!(entries["x"].id, "1");
            assert!(!routes.has_more(answer));
            // What it does not understand is not left out.
            assert_eq!(routes.entries(&json!({"tree": [{"path": "x"}]})), None);
            assert_eq!(routes.entries(&json!([{"name": "x"}])), None);
        }
    }
}

#[cfg(test)]
mod merged_tests {
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
