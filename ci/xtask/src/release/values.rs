//! The chart's page, with a table of its values: made from `values.yaml` and the comments there.

use anyhow::{Context, Result};
use serde_json::Value;

use super::chart::FOLDER;
use super::source::Source;

const HEAD: &str = "# cilium-ipam

The operator of `cilium-ipam`: it gives each node of a Cilium cluster the addresses that your
`IPPool`s say.

```console
helm install cilium-ipam ./ci/chart --namespace kube-system --set image.repository=REGISTRY/cilium-ipam
```

CustomResourceDefinitions are part of the chart, so an upgrade brings them up to date. They stay
after an uninstall, with all pools.

## Values

`cargo xtask release --chart-page` makes this table from `values.yaml`.

| value | default | meaning |
|---|---|---|
";

/// The page's name in the chart.
const PAGE: &str = "README.md";

/// A line of the table.
#[derive(Debug, PartialEq, Eq)]
struct Row {
    path: String,
    /// JSON; empty for a group.
    default: String,
    meaning: String,
}

/// Writes the page into the chart.
pub fn write(source: &Source) -> Result<()> {
    let path = source.root.join(FOLDER).join(PAGE);
    std::fs::write(&path, page(source)?).with_context(|| format!("cannot write {}", path.display()))
}

fn page(source: &Source) -> Result<String> {
    let mut page = HEAD.to_owned();
    for row in rows(&source.read(&format!("{FOLDER}/values.yaml"))?)? {
        let Row {
            path,
            default,
            meaning,
        } = row;
        let default = if default.is_empty() {
            default
        } else {
            format!("`{default}`")
        };
        page += &format!(
            "| `{path}` | {default} | {} |\n",
            meaning.replace('|', "\\|")
        );
    }
    Ok(page)
}

/// The values with the comments above them. A group has a row if it has a comment.
fn rows(yaml: &str) -> Result<Vec<Row>> {
    let values: Value = serde_yaml::from_str(yaml).context("invalid YAML in values.yaml")?;
    let mut rows = Vec::new();
    let mut comment: Vec<&str> = Vec::new();
    let mut parents: Vec<(usize, &str)> = Vec::new();
    for line in yaml.lines() {
        let text = line.trim_start();
        let indent = line.len() - text.len();
        if let Some(more) = text.strip_prefix('#') {
            comment.push(more.trim());
            continue;
        }
        let meaning = std::mem::take(&mut comment).join(" ");
        let Some((key, _)) = text.split_once(':').filter(|_| !text.starts_with('-')) else {
            continue;
        };
        parents.retain(|(outer, _)| *outer < indent);
        parents.push((indent, key));
        let keys: Vec<&str> = parents.iter().map(|(_, key)| *key).collect();
        let default = keys.iter().try_fold(&values, |value, key| value.get(key));
        let default = default.with_context(|| format!("no value of {}", keys.join(".")))?;
        let is_group = default.is_object() && text.ends_with(':');
        if is_group && meaning.is_empty() {
            continue;
        }
        let default = if is_group {
            String::new()
        } else {
            default.to_string()
        };
        rows.push(Row {
            path: keys.join("."),
            default,
            meaning,
        });
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_value_has_its_path_its_default_and_its_comment() {
        let yaml = "# Number.\nreplicas: 2\n\n# Group.\nimage:\n  # Two\n  # lines.\n  tag: \"\"\n  other: {a: 1}\nlist:\n- operator: Exists\nselector:\n  kubernetes.io/os: linux\nlast: [x]\n";
        let expected = [
            ("replicas", "2", "Number."),
            ("image", "", "Group."),
            ("image.tag", "\"\"", "Two lines."),
            ("image.other", "{\"a\":1}", ""),
            ("list", "[{\"operator\":\"Exists\"}]", ""),
            ("selector.kubernetes.io/os", "\"linux\"", ""),
            ("last", "[\"x\"]", ""),
        ]
        .map(|(path, default, meaning)| Row {
            path: path.to_owned(),
            default: default.to_owned(),
            meaning: meaning.to_owned(),
        });
        assert_eq!(rows(yaml).unwrap(), expected);
    }

    #[test]
    fn the_page_is_up_to_date() {
        let source = Source::here();
        let page = page(&source).unwrap();
        let kept = source.read(&format!("{FOLDER}/{PAGE}")).unwrap();
        assert!(
            kept == page,
            "ci/chart/README.md is out of date\nhelp: cargo xtask release --chart-page"
        );
    }
}
