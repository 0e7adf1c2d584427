//! What an exchange takes: as a whole, of it waiting for the vendor, and of it waiting for commits.

use std::future::Future;
use std::time::{Duration, Instant};

use custody_runtime::clock::moment;
use custody_runtime::store::commit_wait;
use serde_json::{Value, json};

/// The times of one exchange. What is neither the vendor's nor a commit's is the service's own.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Times {
    begun: Instant,
    upstream: Duration,
    commit: Duration,
}

impl Times {
    /// Begins now.
    pub(crate) fn begin() -> Self {
        Self { begun: moment(), upstream: Duration::ZERO, commit: Duration::ZERO }
    }

    /// Waits for the vendor.
    pub(crate) async fn upstream<T>(&mut self, waiting: impl Future<Output = T>) -> T {
        let asked = moment();
        let arrived = waiting.await;
        self.upstream += asked.elapsed();
        arrived
    }

    /// Runs what may wait for the store on a thread of its own. `None` when it panicked. Waiting for that thread is the
    /// service's own time.
    pub(crate) async fn on_thread<T: Send + 'static>(
        &mut self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Option<T> {
        let ran = tokio::task::spawn_blocking(move || {
            let before = commit_wait();
            let done = work();
            (done, commit_wait().saturating_sub(before))
        });
        let (done, waited) = ran.await.ok()?;
        self.commit += waited;
        Some(done)
    }

    /// In microseconds, up to now.
    pub(crate) fn to_json(self) -> Value {
        let Self { begun, upstream, commit } = self;
        let [total, upstream, commit] =
            [begun.elapsed(), upstream, commit].map(|time| time.as_micros());
        json!({ "total": total, "upstream": upstream, "commit": commit })
    }
}
