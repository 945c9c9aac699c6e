//! Agreement about the version: the flag, `CHANGELOG.md`, the manifests and the chart.

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::source::Source;

const UNRELEASED: &str = "Unreleased";
const PACKAGES: [&str; 3] = ["cilium-ipam", "neutron-cni", "neutron-node"];

/// The section of the changelog that the release needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Section {
    /// A section with the version as its heading.
    Released,
    /// For a trial: `Unreleased` is as good.
    ReleasedOrUnreleased,
}

/// Returns the changes of this version.
///
/// # Errors
/// Fails if a file names another version.
pub fn check(source: &Source, version: &str, section: Section) -> Result<String> {
    let metadata: Value = serde_json::from_str(&source.cargo_output(&[
        "metadata",
        "--no-deps",
        "--format-version",
        "1",
    ])?)?;
    let packages = metadata["packages"].as_array();
    let packages = packages.context("cargo metadata names no packages")?;
    for name in PACKAGES {
        let package = packages.iter().find(|package| package["name"] == name);
        let named = package.and_then(|package| package["version"].as_str());
        agrees(&format!("the Cargo.toml of {name}"), named, version)?;
    }
    let chart = source.read("ci/chart/Chart.yaml")?;
    for key in ["version", "appVersion"] {
        let place = format!("`{key}` of ci/chart/Chart.yaml");
        agrees(&place, top_level(&chart, key), version)?;
    }
    changes(&source.read("CHANGELOG.md")?, version, section)
}

fn agrees(place: &str, named: Option<&str>, version: &str) -> Result<()> {
    if named != Some(version) {
        bail!(
            "{place} has version {}, not {version}\nhelp: set it to {version}, or pass the other version",
            named.unwrap_or("none")
        );
    }
    Ok(())
}

/// The value of a key without indentation.
pub fn top_level<'t>(yaml: &'t str, key: &str) -> Option<&'t str> {
    let value = yaml
        .lines()
        .find_map(|line| line.strip_prefix(key)?.strip_prefix(':'))?;
    Some(value.trim().trim_matches('"'))
}

/// The text below the heading of this version, which is `## 0.1.0` or `## 0.1.0 (date)`.
fn changes(changelog: &str, version: &str, section: Section) -> Result<String> {
    let below = |title: &str| {
        let mut lines = changelog.lines();
        lines.find(|line| {
            let heading = line
                .strip_prefix("## ")
                .and_then(|text| text.split(' ').next());
            heading.map(|text| text.trim_matches(['[', ']'])) == Some(title)
        })?;
        let text: Vec<&str> = lines.take_while(|line| !line.starts_with("## ")).collect();
        Some(text.join("\n").trim().to_owned())
    };
    let found = below(version).or_else(|| match section {
        Section::Released => None,
        Section::ReleasedOrUnreleased => below(UNRELEASED),
    });
    found.with_context(|| {
        format!(
            "CHANGELOG.md has no section `## {version}`\nhelp: rename the section `## {UNRELEASED}`, or pass --trial"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHANGELOG: &str = "# Changelog\n\n## Unreleased\n\n- new\n\n## 0.2.0 (2026-01-01)\n\n- b\n\n## [0.1.0]\n\n- a\n";

    #[test]
    fn the_changes_of_a_version_are_those_below_its_heading() {
        for (version, expected) in [("0.2.0", "- b"), ("0.1.0", "- a")] {
            assert_eq!(
                changes(CHANGELOG, version, Section::Released).unwrap(),
                expected
            );
        }
    }

    #[test]
    fn a_version_that_the_changelog_does_not_name_is_refused() {
        let error = changes(CHANGELOG, "0.2", Section::Released).unwrap_err();
        assert!(error.to_string().contains("## 0.2`"), "{error}");
        let trial = changes(CHANGELOG, "0.3.0", Section::ReleasedOrUnreleased);
        assert_eq!(trial.unwrap(), "- new");
    }

    #[test]
    fn another_version_of_a_manifest_is_refused() {
        let chart = "name: x\nversion: 0.1.0\nappVersion: \"0.1.0\"\n";
        assert_eq!(top_level(chart, "appVersion"), Some("0.1.0"));
        let error = agrees("the chart", top_level(chart, "version"), "0.2.0").unwrap_err();
        assert!(
            error
                .to_string()
                .starts_with("the chart has version 0.1.0, not 0.2.0"),
            "{error}"
        );
    }

    #[test]
    fn this_repository_agrees_with_itself() {
        let source = Source::here();
        let version = crate::chart::version(&source).unwrap();
        let changes = check(&source, &version, Section::ReleasedOrUnreleased).unwrap();
        assert!(!changes.is_empty());
        let error = check(&source, "9.9.9", Section::ReleasedOrUnreleased).unwrap_err();
        assert!(
            error
                .to_string()
                .contains(&format!("cilium-ipam has version {version}, not 9.9.9")),
            "{error}"
        );
    }
}
