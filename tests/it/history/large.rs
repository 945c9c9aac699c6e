//! The time of a history of 10,000 commits, beside `git log -S` on the same repository.

use std::fmt::Write as _;
use std::io::Write as _;
use std::process::Stdio;
use std::time::Instant;

use super::POOL;
use super::repo::Repo;
use crate::git::{self, git};
use crate::support::{pin, pool};

const COMMITS: usize = 10_000;

/// A repository of which each `one_in`-th commit changes the directory.
fn large(one_in: usize) -> Repo {
    let repo = Repo::new();
    let mut stream = String::new();
    for number in 0..COMMITS {
        let (path, content) = match number % one_in {
            0 => {
                let block = format!("10.20.{}.0/24", number / one_in % 250);
                (
                    format!("pools/pin-{}.yaml", number % 97),
                    pin("worker-7", &block),
                )
            }
            _ => (
                format!("src/{}/f{}", number % 31, number % 97),
                format!("{number}\n"),
            ),
        };
        let time = 1_767_225_600 + number * 60;
        let message = format!("Change {number} (#{number})");
        let first = pool("rack-a", POOL);
        write!(
            stream,
            "commit refs/heads/main\ncommitter Ada <ada@example.org> {time} +0000\ndata {}\n{message}\n",
            message.len()
        )
        .unwrap();
        if number == 0 {
            write!(
                stream,
                "M 644 inline pools/a.yaml\ndata {}\n{first}\n",
                first.len()
            )
            .unwrap();
        }
        write!(
            stream,
            "M 644 inline {path}\ndata {}\n{content}\n",
            content.len()
        )
        .unwrap();
    }
    let mut import = git::command(repo.folder.path(), &["fast-import", "--quiet"])
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    import
        .stdin
        .take()
        .unwrap()
        .write_all(stream.as_bytes())
        .unwrap();
    assert!(import.wait().unwrap().success());
    repo
}

#[test]
#[ignore = "slow: makes repositories of 10,000 commits, and prints times"]
fn times_of_a_large_history() {
    for one_in in [100, 1] {
        let repo = large(one_in);
        let begun = Instant::now();
        let history = repo.history(&["10.20.7.0/24"]);
        let ours = begun.elapsed();
        let found = history["asked"].as_array().unwrap().len();
        assert!(found > 1, "{found}");
        let search = ["log", "--oneline", "-S10.20.7.0/24", "--", "pools"];
        let begun = Instant::now();
        let printed = git(repo.folder.path(), &search);
        let theirs = begun.elapsed();
        println!(
            "history: commits={COMMITS} touching={} documents={found} ours={}ms git-log-S={}ms ratio={:.2} lines={}",
            COMMITS / one_in,
            ours.as_millis(),
            theirs.as_millis(),
            ours.as_secs_f64() / theirs.as_secs_f64(),
            printed.lines().count(),
        );
    }
}
