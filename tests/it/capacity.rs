//! `capacity` with a directory of snapshots, and `simulate` against what `apply` really does.

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

#[test]
fn a_simulation_is_what_an_apply_does() {
    let pools = [
        pool(
            "a",
            "{cidrs: [10.0.0.0/22], blockSize: 24, nodeSelector: {matchLabels: {rack: a}}}",
        ),
        pool(
            "b",
            "{cidrs: [10.1.0.0/23], blockSize: 24, nodeSelector: {matchLabels: {rack: b}}}",
        ),
        pool(
            "rest",
            "{cidrs: [10.2.0.0/23], blockSize: 24, priority: -1}",
        ),
    ];
    for seed in 0..20 {
        let mut random = fastrand::Rng::with_seed(seed);
        let before = random.usize(0..4);
        let [of_a, of_b] = [6, 4].map(|most| random.usize(1..most));
        let held = (0..before).map(|index| {
            let block = format!("10.0.{index}.0/24");
            node(&format!("n{index}"), "a", &holds(&block))
        });
        let held: Vec<String> = held.collect();
        let joined = |rack: &str, count: usize| -> Vec<String> {
            let name = |index: usize| format!("z{rack}{index:02}");
            (0..count)
                .map(|index| node(&name(index), rack, ""))
                .collect()
        };
        let after = [held.clone(), joined("a", of_a), joined("b", of_b)].concat();
        let folder = Folder::new(&[
            ("pools/pools.yaml", &pools.join("---\n")),
            ("before.json", &cluster("1.19.3", KUBERNETES, &held)),
            ("after.json", &cluster("1.19.3", KUBERNETES, &after)),
        ]);
        let [count_a, count_b] = [of_a, of_b].map(|count| count.to_string());
        let words = [
            "simulate",
            "--add",
            &count_a,
            "--label",
            "rack=a",
            "--add",
            &count_b,
            "--label",
            "rack=b",
            "--cluster-file",
            "before.json",
            "-o",
            "json",
        ];
        let simulated = folder.run(&words).json();
        let applied = folder
            .run(&["plan", "--cluster-file", "after.json", "-o", "json"])
            .json();
        for (group, rack) in ["a", "b"].into_iter().enumerate() {
            for pool in ["a", "b", "rest"] {
                let planned = applied["changes"]
                    .as_array()
                    .unwrap()
                    .iter()
                    .filter(|change| {
                        let name = change["name"].as_str().unwrap_or_default();
                        name.starts_with(&format!("z{rack}")) && change["pool"] == pool
                    });
                let given = simulated["groups"][group]["given"].as_array().unwrap();
                let given = given.iter().find(|given| given["name"] == pool);
                let given = given.map_or(0, |given| given["nodes"].as_u64().unwrap());
                assert_eq!(
                    given,
                    planned.count() as u64,
                    "seed {seed}: {rack} of {pool}"
                );
            }
        }
    }
}
