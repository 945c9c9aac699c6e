//! The platforms and the bundles of programs of a release. It knows no file format.

use std::path::{Path, PathBuf};

/// A platform. The binaries are static, so any Linux of the architecture runs them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Target {
    #[value(name = "x86_64-unknown-linux-musl")]
    X86_64,
    #[value(name = "aarch64-unknown-linux-musl")]
    Aarch64,
}

impl Target {
    pub const ALL: [Target; 2] = [Target::X86_64, Target::Aarch64];

    /// The name in Rust.
    pub fn triple(self) -> &'static str {
        match self {
            Target::X86_64 => "x86_64-unknown-linux-musl",
            Target::Aarch64 => "aarch64-unknown-linux-musl",
        }
    }

    /// The name in Go, OCI images, Krew and Debian.
    pub fn go(self) -> &'static str {
        match self {
            Target::X86_64 => "amd64",
            Target::Aarch64 => "arm64",
        }
    }

    /// The name in the kernel, RPM and Homebrew.
    pub fn machine(self) -> &'static str {
        match self {
            Target::X86_64 => "x86_64",
            Target::Aarch64 => "aarch64",
        }
    }

    /// Whether this machine runs its binaries without an emulator.
    pub fn is_native(self) -> bool {
        std::env::consts::ARCH == self.machine()
    }
}

/// A program of a bundle.
#[derive(Debug, PartialEq, Eq)]
pub struct Program {
    pub name: &'static str,
    /// The crate that it comes from.
    pub package: &'static str,
    /// The Cargo profile that it is built with.
    pub profile: &'static str,
    /// The folder of the Debian and RPM packages.
    pub folder: &'static str,
}

/// Programs that are downloaded and installed together.
#[derive(Debug, PartialEq, Eq)]
pub struct Bundle {
    pub name: &'static str,
    pub summary: &'static str,
    pub programs: &'static [Program],
}

/// The command line.
pub const TOOL: Bundle = Bundle {
    name: "cilium-ipam",
    summary: "Plans and applies the addresses of a Cilium cluster from YAML in Git",
    programs: &[Program {
        name: "cilium-ipam",
        package: "cilium-ipam",
        profile: "dist",
        folder: "/usr/bin",
    }],
};

/// The programs of a node.
pub const NODE: Bundle = Bundle {
    name: "cilium-ipam-cni",
    summary: "CNI plugins and node daemon whose addresses and NICs are ports of OpenStack Neutron",
    programs: &[
        Program {
            name: "cni-ipam-neutron",
            package: "neutron-cni",
            profile: "plugin",
            folder: "/opt/cni/bin",
        },
        Program {
            name: "cni-unnumbered-ptp",
            package: "neutron-cni",
            profile: "plugin",
            folder: "/opt/cni/bin",
        },
        Program {
            name: "cni-vm-nic",
            package: "neutron-cni",
            profile: "plugin",
            folder: "/opt/cni/bin",
        },
        Program {
            name: "neutron-node",
            package: "neutron-node",
            profile: "dist",
            folder: "/usr/bin",
        },
    ],
};

pub const BUNDLES: [Bundle; 2] = [TOOL, NODE];

/// All programs of all bundles.
pub fn programs() -> impl Iterator<Item = &'static Program> {
    BUNDLES.into_iter().flat_map(|bundle| bundle.programs)
}

/// Cargo's target folder, with the binaries of one platform.
#[derive(Debug, Clone)]
pub struct Built {
    pub target: Target,
    pub folder: PathBuf,
}

impl Built {
    /// The path of a binary.
    pub fn binary(&self, program: &Program) -> PathBuf {
        let below: PathBuf = [self.target.triple(), program.profile, program.name]
            .iter()
            .map(Path::new)
            .collect();
        self.folder.join(below)
    }
}
