//! One request to Neutron with a token, within a time limit. Must never know what the requests
//! mean.

use std::cell::RefCell;
use std::fmt::Display;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use serde::de::DeserializeOwned;
use serde_json::Value;
use ureq::Agent;
use ureq::tls::{Certificate, PemItem, RootCerts, TlsConfig, parse_pem};

use super::object;
use super::rest::{OnRequest, Secrets, SentRequest, why};
use crate::http::BACKOFF;
use crate::http::keystone::{Session, ask_for_token, session, token_url};
use crate::http::rest::{fault, nonsense, read};
use crate::login::{Logins, SessionCache};
use crate::{Cloud, InsecureSetting, NeutronError, Trust};
use retry::{Budget, retry_after};

/// Timeout of one answer.
const LONGEST_WAIT: Duration = Duration::from_secs(10);

/// A client of Neutron for one run, which gives up at a moment.
pub struct HttpNeutron {
    agent: Agent,
    user_agent: &'static str,
    tls: TlsConfig,
    cloud: Cloud,
    logins: Logins,
    until: Instant,
    on_request: Option<OnRequest>,
    session: RefCell<Option<Session>>,
    secrets: RefCell<Secrets>,
    budget: RefCell<Budget>,
}

/// The method and the content of a request.
pub(super) enum Question<'q> {
    Get(&'q [(&'q str, String)]),
    Post(Value),
    /// Fails if the object no longer has this revision.
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
    /// Creates a client whose requests all end by `until`. `user_agent` names the program and its
    /// version.
    ///
    /// # Errors
    /// Fails if a certificate file cannot be read.
    pub fn new(
        cloud: Cloud,
        user_agent: &'static str,
        cache: SessionCache,
        until: Instant,
    ) -> Result<HttpNeutron, NeutronError> {
        let logins = Logins::new(cache);
        let tls = tls(&cloud)?;
        let agent = agent(&tls, user_agent, LONGEST_WAIT);
        let secrets = RefCell::new(Secrets::of(&cloud.access));
        Ok(HttpNeutron {
            agent,
            user_agent,
            tls,
            cloud,
            logins,
            until,
            on_request: None,
            session: RefCell::default(),
            secrets,
            budget: RefCell::new(budget()),
        })
    }

    /// Returns the same client, which reports each request.
    #[must_use]
    pub fn reporting(self, on_request: Option<OnRequest>) -> HttpNeutron {
        HttpNeutron { on_request, ..self }
    }

    /// A client with the same session that gives up at another moment.
    #[must_use]
    pub fn until(&self, until: Instant) -> HttpNeutron {
        HttpNeutron {
            agent: self.agent.clone(),
            user_agent: self.user_agent,
            tls: self.tls.clone(),
            cloud: self.cloud.clone(),
            logins: self.logins.clone(),
            until,
            on_request: self.on_request.clone(),
            session: self.session.clone(),
            secrets: self.secrets.clone(),
            budget: RefCell::new(budget()),
        }
    }

    /// Time until the client gives up; `None` once that time is over.
    pub(super) fn left(&self) -> Option<Duration> {
        self.until
            .checked_duration_since(Instant::now())
            .filter(|left| !left.is_zero())
    }

    /// The pause before the next attempt, if there is time for both.
    pub(super) fn pause(&self, failed: u32) -> Option<Duration> {
        let left = self.left()?;
        self.budget.borrow_mut().next_pause(failed, left)
    }

    /// Takes over the `Retry-After` of an answer for the next pause.
    fn obey_header(&self, header: Option<&[u8]>) {
        let pause = header.and_then(|value| retry_after(value, SystemTime::now()));
        self.budget.borrow_mut().server_asks(pause);
    }

    /// The file that caches a fact of this cloud between runs.
    pub(super) fn cache_path(&self, name: &str) -> Option<PathBuf> {
        self.logins.cache_path(&self.cloud, name)
    }

    /// Gets a session, from the cache if possible.
    ///
    /// # Errors
    /// Fails if Keystone refuses or does not answer.
    pub fn log_in(&self) -> Result<(), NeutronError> {
        self.session().map(|_| ())
    }

    /// Settings that let others read or forge the traffic. Neutron's address counts once it is
    /// known.
    pub fn insecure_settings(&self) -> Vec<InsecureSetting> {
        let session = self.session.borrow();
        InsecureSetting::all_of(
            &self.cloud,
            session.as_ref().map(|session| session.network_url.as_str()),
        )
    }

    /// Sends a request to Neutron. Logs in again once if Neutron no longer accepts the token.
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
            let agent = self.agent()?;
            let answer = self.reported("POST", &token_url(&self.cloud), || {
                ask_for_token(&agent, &self.cloud)
            })?;
            session(answer, &self.cloud)
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

    /// An agent that waits at most the time that is left. The limit belongs to the agent: a limit
    /// per request would read the system's certificates again for each connection.
    fn agent(&self) -> Result<Agent, NeutronError> {
        match self.left() {
            None => Err(NeutronError::Unreachable(
                "the deadline has passed".to_owned(),
            )),
            Some(left) if left < LONGEST_WAIT => Ok(agent(&self.tls, self.user_agent, left)),
            Some(_) => Ok(self.agent.clone()),
        }
    }

    /// Sends a request, which returns its status and its answer, and reports it.
    fn reported<T>(
        &self,
        method: &str,
        url: &str,
        send: impl FnOnce() -> Result<(u16, T), NeutronError>,
    ) -> Result<T, NeutronError> {
        let began = Instant::now();
        let answer = send();
        if let Some(on_request) = &self.on_request {
            let failure = answer.as_ref().map(|(status, _)| *status).map_err(why);
            on_request(&SentRequest {
                method,
                url: &self.secrets.borrow().shown(url),
                outcome: failure
                    .as_ref()
                    .map(|status| *status)
                    .map_err(String::as_str),
                took: began.elapsed(),
            });
        }
        answer.map(|(_, answer)| answer)
    }

    fn ask_once(&self, path: &str, question: &Question<'_>) -> Result<Value, NeutronError> {
        let session = self.session()?;
        let agent = self.agent()?;
        let url = format!("{}{path}", session.network_url);
        let token = ("X-Auth-Token", session.token());
        let answer = || match question {
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
            // Neutron answers 400 to a DELETE with a body, even an empty one.
            Question::Delete => agent.delete(&url).header(token.0, token.1).call(),
        };
        let (status, body) = self
            .reported(question.method(), &url, || {
                let answer = answer();
                let header = answer
                    .as_ref()
                    .ok()
                    .and_then(|answer| answer.headers().get("Retry-After"));
                self.obey_header(header.map(|value| value.as_bytes()));
                let (status, body) = read(answer, &self.secrets.borrow())?;
                Ok((status.as_u16(), (status, body)))
            })
            .map_err(|error| match error {
                NeutronError::Unavailable(why) => {
                    NeutronError::Unavailable(format!("{}: {why}", session.network_url))
                }
                error => error,
            })?;
        let secrets = self.secrets.borrow();
        if status.is_success() {
            Ok(body)
        } else {
            Err(fault(status, &body, &secrets))
        }
    }
}

