//! Reads answers, and translates their errors.

use std::io::ErrorKind;

use serde_json::Value;
use ureq::http::{Response, StatusCode};
use ureq::{Body, Error};

use crate::NeutronError;
use crate::http::secrets::Secrets;

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
        // Do not repeat the address: it may hold a secret.
        Error::BadUri(_) => NeutronError::Misconfigured("invalid address".to_owned()),
        Error::Rustls(why) => NeutronError::Misconfigured(secrets.shown(&why.to_string())),
        // This is how a connection reports a refused certificate.
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

/// The meaning of an error answer, by its type.
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
