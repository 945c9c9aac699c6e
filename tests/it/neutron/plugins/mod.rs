//! `cni-ipam-neutron` and `cni-vm-nic` against a real Neutron and a real Keystone, and
//! `cni-unnumbered-ptp` behind them; with plugins alone, and under a real kubelet.

mod attachment_definitions;
mod chained;
mod clouds;
mod faults;
mod garbage;
mod gone_node;
mod guest;
mod health;
mod input;
mod kubelet;
mod nic;
mod node;
mod races;
mod requests;
mod secondary_route;
mod tls;
mod warm;
