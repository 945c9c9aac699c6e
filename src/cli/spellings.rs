//! Flags as users of Terraform, OpenTofu and kubectl type them, turned into ours before clap reads
//! them. It knows arguments as text only: no command, no environment.

use std::collections::BTreeSet;
use std::ffi::OsString;

/// The command of the arguments, as far as spellings depend on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verb {
    Apply,
    Other,
}

/// The meaning of a flag of another tool.
#[derive(Clone, Copy, Debug)]
enum Meaning {
    /// A flag without a value, or with `=true` or `=false`. `None` is our default.
    Switch {
        on: Option<&'static str>,
        off: Option<&'static str>,
    },
    /// A switch as above of `apply` alone. Terraform's `plan` has it too; ours needs none.
    OfApply { off: &'static str },
    /// A flag whose value we take as an argument without a flag.
    Argument,
    /// We have no such flag; what to do instead.
    Instead(&'static str),
}

const fn switch(on: &'static str) -> Meaning {
    Meaning::Switch {
        on: Some(on),
        off: None,
    }
}

/// Switches off something that is on by default.
const fn default_on(off: &'static str) -> Meaning {
    Meaning::Switch {
        on: None,
        off: Some(off),
    }
}

const NO_STATE: &str =
    "there is no state file: every plan reads the cluster, or the file of --cluster-file";
const NO_VARIABLES: &str = "the files have no variables: write the values into them, and keep one \
                            directory for each cluster";
const NO_NAMESPACE: &str =
    "nodes and pools have no namespace; name a Service as NAMESPACE/NAME, as in `explain web/shop`";
const PLAN_INSTEAD: &str = "`cilium-ipam plan` shows what would change and writes nothing";
const RELEASE: &str = "blocks are never released from files: delete the Node, or take an apply \
                       back with `cilium-ipam apply undo-TIME.json`";
const COMPACT: &str = "long lists are cut by default; --full shows everything";

/// Flags that are not spelled as ours. Any flag of ours also works with a single dash.
const FOREIGN: [(&str, Meaning); 37] = [
    ("-auto-approve", switch("--auto-approve")),
    ("-detailed-exitcode", switch("--detailed-exitcode")),
    ("-json", switch("--output=json")),
    ("-no-color", switch("--no-color")),
    ("-lock", Meaning::OfApply { off: "--no-lock" }),
    ("-input", default_on("--no-input")),
    ("-f", Meaning::Argument),
    ("--filename", Meaning::Argument),
    ("-var", Meaning::Instead(NO_VARIABLES)),
    ("--var", Meaning::Instead(NO_VARIABLES)),
    ("-var-file", Meaning::Instead(NO_VARIABLES)),
    ("--var-file", Meaning::Instead(NO_VARIABLES)),
    ("-state", Meaning::Instead(NO_STATE)),
    ("-state-out", Meaning::Instead(NO_STATE)),
    ("-backup", Meaning::Instead(NO_STATE)),
    ("-refresh", Meaning::Instead(NO_STATE)),
    ("-refresh-only", Meaning::Instead(NO_STATE)),
    ("-destroy", Meaning::Instead(RELEASE)),
    ("--destroy", Meaning::Instead(RELEASE)),
    (
        "-replace",
        Meaning::Instead("a node keeps its block; pin another one with a NodeAssignment"),
    ),
    (
        "-chdir",
        Meaning::Instead("name the directory after the command, as in `plan pools/`"),
    ),
    ("-compact-warnings", Meaning::Instead(COMPACT)),
    ("-concise", Meaning::Instead(COMPACT)),
    (
        "-upgrade",
        Meaning::Instead("there are no providers and modules to upgrade"),
    ),
    (
        "-generate-config-out",
        Meaning::Instead("`cilium-ipam show nodes` prints the blocks that nodes hold"),
    ),
    ("--dry-run", Meaning::Instead(PLAN_INSTEAD)),
    ("-y", Meaning::Instead("use --auto-approve")),
    ("--yes", Meaning::Instead("use --auto-approve")),
    (
        "--force",
        Meaning::Instead(
            "name the limit to exceed with --waive, or use --auto-approve to skip the question",
        ),
    ),
    ("--watch", Meaning::Instead("use `cilium-ipam watch`")),
    ("-w", Meaning::Instead("use `cilium-ipam watch`")),
    ("-n", Meaning::Instead(NO_NAMESPACE)),
    ("--namespace", Meaning::Instead(NO_NAMESPACE)),
    ("-A", Meaning::Instead(NO_NAMESPACE)),
    ("--all-namespaces", Meaning::Instead(NO_NAMESPACE)),
    (
        "--show-blocks",
        Meaning::Instead("`cilium-ipam show nodes` prints the blocks"),
    ),
    (
        "--allow-version-mismatch",
        Meaning::Instead("omit it: no version of Calico or of a datastore is compared"),
    ),
];

/// The arguments in our spelling; `long` has the names of all our long flags, without dashes.
///
/// # Errors
/// Fails at a flag that we do not have, with what to do instead.
pub(super) fn translated(
    arguments: Vec<OsString>,
    long: &BTreeSet<String>,
) -> Result<Vec<OsString>, String> {
    let mut ours = Vec::with_capacity(arguments.len());
    let mut is_verbatim = false;
    let verb = match arguments.iter().any(|argument| argument == "apply") {
        true => Verb::Apply,
        false => Verb::Other,
    };
    for argument in arguments {
        is_verbatim |= argument == "--";
        match argument.to_str() {
            Some(text) if !is_verbatim && text.starts_with('-') => {
                ours.extend(in_our_spelling(text, verb, long)?.map(OsString::from));
            }
            _ => ours.push(argument),
        }
    }
    Ok(ours)
}

/// `None` if we do the same without a flag.
fn in_our_spelling(
    argument: &str,
    verb: Verb,
    long: &BTreeSet<String>,
) -> Result<Option<String>, String> {
    let (flag, value) = match argument.split_once('=') {
        Some((flag, value)) => (flag, Some(value)),
        None => (argument, None),
    };
    let foreign = FOREIGN.iter().find(|(theirs, _)| *theirs == flag);
    match foreign {
        Some((_, Meaning::Instead(what))) => Err(format!("there is no flag `{flag}`; {what}")),
        Some((_, Meaning::Argument)) => Ok(value.map(str::to_owned)),
        Some((_, Meaning::Switch { on, off })) => switched(flag, value, *on, *off),
        Some((_, Meaning::OfApply { off })) => {
            switched(flag, value, None, (verb == Verb::Apply).then_some(*off))
        }
        None => match flag.strip_prefix('-') {
            Some(name) if !name.starts_with('-') && long.contains(name) => {
                Ok(Some(format!("-{argument}")))
            }
            _ => Ok(Some(argument.to_owned())),
        },
    }
}

fn switched(
    flag: &str,
    value: Option<&str>,
    on: Option<&str>,
    off: Option<&str>,
) -> Result<Option<String>, String> {
    match value {
        None | Some("true") => Ok(on.map(str::to_owned)),
        Some("false") => Ok(off.map(str::to_owned)),
        Some(other) => Err(format!("`{flag}` takes `true` or `false`, not `{other}`")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn long() -> BTreeSet<String> {
        let names = [
            "out",
            "output",
            "target",
            "parallelism",
            "auto-approve",
            "detailed-exitcode",
            "no-lock",
            "no-input",
            "no-color",
            "help",
            "version",
        ];
        names.map(str::to_owned).into()
    }

    fn translate(line: &str) -> Result<String, String> {
        let words = line.split_whitespace().map(OsString::from).collect();
        let ours = translated(words, &long())?;
        Ok(ours
            .iter()
            .map(|word| word.to_string_lossy())
            .collect::<Vec<_>>()
            .join(" "))
    }

    #[test]
    fn spellings_of_terraform_become_ours() {
        for (theirs, ours) in [
            ("plan -lock", "plan"),
            ("plan -out=p.json", "plan --out=p.json"),
            ("plan -out p.json", "plan --out p.json"),
            ("apply -auto-approve", "apply --auto-approve"),
            ("apply -auto-approve=true", "apply --auto-approve"),
            ("apply -auto-approve=false", "apply"),
            ("plan -detailed-exitcode", "plan --detailed-exitcode"),
            ("plan -target=node/n1", "plan --target=node/n1"),
            ("apply -parallelism=4", "apply --parallelism=4"),
            ("apply -lock=false", "apply --no-lock"),
            ("apply -lock=true -input=true", "apply"),
            ("plan -lock=false", "plan"),
            ("apply -input=false", "apply --no-input"),
            ("show -json", "show --output=json"),
            ("plan -no-color", "plan --no-color"),
            ("-help", "--help"),
            ("plan -output json", "plan --output json"),
            ("apply -f pools/", "apply pools/"),
            ("apply --filename=pools/", "apply pools/"),
        ] {
            assert_eq!(translate(theirs).as_deref(), Ok(ours), "{theirs}");
        }
    }

    #[test]
    fn our_spellings_stay() {
        for ours in [
            "plan -o json --out=p.json",
            "plan -ojson",
            "show nodes -l rack=a",
            "-vv plan",
            "plan -- -out=p.json",
            "plan -- -lock",
            "plan -",
        ] {
            assert_eq!(translate(ours).as_deref(), Ok(ours));
        }
    }

    #[test]
    fn other_flags_name_the_way() {
        for (line, part) in [
            ("plan -var=a=b", "no variables"),
            ("plan -var-file=x.tfvars", "no variables"),
            ("apply --dry-run=server", "`cilium-ipam plan`"),
            ("plan -destroy", "undo-TIME.json"),
            ("get nodes -A", "no namespace"),
            ("apply -y", "--auto-approve"),
            ("apply -lock=maybe", "`true` or `false`"),
        ] {
            let error = translate(line).unwrap_err();
            assert!(error.contains(part), "{line}: {error}");
        }
    }
}
