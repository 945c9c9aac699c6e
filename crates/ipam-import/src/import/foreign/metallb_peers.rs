//! BGPPeers of MetalLB, as drafts of Cilium's BGP objects. A part without a counterpart is named, and
//! never guessed.
//!
//! Source: `pkg/k8s/apis/cilium.io/v2/bgp_cluster_types.go` and `bgp_peer_types.go` of Cilium 1.19,
//! `api/v1beta2/bgppeer_types.go` of MetalLB 0.15.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use serde_json::{Map, Value, json};

use super::Announcement;
use super::metallb_announcing::LABEL;
use super::object::{Object, Remark, RemarkName, any_of, selectors};
use ipam_cilium::lbipam::WrittenSelector;
use ipam_core::model::Selector;
use ipam_core::text::joined;

/// A peer that Cilium can have.
struct Peer<'v> {
    object: &'v Object<'v>,
    /// That of its draft. No other peer has it.
    name: String,
    address: IpAddr,
    local_asn: u64,
    asn: u64,
    nodes: Selector,
}

/// Fields that have no counterpart, or one elsewhere.
const LEFT_OUT: [&str; 6] = [
    "sourceAddress",
    "routerID",
    "bfdProfile",
    "vrf",
    "connectTime",
    "disableMP",
];

/// A CiliumBGPPeerConfig of each peer, and a CiliumBGPClusterConfig for the nodes of the peers.
pub(super) fn peers(objects: &[Object<'_>], remarks: &mut Vec<Remark>) -> Vec<Announcement> {
    let peers = different(objects, remarks);
    let mut announcements: Vec<Announcement> = peers.iter().map(Peer::config).collect();
    let mut clusters: BTreeMap<Selector, BTreeMap<u64, Vec<Peer<'_>>>> = BTreeMap::new();
    for peer in peers {
        let of_nodes = clusters.entry(peer.nodes.clone()).or_default();
        of_nodes.entry(peer.local_asn).or_default().push(peer);
    }
    let is_divided = clusters.len() > 1;
    for (place, (nodes, instances)) in clusters.into_iter().enumerate() {
        let name = match is_divided {
            true => format!("metallb-{}", place + 1),
            false => "metallb".to_owned(),
        };
        announcements.push(cluster(&name, &nodes, &instances, is_divided));
    }
    announcements
}

/// The peers that can be read, each once: of two for the same session, the first. Peers of several
/// namespaces or of a ConfigMap may have one name; then the later ones have a number, too.
fn different<'v>(objects: &'v [Object<'v>], remarks: &mut Vec<Remark>) -> Vec<Peer<'v>> {
    let mut peers: Vec<Peer<'_>> = Vec::new();
    let mut names = BTreeSet::new();
    for object in objects.iter().filter(|object| object.kind == "BGPPeer") {
        match Peer::read(object) {
            Ok(mut peer) => match peers.iter().find(|first| first.is_repeated_by(&peer)) {
                Some(first) => remarks.extend(peer.left_out_beside(first)),
                None => {
                    for number in 2.. {
                        if names.insert(peer.name.clone()) {
                            break;
                        }
                        peer.name = format!("{}-{number}", object.name());
                    }
                    peers.push(peer);
                }
            },
            Err(reason) => remarks.push(Remark::left_out(
                RemarkName::BgpPeer,
                object.about(),
                format!("no CiliumBGPClusterConfig means the same, because {reason}"),
            )),
        }
    }
    peers
}

impl<'v> Peer<'v> {
    fn read(object: &'v Object<'v>) -> Result<Peer<'v>, String> {
        let number = |field: &str| object.spec(field).as_u64().filter(|asn| *asn > 0);
        let address = object.spec_text("peerAddress");
        let address = address
            .parse()
            .map_err(|_| format!("its `peerAddress` is `{address}`, which is not an address"))?;
        let nodes = selectors(object.spec("nodeSelectors"))?;
        let nodes = match nodes.is_empty() {
            true => Some(Selector::default()),
            false => any_of(nodes).map_err(|error| format!("`nodeSelectors`: {error}"))?,
        };
        Ok(Peer {
            object,
            name: object.name().to_owned(),
            address,
            local_asn: number("myASN").ok_or("it has no `myASN`")?,
            asn: number("peerASN").ok_or("it has no `peerASN`")?,
            nodes: nodes.ok_or("`nodeSelectors` selects nothing")?,
        })
    }

    fn is_repeated_by(&self, other: &Peer<'_>) -> bool {
        let session = |peer: &Peer<'_>| (peer.address, peer.local_asn, peer.asn);
        session(self) == session(other) && self.nodes == other.nodes
    }

    /// A remark if its draft would differ from that of the first peer, which stays.
    fn left_out_beside(&self, first: &Peer<'_>) -> Option<Remark> {
        let spec = |peer: &Peer<'_>| peer.config().object["spec"].take();
        let text = format!(
            "BGPPeer {} has the same session and other settings: only that one has a draft",
            first.object.name()
        );
        let remark = Remark::left_out(RemarkName::BgpPeer, self.object.about(), text);
        (spec(self) != spec(first)).then_some(remark)
    }

    fn config(&self) -> Announcement {
        let object = self.object;
        let mut spec = Map::new();
        if let Some(port) = object.spec("peerPort").as_u64().filter(|port| *port > 0) {
            spec.insert("transport".to_owned(), json!({"peerPort": port}));
        }
        let timers = [
            ("holdTime", "holdTimeSeconds"),
            ("keepaliveTime", "keepAliveTimeSeconds"),
        ];
        let timers: Map<String, Value> = timers
            .into_iter()
            .filter_map(|(from, to)| Some((to.to_owned(), json!(seconds(object.spec_text(from))?))))
            .collect();
        if !timers.is_empty() {
            spec.insert("timers".to_owned(), Value::Object(timers));
        }
        if object.is_set("ebgpMultiHop") {
            spec.insert("ebgpMultihop".to_owned(), json!(255));
        }
        if object.is_set("enableGracefulRestart") {
            spec.insert("gracefulRestart".to_owned(), json!({"enabled": true}));
        }
        let secret = object.spec("passwordSecret")["name"].as_str();
        let has_password = secret.is_some() || !object.spec_text("password").is_empty();
        let secret = secret.unwrap_or(&self.name);
        if has_password {
            spec.insert("authSecretRef".to_owned(), json!(secret));
        }
        spec.insert("families".to_owned(), self.families());
        let mut remarks = vec![Remark::to_do(
            RemarkName::BgpPeer,
            object.about(),
            "a draft: apply it when MetalLB is gone, with `bgpControlPlane.enabled` of Cilium's chart. Before 1.18, write `apiVersion: cilium.io/v2alpha1`".to_owned(),
        )];
        if has_password {
            remarks.push(Remark::to_do(
                RemarkName::BgpPeer,
                object.about(),
                format!("it has a password: create the Secret `{secret}` with the key `password` in the namespace of `bgpControlPlane.secretsNamespace`"),
            ));
        }
        let fields = LEFT_OUT
            .into_iter()
            .filter(|field| !object.spec(field).is_null());
        let fields: Vec<&str> = fields.collect();
        if !fields.is_empty() {
            remarks.push(Remark::left_out(
                RemarkName::BgpPeer,
                object.about(),
                format!("the draft has no counterpart of {}", joined(&fields, ", ")),
            ));
        }
        Announcement {
            object: json!({
                "apiVersion": "cilium.io/v2",
                "kind": "CiliumBGPPeerConfig",
                "metadata": {"name": self.name},
                "spec": spec,
            }),
            remarks,
        }
    }

    /// The family of the session, or both. Each has the imported advertisements.
    fn families(&self) -> Value {
        let own = match self.address {
            IpAddr::V4(_) => "ipv4",
            IpAddr::V6(_) => "ipv6",
        };
        let is_dual = self.object.is_set("dualStackAddressFamily");
        let families = ["ipv4", "ipv6"].into_iter();
        let families = families.filter(|family| is_dual || *family == own);
        let family = |afi| {
            json!({"afi": afi, "safi": "unicast",
                "advertisements": {"matchLabels": {LABEL.0: LABEL.1}}})
        };
        families.map(family).collect()
    }
}

fn cluster(
    name: &str,
    nodes: &Selector,
    instances: &BTreeMap<u64, Vec<Peer<'_>>>,
    is_divided: bool,
) -> Announcement {
    let peer = |peer: &Peer<'_>| {
        let name = &peer.name;
        json!({"name": name, "peerASN": peer.asn, "peerAddress": peer.address.to_string(),
            "peerConfigRef": {"name": name}})
    };
    let instances = instances.iter().map(|(asn, peers)| {
        json!({"name": format!("as-{asn}"), "localASN": asn,
            "peers": peers.iter().map(peer).collect::<Vec<_>>()})
    });
    let mut spec = json!({"bgpInstances": instances.collect::<Vec<_>>()});
    if *nodes != Selector::default() {
        spec["nodeSelector"] = json!(WrittenSelector::from(nodes));
    }
    let mut text = "a draft of the sessions of all imported BGPPeers".to_owned();
    if is_divided {
        text += ". Their node selectors differ, and Cilium accepts one CiliumBGPClusterConfig for a node: make the selectors disjoint";
    }
    Announcement {
        object: json!({
            "apiVersion": "cilium.io/v2",
            "kind": "CiliumBGPClusterConfig",
            "metadata": {"name": name},
            "spec": spec,
        }),
        remarks: vec![Remark::to_do(RemarkName::BgpPeer, "BGPPeers", text)],
    }
}

/// The seconds of a duration of Go, such as `1m30s`; `None` if it has another form.
fn seconds(text: &str) -> Option<u64> {
    let mut total = 0;
    let mut rest = text;
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit())?;
        let number: u64 = rest[..end].parse().ok()?;
        let unit = rest[end..].chars().next()?;
        let factor = match unit {
            'h' => 3600,
            'm' => 60,
            's' => 1,
            _ => return None,
        };
        total = number.checked_mul(factor)?.checked_add(total)?;
        rest = &rest[end + 1..];
    }
    Some(total).filter(|total| *total > 0)
}
