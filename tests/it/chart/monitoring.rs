//! The alerts and the dashboard: metrics that exist, rules that fire.

use std::collections::BTreeSet;
use std::process::Command;

use crate::readme::metrics::{PROGRAMS, registered};
use crate::support::{Folder, repository};

#[test]
fn alerts_and_the_dashboard_name_metrics_that_there_are() {
    // A metric without a value is not printed, so the names are read where they are registered.
    let known: BTreeSet<String> = PROGRAMS
        .iter()
        .flat_map(|program| {
            let names = registered(program).into_iter();
            names.map(|(name, ..)| format!("{}{name}", program.prefix))
        })
        .collect();
    assert!(known.len() > 25, "{known:?}");
    for (file, least) in [
        ("alerts.yaml", 8),
        ("capacity-alerts.yaml", 6),
        ("dashboard.json", 8),
    ] {
        let text = std::fs::read_to_string(repository().join("ci/chart/files").join(file)).unwrap();
        let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let mut named = 0;
        let named_at = PROGRAMS
            .iter()
            .flat_map(|program| text.match_indices(program.prefix));
        for (at, _) in named_at {
            let name: String = text[at..].chars().take_while(|c| is_word(*c)).collect();
            let family = name.trim_end_matches("_bucket");
            assert!(known.contains(family), "{file} names {name}, of {known:?}");
            named += 1;
        }
        assert!(named > least, "{file}");
        // A store that went back in time is rare, and nothing else on the page tells of it.
        let tells = text.contains("cilium_ipam_rollbacks_total");
        assert!(tells || file == "capacity-alerts.yaml", "{file}");
    }
}

#[test]
fn alerts_fire_when_they_should() {
    let promtool = testbed::or_skip!(testbed::debian("prometheus", "promtool"));
    let folder = Folder::new(&[]);
    for (name, path) in [
        ("alerts.yaml", "ci/chart/files/alerts.yaml"),
        (
            "capacity-alerts.yaml",
            "ci/chart/files/capacity-alerts.yaml",
        ),
        ("test.yaml", "tests/it/alerts.yaml"),
        ("capacity-test.yaml", "tests/it/capacity_alerts.yaml"),
    ] {
        folder.write(
            name,
            std::fs::read_to_string(repository().join(path)).unwrap(),
        );
    }
    for arguments in [
        ["check", "rules", "alerts.yaml"],
        ["check", "rules", "capacity-alerts.yaml"],
        ["test", "rules", "test.yaml"],
        ["test", "rules", "capacity-test.yaml"],
    ] {
        let output = Command::new(&promtool)
            .args(arguments)
            .current_dir(folder.path())
            .output()
            .unwrap();
        let (stdout, stderr) = (
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr),
        );
        assert!(output.status.success(), "{stdout}\n{stderr}");
    }
}
