//! `cni-vm-nic`: a CNI plugin that hands NICs of the machine to Pods, with the addresses that their
//! ports of OpenStack Neutron have.
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    neutron_cni::vm_nic::main()
}
