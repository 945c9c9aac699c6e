//! What a container runtime says to the CNI plugin.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| fuzz_checks::cni_input::check(data));
