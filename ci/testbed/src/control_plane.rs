//! A Kubernetes control plane: etcd and kube-apiserver, with RBAC, on loopback.
//!
//! etcd listens on Unix sockets in the run's own folder, so no other test can reach it by
//! mistake; the API server's certificate comes from an authority of its own, so a client
//! cannot mistake another run's server for this one either.

mod reuse;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::certificates::Certificates;
use crate::cilium::install_crds;
use crate::client::Client;
use crate::error::{Error, Result};
use crate::folder::RunFolder;
use crate::kubeconfig::kubeconfig;
use crate::process::{Ending, Server, free_port, with_free_ports};
use crate::programs::{Program, Programs};
use crate::snapshot::{Revision, Snapshot};
use crate::wait::{PATIENCE, wait_until};

pub use reuse::BorrowedControlPlane;

const ADMIN: &str = "testbed-admin";
// Files in the run's folder, which is the servers' working directory.
pub(crate) const SERVER_CERTIFICATE: &str = "server.crt";
pub(crate) const SERVER_KEY: &str = "server.key";
const ACCOUNT_KEY: &str = "service-account.key";
const ACCOUNT_PUBLIC_KEY: &str = "service-account.pub";
const TOKENS: &str = "tokens.csv";
pub(crate) const ETCD_DATA: &str = "etcd";
/// etcd requires addresses to advertise, but a single member has no peer.
pub(crate) const NO_PEER: &str = "http://127.0.0.1:1";
/// A documentation address: loopback is refused, and a test in a network namespace has no other.
const ADVERTISED: &str = "192.0.2.1";

/// A user that the API server knows by a token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct User {
    /// What RBAC bindings call it.
    pub name: String,
    /// Its groups; `system:authenticated` comes by itself.
    pub groups: Vec<String>,
}

impl User {
    /// A user in no group, and so with no rights until a test binds some.
    #[must_use]
    pub fn named(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            groups: Vec::new(),
        }
    }
}

/// How a control plane is started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// More flags for kube-apiserver; they win over those given by itself.
    pub apiserver_flags: Vec<String>,
    /// One range, or two with a comma for dual-stack.
    pub service_cluster_ip_range: String,
    /// Users beside the administrator.
    pub users: Vec<User>,
    /// The release of Cilium whose CRDs it serves from its start, such as `1.19.3`.
    pub crds: Option<String>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            apiserver_flags: Vec::new(),
            service_cluster_ip_range: "10.96.0.0/16".to_owned(),
            users: Vec::new(),
            crds: None,
        }
    }
}

/// A running control plane. Dropping it stops the API server, then etcd, and removes all
/// they wrote.
#[derive(Debug)]
pub struct ControlPlane {
    // Dropped in this order.
    apiserver: Server,
    etcd: Server,
    admin: Client,
    server_url: String,
    certificates: Certificates,
    tokens: BTreeMap<String, String>,
    kubeconfig: PathBuf,
    folder: RunFolder,
}

impl ControlPlane {
    /// Starts etcd and kube-apiserver and waits until the server is ready and has its
    /// usual namespaces.
    ///
    /// # Errors
    /// Fails if a program is missing or does not get ready.
    pub fn start(programs: &Programs, options: Options) -> Result<Self> {
        let folder = RunFolder::new()?;
        let certificates = Certificates::new()?;
        let tokens = write_inputs(&folder, &certificates, &options.users)?;
        let etcd = start_etcd(programs, folder.path())?;
        let token = &tokens[ADMIN];
        let client_at = |url: &str| Client::new(url, &certificates.authority, token);
        let (apiserver, server_url) =
            start_apiserver(programs, folder.path(), &options, client_at)?;
        let admin = client_at(&server_url)?;
        let text = kubeconfig(&server_url, &certificates.authority, token);
        let kubeconfig = folder.write("admin.kubeconfig", &text)?;
        let plane = Self {
            apiserver,
            etcd,
            admin,
            server_url,
            certificates,
            tokens,
            kubeconfig,
            folder,
        };
        if let Some(release) = &options.crds {
            install_crds(&plane, release)?;
        }
        Ok(plane)
    }

