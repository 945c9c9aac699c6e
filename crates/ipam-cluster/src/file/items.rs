//! The heads of a list's items, which identify the objects of a cluster file: the kind of each,
//! and the identity that an API server would give it.

use std::num::NonZero;
use std::panic::resume_unwind;

use serde::Deserialize;
use serde_json::error::Category;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::{Target, WriteError};
use ipam_cilium::observed::{CLAIMS_NAME, Head, OWN_NAMESPACE, ObservedKind};
use ipam_cilium::parser_words::in_plain_words;
use ipam_core::text::one_line;

/// Items whose heads are read at once: few enough to need little memory.
const AT_ONCE: usize = 4096;

/// A list of any kind, of which `items` is not read yet.
#[derive(Deserialize)]
struct List<'a> {
    #[serde(default)]
    kind: String,
    #[serde(borrow)]
    items: &'a RawValue,
}

/// The same, read in one pass. Its errors do not tell the list from its items.
#[derive(Deserialize)]
struct ListOfItems<'a> {
    #[serde(default)]
    kind: String,
    #[serde(borrow)]
    items: Vec<&'a RawValue>,
}

/// The items of a `List`, and the text of `items`.
///
/// # Errors
/// Fails if the text is no `List`. The message fits after the file's name.
pub(super) fn items_of(json: &str) -> Result<(Vec<&RawValue>, &str), String> {
    if let Ok(ListOfItems { kind, items }) = serde_json::from_str(json)
        && kind == "List"
        && let Some(text) = text_around(json, &items)
    {
        return Ok((items, text));
    }
    let list: List<'_> = serde_json::from_str(json)
        .map_err(|error| format!("it is not a List: {}", fault(&error)))?;
    if list.kind != "List" {
        return Err(format!(
            "it is a `{}`, not a `List` as `kubectl get nodes,ciliumnodes -o json` prints it",
            one_line(&list.kind)
        ));
    }
    let items = serde_json::from_str(list.items.get())
        .map_err(|error| format!("`items` is not a list of objects: {}", fault(&error)))?;
    Ok((items, list.items.get()))
}

/// What is wrong with a JSON text.
fn fault(error: &serde_json::Error) -> String {
    let place = format!("line {}, column {}", error.line(), error.column());
    match error.classify() {
        Category::Eof => format!("the text ends too early, at {place}"),
        Category::Syntax | Category::Io => format!("it is no JSON at {place}"),
        Category::Data => format!("`items` is missing, or a field has another type, at {place}"),
    }
}

