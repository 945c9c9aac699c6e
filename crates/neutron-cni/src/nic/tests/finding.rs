//! By what a NIC is known again.

use std::slice;

use crate::nic::tests::{BOOT, attachment, link};
use crate::nic::*;

#[test]
fn a_device_that_is_nowhere_is_waited_for() {
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
            Taken::new(link, &[]).unwrap(),
        )
    };
    assert_eq!(
        take_back(&record(&device), &[], Pod::Gone, BOOT),
        Next::Wait
    );
    assert_eq!(
        take_back(&record(&device), &[], Pod::Links(&[]), BOOT),
        Next::Wait,
        "a Pod may hide it"
    );
    assert_eq!(
        take_back(&record(&link("nic0", 4, Kind::Veth)), &[], Pod::Gone, BOOT),
        Next::Forget
    );
}

#[test]
fn a_mark_in_the_pod_says_more_than_looks_on_the_node() {
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
        Taken::new(&taken, &[]).unwrap(),
    );
    let marked = Link {
        alias: Some(record.mark.as_str().to_owned()),
        ..taken.clone()
    };
    let handed = |node: &[Link], pod: &[Link]| find_handed(&record, node, pod).cloned();
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
fn a_device_of_another_making_is_another_one() {
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
        Taken::new(&device, &[]).unwrap(),
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
