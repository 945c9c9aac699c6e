//! `cni-ipam-neutron` and `cni-vm-nic` against a real Neutron and a real Keystone.

mod asked;
mod before;
mod chained;
mod clouds;
mod daemon;
mod echo;
mod faults;
mod garbage;
mod guest;
mod input;
mod lists;
mod nic;
mod node;
mod pairs;
mod pools;
mod port_pairs;
mod races;
mod support;
mod tls;
mod warm;
