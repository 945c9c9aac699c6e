//! A small synchronous client of one HTTP server, mostly the API server: JSON in, JSON out.

use std::io::{BufRead, BufReader};
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use ureq::config::ConfigBuilder;
use ureq::http::{Method, Request};
use ureq::tls::{Certificate, RootCerts, TlsConfig};
use ureq::typestate::AgentScope;
use ureq::{Agent, Body, http};

use crate::error::{Error, Result};
use crate::wait::PATIENCE;

const IDLE_CONNECTIONS: usize = 64;
const FIELD_MANAGER: &str = "testbed";
const WHOLE: &str = "application/json";
const METADATA_ONLY: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
/// Less than the client waits for the whole of an answer.
const WATCH_SECONDS: u32 = 240;
const MERGE_PATCH: &str = "application/merge-patch+json";

/// A client with one user's token. Clones share their connections.
#[derive(Debug, Clone)]
pub struct Client {
    agent: Agent,
    base: String,
    token: String,
}

impl Client {
    pub(crate) fn new(base: &str, authority: &str, token: &str) -> Result<Self> {
        let authority = Certificate::from_pem(authority.as_bytes())
            .map_err(|why| Error::unreadable("the certificate authority", why))?;
        let tls = TlsConfig::builder()
            .root_certs(RootCerts::from([authority]))
            .unversioned_rustls_crypto_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .build();
        Ok(Self::of_agent(
            base,
            token,
            Agent::config_builder().tls_config(tls),
        ))
    }

    /// A client of a server without TLS.
    pub(crate) fn plain(base: &str, token: &str) -> Self {
        Self::of_agent(base, token, Agent::config_builder())
    }

    fn of_agent(base: &str, token: &str, config: ConfigBuilder<AgentScope>) -> Self {
        let agent = config
            // A proxy of the environment is for other hosts.
            .proxy(None)
            .http_status_as_error(false)
            .timeout_global(Some(PATIENCE))
            .max_idle_connections(IDLE_CONNECTIONS)
            .max_idle_connections_per_host(IDLE_CONNECTIONS)
            .build()
            .new_agent();
        Self {
            agent,
            base: base.to_owned(),
            token: token.to_owned(),
        }
    }

    /// The client of a kubeconfig file of this crate.
    ///
    /// # Errors
    /// A file that is not one.
    pub fn of_kubeconfig(path: &Path) -> Result<Self> {
        let file = path.display().to_string();
        let text = std::fs::read_to_string(path).map_err(|why| Error::unreadable(&file, why))?;
        let config: Value =
            serde_json::from_str(&text).map_err(|why| Error::unreadable(&file, why))?;
        let field = |pointer: &str| {
            config
                .pointer(pointer)
                .and_then(Value::as_str)
                .unwrap_or_default()
        };
        let authority = STANDARD
            .decode(field("/clusters/0/cluster/certificate-authority-data"))
            .map_err(|why| Error::unreadable(&file, why))?;
        let authority = String::from_utf8_lossy(&authority);
        Self::new(
            field("/clusters/0/cluster/server"),
            &authority,
            field("/users/0/user/token"),
        )
    }

    /// Reads one object, or a list as it is.
    ///
    /// # Errors
    /// Fails if the server says no.
    pub fn get(&self, path: &str) -> Result<Value> {
        self.send(Method::GET, path, None)
    }

    /// The bytes that a GET gives, unread: the least that any client has to do.
    ///
    /// # Errors
    /// Fails if the server says no.
    pub fn get_bytes(&self, path: &str) -> Result<Vec<u8>> {
        self.answer(&Method::GET, path, WHOLE, None)
    }

    /// An answer as the server sends it, in this media type.
    ///
    /// # Errors
    /// Fails if the server says no.
    pub fn get_as(&self, path: &str, media_type: &str) -> Result<Vec<u8>> {
        self.answer(&Method::GET, path, media_type, None)
    }

