//! The controllers which own pod CIDRs in real clusters, as peers and as opponents:
//! kube-controller-manager and cilium-operator.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::client::Client;
use crate::control_plane::{ControlPlane, SERVER_CERTIFICATE, SERVER_KEY};
use crate::error::{Error, Result};
use crate::process::{Ending, Server, free_port, with_free_ports};
use crate::programs::{CiliumVersion, Program, Programs};
use crate::wait::{PATIENCE, wait_until};

/// Registered by every operator of the versions that the testbed builds.
const OPERATOR_CRDS: [&str; 5] = [
    "ciliumendpoints.cilium.io",
    "ciliumidentities.cilium.io",
    "ciliumloadbalancerippools.cilium.io",
    "ciliumnodes.cilium.io",
    "ciliumpodippools.cilium.io",
];

const LEASE: &str =
    "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/cilium-operator-resource-lock";

const WORKLOAD_CONTROLLERS: [&str; 10] = [
    "node-lifecycle-controller",
    "taint-eviction-controller",
    "pod-garbage-collector-controller",
    "garbage-collector-controller",
    "daemonset-controller",
    "deployment-controller",
    "replicaset-controller",
    "disruption-controller",
    "namespace-controller",
    "serviceaccount-controller",
];

/// A running kube-controller-manager. Dropping it stops it.
#[derive(Debug)]
pub struct ControllerManager {
    server: Server,
}

impl ControllerManager {
    /// Starts it with these flags beside those for the connection, and waits until it is healthy.
    ///
    /// # Errors
    /// Fails if it was not built, or does not get healthy.
    pub fn start(programs: &Programs, plane: &ControlPlane, flags: &[&str]) -> Result<Self> {
        let program = programs.path(Program::KubeControllerManager)?;
        with_free_ports(|| {
            let port = free_port()?;
            let mut arguments = vec![
                format!("--kubeconfig={}", plane.kubeconfig().display()),
                "--bind-address=127.0.0.1".to_owned(),
                format!("--secure-port={port}"),
                format!("--tls-cert-file={SERVER_CERTIFICATE}"),
                format!("--tls-private-key-file={SERVER_KEY}"),
                "--leader-elect=false".to_owned(),
            ];
            arguments.extend(flags.iter().map(|&flag| flag.to_owned()));
            let name = "kube-controller-manager";
            let mut server = Server::start(name, program, &arguments, plane.folder())?;
            let url = format!("https://127.0.0.1:{port}");
            let client = Client::new(&url, &plane.certificates().authority, "")?;
            server.wait_ready(PATIENCE, || client.is_ok("/healthz"))?;
            Ok(Self { server })
        })
    }

    /// Starts it with the controllers that a node which is taken out of a cluster meets: those that
    /// mark Nodes and evict from them, collect garbage, make Pods of workloads, and keep budgets. Nodes
    /// get no pod CIDRs from it.
    ///
    /// # Errors
    /// Fails if it was not built, or does not get healthy.
    pub fn start_for_workloads(programs: &Programs, plane: &ControlPlane) -> Result<Self> {
        let controllers = format!("--controllers={}", WORKLOAD_CONTROLLERS.join(","));
        let flags = [
            controllers.as_str(),
            "--allocate-node-cidrs=false",
            "--kube-api-qps=1000",
            "--kube-api-burst=2000",
        ];
        Self::start(programs, plane, &flags)
    }

    /// The most memory that it has had so far, in MiB.
    ///
    /// # Errors
    /// Fails if it does not run.
    pub fn peak_rss_mib(&self) -> Result<f64> {
        self.server.peak_rss_mib()
    }

    /// The processor time that it has used so far, in seconds.
    ///
    /// # Errors
    /// Fails if it does not run.
    pub fn cpu_seconds(&self) -> Result<f64> {
        self.server.cpu_seconds()
    }

    /// Where its output goes.
    #[must_use]
    pub fn log(&self) -> &Path {
        self.server.log()
    }
}

/// A running cilium-operator. Dropping it stops it.
#[derive(Debug)]
pub struct Operator {
    server: Server,
}

