//! Waits until LB-IPAM has seen all pools and Services. It takes each of the two kinds in order, so it
//! has seen everything once it has answered a pool and a Service that came later.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::control_plane::ControlPlane;
use crate::error::Result;
use crate::operator::Operator;
use crate::wait::{PATIENCE, wait_until};

const POOLS: &str = "/apis/cilium.io/v2alpha1/ciliumloadbalancerippools";
const SERVICES: &str = "/api/v1/services";
const MARKS: &str = "/api/v1/namespaces/default/services";
/// Starts the names of marks.
const MARK: &str = "mark";
/// Conditions that every operator writes once it has seen the object.
const SEEN: [&str; 2] = ["cilium.io/IPsTotal", "cilium.io/IPAMRequestSatisfied"];

/// Pools and Services of its own that it makes in one control plane. They are called `mark…`.
#[derive(Debug, Default)]
pub struct Marks {
    made: usize,
}

impl Marks {
    /// Makes a pool that stays, so that the operator never falls asleep.
    ///
    /// # Errors
    /// Fails if the server says no.
    pub fn keep_awake(&self, plane: &ControlPlane) -> Result<()> {
        plane.create(POOLS, &pool(MARK, 0)).map(drop)
    }

    /// Waits until the operator has seen everything so far, and all that it wrote itself.
    ///
    /// # Errors
    /// Fails if the server says no, or the operator ends or does not answer.
    pub fn settle(&mut self, plane: &ControlPlane, operator: &mut Operator) -> Result<()> {
        let mut last = BTreeMap::new();
        wait_until("the operator to settle", PATIENCE, || {
            self.mark(plane, operator)?;
            let now = versions(plane)?;
            let is_settled = now.as_ref() == Some(&last);
            last = now.unwrap_or_default();
            Ok(is_settled.then_some(()))
        })
    }

    fn mark(&mut self, plane: &ControlPlane, operator: &mut Operator) -> Result<()> {
        self.made += 1;
        let name = format!("{MARK}-{}", self.made);
        let (of_pool, of_service) = (format!("{POOLS}/{name}"), format!("{MARKS}/{name}"));
        let mut is_seen = |path: &str| {
            operator.check_running()?;
            Ok(has_been_seen(&plane.get(path)?).then_some(()))
        };
        plane.create(MARKS, &service(&name))?;
        wait_until("the mark's Service", PATIENCE, || is_seen(&of_service))?;
        plane.create(POOLS, &pool(&name, 1 + self.made % 250))?;
        wait_until("the mark's pool", PATIENCE, || is_seen(&of_pool))?;
        plane.delete(&of_service)?;
        plane.delete(&of_pool).map(drop)
    }
}

fn service(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Service",
        "metadata": {"name": name, "labels": {MARK: name}},
        "spec": {"type": "LoadBalancer", "ports": [{"port": 80}]}})
}

fn pool(name: &str, third: usize) -> Value {
    json!({"apiVersion": "cilium.io/v2alpha1", "kind": "CiliumLoadBalancerIPPool",
        "metadata": {"name": name},
        "spec": {"blocks": [{"cidr": format!("10.99.{third}.0/30")}],
            "serviceSelector": {"matchLabels": {MARK: name}}}})
}

fn has_been_seen(object: &Value) -> bool {
    let conditions = object["status"]["conditions"].as_array();
    let mut conditions = conditions.into_iter().flatten();
    conditions.any(|condition| SEEN.iter().any(|kind| condition["type"] == *kind))
}

/// The resourceVersion of every pool and Service but marks. `None` while a Service lacks the
/// operator's condition: the operator retries a write that failed.
fn versions(plane: &ControlPlane) -> Result<Option<BTreeMap<String, String>>> {
    let services = plane.list(SERVICES)?;
    let is_served = |service: &&Value| service["spec"]["type"] == "LoadBalancer";
    let mut ours = services.iter().filter(is_served);
    if !ours.all(has_been_seen) {
        return Ok(None);
    }
    let text = |object: &Value, key: &str| {
        let text = object["metadata"][key].as_str();
        text.unwrap_or_default().to_owned()
    };
    let pools = plane.list(POOLS)?;
    let all = pools.iter().chain(&services).map(|object| {
        let key = format!("{}/{}", text(object, "namespace"), text(object, "name"));
        (key, text(object, "resourceVersion"))
    });
    let is_mark = |key: &str| key.split('/').any(|part| part.starts_with(MARK));
    Ok(Some(all.filter(|(key, _)| !is_mark(key)).collect()))
}
