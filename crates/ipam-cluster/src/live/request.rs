//! Sends one request, and retries it while the server is busy, fails or does not answer. It must
//! never know the purpose of a request.

use std::borrow::Cow;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant, SystemTime};

use http::{HeaderMap, Request, StatusCode, header};
use http_body_util::BodyExt;
use kube::Client;
use kube::client::Body;
use serde::Deserialize;

use super::connection::{SentRequest, client};
use super::{LiveCluster, sentences};
use crate::ClusterError;
use ipam_cilium::observed::{Encoding, ProtobufStatus};
use retry::{Backoff, retry_after};

/// Pauses between attempts of one request. A server may ask for up to 60 s: a proxy that asks for
/// a year must not end an apply.
const BACKOFF: Backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(10))
    .with_retry_after_cap(Duration::from_secs(60));

/// Timeout of one answer.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Largest answer. A page of 1,000 objects of the largest size that etcd takes, 1.5 MiB, is
/// smaller.
pub(super) const MOST_BYTES: usize = 1 << 31;

/// Bytes for which an answer has room from the start: about a page of Nodes in Protobuf. Memory
/// that is not written costs nothing, but an answer that outgrows its memory is copied.
pub(super) const ROOM: usize = 4 << 20;

/// Media type of the binary encoding.
pub(super) const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

const JSON: &str = "application/json";

/// Media types for a server or a proxy that may answer in JSON as well.
const PROTOBUF_OR_JSON: &str = "application/vnd.kubernetes.protobuf, application/json";

/// Media type of a list as a table. A server that makes none may answer with the list.
pub(super) const TABLE: &str = "application/json;as=Table;g=meta.k8s.io;v=v1, application/json";

/// The `Status` that the server sends with an error.
#[derive(Default, Deserialize)]
pub(super) struct Status {
    #[serde(default)]
    pub(super) message: String,
    #[serde(default)]
    details: StatusDetails,
}

#[derive(Default, Deserialize)]
struct StatusDetails {
    #[serde(default)]
    causes: Vec<StatusCause>,
}

#[derive(Deserialize)]
struct StatusCause {
    #[serde(default)]
    message: String,
}

impl From<ProtobufStatus<'_>> for Status {
    fn from(status: ProtobufStatus<'_>) -> Status {
        let ProtobufStatus {
            code: _,
            message,
            causes,
        } = status;
        let cause = |message: Cow<'_, str>| StatusCause {
            message: message.into_owned(),
        };
        Status {
            message: message.into_owned(),
            details: StatusDetails {
                causes: causes.into_iter().map(cause).collect(),
            },
        }
    }
}

pub(super) struct Answer {
    pub(super) status: StatusCode,
    retry_after: Option<Duration>,
    pub(super) encoding: Encoding,
    pub(super) body: Vec<u8>,
}

/// Encoding of an answer, by its headers.
pub(super) fn encoding_of(headers: &HeaderMap) -> Encoding {
    match headers.get(header::CONTENT_TYPE) {
        Some(value) if value.as_bytes().starts_with(PROTOBUF.as_bytes()) => Encoding::Protobuf,
        _ => Encoding::Json,
    }
}

impl Status {
    /// `None` if the body is no `Status`.
    pub(super) fn read(encoding: Encoding, body: &[u8]) -> Option<Status> {
        match encoding {
            Encoding::Json => serde_json::from_slice(body).ok(),
            Encoding::Protobuf => ProtobufStatus::read(body).map(Status::from),
        }
    }
}

/// The message of a refusal, or its status code if it has no message.
pub(super) fn message_or_code(message: String, status: StatusCode) -> String {
    match message.is_empty() {
        true => format!("HTTP status {status}"),
        false => message,
    }
}

impl Answer {
    fn error(&self) -> Status {
        Status::read(self.encoding, &self.body).unwrap_or_default()
    }

    pub(super) fn message(&self) -> String {
        message_or_code(self.error().message, self.status)
    }

