//! Requests to a forge, each repeated while the forge is busy or does not answer: TLS, limits, and
//! a token that no error shows. Must never know what the requests mean.

use std::env::VarError;
use std::fmt;
use std::io::ErrorKind;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use serde_json::Value;
use ureq::http::{self, HeaderMap, Response, Uri};
use ureq::tls::{Certificate, RootCerts, TlsConfig};
use ureq::{Agent, Body, Proxy};

use crate::routes::{Request, Routes};
use crate::{ApiUrl, ForgeError, Kind};
use retry::{Backoff, Budget, retry_after};

/// Timeout of one answer.
const LONGEST_WAIT: Duration = Duration::from_secs(20);

/// Longest answer that is read, in bytes: Gitea lists all comments at once.
const LONGEST: u64 = 64 * 1024 * 1024;

/// Limit of the redirects of one request, all of them on one host.
const REDIRECTS: usize = 3;

/// A client of one forge.
#[derive(Debug)]
pub struct Client {
    agent: Agent,
    token: Token,
    pub(crate) routes: Routes,
}

impl Client {
    /// `user_agent` names the program and its version.
    ///
    /// # Errors
    /// Fails if the environment names a proxy that cannot be used.
    pub fn new(
        kind: Kind,
        api: ApiUrl,
        token: Token,
        user_agent: &str,
    ) -> Result<Client, ForgeError> {
        let agent = agent(&api, user_agent)?;
        Ok(Client {
            agent,
            token,
            routes: Routes { kind, api },
        })
    }

    pub(crate) fn ask(&self, request: &Request) -> Result<Value, ForgeError> {
        let mut url = request.url.clone();
        for _ in 0..=REDIRECTS {
            let answer = self.send(request.method, &url, request.body.as_ref());
            let answer = answer.map_err(|why| self.unavailable(request, &why))?;
            match self.redirect(request, &answer)? {
                Some(next) => url = next,
                None => return self.read(request, answer),
            }
        }
        Err(self.unexpected(request, "too many redirects"))
    }

    /// The name of the account that the token belongs to, as in comments and issues.
    pub(crate) fn my_name(&self) -> Result<String, ForgeError> {
        let request = self.routes.me();
        let name = self.routes.my_name(&self.ask(&request)?);
        let missing = "it does not say to whom the token belongs";
        name.filter(|name| !name.is_empty())
            .ok_or_else(|| self.unexpected(&request, missing))
    }

    pub(crate) fn unexpected(&self, request: &Request, why: &str) -> ForgeError {
        ForgeError::Unexpected {
            place: place(request),
            why: self.token.hidden(why),
        }
    }

    fn send(
        &self,
        method: &str,
        url: &str,
        body: Option<&Value>,
    ) -> Result<Response<Body>, ureq::Error> {
        let accepted = match self.routes.kind {
            Kind::GitHub => "application/vnd.github+json",
            Kind::GitLab | Kind::Gitea => "application/json",
        };
        let request = http::Request::builder()
            .method(method)
            .uri(url)
            .header("Accept", accepted)
            .header("Authorization", self.token.header());
        let request = match self.routes.kind {
            Kind::GitHub => request.header("X-GitHub-Api-Version", "2022-11-28"),
            Kind::GitLab | Kind::Gitea => request,
        };
        match body {
            None => self.agent.run(request.body(())?),
            Some(body) => {
                let request = request.header("Content-Type", "application/json");
                self.agent.run(request.body(body.to_string())?)
            }
        }
    }

    /// The address to ask in its place. The token never goes to another host, and a write is
    /// repeated only if the server says so.
    fn redirect(
        &self,
        request: &Request,
        answer: &Response<Body>,
    ) -> Result<Option<String>, ForgeError> {
        let status = answer.status().as_u16();
        let may_follow = match status {
            307 | 308 => true,
            301 | 302 => request.method == "GET",
            _ => return Ok(None),
        };
        let header = answer.headers().get("Location");
        let to = header.and_then(|to| to.to_str().ok()).unwrap_or_default();
        match may_follow && self.routes.api.has_origin_of(to) {
            true => Ok(Some(to.to_owned())),
            false => Err(ForgeError::Redirected {
                place: place(request),
                to: self.token.hidden(&host_of(to)),
            }),
        }
    }

