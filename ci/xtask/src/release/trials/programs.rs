//! Programs of Debian for the trials, with the libraries that they need. Nothing is installed.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use testbed::{debian, debian_file};

/// A command with a home of its own and nothing else of the environment but `PATH`.
pub fn isolated(program: &Path, home: &Path) -> Command {
    let mut command = Command::new(program);
    command
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("HOME", home)
        .env("TMPDIR", home);
    command
}

/// RPM 4.
pub fn rpm(home: &Path) -> Result<Command> {
    let mut command = isolated(&debian("rpm", "rpm")?, home);
    let common = debian_file("rpm-common", "usr/lib/rpm/rpmrc")?;
    let folder = common.parent().context("a file has a folder")?;
    command
        .env(
            "LD_LIBRARY_PATH",
            libraries(&[
                ("librpm9", "librpm.so.9"),
                ("librpmio9", "librpmio.so.9"),
                ("librpmbuild9", "librpmbuild.so.9"),
                ("librpmsign9", "librpmsign.so.9"),
                ("liblua5.3-0", "liblua5.3.so.0"),
                ("libfsverity0", "libfsverity.so.0"),
                ("libpopt0", "libpopt.so.0"),
            ])?,
        )
        .env("RPM_CONFIGDIR", folder);
    Ok(command)
}

/// minisign, as a script that knows where its library is.
pub fn minisign(folder: &Path) -> Result<PathBuf> {
    use std::os::unix::fs::PermissionsExt;
    let program = debian("minisign", "minisign")?;
    let libraries = libraries(&[("libsodium23", "libsodium.so.23")])?;
    let script = folder.join("minisign");
    let text = format!(
        "#!/bin/sh\nLD_LIBRARY_PATH='{}' exec '{}' \"$@\"\n",
        libraries.to_string_lossy(),
        program.display()
    );
    std::fs::write(&script, text)?;
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755))?;
    Ok(script)
}

/// The folders of these libraries, for the dynamic linker.
fn libraries(wanted: &[(&str, &str)]) -> Result<std::ffi::OsString> {
    let mut folders = Vec::new();
    for (package, library) in wanted {
        let machine = std::env::consts::ARCH;
        let path = debian_file(package, &format!("usr/lib/{machine}-linux-gnu/{library}"))?;
        folders.extend(path.parent().map(Path::to_owned));
    }
    std::env::join_paths(folders).context("a folder's name has a colon")
}