    /// The items of a list.
    ///
    /// # Errors
    /// Fails if the server says no.
    pub fn list(&self, path: &str) -> Result<Vec<Value>> {
        match self.get(path)? {
            Value::Object(mut list) => match list.remove("items") {
                Some(Value::Array(items)) => Ok(items),
                _ => Err(Error::unreadable(path, "not a list")),
            },
            _ => Err(Error::unreadable(path, "not a list")),
        }
    }

    /// Creates one object under the path of its collection.
    ///
    /// # Errors
    /// Fails if the server says no.
    pub fn create(&self, path: &str, object: &Value) -> Result<Value> {
        self.send(Method::POST, path, Some(("application/json", object)))
    }

    /// As [`Client::create`], but also what a server that says no gives as its reason: the HTTP
    /// status, and the Status object.
    ///
    /// # Errors
    /// Fails if the server does not answer with JSON.
    pub fn try_create(&self, path: &str, object: &Value) -> Result<(u16, Value)> {
        let failed = |source| Error::Request {
            method: Method::POST.to_string(),
            path: path.to_owned(),
            source: Box::new(source),
        };
        let body = Some(("application/json", object));
        let answer = self.exchange(&Method::POST, path, WHOLE, body);
        let answer = answer.map_err(failed)?;
        let status = answer.status().as_u16();
        let text = read(answer).map_err(failed)?;
        let object = serde_json::from_slice(&text).map_err(|why| Error::unreadable(path, why))?;
        Ok((status, object))
    }

    /// Replaces one object.
    ///
    /// # Errors
    /// Fails if the server says no.
    pub fn put(&self, path: &str, object: &Value) -> Result<Value> {
        self.send(Method::PUT, path, Some(("application/json", object)))
    }

    /// Merges `change` into one object (RFC 7396).
    ///
    /// # Errors
    /// Fails if the server says no.
    pub fn patch(&self, path: &str, change: &Value) -> Result<Value> {
        self.send(Method::PATCH, path, Some((MERGE_PATCH, change)))
    }

    /// Merges `change` into one object as Kubernetes merges lists: by the key of their items.
    ///
    /// # Errors
    /// Fails if the server says no.
    pub fn patch_strategic(&self, path: &str, change: &Value) -> Result<Value> {
        let kind = "application/strategic-merge-patch+json";
        self.send(Method::PATCH, path, Some((kind, change)))
    }

    /// As [`Client::patch`], but only the metadata comes back, unread: the least that any client
    /// has to do.
    ///
    /// # Errors
    /// Fails if the server says no.
    pub fn patch_bytes(&self, path: &str, change: &Value) -> Result<Vec<u8>> {
        self.answer(
            &Method::PATCH,
            path,
            METADATA_ONLY,
            Some((MERGE_PATCH, change)),
        )
    }

    /// Creates or changes one object so that it has these fields (server-side apply).
    ///
    /// # Errors
    /// Fails if the server says no.
    pub fn apply(&self, path: &str, object: &Value) -> Result<Value> {
        let path = format!("{path}?fieldManager={FIELD_MANAGER}&force=true");
        let apply = "application/apply-patch+yaml";
        self.send(Method::PATCH, &path, Some((apply, object)))
    }

    /// Follows a collection from a resourceVersion on: gives each event as the server writes it,
    /// until the server ends the watch or `seen` has enough.
    ///
    /// # Errors
    /// Fails if the server says no, or an event cannot be read.
    pub fn watch(
        &self,
        path: &str,
        from: &str,
        mut seen: impl FnMut(Value) -> ControlFlow<()>,
    ) -> Result<()> {
        let path = format!("{path}?watch=1&resourceVersion={from}&timeoutSeconds={WATCH_SECONDS}");
        let failed = |source| Error::Request {
            method: "GET".to_owned(),
            path: path.clone(),
            source: Box::new(source),
        };
        let answer = self.exchange(&Method::GET, &path, WHOLE, None);
        let answer = answer.map_err(failed)?;
        if !answer.status().is_success() {
            let status = answer.status().as_u16();
            let message = message(&read(answer).map_err(failed)?);
            return Err(Error::Status {
                method: "GET".to_owned(),
                path,
                status,
                message,
            });
        }
        let mut body = answer.into_body();
        let lines = BufReader::new(body.with_config().limit(u64::MAX).reader()).lines();
        for line in lines {
            let line = line.map_err(|why| Error::unreadable(&path, why))?;
            let event = serde_json::from_str(&line).map_err(|why| Error::unreadable(&path, why))?;
            if seen(event).is_break() {
                break;
            }
        }
        Ok(())
    }

