//! Arguments that select the files.

use std::path::{Path, PathBuf};

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
            directory: directory.to_owned(),
            revision: self.revision.clone(),
        }
    }
}

/// The name of a file to write. Refuses `-`, which means stdout in other programs.
pub(super) fn output_file() -> impl TypedValueParser<Value = PathBuf> {
    PathBufValueParser::new().try_map(|path| match path.as_os_str() == "-" {
        true => Err("`-` is not a file: omit this flag to print to stdout, or name the file `./-`"),
        false => Ok(path),
    })
}
