//! `cni-ipam-neutron` against a real Neutron and a real Keystone.

mod asked;
mod clouds;
mod faults;
mod input;
mod races;
mod support;
