//! `cni-ipam-neutron` against a real Neutron and a real Keystone.

mod asked;
mod before;
mod chained;
mod clouds;
mod faults;
mod guest;
mod input;
mod node;
mod races;
mod support;
