//! ConfigMap `bgp-config`: the peers of the MetalLB speakers inside Cilium's agents, 1.10 to 1.16.
//!
//! Source: `pkg/bgp/config` @ 1.12, and `internal/config/config.go` of MetalLB 0.12. A peer without
//! selectors is a peer of every node; with several, of each node that one of them matches.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::view::{ConfigMapView, nullable};
use super::{Node, Observed};
use crate::lbipam::{WrittenRequirement, WrittenSelector};
use ipam_core::model::{Labels, Selector};

/// Key of the configuration in the ConfigMap.
pub(super) const CONFIG_KEY: &str = "config.yaml";

/// The peers of all speakers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SpeakerPeers {
    /// For each peer the selectors of its nodes; none means every node.
    pub peers: Vec<Vec<Selector>>,
}

impl SpeakerPeers {
    /// Whether the speaker of a node has a peer.
    pub fn has_peer(&self, node: &Node) -> bool {
        self.peers.iter().any(|nodes| {
            nodes.is_empty() || nodes.iter().any(|selector| selector.matches(&node.labels))
        })
    }
}

#[derive(Default, Deserialize, Serialize)]
struct ConfigView {
    #[serde(default, deserialize_with = "nullable")]
    peers: Vec<PeerView>,
}

#[derive(Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
struct PeerView {
    #[serde(default, deserialize_with = "nullable")]
    node_selectors: Vec<SelectorView>,
}

#[derive(Clone, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
struct SelectorView {
    #[serde(default, deserialize_with = "nullable")]
    match_labels: Labels,
    #[serde(default, deserialize_with = "nullable")]
    match_expressions: Vec<WrittenRequirement>,
}

impl SelectorView {
    /// An invalid selector selects nothing.
    fn selector(&self) -> Selector {
        let written = WrittenSelector {
            match_labels: self.match_labels.clone(),
            match_expressions: self.match_expressions.clone(),
        };
        written.selector().unwrap_or_else(|_| Selector::nothing())
    }
}

fn parse(text: &str) -> Result<ConfigView, serde_json::Error> {
    // An empty document is null.
    let parsed = serde_yaml::from_str::<Option<ConfigView>>(text);
    let parsed = parsed.map_err(|error| serde::de::Error::custom(error.to_string()))?;
    Ok(parsed.unwrap_or_default())
}

impl SpeakerPeers {
    pub(super) fn read(view: &ConfigMapView) -> Result<SpeakerPeers, serde_json::Error> {
        let text = view.data.get(CONFIG_KEY).map_or("", String::as_str);
        let peers = parse(text)?.peers;
        let of_peer = |peer: &PeerView| {
            let selectors = peer.node_selectors.iter();
            selectors.map(SelectorView::selector).collect()
        };
        Ok(SpeakerPeers {
            peers: peers.iter().map(of_peer).collect(),
        })
    }
}

/// The configuration with nothing in it that is not read: it may have passwords. Text that cannot
/// be read stays unreadable.
pub(super) fn slim_config(text: &Value) -> Value {
    let parsed = text.as_str().and_then(|text| parse(text).ok());
    let slimmed = parsed.and_then(|config| serde_json::to_string(&config).ok());
    slimmed
        .unwrap_or_else(|| "peers: unreadable".to_owned())
        .into()
}

/// The keys of the ConfigMap that are read.
pub(super) fn slim_data(data: &Value) -> Value {
    let of_key = data.get(CONFIG_KEY).map(slim_config);
    let read: BTreeMap<&str, Value> = of_key.into_iter().map(|text| (CONFIG_KEY, text)).collect();
    serde_json::to_value(read).unwrap_or_default()
}

impl Observed {
    /// Whether the MetalLB speaker of a node has a peer. A file without the ConfigMap tells
    /// nothing.
    pub fn speaks_to_a_peer(&self, node: &Node) -> bool {
        let peers = self.announcing.speaker_peers.as_ref();
        peers.is_none_or(|peers| peers.has_peer(node))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slim_configuration_reads_alike_and_has_no_password() {
        let text = "peers:\n- peer-address: 192.0.2.254\n  password: secret\n  node-selectors:\n  - match-labels: {rack: a}\n  - match-expressions: [{key: edge, operator: Exists}]\n- my-asn: 65001\naddress-pools: []\n";
        let slimmed = slim_config(&text.into());
        assert!(!slimmed.to_string().contains("secret"), "{slimmed}");
        assert_eq!(slim_config(&slimmed), slimmed);
        let nodes = |text: &str| {
            let peers = parse(text).unwrap().peers;
            let of_peer = |peer: &PeerView| {
                peer.node_selectors
                    .iter()
                    .map(SelectorView::selector)
                    .collect::<Vec<_>>()
            };
            peers.iter().map(of_peer).collect::<Vec<_>>()
        };
        let read = nodes(text);
        assert_eq!(read, nodes(slimmed.as_str().unwrap()));
        assert_eq!(read.iter().map(Vec::len).collect::<Vec<_>>(), [2, 0]);
        assert_eq!(nodes(""), Vec::<Vec<Selector>>::new());
        assert!(parse(slim_config(&"peers: 7".into()).as_str().unwrap()).is_err());
    }
}
