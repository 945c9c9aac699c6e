//! The address of a forge's API: TLS, or the own machine.

use std::fmt;

use ureq::http::Uri;

use crate::ForgeError;

/// Where `http` without TLS is allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlainHttp {
    /// Only to the own machine.
    OnLoopback,
    /// To any host, as a person asked for.
    Anywhere,
}

/// The address below which an API lies, without a slash at its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiUrl(String);

impl fmt::Display for ApiUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl ApiUrl {
    /// # Errors
    /// Fails if the address is invalid, or others on the way could read the token.
    pub fn parse(text: &str, plain: PlainHttp) -> Result<ApiUrl, ForgeError> {
        let fault = |why: &str| {
            // An address with credentials must not be repeated.
            let shown = match text.contains('@') {
                true => "the address of the API".to_owned(),
                false => format!("`{}`", text.escape_debug()),
            };
            Err(ForgeError::Misconfigured(format!("{shown} {why}")))
        };
        let Ok(uri) = text.parse::<Uri>() else {
            return fault("is not an address of an API, such as `https://git.example/api/v1`");
        };
        let authority = uri.authority().map_or("", |authority| authority.as_str());
        let host = uri.host().unwrap_or_default();
        let is_safe = match uri.scheme_str() {
            Some("https") => true,
            Some("http") => plain == PlainHttp::Anywhere || is_loopback(host),
            _ => return fault("is not an address of an API, such as `https://git.example/api/v1`"),
        };
        if authority.contains('@') || uri.query().is_some() || text.contains('#') || host.is_empty()
        {
            return fault("must have a host and a path only");
        }
        if !is_safe {
            return fault(
                "has no TLS, so others on the way could read the token: use https, or pass --allow-plain-http",
            );
        }
        Ok(ApiUrl(text.trim_end_matches('/').to_owned()))
    }

    /// Whether both have one scheme, host and port.
    pub(crate) fn has_origin_of(&self, other: &str) -> bool {
        let origin = |text: &str| {
            let uri = text.parse::<Uri>().ok()?;
            let scheme = uri.scheme_str()?.to_owned();
            let port = uri.port_u16().unwrap_or(match scheme.as_str() {
                "https" => 443,
                _ => 80,
            });
            let authority = uri.authority()?.as_str();
            let host = uri.host()?.to_ascii_lowercase();
            (!authority.contains('@')).then_some((scheme, host, port))
        };
        origin(&self.0).is_some_and(|own| Some(own) == origin(other))
    }

    /// Whether the host is this machine.
    pub(crate) fn is_here(&self) -> bool {
        let uri = self.0.parse::<Uri>();
        uri.is_ok_and(|uri| is_loopback(uri.host().unwrap_or_default()))
    }
}

fn is_loopback(host: &str) -> bool {
    let is_ipv4 = host.split('.').count() == 4
        && host
            .bytes()
            .all(|byte| byte.is_ascii_digit() || byte == b'.');
    host == "[::1]" || host.eq_ignore_ascii_case("localhost") || is_ipv4 && host.starts_with("127.")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_goes_over_tls_or_stays_on_the_machine() {
        for good in [
            "https://api.github.com",
            "https://git.example:8443/api/v1/",
            "http://127.0.0.1:3000/api/v1",
            "http://[::1]:3000/api/v1",
            "http://localhost/api/v1",
        ] {
            let url = ApiUrl::parse(good, PlainHttp::OnLoopback).unwrap();
            assert_eq!(url.to_string(), good.trim_end_matches('/'));
        }
        for (bad, why) in [
            ("http://git.example/api/v1", "has no TLS"),
            ("http://127.0.0.1.example/api/v1", "has no TLS"),
            ("ftp://git.example", "is not an address"),
            ("git.example", "is not an address"),
            ("", "is not an address"),
            (
                "https://user:secret@git.example",
                "the address of the API must have",
            ),
            ("https://git.example/?a=b", "must have"),
        ] {
            let error = ApiUrl::parse(bad, PlainHttp::OnLoopback).unwrap_err();
            let error = error.to_string();
            assert!(error.contains(why), "{bad}: {error}");
            assert!(!error.contains("secret"), "{error}");
        }
        assert!(ApiUrl::parse("http://git.example/api", PlainHttp::Anywhere).is_ok());
    }

    #[test]
    fn an_origin_has_scheme_host_and_port() {
        let url = ApiUrl::parse("https://git.example/api", PlainHttp::OnLoopback).unwrap();
        assert!(url.has_origin_of("https://GIT.example:443/other"));
        for other in [
            "http://git.example/api",
            "https://git.example:444/api",
            "https://git.example.evil/api",
            "https://git.example@evil/api",
            "https://x@git.example/api",
            "/relative",
        ] {
            assert!(!url.has_origin_of(other), "{other}");
        }
    }
}
