//! Neutron and Keystone by HTTP. Every answer is awaited for a bounded time, and no secret is ever
//! shown.

mod ask;
mod keystone;
mod objects;
mod pairs;
mod rest;
mod secrets;

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::http::ask::Question;
use crate::http::objects::{WrittenNetwork, WrittenSubnet, object};
use crate::{
    Network, NetworkFacts, Neutron, NeutronError, NewPort, Patience, Port, PortFilter, Subnet,
    Verdict, Wanted,
};
use ipam_core::neutron::Id;
use private_files::kept;
use retry::Backoff;

pub use ask::HttpNeutron;
pub use ask::get_json;
pub(super) use keystone::Session;

/// Ports of one page of a list.
const PAGE: usize = 500;

/// Pages that are read at most: a server that always has another one is not believed.
const PAGES: usize = 100;

/// The fields of a port that are read.
const FIELDS: [&str; 9] = [
    "id",
    "network_id",
    "device_id",
    "device_owner",
    "name",
    "description",
    "mac_address",
    "fixed_ips",
    "created_at",
];

/// How long subnets and networks are believed to be as they were.
const FRESH: SignedDuration = SignedDuration::from_mins(10);

/// Pauses before something is asked again. The last figure is the longest that a server's own wish
/// is kept to.
pub(super) const BACKOFF: Backoff =
    Backoff::new(Duration::from_millis(200), Duration::from_secs(2))
        .obeying(Duration::from_secs(10));

impl Patience for HttpNeutron {
    fn again(&self, tries: u32) -> Verdict {
        match self.pause(tries) {
            Some(pause) => {
                std::thread::sleep(pause);
                Verdict::Again
            }
            None => Verdict::Over,
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
        self.lately::<WrittenSubnet>("subnet", id)
            .map(WrittenSubnet::subnet)
    }

    fn network(&self, id: &Id) -> Result<Network, NeutronError> {
        self.lately::<WrittenNetwork>("network", id)
            .map(|WrittenNetwork { mtu }| Network { mtu })
    }
}

/// An answer of some time ago.
#[derive(Serialize, Deserialize)]
struct Lately {
    at: Timestamp,
    answer: Value,
}

impl HttpNeutron {
    /// All ports of a list, page by page.
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
        Err(self.nonsense(&"a list without an end"))
    }

    /// What Neutron said of a subnet or a network lately.
    fn lately<T: DeserializeOwned>(&self, kind: &str, id: &Id) -> Result<T, NeutronError> {
        // Another cloud may have something else of this id.
        let path = self.kept(&format!("{kind}-{id}.json"));
        let now = Timestamp::now();
        if let Some(Lately { at, answer }) = path.as_deref().and_then(kept::read)
            && (SignedDuration::ZERO..FRESH).contains(&now.duration_since(at))
            && let Ok(known) = object(answer, kind)
        {
            return Ok(known);
        }
        let answer = self.ask(&format!("/v2.0/{kind}s/{id}"), &Question::Get(&[]))?;
        let known = self.object(answer.clone(), kind)?;
        if let Some(path) = path {
            // Without it the next run asks again.
            let _ = kept::keep(&path, &Lately { at: now, answer });
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
