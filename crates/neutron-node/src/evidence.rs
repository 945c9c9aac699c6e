//! Evidence about the interfaces of this node: the caches of container runtimes, and the ages of the
//! kernel and of the plugin's files.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde_json::Value;

use neutron_cni::cni::{Attachment, address_of};
use neutron_cni::{CachedResult, Epochs};
use private_files::boot;

/// Reads the caches of the runtimes. Fails if no folder exists or a file is invalid: then no
/// interface is known to be gone.
pub(super) fn cached_results(folders: &[PathBuf]) -> Result<Vec<CachedResult>, String> {
    let mut results = Vec::new();
    let mut seen = 0;
    for folder in folders {
        match read(folder, &mut results) {
            Ok(()) => seen += 1,
            Err(why) if why.kind() == ErrorKind::NotFound => {}
            Err(why) => return Err(format!("{}: {why}", folder.display())),
        }
    }
    if seen > 0 {
        Ok(results)
    } else {
        Err("no folder of `--results` exists, so the runtime's cache is unknown".to_owned())
    }
}

/// The ages of the kernel and of the plugin's files; `None` if `/proc/stat` has no boot time.
pub(super) fn epochs(node_file: &Path) -> Option<Epochs> {
    let boot = Timestamp::try_from(boot::time()?).ok()?;
    let files = modified(node_file);
    Some(Epochs { boot, files })
}

fn modified(path: &Path) -> Option<Timestamp> {
    let written = fs::metadata(path).and_then(|metadata| metadata.modified());
    written.ok().and_then(|at| Timestamp::try_from(at).ok())
}

fn read(folder: &Path, results: &mut Vec<CachedResult>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let bytes = match fs::read(&path) {
            // A DEL removed it since the folder was listed.
            Err(why) if why.kind() == ErrorKind::NotFound => continue,
            bytes => bytes?,
        };
        let nonsense = || {
            io::Error::new(
                ErrorKind::InvalidData,
                format!("{} is not a result of libcni", path.display()),
            )
        };
        let cached: Value = serde_json::from_slice(&bytes).map_err(|_| nonsense())?;
        let text = |key: &str| cached[key].as_str().unwrap_or_default();
        let attachment = Attachment {
            container: text("containerId").parse().map_err(|_| nonsense())?,
            interface: text("ifName").parse().map_err(|_| nonsense())?,
        };
        let ips = cached["result"]["ips"].as_array().into_iter().flatten();
        results.push(CachedResult {
            attachment,
            addresses: ips
                .filter_map(|ip| address_of(ip["address"].as_str()?))
                .collect(),
            written: modified(&path),
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_missing_folder_and_an_invalid_file_are_no_evidence() {
        let folder = tempfile::tempdir().unwrap();
        let (there, absent) = (folder.path().to_owned(), folder.path().join("absent"));
        assert!(cached_results(std::slice::from_ref(&absent)).is_err());
        assert_eq!(
            cached_results(&[there.clone(), absent.clone()]),
            Ok(Vec::new())
        );
        let cached = json!({"containerId": "c", "ifName": "eth0", "result": {"ips": [{"address": "10.0.0.7/24"}]}});
        fs::write(there.join("net-c-eth0"), cached.to_string()).unwrap();
        let known = cached_results(&[absent, there.clone()]).unwrap();
        assert_eq!(known[0].attachment.to_string(), "c/eth0");
        assert_eq!(
            known[0].addresses,
            ["10.0.0.7".parse::<std::net::IpAddr>().unwrap()]
        );
        assert!(known[0].written.is_some());
        fs::write(there.join("net-d-eth0"), "{}").unwrap();
        assert!(
            cached_results(&[there])
                .unwrap_err()
                .contains("net-d-eth0 is not a result of libcni")
        );
    }

    #[test]
    fn the_kernel_reports_its_boot_time() {
        let epochs = epochs(Path::new("/nowhere")).unwrap();
        assert!(epochs.boot < Timestamp::now() && epochs.files.is_none());
    }
}
