//! Neutron creates a port after its ADD was killed and its DEL found none.

use super::machine::Fault;
use super::world::World;

#[test]
fn a_port_of_a_killed_add_is_found_in_a_new_state_directory() {
    for seed in 0..40 {
        for steps in 0..18 {
            let mut world = World::new(seed, None);
            world.kill_an_add(steps);
            let settled = world.settle();
            settled.unwrap_or_else(|why| panic!("seed {seed}, {steps} steps: {why}"));
            let records = world.node_state().attachment_records().all();
            assert_eq!(records.len(), world.living.len(), "{records:?}");
        }
    }
}

impl World {
    /// No fault strikes after it.
    fn kill_an_add(&mut self, steps: u32) {
        self.machine.plan(Some((steps, Fault::Kill)));
        self.add().unwrap();
        self.machine.restart();
    }
}

/// A loss of power gives a pooled port back to an interface whose record was kept.
#[test]
fn a_kept_record_shows_that_a_pooled_port_is_free() {
    super::run(2821, None, &mut super::Figures::default()).unwrap();
}
