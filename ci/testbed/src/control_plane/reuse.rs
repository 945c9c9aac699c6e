//! A control plane that tests use one after the other. Each one finds it as after a start.
//!
//! All that an API server keeps is in etcd, so etcd's keys are put back under it. It must never know
//! what tests do.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::ops::{Deref, DerefMut};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::{ControlPlane, Options};
use crate::client::Client;
use crate::error::{Error, Result};
use crate::etcd_keys::SavedKeys;
use crate::etcdctl::Etcdctl;
use crate::programs::{Program, Programs, build};
use crate::wait::{PATIENCE, wait_until};

/// Each takes 0.4 GB of memory. The one that waits longest is stopped first.
const MOST_IDLE: usize = 6;
/// What etcd writes, and what the API server logs.
const GROWING: [&str; 2] = ["etcd.log", "kube-apiserver.log"];
const CRD_KEYS: &str = "/registry/apiextensions.k8s.io/customresourcedefinitions/";

/// Objects that admission caches. No request shows when the cache drops one.
const ADMISSION_KEYS: [&str; 4] = [
    "/registry/validatingadmissionpolicybindings/",
    "/registry/mutatingadmissionpolicybindings/",
    "/registry/validatingwebhookconfigurations/",
    "/registry/mutatingwebhookconfigurations/",
];

const OF_THE_SERVICE: [&str; 3] = [
    "/api/v1/namespaces/default/services/kubernetes",
    "/api/v1/namespaces/default/endpoints/kubernetes",
    "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/kubernetes",
];

/// Those that no test uses now.
static IDLE: Mutex<Vec<Kept>> = Mutex::new(Vec::new());

fn idle() -> MutexGuard<'static, Vec<Kept>> {
    IDLE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A control plane for one test at a time. Dropping it leaves it to the next test, unless this test
/// failed or had it [mutably](DerefMut), for example to restart it.
#[derive(Debug)]
pub struct BorrowedControlPlane {
    kept: Option<Kept>,
}

#[derive(Debug)]
struct Kept {
    options: Options,
    plane: ControlPlane,
    /// Without it, no other test uses the control plane.
    start: Option<AfterStart>,
}

/// What was there when the control plane had started.
#[derive(Debug)]
struct AfterStart {
    keys: SavedKeys,
    files: BTreeSet<OsString>,
    /// With etcd's client.
    programs: Programs,
}

impl BorrowedControlPlane {
    /// Takes one that another test has used with these options, or starts one. One with users or
    /// flags of its own is always started, and ends with the test.
    ///
    /// # Errors
    /// As [`ControlPlane::start`].
    pub fn new(programs: &Programs, options: Options) -> Result<Self> {
        let used = {
            let mut idle = idle();
            let position = idle.iter().position(|kept| kept.options == options);
            position.map(|position| idle.remove(position))
        };
        let kept = match used.map(Kept::reset) {
            Some(Ok(Some(kept))) => kept,
            // Whatever the last test did to it.
            Some(Ok(None) | Err(_)) | None => Kept::start(programs, options)?,
        };
        Ok(Self { kept: Some(kept) })
    }

    /// Stops it.
    pub fn end(mut self) {
        drop(self.kept.take());
    }
}

impl Deref for BorrowedControlPlane {
    type Target = ControlPlane;

    fn deref(&self) -> &ControlPlane {
        match &self.kept {
            Some(kept) => &kept.plane,
            None => unreachable!("only drop takes it"),
        }
    }
}

impl DerefMut for BorrowedControlPlane {
    fn deref_mut(&mut self) -> &mut ControlPlane {
        match &mut self.kept {
            Some(kept) => {
                kept.start = None;
                &mut kept.plane
            }
            None => unreachable!("only drop takes it"),
        }
    }
}

impl Drop for BorrowedControlPlane {
    fn drop(&mut self) {
        let Some(kept) = self.kept.take() else { return };
        if std::thread::panicking() || kept.start.is_none() {
            return;
        }
        let surplus = {
            let mut idle = idle();
            idle.push(kept);
            (idle.len() > MOST_IDLE).then(|| idle.remove(0))
        };
        // Outside the lock, since it takes a second.
        drop(surplus);
    }
}

