//! What a pool needs, by its files and by the ports at Neutron.

use crate::cni::{Arguments, Attachment};
use crate::settings::Settings;
use crate::warm_pool::*;
use ipam_core::neutron::PortAddress as Address;

const NETWORK: &str = "782ec9ac-44f9-4318-8c67-a2fed2ccca4f";
const NODE: PoolNode<'static> = PoolNode {
    port_name: NAME,
    machine: None,
};
const NAME: &str = "n1/pods";
const SIZE: PoolSize = PoolSize { free: 2, most: 3 };

fn request(networks: &[&str]) -> AttachmentRequest {
    let ipam = serde_json::json!({"networks": networks});
    let written = serde_json::json!({"cniVersion": "1.1.0", "name": "pods", "ipam": ipam});
    Settings::read(written.to_string().as_bytes())
        .unwrap()
        .request(&Arguments::default())
        .unwrap()
}

fn pooled(number: u32) -> PooledPort {
    let id: Id = format!("00000000-0000-4000-8000-{number:012x}")
        .parse()
        .unwrap();
    let network: Id = NETWORK.parse().unwrap();
    let address = Address {
        subnet_id: network.clone(),
        ip_address: std::net::Ipv4Addr::from(number).into(),
    };
    let port = Port {
        id,
        network_id: network,
        project_id: String::new(),
        device_id: Identity::in_pool(NAME, number.into()).device,
        device_owner: Owner::Pool.as_str().to_owned(),
        mac_address: String::new(),
        name: NAME.to_owned(),
        description: String::new(),
        fixed_ips: vec![address],
        created_at: String::new(),
    };
    PooledPort {
        port,
        made_for: MadeFor::of(&request(&[NETWORK])),
    }
}

fn attachment(container: &str) -> Attachment {
    Attachment {
        container: container.parse().unwrap(),
        interface: "eth0".parse().unwrap(),
    }
}

fn ids(numbers: &[u32]) -> std::collections::BTreeSet<Id> {
    numbers
        .iter()
        .map(|number| pooled(*number).port.id)
        .collect()
}

fn at_neutron(numbers: &[u32]) -> Vec<Port> {
    numbers.iter().map(|number| pooled(*number).port).collect()
}

fn of_node(free: &[u32], held: &[u32]) -> PoolPorts {
    let free = free.iter().map(|number| pooled(*number)).collect();
    let held = held
        .iter()
        .map(|number| (attachment(&format!("c{number}")), pooled(*number)))
        .collect();
    PoolPorts {
        free,
        held,
        ..PoolPorts::default()
    }
}

#[test]
fn it_is_filled_and_surplus_ports_are_deleted_in_the_order_of_use() {
    let needs = |free: &[u32]| {
        upkeep(
            &of_node(free, &[9]),
            &at_neutron(&[1, 2, 3, 4, 5, 9]),
            &NODE,
            &request(&[NETWORK]),
            Some(SIZE),
        )
    };
    assert_eq!(needs(&[]).make, 2);
    assert_eq!(
        (
            needs(&[1]).make,
            needs(&[1, 2]).make,
            needs(&[1, 2, 3]).give_back
        ),
        (1, 0, ids(&[]))
    );
    assert_eq!(
        needs(&[5, 4, 3, 2, 1]).give_back,
        ids(&[1, 2]),
        "the first are taken first"
    );
    let off = upkeep(
        &of_node(&[1], &[9]),
        &at_neutron(&[1, 9]),
        &NODE,
        &request(&[NETWORK]),
        None,
    );
    assert_eq!(
        (off.give_back, off.make, off.lost.len()),
        (ids(&[1]), 0, 0),
        "a held port stays"
    );
}

