//! The text of messages and the excerpts that they show.

use super::faults::cases;
use super::folder;
use crate::support::{Folder, TextAssertions, policy, pool};

#[test]
fn messages_are_in_our_words() {
    for (what, text, _, _) in cases() {
        let folder = folder();
        folder.write("pools/faulty.yaml", &text);
        let report = folder.run(&["validate", "-o", "json"]).expect(3).json();
        for finding in report["findings"].as_array().unwrap() {
            let message = finding["message"].as_str().unwrap();
            for leak in [
                "Options",
                "Policy in",
                "from_",
                "budget",
                "invalid type",
                "i32",
                "u64",
                " line ",
                "column",
            ] {
                assert!(!message.contains(leak), "{what}: {message}");
            }
        }
    }
}

#[test]
fn warnings_do_not_stop_a_plan() {
    let folder = folder();
    folder.write(
        "pools/a.yaml",
        pool("a", "{cidrs: [20.0.10.0/24], blockSize: 26}"),
    );
    let ran = folder
        .run(&["plan", "--cluster", "cluster.json", "-o", "json"])
        .expect(0);
    assert_eq!(ran.json()["findings"][0]["rule"], "foreign-address-space");
    folder.write(
        "pools/policy.yaml",
        policy("{ownAddressSpace: [20.0.0.0/8]}"),
    );
    let ran = folder
        .run(&["plan", "--cluster", "cluster.json", "-o", "json"])
        .expect(0);
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
    let ran = folder.run(&["validate"]).expect(3);
    assert!(ran.stderr.len() < 20_000, "{} bytes", ran.stderr.len());
}

#[test]
fn a_message_says_what_was_found_and_helps_with_this_field() {
    let window = |window: &str| policy(&format!("{{migration: {{windows: [{window}]}}}}"));
    let selector = "{matchExpressions: [{key: a, operator: }]}";
    for (file, message, help) in [
        (
            policy("{quarantine: 10}"),
            "`spec.quarantine` is the number 10, expected a duration such as `10m`",
            "write a duration such as `10m`",
        ),
        (
            policy("{quarantine: soon}"),
            "`spec.quarantine` is `soon`, expected a duration such as `10m`",
            "write a number and a unit, such as `90s`, `10m` or `1h 30m`",
        ),
        (
            window("{schedule: 0 22 * *, duration: 4h}"),
            "`spec.migration.windows[0].schedule` is `0 22 * *`, which is not a cron schedule: Pattern must have between 5 and 7 fields.",
            "write minute, hour, day of the month, month and day of the week, such as `0 22 * * 1-5`",
        ),
        (
            window("{schedule: 0 22 31 2 *, duration: 4h}"),
            "`spec.migration.windows[0].schedule` is `0 22 31 2 *`, which never occurs",
            "write a day that exists, such as `0 22 28 2 *`",
        ),
        (
            window("{schedule: 0 22 * * 1-5, duration: long}"),
            "`spec.migration.windows[0].duration` is `long`, expected a duration such as `4h`",
            "write a number and a unit, such as `30m`, `4h` or `1h 30m`",
        ),
        (
            window("{schedule: 0 22 * * 1-5, duration: 0s}"),
            "`spec.migration.windows[0].duration` is `0s`, too short for a write",
            "write a duration of at least `1m`, such as `4h`",
        ),
        (
            window("{schedule: 0 22 * * 1-5, duration: 4}"),
            "`spec.migration.windows[0].duration` is the number 4, expected a duration such as `10m`",
            "write a duration such as `10m`",
        ),
        (
            window("{schedule: 0 22 * * 1-5, duration: 4h, timeZone: Berlin}"),
            "`spec.migration.windows[0].timeZone` is `Berlin`, which is not an IANA time zone",
            "did you mean `Europe/Berlin`?",
        ),
        (
            window("{schedule: 0 22 * * 1-5, duration: 4h, timeZone: Europe/Berln}"),
            "`spec.migration.windows[0].timeZone` is `Europe/Berln`, which is not an IANA time zone",
            "did you mean `Europe/Berlin`?",
        ),
        (
            policy("{migration: {windows: []}}"),
            "`spec.migration.windows` is empty",
            "list at least one",
        ),
        (
            pool("a", "{cidrs: 10.0.0.0/16, blockSize: 24}"),
            "`spec.cidrs` is the text `10.0.0.0/16`, expected a list",
            "write `[10.0.0.0/16]`",
        ),
        (
            pool(
                "a",
                &format!("{{cidrs: [10.0.0.0/16], blockSize: 24, nodeSelector: {selector}}}"),
            ),
            "`spec.nodeSelector.matchExpressions[0].operator` is empty, expected text",
            "known here: `In`, `NotIn`, `Exists`, `DoesNotExist`",
        ),
        (
            pool(
                "a",
                "{cidrs: [\"fd00::/48\"], blockSize: {ipv6: 64}, reserved: [\"::/0\"]}",
            ),
            "`::/0` is the whole address space",
            "name a part of it; to give no blocks at all, set `disabled: true` on the pool",
        ),
    ] {
        let folder = Folder::new(&[("pools/a.yaml", &file)]);
        let report = folder.run(&["validate", "-o", "json"]).expect(3).json();
        let [finding] = &report["findings"].as_array().unwrap()[..] else {
            panic!("{report:#}")
        };
        assert_eq!(
            (finding["message"].as_str(), finding["help"].as_str()),
            (Some(message), Some(help)),
            "{file}"
        );
    }
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
