//! What the API server serves of Cilium's kinds, by their CustomResourceDefinitions: versions,
//! the storage version, the versions of stored objects, and which fields each version keeps.
//!
//! Only an administrator of the cluster can change these. It must never know what a field means.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::Deserialize;
use serde_json::Value;

use super::view::{NamedMetadata, nullable};

/// The group of Cilium's kinds.
const GROUP: &str = ".cilium.io";

/// Label of a CustomResourceDefinition: the version of Cilium's schemas.
pub(super) const SCHEMA_LABEL: &str = "io.cilium.k8s.crd.schema.version";

ipam_core::text_enum! {
    /// A kind whose objects are written, by its plural name.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum CiliumKind {
        LoadBalancerPool = "ciliumloadbalancerippools",
        Node = "ciliumnodes",
        NodeConfig = "ciliumnodeconfigs",
        PodIpPool = "ciliumpodippools",
    }
}

impl CiliumKind {
    /// The kind of a CustomResourceDefinition of this name.
    pub fn of_definition(name: &str) -> Option<CiliumKind> {
        name.strip_suffix(GROUP)?.parse().ok()
    }

    /// `metadata.name` of its CustomResourceDefinition as a field selector.
    pub(super) fn field_selector(self) -> &'static str {
        match self {
            CiliumKind::LoadBalancerPool => "metadata.name=ciliumloadbalancerippools.cilium.io",
            CiliumKind::Node => "metadata.name=ciliumnodes.cilium.io",
            CiliumKind::NodeConfig => "metadata.name=ciliumnodeconfigs.cilium.io",
            CiliumKind::PodIpPool => "metadata.name=ciliumpodippools.cilium.io",
        }
    }
}

/// Whether a CustomResourceDefinition of this name belongs to Cilium.
pub(super) fn is_of_cilium(name: &str) -> bool {
    (name.strip_suffix(GROUP)).is_some_and(|plural| plural.starts_with("cilium"))
}

/// Cilium's CustomResourceDefinitions, by plural name. Cheap to clone.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Definitions(Arc<BTreeMap<String, ServedKind>>);

/// What one CustomResourceDefinition says about its kind.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ServedKind {
    /// By name, such as `v2alpha1`.
    pub versions: BTreeMap<String, ServedVersion>,
    /// `status.storedVersions`: the versions in which etcd may hold objects. An update that removes
    /// one of them from `spec.versions` is refused (`validateCustomResourceDefinitionStoredVersions`
    /// of apiextensions-apiserver @ 1.36).
    pub stored: BTreeSet<String>,
}

/// One version of a kind.
#[derive(Clone, Debug, PartialEq)]
pub struct ServedVersion {
    pub access: Access,
    pub role: VersionRole,
    /// `None` if the schema is absent, or if no object of the kind is written.
    pub schema: Option<FieldSchema>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    Served,
    NotServed,
}

/// Whether the API server stores objects in a version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VersionRole {
    Storage,
    Converted,
}

/// The fields of objects that the API server keeps. It prunes all other fields.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub struct FieldSchema {
    #[serde(
        default,
        rename = "x-kubernetes-preserve-unknown-fields",
        deserialize_with = "nullable"
    )]
    keeps_unknown: bool,
    #[serde(default, deserialize_with = "nullable")]
    properties: BTreeMap<String, FieldSchema>,
    #[serde(default)]
    items: Option<Box<FieldSchema>>,
    #[serde(default, rename = "additionalProperties")]
    additional: Option<Additional>,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(untagged)]
enum Additional {
    Any(bool),
    Of(Box<FieldSchema>),
}

#[derive(Deserialize)]
pub(super) struct DefinitionView<'a> {
    #[serde(borrow)]
    pub metadata: NamedMetadata<'a>,
    #[serde(default, deserialize_with = "nullable")]
    spec: DefinitionSpec,
    #[serde(default, deserialize_with = "nullable")]
    status: DefinitionStatus,
}

#[derive(Default, Deserialize)]
struct DefinitionSpec {
    #[serde(default, deserialize_with = "nullable")]
    versions: Vec<VersionView>,
}

#[derive(Deserialize)]
struct VersionView {
    name: String,
    #[serde(default)]
    served: bool,
    #[serde(default)]
    storage: bool,
    #[serde(default)]
    schema: Option<SchemaView>,
}

#[derive(Deserialize)]
struct SchemaView {
    #[serde(rename = "openAPIV3Schema")]
    open_api: Option<FieldSchema>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct DefinitionStatus {
    #[serde(default, deserialize_with = "nullable")]
    stored_versions: Vec<String>,
}

impl Definitions {
    /// The definition of a kind that is written; `None` if it is not visible.
    pub fn of(&self, kind: CiliumKind) -> Option<&ServedKind> {
        self.0.get(kind.as_str())
    }

    /// All CustomResourceDefinitions that could be read, by plural name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &ServedKind)> {
        self.0.iter().map(|(plural, kind)| (plural.as_str(), kind))
    }

    /// Adds a definition, if it is one of Cilium's.
    pub(super) fn add(&mut self, view: DefinitionView<'_>) {
        let name: &str = &view.metadata.name;
        if !is_of_cilium(name) {
            return;
        }
        let plural = name.strip_suffix(GROUP).unwrap_or(name).to_owned();
        let is_written = CiliumKind::of_definition(name).is_some();
        let read = |version: VersionView| {
            let schema = version.schema.filter(|_| is_written);
            let read = ServedVersion {
                access: if version.served {
                    Access::Served
                } else {
                    Access::NotServed
                },
                role: if version.storage {
                    VersionRole::Storage
                } else {
                    VersionRole::Converted
                },
                schema: schema.and_then(|schema| schema.open_api),
            };
            (version.name, read)
        };
        let kind = ServedKind {
            versions: view.spec.versions.into_iter().map(read).collect(),
            stored: view.status.stored_versions.into_iter().collect(),
        };
        Arc::make_mut(&mut self.0).insert(plural, kind);
    }
}

