//! Compares two folders that two builds wrote.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::{Result, bail};

use super::sums::of_folder;

/// Returns how many files both folders have.
///
/// # Errors
/// Fails if a file is missing in one of them or has other bytes. Names each.
pub fn compare(first: &Path, second: &Path) -> Result<usize> {
    let (ours, theirs) = (of_folder(first)?, of_folder(second)?);
    let names: BTreeSet<&String> = ours.keys().chain(theirs.keys()).collect();
    let different: Vec<String> = names
        .iter()
        .filter_map(|name| match (ours.get(*name), theirs.get(*name)) {
            (Some(one), Some(other)) if one == other => None,
            (Some(_), Some(_)) => Some(format!("{name}: other bytes")),
            (Some(_), None) => Some(format!("{name}: only in {}", first.display())),
            (None, _) => Some(format!("{name}: only in {}", second.display())),
        })
        .collect();
    if !different.is_empty() {
        bail!("two builds differ:\n{}", different.join("\n"));
    }
    if names.is_empty() {
        bail!("no file in {}", first.display());
    }
    Ok(names.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_changed_and_a_missing_file_are_named() {
        let (first, second) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let write = |folder: &tempfile::TempDir, name: &str, text: &str| {
            std::fs::write(folder.path().join(name), text).unwrap();
        };
        assert!(compare(first.path(), second.path()).is_err());
        write(&first, "same", "a");
        write(&second, "same", "a");
        assert_eq!(compare(first.path(), second.path()).unwrap(), 1);
        write(&first, "changed", "a");
        write(&second, "changed", "b");
        write(&first, "missing", "a");
        let error = compare(first.path(), second.path())
            .unwrap_err()
            .to_string();
        assert!(error.contains("changed: other bytes"), "{error}");
        assert!(error.contains("missing: only in"), "{error}");
        assert!(!error.contains("same"), "{error}");
    }
}
