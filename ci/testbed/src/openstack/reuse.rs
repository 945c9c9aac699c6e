//! An OpenStack that tests use one after the other. Each test finds it as after a start.
//!
//! Only the databases and the fault proxies keep state of a test: Keystone's cache is off, and
//! Neutron keeps only tokens in memory, which stay valid. It must never know what tests do.

use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::python::Python;
use super::{OpenStack, Options, keystone, neutron};
use crate::error::Result;

/// Copies each database to the path after it, also while a service has it open.
const COPY: &str = r#"import sqlite3, sys
for source, target in zip(sys.argv[1::2], sys.argv[2::2]):
    with sqlite3.connect(source, timeout=60) as read, sqlite3.connect(target, timeout=60) as write:
        read.backup(write)
"#;

/// OpenStacks that no test uses now.
static IDLE: Mutex<Vec<(Options, OpenStack)>> = Mutex::new(Vec::new());

fn idle() -> MutexGuard<'static, Vec<(Options, OpenStack)>> {
    IDLE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// An OpenStack for one test at a time. Dropping it leaves it to the next test, unless this test
/// failed.
#[derive(Debug)]
pub struct Borrowed {
    options: Options,
    stack: Option<OpenStack>,
}

impl Borrowed {
    /// Takes an OpenStack that another test has used with these options, or starts a new one.
    ///
    /// # Errors
    /// As [`OpenStack::start`].
    pub fn new(options: &Options) -> Result<Self> {
        let is_same = |(of, _): &(Options, OpenStack)| of == options;
        let used = {
            let mut idle = idle();
            let position = idle.iter().position(is_same);
            position.map(|position| idle.swap_remove(position).1)
        };
        let stack = match used.map(OpenStack::reset) {
            Some(Ok(stack)) => stack,
            // The last test left it in a state that cannot be reset.
            Some(Err(_)) | None => OpenStack::start(options)?,
        };
        Ok(Self {
            options: options.clone(),
            stack: Some(stack),
        })
    }
}

impl Deref for Borrowed {
    type Target = OpenStack;

    fn deref(&self) -> &OpenStack {
        match &self.stack {
            Some(stack) => stack,
            None => unreachable!("only drop takes it"),
        }
    }
}

impl Drop for Borrowed {
    fn drop(&mut self) {
        if let Some(stack) = self.stack.take()
            && !std::thread::panicking()
            && stack.saved.is_some()
        {
            idle().push((self.options.clone(), stack));
        }
    }
}

impl OpenStack {
    /// Undoes what a test did.
    fn reset(self) -> Result<Self> {
        self.neutron.faults().clear();
        self.keystone.faults().clear();
        if let Some(saved) = &self.saved {
            saved.restore()?;
        }
        self.keystone.start()?;
        self.neutron.start()?;
        Ok(self)
    }
}

/// Copies of the databases, of SQLite, as they were after the start.
#[derive(Debug)]
pub(super) struct Saved {
    python: Python,
    state: PathBuf,
}

impl Saved {
    /// # Errors
    /// Fails if Python cannot copy them.
    pub(super) fn new(python: &Python, state: &Path) -> Result<Self> {
        let saved = Self {
            python: python.clone(),
            state: state.to_owned(),
        };
        saved.copy(|file| [file.clone(), file.with_added_extension("saved")])?;
        Ok(saved)
    }

    fn restore(&self) -> Result<()> {
        self.copy(|file| [file.with_added_extension("saved"), file.clone()])
    }

    fn copy(&self, pair: impl Fn(&PathBuf) -> [PathBuf; 2]) -> Result<()> {
        let files = [keystone::DATABASE, neutron::DATABASE].map(|name| self.state.join(name));
        let pairs: Vec<String> = files
            .iter()
            .flat_map(pair)
            .map(|file| file.display().to_string())
            .collect();
        let mut arguments = vec!["-c", COPY];
        arguments.extend(pairs.iter().map(String::as_str));
        self.python.run("python", &arguments, &self.state)
    }
}
