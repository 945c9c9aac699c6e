//! The archives of a release page: programs, licence, documents.

use anyhow::Result;

use super::archive::{FILE, Files, PROGRAM};
use super::documents::Documents;
use super::plan::Plan;
use super::target::{Built, Bundle, TOOL};

/// Files of the repository's root that every archive has.
const TEXTS: [&str; 3] = ["CHANGELOG.md", "LICENSE", "README.md"];

/// The name without `.tar.gz`. `cargo binstall` expects it in this form.
pub fn stem(bundle: &Bundle, version: &str, built: &Built) -> String {
    format!("{}-{version}-{}", bundle.name, built.target.triple())
}

/// Writes the archive of a bundle into `dist`.
pub fn write(plan: &Plan, bundle: &Bundle, built: &Built, documents: &Documents) -> Result<()> {
    let stem = stem(bundle, &plan.version, built);
    let mut files = Files::default();
    for program in bundle.programs {
        let path = format!("{stem}/{}", program.name);
        files.copy(path, PROGRAM, &built.binary(program))?;
    }
    for name in TEXTS {
        files.copy(format!("{stem}/{name}"), FILE, &plan.source.root.join(name))?;
    }
    if *bundle == TOOL {
        documents.add_to_archive(&mut files, &stem);
    }
    plan.write(&format!("{stem}.tar.gz"), &files.tar_gz(plan.commit.time)?)
}
