//! Decides whose document this is: ours, a list of documents, an object of one of Cilium's kinds,
//! or one of another program. Counts the ignored parts of the files, and reports each sort once.
//!
//! Knows names of kinds and groups, not fields. A misspelt kind or group of ours is an error: a
//! pool that is ignored unnoticed is an outage.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::{Documents, keys, yaml};
use crate::documents::messages::{nearest, suggestion};
use crate::documents::schema::{API_VERSION, DocumentKind};
use crate::documents::tree::{Document, Step};
use ipam_core::model::{Finding, Origin, Rule, Severity, count};
use ipam_core::text::one_line;
use ipam_desired::CiliumManifest;

const OUR_GROUP: &str = "cilium-ipam.io";
pub(super) const CILIUM_GROUP: &str = "cilium.io";

/// Kinds whose names no other project comes near. Others have an `IPPool` too, and an `IAMPolicy`,
/// which is one letter away from `IPAMPolicy`.
const DISTINCTIVE: [DocumentKind; 3] = [
    DocumentKind::NodeAssignment,
    DocumentKind::ServiceAssignment,
    DocumentKind::AddressPool,
];

/// Groups of other projects with a kind `IPPool`, and those below them. In any other group, such a
/// document is an error: with a misspelt group, it would be ignored.
const GROUPS_OF_OTHERS: [&str; 7] = [
    "antrea.io",
    "cattle.io",
    "kubeovn.io",
    "metal3.io",
    "projectcalico.org",
    "spidernet.io",
    "whereabouts.cni.cncf.io",
];

/// The one kind of Cilium with pools that this program writes itself.
const POD_IP_POOL: &str = "CiliumPodIPPool";

/// Most edits between a misspelt group or distinctive kind and the right one.
const TYPO: usize = 3;

/// `kubectl get -o yaml` prints several objects as one document of this kind.
pub(super) const LIST: &str = "List";

/// Most edits between a misspelt `List` and the right one.
const LIST_TYPO: usize = 1;

pub(super) enum Recognition {
    Ours(DocumentKind),
    /// `items` has the documents.
    List,
    Foreign(ForeignKind),
    /// Another program reads it, and it is no object of Kubernetes.
    NoObject,
}

/// A kind that another program reads.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ForeignKind {
    pub api_version: String,
    pub kind: String,
}

/// Reads `apiVersion` and `kind`.
///
/// # Errors
/// Fails if `kind` is missing, is not text, or is a misspelt kind of ours.
pub(super) fn recognise(document: &Document) -> Result<Recognition, Box<Finding>> {
    let Some(kind) = text(document, "kind") else {
        let foreign = kustomization(document).or_else(|| no_object(document));
        return foreign.ok_or_else(|| no_kind(document));
    };
    let api_version = text(document, "apiVersion");
    let ours = kind.parse::<DocumentKind>().ok();
    if kind == LIST || is_list_of_ours(kind, api_version) {
        return Ok(Recognition::List);
    }
    if is_near_list(kind) && document.has(&[Step::Key("items".to_owned())]) {
        return Err(unknown_kind(document, kind, &[LIST]));
    }
    match (api_version, ours) {
        (Some(api_version), _) if is_foreign(api_version, kind, ours) => {
            Ok(Recognition::Foreign(ForeignKind {
                api_version: api_version.to_owned(),
                kind: kind.to_owned(),
            }))
        }
        (_, Some(kind)) => Ok(Recognition::Ours(kind)),
        (_, None) => {
            let kinds = DocumentKind::ALL.map(DocumentKind::as_str);
            Err(unknown_kind(document, kind, &kinds))
        }
    }
}

fn text<'d>(document: &'d Document, key: &str) -> Option<&'d str> {
    document.text_at(&[Step::Key(key.to_owned())])
}

/// `IPPoolList` and the like, as the API server names a list of one kind.
fn is_list_of_ours(kind: &str, api_version: Option<&str>) -> bool {
    let of = kind.strip_suffix("List");
    let of = of.and_then(|kind| kind.parse::<DocumentKind>().ok());
    of.is_some_and(|kind| api_version.is_none_or(|text| kind.api_versions().contains(&text)))
}

/// Its items may be pools of ours.
fn is_near_list(kind: &str) -> bool {
    strsim::damerau_levenshtein(&kind.to_lowercase(), &LIST.to_lowercase()) <= LIST_TYPO
}

