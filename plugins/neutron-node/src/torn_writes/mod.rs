//! The files of the plugin and the daemon under faults: the programs are killed at any step, the
//! machine loses power and unsynced data, the disk is full, files are damaged, or Neutron refuses
//! DELETEs. No port may be lost, and no port may be assigned twice. The seed decides everything.

mod after_boot;
mod checks;
mod disk;
mod late_creation;
mod machine;
mod neutron;
mod world;

use self::machine::Sabotage;
use self::world::World;

/// Events for each seed.
const EVENTS: u32 = 60;

/// What happened in some seeds.
#[derive(Default)]
struct Figures {
    seeds: u64,
    faults: u32,
    /// Faults that are refused DELETEs.
    refused: u32,
    /// Interfaces that got a port of the pool, and a port of their own.
    from_pool: u32,
    own: u32,
}

/// Runs one seed, and adds to the figures. Fails with what went wrong.
fn run(seed: u64, sabotage: Option<Sabotage>, figures: &mut Figures) -> Result<(), String> {
    let mut world = World::new(seed, sabotage);
    for event in 0..EVENTS {
        world
            .event()
            .map_err(|why| format!("seed {seed}, event {event}: {why}"))?;
    }
    world
        .settle()
        .map_err(|why| format!("seed {seed}: {why}"))?;
    world.count(figures);
    Ok(())
}

/// Runs seeds until this number of faults struck.
fn run_faults(least: u32) {
    let mut figures = Figures::default();
    while figures.faults < least {
        let ran = run(figures.seeds, None, &mut figures);
        ran.unwrap_or_else(|why| panic!("{why}"));
    }
    let Figures {
        seeds,
        faults,
        refused,
        from_pool,
        own,
    } = figures;
    println!(
        "torn writes: seeds={seeds} faults={faults} refused={refused} from_pool={from_pool} own={own} lost=0 twice=0"
    );
    let tenth = faults / 10;
    assert!(refused > 0, "Neutron refuses some");
    assert!(from_pool > tenth && own > tenth, "both ways are tried");
}

#[test]
fn no_port_is_lost_or_given_twice() {
    run_faults(2_000);
}

#[test]
#[ignore = "slow: 100,000 faults"]
fn no_port_is_lost_or_given_twice_at_length() {
    run_faults(100_000);
}

#[test]
fn each_broken_rule_is_noticed() {
    for sabotage in [
        Sabotage::UnsyncedFiles,
        Sabotage::UnsyncedFolders,
        Sabotage::UnsyncedState,
        Sabotage::RecordBeforePort,
    ] {
        let mut figures = Figures::default();
        let noticed = (0..400).find_map(|seed| {
            let why = run(seed, Some(sabotage), &mut figures).err()?;
            Some((seed, why))
        });
        let (seed, noticed) = noticed.unwrap_or_else(|| panic!("{sabotage:?} was not noticed"));
        run(seed, None, &mut figures).expect("the rule makes the difference");
        println!("{sabotage:?}: {noticed}");
    }
}
