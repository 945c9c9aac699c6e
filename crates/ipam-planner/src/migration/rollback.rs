//! Turns a node back: the record from which it returns to its old blocks. It must never know why.

use jiff::Timestamp;

use super::record::{Direction, Method, NodeRecord, Phase};
use super::seen::NodeSeen;

impl NodeRecord {
    /// The record with which the node goes back. A node on its way back stays so.
    #[must_use]
    pub fn turned_back(&self, seen: &NodeSeen, now: Timestamp) -> NodeRecord {
        if self.direction == Direction::Back {
            return self.retried(now);
        }
        let phase = match self.phase {
            // Nothing was done.
            Phase::Pending => Phase::Done,
            // The block is still the old one.
            Phase::Cordon | Phase::Drain | Phase::Save => Phase::Uncordon,
            Phase::Remove | Phase::Create | Phase::Assign | Phase::Kubelet | Phase::Restart => {
                self.begun(seen)
            }
            // Pods may run on the new block.
            Phase::Verify | Phase::Uncordon | Phase::Done => Phase::Cordon,
        };
        NodeRecord {
            direction: Direction::Back,
            phase,
            since: now,
            attempts: 0,
            failure: None,
            agent: None,
            ..self.clone()
        }
    }

    /// The phase in which a drained node returns, whose block is being changed.
    fn begun(&self, seen: &NodeSeen) -> Phase {
        match self.method {
            Method::NodeConfig | Method::ToKubernetes | Method::ToClusterPool => Phase::Assign,
            Method::CiliumNode => Phase::Remove,
            Method::NodeObject => match &seen.node {
                None => Phase::Create,
                Some(node) if node.node.uid != self.uid => Phase::Create,
                Some(node) if node.node.spec.is_empty() => Phase::Assign,
                // Its deletion cannot be called off, or it has a block that is written once.
                Some(_) => Phase::Save,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::migration::tests::{record, seen_node};

    fn turned(method: Method, phase: Phase, seen: &NodeSeen) -> Phase {
        let record = NodeRecord {
            method,
            phase,
            ..record()
        };
        let turned = record.turned_back(seen, Timestamp::UNIX_EPOCH);
        assert_eq!(turned.direction, Direction::Back);
        assert_eq!(turned.goal(), record.from);
        turned.phase
    }

    #[test]
    fn a_node_returns_from_where_it_stands() {
        let seen = NodeSeen {
            node: Some(seen_node("u", &["10.0.0.0/24"])),
            ..NodeSeen::default()
        };
        let of = |method, phase| turned(method, phase, &seen);
        assert_eq!(of(Method::NodeConfig, Phase::Pending), Phase::Done);
        assert_eq!(of(Method::NodeConfig, Phase::Drain), Phase::Uncordon);
        assert_eq!(of(Method::NodeConfig, Phase::Restart), Phase::Assign);
        assert_eq!(of(Method::CiliumNode, Phase::Assign), Phase::Remove);
        assert_eq!(of(Method::CiliumNode, Phase::Done), Phase::Cordon);
        assert_eq!(of(Method::NodeObject, Phase::Kubelet), Phase::Save);
        let gone = NodeSeen::default();
        assert_eq!(
            turned(Method::NodeObject, Phase::Remove, &gone),
            Phase::Create
        );
    }

    #[test]
    fn a_node_on_its_way_back_goes_on() {
        let back = NodeRecord {
            direction: Direction::Back,
            phase: Phase::Drain,
            failure: Some("x".to_owned()),
            ..record()
        };
        let turned = back.turned_back(&NodeSeen::default(), Timestamp::UNIX_EPOCH);
        assert_eq!((turned.phase, turned.failure), (Phase::Drain, None));
    }
}
