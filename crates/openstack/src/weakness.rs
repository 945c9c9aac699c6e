//! Configurations of OpenStack that work and let others read or forge what is said. Judges
//! addresses; knows nothing of connections.

use std::fmt;

use crate::{Cloud, Trust};

/// Why others may read the credentials, or answer in OpenStack's place.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Weakness {
    /// The password goes over the network as it is.
    PlainKeystone(String),
    /// The token goes over the network as it is.
    PlainNeutron(String),
    /// No certificate is looked at.
    Unverified(String),
}

impl fmt::Display for Weakness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Weakness::PlainKeystone(url) => {
                write!(
                    f,
                    "Keystone is at {}, without TLS: others on the way can read the password",
                    url.escape_debug()
                )
            }
            Weakness::PlainNeutron(url) => {
                let url = url.escape_debug();
                write!(
                    f,
                    "Keystone's catalogue has Neutron at {url}, without TLS: others on the way can read the token"
                )
            }
            Weakness::Unverified(url) => {
                let url = url.escape_debug();
                write!(
                    f,
                    "`verify: false`: any server on the way can answer in the place of {url} and read the password"
                )
            }
        }
    }
}

impl Weakness {
    /// What is the matter with a cloud, and with the address of its network service if that is
    /// known. What stays on the machine can be read by nobody else, so `http` is no fault on
    /// loopback.
    pub fn all_of(cloud: &Cloud, network_url: Option<&str>) -> Vec<Weakness> {
        let keystone =
            is_plain(&cloud.auth_url).then(|| Weakness::PlainKeystone(cloud.auth_url.clone()));
        let neutron = network_url
            .filter(|url| is_plain(url))
            .map(|url| Weakness::PlainNeutron(url.to_owned()));
        let unverified =
            (cloud.trust == Trust::Anything).then(|| Weakness::Unverified(cloud.auth_url.clone()));
        keystone
            .into_iter()
            .chain(neutron)
            .chain(unverified)
            .collect()
    }

    /// The way out.
    pub fn way_out(&self) -> &'static str {
        match self {
            Weakness::PlainKeystone(_) => {
                "serve Keystone by https, and say so in `auth_url` (`authUrl`)"
            }
            Weakness::PlainNeutron(_) => {
                "set the endpoint to https: openstack endpoint set --url https://… ID"
            }
            Weakness::Unverified(_) => {
                "remove `verify: false`, and name the certificates of the cloud's authority in `cacert`"
            }
        }
    }
}

fn is_plain(url: &str) -> bool {
    url.strip_prefix("http://")
        .is_some_and(|rest| !is_loopback(rest))
}

fn is_loopback(rest: &str) -> bool {
    let host = rest.split('/').next().unwrap_or_default();
    if host == "[::1]" || host.starts_with("[::1]:") {
        return true;
    }
    let host = host.split(':').next().unwrap_or_default();
    let is_ipv4 = host.split('.').count() == 4
        && host
            .bytes()
            .all(|byte| byte.is_ascii_digit() || byte == b'.');
    host.eq_ignore_ascii_case("localhost") || (is_ipv4 && host.starts_with("127."))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn weak(auth_url: &str, network_url: &str, trust: Trust) -> usize {
        let text = |text: &str| text.to_owned();
        let cloud =
            Cloud::with_password(auth_url, text("u"), text("hunter2"), text("p"), text("d"));
        let weak = Weakness::all_of(
            &Cloud {
                trust,
                ..cloud.unwrap()
            },
            Some(network_url),
        );
        assert!(!format!("{weak:?}").contains("hunter2"));
        weak.len()
    }

    #[test]
    fn http_is_a_fault_but_for_loopback() {
        assert_eq!(weak("https://k", "https://n:9696", Trust::Verified), 0);
        assert_eq!(weak("http://k:5000", "https://n", Trust::Verified), 1);
        assert_eq!(weak("https://k", "http://n:9696", Trust::Verified), 1);
        assert_eq!(weak("https://k", "https://n", Trust::Anything), 1);
        assert_eq!(weak("http://k", "http://n", Trust::Anything), 3);
        for host in [
            "127.0.0.1",
            "127.1.2.3:5000",
            "localhost:5000",
            "LOCALHOST",
            "[::1]",
            "[::1]:5000",
        ] {
            assert_eq!(
                weak(
                    &format!("http://{host}/identity"),
                    &format!("http://{host}"),
                    Trust::Verified
                ),
                0,
                "{host}"
            );
        }
        for host in [
            "127.0.0.1.example",
            "127.example",
            "localhost.example",
            "[::1:2]",
            "10.0.0.1",
            "1270.0.0.1",
        ] {
            assert_eq!(
                weak("https://k", &format!("http://{host}/v2.0"), Trust::Verified),
                1,
                "{host}"
            );
        }
    }
}
