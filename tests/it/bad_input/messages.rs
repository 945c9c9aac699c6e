//! The text of messages and the excerpts that they show.

use super::folder;
use crate::support::{Folder, TextAssertions, policy, pool};

#[test]
fn warnings_do_not_stop_a_plan() {
    let folder = folder();
    folder.write(
        "pools/a.yaml",
        pool("a", "{cidrs: [20.0.10.0/24], blockSize: 26}"),
    );
    let ran = folder.expect("plan --cluster cluster.json -o json", 0);
    assert_eq!(ran.json()["findings"][0]["rule"], "foreign-address-space");
    folder.write(
        "pools/policy.yaml",
        policy("{ownAddressSpace: [20.0.0.0/8]}"),
    );
    let ran = folder.expect("plan --cluster cluster.json -o json", 0);
    assert_eq!(ran.json()["findings"].as_array().unwrap().len(), 0);
}

#[test]
fn a_second_place_in_an_endless_line_is_not_drawn() {
    let filler = "x".repeat(200_000);
    let first = pool("a", "{cidrs: [10.20.0.0/16], blockSize: 24}");
    let second = format!(
        "{{apiVersion: cilium-ipam.io/v1alpha1, kind: IPPool, metadata: {{name: b, labels: {{l: \"{filler}\"}}}}, spec: {{cidrs: [10.20.0.0/16], blockSize: 24}}}}\n"
    );
    let folder = Folder::new(&[("pools/a.yaml", &format!("{first}---\n{second}"))]);
    let ran = folder.expect("validate", 3);
    assert!(ran.stderr.len() < 20_000, "{} bytes", ran.stderr.len());
}

#[test]
fn a_faulty_duration_on_the_command_line() {
    let folder = Folder::new(&[]);
    for flag in ["--retry-timeout", "--lock-timeout"] {
        let said = folder.run(&["apply", flag, "5x"]).expect(1).stderr;
        let told = format!(
            "invalid value '5x' for '{flag} <DURATION>': expected a duration, such as `90s`, `5m` or `1h 30m`"
        );
        said.assert_has(&told);
    }
}

#[test]
fn a_diagnostic_is_as_wide_as_the_columns() {
    let folder = super::folder();
    let pool = crate::support::pool("a", super::GOOD);
    let text = format!("{pool}---\napiVersion: v1\nkind: Service\n");
    folder.write("pools/faulty.yaml", text);
    let widest = |columns: Option<&str>| {
        let mut command = crate::support::program(folder.path(), &["validate"]);
        match columns {
            Some(columns) => command.env("COLUMNS", columns),
            None => command.env_remove("COLUMNS"),
        };
        let ran = crate::support::ran(command.output().unwrap()).expect(0);
        let lines = ran.stderr.lines();
        let of_finding =
            lines.filter(|line| !line.starts_with("error") && !line.starts_with("Run"));
        of_finding.map(|line| line.chars().count()).max().unwrap()
    };
    let widths = [widest(Some("60")), widest(None), widest(Some("120"))];
    assert!((41..=60).contains(&widths[0]), "{widths:?}");
    assert!((61..=80).contains(&widths[1]), "{widths:?}");
    assert!((81..=120).contains(&widths[2]), "{widths:?}");
}
