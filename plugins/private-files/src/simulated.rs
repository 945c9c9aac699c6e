//! A machine that a test simulates on its own thread. It is called before each change of a file,
//! may refuse the change, and defines the boot time. Only tests enable the feature of this module.

use std::cell::RefCell;
use std::io;
use std::rc::Rc;
use std::time::SystemTime;

use crate::disk::Change;

/// A simulated machine, in which faults strike between changes of files.
pub trait Machine {
    /// Called before a change is made.
    ///
    /// # Errors
    /// The change is not made, and fails with this error.
    fn before(&self, change: Change<'_>) -> io::Result<()>;

    /// The kernel's id of this boot.
    fn boot_id(&self) -> String;

    /// When the kernel booted.
    fn booted_at(&self) -> SystemTime;
}

thread_local! {
    static CURRENT: RefCell<Option<Rc<dyn Machine>>> = const { RefCell::new(None) };
}

/// Puts the machine in the place of the real one, on this thread.
pub fn install(machine: Rc<dyn Machine>) {
    CURRENT.set(Some(machine));
}

pub(crate) fn current() -> Option<Rc<dyn Machine>> {
    CURRENT.with_borrow(Clone::clone)
}
