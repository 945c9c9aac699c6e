//! The plugins under a real kubelet and a real containerd.

mod lifecycle;
mod machine;
mod many;
mod proxy;
mod two_interfaces;
mod vm_nic;
mod ways;
