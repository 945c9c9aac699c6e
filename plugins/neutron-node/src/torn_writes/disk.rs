//! A simulated disk that keeps only synced data. Running programs see the folder of the test. This
//! module computes the contents of that folder after a crash of the machine.
//!
//! Names may reach the disk in any order, except that changes of one name or one file stay in
//! order. A rename is atomic, as on ext4, XFS and btrfs. Content that was not synced may be torn.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use fastrand::Rng;
use private_files::disk::Change;

/// Index of a file's content.
type Inode = usize;

struct Content {
    bytes: Vec<u8>,
    written: SystemTime,
    durability: Durability,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Durability {
    Cached,
    Synced,
}

/// A change of names that a crash may lose.
#[derive(Clone)]
enum Pending {
    Link(PathBuf, Inode),
    Move(PathBuf, PathBuf, Inode),
    Unlink(PathBuf, Inode),
    Folder(PathBuf),
}

impl Pending {
    fn paths(&self) -> Vec<&Path> {
        match self {
            Pending::Link(path, _) | Pending::Unlink(path, _) | Pending::Folder(path) => vec![path],
            Pending::Move(from, to, _) => vec![from, to],
        }
    }

    fn inode(&self) -> Option<Inode> {
        match self {
            Pending::Link(_, inode) | Pending::Move(_, _, inode) | Pending::Unlink(_, inode) => {
                Some(*inode)
            }
            Pending::Folder(_) => None,
        }
    }

    fn is_in(&self, folder: &Path) -> bool {
        self.paths()
            .iter()
            .any(|path| path.parent() == Some(folder))
    }

    /// Whether the order of the two changes matters.
    fn is_tied_to(&self, other: &Pending) -> bool {
        let same_file = self.inode().is_some() && self.inode() == other.inode();
        same_file || self.paths().iter().any(|path| other.paths().contains(path))
    }
}

/// What the disk has, and what it does not have yet.
pub(super) struct Disk {
    root: PathBuf,
    contents: Vec<Content>,
    cached: BTreeMap<PathBuf, Inode>,
    durable: BTreeMap<PathBuf, Inode>,
    folders: BTreeSet<PathBuf>,
    pending: Vec<Pending>,
}

impl Disk {
    /// An empty disk. The folder above `root` is durable.
    pub(super) fn new(root: &Path) -> Disk {
        Disk {
            root: root.to_owned(),
            contents: Vec::new(),
            cached: BTreeMap::new(),
            durable: BTreeMap::new(),
            folders: BTreeSet::new(),
            pending: Vec::new(),
        }
    }

    /// The folder above, which exists from the start.
    pub(super) fn above(&self) -> Option<&Path> {
        self.root.parent()
    }

    /// Notes a change that is about to succeed.
    pub(super) fn note(&mut self, change: Change<'_>) {
        match change {
            Change::Create(path, bytes) if !path.exists() => {
                self.contents.push(Content {
                    bytes: bytes.to_owned(),
                    written: SystemTime::now(),
                    durability: Durability::Cached,
                });
                let inode = self.contents.len() - 1;
                self.cached.insert(path.to_owned(), inode);
                self.pending.push(Pending::Link(path.to_owned(), inode));
            }
            Change::Rename(from, to) => {
                if let Some(inode) = self.cached.remove(from) {
                    self.cached.insert(to.to_owned(), inode);
                    let (from, to) = (from.to_owned(), to.to_owned());
                    self.pending.push(Pending::Move(from, to, inode));
                }
            }
            Change::Remove(path) => {
                if let Some(inode) = self.cached.remove(path) {
                    self.pending.push(Pending::Unlink(path.to_owned(), inode));
                }
            }
            Change::CreateFolder(path) if !path.exists() => {
                self.pending.push(Pending::Folder(path.to_owned()));
            }
            Change::SyncFile(path) => {
                if let Some(inode) = self.cached.get(path) {
                    self.contents[*inode].durability = Durability::Synced;
                }
            }
            Change::SyncFolder(path) => self.sync_folder(path),
            Change::Create(..) | Change::CreateFolder(_) => {}
        }
    }