fn is_foreign(api_version: &str, kind: &str, ours: Option<DocumentKind>) -> bool {
    let group = api_version.split('/').next().unwrap_or_default();
    let group = group.to_lowercase();
    let has_domain = api_version.contains('/') && group.contains('.');
    let is_distinctive = ours.is_some_and(|kind| DISTINCTIVE.contains(&kind));
    if is_distinctive || is_near_our_group(&group) {
        return false;
    }
    let near = nearest(kind, &DocumentKind::ALL.map(DocumentKind::as_str)).is_some();
    if strsim::damerau_levenshtein(&group, CILIUM_GROUP) <= TYPO || group.contains("cilium") {
        let is_pool = kind.to_lowercase().contains("pool") && kind != POD_IP_POOL;
        return !near && !is_pool;
    }
    if ours.is_some() {
        return GROUPS_OF_OTHERS
            .iter()
            .any(|other| group == *other || group.ends_with(&format!(".{other}")));
    }
    match has_domain {
        // The group of another project decides, unless the kind can only be ours.
        true => !is_near_distinctive(kind),
        // A group of Kubernetes itself, or a version without its group.
        false => !near,
    }
}

fn is_near_our_group(group: &str) -> bool {
    group.contains("cilium-ipam")
        || group.contains("cilium") && group.contains("ipam")
        || strsim::damerau_levenshtein(group, OUR_GROUP) <= TYPO
}

fn is_near_distinctive(kind: &str) -> bool {
    let kind = kind.to_lowercase();
    DISTINCTIVE
        .iter()
        .any(|ours| strsim::damerau_levenshtein(&kind, &ours.as_str().to_lowercase()) <= TYPO)
}

/// Kustomize reads its file by name, so `kind` is optional there.
fn kustomization(document: &Document) -> Option<Recognition> {
    let name = document.file().rsplit('/').next()?;
    let is_named = ["kustomization.yaml", "kustomization.yml"].contains(&name);
    let has = |key: &str| document.has(&[Step::Key(key.to_owned())]);
    let is_kustomize = text(document, "apiVersion")
        .is_none_or(|version| version.starts_with("kustomize.config.k8s.io/"));
    (is_named && is_kustomize && !has("kind") && !has("spec")).then(|| {
        Recognition::Foreign(ForeignKind {
            api_version: "kustomize.config.k8s.io/v1beta1".to_owned(),
            kind: "Kustomization".to_owned(),
        })
    })
}

/// Keys of every object of Kubernetes, and of lists of them, in lower case.
const OBJECT_KEYS: [&str; 5] = ["apiversion", "items", "kind", "metadata", "spec"];

/// A document that is no object of Kubernetes, such as values of Helm, a configuration of Talos or a
/// JSON patch. A pool of ours without its kind has other parts of an object.
fn no_object(document: &Document) -> Option<Recognition> {
    let keys = document.outer_keys();
    let is_of_object = |key: &&str| OBJECT_KEYS.contains(&key.trim().to_lowercase().as_str());
    (!keys.is_empty() && !keys.iter().any(is_of_object)).then_some(Recognition::NoObject)
}

