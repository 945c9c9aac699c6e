//! `cni-unnumbered-ptp`: a chained CNI plugin that adds a way between a Pod and its node, on the
//! addresses that the Pod has.
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    neutron_cni::unnumbered_ptp::main()
}
