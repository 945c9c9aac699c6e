//! Reads answers, translates their errors without the secrets in the text of servers, and reports
//! each request to an observer.

use std::fmt;
use std::io::ErrorKind;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use ureq::http::{Response, StatusCode};
use ureq::{Body, Error};

use crate::{Access, NeutronError};

/// Longest answer that is read, in bytes. A page of ports of 50 VMs with many pairs is shorter.
const LONGEST: u64 = 32 * 1024 * 1024;

/// Returns status and body; null if the body is not JSON.
pub(super) fn read(
    answer: Result<Response<Body>, Error>,
    secrets: &Secrets,
) -> Result<(StatusCode, Value), NeutronError> {
    let unavailable = |why: Error| unavailable(&why, secrets);
    let answer = answer.map_err(unavailable)?;
    let status = answer.status();
    let bytes = answer
        .into_body()
        .with_config()
        .limit(LONGEST)
        .read_to_vec()
        .map_err(unavailable)?;
    Ok((status, serde_json::from_slice(&bytes).unwrap_or_default()))
}

/// An error of the connection.
fn unavailable(why: &Error, secrets: &Secrets) -> NeutronError {
    match why {
        Error::Timeout(_) => NeutronError::Unavailable("no answer in time".to_owned()),
        // Do not repeat the address in the message: it may hold a secret.
        Error::BadUri(_) => NeutronError::Misconfigured("invalid address".to_owned()),
        Error::Rustls(why) => NeutronError::Misconfigured(secrets.shown(&why.to_string())),
        // A connection reports a refused certificate as invalid data.
        Error::Io(why) if why.kind() == ErrorKind::InvalidData => {
            NeutronError::Misconfigured(secrets.shown(&why.to_string()))
        }
        Error::Io(why) => NeutronError::Unavailable(secrets.shown(&words(why))),
        Error::HostNotFound => NeutronError::Unavailable("its name cannot be resolved".to_owned()),
        other => NeutronError::Unavailable(secrets.shown(&other.to_string())),
    }
}

/// The cause in words for people.
fn words(why: &std::io::Error) -> String {
    match why.kind() {
        ErrorKind::ConnectionRefused => "connection refused".to_owned(),
        ErrorKind::ConnectionReset
        | ErrorKind::ConnectionAborted
        | ErrorKind::BrokenPipe
        | ErrorKind::UnexpectedEof => "it closed the connection".to_owned(),
        ErrorKind::HostUnreachable | ErrorKind::NetworkUnreachable => {
            "no route to its address".to_owned()
        }
        ErrorKind::TimedOut => "no answer in time".to_owned(),
        _ => why.to_string(),
    }
}

/// An error for an answer in an unexpected form.
pub(super) fn nonsense(why: &dyn std::fmt::Display, secrets: &Secrets) -> NeutronError {
    NeutronError::Unavailable(format!(
        "unexpected answer: {}",
        secrets.shown(&why.to_string())
    ))
}

/// The error that an answer means, by its status and the type in its body.
pub(super) fn fault(status: StatusCode, body: &Value, secrets: &Secrets) -> NeutronError {
    let text = |key: &str| body["NeutronError"][key].as_str().unwrap_or_default();
    let kind = text("type");
    let message = || {
        let words = secrets.shown(text("message"));
        if words.is_empty() {
            format!("status {}", status.as_u16())
        } else {
            words
        }
    };
    match (kind, status) {
        ("IpAddressGenerationFailure", _) => NeutronError::Exhausted,
        ("OverQuota", _) => NeutronError::Quota,
        ("IpAddressAlreadyAllocated" | "IpAddressInUse", _) => NeutronError::AddressInUse,
        ("MacAddressInUse", _) => NeutronError::MacInUse,
        ("PortNotFound", _) => NeutronError::NoSuchPort,
        ("InvalidIpForNetwork" | "InvalidIpForSubnet", _) => NeutronError::InvalidAddress,
        ("RevisionNumberConstraintFailed", _) | (_, StatusCode::PRECONDITION_FAILED) => {
            NeutronError::Changed
        }
        ("AllowedAddressPairExhausted", _) => NeutronError::TooManyPairs,
        (_, StatusCode::UNAUTHORIZED) => NeutronError::Unauthorized,
        (_, StatusCode::FORBIDDEN) => NeutronError::Forbidden(message()),
        (_, StatusCode::NOT_FOUND) => NeutronError::NotFound(message()),
        (_, status) if status.is_server_error() || matches!(status.as_u16(), 408 | 429) => {
            NeutronError::Unavailable(message())
        }
        _ => NeutronError::Other(message()),
    }
}

/// Longest part of a server's text that is searched, in characters.
const READ: usize = 4096;

/// Longest part that is shown, in characters.
const SHOWN: usize = 300;

/// A part of a secret of this length counts as the secret: servers shorten what they repeat.
const PART: usize = 16;

/// Replaces text with a secret in it.
const HIDDEN: &str = "(its words are not shown: they repeat a password or a token)";

