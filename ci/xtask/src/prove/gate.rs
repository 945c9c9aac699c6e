//! A gate in front of one user's writes of Nodes: the API server's own Priority and Fairness, which
//! answers each with 429 while the gate is shut. So an apply of that user has claimed and cannot
//! write.
//!
//! A level without any share lets one request at a time through if it rejects, and none if it
//! queues (canAccommodateSeatsLocked in
//! k8s.io/apiserver/pkg/util/flowcontrol/fairqueuing/queueset/queueset.go, v0.36.3). So it has a
//! queue of one place. A request in it is refused after a quarter of the time that a request may
//! take.

use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::{Value, json};
use testbed::{Client, ControlPlane, Options, User, wait_until};
use xtask::node;

/// The user. It is in no group that Priority and Fairness exempts.
const USER: &str = "paused";
const ROLE_BINDINGS: &str = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";
const LEVELS: &str = "/apis/flowcontrol.apiserver.k8s.io/v1/prioritylevelconfigurations";
const FLOWS: &str = "/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas";
/// A quarter of it is the longest that a write waits to be refused.
const REQUEST_TIMEOUT: &str = "--request-timeout=8s";
/// A table with a line for each priority level.
const DUMP: &str = "/debug/api_priority_and_fairness/dump_priority_levels";
const REFUSALS: [&str; 2] = ["RejectedRequests", "TimedoutRequests"];
/// The server reads its configuration from a cache.
const LIMIT: Duration = Duration::from_secs(30);

/// The gate. It is open at the start.
pub struct Gate {
    user: Client,
}

impl Gate {
    /// A control plane must be started with these options to have one.
    pub fn options(options: Options) -> Options {
        let apiserver_flags = [options.apiserver_flags, vec![REQUEST_TIMEOUT.to_owned()]].concat();
        Options {
            users: vec![User::named(USER)],
            apiserver_flags,
            ..options
        }
    }

    /// Gives the user all rights, and creates a priority level that serves no request.
    pub fn new(plane: &ControlPlane) -> Result<Self> {
        plane.create(ROLE_BINDINGS, &role_binding())?;
        plane.create(LEVELS, &level())?;
        let user = plane.client_for(USER)?;
        wait_until("the user's rights", LIMIT, || {
            Ok(user.list(node::NODES).ok())
        })?;
        Ok(Self { user })
    }

    /// The kubeconfig of the user that has to pass the gate.
    pub fn kubeconfig(plane: &ControlPlane) -> Result<std::path::PathBuf> {
        Ok(plane.kubeconfig_for(USER)?)
    }

    /// Refuses every write of a Node by the user from now on.
    pub fn shut(&self, plane: &ControlPlane) -> Result<()> {
        plane.create(FLOWS, &flow())?;
        self.wait_for("the gate to be shut", 429)
    }

    /// Serves these writes again.
    pub fn open(&self, plane: &ControlPlane) -> Result<()> {
        plane.delete(&format!("{FLOWS}/{USER}"))?;
        self.wait_for("the gate to be open", 404)
    }

    /// The number of refused writes so far, including those of this module.
    pub fn refused(plane: &ControlPlane) -> Result<u64> {
        let table = String::from_utf8(plane.client().get_bytes(DUMP)?)?;
        let cells = |line: &str| {
            line.split(',')
                .map(|cell| cell.trim().to_owned())
                .collect::<Vec<_>>()
        };
        let mut lines = table.lines().map(cells);
        let head = lines
            .next()
            .context("the table of priority levels is empty")?;
        let line = lines
            .find(|line| line[0] == USER)
            .context("the table has no line for the gate's level")?;
        let numbers = head
            .iter()
            .zip(&line)
            .filter(|(name, _)| REFUSALS.contains(&name.as_str()));
        numbers
            .map(|(_, number)| {
                number
                    .parse::<u64>()
                    .context("a number of refusals cannot be read")
            })
            .sum()
    }

    /// Writes to a Node that does not exist: the gate stands before the search for it.
    fn wait_for(&self, what: &str, status: u16) -> Result<()> {
        let nowhere = format!("{}/nowhere?timeout=400ms", node::NODES);
        Ok(wait_until(what, LIMIT, || {
            let answer = self
                .user
                .patch(&nowhere, &json!({"metadata": {"labels": {"a": "b"}}}));
            Ok(answer
                .is_err_and(|error| error.status() == Some(status))
                .then_some(()))
        })?)
    }
}

fn role_binding() -> Value {
    let group = "rbac.authorization.k8s.io";
    json!({"apiVersion": format!("{group}/v1"), "kind": "ClusterRoleBinding", "metadata": {"name": USER},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"apiGroup": group, "kind": "User", "name": USER}]})
}

fn level() -> Value {
    json!({"apiVersion": "flowcontrol.apiserver.k8s.io/v1", "kind": "PriorityLevelConfiguration",
        "metadata": {"name": USER},
        "spec": {"type": "Limited", "limited": {"nominalConcurrencyShares": 0, "borrowingLimitPercent": 0,
            "limitResponse": {"type": "Queue", "queuing": {"queues": 1, "handSize": 1, "queueLengthLimit": 1}}}}})
}

fn flow() -> Value {
    let patches = json!({"verbs": ["patch"], "apiGroups": [""], "resources": ["nodes"], "clusterScope": true});
    json!({"apiVersion": "flowcontrol.apiserver.k8s.io/v1", "kind": "FlowSchema", "metadata": {"name": USER},
        // Before all that come with the server, but for those of its own components.
        "spec": {"matchingPrecedence": 100, "priorityLevelConfiguration": {"name": USER},
            "rules": [{"subjects": [{"kind": "User", "user": {"name": USER}}], "resourceRules": [patches]}]}})
}