    /// Ends kube-apiserver, starts it again on the same port, and waits until it is ready.
    ///
    /// # Errors
    /// Fails if it does not get ready again.
    pub fn restart_apiserver(&mut self, ending: Ending) -> Result<()> {
        self.apiserver.restart(ending)?;
        self.wait_ready()
    }

    /// Ends etcd, starts it again on the same data, and waits until the API server can use it.
    ///
    /// # Errors
    /// Fails if the API server does not get ready again.
    pub fn restart_etcd(&mut self, ending: Ending) -> Result<()> {
        self.etcd.restart(ending)?;
        self.wait_ready()
    }

    /// Saves a snapshot of etcd while it runs.
    ///
    /// # Errors
    /// Fails if `etcdctl` was not built or fails.
    pub fn save_snapshot(&self, programs: &Programs) -> Result<Snapshot> {
        Snapshot::save(programs, self.folder.path())
    }

    /// Ends kube-apiserver and etcd, restores a snapshot, and starts both again on it, as one does
    /// after a disaster. `while_down` runs before they start. Returns the keys of all objects whose
    /// last writes are lost.
    ///
    /// # Errors
    /// Fails if `etcdutl` was not built or fails, or the API server does not get ready again.
    pub fn restore(
        &mut self,
        programs: &Programs,
        snapshot: &Snapshot,
        revision: Revision,
        while_down: impl FnOnce(),
    ) -> Result<BTreeSet<String>> {
        self.apiserver.end(Ending::Terminated);
        let folder = self.folder.path();
        let lost = snapshot.lost_keys(programs, folder)?;
        self.etcd.end(Ending::Terminated);
        snapshot.restore(programs, self.folder.path(), revision)?;
        while_down();
        self.etcd.start_again()?;
        self.apiserver.start_again()?;
        self.wait_ready()?;
        Ok(lost)
    }

    /// Restores a snapshot under a kube-apiserver that goes on running, as one must not.
    ///
    /// # Errors
    /// Fails if `etcdutl` was not built or fails, or the API server does not get ready again.
    pub fn restore_under_apiserver(
        &mut self,
        programs: &Programs,
        snapshot: &Snapshot,
        revision: Revision,
    ) -> Result<()> {
        self.etcd.end(Ending::Terminated);
        snapshot.restore(programs, self.folder.path(), revision)?;
        self.etcd.start_again()?;
        self.wait_ready()
    }

    /// The kubeconfig file of the administrator, who may do anything.
    #[must_use]
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// Writes the kubeconfig file of one of [`Options::users`].
    ///
    /// # Errors
    /// Fails if there is no such user.
    pub fn kubeconfig_for(&self, user: &str) -> Result<PathBuf> {
        self.write_kubeconfig(user, self.token(user)?)
    }

    /// Writes the kubeconfig file of a ServiceAccount that exists, with a real token of it.
    ///
    /// # Errors
    /// Fails if the server gives no token.
    pub fn kubeconfig_for_service_account(&self, namespace: &str, name: &str) -> Result<PathBuf> {
        let token = self.service_account_token(namespace, name)?;
        self.write_kubeconfig(&format!("{namespace}-{name}"), &token)
    }

    /// Writes a ServiceAccount's token and the server's certificate authority into a folder, as
    /// Kubernetes puts them into a Pod.
    ///
    /// # Errors
    /// Fails if the server gives no token, or a file cannot be written.
    pub fn write_service_account(&self, namespace: &str, name: &str, folder: &Path) -> Result<()> {
        let token = self.service_account_token(namespace, name)?;
        fs::create_dir_all(folder).map_err(Error::file(folder))?;
        for (file, text) in [("token", &token), ("ca.crt", &self.certificates.authority)] {
            let path = folder.join(file);
            fs::write(&path, text).map_err(Error::file(&path))?;
        }
        Ok(())
    }

    /// A client with the token that a Pod of a ServiceAccount gets, which names the Pod's node. The
    /// Pod must be there.
    ///
    /// # Errors
    /// Fails if the server gives no token.
    pub fn client_for_pod(
        &self,
        namespace: &str,
        service_account: &str,
        pod: &str,
    ) -> Result<Client> {
        let bound = json!({"boundObjectRef": {"apiVersion": "v1", "kind": "Pod", "name": pod}});
        let token = self.token_request(namespace, service_account, bound)?;
        Client::new(&self.server_url, &self.certificates.authority, &token)
    }

