//! `.cilium-ipamignore`: the files and folders of a directory that are not read, in the syntax of
//! .gitignore. Knows paths below the directory, not whether they are on disk or in Git.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use ignore::gitignore::{Gitignore, GitignoreBuilder};

use super::collected::shown;
use ipam_core::model::{Finding, Origin, Rule, Severity, count, first_of};
use ipam_core::text::one_line;

/// Only the file at the top of the directory has an effect.
pub(super) const IGNORE_FILE: &str = ".cilium-ipamignore";

/// Most bytes. Each pattern costs time and memory, and a pull request can add patterns.
const LARGEST: usize = 16 * 1024;

const FAULTY: Rule = Rule("invalid-ignore-pattern");

/// Ignored names in a message.
const LISTED: usize = 5;

/// What a path below the directory leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Entry {
    File,
    Folder,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Ignored {
    /// `None` without an ignore file.
    patterns: Option<Gitignore>,
    found: BTreeSet<Arc<str>>,
}

impl Ignored {
    /// Reads the ignore file of this name. Its faults go to `findings`.
    pub(super) fn of(name: &Arc<str>, text: &str, findings: &mut Vec<Finding>) -> Ignored {
        let fault = |line: usize, message: String, help: &str| {
            let origin = Origin {
                line: u32::try_from(line).unwrap_or(u32::MAX),
                column: u32::from(line > 0),
                ..Origin::whole_file(name)
            };
            Finding::new(Severity::Error, FAULTY, message)
                .at(&origin, "")
                .help(help)
        };
        if text.len() > LARGEST {
            let message = format!("`{name}` is larger than {} KiB", LARGEST / 1024);
            findings.push(fault(0, message, "ignore folders instead of single files"));
            return Ignored::default();
        }
        let mut patterns = GitignoreBuilder::new("");
        patterns.allow_unclosed_class(false);
        let text = text.trim_start_matches('\u{feff}');
        for (index, line) in text.lines().enumerate() {
            if patterns.add_line(None, line).is_err() {
                let message = format!("`{}` is not a pattern of .gitignore", one_line(line));
                let help = "close every `[` and `{`, or write `\\[` and `\\{` for the characters";
                findings.push(fault(index + 1, message, help));
            }
        }
        let patterns = patterns.build().map_err(|_| {
            let message = format!("the patterns of `{name}` are too complex together");
            findings.push(fault(0, message, "ignore folders instead of single files"));
        });
        Ignored {
            patterns: patterns.ok(),
            found: BTreeSet::new(),
        }
    }

    /// Whether a path below the directory is ignored, and remembers it. As in Git, no pattern includes
    /// a file again whose folder is ignored.
    pub(super) fn has(&mut self, below: &Path, entry: Entry) -> bool {
        let Some(patterns) = &self.patterns else {
            return false;
        };
        let paths: Vec<&Path> = below.ancestors().collect();
        let mut outermost_first = paths.into_iter().rev().skip(1);
        let ignored = outermost_first.find(|path| {
            let is_folder = *path != below || entry == Entry::Folder;
            patterns.matched(path, is_folder).is_ignore()
        });
        self.found.extend(ignored.map(shown));
        ignored.is_some()
    }

    /// A remark on the ignored files and folders; `None` without any.
    pub(super) fn remark(&self, directory: &Path) -> Option<Finding> {
        let (ignored, name) = (self.found.len(), shown(&directory.join(IGNORE_FILE)));
        let names = self.found.iter().map(|name| format!("`{name}`"));
        let message = format!(
            "ignored {}: {}",
            count(ignored, "path"),
            first_of(LISTED, names)
        );
        let remark = Finding::new(Severity::Info, Rule("ignored-files"), message);
        let remark = remark.at(&Origin::whole_file(&name), "");
        (ignored > 0).then(|| remark.help("to read one, remove its pattern"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_ignored_as_git_ignores_them() {
        let text = "\u{feff}# a note\r\n*.tmpl.yaml\r\n/old\nvalues/\n!old/keep.yaml\na*.yaml\n!ab.yaml\n\\#c.yaml\n";
        let mut findings = Vec::new();
        let mut ignored = Ignored::of(&"f".into(), text, &mut findings);
        assert!(findings.is_empty());
        for (path, entry, expected) in [
            ("x.yaml", Entry::File, false),
            ("deep/x.tmpl.yaml", Entry::File, true),
            ("old", Entry::Folder, true),
            ("old/keep.yaml", Entry::File, true),
            ("deep/old/x.yaml", Entry::File, false),
            ("deep/values", Entry::Folder, true),
            ("deep/values/x.yaml", Entry::File, true),
            ("values", Entry::File, false),
            ("aa.yaml", Entry::File, true),
            ("ab.yaml", Entry::File, false),
            ("#c.yaml", Entry::File, true),
        ] {
            assert_eq!(ignored.has(Path::new(path), entry), expected, "{path}");
        }
        let remark = ignored.remark(Path::new("pools")).unwrap().message;
        let names = "`#c.yaml`, `aa.yaml`, `deep/values`, `deep/x.tmpl.yaml`, `old`";
        assert_eq!(remark, format!("ignored 5 paths: {names}"));
    }
}
