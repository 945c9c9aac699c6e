//! The plugins under a real kubelet and a real containerd.

mod machine;
mod ways;
