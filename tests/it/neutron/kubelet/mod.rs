//! The plugins under a real kubelet and a real containerd.

mod lifecycle;
mod machine;
mod ways;
