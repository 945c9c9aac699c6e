//! GETs from Kubernetes as a Pod does: with the token and the certificates of its ServiceAccount. No
//! error repeats the token.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use ureq::Agent;
use ureq::tls::{Certificate, PemItem, RootCerts, TlsConfig, parse_pem};

use crate::USER_AGENT;
use neutron_cni::cni::{CniError, ErrorCode};
use private_files::read_small;

pub(super) use ureq::http::StatusCode;

/// Where Kubernetes puts the token of a Pod.
pub(super) const FOLDER: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// Longest time for an answer.
const DEADLINE: Duration = Duration::from_secs(10);

/// Largest answer in bytes. The daemon's memory is limited.
const LARGEST: u64 = 8 << 20;

/// A ServiceAccount in a folder. Kubernetes replaces the files of the folder.
pub(super) struct ServiceAccount {
    folder: PathBuf,
}

impl ServiceAccount {
    pub(super) fn of(folder: &Path) -> ServiceAccount {
        ServiceAccount {
            folder: folder.to_owned(),
        }
    }

    /// The status and the body of an answer.
    pub(super) fn get(&self, path: &str) -> Result<(StatusCode, Vec<u8>), CniError> {
        let variable =
            |name: &str| std::env::var(name).map_err(|_| failed(&format!("{name} is not set")));
        let host = variable("KUBERNETES_SERVICE_HOST")?;
        let port = variable("KUBERNETES_SERVICE_PORT")?;
        let host = if host.contains(':') {
            format!("[{host}]")
        } else {
            host
        };
        let token = read_small(&self.folder.join("token"))?;
        let why = |why: ureq::Error| match why {
            ureq::Error::Http(_) | ureq::Error::BadUri(_) => {
                failed("the address or the token is invalid")
            }
            why => failed(&why.to_string()),
        };
        let answer = agent(&read_small(&self.folder.join("ca.crt"))?)
            .get(format!("https://{host}:{port}{path}"))
            .header("Authorization", format!("Bearer {}", token.trim()))
            .header("Accept", "application/json")
            .call()
            .map_err(why)?;
        let status = answer.status();
        let body = answer.into_body().into_with_config().limit(LARGEST);
        Ok((status, body.read_to_vec().map_err(why)?))
    }
}

/// An HTTP client that trusts only these certificates.
fn agent(certificates: &str) -> Agent {
    let certificates = parse_pem(certificates.as_bytes()).filter_map(|item| match item {
        Ok(PemItem::Certificate(certificate)) => Some(certificate),
        _ => None,
    });
    let certificates: Vec<Certificate<'static>> = certificates.collect();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let tls = TlsConfig::builder()
        .unversioned_rustls_crypto_provider(provider)
        .root_certs(RootCerts::from(certificates))
        .build();
    Agent::config_builder()
        .tls_config(tls)
        .timeout_global(Some(DEADLINE))
        .http_status_as_error(false)
        // A redirect could send the token to another server.
        .max_redirects(0)
        .proxy(None)
        .user_agent(USER_AGENT)
        .build()
        .new_agent()
}

fn failed(why: &str) -> CniError {
    CniError::new(
        ErrorCode::TryAgainLater,
        format!("cannot ask Kubernetes: {why}"),
        "the daemon tries again",
    )
}
