//! `capacity` with a directory of snapshots.

use super::support::{Folder, KUBERNETES, TextAssertions, cluster, holds, node, pool};

fn nodes(count: usize) -> String {
    let nodes = (0..count).map(|index| {
        let block = format!("10.0.{index}.0/24");
        node(&format!("n{index}"), "a", &holds(&block))
    });
    cluster("1.19.3", KUBERNETES, &nodes.collect::<Vec<_>>())
}

#[test]
fn the_trend_of_snapshots_gives_the_time_left() {
    let pool = pool("a", "{cidrs: [10.0.0.0/19], blockSize: 24}");
    let folder = Folder::new(&[
        ("pools/a.yaml", &pool),
        ("snapshots/2026-01-01.json", &nodes(2)),
        ("snapshots/2026-01-11.json", &nodes(4)),
        ("2026-01-21.json", &nodes(6)),
        ("wrong/cluster.json", &nodes(6)),
        ("empty/README", ""),
    ]);
    let run = |since: &str, code: i32| {
        let words = [
            "capacity",
            "--since",
            since,
            "--cluster-file",
            "2026-01-21.json",
            "-o",
            "json",
        ];
        folder.run(&words).expect(code)
    };
    let found = run("snapshots", 0).json();
    assert_eq!(found["rows"][0]["used"], 6);
    assert_eq!(
        found["rows"][0]["days_left"], 130,
        "26 blocks, one in five days"
    );
    assert_eq!(found["rows"][0]["time_left"], "about 130 days");
    run("wrong", 1)
        .stderr
        .assert_has("the name of wrong/cluster.json is not its day");
    run("empty", 1).stderr.assert_has("empty has no snapshot");
}
