//! The kubelets of the two nodes, and the DaemonSet of Cilium's agents. Only behaviour that affects
//! a migration is implemented:
//! - A Pod that is bound to a node gets its network from the node's real agent. A deleted Pod loses
//!   its network.
//! - An agent whose Pod is deleted starts again with the settings of `cilium-config` and of the
//!   `CiliumNodeConfig`s.
//!
//! It knows nothing about pools or migrations. Containers do not run.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use serde_json::{Value, json};

use crate::agent_nodes::{AgentNode, AgentNodes, PodName};
use crate::client::Client;
use crate::control_plane::ControlPlane;
use crate::error::{Error, Result};
use crate::oracle::settings_of;
use crate::programs::Programs;

const LOOK_EVERY: Duration = Duration::from_secs(1);
const AGENTS: &str = "/api/v1/namespaces/kube-system/pods";
const DAEMON_SET: &str = "/apis/apps/v1/namespaces/kube-system/daemonsets/cilium";

/// Both kubelets. Dropping this value stops them; the agents and the Pods' networks stay.
#[derive(Debug)]
pub struct AgentKubelets {
    ends: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

/// One kubelet.
struct Kubelet {
    nodes: Arc<AgentNodes>,
    index: usize,
    client: Client,
    programs: Programs,
    kubeconfig: PathBuf,
    /// UIDs of the Pods that were started.
    started: BTreeSet<String>,
    /// UIDs of the agents' Pods that the kubelet reported as ready.
    ready: BTreeSet<String>,
}

impl AgentKubelets {
    /// Starts both kubelets. The cluster must have the Nodes, and the DaemonSet `cilium` in
    /// `kube-system`.
    #[must_use]
    pub fn start(nodes: &Arc<AgentNodes>, plane: &ControlPlane, programs: &Programs) -> Self {
        let ends = Arc::new(AtomicBool::new(false));
        let thread = |index| {
            let mut kubelet = Kubelet {
                nodes: nodes.clone(),
                index,
                client: plane.client().clone(),
                programs: programs.clone(),
                kubeconfig: plane.kubeconfig().to_owned(),
                started: BTreeSet::new(),
                ready: BTreeSet::new(),
            };
            let seen = ends.clone();
            std::thread::spawn(move || {
                while !seen.load(Ordering::Relaxed) {
                    if let Err(error) = kubelet.look() {
                        eprintln!("testbed: the kubelet of {}: {error}", kubelet.node().name());
                    }
                    std::thread::sleep(LOOK_EVERY);
                }
            })
        };
        let threads = vec![thread(0), thread(1)];
        Self { ends, threads }
    }
}

impl Drop for AgentKubelets {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

impl Kubelet {
    fn node(&self) -> &AgentNode {
        &self.nodes.nodes[self.index]
    }

    /// Looks at every Pod of the node once, at the agent's first: the others need the agent.
    fn look(&mut self) -> Result<()> {
        let name = self.node().name().to_owned();
        let path = format!("/api/v1/pods?fieldSelector=spec.nodeName%3D{name}");
        let mut pods = self.client.list(&path)?;
        if !pods.iter().any(is_agent) {
            self.create_agent(&name)?;
        }
        pods.sort_by_key(|pod| !is_agent(pod));
        for pod in &pods {
            // What failed is tried again, as kubelets do.
            if let Err(error) = self.attend(pod) {
                eprintln!("testbed: the kubelet of {name}: {error}");
            }
        }
        Ok(())
    }

    fn attend(&mut self, pod: &Value) -> Result<()> {
        let is_ending = pod["metadata"].get("deletionTimestamp").is_some();
        let is_started = self.started.contains(text(pod, "/metadata/uid"));
        match (is_ending, is_started) {
            (true, _) => self.end(pod),
            (false, false) => self.begin(pod),
            (false, true) if is_agent(pod) => self.probe(pod),
            (false, true) => Ok(()),
        }
    }

    /// As the DaemonSet's controller does.
    fn create_agent(&self, node: &str) -> Result<()> {
        let set = self.client.get(DAEMON_SET)?;
        let owner = json!({"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "cilium",
            "uid": set["metadata"]["uid"], "controller": true});
        let template = &set["spec"]["template"];
        let mut spec = template["spec"].clone();
        spec["nodeName"] = json!(node);
        spec["tolerations"] = json!([{"operator": "Exists"}]);
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "spec": spec, "metadata": {"generateName": "cilium-",
            "labels": template["metadata"]["labels"], "ownerReferences": [owner]}});
        self.client.create(AGENTS, &pod).map(drop)
    }

    fn begin(&mut self, pod: &Value) -> Result<()> {
        let addresses = if is_agent(pod) {
            let name = self.node().name().to_owned();
            let mut all = settings_of(&self.programs, &self.kubeconfig, &[&name])?;
            self.node()
                .start_agent(&all.remove(&name).unwrap_or_default())?;
            Vec::new()
        } else {
            vec![self.node().add_pod(pod_name(pod))?]
        };
        self.started.insert(text(pod, "/metadata/uid").to_owned());
        let is_ready = if is_agent(pod) { "False" } else { "True" };
        self.write_status(pod, is_ready, &addresses)
    }

    fn probe(&mut self, pod: &Value) -> Result<()> {
        let uid = text(pod, "/metadata/uid");
        if self.ready.contains(uid) {
            return Ok(());
        }
        match self.node().agent_is_ready() {
            Ok(true) => {}
            Ok(false) => return Ok(()),
            Err(error) => {
                // Its container is started again.
                self.started.remove(uid);
                return Err(error);
            }
        }
        self.write_status(pod, "True", &[])?;
        self.ready.insert(uid.to_owned());
        Ok(())
    }

    fn end(&mut self, pod: &Value) -> Result<()> {
        let uid = text(pod, "/metadata/uid");
        match (is_agent(pod), self.started.contains(uid)) {
            (_, false) => {}
            (true, true) => self.node().stop_agent()?,
            (false, true) => self.node().delete_pod(pod_name(pod))?,
        }
        self.started.remove(uid);
        let name = pod_name(pod);
        let path = format!(
            "/api/v1/namespaces/{}/pods/{}?gracePeriodSeconds=0",
            name.namespace, name.name
        );
        match self.client.delete(&path) {
            Err(Error::Status { status: 404, .. }) => Ok(()),
            other => other.map(drop),
        }
    }

    fn write_status(&self, pod: &Value, ready: &str, addresses: &[String]) -> Result<()> {
        let name = pod_name(pod);
        let host = self.node().address();
        let own = addresses.first().map_or(host, String::as_str);
        let status = json!({"status": {"phase": "Running", "hostIP": host, "podIP": own, "podIPs": [{"ip": own}],
            "conditions": [{"type": "Ready", "status": ready}]}});
        let path = format!(
            "/api/v1/namespaces/{}/pods/{}/status",
            name.namespace, name.name
        );
        self.client.patch(&path, &status).map(drop)
    }
}

fn is_agent(pod: &Value) -> bool {
    pod["metadata"]["labels"]["k8s-app"] == "cilium"
}

fn pod_name(pod: &Value) -> PodName<'_> {
    PodName {
        namespace: text(pod, "/metadata/namespace"),
        name: text(pod, "/metadata/name"),
        uid: text(pod, "/metadata/uid"),
    }
}

fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object
        .pointer(pointer)
        .and_then(Value::as_str)
        .unwrap_or_default()
}
