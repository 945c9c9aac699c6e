//! The CNI commands against a simulated Neutron whose answers get lost.

mod simulated;

use std::collections::BTreeSet;

use self::simulated::{NETWORKS, Role, Simulated};
use crate::cni::{Arguments, Attachment, ErrorCode};
use crate::commands::*;
use crate::identity::RunId;
use crate::settings::{AttachmentRequest, Settings};

fn request(networks: &[&str]) -> AttachmentRequest {
    let openstack = serde_json::json!({"username": "u", "password": "p", "project": "k", "domain": "d", "authUrl": "http://k"});
    let ipam = serde_json::json!({"openstackConf": openstack, "networks": networks});
    let written = serde_json::json!({"cniVersion": "1.1.0", "name": "net", "ipam": ipam});
    Settings::read(written.to_string().as_bytes())
        .unwrap()
        .request(&Arguments::default())
        .unwrap()
}

fn attachment(container: &str) -> Attachment {
    Attachment {
        container: container.parse().unwrap(),
        interface: "eth0".parse().unwrap(),
    }
}

fn identity(container: &str) -> Identity {
    Identity::new("node", "net", &attachment(container))
}

fn add_once(
    neutron: &Simulated,
    networks: &[&str],
    container: &str,
    run: u64,
) -> Result<BTreeSet<String>, NotAdded> {
    neutron.waits.set(5);
    let added = add(
        neutron,
        neutron,
        &request(networks),
        &identity(container),
        &RunId::new(run, None),
    )?;
    Ok(added
        .outcome
        .addresses
        .iter()
        .map(|one| one.address.addr().to_string())
        .collect())
}

fn of_container(neutron: &Simulated, container: &str) -> Vec<Port> {
    neutron
        .ports_now()
        .into_iter()
        .filter(|port| identity(container).is_of(port))
        .collect()
}

#[test]
fn repeated_adds_create_one_port() {
    for role in [Role::ChoosesMacs, Role::MayNotChooseMacs] {
        let neutron = Simulated::new(role, [10, 10], 0, 0);
        let first = add_once(&neutron, &NETWORKS, "c", 1).unwrap();
        assert_eq!(add_once(&neutron, &NETWORKS, "c", 2).unwrap(), first);
        assert_eq!(neutron.ports_now().len(), 1);
        assert_ne!(
            add_once(&neutron, &NETWORKS, "C", 3).unwrap(),
            first,
            "another letter is another container"
        );
        assert_eq!(neutron.ports_now().len(), 2);
        delete(&neutron, &identity("c")).unwrap();
        delete(&neutron, &identity("c")).unwrap();
        assert_eq!(of_container(&neutron, "C").len(), 1);
        assert_eq!(neutron.ports_now().len(), 1, "and only its own is freed");
    }
}

#[test]
fn the_next_network_is_tried_when_one_is_full_and_a_second_add_stays_there() {
    let neutron = Simulated::new(Role::ChoosesMacs, [1, 1], 0, 0);
    add_once(&neutron, &NETWORKS, "a", 1).unwrap();
    let on_second = add_once(&neutron, &NETWORKS, "b", 2).unwrap();
    assert_eq!(on_second, BTreeSet::from(["10.1.0.2".to_owned()]));
    let full = add_once(&neutron, &NETWORKS, "c", 3).unwrap_err();
    assert_eq!(
        (full.error.code, full.leftover),
        (ErrorCode::TryAgainLater, Leftover::None)
    );
    delete(&neutron, &identity("a")).unwrap();
    assert_eq!(add_once(&neutron, &NETWORKS, "b", 4).unwrap(), on_second);
    assert_eq!(neutron.ports_now().len(), 1);
}

#[test]
fn a_hardware_address_in_use_is_not_taken() {
    let neutron = Simulated::new(Role::ChoosesMacs, [10, 10], 0, 0);
    let foreign = identity("c").mac(0);
    let port = Port {
        device_id: "router".to_owned(),
        ..router_port(NETWORKS[0])
    };
    neutron.keep((port, Some(foreign))).unwrap();
    let given = add_once(&neutron, &NETWORKS[..1], "c", 1).unwrap();
    assert_eq!(add_once(&neutron, &NETWORKS[..1], "c", 2).unwrap(), given);
    assert_eq!(
        (neutron.ports_now().len(), of_container(&neutron, "c").len()),
        (2, 1)
    );
    delete(&neutron, &identity("c")).unwrap();
    assert_eq!(neutron.ports_now().len(), 1);
}

