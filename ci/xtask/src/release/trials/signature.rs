//! Signs the sums with a new key, verifies the signature, and sees a change.

use anyhow::{Result, ensure};

use super::programs::{isolated, minisign};
use crate::plan::Plan;
use crate::sign::Signer;
use crate::source::output;
use crate::sums::SUMS;
use crate::target::Built;

/// With minisign, in a folder of its own.
pub fn sign_and_verify(plan: &Plan, _built: &Built) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let program = minisign(folder.path())?;
    let run = |arguments: &[&str]| {
        let mut command = isolated(&program, folder.path());
        output(command.args(arguments).current_dir(folder.path()))
    };
    run(&["-G", "-W", "-p", "public", "-s", "secret"])?;
    std::fs::copy(plan.dist.join(SUMS), folder.path().join(SUMS))?;
    let signer = Signer {
        key: folder.path().join("secret"),
        program: program.clone(),
    };
    let signature = folder.path().join(format!("{SUMS}.minisig"));
    signer.sign(folder.path(), &plan.version)?;
    let first = std::fs::read(&signature)?;
    signer.sign(folder.path(), &plan.version)?;
    ensure!(
        first == std::fs::read(&signature)?,
        "a second signature differs"
    );
    let told = run(&["-V", "-p", "public", "-m", SUMS])?;
    ensure!(told.contains(&plan.version), "{told}");
    std::fs::write(folder.path().join(SUMS), "changed")?;
    ensure!(
        run(&["-V", "-p", "public", "-m", SUMS]).is_err(),
        "minisign accepts a changed file"
    );
    Ok(())
}
