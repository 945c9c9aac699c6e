//! Arguments that select the files.

use std::path::{Component, Path, PathBuf};

use clap::builder::{PathBufValueParser, TypedValueParser};

use ipam_config::source::Location;

#[derive(Clone, Debug, clap::Args)]
pub(super) struct Files {
    /// The directory of pools, pins and policy.
    #[arg(value_name = "DIR", default_value = "pools")]
    directory: PathBuf,
    #[command(flatten)]
    revision: Revision,
}

#[derive(Clone, Debug, clap::Args)]
pub(super) struct Revision {
    /// Read the files of this Git revision, such as `main`, `v1.2` or `HEAD~1`, instead of those on
    /// disk.
    #[arg(long, value_name = "REV")]
    pub(super) revision: Option<String>,
}

impl Files {
    pub(super) fn location(&self) -> Location {
        self.revision.of(&self.directory)
    }
}

impl Revision {
    pub(super) fn of(&self, directory: &Path) -> Location {
        Location {
            directory: spelled_one_way(directory),
            revision: self.revision.clone(),
        }
    }
}

/// The directory relative to the working directory if it lies in it, and otherwise as given. A plan
/// names it, so `pools`, `./pools/` and its absolute path make one digest. Links on the way to it
/// are resolved only outside the working directory; the directory itself may be a link.
pub(super) fn spelled_one_way(directory: &Path) -> PathBuf {
    relative(directory).unwrap_or_else(|| directory.to_owned())
}

fn relative(directory: &Path) -> Option<PathBuf> {
    let here = std::env::current_dir().ok()?;
    // `absolute` keeps `..`, because it may follow a link.
    let absolute = std::path::absolute(directory).ok()?;
    let absolute: PathBuf = absolute.components().collect();
    let climbs = absolute
        .components()
        .any(|part| part == Component::ParentDir);
    let below = match absolute.strip_prefix(&here) {
        Ok(below) if !climbs => below.to_owned(),
        _ => {
            let parent = absolute.parent()?.canonicalize().ok()?;
            let whole = parent.join(absolute.file_name()?);
            whole
                .strip_prefix(here.canonicalize().ok()?)
                .ok()?
                .to_owned()
        }
    };
    Some(match below.as_os_str().is_empty() {
        true => PathBuf::from("."),
        false => below,
    })
}

/// The name of a file to write. Refuses `-`, which means stdout in other programs.
pub(super) fn output_file() -> impl TypedValueParser<Value = PathBuf> {
    PathBufValueParser::new().try_map(|path| match path.as_os_str() == "-" {
        true => Err("`-` is not a file: omit this flag to print to stdout, or name the file `./-`"),
        false => Ok(path),
    })
}
