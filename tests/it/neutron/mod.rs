//! `cni-ipam-neutron` against a real Neutron and a real Keystone.

mod asked;
mod before;
mod chained;
mod clouds;
mod faults;
mod input;
mod node;
mod pools;
mod races;
mod support;
