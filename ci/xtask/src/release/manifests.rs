//! Manifests of package managers that download the archives: Krew's plugin and Homebrew's formula.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::bundle::stem;
use super::plan::Plan;
use super::target::{Built, TOOL};

/// The name of Krew's manifest. `kubectl krew install --manifest=FILE` reads it.
pub const KREW: &str = "cilium-ipam.krew.yaml";
/// The name of Homebrew's formula.
pub const BREW: &str = "cilium-ipam.rb";

/// An archive with the URL it is downloaded from.
struct Archive<'a> {
    built: &'a Built,
    stem: String,
    url: String,
    sum: &'a str,
}

/// Writes both manifests into `dist`.
pub fn write(plan: &Plan, all: &[Built], sums: &BTreeMap<String, String>) -> Result<()> {
    let archives: Result<Vec<Archive>> = all
        .iter()
        .map(|built| Archive::new(plan, built, sums))
        .collect();
    let archives = archives?;
    // JSON is YAML.
    let krew = format!("{:#}\n", krew(plan, &archives));
    plan.write(KREW, krew.as_bytes())?;
    plan.write(BREW, brew(plan, &archives).as_bytes())
}

impl<'a> Archive<'a> {
    fn new(
        plan: &Plan,
        built: &'a Built,
        sums: &'a BTreeMap<String, String>,
    ) -> Result<Archive<'a>> {
        let stem = stem(&TOOL, &plan.version, built);
        let name = format!("{stem}.tar.gz");
        let sum = sums
            .get(&name)
            .with_context(|| format!("there is no {name}"))?;
        let url = format!("{}/{name}", plan.downloads);
        Ok(Archive {
            built,
            stem,
            url,
            sum,
        })
    }
}

/// See the plugin manifest in Krew's developer guide, version `v1alpha2`.
fn krew(plan: &Plan, archives: &[Archive]) -> Value {
    let platforms: Vec<Value> = archives
        .iter()
        .map(|archive| {
            json!({
                "selector": {"matchLabels": {"os": "linux", "arch": archive.built.target.go()}},
                "uri": archive.url,
                "sha256": archive.sum,
                "files": [
                    {"from": format!("{}/cilium-ipam", archive.stem), "to": "."},
                    {"from": format!("{}/LICENSE", archive.stem), "to": "."},
                ],
                "bin": "cilium-ipam",
            })
        })
        .collect();
    json!({
        "apiVersion": "krew.googlecontainertools.github.com/v1alpha2",
        "kind": "Plugin",
        "metadata": {"name": "cilium-ipam"},
        "spec": {
            "version": format!("v{}", plan.version),
            "homepage": plan.repository,
            "shortDescription": "Plan and apply the addresses of a Cilium cluster",
            "description": TOOL.summary,
            "platforms": platforms,
        },
    })
}

