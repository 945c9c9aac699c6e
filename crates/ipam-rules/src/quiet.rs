//! Panics of `cel` that print nothing. The rule, or the expression, has no result then, and its
//! finding says so; the text of a panic is about code, and may hold values of the plan.

use std::cell::Cell;
use std::panic::{set_hook, take_hook};
use std::sync::Once;

thread_local! {
    static IS_QUIET: Cell<bool> = const { Cell::new(false) };
}

static HOOK: Once = Once::new();

/// Silences panics of this thread until it ends. Those of other threads are printed as before.
pub(crate) fn silence_this_thread() {
    HOOK.call_once(|| {
        let usual = take_hook();
        set_hook(Box::new(move |panic| {
            // A thread that ends has no such variable any more.
            if !IS_QUIET.try_with(Cell::get).unwrap_or(false) {
                usual(panic);
            }
        }));
    });
    IS_QUIET.set(true);
}
