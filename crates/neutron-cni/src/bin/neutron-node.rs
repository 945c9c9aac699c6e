//! `neutron-node`: on each node, a warm pool of Neutron's ports, their garbage, and the pairs of
//! the VM's port.
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    neutron_cni::daemon::main()
}
