//! Who writes the allowed address pairs of VM ports.
//!
//! It knows no cluster and no claims: Neutron guards each write by the revision of the port.

use std::future::Future;

use ipam_cluster::WriteError;
use ipam_planner::plan::PortChange;

/// Writes allowed address pairs of ports.
pub trait PortWriter: Sync {
    /// Replaces the pairs of one port if it still has the revision in `change`.
    ///
    /// # Errors
    /// Fails as a write to the cluster does; `Superseded` if the port has changed or is gone.
    fn write_pairs(
        &self,
        change: &PortChange,
    ) -> impl Future<Output = Result<(), WriteError>> + Send;
}

/// No OpenStack: refuses every write.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoPorts;

impl PortWriter for NoPorts {
    async fn write_pairs(&self, _: &PortChange) -> Result<(), WriteError> {
        Err(WriteError::Refused(
            "no OpenStack is configured to write ports to".to_owned(),
        ))
    }
}
