//! SHA-256 in hexadecimal, and `SHA256SUMS` as `sha256sum --check` reads it.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

use anyhow::{Context, Result};
use sha2::{Digest, Sha256};

/// The name of the file with the sums of all others.
pub const SUMS: &str = "SHA256SUMS";

/// 64 hexadecimal digits.
pub fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes)
        .iter()
        .fold(String::new(), |mut text, byte| {
            let _ = write!(text, "{byte:02x}");
            text
        })
}

/// The sum of a file.
pub fn of_file(path: &Path) -> Result<String> {
    let content = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    Ok(sha256(&content))
}

/// The sums of all files of a folder by name, except [`SUMS`] and signatures.
pub fn of_folder(folder: &Path) -> Result<BTreeMap<String, String>> {
    let mut sums = BTreeMap::new();
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if !name.starts_with(SUMS) {
            sums.insert(name, of_file(&entry.path())?);
        }
    }
    Ok(sums)
}

/// Lines of sum and name.
pub fn text(sums: &BTreeMap<String, String>) -> String {
    sums.iter().fold(String::new(), |mut text, (name, sum)| {
        let _ = writeln!(text, "{sum}  {name}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sha256sum_accepts_the_file() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("b.tar.gz"), "b").unwrap();
        std::fs::write(folder.path().join("a.deb"), "a").unwrap();
        let sums = of_folder(folder.path()).unwrap();
        std::fs::write(folder.path().join(SUMS), text(&sums)).unwrap();
        let check = || {
            std::process::Command::new("sha256sum")
                .args(["--check", "--strict", SUMS])
                .current_dir(folder.path())
                .output()
                .unwrap()
        };
        let good = check();
        assert_eq!(
            String::from_utf8_lossy(&good.stdout),
            "a.deb: OK\nb.tar.gz: OK\n"
        );
        std::fs::write(folder.path().join("a.deb"), "changed").unwrap();
        assert!(!check().status.success());
    }
}
