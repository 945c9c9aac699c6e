//! `status.ipam.operator-status.error` of CiliumNodes: what the operator complains about, by its own
//! words. Must never know whether the complaint still holds.
//!
//! Texts: `pkg/ipam/allocator/podcidr/podcidr.go` and `pkg/ipam/allocator/multipool` @ 1.15 and
//! 1.19, `operator/pkg/ipam/allocator` @ 1.20. The multi-pool allocator joins several by line
//! breaks.

/// A line of the operator's error.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum OperatorComplaint {
    /// Ipam `cluster-pool`: none of its ranges has a free block.
    Full,
    /// Ipam `multi-pool`: the pool has no free block for this node.
    PoolEmpty(String),
    /// Ipam `multi-pool`: the pool does not exist.
    PoolMissing(String),
    /// Another text.
    Other(String),
}

impl OperatorComplaint {
    /// Every complaint of an error, in its order.
    pub fn all_of(error: &str) -> Vec<OperatorComplaint> {
        error
            .lines()
            .map(str::trim)
            .filter(|line| !line.is_empty())
            .map(OperatorComplaint::of)
            .collect()
    }

    fn of(line: &str) -> OperatorComplaint {
        // An allocation names its pool around the cause.
        let around = line
            .split_once("from pool \"")
            .and_then(|(_, rest)| rest.split_once("\": "));
        if let Some((_, missing)) = line.split_once("non-existing pool: ") {
            return OperatorComplaint::PoolMissing(missing.to_owned());
        }
        if let Some((missing, _)) = line
            .strip_prefix("unable to find pool ")
            .and_then(|rest| rest.split_once(", prefix "))
        {
            return OperatorComplaint::PoolMissing(missing.to_owned());
        }
        match around {
            Some((pool, "pool empty")) => OperatorComplaint::PoolEmpty(pool.to_owned()),
            _ if is_full(line) => OperatorComplaint::Full,
            _ => OperatorComplaint::Other(line.to_owned()),
        }
    }
}

/// `allocator full`, or one range after the other: `allocator clusterCIDR: …, nodeMask: 24 full`.
fn is_full(line: &str) -> bool {
    line == "allocator full"
        || (line.starts_with("allocator clusterCIDR: ") && line.ends_with("full"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn complaints_by_their_words() {
        use OperatorComplaint::{Full, Other, PoolEmpty, PoolMissing};
        let text = |text: &str| text.to_owned();
        for (error, complaints) in [
            ("allocator full", vec![Full]),
            (
                "allocator clusterCIDR: 10.0.0.0/24, nodeMask: 24 full",
                vec![Full],
            ),
            (
                "failed to allocate ipv4 address for node \"n1\" from pool \"red\": pool empty",
                vec![PoolEmpty(text("red"))],
            ),
            (
                "failed to allocate ipv4 address for node \"n1\" from pool \"a\": cannot allocate from non-existing pool: a\n",
                vec![PoolMissing(text("a"))],
            ),
            (
                "unable to find pool red, prefix 10.0.0.0/24 is still allocated to the node but is marked as orphan\ncannot release from non-existing pool: red",
                vec![PoolMissing(text("red")), PoolMissing(text("red"))],
            ),
            // The node shows a block that the pool cannot give.
            (
                "unable to reuse from pool red: pool empty",
                vec![Other(text("unable to reuse from pool red: pool empty"))],
            ),
            (
                "requested CIDR (10.0.0.0/24) is already allocated",
                vec![Other(text(
                    "requested CIDR (10.0.0.0/24) is already allocated",
                ))],
            ),
        ] {
            assert_eq!(OperatorComplaint::all_of(error), complaints, "{error}");
        }
    }
}