/// A formula for Linux: there are no binaries for macOS.
fn brew(plan: &Plan, archives: &[Archive]) -> String {
    let platforms: String = archives
        .iter()
        .map(|archive| {
            let guard = match archive.built.target {
                super::target::Target::X86_64 => "on_intel",
                super::target::Target::Aarch64 => "on_arm",
            };
            let Archive { url, sum, .. } = archive;
            format!("    {guard} do\n      url \"{url}\"\n      sha256 \"{sum}\"\n    end\n")
        })
        .collect();
    format!(
        r##"class CiliumIpam < Formula
  desc "{summary}"
  homepage "{homepage}"
  version "{version}"
  license "Apache-2.0"

  on_linux do
{platforms}  end

  depends_on :linux

  def install
    bin.install "cilium-ipam"
    man1.install Dir["man/man1/*"]
    bash_completion.install "completions/cilium-ipam"
    fish_completion.install "completions/cilium-ipam.fish"
    zsh_completion.install "completions/_cilium-ipam"
  end

  test do
    assert_match version.to_s, shell_output("#{{bin}}/cilium-ipam --version")
  end
end
"##,
        summary = TOOL.summary,
        homepage = plan.repository,
        version = plan.version,
    )
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::source::{Commit, Source};
    use crate::target::Target;

    fn plan() -> Plan {
        Plan {
            source: Source::here(),
            commit: Commit {
                id: "c0ffee".to_owned(),
                time: 0,
            },
            version: "1.2.3".to_owned(),
            changes: String::new(),
            repository: "https://git.example/cilium-ipam".to_owned(),
            downloads: "https://git.example/files/v1.2.3".to_owned(),
            maintainer: "A <a@example.com>".to_owned(),
            dist: PathBuf::new(),
        }
    }

    fn built() -> [Built; 2] {
        Target::ALL.map(|target| Built {
            target,
            folder: PathBuf::new(),
        })
    }

    fn sums() -> BTreeMap<String, String> {
        built()
            .map(|built| {
                let name = format!("{}.tar.gz", stem(&TOOL, "1.2.3", &built));
                (name, built.target.go().repeat(3))
            })
            .into()
    }

    #[test]
    fn krew_gets_the_archive_of_each_platform_and_finds_the_program_in_it() {
        let (plan, built, sums) = (plan(), built(), sums());
        let archives = built.each_ref();
        let archives = archives.map(|built| Archive::new(&plan, built, &sums).unwrap());
        let manifest = krew(&plan, &archives);
        assert_eq!(manifest["spec"]["version"], "v1.2.3");
        let arm = &manifest["spec"]["platforms"][1];
        assert_eq!(arm["selector"]["matchLabels"]["arch"], "arm64");
        assert_eq!(arm["sha256"], "arm64arm64arm64");
        let stem = "cilium-ipam-1.2.3-aarch64-unknown-linux-musl";
        let url = format!("https://git.example/files/v1.2.3/{stem}.tar.gz");
        assert_eq!(arm["uri"], url);
        assert_eq!(arm["files"][0]["from"], format!("{stem}/cilium-ipam"));
    }

    #[test]
    fn homebrew_gets_the_archive_of_each_platform() {
        let (plan, built, sums) = (plan(), built(), sums());
        let archives = built.each_ref();
        let archives = archives.map(|built| Archive::new(&plan, built, &sums).unwrap());
        let formula = brew(&plan, &archives);
        let intel = formula.split("on_intel do").nth(1).unwrap();
        assert!(
            intel.starts_with("\n      url \"https://git.example/files/v1.2.3/cilium-ipam-1.2.3-x86_64-unknown-linux-musl.tar.gz\"\n      sha256 \"amd64amd64amd64\"\n"),
            "{formula}"
        );
        assert!(
            formula.contains("\"#{bin}/cilium-ipam --version\""),
            "{formula}"
        );
    }

    #[test]
    fn cargo_binstall_finds_the_program_in_the_archive() {
        let manifest = Source::here().read("Cargo.toml").unwrap();
        let value = |key: &str| {
            let key = format!("{key} = \"");
            let line = manifest.lines().find_map(|line| line.strip_prefix(&key));
            let [built, _] = built();
            line.unwrap()
                .trim_end_matches('"')
                .replace("{ name }", "cilium-ipam")
                .replace("{ bin }", "cilium-ipam")
                .replace("{ version }", "1.2.3")
                .replace("{ target }", built.target.triple())
                .replace("{ repo }", &plan().repository)
        };
        let [built, _] = built();
        let stem = stem(&TOOL, "1.2.3", &built);
        assert_eq!(
            value("pkg-url"),
            format!("https://git.example/cilium-ipam/releases/download/v1.2.3/{stem}.tar.gz")
        );
        assert_eq!(value("bin-dir"), format!("{stem}/cilium-ipam"));
    }

    #[test]
    fn a_missing_archive_is_an_error() {
        let error = write(&plan(), &built(), &BTreeMap::new()).unwrap_err();
        assert!(error.to_string().contains("x86_64"), "{error}");
    }
}
