//! What an installation of Cilium leaves in a cluster, without running any of it: the
//! objects by which a tool detects it, and its real CRDs.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::control_plane::ControlPlane;
use crate::error::{Error, Result};
use crate::golang::source_folder;
use crate::oracle::AnnotateK8sNode;
use crate::wait::{PATIENCE, wait_until};

const MODULE: &str = "github.com/cilium/cilium";
/// The operator updates CRDs whose label is missing or older than its own.
const SCHEMA_LABEL: &str = "io.cilium.k8s.crd.schema.version";
const SCHEMA_CONSTANT: &str = "CustomResourceDefinitionSchemaVersion = \"";
const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// How Cilium is installed.
#[derive(Debug, Clone)]
pub struct CiliumInstallation {
    /// For example `1.19.3`: the tag of the image is this with a `v` before it.
    pub version: String,
    /// The IPAM mode.
    pub ipam: String,
    /// The chart's value, or nothing where a chart of that version writes nothing.
    pub annotate_k8s_node: Option<AnnotateK8sNode>,
    /// More entries of `cilium-config`; they win over the others.
    pub config: BTreeMap<String, String>,
}

impl Default for CiliumInstallation {
    fn default() -> Self {
        Self {
            version: "1.19.3".to_owned(),
            ipam: "kubernetes".to_owned(),
            annotate_k8s_node: None,
            config: BTreeMap::new(),
        }
    }
}

/// Creates the ConfigMap, the DaemonSet and the operator's Deployment in `kube-system`,
/// or changes them to what `installation` says. No kubelet runs, so no pods appear.
///
/// # Errors
/// Fails if the server says no.
pub fn install_cilium(plane: &ControlPlane, installation: &CiliumInstallation) -> Result<()> {
    let CiliumInstallation {
        version,
        ipam,
        annotate_k8s_node,
        config,
    } = installation;
    let config = cilium_config(ipam, *annotate_k8s_node, config);
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "cilium-config", "namespace": "kube-system"}, "data": config});
    let agent = workload(
        "DaemonSet",
        "cilium",
        json!({"k8s-app": "cilium", "app.kubernetes.io/name": "cilium-agent"}),
        json!({"name": "cilium-agent", "image": format!("quay.io/cilium/cilium:v{version}")}),
    );
    let operator = workload(
        "Deployment",
        "cilium-operator",
        json!({"io.cilium/app": "operator", "name": "cilium-operator"}),
        json!({"name": "cilium-operator",
            "image": format!("quay.io/cilium/operator-generic:v{version}")}),
    );
    let client = plane.client();
    client.apply(
        "/api/v1/namespaces/kube-system/configmaps/cilium-config",
        &map,
    )?;
    client.apply(
        "/apis/apps/v1/namespaces/kube-system/daemonsets/cilium",
        &agent,
    )?;
    let path = "/apis/apps/v1/namespaces/kube-system/deployments/cilium-operator";
    client.apply(path, &operator).map(drop)
}

fn cilium_config(
    ipam: &str,
    annotate: Option<AnnotateK8sNode>,
    more: &BTreeMap<String, String>,
) -> BTreeMap<String, String> {
    let mut config: BTreeMap<_, _> = [
        ("ipam", ipam),
        ("cluster-name", "default"),
        ("cluster-id", "0"),
        ("enable-ipv4", "true"),
        ("enable-ipv6", "false"),
        ("identity-allocation-mode", "crd"),
    ]
    .map(|(key, value)| (key.to_owned(), value.to_owned()))
    .into();
    if let Some(annotate) = annotate {
        config.insert("annotate-k8s-node".to_owned(), annotate.as_str().to_owned());
    }
    config.extend(more.clone());
    config
}

fn workload(kind: &str, name: &str, labels: Value, container: Value) -> Value {
    json!({
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": name, "namespace": "kube-system", "labels": labels},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"hostNetwork": true, "containers": [container]},
            },
        },
    })
}

