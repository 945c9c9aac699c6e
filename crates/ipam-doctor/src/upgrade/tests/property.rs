//! Properties: the order of objects is irrelevant, a longer way tells what its parts tell first, and
//! a cluster without objects of Services stays silent about them.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::objects::{annotated, config, plain_pool, pool, service};
use super::{observe, told};

const VERSIONS: [&str; 6] = ["1.15.19", "1.16.19", "1.17.6", "1.18.3", "1.19.3", "1.20.2"];

/// A Service of one of two colors, perhaps with an address, a key and a request.
fn any_service() -> impl Strategy<Value = (bool, Option<u8>, bool, bool)> {
    (
        any::<bool>(),
        proptest::option::of(0_u8..12),
        any::<bool>(),
        any::<bool>(),
    )
}

fn objects(
    services: &[(bool, Option<u8>, bool, bool)],
    (is_disabled, is_cidrs, is_open): (bool, bool, bool),
) -> Vec<Value> {
    let field = if is_cidrs { "cidrs" } else { "blocks" };
    let mut blue = pool("blue", "blue", &json!({field: [{"cidr": "20.0.0.0/29"}]}));
    if is_open {
        blue["spec"]["allowFirstLastIPs"] = "Yes".into();
    }
    blue["spec"]["disabled"] = is_disabled.into();
    let mut objects = vec![
        config(&json!({"ipam": "kubernetes"})),
        blue,
        plain_pool("red", "red", "20.0.0.8/30"),
    ];
    for (index, (is_blue, address, is_shared, is_requested)) in services.iter().enumerate() {
        let color = if *is_blue { "blue" } else { "red" };
        let address = address.map(|last| format!("20.0.0.{last}"));
        let addresses: Vec<&str> = address.as_deref().into_iter().collect();
        let mut service = service(&format!("s{index}"), color, &addresses);
        service["spec"]["ports"] = json!([{"port": 80 + index}]);
        if *is_shared {
            service = annotated(service, "io.cilium/lb-ipam-sharing-key", "k");
        }
        if let Some(address) = address.filter(|_| *is_requested) {
            service = annotated(service, "io.cilium/lb-ipam-ips", &address);
        }
        objects.push(service);
    }
    objects
}

proptest! {
    #[test]
    fn the_order_of_objects_is_irrelevant(
        services in proptest::collection::vec(any_service(), 0..8),
        pools in any::<(bool, bool, bool)>(),
        pair in (0_usize..6, 0_usize..6),
    ) {
        let versions = [VERSIONS[pair.0.min(pair.1)], VERSIONS[pair.0.max(pair.1)]];
        let mut objects = objects(&services, pools);
        let first = told(versions, &objects);
        objects.reverse();
        prop_assert_eq!(&first, &told(versions, &objects));
        // A longer way begins as the shorter one.
        let longer = told([versions[0], "1.20.2"], &objects);
        let is_minor = |line: &&String| line.split(' ').next().is_some_and(|hop| hop.matches('.').count() == 1);
        let minors: Vec<&String> = first.iter().filter(is_minor).collect();
        for line in minors {
            prop_assert!(longer.contains(line), "{line} is missing in {longer:#?}");
        }
    }

    #[test]
    fn no_object_no_entry(pair in (0_usize..6, 0_usize..6), is_pool in any::<bool>()) {
        let versions = [VERSIONS[pair.0.min(pair.1)], VERSIONS[pair.0.max(pair.1)]];
        let mut objects = vec![config(&json!({"ipam": "kubernetes"}))];
        if is_pool {
            objects.push(plain_pool("blue", "blue", "20.0.0.0/24"));
        }
        prop_assert!(told(versions, &objects).is_empty());
    }

    /// Addresses that nothing disturbs are never named, and after the last hop none is lost again.
    #[test]
    fn a_named_loss_is_of_a_held_address(
        services in proptest::collection::vec(any_service(), 0..8),
        pools in any::<(bool, bool, bool)>(),
    ) {
        let objects = objects(&services, pools);
        let observed = observe("1.15.19", &objects);
        for line in told(["1.15.19", "1.20.2"], &objects) {
            let Some((head, rest)) = line.split_once(": loses ") else { continue };
            let name = head.rsplit(' ').next().unwrap();
            let address = rest.split([',', ' ']).next().unwrap();
            let held = observed.services.values().any(|service| {
                let has = service.ingress.iter().any(|held| held.to_string() == address);
                service.name.name() == name && has
            });
            prop_assert!(held || rest.starts_with("the address that it got"), "{line}");
        }
    }
}
