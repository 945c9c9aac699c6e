//! What a person must approve anew before a migration goes on: other files than those that were
//! approved, and a missing check. It never decides a step.

use super::super::failure::Failure;
use super::options::CheckArguments;
use ipam_controller::migration::Stores;
use ipam_desired::Desired;
use ipam_planner::migration::{ApprovedFiles, CheckDocument, MigrationRecord, unreachable};

/// Flags of `migrate resume` that approve anew.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct RenewalArguments {
    /// Continue with files that say something else than those that were approved, such as other
    /// maintenance windows. Nodes still move to the blocks of the approved schedule.
    #[arg(long)]
    approve_files: bool,
    /// Continue without the check that was given when the migration began.
    #[arg(long, conflicts_with = "check")]
    no_check: bool,
}

impl RenewalArguments {
    /// The record that is approved now.
    pub(super) fn renewed(
        &self,
        record: MigrationRecord,
        stores: &Stores,
        desired: &Desired,
        check: &CheckArguments,
    ) -> Result<MigrationRecord, Failure> {
        let check = self.check(&record, check)?;
        let now = ApprovedFiles::new(desired, &record.schedule);
        let differences = record.approved.differences(&now);
        if !self.approve_files && !differences.is_empty() {
            return Err(Failure::StaleFiles(differences));
        }
        let all = record.nodes(jiff::Timestamp::UNIX_EPOCH);
        let all = all.map_err(Failure::Failed)?;
        let stand = |(name, record)| match stores.nodes.get(name) {
            Some(stored) => &stored.record,
            None => record,
        };
        let lost = unreachable(desired, all.iter().map(stand));
        match lost.is_empty() {
            true => Ok(record.with_files(now).with_check(check)),
            false => Err(Failure::LostBlocks(lost)),
        }
    }

    /// The check that nodes must pass from now on.
    fn check(
        &self,
        record: &MigrationRecord,
        given: &CheckArguments,
    ) -> Result<Option<CheckDocument>, Failure> {
        match (&record.check, given.document()) {
            (Some(CheckDocument { program }), None) if !self.no_check => Err(Failure::Unexpected {
                what: format!(
                    "the migration began with a check (its program is `{}`), and none is given now",
                    program.escape_debug()
                ),
                hint: "pass it again with --check, or pass --no-check to go on without one",
            }),
            (_, given) => Ok(given),
        }
    }
}
