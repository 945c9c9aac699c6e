//! One question to Neutron, with a token, within the time that there is.

use std::cell::{Cell, RefCell};
use std::fmt::Display;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use serde::de::DeserializeOwned;
use serde_json::Value;
use ureq::Agent;
use ureq::tls::{Certificate, PemItem, RootCerts, TlsConfig, parse_pem};

use crate::http::BACKOFF;
use crate::http::keystone::{Session, login};
use crate::http::objects::object;
use crate::http::rest::{fault, nonsense, read};
use crate::http::secrets::Secrets;
use crate::login::{Keeping, Logins};
use crate::{Cloud, NeutronError, Trust, Weakness};
use retry::{Retry, retry_after};

/// How long one answer is awaited.
const LONGEST_WAIT: Duration = Duration::from_secs(10);

/// Neutron, for one run, until a moment.
pub struct HttpNeutron {
    agent: Agent,
    tls: TlsConfig,
    cloud: Cloud,
    logins: Logins,
    until: Instant,
    session: RefCell<Option<Session>>,
    secrets: RefCell<Secrets>,
    retry: RefCell<Retry>,
    /// The pause that the last answer asked for.
    asked: Cell<Option<Duration>>,
}

/// What is asked.
pub(super) enum Question<'q> {
    Get(&'q [(&'q str, String)]),
    Post(Value),
    /// If its revision is still this one.
    Put(Value, u64),
    Delete,
}

impl Question<'_> {
    fn method(&self) -> &'static str {
        match self {
            Question::Get(_) => "GET",
            Question::Post(_) => "POST",
            Question::Put(..) => "PUT",
            Question::Delete => "DELETE",
        }
    }
}

impl HttpNeutron {
    /// Everything must be done by `until`.
    ///
    /// # Errors
    /// Certificates that cannot be read.
    pub fn new(
        cloud: Cloud,
        keeping: Keeping,
        until: Instant,
    ) -> Result<HttpNeutron, NeutronError> {
        let logins = Logins::new(keeping);
        let tls = tls(&cloud)?;
        let agent = agent(&tls, LONGEST_WAIT);
        let secrets = RefCell::new(Secrets::of(&cloud.access));
        Ok(HttpNeutron {
            agent,
            tls,
            cloud,
            logins,
            until,
            session: RefCell::default(),
            secrets,
            retry: RefCell::new(BACKOFF.retry(fastrand::Rng::new())),
            asked: Cell::default(),
        })
    }

    /// The same, until another moment.
    #[must_use]
    pub fn until(&self, until: Instant) -> HttpNeutron {
        HttpNeutron {
            agent: self.agent.clone(),
            tls: self.tls.clone(),
            cloud: self.cloud.clone(),
            logins: self.logins.clone(),
            until,
            session: self.session.clone(),
            secrets: self.secrets.clone(),
            retry: RefCell::new(BACKOFF.retry(fastrand::Rng::new())),
            asked: Cell::default(),
        }
    }

    /// The time that there is, if there is any.
    pub(super) fn left(&self) -> Option<Duration> {
        self.until
            .checked_duration_since(Instant::now())
            .filter(|left| !left.is_zero())
    }

    /// The pause before the next try of something, if there is time for one.
    pub(super) fn pause(&self, tries: u32) -> Option<Duration> {
        let mut retry = self.retry.borrow_mut();
        if tries <= 1 {
            retry.reset();
        }
        let left = self.left()?;
        // Who waits until the end has no time for the try itself.
        retry
            .pause_within(left, self.asked.take())
            .filter(|pause| *pause < left)
    }

    /// Where a fact of this cloud is kept between runs.
    pub(super) fn kept(&self, name: &str) -> Option<PathBuf> {
        self.logins.kept(&self.cloud, name)
    }

    /// Makes sure that there is a session, by what is kept if possible.
    ///
    /// # Errors
    /// Keystone's no.
    pub fn log_in(&self) -> Result<(), NeutronError> {
        self.session().map(|_| ())
    }

    /// What lets others read or forge what is said, as far as it is known by now.
    pub fn weaknesses(&self) -> Vec<Weakness> {
        let session = self.session.borrow();
        Weakness::all_of(
            &self.cloud,
            session.as_ref().map(|session| session.network_url.as_str()),
        )
    }

    /// A token that is not taken any more is replaced once.
    pub(super) fn ask(&self, path: &str, question: &Question<'_>) -> Result<Value, NeutronError> {
        match self.ask_once(path, question) {
            Err(NeutronError::Unauthorized) => {
                if let Some(session) = self.session.borrow_mut().take() {
                    self.logins.forget(&self.cloud, self.until, &session);
                }
                let answer = self.ask_once(path, question);
                answer.map_err(|error| match error {
                    NeutronError::Unauthorized => {
                        NeutronError::UnauthorizedFor(format!("{} {path}", question.method()))
                    }
                    error => error,
                })
            }
            answer => answer,
        }
    }

    /// One object of an answer.
    pub(super) fn object<T: DeserializeOwned>(
        &self,
        answer: Value,
        key: &str,
    ) -> Result<T, NeutronError> {
        object(answer, key).map_err(|why| self.nonsense(&why))
    }

    pub(super) fn nonsense(&self, why: &dyn Display) -> NeutronError {
        nonsense(why, &self.secrets.borrow())
    }