/// Secrets that must not be shown.
#[derive(Clone, Default)]
pub(super) struct Secrets(Vec<String>);

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Secrets({})", self.0.len())
    }
}

impl Secrets {
    pub(super) fn of(access: &Access) -> Secrets {
        let mut secrets = Secrets::default();
        secrets.add(match access {
            Access::Password { password, .. } => password,
            Access::ApplicationCredential { secret, .. } => secret,
        });
        secrets
    }

    /// Adds a secret in its plain form and as escaped in JSON, in a URL and by Rust.
    pub(super) fn add(&mut self, secret: &str) {
        let in_url = |byte: u8| {
            if byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) {
                char::from(byte).to_string()
            } else {
                format!("%{byte:02X}")
            }
        };
        let in_json = serde_json::Value::from(secret).to_string();
        let forms = [
            secret.to_owned(),
            in_json[1..in_json.len() - 1].to_owned(),
            secret.bytes().map(in_url).collect(),
            secret.escape_debug().to_string(),
        ];
        for form in forms.into_iter().filter(|form| !form.is_empty()) {
            if !self.0.contains(&form) {
                self.0.push(form);
            }
        }
    }

    /// Whether the text contains a secret, or a part of one.
    pub(super) fn are_in(&self, words: &str) -> bool {
        self.0
            .iter()
            .any(|secret| has(words.as_bytes(), secret.as_bytes()))
    }

    /// Words of the server, or a replacement if they contain a secret.
    pub(super) fn shown(&self, words: &str) -> String {
        let words: String = words
            .chars()
            .filter(|c| !c.is_control())
            .take(READ)
            .collect();
        if self.are_in(&words) {
            return HIDDEN.to_owned();
        }
        words.chars().take(SHOWN).collect()
    }
}

fn has(words: &[u8], secret: &[u8]) -> bool {
    let part = secret.len().min(PART);
    words
        .windows(part)
        .any(|window| secret.windows(part).any(|wanted| window == wanted))
}

/// A request to Keystone or Neutron, after its answer or failure. Each attempt is reported.
#[derive(Debug)]
pub struct SentRequest<'r> {
    pub method: &'r str,
    /// URL of the request, without the query.
    pub url: &'r str,
    /// The HTTP status, or why there is no answer.
    pub outcome: Result<u16, &'r str>,
    pub took: Duration,
}

/// Called with each request.
pub type OnRequest = Arc<dyn Fn(&SentRequest<'_>) + Send + Sync>;

/// The reason without the words that name the service.
pub(super) fn why(error: &NeutronError) -> String {
    match error {
        NeutronError::Unavailable(why)
        | NeutronError::Unreachable(why)
        | NeutronError::Misconfigured(why) => why.clone(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_type_decides_and_not_the_status() {
        let of = |status: u16, kind: &str| {
            let status = StatusCode::from_u16(status).unwrap();
            fault(
                status,
                &json!({"NeutronError": {"type": kind, "message": "words", "detail": ""}}),
                &Secrets::default(),
            )
        };
        assert_eq!(
            of(409, "IpAddressGenerationFailure"),
            NeutronError::Exhausted
        );
        assert_eq!(of(409, "OverQuota"), NeutronError::Quota);
        assert_eq!(
            of(409, "IpAddressAlreadyAllocated"),
            NeutronError::AddressInUse
        );
        assert_eq!(of(409, "MacAddressInUse"), NeutronError::MacInUse);
        assert_eq!(of(409, "Novelty"), NeutronError::Other("words".to_owned()));
        assert_eq!(of(503, ""), NeutronError::Unavailable("words".to_owned()));
        assert_eq!(
            fault(StatusCode::UNAUTHORIZED, &Value::Null, &Secrets::default()),
            NeutronError::Unauthorized
        );
    }
}

#[cfg(test)]
mod secrets_tests {
    use super::*;

    #[test]
    fn text_with_a_secret_is_hidden() {
        let token = "gAAAAABm0123456789abcdefghijklmnopqrstuvwxyz";
        let mut secrets = Secrets::default();
        secrets.add(token);
        secrets.add("pass\"word/ü");
        for words in [
            format!("token {token} is bad"),
            format!("token {}… is bad", &token[..20]),
            format!("{}{token}", "x".repeat(290)),
            format!("to\u{0}ken {}\u{1b}{}", &token[..9], &token[9..]),
            r#"{"password": "pass\"word/ü"}"#.to_owned(),
            "password=pass%22word%2F%C3%BC".to_owned(),
            r#"invalid type: string "pass\"word/ü", expected u64"#.to_owned(),
        ] {
            assert_eq!(secrets.shown(&words), HIDDEN, "{words:?}");
        }
        assert_eq!(
            secrets.shown("the quota is used up"),
            "the quota is used up"
        );
        assert_eq!(secrets.shown(&"x".repeat(500)).len(), 300);
        assert_eq!(Secrets::default().shown("words"), "words");
        assert!(!format!("{secrets:?}").contains("gAAAA"));
    }
}