impl Operator {
    /// Starts it with these flags beside those for the connection, and waits until it is
    /// healthy and its CRDs are established.
    ///
    /// # Errors
    /// Fails if it was not built, or does not get ready.
    pub fn start(
        programs: &Programs,
        plane: &ControlPlane,
        version: CiliumVersion,
        flags: &[&str],
    ) -> Result<Self> {
        let program = programs.path(Program::CiliumOperator(version))?;
        with_free_ports(|| {
            let api = format!("127.0.0.1:{}", free_port()?);
            let mut arguments = operator_arguments(plane, version, &api)?;
            arguments.extend(flags.iter().map(|&flag| flag.to_owned()));
            let name = format!("cilium-operator-{}", version.release());
            let mut server = Server::start(&name, program, &arguments, plane.folder())?;
            let url = format!("http://{api}");
            let client = Client::new(&url, &plane.certificates().authority, "")?;
            server.wait_ready(PATIENCE, || {
                client.is_ok("/healthz") && crds_are_established(plane)
            })?;
            Ok(Self { server })
        })
    }

    /// Starts it with a folder of settings, as `cilium-config` is mounted, and these flags. Returns its
    /// log up to a line with `started`, or its whole log if it ends before.
    ///
    /// # Errors
    /// Fails if it was not built, or does neither in time.
    pub fn log_of_start(
        programs: &Programs,
        plane: &ControlPlane,
        version: CiliumVersion,
        settings: &Path,
        flags: &[String],
        started: &str,
    ) -> Result<String> {
        let program = programs.path(Program::CiliumOperator(version))?;
        let api = format!("127.0.0.1:{}", free_port()?);
        let mut arguments = operator_arguments(plane, version, &api)?;
        // Settings alone decide.
        arguments.retain(|argument| !argument.starts_with("--enable-"));
        arguments.push(format!("--config-dir={}", settings.display()));
        arguments.extend_from_slice(flags);
        // A killed operator leaves it, and the next one waits.
        let _ = plane.delete(LEASE);
        let name = format!("cilium-operator-{}", version.release());
        let mut server = Server::start(&name, program, &arguments, plane.folder())?;
        let log = wait_until("the operator to start or end", PATIENCE, || {
            let has_ended = server.check_running().is_err();
            let log = fs::read_to_string(server.log()).map_err(Error::file(server.log()))?;
            Ok((has_ended || log.contains(started)).then_some(log))
        });
        // The next operator of this release would append to the file.
        fs::remove_file(server.log()).map_err(Error::file(server.log()))?;
        server.end_with(Ending::Killed);
        log
    }

    /// The most memory that it has had so far, in MiB.
    ///
    /// # Errors
    /// Fails if it does not run.
    pub fn peak_rss_mib(&self) -> Result<f64> {
        self.server.peak_rss_mib()
    }

    /// The processor time that it has used so far, in seconds.
    ///
    /// # Errors
    /// Fails if it does not run.
    pub fn cpu_seconds(&self) -> Result<f64> {
        self.server.cpu_seconds()
    }

    /// Fails if it has ended by itself.
    pub(crate) fn check_running(&mut self) -> Result<()> {
        self.server.check_running()
    }

    /// Where its output goes.
    #[must_use]
    pub fn log(&self) -> &Path {
        self.server.log()
    }
}

fn operator_arguments(
    plane: &ControlPlane,
    version: CiliumVersion,
    api: &str,
) -> Result<Vec<String>> {
    let mut arguments = vec![
        format!("--k8s-kubeconfig-path={}", plane.kubeconfig().display()),
        format!("--operator-api-serve-addr={api}"),
        format!(
            "--operator-prometheus-serve-addr=127.0.0.1:{}",
            free_port()?
        ),
        format!("--gops-port={}", free_port()?),
        "--identity-allocation-mode=crd".to_owned(),
        "--cluster-name=default".to_owned(),
        "--cluster-id=0".to_owned(),
        "--enable-ipv4=true".to_owned(),
    ];
    if version >= CiliumVersion::V1_19 {
        // Its default is one path for the whole machine.
        let socket = plane.folder().join("shell.sock");
        arguments.push(format!("--shell-sock-path={}", socket.display()));
    }
    Ok(arguments)
}

fn crds_are_established(plane: &ControlPlane) -> bool {
    let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let Ok(crds) = plane.list(path) else {
        return false;
    };
    let ours = |crd: &&Value| crd["spec"]["group"] == "cilium.io";
    let named = |name: &&str| crds.iter().any(|crd| crd["metadata"]["name"] == **name);
    OPERATOR_CRDS.iter().all(named) && crds.iter().filter(ours).all(is_established)
}

fn is_established(crd: &Value) -> bool {
    let conditions = crd["status"]["conditions"].as_array();
    conditions.is_some_and(|conditions| {
        conditions
            .iter()
            .any(|condition| condition["type"] == "Established" && condition["status"] == "True")
    })
}
