//! Completions in real shells: bash of this machine, zsh and fish of Debian. Zsh completes on a
//! terminal, as a person does it.

use std::path::{Path, PathBuf};
use std::process::Command;

use testbed::{debian, debian_file, library_folders, or_skip};

use super::support::{Folder, Ran, TextAssertions, node, pool, ran, run};

const LIBRARIES: &str = "usr/lib/x86_64-linux-gnu";

/// A folder with two nodes, a pool, a kubeconfig, and the script of this shell.
fn folder(shell: &str) -> Folder {
    let pool = pool("rack-a", "{cidrs: [10.0.0.0/16], blockSize: 24}");
    let kubeconfig = "apiVersion: v1\nkind: Config\ncontexts: [{name: east, context: {cluster: a, user: a}}, {name: west, context: {cluster: a, user: a}}]\n";
    let nodes = [node("worker-1", "a", ""), node("worker-2", "a", "")];
    let folder = Folder::with_cluster(
        &nodes,
        &[("pools/a.yaml", &pool), ("kubeconfig", kubeconfig)],
    );
    let script = folder.run(&["completions", shell]).expect(0).stdout;
    folder.write("script", script);
    folder
}

/// A shell that finds the program as `cilium-ipam`.
fn shell(folder: &Folder, program: &Path) -> Command {
    let tool = Path::new(env!("CARGO_BIN_EXE_cilium-ipam"));
    let mut command = Command::new("timeout");
    command
        .args(["--kill-after=1", "60"])
        .arg(program)
        .current_dir(folder.path())
        .env_clear()
        .env("HOME", folder.path())
        .env("TERM", "dumb")
        .env(
            "PATH",
            format!("{}:/usr/bin:/bin", tool.parent().unwrap().display()),
        );
    command
}

/// Lines as a person types them, each with a word that a completion must offer, and a word that it
/// must not offer.
const LINES: [(&str, &str, &str); 10] = [
    ("pl", "plan", "apply"),
    ("migrate sta", "status", "plan"),
    ("plan -o ma", "markdown", "json"),
    ("explain pool-ov", "pool-overlap", "pool-full"),
    (
        "explain --cluster-file cluster.json worker-",
        "worker-2",
        "rack-a",
    ),
    ("explain ra", "rack-a", "worker-1"),
    ("undo la", "last", "list"),
    (
        "apply --cluster-file cluster.json --target node/w",
        "node/worker-1",
        "pool/rack-a",
    ),
    ("plan --kubeconfig kubeconfig --context we", "west", "east"),
    ("plan --cluster-file clu", "cluster.json", "script"),
];

#[test]
fn bash_completes_at_every_word() {
    let folder = folder("bash");
    // As bash calls a completion function.
    let driver = r#"
        source ./script
        complete -p cilium-ipam
        COMP_WORDS=(cilium-ipam $1) COMP_CWORD=${#COMP_WORDS[@]} COMP_TYPE=9
        COMP_CWORD=$((COMP_CWORD - 1))
        _clap_complete_cilium_ipam cilium-ipam "${COMP_WORDS[COMP_CWORD]}" ""
        printf '%s\n' "${COMPREPLY[@]}"
    "#;
    for (line, offered, other) in LINES {
        let mut bash = shell(&folder, Path::new("bash"));
        bash.args(["--norc", "-c", driver, "bash", line]);
        let answer = ran(bash.output().unwrap()).expect(0);
        assert_eq!(answer.stderr, "", "{line}");
        check(line, &answer, offered, other);
    }
}

#[test]
fn fish_completes_at_every_word() {
    let fish = or_skip!(debian("fish", "fish"));
    let libraries = or_skip!(library_folders(&[("libpcre2-32-0", "libpcre2-32.so.0")]));
    let folder = folder("fish");
    for (line, offered, other) in LINES {
        let mut command = shell(&folder, &fish);
        let driver = format!("source ./script; complete -C 'cilium-ipam {line}'");
        command.env("LD_LIBRARY_PATH", &libraries);
        command.args(["--no-config", "-c", &driver]);
        let answer = ran(command.output().unwrap()).expect(0);
        check(line, &answer, offered, other);
    }
}

/// Fails if no line of the answer begins with `offered`, or one begins with `other`.
fn check(line: &str, answer: &Ran, offered: &str, other: &str) {
    let has = |word: &str| answer.stdout.lines().any(|line| line.starts_with(word));
    assert!(has(offered) && !has(other), "{line}: {answer:?}");
}

/// Starts zsh on a terminal, types the line and two tabs, and prints what zsh shows until it has
/// `$offered`.
const ZSH: &str = r#"
    module_path=($modules)
    zmodload zsh/zpty
    zpty z "PS1=; exec $zsh -f -i"
    zpty -w z "PS1=''; module_path=($modules); fpath=($functions/**/*(/N)); unsetopt beep"
    zpty -w z "autoload -Uz compinit; compinit -u -D; source ./script; echo read'y'"
    zpty -r z seen '*ready*'
    zpty -w -n z "cilium-ipam $line"$'\t\t'
    zpty -r z seen "*$offered*"
    print -r -- "$seen"
    zpty -d z
"#;

#[test]
fn zsh_completes_at_every_word_on_a_terminal() {
    let zsh = or_skip!(debian_file("zsh", "bin/zsh"));
    let modules = or_skip!(debian_file("zsh", &format!("{LIBRARIES}/zsh/5.9")));
    let functions: PathBuf = or_skip!(debian_file("zsh-common", "usr/share/zsh/functions"));
    let folder = folder("zsh");
    for (line, offered, _) in LINES {
        let mut command = shell(&folder, &zsh);
        command
            .env("zsh", &zsh)
            .env("modules", &modules)
            .env("functions", &functions)
            .env("line", line)
            .env("offered", offered);
        let shown = ran(command.args(["-f", "-c", ZSH]).output().unwrap()).expect(0);
        shown.stdout.assert_has(offered);
    }
}

#[test]
fn a_completion_prints_no_error() {
    let folder = folder("bash");
    for line in ["explain --cluster-file missing.yaml n", "plan --target no"] {
        let mut words = vec!["--", "cilium-ipam"];
        words.extend(line.split(' '));
        let mut command = super::support::program(folder.path(), &words);
        let index = (words.len() - 2).to_string();
        command
            .env("_CILIUM_IPAM_COMPLETE", "bash")
            .env("_CLAP_COMPLETE_INDEX", index)
            .env("KUBECONFIG", "missing");
        let answer = ran(command.output().unwrap()).expect(0);
        assert_eq!(answer.stderr, "", "{line}");
    }
}

#[test]
fn other_shells_get_a_script() {
    let folder = Folder::new(&[]);
    for shell in ["elvish", "powershell"] {
        let script = run(folder.path(), &["completions", shell]).expect(0).stdout;
        script.assert_has("cilium-ipam");
    }
}
