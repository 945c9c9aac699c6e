//! `cni-ipam-neutron` and `cni-vm-nic` against a real Neutron and a real Keystone.

mod asked;
mod before;
mod chained;
mod clouds;
mod faults;
mod guest;
mod input;
mod nic;
mod node;
mod races;
mod support;
