//! A small HTTP server for kubelet and Prometheus: `/livez`, `/readyz`, `/metrics`.
//!
//! It reads only the method and path of a request, and must never show a secret.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http::{Method, Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

use super::{Readiness, Telemetry};

/// Connections at the same time.
const CONNECTIONS: usize = 512;

/// Limit for reading the headers of a request.
const HEADER_TIMEOUT: Duration = Duration::from_secs(2);

/// Limit for a whole connection.
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(10);

/// Pause after a failed accept, such as without free file descriptors.
const PAUSE: Duration = Duration::from_millis(100);

/// `Content-Type` of OpenMetrics 1.0.
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The listening server.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
}

impl Server {
    /// Starts to listen.
    ///
    /// # Errors
    /// Fails if the address is in use, or is not one of this machine.
    pub async fn bind(address: SocketAddr) -> std::io::Result<Server> {
        Ok(Server {
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
    pub async fn serve(&self, telemetry: &Arc<Telemetry>) -> Infallible {
        let permits = Arc::new(Semaphore::new(CONNECTIONS));
        loop {
            let Ok(permit) = permits.clone().acquire_owned().await else {
                return std::future::pending().await;
            };
            let Ok((stream, _)) = self.listener.accept().await else {
                tokio::time::sleep(PAUSE).await;
                continue;
            };
            let telemetry = telemetry.clone();
            tokio::spawn(async move {
                let answer = service_fn(|request| {
                    let answer = answer(&request, &telemetry);
                    async { Ok::<_, Infallible>(answer) }
                });
                let mut builder = http1::Builder::new();
                let connection = builder
                    .timer(TokioTimer::new())
                    .header_read_timeout(HEADER_TIMEOUT)
                    .keep_alive(false);
                let _ = tokio::time::timeout(
                    CONNECTION_TIMEOUT,
                    connection.serve_connection(TokioIo::new(stream), answer),
                )
                .await;
                drop(permit);
            });
        }
    }
}

fn answer(request: &Request<Incoming>, telemetry: &Telemetry) -> Response<Full<Bytes>> {
    let (status, kind, body) = match (request.method(), request.uri().path()) {
        (&Method::GET | &Method::HEAD, "/livez") => {
            (StatusCode::OK, "text/plain", "ok\n".to_owned())
        }
        (&Method::GET | &Method::HEAD, "/readyz") => match telemetry.readiness() {
            Readiness::Ready => (StatusCode::OK, "text/plain", "ok\n".to_owned()),
            Readiness::Unready(why) => (StatusCode::SERVICE_UNAVAILABLE, "text/plain", why + "\n"),
        },
        (&Method::GET | &Method::HEAD, "/metrics") => {
            (StatusCode::OK, OPEN_METRICS, telemetry.text())
        }
        (&Method::GET | &Method::HEAD, _) => (
            StatusCode::NOT_FOUND,
            "text/plain",
            "not found\n".to_owned(),
        ),
        _ => (
            StatusCode::METHOD_NOT_ALLOWED,
            "text/plain",
            "only GET is allowed\n".to_owned(),
        ),
    };
    let mut response = Response::new(Full::new(Bytes::from(body)));
    *response.status_mut() = status;
    response
        .headers_mut()
        .insert(header::CONTENT_TYPE, header::HeaderValue::from_static(kind));
    response
}
