//! `cni-ipam-neutron` against a real Neutron and a real Keystone.

mod asked;
mod before;
mod chained;
mod clouds;
mod daemon;
mod faults;
mod garbage;
mod input;
mod node;
mod pairs;
mod pools;
mod port_pairs;
mod races;
mod support;
mod warm;
