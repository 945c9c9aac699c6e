//! A small HTTP server, for health, metrics and the map. It only reads: of a request it sees the
//! method, the path and the host. It must never know what it shows.
#![forbid(unsafe_code)]

mod connections;
mod health;
mod host;

use std::convert::Infallible;
use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http::header::{HeaderName, HeaderValue};
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpListener;

use connections::{Activity, Connections};

pub use health::{Health, Reports};
pub use hyper::body::Bytes;

/// Limit for reading the headers of a request.
const HEADER_TIMEOUT: Duration = Duration::from_secs(2);

/// Pause after a failed accept, such as without free file descriptors.
const PAUSE: Duration = Duration::from_millis(100);

/// No copy is kept, and no page of another site may show or read an answer.
const CLOSED: [(HeaderName, &str); 4] = [
    (header::CACHE_CONTROL, "no-store"),
    (header::CONTENT_SECURITY_POLICY, "frame-ancestors 'none'"),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (
        HeaderName::from_static("cross-origin-resource-policy"),
        "same-origin",
    ),
];

/// What a visitor asks for.
#[derive(Clone, Debug)]
pub struct Visit {
    /// The path of the address, such as `/metrics`.
    pub path: String,
    /// The host, as the visitor calls it, without the port and brackets: an IP address, or a name that
    /// no public DNS has. `None` only with HTTP/1.0.
    pub host: Option<String>,
}

/// An answer.
#[derive(Clone, Debug)]
pub struct Answer {
    status: StatusCode,
    /// Its `Content-Type`.
    kind: &'static str,
    body: Bytes,
}

impl Answer {
    /// A body of this `Content-Type`.
    pub fn of(kind: &'static str, body: impl Into<Bytes>) -> Answer {
        Answer {
            status: StatusCode::OK,
            kind,
            body: body.into(),
        }
    }

    /// A line of text.
    pub fn line(text: &str) -> Answer {
        Answer::text(StatusCode::OK, text)
    }

    /// There is nothing at this path.
    pub fn not_found() -> Answer {
        Answer::text(StatusCode::NOT_FOUND, "not found")
    }

    /// The visitor may not see it; with the reason.
    pub fn forbidden(why: &str) -> Answer {
        Answer::text(StatusCode::FORBIDDEN, why)
    }

    /// Not now; with the reason.
    pub fn unavailable(why: &str) -> Answer {
        Answer::text(StatusCode::SERVICE_UNAVAILABLE, why)
    }

    fn text(status: StatusCode, text: &str) -> Answer {
        Answer {
            status,
            kind: "text/plain; charset=utf-8",
            body: Bytes::from(format!("{text}\n")),
        }
    }
}

/// What a server shows.
pub trait Site: Send + Sync + 'static {
    /// Connections at the same time, a quarter of them of one peer. One more closes the oldest idle
    /// one.
    const CONNECTIONS: usize = 512;

    /// Limit for a whole connection.
    const PATIENCE: Duration;

    /// Answers a `GET` or `HEAD`.
    fn answer(&self, visit: Visit) -> impl Future<Output = Answer> + Send;
}

/// The listening server.
#[derive(Debug)]
pub struct HttpServer {
    listener: TcpListener,
}

impl HttpServer {
    /// Starts to listen.
    ///
    /// # Errors
    /// Fails if the address is in use, or is not one of this machine.
    pub async fn bind(address: SocketAddr) -> std::io::Result<HttpServer> {
        Ok(HttpServer {
            listener: TcpListener::bind(address).await?,
        })
    }

    /// The address, with the port that the system chose for port 0.
    ///
    /// # Errors
    /// Fails if the system does not return it.
    pub fn address(&self) -> std::io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Answers requests while it is polled.
    pub async fn serve<S: Site>(&self, site: &Arc<S>) -> Infallible {
        let mut connections = Connections::new(S::CONNECTIONS);
        loop {
            let Ok((stream, peer)) = self.listener.accept().await else {
                tokio::time::sleep(PAUSE).await;
                continue;
            };
            connections.make_room(peer.ip());
            let site = site.clone();
            let activity = Activity::default();
            let begun = activity.clone();
            let task = tokio::spawn(async move {
                let answer = service_fn(|request| {
                    begun.begin();
                    let answer = answer(request, &*site);
                    async { Ok::<_, Infallible>(answer.await) }
                });
                let mut builder = http1::Builder::new();
                let connection = builder
                    .timer(TokioTimer::new())
                    .header_read_timeout(HEADER_TIMEOUT)
                    .keep_alive(false);
                let _ = tokio::time::timeout(
                    S::PATIENCE,
                    connection.serve_connection(TokioIo::new(stream), answer),
                )
                .await;
            });
            connections.add(peer.ip(), activity, task.abort_handle());
        }
    }
}

async fn answer<S: Site>(request: Request<Incoming>, site: &S) -> Response<Full<Bytes>> {
    let answer = match (host::host_of(&request), request.method()) {
        (Err(refusal), _) => refusal,
        (Ok(host), &Method::GET | &Method::HEAD) => {
            let path = request.uri().path().to_owned();
            site.answer(Visit { path, host }).await
        }
        _ => Answer::text(StatusCode::METHOD_NOT_ALLOWED, "only GET is allowed"),
    };
    let Answer { status, kind, body } = answer;
    let mut response = Response::new(Full::new(body));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    for (name, value) in CLOSED {
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpStream;
    use std::time::Instant;

    use super::*;

    struct Line;

    impl Site for Line {
        const CONNECTIONS: usize = 16;
        const PATIENCE: Duration = Duration::from_secs(60);

        async fn answer(&self, _: Visit) -> Answer {
            Answer::line("ok")
        }
    }

    /// Each idle connection would hold its place until the header timeout.
    #[test]
    fn idle_connections_delay_no_probe_and_hosts_are_checked() {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let listen = "127.0.0.1:0".parse().unwrap();
        let server = runtime.block_on(HttpServer::bind(listen)).unwrap();
        let address = server.address().unwrap();
        runtime.spawn(async move { server.serve(&Arc::new(Line)).await });
        let idle: Vec<TcpStream> = (0..64)
            .map(|_| TcpStream::connect(address).unwrap())
            .collect();
        let asked = Instant::now();
        let status = |request: &str| {
            let mut probe = TcpStream::connect(address).unwrap();
            probe.write_all(request.as_bytes()).unwrap();
            let mut text = String::new();
            probe.read_to_string(&mut text).unwrap();
            text.split(' ').nth(1).unwrap().to_owned()
        };
        assert_eq!(
            status("GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n"),
            "200"
        );
        assert!(asked.elapsed() < HEADER_TIMEOUT, "{:?}", asked.elapsed());
        drop(idle);
        assert_eq!(
            status("GET /livez HTTP/1.1\r\nHost: a.example\r\n\r\n"),
            "421"
        );
        assert_eq!(status("GET /livez HTTP/1.1\r\n\r\n"), "400");
    }
}
