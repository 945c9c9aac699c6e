//! The loop over the networks of the node, and the errors that it reports.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Instant;

use crate::arguments::Arguments;
use crate::attachment_definitions::AttachmentDefinitions;
use crate::log;
use crate::network_state::{NetworkState, SyncResult};
use crate::networks::{Networks, networks, orphaned_pools};
use crate::telemetry::{Listing, Telemetry};
use neutron_cni::Settings;
use neutron_cni::cni::CniError;
use openstack::OnRequest;

/// The result of one run for a network, by name.
type Results = Vec<(String, Result<SyncResult, CniError>)>;

/// The daemon between two runs.
pub(super) struct Daemon {
    pub(super) arguments: Arguments,
    began: Instant,
    telemetry: Arc<Telemetry>,
    definitions: Option<AttachmentDefinitions>,
    states: BTreeMap<String, NetworkState>,
    /// The last error of each network. Each is reported once.
    reported: BTreeMap<String, String>,
}

impl Daemon {
    pub(super) fn new(arguments: Arguments, telemetry: Arc<Telemetry>) -> Daemon {
        let Arguments {
            definitions,
            service_account,
            state,
            neutron_interval,
            ..
        } = arguments.clone();
        let definitions = (!definitions.is_empty()).then(|| {
            AttachmentDefinitions::new(definitions, &service_account, &state, neutron_interval)
        });
        Daemon {
            arguments,
            definitions,
            began: Instant::now(),
            telemetry,
            states: BTreeMap::new(),
            reported: BTreeMap::new(),
        }
    }

    /// Syncs everything once. Returns the number of networks with an error.
    pub(super) fn sync(&mut self) -> usize {
        let on_request = Some(self.telemetry.on_request());
        let mut results: Results = Vec::new();
        self.telemetry.step();
        let listed = networks(&self.arguments.networks);
        let (defined, defined_listing) = match (&mut self.definitions, &listed) {
            (Some(definitions), Ok(of_files)) => definitions.networks(of_files),
            _ => (Networks::new(), Listing::Complete),
        };
        let listing = match &listed {
            Ok(of_files) if of_files.values().all(Result::is_ok) => defined_listing,
            Ok(_) | Err(_) => Listing::Partial,
        };
        match listed {
            Err(error) => results.push(("networks".to_owned(), Err(error))),
            Ok(of_files) => {
                let mut all = of_files.clone();
                all.extend(defined.clone());
                let orphaned = match listing {
                    Listing::Complete => orphaned_pools(&all, &self.arguments.state),
                    Listing::Partial => Networks::new(),
                };
                // In a run, a network of a definition cannot delay those of files.
                for (name, settings) in orphaned.into_iter().chain(of_files).chain(defined) {
                    let result = settings.and_then(|settings| {
                        self.sync_network(&name, &settings, on_request.as_ref())
                    });
                    results.push((name, result));
                }
            }
        }
        if listing == Listing::Partial {
            // Networks that are missing in this list may be configured in a file that is invalid
            // now.
            let unlisted = self
                .reported
                .keys()
                .filter(|name| !results.iter().any(|(listed, _)| listed == *name));
            let unlisted: Results = unlisted
                .map(|name| (name.clone(), Ok(SyncResult::NotDue)))
                .collect();
            results.extend(unlisted);
        }
        let names: BTreeSet<String> = results.iter().map(|(name, _)| name.clone()).collect();
        self.report_changes(results);
        self.telemetry.run_ended(names, listing, &self.reported);
        self.reported.len()
    }

    fn sync_network(
        &mut self,
        name: &str,
        settings: &Settings,
        on_request: Option<&OnRequest>,
    ) -> Result<SyncResult, CniError> {
        self.telemetry.step();
        let state = self.states.entry(name.to_owned()).or_default();
        let result = state.sync(settings, &self.arguments, self.began, on_request);
        let synced = state.take_synced();
        self.telemetry.network(name, state, synced);
        result
    }

    /// Reports new errors, and networks that recovered. An error lasts until a sync succeeds.
    fn report_changes(&mut self, results: Results) {
        let error_of = |(name, result): (String, Result<SyncResult, CniError>)| {
            let error = match result {
                Ok(SyncResult::Done) => return None,
                Ok(SyncResult::NotDue) => self.reported.get(&name).cloned()?,
                Err(CniError {
                    code: _,
                    message,
                    details,
                }) => format!("{message} ({details})"),
            };
            Some((name, error))
        };
        let errors: BTreeMap<String, String> = results.into_iter().filter_map(error_of).collect();
        for (name, error) in &errors {
            if self.reported.get(name) != Some(error) {
                log(name, error);
            }
        }
        for name in self.reported.keys() {
            if !errors.contains_key(name) {
                log(name, "recovered");
            }
        }
        self.reported = errors;
    }
}
