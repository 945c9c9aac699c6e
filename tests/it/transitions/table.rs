//! The table of predictions, with a column for each operator. A run fills or compares the column of
//! its own operator, so the table stays current.

use std::collections::BTreeMap;
use std::fs;

use testbed::CiliumVersion;

use super::super::support::repository;
use super::bench::Step;
use super::scenario::{Scenario, scenarios};

/// The effect depends on whether all pools are created within one second, so no cell predicts it.
const DEPENDS: &str = "depends";
const OF_ONE_SECOND: &str = "pools of one second";

const PAGE: &str = "docs/transitions.md";
const VERSIONS: [CiliumVersion; 6] = [
    CiliumVersion::V1_15,
    CiliumVersion::V1_16,
    CiliumVersion::V1_17,
    CiliumVersion::V1_18,
    CiliumVersion::V1_19,
    CiliumVersion::V1_20,
];
const PANICS: &str = "panics";
const NOT_RUN: &str = "not run";
const HEAD: &str = "\
# Predicted effects of each change on LoadBalancer addresses

For maintainers. [The reference](src/reference/transitions.md) has the summary. Each cell is what `cilium-ipam` predicts
for a scenario, by the version of Cilium's operator. The tests run every scenario on the real operator of the
column, and fail if the operator does anything else.

Before the slash: the effect of the scenario's changes. After it: the effect of later restarts of the operator.

| word | means |
|---|---|
| keeps | Every Service keeps its address. |
| may change | A Service may lose its address or get another one, depending on the order in which Cilium works. |
| changes | A Service gets another address. |
| loses | A Service is left without an address. |
| panics | A bug in this release: its operator panics, once or at each start. Services keep their addresses. |
| depends | Pools created in the same second have no order: a restart may change addresses. Pools created in different seconds keep them. |

`tests/it/transitions/scenarios.txt` describes the scenarios, action by action. To run them, build all operators with
`cargo xtask testbed build --all-operators`, then `cargo test --test it transitions -- --include-ignored`.

Not predicted, because no object in the cluster shows it: after `allowFirstLastIPs` goes from `Yes` to `No` and back,
Cilium 1.15 to 1.19 assigns a first or last address a second time, although a Service has it.

The operator 1.20.2 was built with gobgp 4.5.0, because the version it names cannot be downloaded. LB-IPAM does not
use gobgp.
";

type Cells = BTreeMap<(String, CiliumVersion), String>;

/// Compares the column of this version with the page, or writes it if `INSTA_UPDATE=always`.
pub fn check(version: CiliumVersion, ran: &[Scenario], steps: &BTreeMap<String, Vec<Step>>) {
    let path = repository().join(PAGE);
    let known = fs::read_to_string(&path).unwrap_or_default();
    let mut cells = read(&known);
    for scenario in ran {
        let cell = match scenario.title.starts_with(OF_ONE_SECOND) {
            true => DEPENDS.to_owned(),
            false => cell(&steps[&scenario.id]),
        };
        let cell = match scenario.is_fatal_on(version) {
            true => format!("{cell}, {PANICS}"),
            false => cell,
        };
        cells.insert((scenario.title.clone(), version), cell);
    }
    let page = page(&scenarios(), &cells);
    if std::env::var("INSTA_UPDATE").is_ok_and(|value| value == "always") {
        fs::write(&path, page).unwrap();
    } else {
        let help = "update it with INSTA_UPDATE=always RUST_TEST_THREADS=1";
        compare(&known, &page, help);
    }
}

fn compare(known: &str, page: &str, help: &str) {
    let differences: Vec<String> = page
        .lines()
        .zip(known.lines())
        .filter(|(new, old)| new != old)
        .map(|(new, old)| format!("- {old}\n+ {new}"))
        .collect();
    assert!(known == page, "{PAGE}: {help}\n{}", differences.join("\n"));
}

/// The worst of the changes, and the worst of the restarts.
fn cell(steps: &[Step]) -> String {
    let worst = |is_restart: bool| {
        let rank = |told: &str| {
            ["keeps", "may change", "changes", "loses"]
                .iter()
                .position(|w| *w == told)
        };
        let steps = steps
            .iter()
            .filter(|step| (step.what == "restart") == is_restart);
        steps
            .map(|step| step.told)
            .max_by_key(|told| rank(told))
            .unwrap_or("keeps")
    };
    let (changes, restarts) = (worst(false), worst(true));
    if changes == restarts {
        changes.to_owned()
    } else {
        format!("{changes} / {restarts}")
    }
}

fn read(page: &str) -> Cells {
    let mut cells = Cells::new();
    for line in page.lines().filter(|line| line.starts_with("| ")) {
        let mut columns = line.trim_matches('|').split('|').map(str::trim);
        let title = columns.next().unwrap_or_default().to_owned();
        for (version, cell) in VERSIONS.into_iter().zip(columns) {
            cells.insert((title.clone(), version), cell.to_owned());
        }
    }
    cells
}

fn page(scenarios: &[Scenario], cells: &Cells) -> String {
    let mut page = HEAD.to_owned();
    let mut group = "";
    for scenario in scenarios {
        if scenario.group != group {
            group = &scenario.group;
            let releases: Vec<&str> = VERSIONS.iter().map(|version| version.release()).collect();
            page += &format!(
                "\n## {group}\n\n| scenario | {} |\n|---{}|\n",
                releases.join(" | "),
                "|---".repeat(VERSIONS.len())
            );
        }
        let cell = |version| {
            let known = cells.get(&(scenario.title.clone(), version));
            known.map_or(NOT_RUN, String::as_str)
        };
        let row: Vec<&str> = VERSIONS.into_iter().map(cell).collect();
        page += &format!("| {} | {} |\n", scenario.title, row.join(" | "));
    }
    page
}
