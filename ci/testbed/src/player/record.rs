//! What the played agents did, for a test to ask: which block each used and when, and every moment at
//! which two nodes would have answered for one address. It knows nothing of the cluster.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::time::Duration;

use crate::player::block::Block;

/// One life of an agent on its block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlockUse {
    /// The node.
    pub node: String,
    /// The UID of the agent's Pod.
    pub agent: String,
    /// What the agent read when it started.
    pub block: Block,
    /// Since when, from the player's start on.
    pub from: Duration,
    /// Until when; nothing while the agent runs.
    pub until: Option<Duration>,
}

/// What no moment of a migration may show.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// Two agents that run have blocks that overlap.
    Overlap {
        /// The nodes, and what each uses.
        nodes: [(String, Block); 2],
    },
    /// An agent started on a block that Pods of its node have no address of: they lost their network.
    Stray {
        /// The node.
        node: String,
        /// The Pod, with its namespace.
        pod: String,
        /// The Pod's address.
        address: Ipv4Addr,
        /// What the agent uses.
        block: Block,
    },
    /// Two Pods that run have one address.
    SameAddress {
        /// The Pods, with their namespaces.
        pods: [String; 2],
        /// The address.
        address: Ipv4Addr,
    },
}

/// All of it.
#[derive(Debug, Default)]
pub(crate) struct Record {
    pub(crate) uses: Vec<BlockUse>,
    pub(crate) faults: Vec<Fault>,
    /// Who has an address now: the Pod's UID and name.
    addresses: BTreeMap<Ipv4Addr, (String, String)>,
}

impl Record {
    pub(crate) fn agent_starts(&mut self, node: &str, agent: &str, block: Block, now: Duration) {
        let running = |other: &&BlockUse| other.until.is_none() && other.node != node;
        for other in self.uses.iter().filter(running) {
            if other.block.overlaps(block) {
                let nodes = [(other.node.clone(), other.block), (node.to_owned(), block)];
                self.faults.push(Fault::Overlap { nodes });
            }
        }
        self.uses.push(BlockUse {
            node: node.to_owned(),
            agent: agent.to_owned(),
            block,
            from: now,
            until: None,
        });
    }

    pub(crate) fn agent_ends(&mut self, agent: &str, now: Duration) {
        let its = self.uses.iter_mut().rev().find(|one| one.agent == agent);
        if let Some(one) = its {
            one.until.get_or_insert(now);
        }
    }

    pub(crate) fn strays(&mut self, node: &str, pod: &str, address: Ipv4Addr, block: Block) {
        self.faults.push(Fault::Stray {
            node: node.to_owned(),
            pod: pod.to_owned(),
            address,
            block,
        });
    }

    pub(crate) fn pod_gets(&mut self, uid: &str, pod: &str, address: Ipv4Addr) {
        let new = (uid.to_owned(), pod.to_owned());
        if let Some((other, name)) = self.addresses.insert(address, new)
            && other != uid
        {
            let pods = [name, pod.to_owned()];
            self.faults.push(Fault::SameAddress { pods, address });
        }
    }

    pub(crate) fn pod_ends(&mut self, uid: &str, address: Ipv4Addr) {
        if self
            .addresses
            .get(&address)
            .is_some_and(|(owner, _)| owner == uid)
        {
            self.addresses.remove(&address);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Duration = Duration::ZERO;

    #[test]
    fn agents_that_overlap_are_a_fault_only_while_both_run() {
        let mut record = Record::default();
        let block: Block = "10.0.0.0/24".parse().unwrap();
        record.agent_starts("a", "1", block, NOW);
        record.agent_ends("1", NOW);
        record.agent_starts("b", "2", block, NOW);
        assert!(record.faults.is_empty());
        record.agent_starts("c", "3", "10.0.0.0/16".parse().unwrap(), NOW);
        let nodes = [
            ("b".to_owned(), block),
            ("c".to_owned(), "10.0.0.0/16".parse().unwrap()),
        ];
        assert_eq!(record.faults, [Fault::Overlap { nodes }]);
    }

    #[test]
    fn an_address_may_go_from_a_pod_that_ended_to_another() {
        let mut record = Record::default();
        let address = Ipv4Addr::new(10, 0, 0, 2);
        record.pod_gets("1", "d/a", address);
        record.pod_ends("1", address);
        record.pod_gets("2", "d/b", address);
        assert!(record.faults.is_empty());
        record.pod_gets("3", "d/c", address);
        let pods = ["d/b".to_owned(), "d/c".to_owned()];
        assert_eq!(record.faults, [Fault::SameAddress { pods, address }]);
    }
}
