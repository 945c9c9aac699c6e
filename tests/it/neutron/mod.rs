//! A real Neutron and a real Keystone: what `cilium-ipam` reads and writes there, and the programs of
//! `plugins`.

mod daemon;
mod lists;
mod pairs;
mod plugins;
mod pools;
mod port_pairs;
mod repeated_secrets;
mod support;
mod watch_pairs;
