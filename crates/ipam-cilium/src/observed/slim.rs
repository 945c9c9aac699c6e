//! The part of an object that is ever read, for files that people share: no secrets, no status
//! noise.

use serde_json::{Map, Value};

use super::ObservedKind;

/// The object with nothing in it that [`super::Reader`] does not read.
pub fn slim(kind: ObservedKind, object: &Value) -> Value {
    let (api_version, name) = kind.api_version_and_kind();
    let mut slimmed = Value::Object(Map::new());
    let text =
        |key: &str, default: &str| object.get(key).cloned().unwrap_or_else(|| default.into());
    slimmed["apiVersion"] = text("apiVersion", api_version);
    slimmed["kind"] = text("kind", name);
    for path in paths(kind) {
        copy(object, &mut slimmed, path);
    }
    match kind {
        ObservedKind::Node => slim_managed_fields(&mut slimmed, slim_node_manager),
        ObservedKind::CiliumNode => slim_managed_fields(&mut slimmed, slim_cilium_node_manager),
        ObservedKind::LoadBalancerPool => slim_managed_fields(&mut slimmed, slim_pool_manager),
        ObservedKind::CiliumConfig => slim_managed_fields(&mut slimmed, slim_time),
        _ => {}
    }
    slimmed
}

const IDENTITY: [&[&str]; 5] = [
    &["metadata", "name"],
    &["metadata", "namespace"],
    &["metadata", "uid"],
    &["metadata", "resourceVersion"],
    &["metadata", "creationTimestamp"],
];

