//! Databases that are prepared once and copied at every start. A template lies beside the packages
//! that made it.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};

/// Part of every name: raise it when the way of preparing changes.
const RECIPE_VERSION: &str = "2";

/// Finds a template, or lets `prepare` fill its folder; several processes may ask at once.
pub(super) fn find_or_prepare(
    parent: &Path,
    name: &str,
    prepare: impl FnOnce(&Path) -> Result<()>,
) -> Result<PathBuf> {
    fs::create_dir_all(parent).map_err(Error::file(parent))?;
    let template = parent.join(format!("{name}-{RECIPE_VERSION}"));
    let lock_path = template.with_added_extension("lock");
    let lock = File::create(&lock_path).map_err(Error::file(&lock_path))?;
    lock.lock().map_err(Error::file(&lock_path))?;
    if template.exists() {
        return Ok(template);
    }
    let unfinished = template.with_added_extension("unfinished");
    if unfinished.exists() {
        fs::remove_dir_all(&unfinished).map_err(Error::file(&unfinished))?;
    }
    fs::create_dir(&unfinished).map_err(Error::file(&unfinished))?;
    prepare(&unfinished)?;
    fs::rename(&unfinished, &template).map_err(Error::file(&template))?;
    Ok(template)
}

/// Copies what is in a folder into another one, which may be there already.
pub(super) fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to).map_err(Error::file(to))?;
    let permissions = fs::metadata(from).map_err(Error::file(from))?.permissions();
    fs::set_permissions(to, permissions).map_err(Error::file(to))?;
    for entry in fs::read_dir(from).map_err(Error::file(from))? {
        let path = entry.map_err(Error::file(from))?.path();
        let target = to.join(path.file_name().unwrap_or_default());
        if path.is_dir() {
            copy(&path, &target)?;
        } else {
            fs::copy(&path, &target).map_err(Error::file(&path))?;
        }
    }
    Ok(())
}