fn router_port(network: &str) -> Port {
    Port {
        id: "10000000-0000-4000-8000-000000000000".parse().unwrap(),
        network_id: network.parse().unwrap(),
        project_id: String::new(),
        device_id: String::new(),
        device_owner: "network:router_interface".to_owned(),
        name: String::new(),
        description: String::new(),
        mac_address: String::new(),
        fixed_ips: Vec::new(),
        created_at: String::new(),
    }
}

#[test]
fn garbage_is_a_port_without_an_attachment() {
    let neutron = Simulated::new(Role::ChoosesMacs, [10, 10], 0, 0);
    for (run, container) in ["a", "b", "c"].into_iter().enumerate() {
        add_once(&neutron, &NETWORKS, container, run as u64).unwrap();
    }
    let name = Identity::name_of("node", "net");
    let valid = BTreeSet::from([attachment("b")]);
    assert_eq!(
        collect_garbage(&neutron, &Identity::name_of("NODE", "net"), &valid).unwrap(),
        Collected::default()
    );
    assert_eq!(
        collect_garbage(&neutron, &name, &valid)
            .unwrap()
            .removed
            .len(),
        2
    );
    assert_eq!(of_container(&neutron, "b").len(), 1);
}

#[test]
fn lost_answers_leave_one_port_or_none() {
    let (mut succeeded, mut told) = (0, 0);
    for seed in 0..6_000 {
        let role = if seed % 2 == 0 {
            Role::ChoosesMacs
        } else {
            Role::MayNotChooseMacs
        };
        let networks = if seed % 3 == 0 {
            &NETWORKS[..1]
        } else {
            &NETWORKS[..]
        };
        let neutron = Simulated::new(role, [2, 3], seed, 25);
        let context =
            |what: &str| format!("seed {seed} {role:?}: {what}: {:?}", neutron.ports_now());
        let mut given = None;
        for run in 0..3 {
            match add_once(&neutron, networks, "c", run) {
                Ok(addresses) => {
                    let again = given.get_or_insert_with(|| addresses.clone());
                    assert_eq!(
                        *again,
                        addresses,
                        "{}",
                        context("the same address each time")
                    );
                    succeeded += 1;
                    assert!(
                        !of_container(&neutron, "c").is_empty(),
                        "{}",
                        context("it has its port")
                    );
                }
                Err(not) => {
                    let mine = of_container(&neutron, "c");
                    let description = RunId::new(run, None).to_string();
                    let of_run = |port: &Port| port.description == description;
                    let left = mine.iter().filter(|port| of_run(port)).count();
                    let late = neutron
                        .late
                        .borrow()
                        .iter()
                        .filter(|(_, (port, _))| of_run(port))
                        .count();
                    let is_told = not.leftover == Leftover::Possible;
                    told += usize::from(is_told);
                    assert!(
                        is_told || left + late == 0,
                        "{}",
                        context("a failed run leaves nothing, or reports it")
                    );
                    if given.is_some() {
                        assert!(
                            !mine.is_empty(),
                            "{}",
                            context("a failed run keeps the port of an earlier one")
                        );
                    }
                }
            }
            if role == Role::ChoosesMacs && networks.len() == 1 {
                assert!(
                    of_container(&neutron, "c").len() <= 1,
                    "{}",
                    context("hardware addresses collide")
                );
            }
        }
        // Late creations arrive. Repeated DELs leave nothing.
        for _ in 0..6 {
            neutron.waits.set(1_000);
            let _ = delete(&neutron, &identity("c"));
        }
        assert_eq!(neutron.ports_now(), [], "seed {seed}");
    }
    assert!(succeeded > 10_000 && told > 20, "{succeeded} {told}");
}