#[test]
fn ports_deleted_at_neutron_and_unknown_ports_are_reported() {
    let upkeep = upkeep(
        &of_node(&[1, 2], &[3, 4]),
        &at_neutron(&[2, 4, 7]),
        &NODE,
        &request(&[NETWORK]),
        Some(SIZE),
    );
    assert_eq!((upkeep.forget, upkeep.make), (ids(&[1]), 1));
    assert_eq!(
        upkeep.lost.into_keys().collect::<Vec<_>>(),
        [attachment("c3")]
    );
    assert_eq!(upkeep.unknown, at_neutron(&[7]));
}

#[test]
fn ports_of_others_are_not_of_the_pool() {
    let mut others = at_neutron(&[1, 2]);
    others[0].name = "N1/pods".to_owned();
    others[1].device_owner = Owner::Pod.as_str().to_owned();
    let upkeep = upkeep(
        &of_node(&[], &[]),
        &others,
        &NODE,
        &request(&[NETWORK]),
        Some(SIZE),
    );
    assert_eq!(upkeep.unknown, []);
}

#[test]
fn another_configuration_needs_other_ports() {
    let other = "882ec9ac-44f9-4318-8c67-a2fed2ccca4f";
    let upkeep = upkeep(
        &of_node(&[1, 2], &[]),
        &at_neutron(&[1, 2]),
        &NODE,
        &request(&[NETWORK, other]),
        Some(SIZE),
    );
    assert_eq!((upkeep.give_back, upkeep.make), (ids(&[1, 2]), 2));
    let mut asking = request(&[NETWORK]);
    asking.addresses = vec!["10.0.0.7".parse().unwrap()];
    assert!(pooled(1).fits(&request(&[NETWORK]), &NODE) && !pooled(1).fits(&asking, &NODE));
    let other_node = PoolNode {
        port_name: "n2/pods",
        ..NODE
    };
    assert!(!pooled(1).fits(&request(&[NETWORK]), &other_node));
}

#[test]
fn a_port_of_another_server_with_the_same_disk_is_given_back() {
    let [old, new]: [Id; 2] = ["9d01b1c6", "11111111"].map(|first| {
        format!("{first}-4a0f-4d4b-8a3c-1f4f5a6b7c8d")
            .parse()
            .unwrap()
    });
    let needs = |machine: Option<&Id>| {
        let mut ports = of_node(&[1, 2], &[]);
        ports.free[0].port.description = RunId::new(1, Some(&old)).to_string();
        let node = PoolNode { machine, ..NODE };
        let request = request(&[NETWORK]);
        upkeep(&ports, &at_neutron(&[1, 2]), &node, &request, Some(SIZE)).give_back
    };
    assert_eq!(needs(Some(&old)), ids(&[]));
    assert_eq!(needs(Some(&new)), ids(&[1]));
    assert_eq!(needs(None), ids(&[]), "an unknown machine is no other one");
}

#[test]
fn a_port_whose_address_was_changed_is_given_back_or_told() {
    let mut changed = at_neutron(&[1, 2]);
    for port in &mut changed {
        port.fixed_ips[0].ip_address = "192.0.2.9".parse().unwrap();
    }
    let upkeep = upkeep(
        &of_node(&[1], &[2]),
        &changed,
        &NODE,
        &request(&[NETWORK]),
        Some(SIZE),
    );
    assert_eq!(
        (upkeep.give_back, upkeep.forget, upkeep.make),
        (ids(&[1]), ids(&[]), 2)
    );
    assert_eq!(
        upkeep.lost.into_keys().collect::<Vec<_>>(),
        [attachment("c2")]
    );
}

#[test]
fn ports_of_an_earlier_name_of_the_node_are_given_back_and_never_forgotten() {
    let upkeep = upkeep(
        &of_node(&[1], &[2]),
        &[],
        &PoolNode {
            port_name: "n2/pods",
            ..NODE
        },
        &request(&[NETWORK]),
        Some(SIZE),
    );
    assert_eq!(
        (upkeep.give_back, upkeep.forget, upkeep.lost.len()),
        (ids(&[1]), ids(&[]), 0)
    );
}