    /// The server's message with the causes that the server gives.
    pub(super) fn message_and_causes(&self) -> String {
        let causes = self.error().details.causes.into_iter();
        let causes = causes.map(|cause| cause.message);
        let parts: Vec<String> = std::iter::once(self.message())
            .chain(causes.filter(|text| !text.is_empty()))
            .collect();
        parts.join(" ")
    }

    /// Whether the request named a later moment than the server knows.
    pub(super) fn is_ahead_of_the_server(&self) -> bool {
        self.status == StatusCode::GATEWAY_TIMEOUT
            && is_ahead_of_the_server(self.status.as_u16(), &self.message())
    }

    /// Whether the same request may succeed later. A request ahead of the server may not: the
    /// caller must begin with another moment.
    fn is_retryable(&self) -> bool {
        (self.status == StatusCode::TOO_MANY_REQUESTS || self.status.is_server_error())
            && !self.is_ahead_of_the_server()
    }
}

/// Whether an error says that a request named a later moment than the server knows (apiserver
/// `pkg/storage/errors.go` @ 1.36): the server went back in time, or lags behind another one.
pub(super) fn is_ahead_of_the_server(code: u16, message: &str) -> bool {
    code == StatusCode::GATEWAY_TIMEOUT.as_u16() && message.contains("Too large resource version")
}

fn get_request(uri: &str, accepted: &str) -> Result<Request<Body>, http::Error> {
    Request::get(uri)
        .header(header::ACCEPT, accepted)
        .body(Body::empty())
}

impl LiveCluster {
    /// Reads the credentials again: an expired token may have been replaced.
    pub(super) async fn reconnect(&self) -> Result<(), String> {
        let (client, _) = client(&self.connection).await?;
        *self.client.write().unwrap_or_else(PoisonError::into_inner) = client;
        Ok(())
    }

