//! The only image of a node: Debian's static busybox. Sandboxes run it, too.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use serde_json::json;
use sha2::{Digest as _, Sha256};

use crate::debian::debian_file;
use crate::error::{Error, Result};

/// Its name in manifests, which need `imagePullPolicy: Never`.
pub const IMAGE: &str = "testbed.invalid/busybox:1";

/// Its file in the node's folder, as `docker save` writes it.
pub(super) const ARCHIVE: &str = "image.tar";
const CONFIG: &str = "config.json";
const LAYER: &str = "layer.tar";

const APPLETS: [&str; 12] = [
    "sh", "seq", "sleep", "timeout", "httpd", "wget", "nc", "ping", "ip", "cat", "dd", "echo",
];

pub(super) fn write(folder: &Path) -> Result<()> {
    let (root, parts) = (folder.join("image/root"), folder.join("image/parts"));
    for path in [&root.join("bin"), &root.join("tmp"), &parts] {
        fs::create_dir_all(path).map_err(Error::file(path))?;
    }
    let busybox = debian_file("busybox-static", "bin/busybox")?;
    let own = root.join("bin/busybox");
    fs::copy(&busybox, &own).map_err(Error::file(&own))?;
    for applet in APPLETS {
        let path = root.join("bin").join(applet);
        symlink("busybox", &path).map_err(Error::file(&path))?;
    }
    let layer = parts.join(LAYER);
    tar(&layer, &root, &["."])?;
    let bytes = fs::read(&layer).map_err(Error::file(&layer))?;
    let digest: String = Sha256::digest(&bytes)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    let config = json!({
        "architecture": "amd64", "os": "linux",
        "config": {"Cmd": ["/bin/sleep", "1000000"], "Env": ["PATH=/bin"]},
        "rootfs": {"type": "layers", "diff_ids": [format!("sha256:{digest}")]},
    });
    let manifest = json!([{"Config": CONFIG, "RepoTags": [IMAGE], "Layers": [LAYER]}]);
    for (name, value) in [(CONFIG, config), ("manifest.json", manifest)] {
        let path = parts.join(name);
        fs::write(&path, value.to_string()).map_err(Error::file(&path))?;
    }
    let all = [CONFIG, LAYER, "manifest.json"];
    tar(&folder.join(ARCHIVE), &parts, &all)
}

fn tar(archive: &Path, folder: &Path, names: &[&str]) -> Result<()> {
    let mut tar = Command::new("tar");
    tar.args(["--create", "--owner=0", "--group=0", "--file"])
        .arg(archive);
    let output = tar.arg("--directory").arg(folder).args(names).output();
    let output = output.map_err(Error::file("tar"))?;
    if output.status.success() {
        return Ok(());
    }
    Err(Error::Failed {
        program: "tar".to_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    })
}
