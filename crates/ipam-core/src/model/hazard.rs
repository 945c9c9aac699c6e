//! What a change means for what runs.

/// What a change means for workloads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Hazard {
    /// Nothing that runs is touched.
    None,
    /// The agent of the node must be restarted before it takes effect.
    Disruptive,
    /// Pods may run on what is taken away, or a Service may lose an address.
    Destructive,
}
