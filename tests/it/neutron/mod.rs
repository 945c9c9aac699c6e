//! `cni-ipam-neutron` against a real Neutron and a real Keystone.

mod asked;
mod before;
mod chained;
mod clouds;
mod daemon;
mod faults;
mod input;
mod node;
mod races;
mod support;
mod warm;
