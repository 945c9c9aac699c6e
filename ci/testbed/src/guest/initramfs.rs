//! A guest's files, as the archive that a kernel unpacks before it starts anything: cpio's `newc`
//! (buffer-format.rst of the kernel's documentation). Knows nothing of the purpose of the files.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use crate::error::{Error, Result};

const MAGIC: &str = "070701";
const LAST: &str = "TRAILER!!!";
const FOLDER: u32 = 0o040_755;
const FILE: u32 = 0o100_000;
/// Of every part of the archive, in bytes.
const ALIGNMENT: usize = 4;

/// Files of a guest by their paths. All of them are root's.
#[derive(Debug, Clone, Default)]
pub struct Initramfs {
    // A folder sorts before what is in it.
    entries: BTreeMap<String, Entry>,
}

#[derive(Debug, Clone)]
struct Entry {
    mode: u32,
    content: Vec<u8>,
}

impl Initramfs {
    /// With a file at an absolute path, and the folders that it lies in.
    #[must_use]
    pub fn file(mut self, path: &str, permissions: u32, content: impl Into<Vec<u8>>) -> Self {
        let path = path.trim_start_matches('/');
        let folders = path.match_indices('/').map(|(end, _)| &path[..end]);
        for folder in folders {
            self.entries.entry(folder.to_owned()).or_insert(Entry {
                mode: FOLDER,
                content: Vec::new(),
            });
        }
        let entry = Entry {
            mode: FILE | permissions,
            content: content.into(),
        };
        self.entries.insert(path.to_owned(), entry);
        self
    }

    /// With a program of this machine, and the libraries that it is linked to, at the paths that
    /// they have here.
    ///
    /// # Errors
    /// Fails if one of them cannot be read.
    pub fn program(mut self, path: &str, program: &Path) -> Result<Self> {
        for library in libraries(program)? {
            self = self.file(&library, 0o755, read(Path::new(&library))?);
        }
        Ok(self.file(path, 0o755, read(program)?))
    }

    /// The archive.
    pub(super) fn archive(&self) -> Vec<u8> {
        let mut archive = Vec::new();
        let entries = self
            .entries
            .iter()
            .map(|(path, entry)| (path.as_str(), entry.mode, entry.content.as_slice()));
        for (inode, (path, mode, content)) in entries.chain([(LAST, 0, [].as_slice())]).enumerate()
        {
            let name_size = path.len() + 1;
            // No owner, one link, no time; the rest are devices and a checksum that `newc` has none
            // of.
            let numbers = [
                inode + 1,
                mode as usize,
                0,
                0,
                1,
                0,
                content.len(),
                0,
                0,
                0,
                0,
                name_size,
                0,
            ];
            archive.extend(MAGIC.bytes());
            numbers
                .iter()
                .for_each(|number| archive.extend(format!("{number:08X}").bytes()));
            archive.extend(path.bytes().chain([0]));
            pad(&mut archive);
            archive.extend(content);
            pad(&mut archive);
        }
        archive
    }
}

fn pad(archive: &mut Vec<u8>) {
    archive.resize(archive.len().next_multiple_of(ALIGNMENT), 0);
}

fn read(path: &Path) -> Result<Vec<u8>> {
    fs::read(path).map_err(Error::file(path))
}

/// What `ldd` names by its path; nothing for a program that is linked to none.
fn libraries(program: &Path) -> Result<Vec<String>> {
    let output = Command::new("ldd")
        .arg(program)
        .output()
        .map_err(Error::file("ldd"))?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    if !output.status.success() && !format!("{said}{stderr}").contains("not a dynamic executable") {
        return Err(Error::Failed {
            program: "ldd".to_owned(),
            stderr,
        });
    }
    let of_line = |line: &str| {
        line.split_whitespace()
            .find(|word| word.starts_with('/'))
            .map(str::to_owned)
    };
    Ok(said.lines().filter_map(of_line).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_and_their_folders_are_archived() {
        let archive = Initramfs::default()
            .file("/a/b/c", 0o600, "four")
            .file("/a/d", 0o755, "")
            .archive();
        assert_eq!(archive.len() % ALIGNMENT, 0);
        let text = String::from_utf8(archive).unwrap();
        let heads: Vec<&str> = text.split(MAGIC).skip(1).collect();
        let names: Vec<&str> = heads
            .iter()
            .map(|head| head[104..].split('\0').next().unwrap())
            .collect();
        assert_eq!(names, ["a", "a/b", "a/b/c", "a/d", LAST]);
        let modes: Vec<&str> = heads.iter().map(|head| &head[8..16]).collect();
        assert_eq!(
            modes,
            ["000041ED", "000041ED", "00008180", "000081ED", "00000000"]
        );
        assert_eq!(
            (&heads[2][48..56], heads[2].contains("four")),
            ("00000004", true)
        );
    }

    #[test]
    fn a_program_comes_with_its_libraries() {
        let shell = Initramfs::default()
            .program("/bin/x", Path::new("/bin/sh"))
            .unwrap();
        assert!(shell.entries.contains_key("bin/x"));
        let is_libc = |path: &String| path.ends_with("/libc.so.6");
        assert!(
            shell.entries.keys().any(is_libc),
            "{:?}",
            shell.entries.keys()
        );
    }
}