    fn read(&self, request: &Request, answer: Response<Body>) -> Result<Value, ForgeError> {
        let status = answer.status().as_u16();
        let wait = wait_of(answer.headers());
        let is_limited = is_rate_limited(status, answer.headers());
        let body = answer
            .into_body()
            .with_config()
            .limit(LONGEST)
            .read_to_vec()
            .map_err(|why| self.unavailable(request, &why))?;
        let body: Value = serde_json::from_slice(&body).unwrap_or_default();
        let place = place(request);
        let words = match body["message"].as_str().or(body["error"].as_str()) {
            Some(text) if !text.is_empty() => format!(" ({})", self.token.hidden(text)),
            _ => String::new(),
        };
        match status {
            200..=299 => Ok(body),
            408 | 429 | 500..=599 => Err(busy(place, status, words, wait)),
            _ if is_limited => Err(busy(place, status, words, wait)),
            401 | 403 | 404 => Err(ForgeError::Denied {
                place,
                status,
                words,
                way_out: self.way_out(status),
            }),
            _ => Err(ForgeError::Refused {
                place,
                status,
                words,
            }),
        }
    }

    fn way_out(&self, status: u16) -> String {
        let right = self.routes.kind.right();
        match status {
            401 => "the token is unknown or expired".to_owned(),
            403 => format!("the token may not do this: {right}"),
            _ => format!(
                "there is no such repository or pull request, or the token may not see it: {right}"
            ),
        }
    }

    fn unavailable(&self, request: &Request, why: &ureq::Error) -> ForgeError {
        let words = match why {
            ureq::Error::Timeout(_) => "no answer in time".to_owned(),
            ureq::Error::HostNotFound => "its name cannot be resolved".to_owned(),
            ureq::Error::BodyExceedsLimit(_) => {
                return self.unexpected(request, "it is longer than 64 MiB");
            }
            // A connection reports a refused certificate as invalid data.
            ureq::Error::Io(why) if why.kind() == ErrorKind::InvalidData => {
                return ForgeError::Misconfigured(format!(
                    "{}: {}",
                    place(request),
                    self.token.hidden(&why.to_string())
                ));
            }
            other => other.to_string(),
        };
        ForgeError::Unavailable {
            place: place(request),
            why: self.token.hidden(&words),
            retry_after: None,
        }
    }
}

fn busy(place: String, status: u16, words: String, retry_after: Option<Duration>) -> ForgeError {
    ForgeError::Unavailable {
        place,
        why: format!("status {status}{words}"),
        retry_after,
    }
}

/// Method and address, without the query.
fn place(request: &Request) -> String {
    let url = request.url.split('?').next().unwrap_or_default();
    format!("{} {url}", request.method)
}

fn host_of(url: &str) -> String {
    let uri = url.parse::<Uri>();
    let host = uri.ok().and_then(|uri| uri.host().map(str::to_owned));
    host.unwrap_or_else(|| "an address without a host".to_owned())
}

fn wait_of(headers: &HeaderMap) -> Option<Duration> {
    let value = headers.get("Retry-After")?;
    retry_after(value.as_bytes(), SystemTime::now())
}

/// GitHub answers 403 to a client that is too fast.
fn is_rate_limited(status: u16, headers: &HeaderMap) -> bool {
    let has_none_left = headers
        .get("X-RateLimit-Remaining")
        .is_some_and(|left| left.as_bytes() == b"0");
    status == 403 && (has_none_left || headers.contains_key("Retry-After"))
}

/// Variables that name a proxy, in the order in which the client takes them.
const PROXIES: [&str; 6] = [
    "ALL_PROXY",
    "all_proxy",
    "HTTPS_PROXY",
    "https_proxy",
    "HTTP_PROXY",
    "http_proxy",
];

/// The proxy of the environment. An unusable one is an error: without it, the token would go another
/// way than the administrator chose.
fn proxy() -> Result<Option<Proxy>, ForgeError> {
    for name in PROXIES {
        let is_usable = match std::env::var(name) {
            Ok(value) => value.is_empty() || Proxy::new(&value).is_ok(),
            Err(VarError::NotPresent) => true,
            Err(VarError::NotUnicode(_)) => false,
        };
        if !is_usable {
            return Err(ForgeError::Misconfigured(format!(
                "{name} is not the URL of a proxy, such as `http://proxy.example:3128`"
            )));
        }
    }
    Ok(Proxy::try_from_env())
}