    fn session(&self) -> Result<Session, NeutronError> {
        if let Some(session) = self.session.borrow().as_ref() {
            return Ok(session.clone());
        }
        let session = self.logins.get_or(&self.cloud, self.until, || {
            login(&self.agent()?, &self.cloud)
        });
        let session = session.map_err(|error| match error {
            NeutronError::Unavailable(why) => {
                NeutronError::Unreachable(format!("{}: {why}", self.cloud.auth_url))
            }
            error => error,
        })?;
        self.secrets.borrow_mut().add(session.token());
        *self.session.borrow_mut() = Some(session.clone());
        Ok(session)
    }

    /// An agent that waits no longer than there is time. Its limits are its own and not of each
    /// request: with those it would read the system's certificates anew for each connection.
    fn agent(&self) -> Result<Agent, NeutronError> {
        match self.left() {
            None => Err(NeutronError::Unreachable(
                "the time for it is over".to_owned(),
            )),
            Some(left) if left < LONGEST_WAIT => Ok(agent(&self.tls, left)),
            Some(_) => Ok(self.agent.clone()),
        }
    }

    fn ask_once(&self, path: &str, question: &Question<'_>) -> Result<Value, NeutronError> {
        let session = self.session()?;
        let agent = self.agent()?;
        let url = format!("{}{path}", session.network_url);
        let token = ("X-Auth-Token", session.token());
        let answer = match question {
            Question::Get(query) => {
                let query = query.iter().map(|(key, value)| (*key, value.as_str()));
                agent
                    .get(&url)
                    .header(token.0, token.1)
                    .query_pairs(query)
                    .call()
            }
            Question::Post(body) => {
                let request = agent.post(&url).header(token.0, token.1);
                request
                    .header("Content-Type", "application/json")
                    .send(body.to_string())
            }
            Question::Put(body, revision) => {
                let request = agent
                    .put(&url)
                    .header(token.0, token.1)
                    .header("Content-Type", "application/json");
                request
                    .header("If-Match", format!("revision_number={revision}"))
                    .send(body.to_string())
            }
            // Neutron answers 400 to a DELETE with a body, be it empty.
            Question::Delete => agent.delete(&url).header(token.0, token.1).call(),
        };
        let asked = answer
            .as_ref()
            .ok()
            .and_then(|answer| answer.headers().get("Retry-After"));
        self.asked
            .set(asked.and_then(|value| retry_after(value.as_bytes(), SystemTime::now())));
        let secrets = self.secrets.borrow();
        let (status, body) = read(answer, &secrets).map_err(|error| match error {
            NeutronError::Unavailable(why) => {
                NeutronError::Unavailable(format!("{}: {why}", session.network_url))
            }
            error => error,
        })?;
        if status.is_success() {
            Ok(body)
        } else {
            Err(fault(status, &body, &secrets))
        }
    }
}

fn agent(tls: &TlsConfig, wait: Duration) -> Agent {
    Agent::config_builder()
        .tls_config(tls.clone())
        .timeout_global(Some(wait))
        .http_status_as_error(false)
        // Somebody in between would send us elsewhere, with our token.
        .max_redirects(0)
        // The environment is the runtime's, not ours.
        .proxy(None)
        .user_agent(concat!("cni-ipam-neutron/", env!("CARGO_PKG_VERSION")))
        .build()
        .new_agent()
}

fn tls(cloud: &Cloud) -> Result<TlsConfig, NeutronError> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut builder = TlsConfig::builder().unversioned_rustls_crypto_provider(provider);
    if cloud.trust == Trust::Anything {
        builder = builder.disable_verification(true);
    }
    let roots = match &cloud.certificates {
        None => RootCerts::from(certificates_of_the_system()),
        Some(path) => RootCerts::from(certificates(path)?),
    };
    Ok(builder.root_certs(roots).build())
}

/// Without any, each TLS connection fails by itself, and one without TLS does not need them.
fn certificates_of_the_system() -> Vec<Certificate<'static>> {
    let loaded = rustls_native_certs::load_native_certs();
    loaded
        .certs
        .iter()
        .map(|certificate| Certificate::from_der(certificate).to_owned())
        .collect()
}

fn certificates(path: &str) -> Result<Vec<Certificate<'static>>, NeutronError> {
    let unreadable =
        |why: &dyn Display| NeutronError::Misconfigured(format!("certificates in {path}: {why}"));
    let text = fs::read(path).map_err(|why| unreadable(&why))?;
    let certificates = parse_pem(&text).filter_map(|item| match item {
        Ok(PemItem::Certificate(certificate)) => Some(certificate),
        _ => None,
    });
    let certificates: Vec<Certificate<'static>> = certificates.collect();
    if certificates.is_empty() {
        Err(unreadable(&"there are none"))
    } else {
        Ok(certificates)
    }
}

/// What another service says to a GET with a bearer token, its certificate being signed by one in
/// this file.
pub fn get_json(
    url: &str,
    token: &str,
    certificates_in: &str,
    wait: Duration,
) -> Result<(u16, Value), NeutronError> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let tls = TlsConfig::builder().unversioned_rustls_crypto_provider(provider);
    let tls = tls
        .root_certs(RootCerts::from(certificates(certificates_in)?))
        .build();
    let answer = agent(&tls, wait)
        .get(url)
        .header("Authorization", format!("Bearer {token}"))
        .call();
    let mut secrets = Secrets::default();
    secrets.add(token);
    read(answer, &secrets).map(|(status, body)| (status.as_u16(), body))
}
