//! A TCP relay from a network namespace to a server on the host's loopback. It listens at the
//! server's own address, so a client inside the namespace needs no other URL.

use std::fs::File;
use std::io;
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::{JoinHandle, spawn};

use crate::neutron::support::within;

/// A running relay. Dropping it closes it.
pub struct LoopbackRelay {
    ends: Arc<AtomicBool>,
    address: String,
    gate: Arc<Mutex<()>>,
    netns: File,
    thread: Option<JoinHandle<()>>,
}

impl LoopbackRelay {
    /// Relays from this namespace to the server of this URL.
    pub fn new(netns: &Path, url: &str) -> LoopbackRelay {
        let address = url
            .split("//")
            .nth(1)
            .unwrap()
            .split('/')
            .next()
            .unwrap()
            .to_owned();
        let netns = File::open(netns).unwrap();
        // A socket stays in the namespace in which it was made.
        let listener = within(&netns, || TcpListener::bind(&address)).unwrap();
        let ends = Arc::new(AtomicBool::new(false));
        let gate = Arc::new(Mutex::new(()));
        let (seen, to, passed) = (ends.clone(), address.clone(), gate.clone());
        let thread = spawn(move || {
            for client in listener.incoming().flatten() {
                if seen.load(Ordering::Relaxed) {
                    return;
                }
                drop(passed.lock().unwrap());
                // If the server is down, the client's connection closes as well.
                if let Ok(server) = TcpStream::connect(&to) {
                    join(client, server);
                }
            }
        });
        LoopbackRelay {
            ends,
            address,
            gate,
            netns,
            thread: Some(thread),
        }
    }

    /// New connections wait until the guard is dropped.
    pub fn hold(&self) -> MutexGuard<'_, ()> {
        self.gate.lock().unwrap()
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
fn join(client: TcpStream, server: TcpStream) {
    for (mut from, mut to) in [
        (client.try_clone().unwrap(), server.try_clone().unwrap()),
        (server, client),
    ] {
        spawn(move || {
            let _ = io::copy(&mut from, &mut to);
            let _ = to.shutdown(Shutdown::Write);
        });
    }
}
