//! Observations that the nodes of a wave share. Reading the whole cluster for each node would cost
//! the square of their number.
//!
//! An observation is used only for a node that asked before it began. So each node sees the cluster
//! as if it had read it alone, and the order of reading that the claims require stays. It must never
//! know what is observed.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::Mutex;

/// The last observation.
pub(super) struct Observations<T> {
    /// Number of requests up to now.
    asked: AtomicU64,
    latest: Mutex<Option<Latest<T>>>,
}

struct Latest<T> {
    /// The last request before it began.
    serves: u64,
    seen: Arc<T>,
}

impl<T> Observations<T> {
    pub(super) fn new() -> Observations<T> {
        Observations {
            asked: AtomicU64::new(0),
            latest: Mutex::new(None),
        }
    }

    /// An observation that begins after this call. Calls that wait meanwhile share the next one.
    ///
    /// # Errors
    /// Fails if the observation does. Only its caller is told; others observe again.
    pub(super) async fn after_now<E, F: Future<Output = Result<T, E>>>(
        &self,
        observe: impl FnOnce() -> F,
    ) -> Result<Arc<T>, E> {
        let request = self.asked.fetch_add(1, Ordering::SeqCst) + 1;
        let mut latest = self.latest.lock().await;
        if let Some(Latest { serves, seen }) = &*latest
            && *serves >= request
        {
            return Ok(seen.clone());
        }
        let serves = self.asked.load(Ordering::SeqCst);
        let seen = Arc::new(observe().await?);
        *latest = Some(Latest {
            serves,
            seen: seen.clone(),
        });
        Ok(seen)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::future::join_all;
    use std::convert::Infallible;

    /// Nodes that ask at once, of which each is due again as soon as it is served, as nodes of a
    /// wave are.
    #[tokio::test]
    async fn requests_at_once_share_an_observation_that_begins_after_them() {
        let observations = Observations::new();
        let (begun, moment) = (AtomicU64::new(0), AtomicU64::new(0));
        let tick = || moment.fetch_add(1, Ordering::SeqCst);
        let observe = || async {
            begun.fetch_add(1, Ordering::SeqCst);
            let at = tick();
            for _ in 0..3 {
                tokio::task::yield_now().await;
            }
            Ok::<u64, Infallible>(at)
        };
        let request = async |late: usize| {
            for _ in 0..late {
                tokio::task::yield_now().await;
            }
            let asked = tick();
            let seen = observations.after_now(observe).await.unwrap();
            assert!(*seen > asked, "asked at {asked}, seen at {seen}");
        };
        join_all((0..40).map(|number| request(number % 2))).await;
        let begun = begun.load(Ordering::SeqCst);
        assert!((2..=3).contains(&begun), "{begun} observations");
        request(0).await;
    }
}
