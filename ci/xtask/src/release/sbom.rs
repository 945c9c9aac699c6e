//! The bill of materials of each binary, as CycloneDX 1.6 in JSON: the crates that Cargo links into
//! it, with licences and checksums.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::plan::Plan;
use super::source::Source;
use super::sums::of_file;
use super::target::{Built, Program, programs};

/// Name and version.
type Crate = (String, String);

/// Writes one file for each program of a platform into `dist`.
pub fn write(plan: &Plan, built: &Built) -> Result<()> {
    let known = Known::read(&plan.source, built)?;
    for program in programs() {
        let document = document(plan, built, program, &known)?;
        let name = file_name(program, &plan.version, built);
        plan.write(&name, format!("{document:#}\n").as_bytes())?;
    }
    Ok(())
}

fn file_name(program: &Program, version: &str, built: &Built) -> String {
    format!(
        "{}-{version}-{}.cdx.json",
        program.name,
        built.target.triple()
    )
}

fn document(plan: &Plan, built: &Built, program: &Program, known: &Known) -> Result<Value> {
    let linked = linked(&plan.source, built, program)?;
    let root = linked.iter().find(|(name, _)| name == program.package);
    let root = root.with_context(|| format!("cargo tree does not name {}", program.package))?;
    let components: Result<Vec<Value>> = linked
        .iter()
        .filter(|found| *found != root)
        .map(|found| known.component(found))
        .collect();
    let dependencies: Vec<Value> = linked
        .iter()
        .map(|found| {
            let on: Vec<String> = known
                .edges(found)
                .filter(|on| linked.contains(on))
                .map(package_url)
                .collect();
            json!({"ref": package_url(found), "dependsOn": on})
        })
        .collect();
    Ok(json!({
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "timestamp": plan.time(),
            "component": {
                "type": "application",
                "bom-ref": package_url(root),
                "name": program.name,
                "version": plan.version,
                "purl": package_url(root),
                "licenses": [{"expression": "Apache-2.0"}],
                "hashes": [{"alg": "SHA-256", "content": of_file(&built.binary(program))?}],
                "properties": [{"name": "target", "value": built.target.triple()}],
            },
        },
        "components": components?,
        "dependencies": dependencies,
    }))
}

/// The crates whose code is in the binary.
fn linked(source: &Source, built: &Built, program: &Program) -> Result<BTreeSet<Crate>> {
    let tree = source.cargo_output(&[
        "tree",
        "--locked",
        "--package",
        program.package,
        "--target",
        built.target.triple(),
        "--edges",
        "normal,no-proc-macro",
        "--prefix",
        "none",
        "--format",
        "{p}",
    ])?;
    Ok(tree.lines().filter_map(crate_of_line).collect())
}

/// Reads `name v1.2.3 (path or mark)`.
fn crate_of_line(line: &str) -> Option<Crate> {
    let mut words = line.split(' ');
    let name = words.next()?;
    let version = words.next()?.strip_prefix('v')?;
    Some((name.to_owned(), version.to_owned()))
}

fn package_url((name, version): &Crate) -> String {
    format!("pkg:cargo/{name}@{version}")
}

/// What `cargo metadata` and `Cargo.lock` say about all crates.
struct Known {
    packages: BTreeMap<Crate, Package>,
}

#[derive(Default)]
struct Package {
    license: Option<String>,
    repository: Option<String>,
    checksum: Option<String>,
    depends_on: BTreeSet<Crate>,
}

impl Known {
    fn read(source: &Source, built: &Built) -> Result<Known> {
        let metadata = source.cargo_output(&[
            "metadata",
            "--locked",
            "--format-version",
            "1",
            "--filter-platform",
            built.target.triple(),
        ])?;
        let metadata: Value = serde_json::from_str(&metadata)?;
        let mut ids = BTreeMap::new();
        let mut packages = BTreeMap::new();
        for package in metadata["packages"].as_array().into_iter().flatten() {
            let text = |key: &str| package[key].as_str().map(str::to_owned);
            let name = text("name").context("a package without a name")?;
            let key = (
                name,
                text("version").context("a package without a version")?,
            );
            ids.insert(text("id").unwrap_or_default(), key.clone());
            let read = Package {
                license: text("license"),
                repository: text("repository"),
                ..Package::default()
            };
            packages.insert(key, read);
        }
        for node in metadata["resolve"]["nodes"]
            .as_array()
            .into_iter()
            .flatten()
        {
            let key = |id: &Value| ids.get(id.as_str()?).cloned();
            let on = node["dependencies"].as_array().into_iter().flatten();
            let on = on.filter_map(key).collect();
            if let Some(package) = key(&node["id"]).and_then(|key| packages.get_mut(&key)) {
                package.depends_on = on;
            }
        }
        for (key, checksum) in checksums(&source.read("Cargo.lock")?) {
            if let Some(package) = packages.get_mut(&key) {
                package.checksum = Some(checksum);
            }
        }
        Ok(Known { packages })
    }

    fn edges(&self, from: &Crate) -> impl Iterator<Item = &Crate> {
        let package = self.packages.get(from);
        package.into_iter().flat_map(|package| &package.depends_on)
    }

    fn component(&self, found: &Crate) -> Result<Value> {
        let Package {
            license,
            repository,
            checksum,
            depends_on: _,
        } = self
            .packages
            .get(found)
            .with_context(|| format!("cargo metadata does not name {}", found.0))?;
        let mut component = json!({
            "type": "library",
            "bom-ref": package_url(found),
            "name": found.0,
            "version": found.1,
            "purl": package_url(found),
            "scope": "required",
        });
        if let Some(license) = license {
            // Old crates separate licences by a slash, which is not SPDX.
            let expression = license.replace('/', " OR ");
            component["licenses"] = json!([{"expression": expression}]);
        }
        if let Some(repository) = repository {
            component["externalReferences"] = json!([{"type": "vcs", "url": repository}]);
        }
        if let Some(checksum) = checksum {
            component["hashes"] = json!([{"alg": "SHA-256", "content": checksum}]);
        }
        Ok(component)
    }
}

/// The checksums in `Cargo.lock`. Our own crates have none.
fn checksums(lock: &str) -> BTreeMap<Crate, String> {
    let mut found = BTreeMap::new();
    for package in lock.split("[[package]]").skip(1) {
        let value = |key: &str| {
            let mut lines = package.lines();
            let line = lines.find_map(|line| line.strip_prefix(key)?.strip_prefix(" = "))?;
            Some(line.trim_matches('"').to_owned())
        };
        if let (Some(name), Some(version), Some(checksum)) =
            (value("name"), value("version"), value("checksum"))
        {
            found.insert((name, version), checksum);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_are_those_of_the_lock_file() {
        let lock = "version = 4\n\n[[package]]\nname = \"a\"\nversion = \"1.0.0\"\nsource = \"x\"\nchecksum = \"ff\"\n\n[[package]]\nname = \"ours\"\nversion = \"0.1.0\"\ndependencies = [\n \"a\",\n]\n";
        let expected = (("a".to_owned(), "1.0.0".to_owned()), "ff".to_owned());
        assert_eq!(checksums(lock).into_iter().collect::<Vec<_>>(), [expected]);
    }

    #[test]
    fn a_line_of_the_tree_names_a_crate() {
        let expected = Some(("ipam-core".to_owned(), "0.1.0".to_owned()));
        for line in ["ipam-core v0.1.0 (/somewhere)", "ipam-core v0.1.0 (*)"] {
            assert_eq!(crate_of_line(line), expected);
        }
        assert_eq!(crate_of_line(""), None);
    }
}
