//! How the NIC of a record is found.

use std::slice;

use crate::nic::tests::machine::link;
use crate::nic::tests::{BOOT, attachment};
use crate::nic::*;

#[test]
fn a_hidden_device_is_awaited() {
    let device = link("nic0", 4, Kind::Physical);
    let netns = Netns {
        path: "/run/netns/p".into(),
        device: 4,
        inode: 7,
    };
    let record = |link: &Link| {
        Record::new(
            "net",
            &attachment(),
            BOOT,
            &netns,
            TakenNic::new(link, &[]).unwrap(),
        )
    };
    assert_eq!(
        give_back(&record(&device), &[], Pod::Gone, BOOT),
        Next::Wait
    );
    assert_eq!(
        give_back(&record(&device), &[], Pod::Links(&[]), BOOT),
        Next::Wait,
        "a Pod may hide it"
    );
    assert_eq!(
        give_back(&record(&link("nic0", 4, Kind::Veth)), &[], Pod::Gone, BOOT),
        Next::Forget
    );
}

#[test]
fn a_key_in_the_pod_beats_a_similar_link_on_the_node() {
    let taken = link("nic0", 4, Kind::Veth);
    let netns = Netns {
        path: "/run/netns/p".into(),
        device: 4,
        inode: 7,
    };
    let record = Record::new(
        "net",
        &attachment(),
        BOOT,
        &netns,
        TakenNic::new(&taken, &[]).unwrap(),
    );
    let marked = Link {
        alias: Some(record.mark.as_str().to_owned()),
        ..taken.clone()
    };
    let handed = |node: &[Link], pod: &[Link]| find_moved(&record, node, pod).cloned();
    assert_eq!(
        handed(slice::from_ref(&taken), slice::from_ref(&marked)),
        Some(marked.clone())
    );
    assert_eq!(
        handed(slice::from_ref(&marked), slice::from_ref(&marked)),
        None,
        "no Pod writes on the node"
    );
    assert_eq!(
        handed(slice::from_ref(&taken), slice::from_ref(&taken)),
        None
    );
}

#[test]
fn another_device_at_the_same_address_is_another_one() {
    let device = link("nic0", 4, Kind::Physical);
    let netns = Netns {
        path: "/run/netns/p".into(),
        device: 4,
        inode: 7,
    };
    let record = Record::new(
        "net",
        &attachment(),
        BOOT,
        &netns,
        TakenNic::new(&device, &[]).unwrap(),
    );
    let exchanged = Link {
        permanent: None,
        ..device.clone()
    };
    assert!(find(&record, slice::from_ref(&device)).is_some());
    assert!(
        find(
            &record,
            &[Link {
                name: "nic1".to_owned(),
                index: 9,
                ..exchanged
            }]
        )
        .is_none()
    );
}
