//! A real repository, one commit a day from 2026-03-01 on.

use crate::git::{command, text};
use crate::support::{Folder, Ran};

pub struct Repo {
    pub folder: Folder,
    day: u32,
}

impl Repo {
    pub fn new() -> Repo {
        Repo::of_format("sha1")
    }

    pub fn of_format(format: &str) -> Repo {
        let repo = Repo {
            folder: Folder::new(&[]),
            day: 0,
        };
        let format = format!("--object-format={format}");
        repo.git(&["init", "--quiet", "--initial-branch=main", &format]);
        repo
    }

    #[track_caller]
    pub fn git(&self, arguments: &[&str]) -> String {
        self.git_as("Ada", arguments)
    }

    /// At noon of the current day.
    #[track_caller]
    fn git_as(&self, author: &str, arguments: &[&str]) -> String {
        let date = format!("2026-03-{:02}T12:00:00Z", self.day.max(1));
        let mut git = command(self.folder.path(), arguments);
        git.env("GIT_AUTHOR_NAME", author)
            .env("GIT_AUTHOR_DATE", &date)
            .env("GIT_COMMITTER_DATE", &date);
        text(git.output().unwrap())
    }

    pub fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        self.folder.write(name, content);
    }

    /// Commits everything on the next day; returns the id.
    #[track_caller]
    pub fn commit(&mut self, author: &str, message: &str) -> String {
        self.day += 1;
        self.git(&["add", "--all"]);
        self.git_as(
            author,
            &["commit", "--quiet", "--allow-empty", "-m", message],
        );
        self.git(&["rev-parse", "HEAD"])
    }

    /// Merges a branch on the next day; returns the id.
    #[track_caller]
    pub fn merge(&mut self, author: &str, branch: &str, message: &str) -> String {
        self.day += 1;
        self.git_as(
            author,
            &["merge", "--quiet", "--no-ff", "-m", message, branch],
        );
        self.git(&["rev-parse", "HEAD"])
    }

    #[track_caller]
    pub fn history(&self, arguments: &[&str]) -> serde_json::Value {
        self.run(&[arguments, &["-o", "json"]].concat())
            .expect(0)
            .json()
    }

    pub fn run(&self, arguments: &[&str]) -> Ran {
        self.folder.run(&[&["history"], arguments].concat())
    }
}

/// Each document as `document field value: author of the begin, its place, author of the end`.
pub fn asked(history: &serde_json::Value) -> Vec<String> {
    let text = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
    let one = |asked: &serde_json::Value| {
        let (from, until) = (&asked["from"], &asked["until"]);
        let until = match until.is_null() {
            true => "now".to_owned(),
            false => text(&until["commit"]["subject"]),
        };
        format!(
            "{} {} {}: {} by {} at {}:{} until {until}",
            text(&asked["document"]),
            text(&asked["field"]),
            text(&asked["value"]),
            text(&from["commit"]["subject"]),
            text(&from["commit"]["author"]),
            text(&from["file"]),
            from["line"],
        )
    };
    history["asked"]
        .as_array()
        .unwrap()
        .iter()
        .map(one)
        .collect()
}
