//! One program that migrates, as a future. Dropping it at any point is a kill.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use jiff::SignedDuration;

use super::client::{Client, sleep};
use super::setup::Chosen;
use super::world::World;
use crate::cluster::Yield;
use ipam_cluster::{Extent, observe};
use ipam_controller::migration::{
    Ended, Host, Migration, MigrationError, MigrationEvent, migration_id, pods_by_node, stored,
};
use ipam_core::model::NodeName;
use ipam_migrate::migration::{
    ApprovedFiles, DrainRules, Goal, Handling, KubeletRestart, MigrationRecord, MigrationRequest,
    Rules, schedule,
};

/// What a person asks a program for.
#[derive(Clone, Debug, Default)]
pub(super) struct Order {
    pub(super) failures: AfterFailure,
    pub(super) direction: Wanted,
    pub(super) kubelets: Vec<NodeName>,
}

/// What becomes of failures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum AfterFailure {
    #[default]
    Stop,
    TryAgain,
}

/// Where the person wants the nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Wanted {
    #[default]
    Moved,
    Back,
}

/// A host with simulated time.
pub(super) struct SimHost {
    pub(super) world: World,
    pub(super) is_stopping: Arc<AtomicBool>,
    pub(super) check: Check,
}

/// The person's own check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Check {
    None,
    /// It fails now and then.
    Shaky,
}

impl Host for SimHost {
    async fn sleep(&self, duration: Duration) {
        sleep(&self.world, duration).await;
    }

    fn is_stopping(&self) -> bool {
        self.is_stopping.load(Ordering::Relaxed)
    }

    fn report(&self, event: &MigrationEvent<'_>) {
        let text = match event {
            MigrationEvent::Step { .. } => return,
            MigrationEvent::Ended { record } => {
                format!(
                    "{} ended at {}: {:?}",
                    record.node, record.phase, record.failure
                )
            }
            event => format!("{event:?}"),
        };
        self.world.lock().note(|| text);
    }

    async fn check(&self, _: &NodeName) -> Result<(), String> {
        Yield(3).await;
        match self.world.lock().chance(300) {
            true => Err("no answer to the ping".to_owned()),
            false => Ok(()),
        }
    }

    fn has_check(&self) -> bool {
        self.check == Check::Shaky
    }
}

pub(super) type Migrating<'a> =
    Pin<Box<dyn Future<Output = Result<Ended, MigrationError>> + Send + 'a>>;

/// Begins the migration, or continues the stored one.
pub(super) fn migrate<'a>(
    client: Client,
    host: SimHost,
    chosen: Chosen<'a>,
    order: Order,
) -> Migrating<'a> {
    Box::pin(async move {
        let stores = stored(&client).await?;
        let desired = &chosen.directory.loaded.desired;
        let mut migration = match &stores.migration {
            Some(main) => {
                let nodes = stores.nodes.clone();
                Migration::resume(&client, &host, desired, main.clone(), nodes)
            }
            None => {
                let pods = pods_by_node(&client).await?;
                let observed = observe(&client, Extent::Plan).await?;
                let request = request(&chosen);
                let document = schedule(desired, &observed, &pods, &request, "pools");
                let id = migration_id(client.world.lock().now);
                let files = ApprovedFiles::new(desired, &document);
                let record = MigrationRecord::new(id, document, files, rules());
                Migration::begin(&client, &host, desired, record, &observed, &stores).await?
            }
        };
        migration.kubelets_restarted(&order.kubelets).await?;
        if order.direction == Wanted::Back {
            migration.turn_back().await?;
        }
        if order.failures == AfterFailure::TryAgain {
            migration.try_again().await?;
        }
        migration.run().await
    })
}

fn request(chosen: &Chosen<'_>) -> MigrationRequest {
    MigrationRequest {
        goal: Goal::Blocks,
        nodes: Default::default(),
        method: chosen.method(),
        drain: drain(),
    }
}

fn drain() -> DrainRules {
    DrainRules {
        unmanaged: Handling::Refuse,
        empty_dir: Handling::Refuse,
    }
}

fn rules() -> Rules {
    Rules {
        drain: drain(),
        kubelet: KubeletRestart::ByPerson,
        drain_timeout: SignedDuration::from_secs(900),
        timeout: SignedDuration::from_secs(600),
    }
}
