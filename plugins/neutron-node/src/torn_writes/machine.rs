//! A node with a simulated disk. It counts the changes of files and the requests to Neutron of the
//! running program, and a fault strikes at one of them.

use std::cell::RefCell;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use fastrand::Rng;
use private_files::disk::Change;
use private_files::simulated::Machine;

use super::disk::Disk;

/// A fault, which strikes at one step of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// The program dies. Its writes stay.
    Kill,
    /// The machine loses power.
    PowerLoss,
    /// The disk is full, or refuses writes, for this number of steps.
    Full(u32),
}

/// A rule that is broken on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sabotage {
    /// Files are renamed without a sync.
    UnsyncedFiles,
    /// Folders are not synced.
    UnsyncedFolders,
    /// The name of the state folder is not synced.
    UnsyncedState,
    /// A DEL removes the record of the interface before the port.
    RecordBeforePort,
}

/// Whether the running program may go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Go,
    Refused,
    /// The program dies at this step.
    Dies,
    /// The program is dead.
    Dead,
}

pub(super) struct SimulatedMachine {
    inner: RefCell<Inner>,
    sabotage: Option<Sabotage>,
}

struct Inner {
    disk: Disk,
    rng: Rng,
    boot: u32,
    booted_at: SystemTime,
    /// The planned fault, and the steps before it.
    planned: Option<(u32, Fault)>,
    /// The fault that ended the running program.
    ended_by: Option<Fault>,
    faults: u32,
}

impl SimulatedMachine {
    pub(super) fn new(root: &Path, seed: u64, sabotage: Option<Sabotage>) -> SimulatedMachine {
        let inner = Inner {
            disk: Disk::new(root),
            rng: Rng::with_seed(seed),
            boot: 1,
            booted_at: SystemTime::now(),
            planned: None,
            ended_by: None,
            faults: 0,
        };
        SimulatedMachine {
            inner: RefCell::new(inner),
            sabotage,
        }
    }

    pub(super) fn plan(&self, fault: Option<(u32, Fault)>) {
        self.inner.borrow_mut().planned = fault;
    }

    /// The fault that ended the running program, if one did. The next program starts.
    pub(super) fn restart(&self) -> Option<Fault> {
        let mut inner = self.inner.borrow_mut();
        inner.planned = None;
        inner.ended_by.take()
    }

    pub(super) fn is_dead(&self) -> bool {
        self.inner.borrow().ended_by.is_some()
    }

    /// Number of faults that struck.
    pub(super) fn faults(&self) -> u32 {
        self.inner.borrow().faults
    }

    /// Boots after a loss of power. A file that `may_damage` accepts may be unreadable then.
    pub(super) fn boot(&self, may_damage: impl Fn(&Path) -> bool) -> Option<PathBuf> {
        let mut inner = self.inner.borrow_mut();
        let Inner { disk, rng, .. } = &mut *inner;
        disk.lose_power(rng);
        let damaged = (rng.u8(..4) == 0)
            .then(|| disk.damage(rng, may_damage))
            .flatten();
        inner.faults += u32::from(damaged.is_some());
        inner.boot += 1;
        inner.disk.age(Duration::from_secs(30));
        inner.booted_at = SystemTime::now();
        damaged
    }

    /// Boots without a loss.
    pub(super) fn boot_whole(&self) {
        self.inner.borrow_mut().disk.sync_all();
        self.boot(|_| false);
    }

    /// Lets time pass.
    pub(super) fn age(&self, by: Duration) {
        let mut inner = self.inner.borrow_mut();
        inner.disk.age(by);
        inner.booted_at -= by;
    }

    /// One step of the running program.
    pub(super) fn step(&self) -> Step {
        let mut inner = self.inner.borrow_mut();
        if inner.ended_by.is_some() {
            return Step::Dead;
        }
        match inner.planned {
            None => Step::Go,
            Some((0, fault @ (Fault::Kill | Fault::PowerLoss))) => {
                inner.planned = None;
                inner.ended_by = Some(fault);
                inner.faults += 1;
                Step::Dies
            }
            Some((0, Fault::Full(left))) => {
                inner.planned = left.checked_sub(1).map(|left| (0, Fault::Full(left)));
                Step::Refused
            }
            Some((steps, fault)) => {
                inner.planned = Some((steps - 1, fault));
                Step::Go
            }
        }
    }

    /// Whether a step in which the program dies is done nevertheless, or a request later.
    pub(super) fn happens_in_death(&self) -> bool {
        self.inner.borrow_mut().rng.bool()
    }

    /// Whether the change is above the folder of the test.
    fn is_elsewhere(&self, change: Change<'_>) -> bool {
        let inner = self.inner.borrow();
        let above = inner.disk.above().unwrap();
        matches!(change, Change::SyncFolder(path) if !path.starts_with(above))
    }

    /// Whether the sabotage omits this step.
    fn is_ignored(&self, change: Change<'_>) -> bool {
        let inner = self.inner.borrow();
        let sabotage = match change {
            Change::SyncFile(_) => Sabotage::UnsyncedFiles,
            Change::SyncFolder(path) if Some(path) == inner.disk.above() => Sabotage::UnsyncedState,
            Change::SyncFolder(_) => Sabotage::UnsyncedFolders,
            _ => return false,
        };
        self.sabotage == Some(sabotage)
    }

    /// Writes a part of a file.
    fn write_part(&self, change: Change<'_>) {
        let Change::Create(path, bytes) = change else {
            return;
        };
        let mut inner = self.inner.borrow_mut();
        let part = &bytes[..inner.rng.usize(..=bytes.len())];
        inner.disk.note(Change::Create(path, part));
        if !path.exists() {
            fs::write(path, part).unwrap();
        }
    }
}

impl Machine for SimulatedMachine {
    fn before(&self, change: Change<'_>) -> io::Result<()> {
        if self.is_elsewhere(change) {
            return Ok(());
        }
        let is_ignored = self.is_ignored(change);
        match self.step() {
            Step::Go if is_ignored => Ok(()),
            Step::Go => {
                self.inner.borrow_mut().disk.note(change);
                Ok(())
            }
            // Removing needs no space.
            Step::Refused if matches!(change, Change::Remove(_)) => {
                self.inner.borrow_mut().disk.note(change);
                Ok(())
            }
            Step::Refused => {
                self.inner.borrow_mut().faults += 1;
                self.write_part(change);
                Err(ErrorKind::StorageFull.into())
            }
            Step::Dies => {
                self.write_part(change);
                Err(io::Error::other("killed"))
            }
            Step::Dead => Err(io::Error::other("dead")),
        }
    }

    fn boot_id(&self) -> String {
        format!("boot {}", self.inner.borrow().boot)
    }

    fn booted_at(&self) -> SystemTime {
        self.inner.borrow().booted_at
    }
}
