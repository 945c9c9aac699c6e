//! Objects for properties: plausible values, empty ones, and any text where a server allows it. A
//! server always writes what Go holds by value.

use std::collections::BTreeMap;

use proptest::collection::{btree_map, vec};
use proptest::option;
use proptest::prelude::*;

use super::messages::{
    Condition, Container, FieldsV1, Ingress, LoadBalancerStatus, ManagedFieldsEntry, Node,
    NodeAddress, NodeSpec, NodeStatus, ObjectMeta, OwnerReference, Pod, PodSpec, PodStatus,
    Quantity, Service, ServicePort, ServiceSpec, ServiceStatus, Time,
};
use crate::observed::{ANNOTATION_KEYS, MIGRATION_ANNOTATION, PROTECTED_ANNOTATION};

/// Keys and values that views look for, or any.
fn text() -> impl Strategy<Value = String> {
    let read = [
        "",
        "true",
        "n1",
        "InternalIP",
        "LoadBalancer",
        "IPv4",
        "10.1.0.0/24",
        "10.1.0.0/33",
        "fd00:1::/64",
        "192.0.2.7",
        "cilium-agent",
        "r/cilium:v1.19.3",
        "lbipam.cilium.io/ips",
        "io.cilium/lb-ipam-ips",
        PROTECTED_ANNOTATION,
        MIGRATION_ANNOTATION,
    ];
    let read: Vec<&str> = read.into_iter().chain(ANNOTATION_KEYS).collect();
    prop_oneof![
        4 => proptest::sample::select(read).prop_map(str::to_owned),
        1 => "[a-z0-9.:/-]{1,12}",
        1 => any::<String>(),
    ]
}

/// A text that Go holds by value.
fn some_text() -> impl Strategy<Value = Option<String>> {
    text().prop_map(Some)
}

/// A text that Go holds by a pointer.
fn pointer() -> impl Strategy<Value = Option<String>> {
    option::weighted(0.9, text())
}

fn map() -> impl Strategy<Value = BTreeMap<String, String>> {
    btree_map(text(), text(), 0..4)
}

fn time() -> impl Strategy<Value = Time> {
    // The years 1 to 9999, which Go writes with four digits.
    let written = (-62_135_596_800_i64..253_402_300_799, any::<i32>());
    option::weighted(0.9, written).prop_map(|written| Time {
        seconds: written.map(|(seconds, _)| seconds),
        nanos: written.map(|(_, nanos)| nanos),
    })
}

fn owned_fields() -> impl Strategy<Value = FieldsV1> {
    let raw = [
        "",
        "{}",
        "null",
        r#"{"f:spec":{"f:podCIDR":{},"f:podCIDRs":{".":{},"v:\"10.1.0.0/24\"":{}}}}"#,
        r#"{"f:metadata":{"f:annotations":{".":{},"f:network.cilium.io/ipv4-pod-cidr":{}}}}"#,
        r#"{"f:metadata":{"f:annotations":{"f:lbipam.cilium.io/ips":{}}},"f:status":{"f:phase":{}}}"#,
        r#"{"f:sp\u0065c":{"f:pod\u0043IDR":{}}}"#,
        r#"{"f:metadata":{"f:annotations":{"f:lbipam.cilium.io\/ips":{},"f:io.cilium\/lb-ipam-ips":{}}}}"#,
        r#"{"f:metadata":{"f:annotations":{"f:io.cilium/lb-ipam-ips":{},"f:io.cilium.network.ipv6-pod-cidr":{}}}}"#,
        r#"{"f:metadata":{"f:labels":{"f:rack":{}}},"f:status":{"f:conditions":{}}}"#,
        r#"{"f:spec":{"f:podCIDR":null}, "f:metadata": {"f:annotations": null}}"#,
    ];
    proptest::sample::select(raw.to_vec()).prop_map(|raw| FieldsV1 {
        raw: raw.to_owned(),
    })
}

fn manager() -> impl Strategy<Value = ManagedFieldsEntry> {
    let texts = (some_text(), some_text(), some_text());
    (
        texts,
        option::of(time()),
        option::weighted(0.9, owned_fields()),
    )
        .prop_map(
            |((manager, operation, subresource), time, fields)| ManagedFieldsEntry {
                manager,
                operation,
                time,
                fields,
                subresource,
            },
        )
}

fn owner() -> impl Strategy<Value = OwnerReference> {
    let texts = (some_text(), some_text(), some_text(), some_text());
    (texts, option::of(any::<bool>())).prop_map(|((kind, name, uid, api_version), controller)| {
        OwnerReference {
            kind,
            name,
            uid,
            api_version,
            controller,
        }
    })
}

