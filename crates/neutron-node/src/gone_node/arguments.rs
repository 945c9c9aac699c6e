//! The command line of `gc`. Must never know what it deletes.

use std::ffi::OsString;
use std::path::PathBuf;

use lexopt::{Arg, Parser, ValueExt};

/// The text of `gc --help`.
pub(crate) const HELP: &str = "\
Deletes the Neutron ports of a node that is gone for good. Shows them first, and asks. Deletes no port whose server
is a Node of the cluster or exists at OpenStack. Runs where kubectl and the clouds file are, not on the node.

Usage: neutron-node gc --node NAME [OPTIONS]

      --node NAME           the node as in the names of its ports: NODE, or CLUSTER/NODE
      --dry-run             show the plan only
      --auto-approve        delete without a question
      --context NAME        context of kubectl [the current one]
      --kubectl PATH        the program that lists the Nodes [kubectl]
      --cloud NAME          the cloud [$OS_CLOUD, or the only one]
      --clouds-file FILE    the file with that cloud [$OS_CLIENT_CONFIG_FILE, ./clouds.yaml,
                            ~/.config/openstack/clouds.yaml or /etc/openstack/clouds.yaml]
  -h, --help

Exit codes: 0 done, or nothing to do; 1 failed; 2 invalid arguments; 5 what exists is not known; 7 deleted in part;
8 the cluster could not be read.
";

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Arguments {
    pub(super) node: String,
    pub(super) mode: Mode,
    pub(super) context: Option<String>,
    pub(super) kubectl: OsString,
    pub(super) cloud: Option<String>,
    pub(super) clouds_file: Option<PathBuf>,
}

/// What happens after the plan was shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    Ask,
    Approved,
    DryRun,
}

impl Arguments {
    /// Parses what follows `gc`; `None` for `--help`.
    pub(crate) fn read(parser: &mut Parser) -> Result<Option<Arguments>, lexopt::Error> {
        let mut node = None;
        let mut arguments = Arguments {
            node: String::new(),
            mode: Mode::Ask,
            context: None,
            kubectl: "kubectl".into(),
            cloud: None,
            clouds_file: None,
        };
        while let Some(argument) = parser.next()? {
            match argument {
                Arg::Short('h') | Arg::Long("help") => return Ok(None),
                Arg::Long("node") => node = Some(parser.value()?.string()?),
                Arg::Long("dry-run") => arguments.mode = Mode::DryRun,
                Arg::Long("auto-approve") if arguments.mode == Mode::Ask => {
                    arguments.mode = Mode::Approved;
                }
                Arg::Long("auto-approve") => {}
                Arg::Long("context") => arguments.context = Some(parser.value()?.string()?),
                Arg::Long("kubectl") => arguments.kubectl = parser.value()?,
                Arg::Long("cloud") => arguments.cloud = Some(parser.value()?.string()?),
                Arg::Long("clouds-file") => arguments.clouds_file = Some(parser.value()?.into()),
                other => return Err(other.unexpected()),
            }
        }
        let node = node.ok_or("gc requires --node NAME")?;
        if node.split('/').count() > 2 || node.split('/').any(str::is_empty) {
            return Err("--node: expected NODE or CLUSTER/NODE".into());
        }
        Ok(Some(Arguments { node, ..arguments }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(words: &[&str]) -> Result<Option<Arguments>, lexopt::Error> {
        Arguments::read(&mut Parser::from_args(words))
    }

    #[test]
    fn a_node_is_required_and_a_dry_run_wins() {
        let words = ["--node", "c/n", "--dry-run", "--auto-approve"];
        let arguments = read(&words).unwrap().unwrap();
        assert_eq!(
            (arguments.node.as_str(), arguments.mode),
            ("c/n", Mode::DryRun)
        );
        assert_eq!(read(&["--help"]).unwrap(), None);
        for bad in [
            &[][..],
            &["--node", ""],
            &["--node", "a/b/c"],
            &["--node", "n", "x"],
        ] {
            assert!(read(bad).is_err(), "{bad:?}");
        }
    }
}