/// From the bracket before the first item to the one after the last; `None` without items.
fn text_around<'a>(json: &'a str, items: &[&'a RawValue]) -> Option<&'a str> {
    let offset = |item: &RawValue| item.get().as_ptr().addr() - json.as_ptr().addr();
    let (first, last) = (items.first()?, items.last()?);
    let start = json[..offset(first)].rfind('[')?;
    let after = offset(last) + last.get().len();
    let end = after + json[after..].find(']')? + 1;
    Some(&json[start..end])
}

/// Gives the head of each item, in their order. All processors read heads.
pub(super) fn with_heads(
    items: &[&RawValue],
    mut give: impl FnMut(&RawValue, Result<ItemHead, String>),
) {
    let threads = std::thread::available_parallelism().map_or(1, NonZero::get);
    for items in items.chunks(AT_ONCE) {
        let each = items.len().div_ceil(threads);
        let read = |items: &[&RawValue]| -> Vec<Result<ItemHead, String>> {
            items
                .iter()
                .map(|item| ItemHead::read(item.get()))
                .collect()
        };
        let heads: Vec<_> = std::thread::scope(|scope| {
            let parts = items
                .chunks(each)
                .map(|part| scope.spawn(move || read(part)));
            let parts: Vec<_> = parts.collect();
            let joined = parts.into_iter().map(|part| part.join());
            joined
                .flat_map(|heads| heads.unwrap_or_else(|panic| resume_unwind(panic)))
                .collect()
        });
        for (item, head) in items.iter().zip(heads) {
            give(item, head);
        }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ItemHead {
    #[serde(default)]
    api_version: Option<String>,
    #[serde(default)]
    kind: Option<String>,
    #[serde(default)]
    pub(super) metadata: ItemMetadata,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ItemMetadata {
    #[serde(default)]
    pub name: String,
    #[serde(default)]
    namespace: String,
    #[serde(default)]
    pub uid: String,
    #[serde(default)]
    pub resource_version: String,
    #[serde(default)]
    labels: Option<ItemLabels>,
}

#[derive(Default, Deserialize)]
pub(super) struct ItemLabels {
    #[serde(rename = "k8s-app")]
    app: Option<String>,
    #[serde(rename = "io.cilium/app")]
    cilium_app: Option<String>,
}

impl ItemHead {
    /// Reads the head of an item.
    ///
    /// # Errors
    /// Fails if the item is not an object. The message fits after the item's number.
    pub(super) fn read(item: &str) -> Result<ItemHead, String> {
        let read = serde_json::from_str(item);
        read.map_err(|error: serde_json::Error| {
            format!(
                "is not a Kubernetes object: {}",
                in_plain_words(&error.to_string())
            )
        })
    }

    /// Reads the head of a parsed item.
    ///
    /// # Errors
    /// Fails if the item is not an object.
    pub(crate) fn of(item: &Value) -> Result<ItemHead, String> {
        ItemHead::deserialize(item).map_err(|error| in_plain_words(&error.to_string()))
    }

    /// Whether its items are the objects.
    pub(super) fn is_list(&self) -> bool {
        let of = self.kind().strip_suffix("List");
        let is_observed = |kind: &str| {
            let plans = ObservedKind::OF_PLANS.iter();
            let mut kinds = plans.chain(&ObservedKind::OF_EXAMINATIONS);
            kinds.any(|one| one.api_version_and_kind().1 == kind)
        };
        of.is_some_and(|of| of.is_empty() || is_observed(of))
    }

    fn kind(&self) -> &str {
        self.kind.as_deref().unwrap_or_default()
    }

    /// The kind, if plans read it.
    ///
    /// # Errors
    /// Fails if the item may be one that plans read. The message fits after the item's number.
    pub(crate) fn observed_kind(&self) -> Result<Option<ObservedKind>, String> {
        let labels = self.metadata.labels.as_ref();
        let kind = ObservedKind::of(&Head {
            api_version: self.api_version.as_deref().unwrap_or_default(),
            kind: self.kind(),
            name: &self.metadata.name,
            namespace: &self.metadata.namespace,
            app: labels.and_then(|labels| labels.app.as_deref()),
            cilium_app: labels.and_then(|labels| labels.cilium_app.as_deref()),
        });
        let name = self.metadata.name.escape_debug();
        kind.map_err(|fault| {
            if self.metadata.name.is_empty() {
                fault.to_string()
            } else {
                format!("(`{name}`) {fault}")
            }
        })
    }

    pub(super) fn location(&self, kind: ObservedKind) -> ItemLocation {
        ItemLocation::new(kind, &self.metadata.namespace, &self.metadata.name)
    }

    /// The object as JSON text, with the UID and resourceVersion that an API server would give it;
    /// `None` if it has both. The UID depends only on kind and name, so that the order of objects
    /// does not matter.
    pub(super) fn identified(&self, item: &str) -> Result<Option<String>, serde_json::Error> {
        let ItemMetadata {
            name,
            namespace,
            uid,
            resource_version,
            ..
        } = &self.metadata;
        if !uid.is_empty() && !resource_version.is_empty() {
            return Ok(None);
        }
        let mut object: Value = serde_json::from_str(item)?;
        // serde would accept a list too; the API server would not.
        let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) else {
            return Err(serde::de::Error::custom(format!(
                "is a {} without metadata",
                self.kind().escape_debug()
            )));
        };
        if uid.is_empty() {
            metadata.insert(
                "uid".to_owned(),
                json!(uid_of(self.kind(), namespace, name)),
            );
        }
        if resource_version.is_empty() {
            metadata.insert("resourceVersion".to_owned(), json!("1"));
        }
        Ok(Some(object.to_string()))
    }
}

/// A UID that depends only on its arguments.
pub(super) fn uid_of(kind: &str, namespace: &str, name: &str) -> String {
    let digest = Sha256::digest(format!("{kind}/{namespace}/{name}"));
    let hex: String = digest
        .iter()
        .take(16)
        .map(|byte| format!("{byte:02x}"))
        .collect();
    format!(
        "{}-{}-{}-{}-{}",
        &hex[..8],
        &hex[8..12],
        &hex[12..16],
        &hex[16..20],
        &hex[20..]
    )
}

/// Kind, namespace and name of an object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ItemLocation {
    pub(super) kind: ObservedKind,
    namespace: String,
    pub(super) name: String,
}

impl ItemLocation {
    pub(super) fn new(kind: ObservedKind, namespace: &str, name: &str) -> ItemLocation {
        let namespace = match kind {
            ObservedKind::Service if namespace.is_empty() => "default",
            ObservedKind::Service | ObservedKind::CiliumNodeConfig => namespace,
            // The other kinds have no namespaces, or one object.
            _ => "",
        };
        ItemLocation {
            kind,
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        }
    }

    /// The object of a write.
    ///
    /// # Errors
    /// Fails if a cluster file has no such objects.
    pub(super) fn of(target: &Target) -> Result<ItemLocation, WriteError> {
        Ok(match target {
            Target::Node(name) => ItemLocation::new(ObservedKind::Node, "", name.as_str()),
            Target::CiliumNode(name) => {
                ItemLocation::new(ObservedKind::CiliumNode, "", name.as_str())
            }
            Target::NodeConfig(_, namespace, name) => {
                ItemLocation::new(ObservedKind::CiliumNodeConfig, namespace, name)
            }
            Target::PodPool(_, name) => ItemLocation::new(ObservedKind::PodIpPool, "", name),
            Target::AddressPool(_, name) => {
                ItemLocation::new(ObservedKind::LoadBalancerPool, "", name.as_str())
            }
            Target::Service(service) => {
                ItemLocation::new(ObservedKind::Service, service.namespace(), service.name())
            }
            Target::Claims => ItemLocation::new(ObservedKind::Claims, OWN_NAMESPACE, CLAIMS_NAME),
            Target::Departed(part) => {
                ItemLocation::new(ObservedKind::Departed(*part), OWN_NAMESPACE, part.as_str())
            }
            Target::Lease(_)
            | Target::Custom(..)
            | Target::Status(..)
            | Target::Pod(..)
            | Target::Eviction(..)
            | Target::MigrationRecord(_)
            | Target::Event { .. } => {
                return Err(WriteError::Refused(
                    "a cluster file has no such objects".to_owned(),
                ));
            }
        })
    }

    /// Kind and name, as messages show them.
    pub(super) fn named(&self) -> String {
        let kind = self.kind.api_version_and_kind().1;
        format!("{kind} `{}`", one_line(&self.name))
    }

    /// Whether a second object of the same name would hide the first.
    pub(super) fn is_unique(&self) -> bool {
        use ObservedKind::{
            CiliumNode, CiliumNodeConfig, Claims, Departed, LoadBalancerPool, Node, PodIpPool,
            Service,
        };
        matches!(
            self.kind,
            Node | CiliumNode
                | CiliumNodeConfig
                | Claims
                | Departed(_)
                | LoadBalancerPool
                | PodIpPool
                | Service
        )
    }
}
