//! A node's containers and sandboxes, by containerd's command line.

use super::{CONTAINERD_NAMESPACE, ContainerNode, Output, SOCKET};
use crate::error::{Error, Result};
use crate::programs::Program;

impl ContainerNode {
    /// Runs containerd's command line; what it prints.
    ///
    /// # Errors
    /// Fails if it does.
    pub fn ctr(&self, words: &str) -> Result<String> {
        let output = self.run_ctr(words)?;
        if output.code == 0 {
            return Ok(output.stdout);
        }
        Err(Error::Failed {
            program: format!("ctr {words}"),
            stderr: output.stderr,
        })
    }

    /// Runs a line of shell in the container of a running Pod.
    ///
    /// # Errors
    /// Fails if the Pod has no container, or if it cannot be started.
    pub fn exec(&self, pod: &str, line: &str) -> Result<Output> {
        let container = self.container(pod)?;
        // Quotes in the line are the container's.
        let quoted = line.replace('\'', r"'\''");
        let exec = format!("tasks exec --exec-id {container}-exec {container} sh -c '{quoted}'");
        self.run_ctr(&exec)
    }

    fn run_ctr(&self, words: &str) -> Result<Output> {
        let ctr = self.programs.path(Program::Ctr)?.display();
        let line = format!("{ctr} --address {SOCKET} --namespace {CONTAINERD_NAMESPACE} {words}");
        self.shell(&line)
    }

    /// The id of the sandbox of a Pod, the newest if there are several.
    ///
    /// # Errors
    /// Fails if the Pod has none.
    pub fn sandbox(&self, pod: &str) -> Result<String> {
        self.newest(pod, "sandbox")
    }

    /// The id of the container of a Pod.
    fn container(&self, pod: &str) -> Result<String> {
        self.newest(pod, "container")
    }

    /// Of a kind that containerd labels.
    fn newest(&self, pod: &str, kind: &str) -> Result<String> {
        let filter = format!(
            r#"labels."io.cri-containerd.kind"=={kind},labels."io.kubernetes.pod.name"=={pod}"#
        );
        let listed = self.ctr(&format!("containers list --quiet '{filter}'"))?;
        let mut newest = None;
        for id in listed.lines() {
            let info = self.ctr(&format!("containers info {id}"))?;
            let info: serde_json::Value = serde_json::from_str(&info)
                .map_err(|why| Error::unreadable(format!("container {id}"), why))?;
            let created = info["CreatedAt"].as_str().unwrap_or_default().to_owned();
            newest = newest.max(Some((created, id.to_owned())));
        }
        let missing = || Error::unreadable(format!("the {kind} of {pod}"), "there is none");
        newest.map(|(_, id)| id).ok_or_else(missing)
    }

    /// The process of a Pod's container, by its number on the node.
    ///
    /// # Errors
    /// Fails if the Pod's container does not run.
    pub fn pid(&self, pod: &str) -> Result<u32> {
        let container = self.container(pod)?;
        let listed = self.ctr("tasks list")?;
        let is_it = |line: &&str| line.starts_with(&container);
        let line = listed.lines().find(is_it);
        let pid = line.and_then(|line| line.split_whitespace().nth(1)?.parse().ok());
        pid.ok_or_else(|| Error::unreadable(format!("the tasks of {pod}"), listed))
    }
}
