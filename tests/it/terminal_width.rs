//! The width of lines on a real terminal, and in a pipe.

use std::io::Read;
use std::process::Stdio;

use rustix::pty::{OpenptFlags, ioctl_tiocgptpeer, openpt, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

use super::support::{program, repository};

const PLAN: [&str; 5] = [
    "plan",
    "examples/racks/pools",
    "--cluster-file",
    "examples/racks/cluster.yaml",
    "--no-color",
];

const POOLS: [&str; 6] = [
    "show",
    "pools",
    "examples/racks/pools",
    "--cluster-file",
    "examples/racks/cluster.yaml",
    "--no-color",
];

/// The lines of stdout on a terminal of this width.
fn on_a_terminal(columns: u16, arguments: &[&str]) -> Vec<String> {
    let options = OpenptFlags::RDWR | OpenptFlags::NOCTTY;
    let terminal = openpt(options).unwrap();
    unlockpt(&terminal).unwrap();
    let size = Winsize {
        ws_row: 24,
        ws_col: columns,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    tcsetwinsize(&terminal, size).unwrap();
    let mut program = program(repository(), arguments);
    program.env_remove("COLUMNS");
    program.stdout(ioctl_tiocgptpeer(&terminal, options).unwrap());
    let mut child = program.stderr(Stdio::null()).spawn().unwrap();
    drop(program);
    let mut text = Vec::new();
    let mut terminal = std::fs::File::from(terminal);
    // Linux ends the text of a closed terminal with an error.
    let _ = terminal.read_to_end(&mut text);
    assert!(child.wait().unwrap().success());
    let text = String::from_utf8(text).unwrap();
    text.lines().map(str::to_owned).collect()
}

fn longest(lines: &[String]) -> usize {
    let widths = lines.iter().map(|line| line.chars().count());
    widths.max().unwrap_or_default()
}

#[test]
fn lines_fit_into_a_terminal_and_stay_whole_in_a_pipe() {
    let narrow = on_a_terminal(60, &PLAN);
    assert!(longest(&narrow) <= 60, "{narrow:#?}");
    let piped = program(repository(), &PLAN).output().unwrap();
    let piped = String::from_utf8(piped.stdout).unwrap();
    let piped: Vec<String> = piped.lines().map(str::to_owned).collect();
    assert!(longest(&piped) > 60, "{piped:#?}");
    assert_eq!(on_a_terminal(200, &PLAN), piped);
}

#[test]
fn rows_of_a_table_are_not_broken() {
    assert_eq!(on_a_terminal(60, &POOLS), on_a_terminal(300, &POOLS));
}
