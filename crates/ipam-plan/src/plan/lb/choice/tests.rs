//! Choices compared with a naive oracle, which tries every address of every pool in turn.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use proptest::prelude::*;
use serde_json::{Value, json};

use crate::plan::{Change, plan};
use ipam_cilium::observed::{Observed, ObservedKind, Reader};
use ipam_core::model::{Origin, ServiceName};
use ipam_desired::{AddressPoolsAsked, ChosenFrom, Desired, PinnedAddress, PinnedTo, ServicePin};

const KEY: &str = "lbipam.cilium.io/ips";
const COLORS: [&str; 2] = ["blue", "red"];

/// A pool of sixteen addresses, 20.0.N.0/28.
#[derive(Clone, Debug)]
struct Supply {
    priority: i32,
    color: Option<usize>,
    reserved: Option<(u8, u8)>,
    disabled: bool,
    keeps_edges: bool,
}

#[derive(Clone, Debug)]
struct Service {
    color: usize,
    /// Pool and number of an address.
    held: Option<(usize, u8)>,
    requested: Option<(usize, u8)>,
    key: Option<u8>,
    port: u16,
    pin: Pin,
}

#[derive(Clone, Debug)]
enum Pin {
    None,
    To(usize, u8),
    Pool(usize),
    Best,
}

type World = (Vec<Supply>, Vec<Service>);

fn world() -> impl Strategy<Value = World> {
    let supply = (
        0..3_i32,
        proptest::option::of(0..2_usize),
        proptest::option::of((0..16_u8, 0..6_u8)),
        proptest::bool::weighted(0.15),
        any::<bool>(),
    );
    let supply = supply.prop_map(
        |(priority, color, reserved, disabled, keeps_edges)| Supply {
            priority,
            color,
            reserved,
            disabled,
            keeps_edges,
        },
    );
    let address = || proptest::option::weighted(0.4, (0..3_usize, 0..8_u8));
    let pin = prop_oneof![
        Just(Pin::None),
        (0..3_usize, 0..8_u8).prop_map(|(pool, number)| Pin::To(pool, number)),
        (0..3_usize).prop_map(Pin::Pool),
        Just(Pin::Best),
        Just(Pin::Best),
    ];
    let service = (
        0..2_usize,
        address(),
        address(),
        proptest::option::weighted(0.3, 0..2_u8),
        80..83_u16,
        pin,
    );
    let service = service.prop_map(|(color, held, requested, key, port, pin)| Service {
        color,
        held,
        requested,
        key,
        port,
        pin,
    });
    (
        proptest::collection::vec(supply, 1..4),
        proptest::collection::vec(service, 1..24),
    )
}

fn ip(pool: usize, number: u8) -> IpAddr {
    format!("20.0.{pool}.{number}").parse().unwrap()
}

fn name(place: usize) -> ServiceName {
    ServiceName::new("shop", &format!("s{place:02}"))
}

fn pool_object(place: usize, supply: &Supply) -> Value {
    let mut annotations = json!({"cilium-ipam.io/priority": supply.priority.to_string()});
    if let Some((first, more)) = supply.reserved {
        let last = (first + more).min(15);
        annotations["cilium-ipam.io/reserved"] =
            format!("20.0.{place}.{first}-20.0.{place}.{last}").into();
    }
    let mut spec = json!({"blocks": [{"cidr": format!("20.0.{place}.0/28")}], "disabled": supply.disabled,
        "allowFirstLastIPs": if supply.keeps_edges { "No" } else { "Yes" }});
    if let Some(color) = supply.color {
        spec["serviceSelector"] = json!({"matchLabels": {"color": COLORS[color]}});
    }
    json!({"apiVersion": "cilium.io/v2", "kind": "CiliumLoadBalancerIPPool", "metadata": {"name": format!("p{place}"),
        "uid": "u", "resourceVersion": "1", "creationTimestamp": "2026-01-01T00:00:00Z",
        "annotations": annotations}, "spec": spec})
}

