//! Writes the allowed address pairs of ports to Neutron, and says what each failure means for the
//! plan.

use tokio::task::spawn_blocking;

use super::{ABANDONED, OpenStack};
use crate::ports::PortWriter;
use ipam_cluster::WriteError;
use ipam_planner::plan::PortChange;
use openstack::{NeutronError, PairsPatch};

impl PortWriter for OpenStack {
    async fn write_pairs(&self, change: &PortChange) -> Result<(), WriteError> {
        let session = self.session.clone();
        let port = change.port.clone();
        let patch = PairsPatch {
            pairs: change.pairs.clone(),
            revision: change.revision,
        };
        let outcome =
            spawn_blocking(move || session.with(|neutron| Ok(neutron.write_pairs(&port, &patch))));
        let outcome = outcome.await;
        if let Some(background) = &self.background {
            background.read_again(&change.port);
        }
        match outcome {
            Ok(Ok(answer)) => answer.map_err(write_error),
            Ok(Err(fault)) => Err(WriteError::Refused(fault.why())),
            Err(_) => Err(WriteError::Unknown(ABANDONED.to_owned())),
        }
    }
}

fn write_error(error: NeutronError) -> WriteError {
    match error {
        NeutronError::Changed | NeutronError::NoSuchPort => {
            WriteError::Superseded(error.to_string())
        }
        NeutronError::Unavailable(_) => WriteError::Unknown(error.to_string()),
        NeutronError::Unreachable(_) => WriteError::Busy(error.to_string()),
        NeutronError::TooManyPairs => WriteError::Refused(format!(
            "{error}; raise `max_allowed_address_pair` of Neutron (default 10), or give nodes fewer and wider blocks; if the port also allows a stale range, `apply` removes it"
        )),
        _ => WriteError::Refused(error.to_string()),
    }
}