/// Applies the CRDs of any release of Cilium, for example `1.19.3`, as its operator would,
/// and waits until each of their versions is served. They are read from the release's Go
/// module.
///
/// # Errors
/// Fails if the release cannot be downloaded, or the server says no.
pub fn install_crds(plane: &ControlPlane, release: &str) -> Result<()> {
    let folder = source_folder(MODULE, release)?.join("pkg/k8s/apis/cilium.io");
    let schema = schema_version(&folder.join("register.go"))?;
    let mut paths = Vec::new();
    for version in ["v2", "v2alpha1"] {
        for crd in read_crds(&folder.join("client/crds").join(version))? {
            apply_crd(plane, &crd, &schema)?;
            paths.extend(served_paths(&crd));
        }
    }
    // `Established` is not enough: the server sets it before it serves a new version.
    wait_until("Cilium's CRDs to be served", PATIENCE, || {
        paths.retain(|path| !plane.client().is_ok(path));
        Ok(paths.is_empty().then_some(()))
    })
}

fn apply_crd(plane: &ControlPlane, crd: &Value, schema: &str) -> Result<()> {
    let Some(name) = crd["metadata"]["name"].as_str() else {
        return Err(Error::unreadable("a CRD of Cilium", "it has no name"));
    };
    let object = json!({"apiVersion": crd["apiVersion"], "kind": crd["kind"],
        "metadata": {"name": name, "labels": {SCHEMA_LABEL: schema}}, "spec": crd["spec"]});
    plane.client().apply(&format!("{CRDS}/{name}"), &object)?;
    Ok(())
}

/// Where the server answers once it serves the CRD.
fn served_paths(crd: &Value) -> Vec<String> {
    let plural = crd["spec"]["names"]["plural"].as_str().unwrap_or_default();
    let versions = crd["spec"]["versions"].as_array().into_iter().flatten();
    versions
        .filter(|version| version["served"] == true)
        .filter_map(|version| version["name"].as_str())
        .map(|version| format!("/apis/cilium.io/{version}/{plural}?limit=1"))
        .collect()
}

fn read_crds(folder: &Path) -> Result<Vec<Value>> {
    let mut crds = Vec::new();
    for entry in fs::read_dir(folder).map_err(Error::file(folder))? {
        let path = entry.map_err(Error::file(folder))?.path();
        if path
            .extension()
            .is_some_and(|extension| extension == "yaml")
        {
            let text = fs::read_to_string(&path).map_err(Error::file(&path))?;
            let crd = serde_yaml::from_str(&text)
                .map_err(|why| Error::unreadable(path.display().to_string(), why))?;
            crds.push(crd);
        }
    }
    Ok(crds)
}

fn schema_version(file: &Path) -> Result<String> {
    let text = fs::read_to_string(file).map_err(Error::file(file))?;
    let version = text
        .split_once(SCHEMA_CONSTANT)
        .and_then(|(_, rest)| rest.split_once('"'));
    match version {
        Some((version, _)) => Ok(version.to_owned()),
        None => Err(Error::unreadable(
            file.display().to_string(),
            "no schema version",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control_plane::Options;
    use crate::programs::{Program, build};

    #[test]
    fn an_upgrade_brings_the_new_pools_and_their_schema_version() {
        let programs = build(&[Program::KubeApiserver, Program::Etcd]).unwrap();
        let plane = ControlPlane::start(&programs, Options::default()).unwrap();
        let pools = |version: &str| {
            let path = format!("/apis/cilium.io/{version}/ciliumloadbalancerippools");
            plane.list(&path).map_err(|error| error.status())
        };
        install_crds(&plane, "1.15.19").unwrap();
        assert_eq!(pools("v2"), Err(Some(404)));
        install_crds(&plane, "1.19.3").unwrap();
        assert_eq!(pools("v2"), Ok(Vec::new()));
        let crd = plane.get(&format!("{CRDS}/ciliumnodes.cilium.io")).unwrap();
        assert_eq!(crd["metadata"]["labels"][SCHEMA_LABEL], "1.32.6");

        install_cilium(&plane, &CiliumInstallation::default()).unwrap();
        let agent = "/apis/apps/v1/namespaces/kube-system/daemonsets/cilium";
        let agent = plane.get(agent).unwrap();
        let container = &agent["spec"]["template"]["spec"]["containers"][0];
        assert_eq!(container["image"], "quay.io/cilium/cilium:v1.19.3");
    }
}
