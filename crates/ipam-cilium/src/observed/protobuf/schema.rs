//! The messages of Kubernetes, trimmed to the fields that views read: number, name in JSON, and
//! shape. Whatever is not listed here is skipped.
//!
//! Sources: `generated.proto` of k8s.io/api/core/v1 and of k8s.io/apimachinery/pkg/apis/meta/v1 @
//! 1.36. Numbers of fields never change.

use crate::observed::ObservedKind;

/// What a field's bytes mean.
#[derive(Clone, Copy, Debug)]
pub(super) enum Shape {
    Text,
    Integer,
    Flag,
    /// `metav1.Time`.
    Time,
    /// `metav1.FieldsV1`: JSON text in a message. A text that has none of these parts of names reads
    /// as an empty object, because to parse all of them takes a third of the time for a Node.
    Fields(&'static [&'static str]),
    /// From text to text.
    Map,
    /// From text to `resource.Quantity`.
    Quantities,
    Message(&'static [Field]),
}

/// Whether a field may occur more than once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Count {
    One,
    Many,
}

/// What the JSON encoding does with an empty text or time. The binary encoding has it wherever Go
/// has no pointer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Empty {
    Omitted,
    Written,
}

/// A field of a message.
#[derive(Clone, Copy, Debug)]
pub(super) struct Field {
    pub number: u64,
    pub name: &'static str,
    pub shape: Shape,
    pub count: Count,
    pub empty: Empty,
}

impl Field {
    const fn of(number: u64, name: &'static str, shape: Shape) -> Field {
        Field {
            number,
            name,
            shape,
            count: Count::One,
            empty: Empty::Omitted,
        }
    }

    const fn text(number: u64, name: &'static str) -> Field {
        Field::of(number, name, Shape::Text)
    }

    const fn many(self) -> Field {
        Field {
            count: Count::Many,
            ..self
        }
    }

    const fn written(self) -> Field {
        Field {
            empty: Empty::Written,
            ..self
        }
    }
}

/// The message of a kind, if servers send the kind in the binary encoding and it is worth it.
/// Custom resources have none.
pub(super) fn message(kind: ObservedKind) -> Option<&'static [Field]> {
    match kind {
        ObservedKind::Node => Some(NODE),
        ObservedKind::Service => Some(SERVICE),
        ObservedKind::CiliumAgentPod => Some(POD),
        ObservedKind::Claims
        | ObservedKind::Migration
        | ObservedKind::Departed(_)
        | ObservedKind::CiliumDaemonSet
        | ObservedKind::CiliumConfig
        | ObservedKind::Definition(_)
        | ObservedKind::MoreDefinitions
        | ObservedKind::ControllerPod
        | ObservedKind::ControllerDaemonSet
        | ObservedKind::ServiceCidr
        | ObservedKind::LoadBalancerPool
        | ObservedKind::PodIpPool
        | ObservedKind::CiliumOperator
        | ObservedKind::CiliumNodeConfig
        | ObservedKind::BgpPeeringPolicy
        | ObservedKind::BgpClusterConfig
        | ObservedKind::BgpPeerConfig
        | ObservedKind::BgpAdvertisement
        | ObservedKind::L2AnnouncementPolicy
        | ObservedKind::SpeakerConfig
        | ObservedKind::KubeadmConfig
        | ObservedKind::RouterDaemonSet
        | ObservedKind::CiliumNode => None,
    }
}

const NODE: &[Field] = &[
    Field::of(1, "metadata", Shape::Message(METADATA)),
    Field::of(
        2,
        "spec",
        Shape::Message(&[
            Field::text(1, "podCIDR"),
            Field::text(3, "providerID"),
            Field::text(7, "podCIDRs").many(),
        ]),
    ),
    Field::of(
        3,
        "status",
        Shape::Message(&[
            Field::of(2, "allocatable", Shape::Quantities).many(),
            Field::of(
                5,
                "addresses",
                Shape::Message(&[
                    Field::text(1, "type").written(),
                    Field::text(2, "address").written(),
                ]),
            )
            .many(),
            Field::of(
                7,
                "nodeInfo",
                Shape::Message(&[
                    Field::text(5, "osImage").written(),
                    Field::text(7, "kubeletVersion").written(),
                ]),
            ),
        ]),
    ),
];

const SERVICE: &[Field] = &[
    Field::of(1, "metadata", Shape::Message(METADATA)),
    Field::of(
        2,
        "spec",
        Shape::Message(&[
            Field::of(
                1,
                "ports",
                Shape::Message(&[
                    Field::text(2, "protocol"),
                    Field::of(3, "port", Shape::Integer),
                ]),
            )
            .many(),
            Field::of(2, "selector", Shape::Map).many(),
            Field::text(4, "type"),
            Field::text(8, "loadBalancerIP"),
            Field::text(11, "externalTrafficPolicy"),
            Field::text(17, "ipFamilyPolicy").written(),
            Field::text(19, "ipFamilies").many(),
            Field::text(21, "loadBalancerClass").written(),
        ]),
    ),
    Field::of(
        3,
        "status",
        Shape::Message(&[
            Field::of(
                1,
                "loadBalancer",
                Shape::Message(&[Field::of(
                    1,
                    "ingress",
                    Shape::Message(&[Field::text(1, "ip"), Field::text(2, "hostname")]),
                )
                .many()]),
            ),
            Field::of(
                2,
                "conditions",
                Shape::Message(&[
                    Field::text(1, "type").written(),
                    Field::text(2, "status").written(),
                    Field::text(5, "reason").written(),
                    Field::text(6, "message").written(),
                ]),
            )
            .many(),
        ]),
    ),
];

const POD: &[Field] = &[
    Field::of(1, "metadata", Shape::Message(METADATA)),
    Field::of(
        2,
        "spec",
        Shape::Message(&[
            Field::of(
                2,
                "containers",
                Shape::Message(&[Field::text(1, "name").written(), Field::text(2, "image")]),
            )
            .many(),
            Field::text(10, "nodeName"),
        ]),
    ),
    Field::of(
        3,
        "status",
        Shape::Message(&[Field::of(7, "startTime", Shape::Time).written()]),
    ),
];

/// Parts of the names of all fields whose owner a view reads. They have no slash, which JSON may
/// escape.
const OWNED: &[&str] = &[
    "podCIDR",
    "pod-cidr",
    "lbipam.cilium.io",
    "lb-ipam-ips",
    "f:loadBalancer",
    "IPAMRequestSatisfied",
    "lb-ipam-request-satisfied",
];

const METADATA: &[Field] = &[
    Field::text(1, "name"),
    Field::text(3, "namespace"),
    Field::text(5, "uid"),
    Field::text(6, "resourceVersion"),
    Field::of(8, "creationTimestamp", Shape::Time),
    Field::of(9, "deletionTimestamp", Shape::Time).written(),
    Field::of(11, "labels", Shape::Map).many(),
    Field::of(12, "annotations", Shape::Map).many(),
    Field::of(
        13,
        "ownerReferences",
        Shape::Message(&[
            Field::text(1, "kind").written(),
            Field::text(3, "name").written(),
            Field::text(4, "uid").written(),
            Field::of(6, "controller", Shape::Flag),
        ]),
    )
    .many(),
    Field::of(
        17,
        "managedFields",
        Shape::Message(&[
            Field::text(1, "manager"),
            Field::of(4, "time", Shape::Time).written(),
            Field::of(7, "fieldsV1", Shape::Fields(OWNED)),
        ]),
    )
    .many(),
];
