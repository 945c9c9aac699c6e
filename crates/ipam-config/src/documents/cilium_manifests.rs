//! Reads which objects of Cilium's kinds the documents have, whatever reads these kinds. Reports no
//! fault: `lower` does.

use crate::documents::context::keys;
use crate::documents::recognition::{CILIUM_GROUP, LIST};
use crate::documents::tree::Document;
use crate::documents::{Documents, yaml};
use ipam_desired::CiliumManifest;

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
