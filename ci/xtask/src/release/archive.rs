//! Archives whose bytes depend on nothing but their content: no owner, no clock, no order of a
//! directory. It knows no package format.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::path::Path;

use anyhow::{Context, Result};
use flate2::{Compression, GzBuilder};

/// Mode of files that are not run.
pub const FILE: u32 = 0o644;
/// Mode of programs and folders.
pub const PROGRAM: u32 = 0o755;

/// Files by their path without a leading slash.
#[derive(Debug, Clone, Default)]
pub struct Files {
    entries: BTreeMap<String, (u32, Vec<u8>)>,
}

impl Files {
    pub fn add(&mut self, path: impl Into<String>, mode: u32, content: Vec<u8>) {
        self.entries.insert(path.into(), (mode, content));
    }

    /// Adds the content of a file.
    pub fn copy(&mut self, path: impl Into<String>, mode: u32, source: &Path) -> Result<()> {
        let content =
            std::fs::read(source).with_context(|| format!("cannot read {}", source.display()))?;
        self.add(path, mode, content);
        Ok(())
    }

    /// All files, in the order of their paths.
    pub fn iter(&self) -> impl Iterator<Item = (&str, u32, &[u8])> {
        self.entries
            .iter()
            .map(|(path, (mode, content))| (&**path, *mode, &**content))
    }

    /// An uncompressed archive, with an entry for each folder. `time` is in seconds since 1970.
    pub fn tar(&self, time: u64) -> Result<Vec<u8>> {
        let mut folders = BTreeSet::new();
        for path in self.entries.keys() {
            folders.extend(path.match_indices('/').map(|(end, _)| &path[..=end]));
        }
        let mut archive = tar::Builder::new(Vec::new());
        for folder in folders {
            let mut header = header(tar::EntryType::Directory, PROGRAM, 0, time);
            archive.append_data(&mut header, folder, std::io::empty())?;
        }
        for (path, (mode, content)) in &self.entries {
            let size = content.len() as u64;
            let mut header = header(tar::EntryType::Regular, *mode, size, time);
            archive.append_data(&mut header, path, &**content)?;
        }
        archive.into_inner().context("cannot finish an archive")
    }

    /// A compressed archive. `time` is in seconds since 1970.
    pub fn tar_gz(&self, time: u64) -> Result<Vec<u8>> {
        gzip(&self.tar(time)?)
    }
}

fn header(kind: tar::EntryType, mode: u32, size: u64, time: u64) -> tar::Header {
    let mut header = tar::Header::new_gnu();
    header.set_entry_type(kind);
    header.set_mode(mode);
    header.set_size(size);
    header.set_mtime(time);
    header.set_uid(0);
    header.set_gid(0);
    header
}

/// Compresses without a file name and without a time.
pub fn gzip(bytes: &[u8]) -> Result<Vec<u8>> {
    // 255: the system is unknown. The default differs between systems.
    let mut encoder = GzBuilder::new()
        .operating_system(255)
        .write(Vec::new(), Compression::best());
    encoder.write_all(bytes)?;
    encoder.finish().context("cannot compress")
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    fn files(order: [usize; 3]) -> Files {
        let all = [
            ("a/bin/tool", PROGRAM, "tool"),
            ("a/LICENSE", FILE, "licence"),
            ("a/man/man1/tool.1", FILE, "page"),
        ];
        let mut files = Files::default();
        for index in order {
            let (path, mode, content) = all[index];
            files.add(path, mode, content.as_bytes().to_vec());
        }
        files
    }

    #[test]
    fn the_order_of_adding_does_not_change_a_byte() {
        let (first, second) = (files([0, 1, 2]), files([2, 0, 1]));
        assert_eq!(first.tar_gz(7).unwrap(), second.tar_gz(7).unwrap());
        assert_ne!(first.tar_gz(7).unwrap(), first.tar_gz(8).unwrap());
    }

    #[test]
    fn entries_have_the_given_mode_and_time_and_belong_to_root() {
        let packed = files([0, 1, 2]).tar_gz(1_700_000_000).unwrap();
        let mut archive = tar::Archive::new(flate2::read::GzDecoder::new(&*packed));
        let mut seen = Vec::new();
        for entry in archive.entries().unwrap() {
            let mut entry = entry.unwrap();
            let header = entry.header();
            let owner = (header.uid().unwrap(), header.gid().unwrap());
            assert_eq!((owner, header.mtime().unwrap()), ((0, 0), 1_700_000_000));
            let mode = header.mode().unwrap();
            let path = entry.path().unwrap().display().to_string();
            let mut content = String::new();
            entry.read_to_string(&mut content).unwrap();
            seen.push((path, mode, content));
        }
        let expected = [
            ("a/", 0o755, ""),
            ("a/bin/", 0o755, ""),
            ("a/man/", 0o755, ""),
            ("a/man/man1/", 0o755, ""),
            ("a/LICENSE", 0o644, "licence"),
            ("a/bin/tool", 0o755, "tool"),
            ("a/man/man1/tool.1", 0o644, "page"),
        ];
        let expected =
            expected.map(|(path, mode, content)| (path.to_owned(), mode, content.to_owned()));
        assert_eq!(seen, expected);
    }

    #[test]
    fn a_compressed_file_names_no_system_and_no_time() {
        let packed = gzip(b"x").unwrap();
        assert_eq!(packed[4..8], [0; 4]);
        assert_eq!(packed[9], 255);
    }
}
