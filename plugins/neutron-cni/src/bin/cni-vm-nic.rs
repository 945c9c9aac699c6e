//! `cni-vm-nic`: a CNI plugin that moves NICs of the machine to Pods, with the addresses of their
//! ports of OpenStack Neutron.
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    neutron_cni::vm_nic::main()
}
