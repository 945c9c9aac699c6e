//! `cni-ipam-neutron` and `cni-vm-nic` against a real Neutron and a real Keystone, and
//! `cni-unnumbered-ptp` behind them; with plugins alone, and under a real kubelet.

mod attachment_definitions;
mod chained;
mod clouds;
mod daemon;
mod faults;
mod garbage;
mod gone_node;
mod guest;
mod health;
mod input;
mod kubelet;
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
mod secondary_route;
mod support;
mod tls;
mod warm;
mod watch_pairs;
