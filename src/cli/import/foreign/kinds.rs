//! The objects of other address managers: listed in a live cluster, with what an import lacks
//! without a kind, or read from exported YAML or JSON of any number of documents.

use std::path::{Path, PathBuf};

use serde_json::Value;

use self::Need::{Addresses, AddressesIfServed, Settings};
use super::Manager;
use crate::cli::Common;
use crate::cli::failure::Failure;
use crate::cli::target::live;
use ipam_cilium::parser_words::YamlFault;
use ipam_cluster::live::ForeignKind;
use ipam_cluster::{ClusterError, Seen};
use ipam_import::import::foreign::{config_text, legacy_config};

/// What an import lacks without the objects of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Need {
    /// Addresses in use. A cluster without the kind has another version of the manager, or none.
    Addresses,
    /// Addresses in use, if the cluster has the kind.
    AddressesIfServed,
    /// Settings that a person carries over.
    Settings,
}

impl Need {
    /// A kind with this need. `versions` are the API versions that may serve it, the preferred one
    /// first.
    const fn of(
        self,
        resource: &'static str,
        kind: &'static str,
        versions: &'static [&'static str],
    ) -> (ForeignKind, Need) {
        let kind = ForeignKind {
            resource,
            kind,
            versions,
        };
        (kind, self)
    }
}

const SERVICES: (ForeignKind, Need) = Addresses.of("services", "Service", &["v1"]);

/// Calico's own group, and that of its API server. Source: `api/config/crd` of Calico 3.32.
const CALICO_APIS: &[&str] = &["crd.projectcalico.org/v1", "projectcalico.org/v3"];
const CALICO: [(ForeignKind, Need); 6] = [
    Addresses.of("ippools.crd.projectcalico.org", "IPPool", CALICO_APIS),
    Addresses.of(
        "blockaffinities.crd.projectcalico.org",
        "BlockAffinity",
        CALICO_APIS,
    ),
    Addresses.of("ipamblocks.crd.projectcalico.org", "IPAMBlock", CALICO_APIS),
    AddressesIfServed.of(
        "ipreservations.crd.projectcalico.org",
        "IPReservation",
        CALICO_APIS,
    ),
    Settings.of(
        "ipamconfigs.crd.projectcalico.org",
        "IPAMConfig",
        &["crd.projectcalico.org/v1"],
    ),
    SERVICES,
];

/// Source: `config/crd/bases` of MetalLB 0.15. `addresspools` exist up to 0.14.
const BETA: &[&str] = &["metallb.io/v1beta1"];
const METALLB: [(ForeignKind, Need); 7] = [
    Addresses.of("ipaddresspools.metallb.io", "IPAddressPool", BETA),
    AddressesIfServed.of("addresspools.metallb.io", "AddressPool", BETA),
    Settings.of("l2advertisements.metallb.io", "L2Advertisement", BETA),
    Settings.of("bgpadvertisements.metallb.io", "BGPAdvertisement", BETA),
    Settings.of(
        "bgppeers.metallb.io",
        "BGPPeer",
        &["metallb.io/v1beta2", "metallb.io/v1beta1"],
    ),
    Settings.of("communities.metallb.io", "Community", BETA),
    SERVICES,
];

const NODE_IPAM_CONTROLLER: [(ForeignKind, Need); 1] = [Addresses.of(
    "clustercidrs.networking.x-k8s.io",
    "ClusterCIDR",
    &["networking.x-k8s.io/v1"],
)];

/// Objects of a live cluster.
pub(super) struct Listed {
    pub(super) objects: Vec<Value>,
    /// Kinds that were not read, and why.
    pub(super) unread: Vec<(&'static str, String)>,
}

impl From<Vec<Value>> for Listed {
    fn from(objects: Vec<Value>) -> Listed {
        Listed {
            objects,
            unread: Vec::new(),
        }
    }
}

/// Lists all kinds of a manager.
///
/// # Errors
/// Fails if a kind cannot be read whose objects hold addresses: without them, the files would give
/// these to others.
pub(super) async fn list(manager: Manager, common: &Common) -> Result<Listed, Failure> {
    let cluster = live(common, common.retry_timeout).await?;
    let kinds: &[(ForeignKind, Need)] = match manager {
        Manager::Calico => &CALICO,
        Manager::MetalLb => &METALLB,
        Manager::NodeIpamController => &NODE_IPAM_CONTROLLER,
    };
    let mut listed = Listed {
        objects: Vec::new(),
        unread: Vec::new(),
    };
    for (kind, need) in kinds {
        let found = cluster.list_foreign(kind).await?;
        match (found.seen, need) {
            (Seen::All, _) => listed.objects.push(found.list),
            (Seen::NotServed, Need::Addresses) => return Err(not_served(manager, kind)),
            // The cluster has no objects of the kind.
            (Seen::NotServed, Need::AddressesIfServed) => {}
            (Seen::Hidden(message), Need::Addresses | Need::AddressesIfServed) => {
                return Err(Failure::Cluster(ClusterError::Indispensable {
                    resource: kind.resource,
                    message,
                }));
            }
            (Seen::Hidden(why), Need::Settings) => listed.unread.push((kind.resource, why)),
            (Seen::NotServed, Need::Settings) => listed
                .unread
                .push((kind.resource, "the cluster does not serve them".to_owned())),
        }
    }
    Ok(listed)
}

fn not_served(manager: Manager, kind: &ForeignKind) -> Failure {
    Failure::Failed(format!(
        "the cluster does not serve {}, so it has no {} of a version that can be listed; nothing was written. For exported objects, use --objects FILE",
        kind.resource,
        manager.name()
    ))
}

/// The objects of all files. A ConfigMap of MetalLB also gives the objects that replaced it.
pub(super) fn read(paths: &[PathBuf]) -> Result<Vec<Value>, Failure> {
    let mut objects = Vec::new();
    for path in paths {
        let text = std::fs::read_to_string(path).map_err(|error| unreadable(path, &error))?;
        objects.extend(parsed(&text).map_err(|error| unreadable(path, &error))?);
    }
    let mut configured = Vec::new();
    for text in objects.iter().flat_map(opened).filter_map(config_text) {
        let configs = parsed(text).map_err(|error| {
            Failure::Failed(format!("ConfigMap config: {error}; nothing was written"))
        })?;
        configured.extend(configs.iter().flat_map(legacy_config));
    }
    objects.extend(configured);
    Ok(objects)
}

/// The object, or the items of a List.
fn opened(object: &Value) -> impl Iterator<Item = &Value> {
    let items = object["items"].as_array();
    std::iter::once(object).chain(items.into_iter().flatten())
}

fn parsed(text: &str) -> Result<Vec<Value>, String> {
    if let Ok(value) = serde_json::from_str(text) {
        return Ok(vec![value]);
    }
    // kubectl prints lists of any length. Depth and aliases keep their strict limits.
    let options = serde_yaml::options! {
        strict_booleans: true,
        budget: serde_yaml::budget! {
            max_documents: usize::MAX,
            max_events: usize::MAX,
            max_nodes: usize::MAX,
            max_total_scalar_bytes: usize::MAX,
        },
    };
    serde_yaml::from_multiple_with_options(text, options)
        .map_err(|error| YamlFault::sentence(&error))
}

fn unreadable(path: &Path, error: &impl std::fmt::Display) -> Failure {
    Failure::Failed(format!(
        "{} cannot be read: {error}; nothing was written",
        path.display()
    ))
}
