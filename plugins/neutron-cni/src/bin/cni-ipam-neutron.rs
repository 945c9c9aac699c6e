//! `cni-ipam-neutron`: a CNI IPAM plugin whose addresses are ports of OpenStack Neutron.
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    neutron_cni::ipam::main()
}