fn service_object(place: usize, service: &Service) -> Value {
    let mut annotations = json!({});
    if let Some((pool, number)) = service.requested {
        annotations[KEY] = ip(pool, number).to_string().into();
    }
    if let Some(key) = service.key {
        annotations["lbipam.cilium.io/sharing-key"] = key.to_string().into();
    }
    let ingress = service.held.iter();
    let ingress: Vec<Value> = ingress
        .map(|(pool, number)| json!({"ip": ip(*pool, *number)}))
        .collect();
    json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name(place).name(), "namespace": "shop",
        "uid": format!("u{place}"), "resourceVersion": "1", "labels": {"color": COLORS[service.color]}, "annotations": annotations},
        "spec": {"type": "LoadBalancer", "ipFamilies": ["IPv4"], "ports": [{"port": service.port}]},
        "status": {"loadBalancer": {"ingress": ingress}}})
}

fn observed(pools: &[Value], services: &[Value]) -> Observed {
    let mut reader = Reader::default();
    for pool in pools {
        let kind = ObservedKind::LoadBalancerPool;
        reader.object(kind, &pool.to_string()).unwrap();
    }
    for service in services {
        reader
            .object(ObservedKind::Service, &service.to_string())
            .unwrap();
    }
    reader.finish("2026-01-01T00:00:00Z".parse().unwrap())
}

fn desired(services: &[Service]) -> Desired {
    let origin = Origin::whole_file(&"a.yaml".into());
    let to = |pin: &Pin| match pin {
        Pin::None => None,
        Pin::To(pool, number) => Some(PinnedTo::Addresses(vec![PinnedAddress {
            address: ip(*pool, *number),
            origin: origin.clone(),
        }])),
        Pin::Pool(pool) => {
            let name = format!("p{pool}").parse().unwrap();
            Some(PinnedTo::Chosen(ChosenFrom::Pool(name)))
        }
        Pin::Best => Some(PinnedTo::Chosen(ChosenFrom::BestPool)),
    };
    let pins = services.iter().enumerate().filter_map(|(place, service)| {
        let pin = ServicePin {
            service: name(place),
            to: to(&service.pin)?,
            origin: origin.clone(),
        };
        Some((name(place), pin))
    });
    Desired {
        service_pins: pins.collect(),
        address_pools_asked: AddressPoolsAsked::Elsewhere,
        ..Desired::default()
    }
}

/// The address for which each Service with a chosen address asks after the plan; `None` if its pin
/// is blocked.
fn chosen(services: &[Service], desired: &Desired, observed: &Observed) -> Vec<Option<IpAddr>> {
    let plan = plan(desired, observed, Vec::new());
    let mut after: BTreeMap<ServiceName, IpAddr> = BTreeMap::new();
    for change in &plan.changes {
        let Change::Service(change) = change else {
            panic!("{change:?}");
        };
        let value = change.after.as_ref().unwrap();
        after.insert(change.service.clone(), value.parse().unwrap());
    }
    let blocked: BTreeSet<String> = plan
        .blocked
        .iter()
        .map(|blocked| blocked.target.to_string())
        .collect();
    let of = |(place, service): (usize, &Service)| {
        let name = name(place);
        let is_blocked = blocked
            .iter()
            .any(|target| target.ends_with(&name.to_string()));
        let requested = service.requested.map(|(pool, number)| ip(pool, number));
        after
            .get(&name)
            .copied()
            .or(requested.filter(|_| !is_blocked))
    };
    services.iter().enumerate().map(of).collect()
}

struct Oracle<'w> {
    supplies: &'w [Supply],
    services: &'w [Service],
    /// Services that hold, request, are pinned to or are to get an address.
    users: BTreeMap<(usize, u8), BTreeSet<usize>>,
}