    /// Deletes one object, or a whole collection.
    ///
    /// # Errors
    /// Fails if the server says no.
    pub fn delete(&self, path: &str) -> Result<Value> {
        self.send(Method::DELETE, path, None)
    }

    /// Deletes one object of a server that answers with nothing.
    ///
    /// # Errors
    /// Fails if the server says no.
    pub fn delete_silently(&self, path: &str) -> Result<()> {
        self.answer(&Method::DELETE, path, WHOLE, None).map(drop)
    }

    /// Creates many objects under the path of their collection, over some connections at
    /// once, and stops at the first failure.
    ///
    /// # Errors
    /// The first failure.
    pub fn create_many(&self, path: &str, objects: &[Value], connections: usize) -> Result<()> {
        let next = AtomicUsize::new(0);
        let failure = Mutex::new(None);
        let worker = || {
            while let Some(object) = objects.get(next.fetch_add(1, Ordering::Relaxed)) {
                if let Err(error) = self.create(path, object) {
                    next.store(objects.len(), Ordering::Relaxed);
                    if let Ok(mut first) = failure.lock() {
                        first.get_or_insert(error);
                    }
                }
            }
        };
        thread::scope(|scope| {
            for _ in 0..connections.max(1) {
                scope.spawn(worker);
            }
        });
        match failure.into_inner() {
            Ok(Some(error)) => Err(error),
            _ => Ok(()),
        }
    }

    /// Whether a GET of `path` succeeds: for health checks of a server that may not listen yet.
    pub(crate) fn is_ok(&self, path: &str) -> bool {
        self.exchange(&Method::GET, path, WHOLE, None)
            .is_ok_and(|answer| answer.status().is_success())
    }

    fn send(&self, method: Method, path: &str, body: Option<(&str, &Value)>) -> Result<Value> {
        let text = self.answer(&method, path, WHOLE, body)?;
        serde_json::from_slice(&text).map_err(|why| Error::unreadable(path, why))
    }

    fn answer(
        &self,
        method: &Method,
        path: &str,
        accept: &str,
        body: Option<(&str, &Value)>,
    ) -> Result<Vec<u8>> {
        let failed = |source| Error::Request {
            method: method.to_string(),
            path: path.to_owned(),
            source: Box::new(source),
        };
        let answer = self.exchange(method, path, accept, body).map_err(failed)?;
        let status = answer.status();
        let text = read(answer).map_err(failed)?;
        if status.is_success() {
            return Ok(text);
        }
        Err(Error::Status {
            method: method.to_string(),
            path: path.to_owned(),
            status: status.as_u16(),
            message: message(&text),
        })
    }

    fn exchange(
        &self,
        method: &Method,
        path: &str,
        accept: &str,
        body: Option<(&str, &Value)>,
    ) -> std::result::Result<http::Response<Body>, ureq::Error> {
        let request = Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.base))
            .header("Authorization", format!("Bearer {}", self.token))
            .header("Accept", accept);
        match body {
            None => self.agent.run(request.body(())?),
            Some((kind, value)) => {
                let request = request.header("Content-Type", kind);
                self.agent.run(request.body(value.to_string())?)
            }
        }
    }
}

fn read(answer: http::Response<Body>) -> std::result::Result<Vec<u8>, ureq::Error> {
    let mut body = answer.into_body();
    body.with_config().limit(u64::MAX).read_to_vec()
}

/// What a Status object says, or the text itself.
fn message(text: &[u8]) -> String {
    let status: Option<Value> = serde_json::from_slice(text).ok();
    match status
        .as_ref()
        .and_then(|status| status["message"].as_str())
    {
        Some(message) => message.to_owned(),
        None => String::from_utf8_lossy(text).into_owned(),
    }
}
