//! One job for each of many items, on all cores.

use std::num::NonZero;

/// The stack of a thread, in bytes. A parser recurses as deep as a file is nested.
const STACK: usize = 16 * 1024 * 1024;

/// The results, in the order of the items. If the system gives no thread, those of its share are
/// missing.
pub(super) fn on_all_cores<T: Send, R: Send>(items: Vec<T>, job: impl Fn(T) -> R + Sync) -> Vec<R> {
    let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
    let share = items.len().div_ceil(cores).max(1);
    let mut items = items.into_iter().peekable();
    let (mut shares, job) = (Vec::new(), &job);
    while items.peek().is_some() {
        shares.push(items.by_ref().take(share).collect::<Vec<T>>());
    }
    std::thread::scope(|scope| {
        let threads: Vec<_> = shares
            .into_iter()
            .filter_map(|share| {
                let thread = std::thread::Builder::new().stack_size(STACK);
                let work = move || share.into_iter().map(job).collect::<Vec<R>>();
                thread.spawn_scoped(scope, work).ok()
            })
            .collect();
        let results = threads.into_iter().filter_map(|thread| thread.join().ok());
        results.flatten().collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_in_the_order_of_the_items() {
        for count in [0, 1, 2, 7, 100] {
            let items: Vec<usize> = (0..count).collect();
            assert_eq!(on_all_cores(items.clone(), |item| item), items);
        }
    }
}
