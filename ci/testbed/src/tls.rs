//! A front with TLS for a server that speaks plain HTTP, with a certificate of an authority of its
//! own.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};

use crate::certificates::Certificates;
use crate::error::{Error, Result};

/// Longest body of a request, in bytes.
const LONGEST: usize = 1 << 20;

/// The front. Dropping it closes it.
#[derive(Debug)]
pub struct TlsFront {
    address: SocketAddr,
    authority: String,
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl TlsFront {
    /// Stands in front of the server of this URL. The server must end a connection after its
    /// answer.
    ///
    /// # Errors
    /// Fails if it cannot listen.
    pub fn start(url: &str) -> Result<Self> {
        let Certificates {
            authority,
            server,
            server_key,
            ..
        } = Certificates::new()?;
        let config = Arc::new(config(&server, &server_key)?);
        let anywhere = "127.0.0.1:0";
        let listener = TcpListener::bind(anywhere).map_err(Error::file(anywhere))?;
        let address = listener.local_addr().map_err(Error::file(anywhere))?;
        let upstream = url
            .split("//")
            .last()
            .unwrap_or_default()
            .split('/')
            .next()
            .unwrap_or_default()
            .to_owned();
        let ends = Arc::new(AtomicBool::new(false));
        let seen = ends.clone();
        let thread = thread::spawn(move || {
            for client in listener.incoming().flatten() {
                if seen.load(Ordering::Relaxed) {
                    return;
                }
                let (config, upstream) = (config.clone(), upstream.clone());
                // Who does not trust it goes away.
                thread::spawn(move || serve(config, client, &upstream).ok());
            }
        });
        Ok(Self {
            address,
            authority,
            ends,
            thread: Some(thread),
        })
    }

    /// Where clients find it, without a path.
    #[must_use]
    pub fn url(&self) -> String {
        format!("https://{}", self.address)
    }

    /// The certificate of its authority, as PEM.
    #[must_use]
    pub fn authority(&self) -> &str {
        &self.authority
    }
}

impl Drop for TlsFront {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        let is_woken = TcpStream::connect(self.address).is_ok();
        if let Some(thread) = self.thread.take().filter(|_| is_woken) {
            let _ = thread.join();
        }
    }
}

fn config(certificate: &str, key: &str) -> Result<ServerConfig> {
    let wrong = |why: &dyn std::fmt::Display| {
        Error::unreadable("the certificate of a TLS front", why.to_string())
    };
    let chain =
        vec![CertificateDer::from_pem_slice(certificate.as_bytes()).map_err(|why| wrong(&why))?];
    let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).map_err(|why| wrong(&why))?;
    let config =
        ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|why| wrong(&why))?;
    config
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .map_err(|why| wrong(&why))
}

/// One request and its answer.
fn serve(config: Arc<ServerConfig>, client: TcpStream, upstream: &str) -> io::Result<()> {
    let session = ServerConnection::new(config).map_err(io::Error::other)?;
    let mut client = BufReader::new(StreamOwned::new(session, client));
    let (mut head, mut length) = (String::new(), 0);
    loop {
        let start = head.len();
        if client.read_line(&mut head)? == 0 {
            return Ok(());
        }
        let line = head[start..].trim().to_ascii_lowercase();
        if let Some(value) = line.strip_prefix("content-length:") {
            length = value.trim().parse().map_err(io::Error::other)?;
        }
        if line.is_empty() {
            break;
        }
    }
    let mut body = vec![0; LONGEST.min(length)];
    client.read_exact(&mut body)?;
    let mut server = TcpStream::connect(upstream)?;
    server.write_all(head.as_bytes())?;
    server.write_all(&body)?;
    let client = client.get_mut();
    io::copy(&mut server, client)?;
    client.conn.send_close_notify();
    client.flush()
}
