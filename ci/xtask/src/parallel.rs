//! Runs one action for many items, over several connections at once.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// Calls `action` for every item, from `workers` threads, and starts nothing further after the
/// first failure.
///
/// # Errors
/// The first failure.
pub fn for_each<T: Sync, E: Send>(
    items: &[T],
    workers: usize,
    action: impl Fn(&T) -> Result<(), E> + Sync,
) -> Result<(), E> {
    let next = AtomicUsize::new(0);
    let failure = Mutex::new(None);
    let worker = || {
        while let Some(item) = items.get(next.fetch_add(1, Ordering::Relaxed)) {
            if let Err(error) = action(item) {
                next.store(items.len(), Ordering::Relaxed);
                if let Ok(mut first) = failure.lock() {
                    first.get_or_insert(error);
                }
            }
        }
    };
    thread::scope(|scope| {
        for _ in 0..workers.min(items.len()) {
            scope.spawn(worker);
        }
    });
    match failure.into_inner() {
        Ok(Some(error)) => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_are_done_unless_one_fails() {
        let done = AtomicUsize::new(0);
        let count = |item: &usize| {
            done.fetch_add(1, Ordering::Relaxed);
            if *item == 7 { Err("seven") } else { Ok(()) }
        };
        assert_eq!(for_each(&[1, 2, 3], 2, count), Ok(()));
        assert_eq!(done.load(Ordering::Relaxed), 3);
        assert_eq!(for_each(&[7; 100], 2, count), Err("seven"));
        assert!(done.load(Ordering::Relaxed) <= 5);
    }
}
