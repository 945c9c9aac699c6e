//! A TCP relay from a network namespace to a server on the host's loopback. It listens at the
//! server's own address, so a client inside the namespace needs no other URL.

use std::fs::File;
use std::io;
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{JoinHandle, spawn};

use crate::error::{Error, Result};
use crate::netns::within;

/// A running relay. Dropping it closes it.
#[derive(Debug)]
pub struct LoopbackRelay {
    ends: Arc<AtomicBool>,
    address: String,
    gate: Arc<Mutex<()>>,
    netns: File,
    thread: Option<JoinHandle<()>>,
}

impl LoopbackRelay {
    /// Relays from this namespace to the server of this URL.
    ///
    /// # Errors
    /// Fails if there is no such namespace, or if its port is taken there.
    pub fn new(netns: &Path, url: &str) -> Result<Self> {
        let behind_scheme = url.split_once("//").map_or(url, |(_, rest)| rest);
        let (address, _) = behind_scheme.split_once('/').unwrap_or((behind_scheme, ""));
        let address = address.to_owned();
        let netns = File::open(netns).map_err(Error::file(netns))?;
        // A socket stays in the namespace in which it was made.
        let listener =
            within(&netns, || TcpListener::bind(&address)).map_err(Error::file(&address))?;
        let ends = Arc::new(AtomicBool::new(false));
        let gate = Arc::new(Mutex::new(()));
        let (seen, to, passed) = (ends.clone(), address.clone(), gate.clone());
        let thread = spawn(move || {
            for client in listener.incoming().flatten() {
                if seen.load(Ordering::Relaxed) {
                    return;
                }
                drop(passed.lock());
                // If the server is down, the client's connection closes as well.
                if let Ok(server) = TcpStream::connect(&to) {
                    let _ = join(&client, &server);
                }
            }
        });
        Ok(Self {
            ends,
            address,
            gate,
            netns,
            thread: Some(thread),
        })
    }

    /// New connections wait until the guard is dropped.
    pub fn hold(&self) -> MutexGuard<'_, ()> {
        self.gate.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for LoopbackRelay {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        let is_woken = within(&self.netns, || TcpStream::connect(&self.address)).is_ok();
        if let Some(thread) = self.thread.take().filter(|_| is_woken) {
            let _ = thread.join();
        }
    }
}

/// Copies in both directions, each until its end.
fn join(client: &TcpStream, server: &TcpStream) -> io::Result<()> {
    for (from, to) in [(client, server), (server, client)] {
        let (mut from, mut to) = (from.try_clone()?, to.try_clone()?);
        spawn(move || {
            let _ = io::copy(&mut from, &mut to);
            let _ = to.shutdown(Shutdown::Write);
        });
    }
    Ok(())
}
