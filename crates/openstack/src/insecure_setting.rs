//! Settings of OpenStack that work, but let others read or forge the traffic. Judges addresses; must
//! never know connections.

use std::fmt;

use crate::{Cloud, Trust};

/// Why others could read the credentials, or answer in OpenStack's place.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum InsecureSetting {
    /// The password crosses the network in plain text.
    PlainKeystone(String),
    /// The token crosses the network in plain text.
    PlainNeutron(String),
    /// Certificates are not verified.
    Unverified(String),
}

impl fmt::Display for InsecureSetting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            InsecureSetting::PlainKeystone(url) => {
                write!(
                    f,
                    "Keystone is at {}, without TLS: others on the way can read the password",
                    url.escape_debug()
                )
            }
            InsecureSetting::PlainNeutron(url) => {
                let url = url.escape_debug();
                write!(
                    f,
                    "Keystone's catalogue has Neutron at {url}, without TLS: others on the way can read the token"
                )
            }
            InsecureSetting::Unverified(url) => {
                let url = url.escape_debug();
                write!(
                    f,
                    "`verify: false`: any server on the way can answer in the place of {url} and read the password"
                )
            }
        }
    }
}

impl InsecureSetting {
    /// The insecure settings of a cloud, and of its network service if the address is known. `http`
    /// on loopback is secure: the traffic stays on the machine.
    pub fn all_of(cloud: &Cloud, network_url: Option<&str>) -> Vec<InsecureSetting> {
        let keystone = is_plain(&cloud.auth_url)
            .then(|| InsecureSetting::PlainKeystone(cloud.auth_url.clone()));
        let neutron = network_url
            .filter(|url| is_plain(url))
            .map(|url| InsecureSetting::PlainNeutron(url.to_owned()));
        let unverified = (cloud.trust == Trust::Anything)
            .then(|| InsecureSetting::Unverified(cloud.auth_url.clone()));
        keystone
            .into_iter()
            .chain(neutron)
            .chain(unverified)
            .collect()
    }

    /// How to fix the setting.
    pub fn way_out(&self) -> &'static str {
        match self {
            InsecureSetting::PlainKeystone(_) => {
                "serve Keystone over https, and set `auth_url` (`authUrl`) to it"
            }
            InsecureSetting::PlainNeutron(_) => {
                "set the endpoint to https: openstack endpoint set --url https://… ID"
            }
            InsecureSetting::Unverified(_) => {
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
        let weak = InsecureSetting::all_of(
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
    fn http_is_insecure_except_on_loopback() {
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
