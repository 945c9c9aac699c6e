//! Distribution's registry on loopback, without TLS. It keeps what is pushed until it stops.

use std::fs;

use crate::error::{Error, Result};
use crate::folder::RunFolder;
use crate::process::{Server, free_port, with_free_ports};
use crate::programs::{Program, build};
use crate::wait::PATIENCE;

/// A running registry. Dropping it stops it and removes its content.
#[derive(Debug)]
pub struct Registry {
    address: String,
    // Before the folder: the server writes there until it has stopped.
    _server: Server,
    _folder: RunFolder,
}

impl Registry {
    /// Starts it empty and waits until it is ready.
    ///
    /// # Errors
    /// Fails if it cannot be built, or does not get ready.
    pub fn start() -> Result<Self> {
        let programs = build(&[Program::Registry])?;
        with_free_ports(|| {
            let folder = RunFolder::new()?;
            let address = format!("127.0.0.1:{}", free_port()?);
            let config = format!(
                "version: 0.1\nlog: {{level: warn}}\nstorage: {{filesystem: {{rootdirectory: {}}}}}\n\
                 http: {{addr: '{address}'}}\n",
                folder.path().join("content").display()
            );
            let path = folder.path().join("registry.yml");
            fs::write(&path, config).map_err(Error::file(&path))?;
            let arguments = ["serve".to_owned(), path.display().to_string()];
            let program = programs.path(Program::Registry)?;
            let mut server = Server::start("registry", program, &arguments, folder.path())?;
            server.wait_ready(PATIENCE, || std::net::TcpStream::connect(&address).is_ok())?;
            Ok(Self {
                address,
                _server: server,
                _folder: folder,
            })
        })
    }

    /// Host and port.
    #[must_use]
    pub fn address(&self) -> &str {
        &self.address
    }
}
