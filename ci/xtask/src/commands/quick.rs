//! `quick`: the pure crates, which need neither a runtime nor a client, and the cases on files.

use anyhow::Result;

use crate::cargo;

pub fn run() -> Result<()> {
    cargo::run(
        "test --package ipam-core --package ipam-cilium --package ipam-desired --package ipam-plan --package ipam-doctor --package ipam-import --package ipam-migrate",
    )?;
    // The flags of the suite, so that cargo builds nothing twice.
    cargo::run("test --workspace --all-features --test it -- cases:: bad_input::")
}