fn fault(
    document: &Document,
    (rule, label): (&'static str, &str),
    message: String,
    help: String,
) -> Box<Finding> {
    let finding = Finding::new(Severity::Error, Rule(rule), message);
    Box::new(finding.at(&document.start(), label).help(help))
}

fn no_kind(document: &Document) -> Box<Finding> {
    let kinds = "`IPPool`, `NodeAssignment`, `ServiceAssignment` or `IPAMPolicy`";
    if document.has(&[Step::Key("kind".to_owned())]) {
        let rule = ("wrong-type", "should be text");
        let message = "`kind` is not text".to_owned();
        return fault(document, rule, message, format!("write {kinds}"));
    }
    let rule = ("missing-field", "this document");
    let message = "the document has no `kind`".to_owned();
    let help = format!("start it with `apiVersion: {API_VERSION}` and `kind:` {kinds}");
    fault(document, rule, message, help)
}

fn unknown_kind(document: &Document, kind: &str, known: &[&str]) -> Box<Finding> {
    let rule = ("unknown-kind", "unknown kind");
    let help = suggestion(kind, known);
    fault(document, rule, format!("unknown kind `{kind}`"), help)
}

/// A list without its documents.
pub(super) fn no_items(document: &Document) -> Box<Finding> {
    let at = [Step::Key("items".to_owned())];
    let (rule, message) = if document.has(&at) {
        ("wrong-type", "`items` is not a list")
    } else {
        ("missing-field", "the list has no `items`")
    };
    let finding = Finding::new(Severity::Error, Rule(rule), message);
    let help = "write the documents as the items of the list `items`";
    Box::new(finding.at(&document.origin(&at), "this list").help(help))
}

/// The objects of Cilium's kinds in all files. Documents that cannot be read are left out.
pub fn cilium_manifests(documents: &Documents) -> Vec<CiliumManifest> {
    let mut manifests = Vec::new();
    for file in &documents.files {
        for document in yaml::parse(file).into_iter().flatten() {
            add(document, &mut manifests);
        }
    }
    manifests
}

fn add(document: Document, manifests: &mut Vec<CiliumManifest>) {
    if document.text_at(&keys(["kind"])) == Some(LIST) {
        let items = document.into_items().into_iter().flatten();
        items.for_each(|item| add(item, manifests));
        return;
    }
    manifests.extend(manifest(&document));
}

fn manifest(document: &Document) -> Option<CiliumManifest> {
    let api_version = keys(["apiVersion"]);
    let (group, version) = document.text_at(&api_version)?.split_once('/')?;
    if group != CILIUM_GROUP {
        return None;
    }
    let name = document.text_at(&keys(["metadata", "name"]))?;
    let namespace = document.text_at(&keys(["metadata", "namespace"]));
    Some(CiliumManifest {
        kind: document.text_at(&keys(["kind"]))?.to_owned(),
        name: match namespace {
            Some(namespace) => format!("{namespace}/{name}"),
            None => name.to_owned(),
        },
        version: version.to_owned(),
        origin: document.origin(&api_version),
        object: document.to_json(),
    })
}

#[derive(Debug, Default)]
pub(super) struct Ignored {
    /// Documents by kind; `None` if they are no objects.
    kinds: BTreeMap<Option<ForeignKind>, Places>,
    namespaces: BTreeMap<DocumentKind, Places>,
}

#[derive(Debug)]
struct Places {
    count: usize,
    first: Origin,
    files: BTreeSet<Arc<str>>,
}

impl Places {
    fn note<K: Ord>(places: &mut BTreeMap<K, Places>, key: K, origin: Origin) {
        let file = origin.file.clone();
        let places = places.entry(key).or_insert_with(|| Places {
            count: 0,
            first: origin,
            files: BTreeSet::new(),
        });
        places.count += 1;
        places.files.insert(file);
    }

    /// `3 documents`, and the number of files if there are several.
    fn documents(&self) -> String {
        let documents = count(self.count, "document");
        match self.files.len() {
            0 | 1 => documents,
            files => format!("{documents} in {}", count(files, "file")),
        }
    }
}

impl Ignored {
    pub(super) fn document(&mut self, kind: Option<ForeignKind>, origin: Origin) {
        Places::note(&mut self.kinds, kind, origin);
    }

    /// `metadata.namespace` of a kind that has no namespace.
    pub(super) fn namespace(&mut self, kind: DocumentKind, origin: Origin) {
        Places::note(&mut self.namespaces, kind, origin);
    }

    pub(super) fn has_documents(&self) -> bool {
        !self.kinds.is_empty()
    }

    pub(super) fn findings(&self) -> impl Iterator<Item = Finding> {
        let kinds = self.kinds.iter().map(|(foreign, places)| {
            let what = match foreign {
                Some(ForeignKind { api_version, kind }) => {
                    format!("of kind `{}` of `{}`", one_line(kind), one_line(api_version))
                }
                None => "without `apiVersion` and `kind`".to_owned(),
            };
            let message = format!("ignored {} {what}", places.documents());
            let help = format!(
                "if this program should read it, write `apiVersion: {API_VERSION}` and one of its kinds"
            );
            remark("foreign-kind", message, &places.first).help(help)
        });
        let namespaces = self.namespaces.iter().map(|(kind, places)| {
            let kind = kind.as_str();
            let documents = places.documents();
            let message = format!("ignored `metadata.namespace` of {documents} of kind `{kind}`");
            let help = "remove it; objects of this kind have no namespace";
            remark("ignored-namespace", message, &places.first).help(help)
        });
        kinds.chain(namespaces)
    }
}

fn remark(rule: &'static str, message: String, first: &Origin) -> Finding {
    Finding::new(Severity::Info, Rule(rule), message).at(first, "ignored")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn foreign(api_version: &str, kind: &str) -> bool {
        is_foreign(api_version, kind, kind.parse().ok())
    }

    #[test]
    fn kinds_of_other_programs_are_foreign() {
        for (api_version, kind) in [
            ("v1", "Service"),
            ("v1", "ConfigMap"),
            ("v1", "ServiceAccount"),
            ("v1", "Node"),
            ("v1", "PodList"),
            ("apps/v1", "Deployment"),
            ("policy/v1", "PodDisruptionBudget"),
            ("rbac.authorization.k8s.io/v1", "Role"),
            ("monitoring.coreos.com/v1", "ServiceMonitor"),
            ("kustomize.config.k8s.io/v1beta1", "Kustomization"),
            ("projectcalico.org/v3", "IPPool"),
            ("crd.projectcalico.org/v1", "IPPool"),
            ("ipam.metal3.io/v1alpha1", "IPPool"),
            ("whereabouts.cni.cncf.io/v1alpha1", "IPPool"),
            ("kyverno.io/v1", "Policy"),
            ("iam.cnrm.cloud.google.com/v1beta1", "IAMPolicy"),
            ("metallb.io/v1beta1", "IPAddressPool"),
            ("cilium.io/v1alpha1", "TracingPolicy"),
        ] {
            assert!(foreign(api_version, kind), "{api_version} {kind}");
        }
        // The kinds of Cilium 1.19.
        for kind in [
            "CiliumBGPAdvertisement",
            "CiliumBGPClusterConfig",
            "CiliumBGPNodeConfig",
            "CiliumBGPNodeConfigOverride",
            "CiliumBGPPeerConfig",
            "CiliumBGPPeeringPolicy",
            "CiliumCIDRGroup",
            "CiliumClusterwideEnvoyConfig",
            "CiliumClusterwideNetworkPolicy",
            "CiliumEgressGatewayPolicy",
            "CiliumEndpoint",
            "CiliumEndpointSlice",
            "CiliumEnvoyConfig",
            "CiliumExternalWorkload",
            "CiliumGatewayClassConfig",
            "CiliumIdentity",
            "CiliumL2AnnouncementPolicy",
            "CiliumLocalRedirectPolicy",
            "CiliumNetworkPolicy",
            "CiliumNode",
            "CiliumNodeConfig",
            "CiliumPodIPPool",
        ] {
            assert!(foreign("cilium.io/v2", kind), "{kind}");
        }
    }

    #[test]
    fn misspelt_lists_are_no_foreign_kinds() {
        for kind in ["list", "Lst", "Lits", "Lists"] {
            assert!(is_near_list(kind), "{kind}");
        }
        for kind in ["Role", "PodList", "Test", "Job"] {
            assert!(!is_near_list(kind), "{kind}");
        }
    }

    #[test]
    fn misspelt_documents_of_ours_are_not_foreign() {
        for (api_version, kind) in [
            ("cilium-ipam.io/v9", "IPPool"),
            ("cilium-ipam.io/v1alpha1", "Service"),
            ("cilium-ipam.io/v1alpha1", "IpamPool"),
            ("cilium-ipam.io/v1alpha1", "Policy"),
            ("Cilium-IPAM.io/v1alpha1", "IPPool"),
            ("ciliumipam.io/v1alpha1", "IPPool"),
            ("cilum-ipam.io/v1alpha1", "IPPool"),
            ("cilium-ipam.com/v1alpha1", "IPAMPolicy"),
            ("ipam.cilium.io/v1alpha1", "IPPool"),
            ("cilium-ipam/v1alpha1", "IPPool"),
            ("cilium-ipam.io", "IPPool"),
            ("v1alpha1", "IPPool"),
            ("v1", "IPPool"),
            ("", "IPPool"),
            ("cilium.io/v2", "IPPool"),
            ("cilium.io/v2", "CiliumLoadbalancerIPPools"),
            ("cilium.io/v2", "LoadBalancerIPPool"),
            ("cilium.io/v3", "CiliumLoadBalancerIPPool"),
            ("cilum.io/v2", "CiliumLoadBalancerIPPool"),
            ("example.org/v1", "CiliumLoadBalancerIPPool"),
            ("example.org/v1", "NodeAssignement"),
            ("v1", "ServiceAssigment"),
            ("ipam-cillium.io/v1alpha1", "IPPool"),
            ("ipam.io/v1alpha1", "IPPool"),
            ("ipam.k8s.io/v1alpha1", "IPAMPolicy"),
            ("cilium.io/v2alpha1", "CiliumLBIPPool"),
        ] {
            assert!(!foreign(api_version, kind), "{api_version} {kind}");
        }
    }
}
