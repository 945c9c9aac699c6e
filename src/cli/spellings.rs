//! Flags as users of Terraform, OpenTofu and kubectl type them, turned into ours before clap reads
//! them. It knows arguments as text only: no command, no environment.

use std::collections::BTreeSet;
use std::ffi::OsString;

use super::other_tools;

/// The commands that spellings depend on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verb {
    Apply,
    Files,
    Migrate,
    Other,
}

/// A flag of `import`, `comment`, `lb freeze` and `lb thaw`. For other commands `plan` takes its place.
const DRY_RUN: &str = "--dry-run";

/// A flag of `migrate`, with the meaning that `kubectl drain` gives it.
const FORCE: &str = "--force";

/// Arguments in the spelling of `cilium-ipam`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Translated {
    pub(super) arguments: Vec<OsString>,
    /// Long names, without dashes, of flags that are switched off, as in `--auto-approve=false`.
    pub(super) switched_off: BTreeSet<String>,
}

/// The long names of the flags of `cilium-ipam`, without dashes.
#[derive(Clone, Debug, Default)]
pub(super) struct LongFlags {
    pub(super) all: BTreeSet<String>,
    /// Names of flags without a value.
    pub(super) switches: BTreeSet<String>,
}

/// One argument of another tool, in the spelling of `cilium-ipam`.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Ours {
    Word(String),
    /// `cilium-ipam` does the same without a flag.
    Nothing,
    /// This word is removed from the arguments, even if it was given before.
    Off(String),
}

