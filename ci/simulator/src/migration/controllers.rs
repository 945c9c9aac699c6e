//! The controllers of Kubernetes: DaemonSets, ReplicaSet, scheduler, garbage collection, PodGC, and
//! the Eviction API with its budget.

use serde_json::{Value, json};

use super::machines::Power;
use super::world::{Kind, State};
use ipam_cluster::WriteError;

/// Pods of the application, and how many its budget wants.
pub(super) const REPLICAS: usize = 4;
const MIN_AVAILABLE: usize = 3;

/// How long PodGC leaves Pods of a Node that is gone
/// (`pkg/controller/podgc/gc_controller.go` @ 1.36).
const QUARANTINE_SECONDS: i64 = 40;

/// A Pod as its controller creates it.
pub(super) fn pod(kind: &str, name: &str, node: Option<&str>) -> Value {
    let (namespace, labels) = match kind {
        "agent" => ("kube-system", json!({"k8s-app": "cilium"})),
        "logger" => ("kube-system", json!({"app": "logger"})),
        _ => ("shop", json!({"app": "web"})),
    };
    let owner = match kind {
        "web" => "ReplicaSet",
        _ => "DaemonSet",
    };
    let mut object = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "namespace": namespace, "name": name, "labels": labels,
            "ownerReferences": [{"kind": owner, "controller": true}],
        },
        "spec": {}, "status": {"phase": "Pending"},
    });
    if kind == "agent" {
        object["spec"]["hostNetwork"] = json!(true);
    }
    if let Some(node) = node {
        object["spec"]["nodeName"] = json!(node);
    }
    object
}

pub(super) fn key_of(pod: &Value) -> String {
    let text = |key: &str| pod["metadata"][key].as_str().unwrap_or_default().to_owned();
    format!("{}/{}", text("namespace"), text("name"))
}

pub(super) fn is_ending(pod: &Value) -> bool {
    !pod["metadata"]["deletionTimestamp"].is_null()
}

fn is_ready(pod: &Value) -> bool {
    pod["status"]["conditions"][0]["status"] == "True"
}

impl State {
    /// One round of a controller.
    pub(super) fn controllers_work(&mut self) {
        match self.rng.u32(..6) {
            0 | 1 => self.daemon_sets(),
            2 => self.replica_set(),
            3 => self.schedule_pods(),
            4 => self.garbage_collection(),
            _ => self.pod_gc(),
        }
    }

    fn daemon_sets(&mut self) {
        for (kind, label, value) in [("agent", "k8s-app", "cilium"), ("logger", "app", "logger")] {
            let pods = self.all(Kind::Pod);
            for node in self.names(Kind::Node) {
                let has = pods.iter().any(|(_, pod)| {
                    pod["metadata"]["labels"][label] == value
                        && pod["spec"]["nodeName"] == node.as_str()
                });
                if !has && self.chance(600) {
                    let name = format!("{kind}-{}", self.fresh());
                    let pod = pod(kind, &name, Some(&node));
                    let _ = self.create(Kind::Pod, &key_of(&pod), pod);
                }
            }
        }
    }

    fn replica_set(&mut self) {
        let web = self.web();
        let active = web.iter().filter(|pod| !is_ending(pod)).count();
        for _ in active..REPLICAS {
            let name = format!("web-{}", self.fresh());
            let pod = pod("web", &name, None);
            let _ = self.create(Kind::Pod, &key_of(&pod), pod);
        }
    }

    fn web(&self) -> Vec<Value> {
        let pods = self.all(Kind::Pod).into_iter();
        pods.filter(|(_, pod)| pod["metadata"]["labels"]["app"] == "web")
            .map(|(_, pod)| (*pod).clone())
            .collect()
    }

