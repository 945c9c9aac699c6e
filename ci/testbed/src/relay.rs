//! Lets a network namespace reach a server on this machine's loopback: a socket in a folder, which
//! has no namespace.

use std::io;
use std::net::{Shutdown, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use crate::error::{Error, Result};

/// A socket whose connections go to a server on loopback. Dropping it closes the socket.
#[derive(Debug)]
pub(crate) struct Relay {
    path: PathBuf,
    port: String,
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Relay {
    /// Listens at `path` for the server of this URL.
    ///
    /// # Errors
    /// Fails if there cannot be a socket.
    pub(crate) fn start(path: &Path, url: &str) -> Result<Relay> {
        let listener = UnixListener::bind(path).map_err(Error::file(path))?;
        let address = url.trim_start_matches("https://").to_owned();
        let port = address.rsplit(':').next().unwrap_or_default().to_owned();
        let ends = Arc::new(AtomicBool::new(false));
        let seen = ends.clone();
        let thread = std::thread::spawn(move || {
            for connection in listener.incoming().flatten() {
                if seen.load(Ordering::Relaxed) {
                    return;
                }
                // A server that is away is what the client sees, too.
                if let Ok(server) = TcpStream::connect(&address) {
                    let _ = join(connection, server);
                }
            }
        });
        Ok(Relay {
            path: path.to_owned(),
            port,
            ends,
            thread: Some(thread),
        })
    }

    /// The server's port.
    pub(crate) fn port(&self) -> &str {
        &self.port
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        let is_woken = UnixStream::connect(&self.path).is_ok();
        if let Some(thread) = self.thread.take().filter(|_| is_woken) {
            let _ = thread.join();
        }
    }
}

/// Copies both ways, each until its end.
fn join(client: UnixStream, server: TcpStream) -> io::Result<()> {
    let (mut from_client, mut to_client) = (client.try_clone()?, client);
    let (mut from_server, mut to_server) = (server.try_clone()?, server);
    std::thread::spawn(move || {
        let _ = io::copy(&mut from_client, &mut to_server);
        let _ = to_server.shutdown(Shutdown::Write);
    });
    std::thread::spawn(move || {
        let _ = io::copy(&mut from_server, &mut to_client);
        let _ = to_client.shutdown(Shutdown::Write);
    });
    Ok(())
}