/// The meaning of a flag of another tool.
#[derive(Clone, Copy, Debug)]
enum Meaning {
    /// A flag without a value, or with `=true` or `=false`. `None` is the default of `cilium-ipam`.
    Switch {
        on: Option<&'static str>,
        off: Option<&'static str>,
    },
    /// A switch as above of `apply` alone. Terraform's `plan` has it too; ours needs none.
    OfApply { off: &'static str },
    /// A flag whose value `cilium-ipam` takes as an argument without a flag.
    Argument,
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

const SCHEDULE_INSTEAD: &str =
    "`cilium-ipam migrate plan` shows what would move and writes nothing";

/// Flags that are not spelled as ours. Any flag of ours also works with a single dash.
const FOREIGN: [(&str, Meaning); 8] = [
    ("-auto-approve", switch("--auto-approve")),
    ("-detailed-exitcode", switch("--detailed-exitcode")),
    ("-json", switch("--output=json")),
    ("-no-color", switch("--no-color")),
    ("-lock", Meaning::OfApply { off: "--no-lock" }),
    ("-input", default_on("--no-input")),
    ("-f", Meaning::Argument),
    ("--filename", Meaning::Argument),
];

/// The arguments in our spelling.
///
/// # Errors
/// Fails at a flag that we do not have, with what to do instead.
pub(super) fn translated(arguments: Vec<OsString>, long: &LongFlags) -> Result<Translated, String> {
    let mut translated = Translated::default();
    let mut is_verbatim = false;
    let has = |verb: &str| arguments.iter().any(|argument| argument == verb);
    let writes_files = ["import", "lb", "comment", "drift"].into_iter().any(has);
    let verb = match (has("migrate"), has("apply"), writes_files) {
        (true, ..) => Verb::Migrate,
        (false, true, _) => Verb::Apply,
        (false, false, true) => Verb::Files,
        (false, false, false) => Verb::Other,
    };
    for argument in arguments {
        is_verbatim |= argument == "--";
        match argument.to_str() {
            Some(text) if !is_verbatim && text.starts_with('-') => {
                translated.add(in_our_spelling(text, verb, long)?);
            }
            _ => translated.arguments.push(argument),
        }
    }
    Ok(translated)
}

impl Translated {
    fn add(&mut self, ours: Ours) {
        match ours {
            Ours::Word(word) => {
                self.switched_off.remove(name(&word));
                self.arguments.push(OsString::from(word));
            }
            Ours::Nothing => {}
            Ours::Off(word) => {
                self.switched_off.insert(name(&word).to_owned());
                self.arguments.retain(|given| *given != *word);
            }
        }
    }
}

/// The name of a long flag, without dashes and value.
fn name(flag: &str) -> &str {
    let flag = flag.trim_start_matches('-');
    flag.split_once('=').map_or(flag, |(name, _)| name)
}

fn in_our_spelling(argument: &str, verb: Verb, long: &LongFlags) -> Result<Ours, String> {
    let (flag, value) = match argument.split_once('=') {
        Some((flag, value)) => (flag, Some(value)),
        None => (argument, None),
    };
    let is_ours = matches!(
        (verb, flag),
        (Verb::Files, DRY_RUN) | (Verb::Migrate, FORCE)
    );
    let lacking = other_tools::of_word("[flags]", flag).filter(|_| !is_ours);
    if let Some(instead) = lacking {
        let instead = match (verb, flag) {
            (Verb::Migrate, DRY_RUN) => SCHEDULE_INSTEAD,
            (_, _) => instead,
        };
        return Err(format!("there is no flag `{flag}`; {instead}"));
    }
    match FOREIGN.iter().find(|(theirs, _)| *theirs == flag) {
        Some((_, Meaning::Argument)) => Ok(word(value)),
        Some((_, Meaning::Switch { on, off })) => switched(flag, value, *on, *off),
        Some((_, Meaning::OfApply { off })) => switched(
            flag,
            value,
            None,
            (matches!(verb, Verb::Apply | Verb::Migrate)).then_some(*off),
        ),
        None => own(argument, flag, value, long),
    }
}

/// A flag that is spelled as ours, perhaps with a single dash, or as a switch with a value.
fn own(argument: &str, flag: &str, value: Option<&str>, long: &LongFlags) -> Result<Ours, String> {
    let of_one_dash = flag.strip_prefix('-').filter(|name| !name.starts_with('-'));
    let of_two = flag.strip_prefix("--");
    let known = of_two
        .or(of_one_dash)
        .filter(|name| long.all.contains(*name));
    let Some(known) = known else {
        return Ok(Ours::Word(argument.to_owned()));
    };
    match value {
        Some(value) if long.switches.contains(known) => {
            let on = format!("--{known}");
            switched(flag, Some(value), Some(&on), None)
        }
        Some(_) | None if of_two.is_none() => Ok(Ours::Word(format!("-{argument}"))),
        Some(_) | None => Ok(Ours::Word(argument.to_owned())),
    }
}

fn word(word: Option<&str>) -> Ours {
    word.map_or(Ours::Nothing, |word| Ours::Word(word.to_owned()))
}

/// `on` and `off` are the words for `true` and `false`. If one value has no word, the word of the
/// other one no longer applies.
fn switched(
    flag: &str,
    value: Option<&str>,
    on: Option<&str>,
    off: Option<&str>,
) -> Result<Ours, String> {
    let (chosen, other) = match value {
        None | Some("true") => (on, off),
        Some("false") => (off, on),
        Some(given) => {
            return Err(format!("`{flag}` takes `true` or `false`, not `{given}`"));
        }
    };
    Ok(match (chosen, other) {
        (Some(chosen), _) => Ours::Word(chosen.to_owned()),
        (None, Some(other)) => Ours::Off(other.to_owned()),
        (None, None) => Ours::Nothing,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn long() -> LongFlags {
        let switches = [
            "auto-approve",
            "detailed-exitcode",
            "no-lock",
            "no-input",
            "no-color",
            "show-all",
            "help",
            "version",
        ];
        let valued = ["out", "output", "target", "parallelism"];
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        LongFlags {
            all: names(&[&switches[..], &valued].concat()),
            switches: names(&switches),
        }
    }

    fn of(line: &str) -> Result<Translated, String> {
        let words = line.split_whitespace().map(OsString::from).collect();
        translated(words, &long())
    }

    fn translate(line: &str) -> Result<String, String> {
        Ok(of(line)?
            .arguments
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
            ("plan --show-all=true", "plan --show-all"),
            ("plan -show-all=false", "plan"),
            ("apply --auto-approve -auto-approve=false", "apply"),
            (
                "apply -auto-approve=false --auto-approve",
                "apply --auto-approve",
            ),
            ("-help", "--help"),
            ("plan -output json", "plan --output json"),
            ("apply -f pools/", "apply pools/"),
            ("apply --filename=pools/", "apply pools/"),
        ] {
            assert_eq!(translate(theirs).as_deref(), Ok(ours), "{theirs}");
        }
    }

    #[test]
    fn what_is_switched_off_is_named() {
        for (line, off) in [
            ("apply -auto-approve=false", &["auto-approve"][..]),
            ("apply --auto-approve=false", &["auto-approve"]),
            ("apply -auto-approve=false -auto-approve", &[]),
            ("apply -input=true -lock=true", &["no-input", "no-lock"]),
            ("plan -lock=true", &[]),
            ("show -json=false", &["output"]),
            ("plan --show-all=false", &["show-all"]),
            ("plan --out=false", &[]),
            ("plan -- --show-all=false", &[]),
        ] {
            let found = of(line).unwrap().switched_off;
            assert_eq!(Vec::from_iter(&found), off, "{line}");
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
            ("migrate apply --dry-run", "`cilium-ipam migrate plan`"),
            ("plan -destroy", "cilium-ipam undo last"),
            ("get nodes -A", "no namespace"),
            ("apply -y", "--auto-approve"),
            ("apply -lock=maybe", "`true` or `false`"),
            ("apply --auto-approve=yes", "`true` or `false`"),
        ] {
            let error = translate(line).unwrap_err();
            assert!(error.contains(part), "{line}: {error}");
        }
    }
}
