//! Runs a future that needs no runtime: it waits for no external event.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

/// More polls than any cluster file needs. Beyond it, the future waits for ever.
const POLLS: usize = 10_000;

/// Polls the future until it is ready.
pub(crate) fn block_on<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    let mut context = Context::from_waker(Waker::noop());
    for _ in 0..POLLS {
        if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
            return output;
        }
    }
    panic!("the future waits for an event that never comes");
}