fn agent(api: &ApiUrl, user_agent: &str) -> Result<Agent, ForgeError> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let loaded = rustls_native_certs::load_native_certs();
    let roots = loaded.certs.iter().map(|certificate| {
        let certificate: &[u8] = certificate;
        Certificate::from_der(certificate).to_owned()
    });
    let tls = TlsConfig::builder()
        .unversioned_rustls_crypto_provider(provider)
        .root_certs(RootCerts::from(roots.collect::<Vec<_>>()))
        .build();
    let proxy = match api.is_here() {
        true => None,
        false => proxy()?,
    };
    let config = Agent::config_builder()
        .tls_config(tls)
        .timeout_global(Some(LONGEST_WAIT))
        .http_status_as_error(false)
        // A redirect could send the token to another server.
        .max_redirects(0)
        .max_redirects_will_error(false)
        .proxy(proxy)
        .user_agent(user_agent)
        .build();
    Ok(config.new_agent())
}

/// A part of a token of this length counts as the token.
const PART: usize = 8;

/// Longest text of a server that is shown, in characters.
const SHOWN: usize = 300;

/// A token of a forge.
#[derive(Clone)]
pub struct Token(String);

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(hidden)")
    }
}

impl Token {
    /// White space at the ends is removed.
    ///
    /// # Errors
    /// Fails if it is empty or has characters that no token has.
    pub fn new(text: &str) -> Result<Token, ForgeError> {
        let token = text.trim();
        let is_visible = token.bytes().all(|byte| byte.is_ascii_graphic());
        match token.is_empty() || !is_visible {
            false => Ok(Token(token.to_owned())),
            true => Err(ForgeError::Misconfigured(
                "the token is empty, or has characters that no token has".to_owned(),
            )),
        }
    }

    pub(crate) fn header(&self) -> String {
        format!("Bearer {}", self.0)
    }

    /// A text of the server on one line, or a replacement if it repeats the token.
    pub(crate) fn hidden(&self, text: &str) -> String {
        let text: String = text.chars().filter(|c| !c.is_control()).collect();
        let token = self.0.as_bytes();
        let repeats = token
            .windows(PART.min(token.len()))
            .any(|part| text.as_bytes().windows(part.len()).any(|seen| seen == part));
        match repeats {
            true => "(its words are not shown: they repeat the token)".to_owned(),
            false => text.chars().take(SHOWN).collect(),
        }
    }
}

/// Pauses before retries. The last figure is the longest `Retry-After` that is obeyed.
const BACKOFF: Backoff = Backoff::new(Duration::from_millis(500), Duration::from_secs(10))
    .with_retry_after_cap(Duration::from_mins(1));

/// Retries for the time of `patience`.
pub(crate) fn patiently<T>(
    patience: Duration,
    mut attempt: impl FnMut() -> Result<T, ForgeError>,
) -> Result<T, ForgeError> {
    let until = Instant::now() + patience;
    let mut budget = Budget::new(BACKOFF.retry(fastrand::Rng::new()));
    let mut failed = 0;
    loop {
        let error = match attempt() {
            Err(error @ ForgeError::Unavailable { .. }) => error,
            answer => return answer,
        };
        if let ForgeError::Unavailable { retry_after, .. } = &error {
            budget.server_asks(*retry_after);
        }
        failed += 1;
        let left = until.saturating_duration_since(Instant::now());
        match budget.next_pause(failed, left) {
            Some(pause) => std::thread::sleep(pause),
            None => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_never_shown() {
        let token = Token::new(" ghp_0123456789abcdef\n").unwrap();
        assert_eq!(token.header(), "Bearer ghp_0123456789abcdef");
        assert!(!format!("{token:?}").contains("ghp"));
        for text in [
            "bad ghp_0123456789abcdef",
            "bad …456789abcd…",
            "gh\u{0}p_0123456",
        ] {
            assert!(token.hidden(text).starts_with("(its words"), "{text}");
        }
        assert_eq!(token.hidden("no\nway"), "noway");
        assert_eq!(token.hidden(&"é".repeat(500)).chars().count(), 300);
    }

    #[test]
    fn a_token_has_only_visible_characters() {
        for bad in ["", " ", "a b", "a\r\nHost: x", "é"] {
            let error = Token::new(bad).unwrap_err().to_string();
            assert!(
                error.starts_with("the token is empty, or has"),
                "{bad}: {error}"
            );
        }
    }
}
