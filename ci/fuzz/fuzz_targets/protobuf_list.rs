//! An answer of an API server in the binary encoding.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| fuzz_checks::protobuf_list::check(data));