impl Kept {
    fn start(programs: &Programs, options: Options) -> Result<Self> {
        let plane = ControlPlane::start(programs, options.clone())?;
        let start = match options.users.is_empty() && options.apiserver_flags.is_empty() {
            true => Some(AfterStart::of(&plane)?),
            false => None,
        };
        Ok(Self {
            options,
            plane,
            start,
        })
    }

    /// Undoes what a test did; `None` if it cannot be undone.
    fn reset(mut self) -> Result<Option<Self>> {
        let deleted = match &mut self.start {
            Some(start) => start.put_back(&self.plane)?,
            None => Vec::new(),
        };
        let is_remembered = |key: &String| ADMISSION_KEYS.iter().any(|keys| key.starts_with(keys));
        Ok((!deleted.iter().any(is_remembered)).then_some(self))
    }
}

impl AfterStart {
    fn of(plane: &ControlPlane) -> Result<Self> {
        wait_for_service(plane.client())?;
        let programs = build(&[Program::Etcdctl])?;
        Ok(Self {
            keys: SavedKeys::read(Etcdctl::new(&programs, plane.folder()))?,
            files: files(plane.folder())?,
            programs,
        })
    }

    /// Returns etcd's keys of the objects that it deleted.
    fn put_back(&mut self, plane: &ControlPlane) -> Result<Vec<String>> {
        let folder = plane.folder();
        let deleted = self.keys.put_back(Etcdctl::new(&self.programs, folder))?;
        wait_until_unserved(plane.client(), &deleted)?;
        // A list comes from a cache that is as new as etcd: after it no client sees older objects.
        for path in listed(plane.client())? {
            plane.list(&path)?;
        }
        for file in files(folder)?.difference(&self.files) {
            remove(&folder.join(file))?;
        }
        for log in GROWING.map(|log| folder.join(log)) {
            let file = fs::OpenOptions::new().write(true).open(&log);
            file.and_then(|file| file.set_len(0))
                .map_err(Error::file(&log))?;
        }
        Ok(deleted)
    }
}

/// The server makes its own Service, and what belongs to it, after it says that it is ready.
fn wait_for_service(client: &Client) -> Result<()> {
    wait_until("the Service of the API server", PATIENCE, || {
        let exist = OF_THE_SERVICE.into_iter().all(|path| client.is_ok(path));
        let addresses = client.list("/apis/networking.k8s.io/v1/ipaddresses")?;
        Ok((exist && !addresses.is_empty()).then_some(()))
    })
}

fn files(folder: &Path) -> Result<BTreeSet<OsString>> {
    let entries = fs::read_dir(folder).map_err(Error::file(folder))?;
    entries
        .map(|entry| Ok(entry.map_err(Error::file(folder))?.file_name()))
        .collect()
}

fn remove(path: &Path) -> Result<()> {
    let removed = match path.is_dir() {
        true => fs::remove_dir_all(path),
        false => fs::remove_file(path),
    };
    removed.map_err(Error::file(path))
}

/// Waits until the server has forgotten the kinds whose definitions are deleted.
fn wait_until_unserved(client: &Client, deleted: &[String]) -> Result<()> {
    let names = deleted.iter().filter_map(|key| key.strip_prefix(CRD_KEYS));
    // `ippools.cilium-ipam.dev`: the plural and the group.
    let kinds: Vec<(&str, &str)> = names.filter_map(|name| name.split_once('.')).collect();
    if kinds.is_empty() {
        return Ok(());
    }
    wait_until("deleted kinds to be unserved", PATIENCE, || {
        let listed = listed(client)?;
        let is_served = |(plural, group): &(&str, &str)| {
            let group = format!("/apis/{group}/");
            let plural = format!("/{plural}");
            let is_it = |path: &String| path.starts_with(&group) && path.ends_with(&plural);
            listed.iter().any(is_it)
        };
        Ok((!kinds.iter().any(is_served)).then_some(()))
    })
}