    /// A node is ready for Pods only with a network, so after its agent has read a block.
    ///
    /// Binds what it decided in the round before, as a scheduler does that sees a cordon late.
    fn schedule_pods(&mut self) {
        for (pod, node) in std::mem::take(&mut self.books.bindings) {
            if self.get(Kind::Node, &node).is_some() {
                let _ = self.patch(Kind::Pod, &pod, &json!({"spec": {"nodeName": node}}));
            }
        }
        let nodes: Vec<String> = self
            .all(Kind::Node)
            .into_iter()
            .filter(|(name, node)| {
                let machine = self.machines.get(name);
                node["spec"]["unschedulable"] != true
                    && machine.is_some_and(|machine| {
                        machine.power == Power::On && !machine.in_use.is_empty()
                    })
            })
            .map(|(name, _)| name)
            .collect();
        for (key, pod) in self.all(Kind::Pod) {
            if pod["spec"]["nodeName"].is_null() && !is_ending(&pod) && !nodes.is_empty() {
                let node = nodes[self.rng.usize(..nodes.len())].clone();
                match self.chance(self.books.late_bindings) {
                    true => self.books.bindings.push((key, node)),
                    false => {
                        let _ = self.patch(Kind::Pod, &key, &json!({"spec": {"nodeName": node}}));
                    }
                }
            }
        }
    }

    /// Deletes what belongs to a Node that is gone.
    fn garbage_collection(&mut self) {
        let owned = [Kind::CiliumNode, Kind::NodeConfig].map(|kind| (kind, self.all(kind)));
        for (kind, objects) in owned {
            for (name, object) in objects {
                let owner = &object["metadata"]["ownerReferences"][0];
                let node = self.get(Kind::Node, owner["name"].as_str().unwrap_or_default());
                let is_there = node.is_some_and(|node| node["metadata"]["uid"] == owner["uid"]);
                if !owner.is_null() && !is_there && self.chance(300) {
                    self.remove(kind, &name);
                }
            }
        }
    }

    fn pod_gc(&mut self) {
        let now = self.now.as_second();
        for (key, pod) in self.all(Kind::Pod) {
            let Some(node) = pod["spec"]["nodeName"].as_str() else {
                continue;
            };
            if self.get(Kind::Node, node).is_some() {
                self.books.gone_since.remove(node);
                continue;
            }
            let since = *self.books.gone_since.entry(node.to_owned()).or_insert(now);
            if now - since > QUARANTINE_SECONDS {
                self.remove(Kind::Pod, &key);
            }
        }
    }

    /// Deletes a Pod gracefully: its kubelet ends it.
    pub(super) fn delete_pod(&mut self, key: &str, uid: &str) -> Result<(), WriteError> {
        let Some(pod) = self.get(Kind::Pod, key) else {
            return Err(WriteError::Superseded("not found".to_owned()));
        };
        if !uid.is_empty() && pod["metadata"]["uid"] != uid {
            return Err(WriteError::Superseded(
                "another Pod has its name".to_owned(),
            ));
        }
        if pod["spec"]["nodeName"].is_null() {
            self.remove(Kind::Pod, key);
        } else if !is_ending(&pod) {
            let at = self.now.to_string();
            let patch = json!({"metadata": {"deletionTimestamp": at}});
            let _ = self.patch(Kind::Pod, key, &patch);
        }
        Ok(())
    }

    /// The Eviction API: a Pod that is not ready does not count
    /// (`pkg/registry/core/pod/storage/eviction.go` @ 1.36, `AlwaysAllow` for Pods that are not).
    pub(super) fn evict(&mut self, key: &str, eviction: &Value) -> Result<(), WriteError> {
        let uid = eviction["deleteOptions"]["preconditions"]["uid"].as_str();
        let Some(pod) = self.get(Kind::Pod, key) else {
            return Err(WriteError::Superseded("not found".to_owned()));
        };
        let is_web = pod["metadata"]["labels"]["app"] == "web";
        let healthy = |pod: &&Value| is_ready(pod) && !is_ending(pod);
        let available = self.web().iter().filter(healthy).count();
        if is_web
            && !is_ending(&pod)
            && pod["status"]["phase"] != "Pending"
            && available <= MIN_AVAILABLE
        {
            return Err(WriteError::Refused(
                "Cannot evict pod as it would violate the pod's disruption budget.".to_owned(),
            ));
        }
        self.delete_pod(key, uid.unwrap_or_default())
    }
}
