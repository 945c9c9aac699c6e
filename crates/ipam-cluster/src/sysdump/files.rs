//! Which file of a sysdump has the objects of a kind, and how the file lists them. It must never
//! know what the objects mean.
//!
//! Source: `sysdump/constants.go` of cilium-cli 0.9 to 0.16, `cilium-cli/sysdump/constants.go` and
//! `sysdump.go` of Cilium 1.17 to 1.20.

use serde_json::{Value, json};

use crate::file::ItemHead;
use ipam_cilium::observed::{ObservedKind, is_read};

/// The file in which `cilium sysdump` logs what it does, from cilium-cli 0.11 on.
pub(super) const LOG: &str = "cilium-sysdump.log";

/// The file with the objects of a kind, without `-DATE-TIME.yaml`; `None` for kinds that no version
/// of `cilium sysdump` collects.
pub(super) fn stem(kind: ObservedKind) -> Option<&'static str> {
    Some(match kind {
        ObservedKind::Claims
        | ObservedKind::Migration
        | ObservedKind::Definition(_)
        | ObservedKind::MoreDefinitions
        | ObservedKind::ServiceCidr
        | ObservedKind::SpeakerConfig => return None,
        ObservedKind::CiliumDaemonSet => "cilium-daemonset",
        ObservedKind::CiliumConfig => "cilium-configmap",
        // It has the Pods of the DaemonSets.
        ObservedKind::ControllerPod
        | ObservedKind::ControllerDaemonSet
        | ObservedKind::CiliumAgentPod => "k8s-pods",
        ObservedKind::LoadBalancerPool => "ciliumloadbalancerippools",
        ObservedKind::PodIpPool => "ciliumpodippools",
        ObservedKind::Service => "k8s-services",
        ObservedKind::CiliumOperator => "cilium-operator-deployment",
        ObservedKind::CiliumNodeConfig => "ciliumnodeconfigs",
        ObservedKind::BgpPeeringPolicy => "ciliumbgppeeringpolicies",
        ObservedKind::BgpClusterConfig => "ciliumbgpclusterconfigs",
        ObservedKind::BgpPeerConfig => "ciliumbgppeerconfigs",
        ObservedKind::BgpAdvertisement => "ciliumbgpadvertisements",
        ObservedKind::L2AnnouncementPolicy => "ciliuml2announcementpolicies",
        ObservedKind::CiliumNode => "ciliumnodes",
        ObservedKind::Node => "k8s-nodes",
    })
}

/// Whether a file has this stem and a date: `ciliumnodes-20260102-030405.yaml`.
pub(super) fn has_stem(name: &str, stem: &str) -> bool {
    let date = name
        .strip_prefix(stem)
        .and_then(|rest| rest.strip_prefix('-'))
        .and_then(|rest| rest.strip_suffix(".yaml"));
    date.is_some_and(|date| {
        let is_number = |part: &str, digits| {
            part.len() == digits && part.bytes().all(|byte| byte.is_ascii_digit())
        };
        let parts = date.split_once('-');
        parts.is_some_and(|(day, time)| is_number(day, 8) && is_number(time, 6))
    })
}

/// The objects of a kind in a parsed file, each with its kind.
///
/// # Errors
/// Fails with the reason if the file does not have all objects of the kind.
pub(super) fn objects(file: Vec<Value>, kind: ObservedKind) -> Result<Vec<Value>, String> {
    if file.iter().all(Value::is_null) {
        return Err("is empty: the collection of the sysdump was interrupted".to_owned());
    }
    let documents = file.into_iter().filter(|document| !document.is_null());
    let objects: Vec<Vec<Value>> = documents
        .map(|document| of_document(document, kind))
        .collect::<Result<_, String>>()?;
    Ok(objects.into_iter().flatten().collect())
}

fn of_document(file: Value, kind: ObservedKind) -> Result<Vec<Value>, String> {
    let (_, name) = kind.api_version_and_kind();
    let written = file["kind"].as_str().unwrap_or_default();
    let is_list = written == "List" || written.strip_suffix("List") == Some(name);
    if !is_list && written != name {
        return Err(format!(
            "has a `{}`, not a list of {}",
            written.escape_debug(),
            kind.resource()
        ));
    }
    if !is_list {
        return of_kind(vec![file], kind);
    }
    let rest = file["metadata"]["continue"].as_str();
    if rest.is_some_and(|token| !token.is_empty()) {
        return Err("has only the first part of the list".to_owned());
    }
    let version = file["apiVersion"].clone();
    let items = match file {
        Value::Object(mut file) => file.remove("items"),
        _ => None,
    };
    let items = match items {
        Some(Value::Array(items)) => items,
        // So does cilium-cli write an empty list of Kubernetes' own kinds.
        Some(Value::Null) => Vec::new(),
        _ => return Err("has a list without items".to_owned()),
    };
    // Items of a typed list have no kind.
    let mut objects = Vec::with_capacity(items.len());
    for (place, mut item) in items.into_iter().enumerate() {
        let Some(fields) = item.as_object_mut() else {
            return Err(format!("has no object as item {}", place + 1));
        };
        if fields.get("kind").is_none_or(|kind| kind == "") {
            fields.insert("kind".to_owned(), json!(name));
            fields.insert("apiVersion".to_owned(), version.clone());
        }
        objects.push(item);
    }
    of_kind(objects, kind)
}

/// The objects that are of the kind. Pods are selected by labels, as in a live cluster; other files
/// have no other objects.
fn of_kind(mut objects: Vec<Value>, kind: ObservedKind) -> Result<Vec<Value>, String> {
    let is_selection = matches!(
        kind,
        ObservedKind::ControllerPod | ObservedKind::CiliumAgentPod
    );
    let mut fault = None;
    let found = |object: &Value| ItemHead::of(object)?.observed_kind();
    objects.retain(|object| match found(object) {
        Ok(found) if found == Some(kind) => is_read(kind, object),
        Ok(_) if is_selection => false,
        Ok(_) => {
            let name = object["metadata"]["name"].as_str().unwrap_or_default();
            fault = Some(format!(
                "has `{}`, which is not of {}",
                name.escape_debug(),
                kind.resource()
            ));
            false
        }
        Err(problem) => {
            fault = Some(format!("has an item that {problem}"));
            false
        }
    });
    match fault {
        None => Ok(objects),
        Some(fault) => Err(fault),
    }
}
