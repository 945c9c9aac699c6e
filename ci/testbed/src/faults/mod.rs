//! A proxy on loopback that stands in front of one HTTP server and, on demand, does to its requests
//! what networks and busy servers do.
//!
//! It gives every request a connection of its own, and counts them all. The server must end a
//! connection after its answer, as those of OpenStack do here. It knows nothing of what the server
//! is.

mod http;
mod orders;

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use http::Incoming;
use orders::Book;

use crate::error::{Error, Result};

pub use orders::{Fault, Seen};

/// A proxy with faults. Dropping it closes everything.
#[derive(Debug)]
pub struct Faults {
    address: SocketAddr,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    upstream: String,
    ends: AtomicBool,
    book: Mutex<Book>,
    /// The connections of clients that get no answer.
    held: Mutex<Vec<TcpStream>>,
}

impl Faults {
    /// Stands in front of the server at `upstream`, such as `127.0.0.1:9696`, which need not be
    /// there yet.
    ///
    /// # Errors
    /// Fails if it cannot listen.
    pub fn start(upstream: &str) -> Result<Self> {
        let anywhere = "127.0.0.1:0";
        let listener = TcpListener::bind(anywhere).map_err(Error::file(anywhere))?;
        let address = listener.local_addr().map_err(Error::file(anywhere))?;
        let shared = Arc::new(Shared {
            upstream: upstream.to_owned(),
            ends: AtomicBool::new(false),
            book: Mutex::default(),
            held: Mutex::default(),
        });
        let serving = shared.clone();
        let thread = thread::spawn(move || accept(&listener, &serving));
        Ok(Self {
            address,
            shared,
            thread: Some(thread),
        })
    }

    /// Where clients find it.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Injects a fault into the next `count` requests with this method and path prefix; `*` is any
    /// method. Earlier orders come first.
    pub fn next(&self, count: usize, method: &str, path_prefix: &str, fault: Fault) {
        self.shared.book().order(count, method, path_prefix, fault);
    }

    /// How many faults have been asked for that no request has met yet.
    #[must_use]
    pub fn pending(&self) -> usize {
        self.shared.book().pending()
    }

    /// All requests since the start or the last [`Faults::clear`], in their order.
    #[must_use]
    pub fn requests(&self) -> Vec<Seen> {
        self.shared.book().requests()
    }

    /// How many requests there were of this method, or of any where it is `*`, whose path starts
    /// so.
    #[must_use]
    pub fn count(&self, method: &str, path_prefix: &str) -> usize {
        self.requests()
            .iter()
            .filter(|seen| seen.is(method, path_prefix))
            .count()
    }

    /// Forgets all requests and all faults that were asked for, and closes the connections that
    /// wait for an answer which never comes.
    pub fn clear(&self) {
        self.shared.book().clear();
        self.shared.release();
    }
}

impl Drop for Faults {
    fn drop(&mut self) {
        self.shared.ends.store(true, Ordering::Relaxed);
        let is_woken = TcpStream::connect(self.address).is_ok();
        if let Some(thread) = self.thread.take().filter(|_| is_woken) {
            let _ = thread.join();
        }
        self.shared.release();
    }
}

impl Shared {
    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn held(&self) -> MutexGuard<'_, Vec<TcpStream>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Says nothing until the client goes, or is let go.
    fn hold(&self, mut client: TcpStream) -> io::Result<()> {
        self.held().push(client.try_clone()?);
        while client.read(&mut [0; 64])? > 0 {}
        Ok(())
    }

    fn release(&self) {
        for client in self.held().drain(..) {
            let _ = client.shutdown(Shutdown::Both);
        }
    }

    /// One request, from its first byte to its fate.
    fn serve(&self, mut client: TcpStream) -> io::Result<()> {
        let Some(incoming) = Incoming::read(&mut client)? else {
            return Ok(());
        };
        let (number, fault) = self.book().enter(&incoming.method, &incoming.target);
        match fault {
            None => client.write_all(&self.forward(number, &incoming)?),
            Some(Fault::Answer { status, body }) => {
                client.write_all(http::answer(status, &body).as_bytes())
            }
            Some(Fault::Close) => Ok(()),
            Some(Fault::Silence) => self.hold(client),
            Some(Fault::Lose) => self.forward(number, &incoming).map(drop),
            Some(Fault::Withhold) => {
                self.forward(number, &incoming)?;
                self.hold(client)
            }
            Some(Fault::Drip(pause)) => drip(&mut client, &self.forward(number, &incoming)?, pause),
        }
    }

    /// The server's answer, whole.
    fn forward(&self, number: u64, incoming: &Incoming) -> io::Result<Vec<u8>> {
        let mut server = TcpStream::connect(&self.upstream)?;
        server.write_all(&incoming.bytes)?;
        let answer = http::read_answer(&mut server)?;
        self.book().answered(number, http::status(&answer));
        Ok(answer)
    }
}

fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    for client in listener.incoming().flatten() {
        if shared.ends.load(Ordering::Relaxed) {
            return;
        }
        let serving = shared.clone();
        // A server that is away, and a client that went, are seen by the other side: the connection
        // ends.
        thread::spawn(move || serving.serve(client));
    }
}

/// Byte by byte.
fn drip(client: &mut TcpStream, answer: &[u8], pause: Duration) -> io::Result<()> {
    for byte in answer {
        client.write_all(&[*byte])?;
        thread::sleep(pause);
    }
    Ok(())
}

#[cfg(test)]
mod tests;
