//! CycloneDX's own library validates each bill of materials against the schema.

use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::plan::Plan;
use crate::source::{output, python_packages};
use crate::target::Built;

const LIBRARY: &str = "11.12.0";
/// Prints the number of valid files, or the first error.
const PROGRAM: &str = r#"
import sys
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
validator = JsonStrictValidator(SchemaVersion.V1_6)
for path in sys.argv[1:]:
    with open(path) as file:
        error = validator.validate_str(file.read())
    if error:
        sys.exit(f"{path}: {str(error)[:2000]}")
print(len(sys.argv) - 1)
"#;

/// Accepts each file, and refuses a document with an unknown field.
pub fn validate(plan: &Plan, _built: &Built) -> Result<()> {
    let packages = [format!("cyclonedx-python-lib[json-validation]=={LIBRARY}")];
    let folder = python_packages(&format!("cyclonedx-python-lib-{LIBRARY}"), &packages)?;
    let python = |files: &[std::path::PathBuf]| {
        let mut command = Command::new("python3");
        command.args(["-c", PROGRAM]).env("PYTHONPATH", &folder);
        output(command.args(files))
    };
    let mut files = Vec::new();
    for entry in std::fs::read_dir(&plan.dist)? {
        let path = entry?.path();
        if path.to_string_lossy().ends_with(".cdx.json") {
            files.push(path);
        }
    }
    let valid = python(&files)?;
    ensure!(valid.trim() == files.len().to_string(), "{valid}");
    ensure!(!files.is_empty(), "no file to validate");

    let first = files.first().context("no file to validate")?;
    let text = std::fs::read_to_string(first)?.replacen("\"specVersion\"", "\"version_\"", 1);
    let folder = tempfile::tempdir()?;
    let wrong = folder.path().join("wrong.cdx.json");
    std::fs::write(&wrong, text)?;
    ensure!(python(&[wrong]).is_err(), "an unknown field is accepted");
    Ok(())
}
