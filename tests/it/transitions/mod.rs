//! Every edit, restart and change of a Service, on every real operator that is there: what we
//! foretell against what happens.

mod bench;
mod scenario;
mod table;
mod told;

use testbed::{CiliumVersion, Program, Programs, Result, find, or_skip};

use bench::{Bench, Health};
use scenario::{Scenario, races, scenarios};
use told::Verdict;

const PLANE: [Program; 2] = [Program::KubeApiserver, Program::Etcd];

fn programs(version: CiliumVersion) -> Result<Programs> {
    let operator = [Program::CiliumOperator(version)];
    if CiliumVersion::ON_DEMAND.contains(&version) {
        find(&operator, &PLANE)
    } else {
        find(&[], &[PLANE.as_slice(), &operator].concat())
    }
}

fn foretold(version: CiliumVersion, programs: Programs) {
    let scenarios = scenarios();
    let (fatal, healthy): (Vec<&Scenario>, Vec<&Scenario>) = scenarios
        .iter()
        .partition(|scenario| scenario.is_fatal_on(version));
    let mut steps = Bench::start(programs.clone(), version, Health::Lives).run(&healthy);
    for scenario in fatal {
        let mut bench = Bench::start(programs.clone(), version, Health::Panics);
        steps.extend(bench.run(&[scenario]));
    }
    let (mut agree, mut chance, mut wrong) = (0, 0, String::new());
    for scenario in &scenarios {
        for step in &steps[&scenario.id] {
            match step.verdict {
                Verdict::Agree => agree += 1,
                Verdict::Chance => chance += 1,
                Verdict::Wrong => {
                    let (id, title) = (&scenario.id, &scenario.title);
                    let (what, told) = (&step.what, step.told);
                    wrong += &format!("{id} {title}, {what} ({told}):{}\n", step.differences);
                }
            }
        }
    }
    let count = scenarios.len();
    println!(
        "transitions on {}: scenarios={count} agree={agree} chance={chance}",
        version.release()
    );
    assert!(wrong.is_empty(), "{}\n{wrong}", version.release());
    table::check(version, &scenarios, &steps);
}

#[test]
fn no_wave_races() {
    let racing: Vec<String> = scenarios()
        .into_iter()
        .filter(|scenario| scenario.parts.iter().flatten().any(races))
        .map(|scenario| scenario.title)
        .collect();
    let way_out = "create Services that request addresses in a wave of their own";
    assert!(racing.is_empty(), "{way_out}: {racing:#?}");
}

#[test]
#[ignore = "slow: up to two minutes each; cargo xtask test --agent runs it"]
fn transitions_on_1_15() {
    foretold(
        CiliumVersion::V1_15,
        or_skip!(programs(CiliumVersion::V1_15)),
    );
}

#[test]
#[ignore = "slow: up to two minutes each; cargo xtask test --agent runs it"]
fn transitions_on_1_16() {
    foretold(
        CiliumVersion::V1_16,
        or_skip!(programs(CiliumVersion::V1_16)),
    );
}

#[test]
#[ignore = "slow: up to two minutes each; cargo xtask test --agent runs it"]
fn transitions_on_1_17() {
    foretold(
        CiliumVersion::V1_17,
        or_skip!(programs(CiliumVersion::V1_17)),
    );
}

#[test]
#[ignore = "slow: up to two minutes each; cargo xtask test --agent runs it"]
fn transitions_on_1_18() {
    foretold(
        CiliumVersion::V1_18,
        or_skip!(programs(CiliumVersion::V1_18)),
    );
}

#[test]
#[ignore = "slow: up to two minutes each; cargo xtask test --agent runs it"]
fn transitions_on_1_19() {
    foretold(
        CiliumVersion::V1_19,
        or_skip!(programs(CiliumVersion::V1_19)),
    );
}

#[test]
#[ignore = "slow: up to two minutes each; cargo xtask test --agent runs it"]
fn transitions_on_1_20() {
    foretold(
        CiliumVersion::V1_20,
        or_skip!(programs(CiliumVersion::V1_20)),
    );
}
