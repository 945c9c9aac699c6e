//! What a change means for running workloads.

crate::text_enum! {
    /// What a change means for running workloads. The text stands in JSON and in metrics.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub enum Hazard {
        /// No running workload is affected.
        None = "none",
        /// The change takes effect only after the node's agent restarts.
        Disruptive = "disruptive",
        /// Pods may lose their addresses, or a Service may lose one.
        Destructive = "destructive",
    }
}
