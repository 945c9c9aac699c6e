//! Several faults at once: none hides another, and none causes another.

use super::{cases, check, folder};
use crate::support::pool;

#[test]
fn every_fault_of_every_file_at_once() {
    let folder = folder();
    folder.write(
        "pools/a.yaml",
        pool("a", "{cidrs: [10.20.0.1/16, nonsense], blocksize: 24}"),
    );
    folder.write(
        "pools/deep/b.yaml",
        pool(
            "b",
            "{cidrs: [10.20.0.1/16, nonsense], blockSize: 24, reserved: [x], priority: 1}",
        ),
    );
    folder.write("pools/c.yml", "kind: Pool\n---\nkind: [\n");
    insta::assert_snapshot!(folder.expect("validate", 3).all());
}

/// Also faults in a pool and in its pins: a faulty pool does not make its pins faulty.
#[test]
fn a_fault_of_structure_hides_no_other_and_causes_none() {
    check(&cases("several-faults.yaml"));
}

#[test]
fn ten_thousand_pools_in_one_file() {
    let folder = folder();
    let one = |i: u32| {
        pool(
            &format!("pool-{i}"),
            &format!(
                "{{cidrs: [10.{}.{}.0/24], blockSize: 28, nodeSelector: {{matchLabels: {{rack: r{i}}}}}}}",
                i / 256,
                i % 256
            ),
        )
    };
    folder.write(
        "pools/all.yaml",
        (0..10_000).map(one).collect::<Vec<_>>().join("---\n"),
    );
    assert_eq!(
        folder.expect("validate", 0).stdout,
        "valid: 10,000 pools, 0 pins, 0 warnings\n"
    );
}