    fn service_account_token(&self, namespace: &str, name: &str) -> Result<String> {
        self.token_request(namespace, name, json!({}))
    }

    fn token_request(&self, namespace: &str, name: &str, mut spec: Value) -> Result<String> {
        let path = format!("/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token");
        spec["expirationSeconds"] = 7200.into();
        let request =
            json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec});
        let answer = self.create(&path, &request)?;
        let token = answer["status"]["token"].as_str().map(str::to_owned);
        token.ok_or_else(|| Error::unreadable(path, "no token in the answer"))
    }

    /// A client with the token of one of [`Options::users`].
    ///
    /// # Errors
    /// Fails if there is no such user.
    pub fn client_for(&self, user: &str) -> Result<Client> {
        Client::new(
            &self.server_url,
            &self.certificates.authority,
            self.token(user)?,
        )
    }

    /// The administrator's client. The methods below are short for its own.
    #[must_use]
    pub fn client(&self) -> &Client {
        &self.admin
    }

    /// A kubectl command with the administrator's kubeconfig.
    ///
    /// # Errors
    /// Fails if kubectl was not built.
    pub fn kubectl(&self, programs: &Programs) -> Result<Command> {
        let mut command = programs.command(Program::Kubectl, self.folder.path())?;
        command.arg("--kubeconfig").arg(&self.kubeconfig);
        Ok(command)
    }

    /// Where the server listens.
    #[must_use]
    pub fn server_url(&self) -> &str {
        &self.server_url
    }

    /// The folder in which all files of this control plane lie, logs included.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The most memory of the API server and of etcd so far, in MiB.
    ///
    /// # Errors
    /// Fails if one does not run.
    pub fn peak_rss_mib(&self) -> Result<[f64; 2]> {
        Ok([self.apiserver.peak_rss_mib()?, self.etcd.peak_rss_mib()?])
    }

    /// The processor time of the API server and of etcd so far, in seconds.
    ///
    /// # Errors
    /// Fails if one does not run.
    pub fn cpu_seconds(&self) -> Result<[f64; 2]> {
        Ok([self.apiserver.cpu_seconds()?, self.etcd.cpu_seconds()?])
    }

    /// Where the API server's output goes.
    #[must_use]
    pub fn apiserver_log(&self) -> &Path {
        self.apiserver.log()
    }

    /// See [`Client::get`].
    ///
    /// # Errors
    /// Fails if the server says no.
    pub fn get(&self, path: &str) -> Result<Value> {
        self.admin.get(path)
    }

    /// See [`Client::list`].
    ///
    /// # Errors
    /// Fails if the server says no.
    pub fn list(&self, path: &str) -> Result<Vec<Value>> {
        self.admin.list(path)
    }

    /// See [`Client::create`].
    ///
    /// # Errors
    /// Fails if the server says no.
    pub fn create(&self, path: &str, object: &Value) -> Result<Value> {
        self.admin.create(path, object)
    }

    /// See [`Client::create_many`].
    ///
    /// # Errors
    /// The first failure.
    pub fn create_many(&self, path: &str, objects: &[Value], connections: usize) -> Result<()> {
        self.admin.create_many(path, objects, connections)
    }

    /// See [`Client::patch`].
    ///
    /// # Errors
    /// Fails if the server says no.
    pub fn patch(&self, path: &str, change: &Value) -> Result<Value> {
        self.admin.patch(path, change)
    }

    /// See [`Client::put`].
    ///
    /// # Errors
    /// Fails if the server says no.
    pub fn put(&self, path: &str, object: &Value) -> Result<Value> {
        self.admin.put(path, object)
    }

    /// See [`Client::delete`].
    ///
    /// # Errors
    /// Fails if the server says no.
    pub fn delete(&self, path: &str) -> Result<Value> {
        self.admin.delete(path)
    }

    pub(crate) fn certificates(&self) -> &Certificates {
        &self.certificates
    }

    fn wait_ready(&mut self) -> Result<()> {
        let Self {
            apiserver,
            etcd,
            admin,
            ..
        } = self;
        apiserver.wait_ready(PATIENCE, || {
            etcd.check_running().is_ok() && admin.is_ok("/readyz")
        })?;
        wait_for_namespaces(admin)
    }

    fn token(&self, user: &str) -> Result<&str> {
        match self.tokens.get(user) {
            Some(token) => Ok(token),
            None => Err(Error::NoUser(user.to_owned())),
        }
    }

    fn write_kubeconfig(&self, user: &str, token: &str) -> Result<PathBuf> {
        let text = kubeconfig(&self.server_url, &self.certificates.authority, token);
        let name = user.replace(['/', ':'], "-");
        self.folder.write(&format!("user-{name}.kubeconfig"), &text)
    }
}