    pub(super) fn current_client(&self) -> Client {
        self.client
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    pub(super) async fn get(&self, uri: String) -> Result<Answer, ClusterError> {
        self.get_in(Encoding::Json, uri).await
    }

    /// Sends a GET that prefers this encoding. The answer names its encoding.
    pub(super) async fn get_in(
        &self,
        encoding: Encoding,
        uri: String,
    ) -> Result<Answer, ClusterError> {
        let accepted = match encoding {
            Encoding::Json => JSON,
            Encoding::Protobuf => PROTOBUF_OR_JSON,
        };
        self.get_accepting(accepted, uri).await
    }

    /// Sends a GET that accepts these media types.
    pub(super) async fn get_accepting(
        &self,
        accepted: &str,
        uri: String,
    ) -> Result<Answer, ClusterError> {
        self.send_patiently(|| get_request(&uri, accepted))
            .await
            .map_err(ClusterError::Unreachable)
    }

    /// Sends a request, and retries it until the patience ends. Every write is guarded: the server
    /// refuses the second attempt of a write whose answer was lost.
    pub(super) async fn send_patiently(
        &self,
        request: impl Fn() -> Result<Request<Body>, http::Error>,
    ) -> Result<Answer, String> {
        let began = self.clock.elapsed();
        let mut retry = BACKOFF.retry(self.clock.rng());
        let mut reconnected = false;
        loop {
            let outcome = self
                .send(request().map_err(|error| error.to_string())?)
                .await;
            let requested = match &outcome {
                Ok(answer) if answer.status == StatusCode::UNAUTHORIZED && !reconnected => {
                    reconnected = true;
                    match self.reconnect().await {
                        Ok(()) => continue,
                        Err(_) => return outcome,
                    }
                }
                Ok(answer) if !answer.is_retryable() => {
                    self.has_answered.store(true, Ordering::Relaxed);
                    return outcome;
                }
                Ok(answer) => answer.retry_after,
                // A server that never answered is more likely the wrong one than one that is down.
                Err(_) if !self.has_answered.load(Ordering::Relaxed) => return outcome,
                Err(_) => None,
            };
            let spent = self.clock.elapsed().saturating_sub(began);
            let left = self.connection.patience.saturating_sub(spent);
            let Some(pause) = retry.pause_within(left, requested) else {
                return outcome;
            };
            self.clock.sleep(pause).await;
        }
    }

    /// Asks for JSON once, whatever the server answers.
    pub(super) async fn get_once(&self, uri: &str) -> Result<Answer, String> {
        self.send_once(|| get_request(uri, JSON)).await
    }

    /// Sends a request once, whatever the server answers. Only a rejected token is read again.
    pub(super) async fn send_once(
        &self,
        request: impl Fn() -> Result<Request<Body>, http::Error>,
    ) -> Result<Answer, String> {
        let built = || request().map_err(|error| error.to_string());
        let answer = self.send(built()?).await?;
        if answer.status != StatusCode::UNAUTHORIZED {
            return Ok(answer);
        }
        self.reconnect().await?;
        self.send(built()?).await
    }

    async fn send(&self, request: Request<Body>) -> Result<Answer, String> {
        let (method, uri) = (request.method().clone(), request.uri().clone());
        let began = Instant::now();
        let answer = tokio::time::timeout(TIMEOUT, self.answer(request)).await;
        let answer = answer.unwrap_or_else(|_| {
            let cause = format!("no whole answer within {} s", TIMEOUT.as_secs());
            Err(sentences::no_answer(&self.server, &cause))
        });
        self.report(&SentRequest {
            method: method.as_str(),
            path: uri.path(),
            outcome: answer
                .as_ref()
                .map(|answer| answer.status.as_u16())
                .map_err(String::as_str),
            took: began.elapsed(),
        });
        answer
    }

    async fn answer(&self, request: Request<Body>) -> Result<Answer, String> {
        let response = self
            .current_client()
            .send(request)
            .await
            .map_err(|error| sentences::of_request(&self.server, &error))?;
        let status = response.status();
        let requested = response.headers().get(header::RETRY_AFTER);
        let retry_after =
            requested.and_then(|value| retry_after(value.as_bytes(), SystemTime::now()));
        Ok(Answer {
            status,
            retry_after,
            encoding: encoding_of(response.headers()),
            body: self.body(response.into_body()).await?,
        })
    }

    async fn body(&self, mut stream: Body) -> Result<Vec<u8>, String> {
        let mut body = Vec::with_capacity(self.room_for_answer);
        while let Some(frame) = stream.frame().await {
            let frame = frame.map_err(|error| sentences::of_request(&self.server, &error))?;
            let Ok(data) = frame.into_data() else {
                continue;
            };
            if body.len() + data.len() > self.largest_answer {
                let most = self.largest_answer >> 20;
                return Err(format!(
                    "the API server {} sends an answer of more than {most} MiB",
                    self.server
                ));
            }
            body.extend_from_slice(&data);
        }
        Ok(body)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Answer {
        /// An answer with this body.
        pub(in crate::live) fn of_json(status: u16, body: &str) -> Answer {
            Answer {
                status: StatusCode::from_u16(status).unwrap(),
                retry_after: Some(Duration::from_secs(1)),
                encoding: Encoding::Json,
                body: body.as_bytes().to_vec(),
            }
        }
    }

    fn answer(status: u16, message: &str) -> Answer {
        Answer::of_json(
            status,
            &format!(r#"{{"kind":"Status","message":"{message}"}}"#),
        )
    }

    #[test]
    fn a_request_ahead_of_the_server_is_not_retried() {
        let ahead = answer(
            504,
            "Timeout: Too large resource version: 1000, current: 12",
        );
        assert!(ahead.is_ahead_of_the_server() && !ahead.is_retryable());
        for (status, is_retryable) in [(504, true), (500, true), (503, true), (429, true)]
            .into_iter()
            .chain([(200, false), (404, false), (409, false), (410, false)])
        {
            let other = answer(status, "something else");
            assert_eq!(other.is_retryable(), is_retryable, "{status}");
            assert!(!other.is_ahead_of_the_server(), "{status}");
        }
    }
}