/// The paths of all kinds that the server lists.
fn listed(client: &Client) -> Result<Vec<String>> {
    let groups = client.get("/apis")?;
    let of_group = |group: &serde_json::Value| {
        let version = group["preferredVersion"]["groupVersion"].as_str();
        version.map(|version| format!("/apis/{version}"))
    };
    let groups = groups["groups"].as_array().into_iter().flatten();
    let mut paths = Vec::new();
    for version in groups.filter_map(of_group).chain(["/api/v1".to_owned()]) {
        let Ok(kinds) = client.get(&version) else {
            // A group that the server is about to forget.
            continue;
        };
        let kinds = kinds["resources"].as_array().into_iter().flatten();
        let listed = kinds.filter(|kind| {
            let verbs = kind["verbs"].as_array().into_iter().flatten();
            verbs.into_iter().any(|verb| verb == "list")
        });
        let names = listed.filter_map(|kind| kind["name"].as_str());
        let names = names.filter(|name| !name.contains('/'));
        paths.extend(names.map(|name| format!("{version}/{name}")));
    }
    Ok(paths)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const NODES: &str = "/api/v1/nodes";
    const MAPS: &str = "/api/v1/namespaces/kube-system/configmaps";
    const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases";
    const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

    /// A range that no other test asks for keeps its control plane to a test.
    fn borrowed(range: &str) -> BorrowedControlPlane {
        let programs = build(&[Program::KubeApiserver, Program::Etcd]).unwrap();
        let options = Options {
            service_cluster_ip_range: range.to_owned(),
            ..Options::default()
        };
        BorrowedControlPlane::new(&programs, options).unwrap()
    }

    fn named(kind: &str, name: &str) -> serde_json::Value {
        json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": name}})
    }

    fn lease() -> serde_json::Value {
        json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": {"name": "mine"}})
    }

    fn definition() -> serde_json::Value {
        let schema = json!({"openAPIV3Schema":
            {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
        json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": "things.example.org"},
            "spec": {"group": "example.org", "scope": "Cluster",
                "names": {"plural": "things", "kind": "Thing"},
                "versions": [{"name": "v1", "served": true, "storage": true, "schema": schema}]}})
    }

    #[test]
    fn the_next_test_finds_it_as_after_a_start() {
        let first = borrowed("10.253.0.0/24");
        let url = first.server_url().to_owned();
        let maps = first.list(MAPS).unwrap();
        let service = first.get("/api/v1/namespaces/default/services/kubernetes");
        let uid = service.unwrap()["metadata"]["uid"].clone();
        for name in ["n1", "n2"] {
            first.create(NODES, &named("Node", name)).unwrap();
        }
        first.create(MAPS, &named("ConfigMap", "mine")).unwrap();
        first.create(LEASES, &lease()).unwrap();
        let labels = json!({"metadata": {"labels": {"mine": "yes"}}});
        first.patch("/api/v1/namespaces/default", &labels).unwrap();
        first
            .delete("/api/v1/namespaces/default/services/kubernetes")
            .unwrap();
        first.create(CRDS, &definition()).unwrap();
        let things = "/apis/example.org/v1/things";
        wait_until("things to be served", PATIENCE, || {
            Ok(first.client().is_ok(things).then_some(()))
        })
        .unwrap();
        fs::write(first.folder().join("mine"), "").unwrap();
        drop(first);

        let second = borrowed("10.253.0.0/24");
        assert_eq!(second.server_url(), url);
        assert_eq!(second.list(NODES).unwrap(), [json!(null); 0]);
        assert_eq!(second.list(MAPS).unwrap().len(), maps.len());
        second.create(LEASES, &lease()).unwrap();
        let default = second.get("/api/v1/namespaces/default").unwrap();
        assert_eq!(default["metadata"]["labels"]["mine"], json!(null));
        let service = second.get("/api/v1/namespaces/default/services/kubernetes");
        assert_eq!(service.unwrap()["metadata"]["uid"], uid);
        assert!(!second.client().is_ok(things));
        assert!(!second.folder().join("mine").exists());
    }

    #[test]
    fn one_whose_admission_was_changed_is_not_used_again() {
        let first = borrowed("10.253.1.0/24");
        let url = first.server_url().to_owned();
        let binding = json!({"apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingAdmissionPolicyBinding", "metadata": {"name": "mine"},
            "spec": {"policyName": "none", "validationActions": ["Deny"]}});
        let bindings = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings";
        first.create(bindings, &binding).unwrap();
        drop(first);
        assert_ne!(borrowed("10.253.1.0/24").server_url(), url);
    }

    #[test]
    fn one_that_was_restarted_is_not_used_again() {
        let mut first = borrowed("10.253.2.0/24");
        let folder = first.folder().to_owned();
        first.restart_apiserver(crate::Ending::Terminated).unwrap();
        drop(first);
        assert!(!folder.exists());
    }
}