/// The files that kube-apiserver reads; returns the users' tokens.
fn write_inputs(
    folder: &RunFolder,
    certificates: &Certificates,
    users: &[User],
) -> Result<BTreeMap<String, String>> {
    folder.write(SERVER_CERTIFICATE, &certificates.server)?;
    folder.write(SERVER_KEY, &certificates.server_key)?;
    folder.write(ACCOUNT_KEY, &certificates.service_account_key)?;
    folder.write(ACCOUNT_PUBLIC_KEY, &certificates.service_account_public_key)?;
    let admin = User {
        name: ADMIN.to_owned(),
        groups: vec!["system:masters".to_owned()],
    };
    let mut tokens = BTreeMap::new();
    let mut lines = String::new();
    for user in users.iter().chain([&admin]) {
        let User { name, groups } = user;
        let token = random_token();
        lines += &format!("{token},{name},{name},\"{}\"\n", groups.join(","));
        tokens.insert(name.clone(), token);
    }
    folder.write(TOKENS, &lines)?;
    Ok(tokens)
}

fn start_etcd(programs: &Programs, folder: &Path) -> Result<Server> {
    let arguments = [
        format!("--data-dir={ETCD_DATA}"),
        "--unsafe-no-fsync".to_owned(),
        "--log-level=warn".to_owned(),
        format!("--listen-client-urls={}", etcd_url(folder)),
        format!("--listen-peer-urls=unix://{}/peer.sock", folder.display()),
        format!("--advertise-client-urls={NO_PEER}"),
        format!("--initial-advertise-peer-urls={NO_PEER}"),
        format!("--initial-cluster=default={NO_PEER}"),
    ];
    Server::start("etcd", programs.path(Program::Etcd)?, &arguments, folder)
}

pub(crate) fn etcd_url(folder: &Path) -> String {
    format!("unix://{}/etcd.sock", folder.display())
}

fn start_apiserver(
    programs: &Programs,
    folder: &Path,
    options: &Options,
    client_at: impl Fn(&str) -> Result<Client>,
) -> Result<(Server, String)> {
    let program = programs.path(Program::KubeApiserver)?;
    with_free_ports(|| {
        let port = free_port()?;
        let url = format!("https://127.0.0.1:{port}");
        let arguments = apiserver_arguments(folder, options, port);
        let mut server = Server::start("kube-apiserver", program, &arguments, folder)?;
        let client = client_at(&url)?;
        server.wait_ready(PATIENCE, || client.is_ok("/readyz"))?;
        wait_for_namespaces(&client)?;
        Ok((server, url))
    })
}

fn apiserver_arguments(folder: &Path, options: &Options, port: u16) -> Vec<String> {
    let range = &options.service_cluster_ip_range;
    let mut arguments = vec![
        format!("--etcd-servers={}", etcd_url(folder)),
        "--bind-address=127.0.0.1".to_owned(),
        format!("--advertise-address={ADVERTISED}"),
        format!("--secure-port={port}"),
        "--cert-dir=.".to_owned(),
        format!("--tls-cert-file={SERVER_CERTIFICATE}"),
        format!("--tls-private-key-file={SERVER_KEY}"),
        "--service-account-issuer=https://kubernetes.default.svc".to_owned(),
        format!("--service-account-key-file={ACCOUNT_PUBLIC_KEY}"),
        format!("--service-account-signing-key-file={ACCOUNT_KEY}"),
        format!("--token-auth-file={TOKENS}"),
        "--authorization-mode=RBAC".to_owned(),
        format!("--service-cluster-ip-range={range}"),
        "--disable-admission-plugins=ServiceAccount".to_owned(),
    ];
    arguments.extend(options.apiserver_flags.iter().cloned());
    arguments
}

