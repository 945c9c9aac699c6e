//! A way from a network namespace to a server on the machine's loopback, at the same address:
//! whoever is configured for the one finds it in the other.

use std::fs::File;
use std::io;
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::{JoinHandle, scope, spawn};

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// The way. Dropping it closes it.
pub struct Way {
    ends: Arc<AtomicBool>,
    address: String,
    gate: Arc<Mutex<()>>,
    netns: File,
    thread: Option<JoinHandle<()>>,
}

impl Way {
    /// From this namespace to the server of this URL.
    pub fn new(netns: &Path, url: &str) -> Way {
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
                // A server that is away is what the client sees, too.
                if let Ok(server) = TcpStream::connect(&to) {
                    join(client, server);
                }
            }
        });
        Way {
            ends,
            address,
            gate,
            netns,
            thread: Some(thread),
        }
    }

    /// As long as this is kept, whoever comes waits.
    pub fn hold(&self) -> MutexGuard<'_, ()> {
        self.gate.lock().unwrap()
    }
}

impl Drop for Way {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        let is_woken = within(&self.netns, || TcpStream::connect(&self.address)).is_ok();
        if let Some(thread) = self.thread.take().filter(|_| is_woken) {
            let _ = thread.join();
        }
    }
}

/// Does something in a thread that is in the namespace.
fn within<T: Send>(netns: &File, work: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
    scope(|scope| {
        let inside = scope.spawn(|| {
            move_into_link_name_space(netns.as_fd(), Some(LinkNameSpaceType::Network))?;
            work()
        });
        inside.join().unwrap()
    })
}

/// Copies both ways, each until its end.
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
