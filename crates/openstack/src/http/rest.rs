//! Answers, and what faults in them mean.

use std::io::ErrorKind;

use serde_json::Value;
use ureq::http::{Response, StatusCode};
use ureq::{Body, Error};

use crate::NeutronError;
use crate::http::secrets::Secrets;

/// Longest answer that is read, in bytes. A page of 500 ports with a thousand pairs each would be
/// longer; those of 50 VMs are not.
const LONGEST: u64 = 32 * 1024 * 1024;

/// Status and body; one without JSON is null.
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

/// A fault of the way there.
fn unavailable(why: &Error, secrets: &Secrets) -> NeutronError {
    match why {
        Error::Timeout(_) => NeutronError::Unavailable("no answer in time".to_owned()),
        // What an address may hold is not repeated.
        Error::BadUri(_) => NeutronError::Misconfigured("an address that is none".to_owned()),
        Error::Rustls(why) => NeutronError::Misconfigured(secrets.shown(&why.to_string())),
        // So a certificate is refused within a connection.
        Error::Io(why) if why.kind() == ErrorKind::InvalidData => {
            NeutronError::Misconfigured(secrets.shown(&why.to_string()))
        }
        other => NeutronError::Unavailable(secrets.shown(&other.to_string())),
    }
}

/// An answer that is not what it should be.
pub(super) fn nonsense(why: &dyn std::fmt::Display, secrets: &Secrets) -> NeutronError {
    NeutronError::Unavailable(format!(
        "its answer makes no sense: {}",
        secrets.shown(&why.to_string())
    ))
}

/// What a no means, by the type that it names.
pub(super) fn fault(status: StatusCode, body: &Value, secrets: &Secrets) -> NeutronError {
    let text = |key: &str| body["NeutronError"][key].as_str().unwrap_or_default();
    let kind = text("type");
    let said = || {
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
        (_, StatusCode::FORBIDDEN) => NeutronError::Forbidden(said()),
        (_, StatusCode::NOT_FOUND) => NeutronError::NotFound(said()),
        (_, status) if status.is_server_error() || matches!(status.as_u16(), 408 | 429) => {
            NeutronError::Unavailable(said())
        }
        _ => NeutronError::Other(said()),
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