/// The server makes them after it says that it is ready.
fn wait_for_namespaces(client: &Client) -> Result<()> {
    wait_until("the namespaces of the system", PATIENCE, || {
        let exist = |name| client.is_ok(&format!("/api/v1/namespaces/{name}"));
        Ok(["default", "kube-system"]
            .into_iter()
            .all(exist)
            .then_some(()))
    })
}

/// 128 bits of the system's randomness, which is what seeds a hasher.
fn random_token() -> String {
    let word = || RandomState::new().build_hasher().finish();
    format!("{:016x}{:016x}", word(), word())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::programs::build;

    fn start(users: Vec<User>) -> (Programs, ControlPlane) {
        let programs = build(&[Program::KubeApiserver, Program::Etcd, Program::Kubectl]).unwrap();
        let options = Options {
            users,
            ..Options::default()
        };
        let plane = ControlPlane::start(&programs, options).unwrap();
        (programs, plane)
    }

    fn node(name: &str) -> Value {
        json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}})
    }

    #[test]
    fn what_was_stored_outlives_restarts() {
        let (_programs, mut plane) = start(Vec::new());
        let node = plane.create("/api/v1/nodes", &node("n1")).unwrap();
        let url = plane.server_url().to_owned();
        for ending in [Ending::Terminated, Ending::Killed] {
            plane.restart_etcd(ending).unwrap();
            plane.restart_apiserver(ending).unwrap();
        }
        assert_eq!(plane.server_url(), url);
        assert_eq!(
            plane.get("/api/v1/nodes/n1").unwrap()["metadata"]["uid"],
            node["metadata"]["uid"]
        );
    }

    #[test]
    fn a_pod_cidr_is_set_once_and_never_changed() {
        let (programs, plane) = start(Vec::new());
        plane.create("/api/v1/nodes", &node("n1")).unwrap();
        let give = |block: &str| {
            let change = json!({"spec": {"podCIDR": block, "podCIDRs": [block]}});
            plane.patch("/api/v1/nodes/n1", &change)
        };
        give("10.0.0.0/24").unwrap();
        let error = give("10.0.1.0/24").unwrap_err();
        assert_eq!(error.status(), Some(422), "{error}");
        assert!(
            error.to_string().contains("may not change podCIDR"),
            "{error}"
        );

        let seen = plane
            .kubectl(&programs)
            .unwrap()
            .args(["get", "nodes"])
            .output()
            .unwrap();
        assert!(
            String::from_utf8_lossy(&seen.stdout).contains("n1"),
            "{seen:?}"
        );
    }

    #[test]
    fn users_have_no_rights_until_they_are_bound() {
        let (programs, plane) = start(vec![User::named("planner")]);
        let planner = plane.client_for("planner").unwrap();
        let refused = planner.list("/api/v1/nodes").unwrap_err();
        assert_eq!(refused.status(), Some(403), "{refused}");

        let binding = json!({"apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRoleBinding", "metadata": {"name": "planner"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole",
                "name": "system:node"},
            "subjects": [{"kind": "User", "name": "planner",
                "apiGroup": "rbac.authorization.k8s.io"}]});
        let bindings = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";
        plane.create(bindings, &binding).unwrap();
        // The authorizer reads a cache.
        wait_until("the planner's rights", Duration::from_secs(20), || {
            Ok(planner.list("/api/v1/nodes").ok())
        })
        .unwrap();

        let accounts = "/api/v1/namespaces/default/serviceaccounts";
        let account = json!({"apiVersion": "v1", "kind": "ServiceAccount",
            "metadata": {"name": "chart"}});
        plane.create(accounts, &account).unwrap();
        let file = plane
            .kubeconfig_for_service_account("default", "chart")
            .unwrap();
        let mut command = programs.command(Program::Kubectl, plane.folder()).unwrap();
        command
            .arg("--kubeconfig")
            .arg(file)
            .args(["auth", "whoami"]);
        let who = command.output().unwrap();
        let said = String::from_utf8_lossy(&who.stdout).into_owned();
        assert!(
            said.contains("system:serviceaccount:default:chart"),
            "{who:?}"
        );
    }
}