    fn sync_folder(&mut self, folder: &Path) {
        let mut kept: Vec<Pending> = Vec::new();
        let mut rest = Vec::new();
        for change in std::mem::take(&mut self.pending).into_iter().rev() {
            if change.is_in(folder) || kept.iter().any(|later| later.is_tied_to(&change)) {
                kept.push(change);
            } else {
                rest.push(change);
            }
        }
        rest.reverse();
        self.pending = rest;
        kept.into_iter().rev().for_each(|change| self.apply(change));
    }

    fn apply(&mut self, change: Pending) {
        match change {
            Pending::Link(path, inode) => drop(self.durable.insert(path, inode)),
            Pending::Move(from, to, inode) => {
                self.durable.remove(&from);
                self.durable.insert(to, inode);
            }
            Pending::Unlink(path, _) => drop(self.durable.remove(&path)),
            Pending::Folder(path) => drop(self.folders.insert(path)),
        }
    }

    /// Syncs everything.
    pub(super) fn sync_all(&mut self) {
        let pending = std::mem::take(&mut self.pending);
        pending.into_iter().for_each(|change| self.apply(change));
        for content in &mut self.contents {
            content.durability = Durability::Synced;
        }
    }

    /// Loses power: some unsynced data is lost or torn, and the folder shows the rest.
    pub(super) fn lose_power(&mut self, rng: &mut Rng) {
        let kept_percent = [0, 50, 100][rng.usize(..3)];
        let mut lost: Vec<Pending> = Vec::new();
        for change in std::mem::take(&mut self.pending) {
            let is_lost = rng.u8(..100) >= kept_percent;
            if is_lost || lost.iter().any(|earlier| earlier.is_tied_to(&change)) {
                lost.push(change);
            } else {
                self.apply(change);
            }
        }
        let (all, root) = (self.folders.clone(), &self.root);
        let is_reachable = |path: &Path| {
            let above = path.ancestors().skip(1);
            above
                .take_while(|folder| folder.starts_with(root))
                .all(|folder| all.contains(folder))
        };
        self.folders.retain(|path| is_reachable(path));
        self.durable.retain(|path, _| is_reachable(path));
        for content in &mut self.contents {
            if content.durability == Durability::Cached {
                tear(&mut content.bytes, rng);
            }
            content.durability = Durability::Synced;
        }
        self.cached = self.durable.clone();
        self.show();
    }

    /// Damages one file that `is_hit` accepts. Returns its path.
    pub(super) fn damage(
        &mut self,
        rng: &mut Rng,
        is_hit: impl Fn(&Path) -> bool,
    ) -> Option<PathBuf> {
        let paths: Vec<(PathBuf, Inode)> = self
            .cached
            .iter()
            .filter(|(path, _)| is_hit(path))
            .map(|(path, inode)| (path.clone(), *inode))
            .collect();
        let (path, inode) = rng.choice(paths)?;
        let bytes = &mut self.contents[inode].bytes;
        bytes.truncate(bytes.len() / 2);
        self.show();
        Some(path)
    }

    /// Lets time pass: everything becomes older.
    pub(super) fn age(&mut self, by: Duration) {
        for content in &mut self.contents {
            content.written -= by;
        }
        for (path, inode) in &self.cached {
            set_modified(path, self.contents[*inode].written);
        }
    }

    /// Makes the folder what the disk has.
    fn show(&self) {
        if self.root.exists() {
            fs::remove_dir_all(&self.root).unwrap();
        }
        for folder in &self.folders {
            fs::create_dir_all(folder).unwrap();
            set_private(folder);
        }
        for (path, inode) in &self.cached {
            let content = &self.contents[*inode];
            fs::write(path, &content.bytes).unwrap();
            set_modified(path, content.written);
        }
    }
}

fn tear(bytes: &mut Vec<u8>, rng: &mut Rng) {
    match rng.u8(..4) {
        0 => bytes.clear(),
        1 => bytes.truncate(rng.usize(..=bytes.len())),
        2 => bytes.fill(0),
        _ => {}
    }
}

fn set_modified(path: &Path, at: SystemTime) {
    let file = fs::File::options().write(true).open(path).unwrap();
    file.set_modified(at).unwrap();
}

/// Folders that other users may write to are refused.
fn set_private(folder: &Path) {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(folder, fs::Permissions::from_mode(0o700)).unwrap();
}
