//! Work inside a network namespace.

use std::fs::File;
use std::io;
use std::os::fd::AsFd as _;
use std::thread::scope;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// Runs `work` in a thread that has entered the namespace.
///
/// # Errors
/// Fails if the namespace cannot be entered, or as `work` does.
pub fn within<T: Send>(netns: &File, work: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
    scope(|scope| {
        let inside = scope.spawn(|| {
            move_into_link_name_space(netns.as_fd(), Some(LinkNameSpaceType::Network))?;
            work()
        });
        let panicked = |_| Err(io::Error::other("the work in the namespace panicked"));
        inside.join().unwrap_or_else(panicked)
    })
}
