//! `cni-ipam-neutron` and `cni-vm-nic` against a real Neutron and a real Keystone.

mod chained;
mod clouds;
mod daemon;
mod faults;
mod garbage;
mod guest;
mod input;
mod lists;
mod nic;
mod node;
mod pairs;
mod plugin_of_2020;
mod pools;
mod port_pairs;
mod races;
mod repeated_secrets;
mod requests;
mod support;
mod tls;
mod warm;
