//! Generated worlds: a directory with a cluster, and the plan of both.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| fuzz_checks::world::check(data));
