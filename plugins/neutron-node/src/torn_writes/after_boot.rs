//! The first sync after a boot, while Neutron refuses and ADDs are running.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime};

use ipam_core::neutron::Id;
use neutron_cni::cni::Attachment;
use neutron_cni::state::Confirmed;
use private_files::{disk, kept};
use serde_json::json;

use super::neutron::{NETWORK, addresses};
use super::world::World;
use crate::network_state::needs_ports;

/// A node with two interfaces that hold pooled ports, and two free ports.
fn world() -> World {
    let ipam = json!({"warmPool": {"free": 2}, "allowedAddressPairs": {"port": NETWORK}});
    let mut world = World::configured(1, None, ipam);
    world.sync().unwrap();
    world.add().unwrap();
    world.add().unwrap();
    world.sync().unwrap();
    let ports = world.node_state().pool().ports().unwrap();
    assert_eq!((ports.held.len(), ports.free.len()), (2, 2));
    world
}

fn attachment(container: &str) -> Attachment {
    Attachment {
        container: container.parse().unwrap(),
        interface: "eth0".parse().unwrap(),
    }
}

/// Files of the pool.
fn files(world: &World, part: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(world.state().join("pool/pods").join(part)).unwrap();
    entries.map(|entry| entry.unwrap().path()).collect()
}

/// The files of `c1`'s record and of a free port are lost, and the file of `c2`'s port is damaged.
/// Returns the ports without a file: of the free port, and of `c2`.
fn crash(world: &mut World) -> [Id; 2] {
    let node_state = world.node_state();
    let before = node_state.pool().ports().unwrap();
    let free = before.free[0].port.id.clone();
    let lost = |path: &PathBuf| path.to_string_lossy().ends_with(&free.to_string());
    let lost = files(world, "free").into_iter().find(lost).unwrap();
    disk::remove(&lost).unwrap();
    node_state.attachment_records().remove(&attachment("c1"));
    let damaged = files(world, "held").into_iter();
    let mut damaged = damaged.filter(|path| path.to_string_lossy().contains("c2@"));
    kept::keep(&damaged.next().unwrap(), &"torn").unwrap();
    world.boot_whole();
    [free, before.held[&attachment("c2")].port.id.clone()]
}

#[test]
fn a_refused_delete_and_a_running_add_hold_up_nothing_else() {
    let mut world = world();
    let [undeletable, lost] = crash(&mut world);
    let node_state = world.node_state();
    world.neutron.ports.borrow_mut().allowed.clear();
    world
        .neutron
        .ports
        .borrow_mut()
        .refuse_deletion(&undeletable);
    let far = Instant::now() + Duration::from_mins(1);
    let running = node_state.locks_for(&node_state.identity(&attachment("another")), far);
    let refused = world.sync().unwrap_err();
    drop(running);
    assert!(refused.message.contains("in use"), "{refused:?}");
    assert_eq!(node_state.pool().confirmed(), Confirmed::ThisBoot);
    let ports = node_state.pool().ports().unwrap();
    assert_eq!(ports.free.len(), 2, "the pool is filled");
    assert!(node_state.attachment_records().has(&attachment("c1")));
    let at_neutron = world.neutron.ports.borrow().all.clone();
    assert!(at_neutron.iter().all(|port| port.id != lost));
    let staying = at_neutron.iter().filter(|port| port.id != undeletable);
    let staying: BTreeSet<String> = staying
        .flat_map(addresses)
        .map(|address| address.to_string())
        .collect();
    let allowed = world.neutron.ports.borrow().allowed.clone();
    let allowed: BTreeSet<String> = allowed.into_iter().map(|pair| pair.ip_address).collect();
    assert_eq!(allowed, staying);
    world.restart_daemon();
    world.settle().unwrap();
}

#[test]
fn a_damaged_file_that_the_same_sync_removes_is_not_reported() {
    let mut world = world();
    crash(&mut world);
    let damaged: BTreeSet<Attachment> = [attachment("c2")].into();
    let unreadable = |world: &World| world.node_state().pool().ports().unwrap().unreadable;
    assert_eq!(unreadable(&world), damaged);
    world.sync().unwrap();
    assert!(unreadable(&world).is_empty() && world.daemon.unreadable.is_empty());
}

