//! `quick`: the pure crates alone, which need neither a runtime nor a client.

use anyhow::Result;

use crate::cargo;

pub fn run() -> Result<()> {
    cargo::run(
        "test --package ipam-core --package ipam-cilium --package ipam-desired --package ipam-plan --package ipam-doctor --package ipam-import --package ipam-migrate",
    )
}
