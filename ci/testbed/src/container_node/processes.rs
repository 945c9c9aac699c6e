//! Processes of a node by their names: started, ended alone, started again.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

use rustix::process::{Pid, Signal, kill_process};

use super::namespaces::only_child;
use crate::error::{Error, Result};
use crate::process::Ending;
use crate::wait::{PATIENCE, wait_until};

/// Drop it after the namespaces, whose end ends the processes.
#[derive(Debug, Default)]
pub(super) struct Processes {
    all: BTreeMap<String, Process>,
}

#[derive(Debug)]
struct Process {
    command: Command,
    /// `nsenter`, whose child the process is.
    parent: Child,
    log: PathBuf,
}

impl Processes {
    pub(super) fn start(&mut self, name: &str, mut command: Command, log: &Path) -> Result<()> {
        let log_file = File::options().create(true).append(true).open(log);
        let output = log_file.map_err(Error::file(log))?;
        let errors = output.try_clone().map_err(Error::file(log))?;
        command.stdout(output).stderr(errors);
        let parent = command.spawn().map_err(Error::file("nsenter"))?;
        let log = log.to_owned();
        let process = Process {
            command,
            parent,
            log,
        };
        self.all.insert(name.to_owned(), process);
        Ok(())
    }

    pub(super) fn end(&mut self, name: &str, ending: Ending) -> Result<()> {
        let process = self.process(name)?;
        let signal = match ending {
            Ending::Terminated => Signal::TERM,
            Ending::Killed => Signal::KILL,
        };
        // It may not have started yet.
        let child = wait_until(name, PATIENCE, || {
            if let Ok(Some(_)) = process.parent.try_wait() {
                let log = fs::read_to_string(&process.log).unwrap_or_default();
                let program = name.to_owned();
                return Err(Error::Ended { program, log });
            }
            Ok(only_child(process.parent.id()).ok())
        })?;
        if let Some(pid) = Pid::from_raw(child.cast_signed()) {
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
        // The namespaces have ended before, and its child with them.
        let _ = self.parent.wait();
    }
}