#[test]
fn one_undeletable_port_keeps_no_other_one() {
    let mut world = world();
    let [first, second] = crash(&mut world);
    let (first, second) = (first.clone().min(second.clone()), first.max(second));
    world.neutron.ports.borrow_mut().refuse_deletion(&first);
    world.sync().unwrap_err();
    let at_neutron = world.neutron.ports.borrow().all.clone();
    let is_there = |id: &Id| at_neutron.iter().any(|port| port.id == *id);
    assert!(is_there(&first) && !is_there(&second));
    assert_eq!(world.neutron.ports.borrow().refused(), 1);
    world.sync().unwrap_err();
    assert_eq!(world.neutron.ports.borrow().refused(), 1, "counted once");
    world.settle().unwrap();
}

#[test]
fn undeletable_garbage_keeps_no_other_one() {
    let mut world = World::configured(1, None, json!({}));
    world.add().unwrap();
    world.add().unwrap();
    let ids = |world: &World| {
        let ports = world.neutron.ports.borrow();
        let ids: Vec<Id> = ports.all.iter().map(|port| port.id.clone()).collect();
        ids
    };
    let undeletable = ids(&world)[0].clone();
    world.boot_whole();
    world.forget();
    world.forget();
    world.sync().unwrap();
    world.age(Duration::from_mins(11));
    assert_eq!(ids(&world).len(), 2);
    world
        .neutron
        .ports
        .borrow_mut()
        .refuse_deletion(&undeletable);
    world.sync().unwrap_err();
    assert_eq!(ids(&world), [undeletable]);
}

/// Its ADD may be about to use the port.
#[test]
fn an_add_of_the_holder_delays_the_pool_to_the_next_sync() {
    let mut world = world();
    crash(&mut world);
    let node_state = world.node_state();
    let config = world.settings().daemon_config().unwrap();
    let far = Instant::now() + Duration::from_mins(1);
    let running = node_state.locks_for(&node_state.identity(&attachment("c1")), far);
    world.sync_until(Instant::now()).unwrap();
    assert_eq!(node_state.pool().confirmed(), Confirmed::EarlierBoot);
    assert!(!node_state.attachment_records().has(&attachment("c1")));
    drop(running);
    world.sync().unwrap();
    assert_eq!(node_state.pool().confirmed(), Confirmed::ThisBoot);
    assert!(!needs_ports(&node_state, &config).unwrap());
    world.boot_whole();
    assert!(
        needs_ports(&node_state, &config).unwrap(),
        "an unconfirmed pool cannot wait"
    );
    world.settle().unwrap();
}

#[test]
fn a_damaged_name_is_written_again_without_a_pool() {
    let mut world = World::configured(1, None, json!({}));
    world.add().unwrap();
    let node_state = world.node_state();
    fs::write(node_state.node_file(), "\"n").unwrap();
    assert!(node_state.has_unreadable_name());
    world.sync().unwrap();
    assert!(!node_state.has_unreadable_name());
}

#[test]
fn a_pool_that_cannot_be_confirmed_gets_no_ports() {
    let mut world = World::configured(1, None, json!({"warmPool": {"free": 2}}));
    let obstacle = world.state().join("pool/pods/confirmed.json");
    fs::create_dir_all(&obstacle).unwrap();
    // The clock of file systems may be behind.
    let folder = fs::File::open(&obstacle).unwrap();
    folder.set_modified(SystemTime::now()).unwrap();
    let private = std::os::unix::fs::PermissionsExt::from_mode(0o700);
    fs::set_permissions(world.state(), private).unwrap();
    world.sync().unwrap_err();
    assert!(world.neutron.ports.borrow().all.is_empty());
    fs::remove_dir(&obstacle).unwrap();
    world.sync().unwrap();
    assert_eq!(world.neutron.ports.borrow().all.len(), 2);
}