impl<'w> Oracle<'w> {
    fn new((supplies, services): &'w World) -> Oracle<'w> {
        let mut users: BTreeMap<(usize, u8), BTreeSet<usize>> = BTreeMap::new();
        for (place, service) in services.iter().enumerate() {
            let pinned = match service.pin {
                Pin::To(pool, number) => Some((pool, number)),
                _ => None,
            };
            for address in [service.held, service.requested, pinned]
                .into_iter()
                .flatten()
            {
                users.entry(address).or_default().insert(place);
            }
        }
        Oracle {
            supplies,
            services,
            users,
        }
    }

    fn gives(&self, place: usize, (pool, number): (usize, u8)) -> bool {
        let service = &self.services[place];
        let is_named = match service.pin {
            Pin::Pool(named) => named == pool,
            _ => true,
        };
        let Some(supply) = self.supplies.get(pool).filter(|_| is_named) else {
            return false;
        };
        let is_reserved = supply
            .reserved
            .is_some_and(|(first, more)| (first..=first + more).contains(&number));
        let is_edge = supply.keeps_edges && (number == 0 || number == 15);
        !supply.disabled
            && supply.color.is_none_or(|color| color == service.color)
            && !is_reserved
            && !is_edge
    }

    fn shares(&self, one: usize, other: usize) -> bool {
        let (a, b) = (&self.services[one], &self.services[other]);
        one == other || (a.key.is_some() && a.key == b.key && a.port != b.port)
    }

    fn fits(&self, place: usize, address: (usize, u8)) -> bool {
        let mut users = self.users.get(&address).into_iter().flatten();
        self.gives(place, address) && users.all(|user| self.shares(*user, place))
    }

    fn kept(&mut self, place: usize) -> Option<(usize, u8)> {
        let service = &self.services[place];
        let mut own = [service.requested, service.held].into_iter().flatten();
        let stays = |address: &(usize, u8)| {
            let mut others = (0..self.services.len()).filter(|other| *other != place);
            service.held == Some(*address)
                && service.requested == Some(*address)
                && self.gives(place, *address)
                && others.all(|other| {
                    self.services[other].held != Some(*address) || self.shares(other, place)
                })
        };
        let kept = own.find(|address| stays(address) || self.fits(place, *address))?;
        self.users.entry(kept).or_default().insert(place);
        Some(kept)
    }

    fn new_address(&mut self, place: usize) -> Option<(usize, u8)> {
        let all: Vec<(usize, u8)> = (0..self.supplies.len())
            .flat_map(|pool| (0..16).map(move |number| (pool, number)))
            .collect();
        let shared = all.iter().find(|address| {
            let users = self.users.get(address).into_iter().flatten();
            let mut users = users.filter(|user| **user != place);
            users.any(|user| self.shares(*user, place)) && self.fits(place, **address)
        });
        let mut order: Vec<usize> = (0..self.supplies.len()).collect();
        order.sort_by_key(|pool| {
            let supply = &self.supplies[*pool];
            (-supply.priority, supply.color.is_none(), *pool)
        });
        let free = order
            .iter()
            .flat_map(|pool| (0..16).map(move |number| (*pool, number)));
        let mut free = free.filter(|address| !self.users.contains_key(address));
        let found = shared
            .copied()
            .or_else(|| free.find(|address| self.gives(place, *address)))?;
        self.users.entry(found).or_default().insert(place);
        Some(found)
    }

    fn choices(mut self) -> Vec<Option<Option<(usize, u8)>>> {
        let is_chosen = |service: &Service| matches!(service.pin, Pin::Pool(_) | Pin::Best);
        let places = 0..self.services.len();
        let kept: Vec<Option<(usize, u8)>> = places
            .clone()
            .map(|place| match is_chosen(&self.services[place]) {
                true => self.kept(place),
                false => None,
            })
            .collect();
        let mut chosen: Vec<Option<Option<(usize, u8)>>> = vec![None; self.services.len()];
        let takes_any = |place: &usize| matches!(self.services[*place].pin, Pin::Best);
        let (last, first): (Vec<usize>, Vec<usize>) = places.partition(takes_any);
        for place in first.into_iter().chain(last) {
            if is_chosen(&self.services[place]) {
                chosen[place] = Some(kept[place].or_else(|| self.new_address(place)));
            }
        }
        chosen
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn the_plan_chooses_as_the_oracle_does(world in world()) {
        let (supplies, services) = &world;
        let pools: Vec<Value> = supplies.iter().enumerate().map(|(place, one)| pool_object(place, one)).collect();
        let objects: Vec<Value> = services.iter().enumerate().map(|(place, one)| service_object(place, one)).collect();
        let desired = desired(services);
        let got = chosen(services, &desired, &observed(&pools, &objects));
        let expected = Oracle::new(&world).choices();
        for (place, expected) in expected.iter().enumerate() {
            if let Some(expected) = expected {
                let expected = expected.map(|(pool, number)| ip(pool, number));
                prop_assert_eq!(got[place], expected, "s{:02}: {:?}", place, world);
            }
        }
        let reversed = |objects: &[Value]| objects.iter().rev().cloned().collect::<Vec<_>>();
        let other_way = observed(&reversed(&pools), &reversed(&objects));
        prop_assert_eq!(chosen(services, &desired, &other_way), got);
    }

    /// After the operator assigns the requested addresses, the next plan has no changes.
    #[test]
    fn a_second_plan_changes_no_choice(world in world()) {
        let (supplies, services) = &world;
        let pools: Vec<Value> = supplies.iter().enumerate().map(|(place, one)| pool_object(place, one)).collect();
        let applied = Applied::new(&pools, services);
        let moved = applied.moved(&applied.desired, &pools);
        prop_assert!(moved.is_empty(), "{:?}: {:?}", moved, world);
    }

    /// A pool over all others, even a better one, moves no address that a Service holds.
    #[test]
    fn a_further_pool_moves_no_held_choice(world in world(), disabled in any::<bool>()) {
        let (supplies, services) = &world;
        let mut pools: Vec<Value> = supplies.iter().enumerate().map(|(place, one)| pool_object(place, one)).collect();
        let applied = Applied::new(&pools, services);
        pools.push(json!({"apiVersion": "cilium.io/v2", "kind": "CiliumLoadBalancerIPPool", "metadata": {"name": "all",
            "uid": "u", "resourceVersion": "1", "creationTimestamp": "2026-02-01T00:00:00Z",
            "annotations": {"cilium-ipam.io/priority": "9"}},
            "spec": {"blocks": [{"cidr": "20.0.0.0/22"}], "disabled": disabled}}));
        let moved = applied.moved(&applied.desired, &pools);
        let held: Vec<&ServiceName> = moved.iter().filter(|name| applied.holds(name)).collect();
        prop_assert!(held.is_empty(), "{:?}: {:?}", held, world);
    }
}

/// A cluster after a plan was applied and the operator assigned the requested addresses.
struct Applied {
    desired: Desired,
    services: Vec<Value>,
    blocked: BTreeSet<String>,
}

impl Applied {
    fn new(pools: &[Value], services: &[Service]) -> Applied {
        let objects = services
            .iter()
            .enumerate()
            .map(|(place, one)| service_object(place, one));
        let mut objects: Vec<Value> = objects.collect();
        let desired = desired(services);
        let plan = plan(&desired, &observed(pools, &objects), Vec::new());
        for change in &plan.changes {
            let Change::Service(change) = change else {
                continue;
            };
            let mut places = 0..services.len();
            let place = places.find(|place| name(*place) == change.service).unwrap();
            let value = change.after.clone().unwrap();
            objects[place]["metadata"]["annotations"][KEY] = value.clone().into();
            objects[place]["status"]["loadBalancer"]["ingress"] = json!([{"ip": value}]);
        }
        let blocked = plan.blocked.iter().map(|one| one.target.to_string());
        Applied {
            blocked: blocked.collect(),
            desired,
            services: objects,
        }
    }

    /// Services with a chosen address that another plan changes, unless the first one was blocked.
    fn moved(&self, desired: &Desired, pools: &[Value]) -> Vec<ServiceName> {
        let plan = plan(desired, &observed(pools, &self.services), Vec::new());
        let is_chosen =
            |name: &ServiceName| matches!(desired.service_pins[name].to, PinnedTo::Chosen(_));
        let moved = plan.changes.iter().filter_map(|change| match change {
            Change::Service(change) => Some(change.service.clone()),
            _ => None,
        });
        let was_blocked = |name: &ServiceName| {
            let mut targets = self.blocked.iter();
            targets.any(|target| target.ends_with(&name.to_string()))
        };
        moved
            .filter(|name| is_chosen(name) && !was_blocked(name))
            .collect()
    }

    /// Whether the Service holds what it asks for.
    fn holds(&self, service: &ServiceName) -> bool {
        let mut objects = self.services.iter();
        let object = objects
            .find(|object| object["metadata"]["name"] == service.name())
            .unwrap();
        let ingress = &object["status"]["loadBalancer"]["ingress"];
        ingress[0]["ip"] == object["metadata"]["annotations"][KEY]
    }
}