fn metadata() -> impl Strategy<Value = Option<ObjectMeta>> {
    let texts = (some_text(), some_text(), some_text(), some_text());
    let times = (option::weighted(0.9, time()), option::of(time()));
    let lists = (vec(owner(), 0..3), vec(text(), 0..2), vec(manager(), 0..3));
    let parts = (texts, times, map(), map(), lists, option::of(any::<i64>()));
    let some = parts.prop_map(|(texts, times, labels, annotations, lists, generation)| {
        let (name, namespace, uid, resource_version) = texts;
        let (owners, finalizers, managers) = lists;
        ObjectMeta {
            name,
            generate_name: None,
            namespace,
            uid,
            resource_version,
            generation,
            created: times.0,
            deleted: times.1,
            labels,
            annotations,
            owners,
            finalizers,
            managers,
        }
    });
    some.prop_map(Some)
}

pub fn node() -> impl Strategy<Value = Node> {
    let address =
        (some_text(), some_text()).prop_map(|(kind, address)| NodeAddress { kind, address });
    let spec = (
        some_text(),
        some_text(),
        option::of(any::<bool>()),
        vec(text(), 0..4),
    )
        .prop_map(
            |(pod_cidr, provider_id, unschedulable, pod_cidrs)| NodeSpec {
                pod_cidr,
                provider_id,
                unschedulable,
                pod_cidrs,
            },
        );
    let quantity = some_text().prop_map(|text| Quantity { text });
    let key = prop_oneof![Just("pods".to_owned()), text()];
    let allocatable = btree_map(key, quantity, 0..3);
    let status = (
        some_text(),
        allocatable,
        vec(address, 0..4),
        vec(text(), 0..3),
    )
        .prop_map(
            |(phase, allocatable, addresses, volumes_in_use)| NodeStatus {
                phase,
                allocatable,
                addresses,
                volumes_in_use,
            },
        );
    let some = (metadata(), spec.prop_map(Some), status.prop_map(Some));
    some.prop_map(|(metadata, spec, status)| Node {
        metadata,
        spec,
        status,
    })
}

fn port() -> impl Strategy<Value = ServicePort> {
    let number = prop_oneof![9 => 0..=65_535_i32, 1 => any::<i32>()];
    (
        some_text(),
        some_text(),
        number.prop_map(Some),
        option::of(any::<i32>()),
    )
        .prop_map(|(name, protocol, port, node_port)| ServicePort {
            name,
            protocol,
            port,
            node_port,
        })
}

fn service_spec() -> impl Strategy<Value = ServiceSpec> {
    let texts = (some_text(), some_text(), some_text(), some_text());
    let more = (pointer(), pointer(), vec(text(), 0..3));
    (vec(port(), 0..3), map(), texts, more).prop_map(|(ports, selector, texts, more)| {
        let (cluster_ip, kind, load_balancer_ip, external_traffic_policy) = texts;
        let (ip_family_policy, load_balancer_class, ip_families) = more;
        ServiceSpec {
            ports,
            selector,
            cluster_ip,
            kind,
            load_balancer_ip,
            external_traffic_policy,
            ip_family_policy,
            ip_families,
            load_balancer_class,
        }
    })
}

fn service_status() -> impl Strategy<Value = ServiceStatus> {
    let ingress =
        (some_text(), some_text(), some_text()).prop_map(|(ip, hostname, ip_mode)| Ingress {
            ip,
            hostname,
            ip_mode,
        });
    let texts = (some_text(), some_text(), some_text(), some_text());
    let condition =
        (texts, option::of(time())).prop_map(|((kind, status, reason, message), changed)| {
            Condition {
                kind,
                status,
                changed,
                reason,
                message,
            }
        });
    let balancer = vec(ingress, 0..3).prop_map(|ingress| LoadBalancerStatus { ingress });
    (balancer.prop_map(Some), vec(condition, 0..3)).prop_map(|(load_balancer, conditions)| {
        ServiceStatus {
            load_balancer,
            conditions,
        }
    })
}

pub fn service() -> impl Strategy<Value = Service> {
    let spec = service_spec().prop_map(Some);
    let some = (metadata(), spec, service_status().prop_map(Some));
    some.prop_map(|(metadata, spec, status)| Service {
        metadata,
        spec,
        status,
    })
}

pub fn pod() -> impl Strategy<Value = Pod> {
    let container = (
        some_text(),
        some_text(),
        vec(text(), 0..3),
        vec(text(), 0..3),
    )
        .prop_map(|(name, image, command, args)| Container {
            name,
            image,
            command,
            args,
        });
    let spec = (vec(container, 1..3), some_text()).prop_map(|(containers, node_name)| PodSpec {
        containers,
        node_name,
    });
    let status =
        (some_text(), option::of(time())).prop_map(|(phase, started)| PodStatus { phase, started });
    let some = (metadata(), spec.prop_map(Some), status.prop_map(Some));
    some.prop_map(|(metadata, spec, status)| Pod {
        metadata,
        spec,
        status,
    })
}