fn paths(kind: ObservedKind) -> Vec<&'static [&'static str]> {
    let fields: &[&'static [&'static str]] = match kind {
        ObservedKind::Node => &[
            &["metadata", "labels"],
            &["metadata", "annotations", super::ANNOTATION_IPV4],
            &["metadata", "annotations", super::ANNOTATION_IPV6],
            &["metadata", "annotations", super::OLD_ANNOTATION_IPV4],
            &["metadata", "annotations", super::OLD_ANNOTATION_IPV6],
            &["metadata", "annotations", super::PROTECTED_ANNOTATION],
            &["metadata", "annotations", super::IGNORE_ANNOTATION],
            &["metadata", "managedFields"],
            &["spec", "podCIDR"],
            &["spec", "podCIDRs"],
            &["spec", "providerID"],
            &["status", "addresses"],
        ],
        ObservedKind::Claims => &[&["data", super::CLAIMS_KEY]],
        ObservedKind::CiliumNode => &[
            &["metadata", "ownerReferences"],
            &["metadata", "annotations", "cilium.io/do-not-gc"],
            &["metadata", "managedFields"],
            &["metadata", "annotations", super::IGNORE_ANNOTATION],
            &["spec", "ipam", "podCIDRs"],
            &["spec", "ipam", "pools", "allocated"],
            &["status", "ipam", "operator-status", "error"],
        ],
        ObservedKind::ServiceCidr => &[&["spec", "cidrs"]],
        ObservedKind::LoadBalancerPool => &[
            &["metadata", "labels"],
            &["metadata", "annotations"],
            &["metadata", "managedFields"],
            &["spec", "cidrs"],
            &["spec", "blocks"],
            &["spec", "serviceSelector"],
            &["spec", "allowFirstLastIPs"],
            &["spec", "disabled"],
            &["status", "conditions"],
        ],
        ObservedKind::PodIpPool => &[
            &["metadata", "labels"],
            &["spec", "ipv4"],
            &["spec", "ipv6"],
        ],
        ObservedKind::Service => &[
            &["metadata", "labels"],
            &["metadata", "annotations", "lbipam.cilium.io/ips"],
            &["metadata", "annotations", "lbipam.cilium.io/sharing-key"],
            &[
                "metadata",
                "annotations",
                "lbipam.cilium.io/sharing-cross-namespace",
            ],
            &["metadata", "annotations", "io.cilium/lb-ipam-ips"],
            &["metadata", "annotations", "io.cilium/lb-ipam-sharing-key"],
            &[
                "metadata",
                "annotations",
                "io.cilium/lb-ipam-sharing-cross-namespace",
            ],
            &["spec", "type"],
            &["spec", "loadBalancerClass"],
            &["spec", "loadBalancerIP"],
            &["spec", "ipFamilyPolicy"],
            &["spec", "ipFamilies"],
            &["spec", "externalTrafficPolicy"],
            &["spec", "ports"],
            &["spec", "selector"],
            &["status", "loadBalancer"],
            &["status", "conditions"],
        ],
        ObservedKind::CiliumConfig => &[
            &["metadata", "managedFields"],
            &["data", "ipam"],
            &["data", "annotate-k8s-node"],
            &["data", "enable-ipv4"],
            &["data", "enable-ipv6"],
            &["data", "enable-lb-ipam"],
            &["data", "default-lb-service-ipam"],
            &["data", "enable-bgp-control-plane"],
            &["data", "enable-l2-announcements"],
            &["data", "bgp-announce-pod-cidr"],
            &["data", "bgp-announce-lb-ip"],
            &["data", "cluster-pool-ipv4-cidr"],
            &["data", "cluster-pool-ipv6-cidr"],
            &["data", "cluster-pool-ipv4-mask-size"],
            &["data", "cluster-pool-ipv6-mask-size"],
            &["data", "routing-mode"],
            &["data", "tunnel"],
            &["data", "ipv4-native-routing-cidr"],
            &["data", "ipv6-native-routing-cidr"],
            &["data", "enable-ipv4-masquerade"],
            &["data", "enable-ipv6-masquerade"],
            &["data", "enable-ip-masq-agent"],
            &["data", "ipv4-range"],
            &["data", "ipv6-range"],
            &["data", super::DEFAULT_POOL_SETTING],
        ],
        ObservedKind::CiliumOperator => &[
            &["metadata", "labels"],
            &["metadata", "generation"],
            &["spec", "replicas"],
            &["spec", "template", "spec", "containers"],
            &["status", "observedGeneration"],
            &["status", "replicas"],
            &["status", "updatedReplicas"],
        ],
        ObservedKind::CiliumAgentPod => &[
            &["metadata", "labels"],
            &["spec", "nodeName"],
            &["spec", "containers"],
            &["status", "startTime"],
        ],
        ObservedKind::CiliumNodeConfig => &[
            &["metadata", "labels"],
            &["metadata", "ownerReferences"],
            &["spec", "nodeSelector"],
            &["spec", "defaults"],
        ],
        ObservedKind::BgpPeeringPolicy => &[&["spec", "nodeSelector"], &["spec", "virtualRouters"]],
        ObservedKind::BgpClusterConfig => &[&["spec", "nodeSelector"], &["spec", "bgpInstances"]],
        ObservedKind::BgpPeerConfig => &[&["spec", "families"]],
        ObservedKind::BgpAdvertisement => &[&["metadata", "labels"], &["spec", "advertisements"]],
        ObservedKind::L2AnnouncementPolicy => {
            &[&["spec", "serviceSelector"], &["spec", "loadBalancerIPs"]]
        }
        ObservedKind::CiliumDaemonSet => &[
            &["metadata", "labels"],
            &["spec", "template", "spec", "containers"],
            &["spec", "template", "spec", "initContainers"],
        ],
        ObservedKind::CiliumNodeDefinition => &[&["metadata", "labels"]],
        ObservedKind::ControllerManagerPod => &[&["metadata", "labels"], &["spec", "containers"]],
    };
    IDENTITY.iter().chain(fields).copied().collect()
}

fn copy(from: &Value, to: &mut Value, path: &[&str]) {
    let [key, rest @ ..] = path else { return };
    let Some(value) = from.get(key) else { return };
    if !rest.is_empty() {
        // An absent leaf must not leave an empty parent behind.
        let mut child = to
            .get(key)
            .cloned()
            .unwrap_or_else(|| Value::Object(Map::new()));
        copy(value, &mut child, rest);
        if child.as_object().is_some_and(|object| !object.is_empty()) {
            to[*key] = child;
        }
    } else if matches!(*key, "containers" | "initContainers") {
        to[*key] = value
            .as_array()
            .into_iter()
            .flatten()
            .map(slim_container)
            .collect();
    } else {
        to[*key] = value.clone();
    }
}

/// The arguments that are read.
const ARGUMENTS: [&str; 24] = [
    "--allow-config-keys",
    "--deny-config-keys",
    "--source",
    "--ipam-default-ip-pool",
    "--allocate-node-cidrs",
    "--cluster-cidr",
    "--ipam",
    "--cluster-pool-ipv4-cidr",
    "--cluster-pool-ipv6-cidr",
    "--cluster-pool-ipv4-mask-size",
    "--cluster-pool-ipv6-mask-size",
    "--annotate-k8s-node",
    "--enable-ipv4",
    "--enable-ipv6",
    "--ipv4-range",
    "--ipv6-range",
    "--enable-bgp-control-plane",
    "--enable-l2-announcements",
    "--bgp-announce-pod-cidr",
    "--bgp-announce-lb-ip",
    "--routing-mode",
    "--tunnel",
    "--ipv4-native-routing-cidr",
    "--ipv6-native-routing-cidr",
];

