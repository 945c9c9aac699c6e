//! A Kubernetes API server as the cluster. Only this folder knows the Kubernetes client.
//!
//! It decides nothing: it sends what it is given, waits for a busy server, and reports the outcome.

mod connection;
mod custom;
mod events;
mod follow;
mod large_list;
mod list;
mod request;
mod sentences;
mod write;

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, RwLock};

use connection::SystemClock;
use http::StatusCode;
use jiff::Timestamp;
use kube::Client;
use write::collection;

use self::connection::client;
use self::list::{Listing, parameters};
use self::request::{MOST_BYTES, ROOM};
use super::{
    Cluster, ClusterError, LeaseName, ListVisitor, LockRecord, LockSeen, Moment, Seen, Target,
    Write, WriteError, Written,
};
use ipam_cilium::observed::ObservedKind;

pub use self::connection::{Connection, contexts, kubeconfig_has_cluster};
pub use self::custom::Defined;
pub use connection::{Clock, OnRequest, SentRequest};
pub use custom::{ForeignKind, ForeignList};

#[derive(Clone)]
pub struct LiveCluster {
    connection: Arc<Connection>,
    client: Arc<RwLock<Client>>,
    /// URL of the API server, for messages.
    server: Arc<str>,
    has_answered: Arc<AtomicBool>,
    clock: Arc<dyn Clock>,
    on_request: Option<OnRequest>,
    /// Largest accepted answer, in bytes.
    largest_answer: usize,
    /// Bytes for which room is reserved. A larger answer is copied while it is read.
    room_for_answer: usize,
}

impl LiveCluster {
    /// Prepares the connection. Nothing is sent yet.
    ///
    /// # Errors
    /// Fails if no kubeconfig or account can be used.
    pub async fn connect(connection: Connection) -> Result<LiveCluster, ClusterError> {
        let (client, server) = client(&connection)
            .await
            .map_err(ClusterError::Credentials)?;
        Ok(LiveCluster {
            connection: Arc::new(connection),
            client: Arc::new(RwLock::new(client)),
            server: server.into(),
            has_answered: Arc::default(),
            clock: Arc::new(SystemClock::new()),
            on_request: None,
            largest_answer: MOST_BYTES,
            room_for_answer: ROOM,
        })
    }

    /// Returns a client of the same cluster whose retries use another clock.
    #[must_use]
    pub fn with_clock(self, clock: Arc<dyn Clock>) -> LiveCluster {
        LiveCluster { clock, ..self }
    }
}

impl Cluster for LiveCluster {
    async fn list(
        &self,
        kind: ObservedKind,
        namespace: &str,
        moment: &Moment,
        visitor: &mut dyn ListVisitor,
    ) -> Result<Seen, ClusterError> {
        let query = kind.query(namespace);
        let parameters = parameters(&query);
        for path in &query.paths {
            let listing = Listing {
                resource: kind.resource(),
                kind: kind.api_version_and_kind().1,
                path,
                parameters: &parameters,
                moment,
                viewed: Some(kind),
            };
            let seen = match (kind, moment) {
                // The list of Nodes waits for the moment of this list.
                (ObservedKind::CiliumNode, Moment::Latest) => {
                    self.large_list(kind, listing, visitor).await?
                }
                _ => self.pages(listing, visitor).await?,
            };
            match seen {
                Seen::NotServed => {}
                seen => return Ok(seen),
            }
        }
        Ok(Seen::NotServed)
    }

    fn cilium_namespace(&self) -> Option<&str> {
        self.connection.cilium_namespace.as_deref()
    }

    async fn write(&self, write: &Write) -> Result<Written, WriteError> {
        self.send_write(write).await
    }

    async fn lock(&self, name: LeaseName) -> Result<LockSeen, ClusterError> {
        let resource = "leases.coordination.k8s.io";
        let collection = collection(&Target::Lease(name));
        let answer = self.get(format!("{collection}/{}", name.as_str())).await?;
        match answer.status {
            StatusCode::NOT_FOUND => Ok(LockSeen::Absent),
            StatusCode::FORBIDDEN => Ok(LockSeen::Hidden(answer.message())),
            status if !status.is_success() => Err(ClusterError::Refused {
                resource,
                message: answer.message(),
            }),
            _ => {
                let malformed = |error: serde_json::Error| ClusterError::Malformed {
                    resource,
                    message: error.to_string(),
                };
                Ok(LockSeen::Record(Box::new(
                    LockRecord::read(&answer.body).map_err(malformed)?,
                )))
            }
        }
    }

    fn now(&self) -> Timestamp {
        Timestamp::now()
    }
}
