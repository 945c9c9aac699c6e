//! A small HTTP server: `/livez`, `/healthz`, `/readyz` and `/metrics` for kubelet and Prometheus,
//! and map pages for requests with an accepted host name. It only reads: of a request it sees the
//! method, the path and the host. It must never know what it shows.

#![forbid(unsafe_code)]

mod metrics;

use std::collections::VecDeque;
use std::convert::Infallible;
use std::future::Future;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use http::header::{self, HeaderName, HeaderValue};
use http::uri::Authority;
use http::{Method, Request, Response, StatusCode, Version};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpListener;
use tokio::task::AbortHandle;

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
    /// The host, as the visitor calls it, without the port and brackets: an IP address, or a name
    /// that no public DNS has. `None` only with HTTP/1.0.
    pub host: Option<String>,
}

/// An HTTP answer: status, content type and body.
#[derive(Clone, Debug)]
pub struct Answer {
    status: StatusCode,
    /// Value of the header `Content-Type`.
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

    /// An answer with a line of plain text.
    pub fn line(text: &str) -> Answer {
        Answer::text(StatusCode::OK, text)
    }

    /// Status 404: there is no page at the path.
    pub fn not_found() -> Answer {
        Answer::text(StatusCode::NOT_FOUND, "not found")
    }

    /// Status 403: the visitor may not see the page, for this reason.
    pub fn forbidden(why: &str) -> Answer {
        Answer::text(StatusCode::FORBIDDEN, why)
    }

    /// Status 503: the page is not available at the moment, for this reason.
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

    /// Longest time that a connection may last.
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

    /// Answers requests for as long as the future is polled.
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
    let answer = match (host_of(&request), request.method()) {
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

/// Connections of one peer at the same time, as a share of all.
const SHARE_OF_PEER: usize = 4;

/// Whether a connection has sent a request.
#[derive(Clone, Debug, Default)]
pub(crate) struct Activity(Arc<AtomicBool>);

impl Activity {
    pub(crate) fn begin(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    fn is_idle(&self) -> bool {
        !self.0.load(Ordering::Relaxed)
    }
}

#[derive(Debug)]
struct Open {
    peer: IpAddr,
    activity: Activity,
    task: AbortHandle,
}

/// Open connections, the oldest first.
#[derive(Debug)]
pub(crate) struct Connections {
    limit: usize,
    open: VecDeque<Open>,
}

impl Connections {
    pub(crate) fn new(limit: usize) -> Connections {
        Connections {
            limit,
            open: VecDeque::new(),
        }
    }

    /// Closes a connection if a new one of this peer would exceed a limit.
    pub(crate) fn make_room(&mut self, peer: IpAddr) {
        self.open.retain(|one| !one.task.is_finished());
        let of_peer = self.open.iter().filter(|one| one.peer == peer).count();
        if of_peer >= (self.limit / SHARE_OF_PEER).max(1) {
            self.close_oldest(|one| one.peer == peer);
        } else if self.open.len() >= self.limit {
            self.close_oldest(|_| true);
        }
    }

    pub(crate) fn add(&mut self, peer: IpAddr, activity: Activity, task: AbortHandle) {
        self.open.push_back(Open {
            peer,
            activity,
            task,
        });
    }

    /// Closes the oldest idle connection that matches, or else the oldest connection that matches.
    fn close_oldest(&mut self, is_meant: impl Fn(&Open) -> bool) {
        let idle = |one: &Open| is_meant(one) && one.activity.is_idle();
        let place = self.open.iter().position(idle);
        let place = place.or_else(|| self.open.iter().position(&is_meant));
        if let Some(closed) = place.and_then(|place| self.open.remove(place)) {
            closed.task.abort();
        }
    }
}

/// `Content-Type` of OpenMetrics 1.0.
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// What a process reports. Must never have a secret: each client that reaches the port sees it.
pub trait Reports: Send + Sync + 'static {
    /// The answer to `/livez` and `/healthz`: kubelet restarts a process that fails.
    fn liveness(&self) -> Health;

    /// The answer to `/readyz`.
    fn readiness(&self) -> Health;

    /// The metrics in the format of OpenMetrics.
    fn metrics(&self) -> String;
}

/// The answer to a probe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Health {
    Healthy,
    /// Why the process is unhealthy.
    Unhealthy(String),
}

impl<R: Reports> Site for R {
    const PATIENCE: Duration = Duration::from_secs(10);

