//! Git as a person runs it, without the user's environment: in a hook it names the user's
//! repository.

use std::path::Path;
use std::process::{Command, Output};

/// A git command in a folder.
pub fn command(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new("git");
    command.arg("-C").arg(folder).args(arguments).env_clear();
    command
        .env("PATH", std::env::var_os("PATH").unwrap())
        .env("HOME", folder)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_SYSTEM", "/dev/null");
    for who in ["AUTHOR", "COMMITTER"] {
        command
            .env(format!("GIT_{who}_NAME"), "Ada")
            .env(format!("GIT_{who}_EMAIL"), "ada@example.org");
    }
    command
}

/// What a command that succeeds prints.
#[track_caller]
pub fn text(output: Output) -> String {
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// Runs a git command in a folder; returns what it prints.
#[track_caller]
pub fn git(folder: &Path, arguments: &[&str]) -> String {
    let output = command(folder, arguments).output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {output:?}");
    text(output)
}
