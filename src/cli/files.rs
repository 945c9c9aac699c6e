//! Where the files are, as arguments of the verbs that read them.

use std::path::{Path, PathBuf};

use clap::builder::{PathBufValueParser, TypedValueParser};

use ipam_config::source::Location;

/// The files.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct Files {
    /// The directory of pools, pins and policy.
    #[arg(value_name = "DIR", default_value = "pools")]
    directory: PathBuf,
    #[command(flatten)]
    revision: Revision,
}

/// Which version of them.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct Revision {
    /// Read the files as this Git revision has them, such as `main`, `v1.2` or `HEAD~1`, and not as
    /// they lie there.
    #[arg(long, value_name = "REV")]
    pub(super) revision: Option<String>,
}

impl Files {
    pub(super) fn location(&self) -> Location {
        self.revision.of(&self.directory)
    }
}

impl Revision {
    /// This version of a directory.
    pub(super) fn of(&self, directory: &Path) -> Location {
        Location {
            directory: directory.to_owned(),
            revision: self.revision.clone(),
        }
    }
}

/// The name of a file that is written. Elsewhere `-` is stdout, so nobody means a file of that
/// name.
pub(super) fn output_file() -> impl TypedValueParser<Value = PathBuf> {
    PathBufValueParser::new().try_map(|path| match path.as_os_str() == "-" {
        true => {
            Err("`-` is not a file: leave this flag out to print to stdout, or name the file `./-`")
        }
        false => Ok(path),
    })
}