    async fn answer(&self, visit: Visit) -> Answer {
        match visit.path.as_str() {
            "/livez" | "/healthz" => probe(self.liveness()),
            "/readyz" => probe(self.readiness()),
            "/metrics" => Answer::of(OPEN_METRICS, self.metrics()),
            _ => Answer::not_found(),
        }
    }
}

fn probe(health: Health) -> Answer {
    match health {
        Health::Healthy => Answer::line("ok"),
        Health::Unhealthy(why) => Answer::unavailable(&why),
    }
}

/// Ends of names that no public DNS has: Services and Pods, private zones, this machine.
const PRIVATE: [&str; 4] = [".svc", ".local", ".internal", ".localhost"];

const UNKNOWN: &str = "unknown host: use the IP address, localhost, a name without a dot, or one that \
     ends with .svc, .local or .internal";

/// The host, as the visitor calls it, without the port and brackets. Only HTTP/1.0 allows none.
///
/// # Errors
/// The answer to a request without a valid host (400), or with a host that may be anybody's (421).
pub(crate) fn host_of<B>(request: &Request<B>) -> Result<Option<String>, Answer> {
    let mut headers = request.headers().get_all(header::HOST).iter();
    let authority: Option<Authority> = match (request.uri().authority(), headers.next()) {
        (Some(named), _) => Some(named.clone()),
        (None, None) if request.version() < Version::HTTP_11 => return Ok(None),
        (None, named) => named.and_then(|named| named.to_str().ok()?.parse().ok()),
    };
    let is_single = headers.next().is_none();
    let authority = authority.filter(|named| is_single && !named.as_str().contains('@'));
    let Some(authority) = authority else {
        let text = "the request needs one valid Host header";
        return Err(Answer::text(StatusCode::BAD_REQUEST, text));
    };
    let host = authority.host().trim_matches(['[', ']']);
    if is_private(host) {
        Ok(Some(host.to_owned()))
    } else {
        Err(Answer::text(StatusCode::MISDIRECTED_REQUEST, UNKNOWN))
    }
}

/// Whether no other site can have this name: an IP address, or a name that public DNS cannot have.
fn is_private(host: &str) -> bool {
    let address = host.split('%').next().unwrap_or_default();
    if address.parse::<IpAddr>().is_ok() {
        return true;
    }
    let name = host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase();
    !name.contains('.') || PRIVATE.iter().any(|end| name.ends_with(end))
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

#[cfg(test)]
mod host_tests {
    use super::*;

    fn status(hosts: &[&str]) -> Option<StatusCode> {
        let mut request = Request::get("/metrics");
        for host in hosts {
            request = request.header(header::HOST, *host);
        }
        let refused = host_of(&request.body(()).unwrap()).err();
        refused.map(|answer| answer.status)
    }

    #[test]
    fn names_of_a_cluster_and_addresses_are_answered() {
        for host in [
            "10.0.0.7:9464",
            "[fd00::7]:9464",
            "[::1]",
            "localhost:1",
            "LOCALHOST.",
            "node-1:9464",
            "cilium-ipam.kube-system.svc:9464",
            "a.b.svc.cluster.local.",
            "ip-10-0-0-1.ec2.internal",
        ] {
            assert_eq!(status(&[host]), None, "{host}");
        }
    }

    #[test]
    fn names_of_other_sites_are_refused() {
        for host in [
            "evil.example",
            "svc.evil.example:9464",
            "10.0.0.7.evil.example",
            "evil.example.",
            "notlocal.xlocal",
        ] {
            let refused = Some(StatusCode::MISDIRECTED_REQUEST);
            assert_eq!(status(&[host]), refused, "{host}");
        }
    }

    #[test]
    fn http_1_1_needs_one_host() {
        let bad: [&[&str]; 5] = [&[], &[""], &["a b"], &["10.0.0.7", "a"], &["a@localhost"]];
        for hosts in bad {
            assert_eq!(status(hosts), Some(StatusCode::BAD_REQUEST), "{hosts:?}");
        }
        let old = Request::get("/livez").version(Version::HTTP_10).body(());
        assert!(matches!(host_of(&old.unwrap()), Ok(None)));
        let whole = Request::get("http://evil.example/").header(header::HOST, "localhost");
        assert!(host_of(&whole.body(()).unwrap()).is_err());
    }
}
