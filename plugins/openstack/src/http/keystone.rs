//! Login at Keystone: a token with its expiry, and the address of the network service.

use std::collections::BTreeSet;
use std::fmt;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use ureq::Agent;
use ureq::http::StatusCode;

use super::rest::Secrets;
use crate::http::rest::{fault, read};
use crate::{Access, Cloud, Named, NeutronError, Project};

/// The result of a login.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Session {
    token: String,
    pub(crate) expires: Timestamp,
    /// The network service, without version and final slash.
    pub(crate) network_url: String,
}

impl Session {
    pub(super) fn token(&self) -> &str {
        &self.token
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Session({} until {})", self.network_url, self.expires)
    }
}

/// Where a login is sent.
pub(super) fn token_url(cloud: &Cloud) -> String {
    format!("{}/auth/tokens", cloud.auth_url)
}

/// Keystone's answer to a login.
pub(super) struct Answer {
    status: StatusCode,
    token: Option<String>,
    body: Value,
    secrets: Secrets,
}

/// Sends a login. Returns the status, too.
///
/// # Errors
/// Fails if Keystone does not answer.
pub(super) fn ask_for_token(agent: &Agent, cloud: &Cloud) -> Result<(u16, Answer), NeutronError> {
    let request = agent
        .post(token_url(cloud))
        .header("Content-Type", "application/json");
    let answer = request.send(question(&cloud.access).to_string());
    let token = answer
        .as_ref()
        .ok()
        .and_then(|answer| answer.headers().get("X-Subject-Token"));
    let token = token
        .and_then(|token| token.to_str().ok())
        .map(str::to_owned);
    let mut secrets = Secrets::of(&cloud.access);
    secrets.add(token.as_deref().unwrap_or_default());
    let (status, body) = read(answer, &secrets)?;
    let answer = Answer {
        status,
        token,
        body,
        secrets,
    };
    Ok((status.as_u16(), answer))
}

/// The session of an answer.
///
/// # Errors
/// Fails if Keystone refuses, or if its catalogue has no network service.
pub(super) fn session(answer: Answer, cloud: &Cloud) -> Result<Session, NeutronError> {
    let Answer {
        status,
        token,
        body,
        secrets,
    } = answer;
    if !status.is_success() {
        return Err(match fault(status, &body, &secrets) {
            NeutronError::Unauthorized => NeutronError::Refused,
            // Keystone 30 answers so for a deleted application credential.
            NeutronError::NotFound(_) if body["error"].is_object() => NeutronError::Refused,
            NeutronError::NotFound(_) => {
                NeutronError::Misconfigured("no Keystone at this address".to_owned())
            }
            other => other,
        });
    }
    let nonsense = || NeutronError::Unavailable("unexpected answer of Keystone".to_owned());
    let expires = body["token"]["expires_at"]
        .as_str()
        .and_then(|at| at.parse().ok())
        .ok_or_else(nonsense)?;
    let network_url = network_url(&body["token"]["catalog"], cloud)?;
    if secrets.are_in(&network_url) {
        // Errors show the address.
        return Err(NeutronError::Misconfigured(
            "the network service's address in the catalogue".to_owned(),
        ));
    }
    Ok(Session {
        token: token.ok_or_else(nonsense)?,
        expires,
        network_url,
    })
}

fn question(access: &Access) -> Value {
    match access {
        Access::Password {
            username,
            user_domain,
            password,
            project,
        } => {
            let user =
                json!({"name": username, "domain": named(user_domain), "password": password});
            let project = match project {
                Project::Id(id) => json!({"id": id}),
                Project::Name(name, domain) => json!({"name": name, "domain": named(domain)}),
            };
            let scope = json!({"project": project});
            json!({"auth": {"identity": {"methods": ["password"], "password": {"user": user}}, "scope": scope}})
        }
        Access::ApplicationCredential { id, secret } => {
            let credential = json!({"id": id, "secret": secret});
            json!({"auth": {"identity": {"methods": ["application_credential"], "application_credential": credential}}})
        }
    }
}

fn named(named: &Named) -> Value {
    match named {
        Named::Name(name) => json!({"name": name}),
        Named::Id(id) => json!({"id": id}),
    }
}

fn network_url(catalog: &Value, cloud: &Cloud) -> Result<String, NeutronError> {
    let services = catalog
        .as_array()
        .into_iter()
        .flatten()
        .filter(|service| service["type"] == "network");
    let endpoints =
        services.flat_map(|service| service["endpoints"].as_array().into_iter().flatten());
    let is_there = |endpoint: &&Value| {
        let region = cloud.region.as_deref();
        endpoint["interface"] == cloud.interface.as_str()
            && region.is_none_or(|region| {
                endpoint["region_id"] == region || endpoint["region"] == region
            })
    };
    let urls = endpoints
        .into_iter()
        .filter(is_there)
        .filter_map(|endpoint| endpoint["url"].as_str());
    let urls: BTreeSet<&str> = urls
        .map(|url| {
            url.trim_end_matches('/')
                .trim_end_matches("/v2.0")
                .trim_end_matches('/')
        })
        .collect();
    if urls.len() > 1 {
        // The order of the catalogue may change. With another service, no port would be found.
        return Err(NeutronError::Misconfigured(format!(
            "{} network services; name a region",
            urls.len()
        )));
    }
    let url = urls.first().map(|url| (*url).to_owned());
    // Errors show the address, so it must not contain a password.
    let is_url = |url: &String| {
        (url.starts_with("https://") || url.starts_with("http://")) && !url.contains('@')
    };
    url.filter(is_url).ok_or_else(|| {
        let region = cloud.region.as_deref().unwrap_or("any");
        NeutronError::Misconfigured(format!(
            "no network service with the endpoint `{}` in region {region}",
            cloud.interface
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_endpoint_is_that_of_region_and_interface() {
        let endpoint = |interface: &str, region: &str, url: &str| json!({"interface": interface, "region_id": region, "region": region, "url": url});
        let catalog = json!([
            {"type": "identity", "endpoints": [endpoint("public", "one", "http://k")]},
            {"type": "network", "endpoints": [endpoint("internal", "one", "http://i:9696/"), endpoint("public", "two", "http://p/network/v2.0/")]},
        ]);
        let mut cloud = Cloud::with_password(
            "http://k",
            "u".into(),
            "p".into(),
            "x".into(),
            "default".into(),
        )
        .unwrap();
        assert_eq!(network_url(&catalog, &cloud).unwrap(), "http://p/network");
        cloud.region = Some("one".to_owned());
        assert!(matches!(
            network_url(&catalog, &cloud),
            Err(NeutronError::Misconfigured(_))
        ));
        cloud.interface = "internal".to_owned();
        assert_eq!(network_url(&catalog, &cloud).unwrap(), "http://i:9696");
        let hostile = json!([{"type": "network", "endpoints": [endpoint("internal", "one", "http://u:hunter2@i:9696")]}]);
        let refused = network_url(&hostile, &cloud).unwrap_err().to_string();
        assert!(!refused.contains("hunter2"), "{refused}");
    }
}
