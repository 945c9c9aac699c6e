//! The file of one frozen Service: its place and its text. The text depends on nothing that an
//! apply changes, so that `lb thaw` recognises a file that is as it was written.

use std::net::IpAddr;
use std::path::{Path, PathBuf};

use crate::cli::failure::Failure;
use crate::cli::import::comments::comment;
use crate::cli::import::yaml::{head, yaml};
use crate::cli::init::new_files::NewFile;
use ipam_core::model::ServiceName;

/// The folder below the directory of the files.
pub(super) const FOLDER: &str = "frozen";

pub(super) fn path(directory: &Path, service: &ServiceName) -> PathBuf {
    directory
        .join(FOLDER)
        .join(service.namespace())
        .join(format!("{}.yaml", service.name()))
}

/// The file of a pin. `addresses` are sorted.
pub(super) fn file(
    directory: &Path,
    service: &ServiceName,
    addresses: &[IpAddr],
) -> Result<NewFile, Failure> {
    let mut text = comment(
        "Written by `cilium-ipam lb freeze`: the Service held these addresses. `cilium-ipam lb thaw` removes this file as long as it is as written.",
    );
    let name = format!("{}.{}", service.namespace(), service.name());
    text += &head("ServiceAssignment", &name)?;
    text += &format!("  service: {}\n  ips:\n", yaml(&service.to_string())?);
    for address in addresses {
        text += &format!("  - {}\n", yaml(&address.to_string())?);
    }
    Ok(NewFile {
        path: path(directory, service),
        text,
    })
}