/// The version of Cilium's schemas in the labels of a definition.
pub(super) fn schema_label<'v>(view: &'v DefinitionView<'_>) -> Option<&'v str> {
    let labels = view.metadata.labels.as_ref()?;
    labels.get(SCHEMA_LABEL).map(String::as_str)
}

impl ServedKind {
    /// Whether the server serves a version, such as `v2`.
    pub fn serves(&self, version: &str) -> bool {
        let version = self.versions.get(version);
        version.is_some_and(|version| version.access == Access::Served)
    }

    /// The version in which objects are stored.
    pub fn storage(&self) -> Option<&str> {
        let mut versions = self.versions.iter();
        versions
            .find(|(_, version)| version.role == VersionRole::Storage)
            .map(|(name, _)| name.as_str())
    }
}

impl FieldSchema {
    /// Paths of the fields of an object that the API server would prune, such as
    /// `spec.blocks[].start`. `apiVersion`, `kind` and `metadata` are always kept.
    pub fn pruned(&self, object: &Value) -> Vec<String> {
        let mut pruned = BTreeSet::new();
        for (key, value) in object.as_object().into_iter().flatten() {
            if !matches!(key.as_str(), "apiVersion" | "kind" | "metadata") {
                self.prune_field(key, value, "", &mut pruned);
            }
        }
        pruned.into_iter().collect()
    }

    fn prune_field(&self, key: &str, value: &Value, of: &str, pruned: &mut BTreeSet<String>) {
        let path = if of.is_empty() {
            key.to_owned()
        } else {
            format!("{of}.{key}")
        };
        match (self.properties.get(key), &self.additional) {
            (Some(field), _) => field.prune_value(value, &path, pruned),
            (None, Some(Additional::Of(field))) => field.prune_value(value, &path, pruned),
            (None, Some(Additional::Any(true))) => {}
            (None, _) if self.keeps_unknown => {}
            (None, _) => {
                pruned.insert(path);
            }
        }
    }

    fn prune_value(&self, value: &Value, path: &str, pruned: &mut BTreeSet<String>) {
        match (value, &self.items) {
            (Value::Object(fields), _) => {
                for (key, value) in fields {
                    self.prune_field(key, value, path, pruned);
                }
            }
            (Value::Array(values), Some(items)) => {
                let path = format!("{path}[]");
                for value in values {
                    items.prune_value(value, &path, pruned);
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn definitions(name: &str) -> Definitions {
        let selector = json!({"type": "object", "properties": {
            "matchLabels": {"type": "object", "additionalProperties": {"type": "string"}}}});
        let schema = json!({"openAPIV3Schema": {"type": "object", "properties": {
            "spec": {"type": "object", "properties": {
                "disabled": {"type": "boolean"},
                "serviceSelector": selector,
                "blocks": {"type": "array", "items": {"type": "object",
                    "properties": {"cidr": {"type": "string"}}}},
                "open": {"x-kubernetes-preserve-unknown-fields": true}}}}}});
        let object = json!({"metadata": {"name": name}, "spec": {"versions": [
            {"name": "v2", "served": true, "storage": true, "schema": schema},
            {"name": "v2alpha1", "served": false, "storage": false, "schema": null}]},
            "status": {"storedVersions": ["v2alpha1", "v2"]}});
        let mut definitions = Definitions::default();
        definitions.add(serde_json::from_str(&object.to_string()).unwrap());
        definitions
    }

    #[test]
    fn a_definition_tells_what_is_served_and_stored() {
        let read = definitions("ciliumloadbalancerippools.cilium.io");
        let pools = read.of(CiliumKind::LoadBalancerPool).unwrap();
        assert!(pools.serves("v2") && !pools.serves("v2alpha1") && !pools.serves("v1"));
        assert_eq!(pools.storage(), Some("v2"));
        assert!(pools.stored.contains("v2alpha1"));
        let more = definitions("ciliumendpoints.cilium.io");
        let (plural, kind) = more.iter().next().unwrap();
        assert_eq!(plural, "ciliumendpoints");
        assert_eq!(
            kind.versions["v2"].schema, None,
            "no such object is written"
        );
        assert_eq!(
            definitions("ciliumnodes.example.com"),
            Definitions::default()
        );
    }

    #[test]
    fn fields_that_are_not_in_the_schema_are_pruned() {
        let read = definitions("ciliumloadbalancerippools.cilium.io");
        let versions = &read.of(CiliumKind::LoadBalancerPool).unwrap().versions;
        let schema = versions["v2"].schema.as_ref().unwrap();
        let kept = json!({"apiVersion": "a", "kind": "k", "metadata": {"name": "n"},
            "spec": {"disabled": true, "serviceSelector": {"matchLabels": {"a": "b"}},
                "blocks": [{"cidr": "10.0.0.0/24"}], "open": {"a": {"b": 1}}}});
        assert_eq!(schema.pruned(&kept), Vec::<String>::new());
        let lost = json!({"spec": {"cidrs": [{"cidr": "10.0.0.0/24"}],
            "blocks": [{"start": "10.0.0.1"}, {"start": "10.0.0.9"}],
            "serviceSelector": {"labels": {}}}, "more": 1});
        let pruned = [
            "more",
            "spec.blocks[].start",
            "spec.cidrs",
            "spec.serviceSelector.labels",
        ];
        assert_eq!(schema.pruned(&lost), pruned);
    }
}
