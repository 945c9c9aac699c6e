//! MetalLB's controller, as its objects show it: its namespace and its release decide which
//! objects it reads, and how.

use std::collections::BTreeSet;

use super::listed;
use super::object::{Object, Remark, RemarkName};

/// The usual namespace of MetalLB.
const USUAL: &str = "metallb-system";

/// Parts of the images of the controller: MetalLB's own, and Bitnami's.
const IMAGES: [&str; 2] = ["metallb/controller", "metallb-controller"];

/// The first release in which `serviceAllocation` without selectors serves all Services. Before, it
/// serves none. Source: `internal/config/config.go` of MetalLB 0.15.2, and its release notes.
const EMPTY_SERVES_ALL: (u64, u64) = (0, 15);

/// What `serviceAllocation` without namespaces and selectors serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EmptyAllocation {
    All,
    Nothing,
    /// The release is unknown.
    Unknown,
}

/// The Deployment or a Pod of the controller; without fields if none is there.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Controller<'v> {
    namespace: Option<&'v str>,
    release: Option<(u64, u64)>,
}

impl<'v> Controller<'v> {
    pub(super) fn find(objects: &[Object<'v>]) -> Controller<'v> {
        let mut images = objects.iter().flat_map(|object| {
            let spec = match object.kind {
                "Pod" => object.spec("containers"),
                "Deployment" => &object.spec("template")["spec"]["containers"],
                _ => return Vec::new(),
            };
            let containers = spec.as_array().into_iter().flatten();
            let images = containers.filter_map(|container| container["image"].as_str());
            images.map(|image| (object.namespace(), image)).collect()
        });
        let is_own = |image: &str| IMAGES.iter().any(|part| image.contains(*part));
        let found = images.find(|(_, image)| is_own(image));
        let Some((namespace, image)) = found else {
            return Controller::default();
        };
        Controller {
            namespace: Some(namespace),
            release: release(image),
        }
    }

    pub(super) fn empty_allocation(&self) -> EmptyAllocation {
        match self.release {
            None => EmptyAllocation::Unknown,
            Some(release) if release < EMPTY_SERVES_ALL => EmptyAllocation::Nothing,
            Some(_) => EmptyAllocation::All,
        }
    }

    /// The objects of its namespace: MetalLB reads no others. Objects of a ConfigMap have none.
    pub(super) fn own<'o>(
        &self,
        objects: Vec<Object<'o>>,
        remarks: &mut Vec<Remark>,
    ) -> Vec<Object<'o>> {
        let namespaces: BTreeSet<&str> = objects.iter().map(Object::namespace).collect();
        let namespaces: BTreeSet<&str> = namespaces
            .into_iter()
            .filter(|one| !one.is_empty())
            .collect();
        let usual = namespaces.contains(USUAL).then_some(USUAL);
        let Some(own) = self.namespace.or(usual) else {
            if namespaces.len() > 1 {
                remarks.push(Remark::to_do(
                    RemarkName::OtherNamespace,
                    "MetalLB",
                    format!(
                        "it reads objects of its own namespace only, and these are of {}: remove the pools of the others",
                        listed(namespaces)
                    ),
                ));
            }
            return objects;
        };
        let is_own = |object: &Object<'_>| [own, ""].contains(&object.namespace());
        let (owned, others): (Vec<_>, Vec<_>) = objects.into_iter().partition(is_own);
        remarks.extend(others.iter().map(|object| {
            Remark::left_out(
                RemarkName::OtherNamespace,
                object.about(),
                format!(
                    "it is in namespace `{}`, and MetalLB reads `{own}` only: it is not imported",
                    object.namespace()
                ),
            )
        }));
        owned
    }
}

/// Major and minor number of the tag of an image.
fn release(image: &str) -> Option<(u64, u64)> {
    let (image, _digest) = image.split_once('@').unwrap_or((image, ""));
    let (_, tag) = image.rsplit_once(':')?;
    let mut numbers = tag.strip_prefix('v').unwrap_or(tag).split('.');
    let major = numbers.next()?.parse().ok()?;
    let minor = numbers.next()?.parse().ok()?;
    Some((major, minor))
}