fn budget() -> Budget {
    Budget::new(BACKOFF.retry(fastrand::Rng::new()))
}

fn agent(tls: &TlsConfig, user_agent: &str, wait: Duration) -> Agent {
    Agent::config_builder()
        .tls_config(tls.clone())
        .timeout_global(Some(wait))
        .http_status_as_error(false)
        // A redirect could send the token to another server.
        .max_redirects(0)
        // The environment belongs to the container runtime.
        .proxy(None)
        .user_agent(user_agent)
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

/// The certificates of the system. Without any, each TLS connection fails, and plain HTTP works.
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
        Err(unreadable(&"the file contains no certificate"))
    } else {
        Ok(certificates)
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::sync::Mutex;

    use super::*;

    fn neutron() -> HttpNeutron {
        let text = |text: &str| text.to_owned();
        let cloud =
            Cloud::with_password("http://k", text("u"), text("p"), text("x"), text("d")).unwrap();
        let until = Instant::now() + Duration::from_mins(10);
        HttpNeutron::new(cloud, "test", SessionCache::Disabled, until).unwrap()
    }

    static REPORTED: Mutex<Vec<String>> = Mutex::new(Vec::new());

    fn report(request: &SentRequest<'_>) {
        let SentRequest {
            method,
            url,
            outcome,
            took: _,
        } = request;
        REPORTED
            .lock()
            .unwrap()
            .push(format!("{method} {url} {outcome:?}"));
    }

    #[test]
    fn a_server_that_never_answers_is_reported() {
        let silent = TcpListener::bind("127.0.0.1:0").unwrap();
        let keystone = format!("http://{}/v3", silent.local_addr().unwrap());
        let text = |text: &str| text.to_owned();
        let cloud =
            Cloud::with_password(&keystone, text("u"), text("hunter2"), text("x"), text("d"))
                .unwrap();
        let until = Instant::now() + Duration::from_millis(300);
        let neutron = HttpNeutron::new(cloud, "test", SessionCache::Disabled, until).unwrap();
        let neutron = neutron.reporting(Some(Arc::new(report)));
        neutron.log_in().unwrap_err();
        let expected = format!("POST {keystone}/auth/tokens Err(\"no answer in time\")");
        assert_eq!(*REPORTED.lock().unwrap(), [expected]);
    }

    /// The first pause after an answer with this header.
    fn pause(header: &str) -> Duration {
        let neutron = neutron();
        neutron.obey_header(Some(header.as_bytes()));
        neutron.pause(1).unwrap()
    }

    #[test]
    fn retry_after_sets_the_next_pause_within_its_limit() {
        let own = Duration::from_millis(200)..=Duration::from_millis(400);
        let limit = Duration::from_secs(10);
        let date =
            |seconds| httpdate::fmt_http_date(SystemTime::now() + Duration::from_secs(seconds));
        assert!(own.contains(&pause("0")), "zero must not retry at once");
        assert!((Duration::from_secs(1)..=Duration::from_millis(1500)).contains(&pause("1")));
        assert!((Duration::from_secs(3)..=limit).contains(&pause(&date(5))));
        assert_eq!(pause(&u64::MAX.to_string()), limit);
        assert_eq!(pause(&date(86_400)), limit);
        for garbage in ["", "-1", "1.5", "soon", "Sun, 99 Nov 1994 08:49:37 GMT"] {
            assert!(own.contains(&pause(garbage)), "{garbage:?}");
        }
    }

    #[test]
    fn the_header_of_an_answer_holds_for_one_pause() {
        let neutron = neutron();
        neutron.obey_header(Some(b"9"));
        assert!(neutron.pause(1).unwrap() >= Duration::from_secs(9));
        assert!(neutron.pause(2).unwrap() <= Duration::from_secs(2));
        neutron.obey_header(Some(b"9"));
        neutron.obey_header(None);
        assert!(neutron.pause(1).unwrap() < Duration::from_secs(1));
    }
}
