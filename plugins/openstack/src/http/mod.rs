//! Neutron and Keystone over HTTP. Each answer has a time limit. Must never show a secret.

mod ask;
mod keystone;
mod pairs;
mod rest;

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::http::ask::Question;
use crate::{
    Network, NetworkFacts, Neutron, NeutronError, NewPort, NextAttempt, Port, PortFilter, Retries,
    Subnet, Wanted,
};
use ipam_core::neutron::Id;
use private_files::kept;
use retry::Backoff;

pub use ask::HttpNeutron;
pub(super) use keystone::Session;
pub(crate) use pairs::by_vm;
pub use rest::{OnRequest, SentRequest};

/// Ports per page of a list.
const PAGE: usize = 500;

/// Limit of the pages of a list: a server that always has another page is broken.
const PAGES: usize = 100;

/// The fields of a port that are read.
const FIELDS: [&str; 10] = [
    "id",
    "network_id",
    "project_id",
    "device_id",
    "device_owner",
    "name",
    "description",
    "mac_address",
    "fixed_ips",
    "created_at",
];

/// How long subnets and networks are cached.
const FRESH: SignedDuration = SignedDuration::from_mins(10);

/// Pauses before retries. The last figure is the longest `Retry-After` that is obeyed.
pub(super) const BACKOFF: Backoff =
    Backoff::new(Duration::from_millis(200), Duration::from_secs(2))
        .with_retry_after_cap(Duration::from_secs(10));

impl Retries for HttpNeutron {
    fn next_attempt(&self, failed: u32) -> NextAttempt {
        match self.pause(failed) {
            Some(pause) => {
                std::thread::sleep(pause);
                NextAttempt::Now
            }
            None => NextAttempt::Never,
        }
    }
}

impl Neutron for HttpNeutron {
    fn create_port(&self, port: &NewPort<'_>) -> Result<Port, NeutronError> {
        self.object(
            self.ask(
                "/v2.0/ports",
                &Question::Post(json!({"port": written(port)})),
            )?,
            "port",
        )
    }

    fn ports(&self, filter: &PortFilter<'_>) -> Result<Vec<Port>, NeutronError> {
        let PortFilter {
            name,
            device,
            owner,
            mac,
        } = filter;
        let filters = [
            ("name", *name),
            ("device_id", *device),
            ("device_owner", *owner),
            ("mac_address", *mac),
        ];
        let filters = filters
            .into_iter()
            .filter_map(|(key, value)| Some((key, value?.to_owned())));
        let query = filters
            .chain(FIELDS.map(|field| ("fields", field.to_owned())))
            .collect();
        self.pages(query, |port: &Port| &port.id)
    }

    fn delete_port(&self, id: &Id) -> Result<(), NeutronError> {
        match self.ask(&format!("/v2.0/ports/{id}"), &Question::Delete) {
            Ok(_) | Err(NeutronError::NoSuchPort) => Ok(()),
            Err(error) => Err(error),
        }
    }
}

impl NetworkFacts for HttpNeutron {
    fn subnet(&self, id: &Id) -> Result<Subnet, NeutronError> {
        self.cached_fact("subnet", id)
    }

    fn network(&self, id: &Id) -> Result<Network, NeutronError> {
        self.cached_fact("network", id)
    }
}

/// A cached answer of Neutron about a subnet or a network.
#[derive(Serialize, Deserialize)]
struct FactCache {
    at: Timestamp,
    answer: Value,
}

impl HttpNeutron {
    /// Reads all pages of a list of ports.
    fn pages<T: DeserializeOwned>(
        &self,
        mut query: Vec<(&str, String)>,
        id: impl Fn(&T) -> &Id,
    ) -> Result<Vec<T>, NeutronError> {
        query.push(("limit", PAGE.to_string()));
        let mut ports: Vec<T> = Vec::new();
        for _ in 0..PAGES {
            let mut page = query.clone();
            page.extend(ports.last().map(|last| ("marker", id(last).to_string())));
            let answer = self.ask("/v2.0/ports", &Question::Get(&page))?;
            let has_more = answer["ports_links"]
                .as_array()
                .into_iter()
                .flatten()
                .any(|link| link["rel"] == "next");
            let listed: Vec<T> = self.object(answer, "ports")?;
            let is_last = listed.is_empty() || !has_more;
            ports.extend(listed);
            if is_last {
                return Ok(ports);
            }
        }
        Err(self.nonsense(&"the list has too many pages"))
    }

    /// A subnet or a network, from the cache if it is recent.
    fn cached_fact<T: DeserializeOwned>(&self, kind: &str, id: &Id) -> Result<T, NeutronError> {
        // Another cloud may have another object with the same id.
        let path = self.cache_path(&format!("{kind}-{id}.json"));
        let now = Timestamp::now();
        if let Some(FactCache { at, answer }) = path.as_deref().and_then(kept::read)
            && (SignedDuration::ZERO..FRESH).contains(&now.duration_since(at))
            && let Ok(known) = object(answer, kind)
        {
            return Ok(known);
        }
        let answer = self.ask(&format!("/v2.0/{kind}s/{id}"), &Question::Get(&[]))?;
        let known = self.object(answer.clone(), kind)?;
        if let Some(path) = path {
            // If this fails, the next run asks again.
            let _ = kept::keep(&path, &FactCache { at: now, answer });
        }
        Ok(known)
    }
}

fn written(port: &NewPort<'_>) -> Value {
    let NewPort {
        network,
        owner,
        name,
        device,
        description,
        mac,
        wanted,
        security_groups,
    } = port;
    let mut body = json!({
        "network_id": network, "name": name, "device_id": device, "device_owner": owner,
        "description": description, "admin_state_up": true,
    });
    if let Some(mac) = mac {
        body["mac_address"] = mac.as_str().into();
    }
    if !wanted.is_empty() {
        let wanted = wanted.iter().map(|wanted| match wanted {
            Wanted::Subnet(subnet) => json!({"subnet_id": subnet}),
            Wanted::Address(address) => json!({"ip_address": address.to_string()}),
        });
        body["fixed_ips"] = wanted.collect();
    }
    if !security_groups.is_empty() {
        body["security_groups"] = json!(security_groups);
    }
    body
}

/// Reads one object of an answer.
pub(super) fn object<T: DeserializeOwned>(
    mut answer: Value,
    key: &str,
) -> Result<T, serde_json::Error> {
    serde_json::from_value(answer.get_mut(key).map(Value::take).unwrap_or_default())
}
