//! Processes of a node by their names: started, ended alone, started again.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

use rustix::process::{Pid, Signal, kill_process};

use super::namespaces::only_child;
use crate::error::{Error, Result};
use crate::process::Ending;
use crate::wait::{PATIENCE, wait_until};

/// Dropping it waits for nothing: the end of the namespaces ends the processes.
#[derive(Debug, Default)]
pub(super) struct Processes {
    all: BTreeMap<String, Process>,
}

#[derive(Debug)]
struct Process {
    command: Command,
    /// `nsenter`, whose child the process is.
    parent: Child,
}

impl Processes {
    pub(super) fn start(&mut self, name: &str, mut command: Command, log: &Path) -> Result<()> {
        let log_file = File::options().create(true).append(true).open(log);
        let output = log_file.map_err(Error::file(log))?;
        let errors = output.try_clone().map_err(Error::file(log))?;
        command.stdout(output).stderr(errors);
        let parent = command.spawn().map_err(Error::file("nsenter"))?;
        let process = Process { command, parent };
        self.all.insert(name.to_owned(), process);
        Ok(())
    }

    pub(super) fn end(&mut self, name: &str, ending: Ending) -> Result<()> {
        let process = self.process(name)?;
        let signal = match ending {
            Ending::Terminated => Signal::TERM,
            Ending::Killed => Signal::KILL,
        };
        // It may not have started yet, and it may have ended by itself.
        let child = wait_until(name, PATIENCE, || {
            let has_ended = matches!(process.parent.try_wait(), Ok(Some(_)));
            let child = only_child(process.parent.id()).ok();
            Ok((has_ended || child.is_some()).then_some(child))
        })?;
        if let Some(pid) = child.and_then(|child| Pid::from_raw(child.cast_signed())) {
            let _ = kill_process(pid, signal);
        }
        process.parent.wait().map_err(Error::file("nsenter"))?;
        Ok(())
    }

    pub(super) fn restart(&mut self, name: &str, ending: Ending) -> Result<()> {
        self.end(name, ending)?;
        let process = self.process(name)?;
        process.parent = process.command.spawn().map_err(Error::file("nsenter"))?;
        Ok(())
    }

    fn process(&mut self, name: &str) -> Result<&mut Process> {
        let unknown = || Error::file(PathBuf::from(name))(std::io::ErrorKind::NotFound.into());
        self.all.get_mut(name).ok_or_else(unknown)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Its child has ended with the namespaces, or ends with them.
        let _ = self.parent.try_wait();
    }
}