fn is_read(word: &str) -> bool {
    ARGUMENTS.contains(&word.split('=').next().unwrap_or(word))
}

/// Name, image and the arguments that are read: a container's environment and other arguments may
/// hold secrets.
fn slim_container(container: &Value) -> Value {
    let mut slimmed = Value::Object(Map::new());
    for key in ["name", "image"] {
        copy(container, &mut slimmed, &[key]);
    }
    for key in ["command", "args"] {
        let mut words: Vec<Value> = Vec::new();
        let mut keeps_value = false;
        for word in container
            .get(key)
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
        {
            let text = word.as_str().unwrap_or_default();
            if is_read(text) || (keeps_value && !text.starts_with('-')) {
                words.push(word.clone());
            }
            // `--key value`.
            keeps_value = is_read(text) && !text.contains('=');
        }
        if !words.is_empty() {
            slimmed[key] = words.into();
        }
    }
    slimmed
}

/// Keeps, of each manager, only whether it wrote a field that matters.
fn slim_managed_fields(object: &mut Value, slim_manager: fn(Value) -> Option<Value>) {
    let Some(managers) = object.pointer_mut("/metadata/managedFields") else {
        return;
    };
    let entries = managers
        .as_array_mut()
        .map(std::mem::take)
        .unwrap_or_default();
    *managers = entries.into_iter().filter_map(slim_manager).collect();
}

/// `None` for one that wrote no pod CIDR, or that is nothing an API server writes.
fn slim_node_manager(entry: Value) -> Option<Value> {
    with_fields(entry, |written, fields| {
        for key in ["f:podCIDR", "f:podCIDRs"] {
            copy(written, fields, &["f:spec", key]);
        }
        for key in super::ANNOTATION_KEYS {
            copy(
                written,
                fields,
                &["f:metadata", "f:annotations", &format!("f:{key}")],
            );
        }
    })
}

/// `None` for one that did not write `spec.ipam.podCIDRs`.
fn slim_cilium_node_manager(entry: Value) -> Option<Value> {
    with_fields(entry, |written, fields| {
        copy(written, fields, &["f:spec", "f:ipam", "f:podCIDRs"])
    })
}

/// When it wrote.
fn slim_time(entry: Value) -> Option<Value> {
    Some(serde_json::json!({"time": entry.get("time")?}))
}

/// `None` for one that wrote neither the spec nor labels or annotations.
fn slim_pool_manager(entry: Value) -> Option<Value> {
    with_fields(entry, |written, fields| {
        if written.get("f:spec").is_some() {
            fields["f:spec"] = Value::Object(Map::new());
        }
        for key in ["f:labels", "f:annotations"] {
            copy(written, fields, &["f:metadata", key]);
        }
    })
}

/// An entry with those of its fields that are copied; `None` where none are.
fn with_fields(entry: Value, copied: impl Fn(&Value, &mut Value)) -> Option<Value> {
    let Value::Object(mut entry) = entry else {
        return None;
    };
    let mut fields = Value::Object(Map::new());
    let written = entry.remove("fieldsV1")?;
    copied(&written, &mut fields);
    fields.as_object().filter(|fields| !fields.is_empty())?;
    entry.insert("fieldsV1".to_owned(), fields);
    Some(Value::Object(entry))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn managers_that_no_server_writes_are_left_out() {
        let pod_cidr =
            json!({"manager": "m", "fieldsV1": {"f:spec": {"f:podCIDR": {}, "f:taints": {}}}});
        for (managers, kept) in [
            (
                json!([pod_cidr, [], null, "text", {"manager": "m"}, {"fieldsV1": []}]),
                1,
            ),
            (json!({"fieldsV1": {}}), 0),
            (json!("text"), 0),
        ] {
            let node = json!({"metadata": {"name": "n", "managedFields": managers}});
            let slimmed = slim(ObservedKind::Node, &node);
            let left = slimmed["metadata"]["managedFields"].as_array().unwrap();
            assert_eq!(left.len(), kept, "{slimmed}");
            assert!(
                left.iter()
                    .all(|entry| entry["fieldsV1"] == json!({"f:spec": {"f:podCIDR": {}}}))
            );
        }
    }
}
