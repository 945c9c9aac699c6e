//! Which names a visitor may call a server by. With DNS rebinding, a page of another site makes its
//! own name an alias of this server and reads the answers; its name then is in `Host`. Must never
//! know what a server shows.

use std::net::IpAddr;

use http::uri::Authority;
use http::{Request, StatusCode, Version, header};

use super::Answer;

/// Ends of names that no public DNS has: Services and Pods, private zones, this machine.
const PRIVATE: [&str; 4] = [".svc", ".local", ".internal", ".localhost"];

const UNKNOWN: &str = "unknown host: use the IP address, localhost, a name without a dot, or one that \
     ends with .svc, .local or .internal";

/// The host, as the visitor calls it, without the port and brackets. Only HTTP/1.0 allows none.
///
/// # Errors
/// The answer to a request without a valid host (400), or with a host that may be anybody's (421).
pub(crate) fn host_of<B>(request: &Request<B>) -> Result<Option<String>, Answer> {
    let mut headers = request.headers().get_all(header::HOST).iter();
    let authority: Option<Authority> = match (request.uri().authority(), headers.next()) {
        (Some(named), _) => Some(named.clone()),
        (None, None) if request.version() < Version::HTTP_11 => return Ok(None),
        (None, named) => named.and_then(|named| named.to_str().ok()?.parse().ok()),
    };
    let is_single = headers.next().is_none();
    let authority = authority.filter(|named| is_single && !named.as_str().contains('@'));
    let Some(authority) = authority else {
        let text = "the request needs one valid Host header";
        return Err(Answer::text(StatusCode::BAD_REQUEST, text));
    };
    let host = authority.host().trim_matches(['[', ']']);
    if is_private(host) {
        Ok(Some(host.to_owned()))
    } else {
        Err(Answer::text(StatusCode::MISDIRECTED_REQUEST, UNKNOWN))
    }
}

/// Whether no other site can have this name: an IP address, or a name that public DNS cannot have.
fn is_private(host: &str) -> bool {
    let address = host.split('%').next().unwrap_or_default();
    if address.parse::<IpAddr>().is_ok() {
        return true;
    }
    let name = host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase();
    !name.contains('.') || PRIVATE.iter().any(|end| name.ends_with(end))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(hosts: &[&str]) -> Option<StatusCode> {
        let mut request = Request::get("/metrics");
        for host in hosts {
            request = request.header(header::HOST, *host);
        }
        let refused = host_of(&request.body(()).unwrap()).err();
        refused.map(|answer| answer.status)
    }

    #[test]
    fn names_of_a_cluster_and_addresses_are_answered() {
        for host in [
            "10.0.0.7:9464",
            "[fd00::7]:9464",
            "[::1]",
            "localhost:1",
            "LOCALHOST.",
            "node-1:9464",
            "cilium-ipam.kube-system.svc:9464",
            "a.b.svc.cluster.local.",
            "ip-10-0-0-1.ec2.internal",
        ] {
            assert_eq!(status(&[host]), None, "{host}");
        }
    }

    #[test]
    fn names_of_other_sites_are_refused() {
        for host in [
            "evil.example",
            "svc.evil.example:9464",
            "10.0.0.7.evil.example",
            "evil.example.",
            "notlocal.xlocal",
        ] {
            let refused = Some(StatusCode::MISDIRECTED_REQUEST);
            assert_eq!(status(&[host]), refused, "{host}");
        }
    }

    #[test]
    fn http_1_1_needs_one_host() {
        let bad: [&[&str]; 5] = [&[], &[""], &["a b"], &["10.0.0.7", "a"], &["a@localhost"]];
        for hosts in bad {
            assert_eq!(status(hosts), Some(StatusCode::BAD_REQUEST), "{hosts:?}");
        }
        let old = Request::get("/livez").version(Version::HTTP_10).body(());
        assert!(matches!(host_of(&old.unwrap()), Ok(None)));
        let whole = Request::get("http://evil.example/").header(header::HOST, "localhost");
        assert!(host_of(&whole.body(()).unwrap()).is_err());
    }
}
