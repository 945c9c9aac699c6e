//! A directory of YAML files: reading, checking, planning and printing.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| fuzz_checks::yaml_directory::check(data));
