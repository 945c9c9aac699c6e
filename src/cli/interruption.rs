//! SIGINT and SIGTERM while something is applied: the first one stops it in order, the next one at
//! once.

use std::sync::Arc;

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use super::failure::{Failure, end_by_signal};
use super::output;
use ipam_controller::apply::Stop;

/// Listens on a thread of its own: the others may be busy with a large file, or with a server that
/// does not answer.
pub(super) struct Interruption {
    stop: Arc<Stop>,
}

impl Interruption {
    /// From now on signals are heard.
    ///
    /// # Errors
    /// They cannot be.
    pub(super) fn listen() -> Result<Interruption, Failure> {
        let stop = Arc::<Stop>::default();
        let mut signals = Signals::new([SIGINT, SIGTERM])?;
        let asked = stop.clone();
        std::thread::Builder::new().name("signals".to_owned()).spawn(move || {
            let mut heard = signals.forever();
            if heard.next().is_some() {
                asked.request();
                output::warn("\nstopping: writes that are under way are waited for; another signal ends it at once");
            }
            if let Some(signal) = heard.next() {
                end_by_signal(signal);
            }
        })?;
        Ok(Interruption { stop })
    }

    /// What a signal asks of an apply.
    pub(super) fn stop(&self) -> &Stop {
        &self.stop
    }
}
