//! The commands by task, and an example of each, for the help. Must never know what a command does.

use std::fmt::Write as _;

use clap::Command;

/// A command, and lines that show how to call it.
type Example = (&'static str, &'static str);

/// The commands by task, in the order of the help.
const TASKS: [(&str, &[Example]); 5] = [
    (
        "Start",
        &[
            ("init", "cilium-ipam init pools --cidr 10.20.0.0/16"),
            ("import", "cilium-ipam import pools --context prod"),
            ("validate", "cilium-ipam validate pools --strict"),
            ("schema", "cilium-ipam schema --rbac apply"),
            ("completions", "source <(cilium-ipam completions bash)"),
            ("version", "cilium-ipam version"),
        ],
    ),
    (
        "Change",
        &[
            ("plan", "cilium-ipam plan pools --out plan.json"),
            (
                "apply",
                "cilium-ipam apply pools\ncilium-ipam apply plan.json",
            ),
            ("undo", "cilium-ipam undo\ncilium-ipam undo last"),
            (
                "migrate",
                "cilium-ipam migrate plan pools --out moves.json\ncilium-ipam migrate apply moves.json\ncilium-ipam migrate status",
            ),
            ("lb", "cilium-ipam lb freeze pools --service shop/web"),
        ],
    ),
    (
        "Look",
        &[
            (
                "show",
                "cilium-ipam show pools\ncilium-ipam show nodes worker-1\ncilium-ipam show lb",
            ),
            (
                "explain",
                "cilium-ipam explain worker-1\ncilium-ipam explain 10.20.3.7\ncilium-ipam explain shop/web\ncilium-ipam explain pool-overlap",
            ),
            ("doctor", "cilium-ipam doctor pools --context prod"),
            ("capacity", "cilium-ipam capacity pools"),
            (
                "simulate",
                "cilium-ipam simulate pools --add 200 --label rack=r7",
            ),
            ("map", "cilium-ipam map pools --out map.html"),
            ("history", "cilium-ipam history 10.20.3.0/24 pools"),
            ("upgrade", "cilium-ipam upgrade --to 1.20 pools"),
            ("snapshot", "cilium-ipam snapshot --out cluster.json"),
        ],
    ),
    (
        "CI",
        &[
            ("comment", "cilium-ipam comment pools --dry-run"),
            ("drift", "cilium-ipam drift pools --dry-run"),
            ("policy", "cilium-ipam policy test pools"),
        ],
    ),
    (
        "Run",
        &[
            ("watch", "cilium-ipam watch pools --listen 127.0.0.1:9464"),
            ("operator", "cilium-ipam operator --identity pod-1"),
            ("mcp", "cilium-ipam mcp pools"),
        ],
    ),
];

/// Adds an example to the long help of each command, and lists the commands by task.
pub(super) fn with_tasks(command: Command) -> Command {
    let heading = *command.get_styles().get_header();
    let literal = *command.get_styles().get_literal();
    let mut template = "{about-with-newline}\n{usage-heading} {usage}\n".to_owned();
    let mut command = command;
    for (task, examples) in TASKS {
        let _ = writeln!(template, "\n{heading}{task}:{heading:#}");
        for (name, lines) in examples {
            let about = command.find_subcommand(name).and_then(Command::get_about);
            let about = about.map(ToString::to_string).unwrap_or_default();
            let _ = writeln!(template, "  {literal}{name:WIDTH$}{literal:#}  {about}");
            let lines = lines.replace('\n', "\n  ");
            let example = format!("{heading}Example:{heading:#}\n  {lines}");
            command = command.mut_subcommand(*name, |one| one.after_long_help(example));
        }
    }
    let _ = write!(
        template,
        "\n{heading}Options:{heading:#}\n{{options}}{{after-help}}"
    );
    command.help_template(template)
}

/// Width of the longest name of a command.
const WIDTH: usize = "completions".len();

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use clap::error::ErrorKind;

    use super::super::interface::{arguments, command};
    use super::*;

    #[test]
    fn every_command_has_one_task_and_examples_that_can_be_read() {
        let whole = command();
        let examples = || TASKS.iter().flat_map(|(_, examples)| *examples);
        for one in whole.get_subcommands().filter(|one| !one.is_hide_set()) {
            let name = one.get_name();
            let count = examples().filter(|(listed, _)| *listed == name).count();
            assert_eq!(count, usize::from(name != "help"), "{name}");
        }
        for (name, lines) in examples() {
            assert!(whole.find_subcommand(name).is_some(), "{name}");
            for line in lines.lines() {
                let line = line.trim_start_matches("source <(").trim_end_matches(')');
                let read = arguments(line.split(' ').map(OsString::from).collect());
                assert!(read.is_ok(), "{line}: {read:?}");
            }
        }
    }

    /// The help has 80 columns on a narrow terminal, and a template is not wrapped.
    #[test]
    fn a_command_takes_one_line_of_the_overview() {
        let help = arguments(vec!["cilium-ipam".into(), "-h".into()]).unwrap_err();
        assert_eq!(help.kind(), ErrorKind::DisplayHelp);
        for line in help
            .to_string()
            .lines()
            .take_while(|line| *line != "Options:")
        {
            assert!(line.chars().count() <= 80, "{line}");
        }
    }

    /// Lines of `-h` at 100 columns.
    #[test]
    fn the_short_help_is_short() {
        let lines = |name: &str| {
            let help = vec!["cilium-ipam".into(), name.into(), "-h".into()];
            let help = arguments(help).unwrap_err().to_string();
            assert!(!help.contains("[env: "), "{help}");
            assert!(!help.contains("--os-cloud"), "{help}");
            help.lines().count()
        };
        for one in command().get_subcommands().filter(|one| !one.is_hide_set()) {
            let name = one.get_name();
            assert!(
                name == "help" || lines(name) <= 45,
                "{name}: {}",
                lines(name)
            );
        }
    }
}
