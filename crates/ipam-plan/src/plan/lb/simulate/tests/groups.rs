//! Simulations of groups that do not affect each other, compared with one of all pools and Services
//! in one group.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::plan::ServiceChange;
use ipam_cilium::observed::SeenAddressPool;
use ipam_core::net::Family;

/// Of those, 1.20.1 panics at some requests.
const VERSIONS: [&str; 8] = [
    "1.15.19", "1.16.19", "1.17.6", "1.18.3", "1.19.3", "1.20.1", "1.20.1", "1.20.3",
];
const COLORS: [&str; HOMES] = ["blue", "green", "red", "white"];
const HOMES: usize = 4;
const MOST_SERVICES: usize = 12;
const KEY: &str = "lbipam.cilium.io/ips";

/// Part of 20.0.N.0/28, or of fd00:N::/124.
type Part = (Family, usize, u8, u8);
/// An address of it.
type Place = (Family, usize, u8);

#[derive(Clone, Debug)]
struct PoolSpec {
    color: Option<usize>,
    parts: Vec<Part>,
    created: u8,
    disabled: bool,
    edges: Option<bool>,
}

#[derive(Clone, Debug)]
struct ServiceSpec {
    color: usize,
    held: Vec<Place>,
    requested: Option<Place>,
    families: usize,
    key: Option<usize>,
    port: u16,
}

#[derive(Clone, Debug)]
enum Step {
    Pool(usize, Option<PoolSpec>),
    Pin(usize, Option<Place>),
}

#[derive(Clone, Debug)]
struct World {
    version: &'static str,
    pools: Vec<Option<PoolSpec>>,
    services: Vec<ServiceSpec>,
    steps: Vec<Step>,
}

fn family() -> impl Strategy<Value = Family> {
    prop_oneof![4 => Just(Family::Ipv4), 1 => Just(Family::Ipv6)]
}

/// Usually `home`: pools, colors and networks of one number belong together.
fn near(home: usize) -> impl Strategy<Value = usize> {
    prop_oneof![12 => Just(home), 1 => 0..HOMES]
}

fn part(home: usize) -> impl Strategy<Value = Part> {
    (family(), near(home), 0..16_u8, 0..8_u8)
}

fn place(home: usize) -> impl Strategy<Value = Place> {
    (family(), near(home), 0..16_u8)
}

fn pool_spec(home: usize) -> impl Strategy<Value = PoolSpec> {
    let parts = proptest::collection::vec(part(home), 1..3);
    (
        proptest::option::weighted(0.97, near(home)),
        parts,
        0..3_u8,
        proptest::bool::weighted(0.1),
        proptest::option::of(any::<bool>()),
    )
        .prop_map(|(color, parts, created, disabled, edges)| PoolSpec {
            color,
            parts,
            created,
            disabled,
            edges,
        })
}

fn service_spec() -> impl Strategy<Value = ServiceSpec> {
    let of_home = |home: usize| {
        (
            proptest::collection::vec(place(home), 0..3),
            proptest::option::weighted(0.3, place(home)),
            0..3_usize,
            proptest::option::weighted(0.35, near(home)),
            80..82_u16,
        )
            .prop_map(move |(held, requested, families, key, port)| ServiceSpec {
                color: home,
                held,
                requested,
                families,
                key,
                port,
            })
    };
    (0..HOMES).prop_flat_map(of_home)
}

fn step() -> impl Strategy<Value = Step> {
    let of_home = |home: usize| {
        prop_oneof![
            4 => proptest::option::weighted(0.8, pool_spec(home))
                .prop_map(move |spec| Step::Pool(home, spec)),
            1 => (0..MOST_SERVICES, proptest::option::weighted(0.8, place(home)))
                .prop_map(|(service, place)| Step::Pin(service, place)),
        ]
    };
    (0..HOMES).prop_flat_map(of_home)
}

fn world() -> impl Strategy<Value = World> {
    let pools = prop_oneof![Just(0.2), Just(0.9)].prop_flat_map(|often| {
        let of_home = |home| proptest::option::weighted(often, pool_spec(home));
        (0..HOMES).map(of_home).collect::<Vec<_>>()
    });
    (
        proptest::sample::select(&VERSIONS),
        pools,
        proptest::collection::vec(service_spec(), 1..=MOST_SERVICES),
        proptest::collection::vec(step(), 1..7),
    )
        .prop_map(|(version, pools, services, steps)| World {
            version,
            pools,
            services,
            steps,
        })
}

fn address((family, net, last): Place) -> String {
    match family {
        Family::Ipv4 => format!("20.0.{net}.{last}"),
        Family::Ipv6 => format!("fd00:{net}::{last:x}"),
    }
}

fn pool_name(pool: usize) -> String {
    format!("pool-{pool}")
}

fn service_name(service: usize) -> String {
    format!("service-{service}")
}

fn pool_value(pool: usize, spec: &PoolSpec) -> Value {
    let block = |(family, net, first, more): &Part| {
        let to = |last| address((*family, *net, last));
        let quarter = match family {
            Family::Ipv4 => 30,
            Family::Ipv6 => 126,
        };
        // Of a CIDR, an operator may keep the edges.
        match *more {
            0..2 => json!({"cidr": format!("{}/{quarter}", to(first & !3))}),
            more => json!({"start": to(*first), "stop": to(first.saturating_add(more).min(15))}),
        }
    };
    let selector = spec
        .color
        .map(|color| json!({"matchLabels": {"color": COLORS[color]}}));
    let edges = spec.edges.map(|allowed| if allowed { "Yes" } else { "No" });
    json!({
        "metadata": {"name": pool_name(pool),
            "creationTimestamp": format!("2026-01-01T00:00:0{}Z", spec.created)},
        "spec": {"blocks": spec.parts.iter().map(block).collect::<Vec<_>>(),
            "serviceSelector": selector, "disabled": spec.disabled, "allowFirstLastIPs": edges},
    })
}

fn service_value(index: usize, spec: &ServiceSpec) -> Value {
    let ingress: Vec<Value> = spec
        .held
        .iter()
        .map(|at| json!({"ip": address(*at)}))
        .collect();
    let (families, policy) = [
        (json!(["IPv4"]), "SingleStack"),
        (json!(["IPv6"]), "SingleStack"),
        (json!(["IPv4", "IPv6"]), "PreferDualStack"),
    ][spec.families]
        .clone();
    let key = spec.key.map(|key| format!("key-{key}"));
    json!({
        "metadata": {"namespace": "shop", "name": service_name(index),
            "labels": {"color": COLORS[spec.color]},
            "annotations": {KEY: spec.requested.map(address), "lbipam.cilium.io/sharing-key": key}},
        "spec": {"type": "LoadBalancer", "ipFamilies": families, "ipFamilyPolicy": policy,
            "ports": [{"port": spec.port}]},
        "status": {"loadBalancer": {"ingress": ingress}},
    })
}

fn without_nulls(mut object: Value) -> Value {
    for at in ["/metadata/annotations", "/spec"] {
        if let Some(fields) = object.pointer_mut(at).and_then(Value::as_object_mut) {
            fields.retain(|_, value| !value.is_null());
        }
    }
    object
}

impl World {
    fn observed(&self) -> Observed {
        let pools = self.pools.iter().enumerate();
        let pools = pools.filter_map(|(pool, spec)| Some(pool_value(pool, spec.as_ref()?)));
        let services = self.services.iter().enumerate();
        let services = services.map(|(index, spec)| service_value(index, spec));
        let pools: Vec<Value> = pools.map(without_nulls).collect();
        let services: Vec<Value> = services.map(without_nulls).collect();
        observed_on(self.version, &pools, &services)
    }

    /// The steps as changes. Skips deletions of pools that do not exist.
    fn changes(&self, observed: &Observed) -> Vec<Change> {
        let mut state = SimulatedState::new(observed);
        let mut changes = Vec::new();
        for step in &self.steps {
            let change = match step {
                Step::Pool(pool, spec) => change_of_pool(&state, *pool, spec.as_ref()),
                Step::Pin(index, place) => change_of_service(&state, *index, *place),
            };
            if let Some(change) = change {
                state.apply(&change);
                changes.push(change);
            }
        }
        changes
    }
}

fn change_of_pool(state: &SimulatedState, pool: usize, spec: Option<&PoolSpec>) -> Option<Change> {
    let name = pool_name(pool);
    let next = spec.map(|spec| observed_of(&[without_nulls(pool_value(pool, spec))], &[]));
    let manifest = |pool: &SeenAddressPool| pool.manifest.clone();
    let before = state.pools.get(&name).map(manifest);
    let after = next.map(|next| manifest(&next.address_pools[&name]));
    let action = match (&before, &after) {
        (None, None) => return None,
        (None, Some(_)) => PoolAction::Create,
        (Some(_), Some(_)) => PoolAction::Update,
        (Some(_), None) => PoolAction::Delete,
    };
    Some(owned_change(action, &name, (before, after)))
}

fn change_of_service(state: &SimulatedState, index: usize, place: Option<Place>) -> Option<Change> {
    let service = ServiceName::new("shop", &service_name(index));
    let before = state.services.get(&service)?.request_at(KEY);
    Some(Change::Service(ServiceChange {
        service: service.clone(),
        key: KEY,
        before: before.map(str::to_owned),
        after: place.map(address),
        hazard: Hazard::None,
        guard: ObjectVersion::default(),
        origin: None,
    }))
}

/// A pool that selects every Service and overlaps every pool.
fn everything() -> SeenAddressPool {
    let blocks = json!([{"cidr": "0.0.0.0/0"}, {"cidr": "::/0"}]);
    let pool = json!({"metadata": {"name": "everything"}, "spec": {"blocks": blocks}});
    observed_of(&[pool], &[]).address_pools["everything"].clone()
}

fn addresses(state: &SimulatedState) -> BTreeMap<&ServiceName, &Vec<IpAddr>> {
    let services = state.services.iter();
    services
        .map(|(name, service)| (name, &service.ingress))
        .collect()
}

/// The hazard of each change, the last state, and the effects of all changes.
fn simulated(
    observed: &Observed,
    mut changes: Vec<Change>,
    groups: Groups,
) -> (Vec<Hazard>, SimulatedState, Effects) {
    let state = SimulatedState::new(observed);
    let mut simulation = Simulation::of_groups(observed, state, groups);
    for change in &mut changes {
        simulation.record_step(change);
    }
    let hazards = changes.iter().map(Change::hazard).collect();
    (hazards, simulation.state().clone(), simulation.finish())
}

#[track_caller]
fn assert_same_as_one_group(world: &World) {
    let observed = world.observed();
    let changes = world.changes(&observed);
    let mut state = SimulatedState::new(&observed);
    let groups = state.groups(&changes);
    state.pools.insert("everything".to_owned(), everything());
    let one = state.groups(&changes);
    assert_eq!(one.all().len(), 1);
    let (hazards, state, effects) = simulated(&observed, changes.clone(), groups);
    let (hazards_of_one, state_of_one, effects_of_one) = simulated(&observed, changes, one);
    assert_eq!(hazards, hazards_of_one);
    assert_eq!(addresses(&state), addresses(&state_of_one));
    assert_eq!(state.pools, state_of_one.pools);
    assert_eq!(effects, effects_of_one);
}

/// A pool of 20.0.N.0/30 for the color of this number.
fn quarter(home: usize) -> PoolSpec {
    PoolSpec {
        color: Some(home),
        parts: vec![(Family::Ipv4, home, 0, 0)],
        created: 0,
        disabled: false,
        edges: None,
    }
}

/// A Service with an address of it.
fn holder(home: usize) -> ServiceSpec {
    ServiceSpec {
        color: home,
        held: vec![(Family::Ipv4, home, 1)],
        requested: None,
        families: 0,
        key: None,
        port: 80,
    }
}

#[test]
fn without_a_pool_no_group_waits() {
    let pin = |index| Step::Pin(index, Some((Family::Ipv4, index, 2)));
    assert_same_as_one_group(&World {
        version: "1.19.3",
        pools: vec![Some(quarter(0)), Some(quarter(1))],
        services: vec![holder(0), holder(1)],
        steps: vec![Step::Pool(0, None), Step::Pool(1, None), pin(1), pin(1)],
    });
}

#[test]
fn an_operator_that_panics_serves_no_group() {
    let reserving = PoolSpec {
        edges: Some(false),
        ..quarter(0)
    };
    let sharing = ServiceSpec {
        held: Vec::new(),
        key: Some(0),
        ..holder(0)
    };
    assert_same_as_one_group(&World {
        version: "1.20.1",
        pools: vec![Some(reserving), Some(quarter(1))],
        services: vec![sharing, holder(1)],
        steps: vec![
            Step::Pool(1, None),
            Step::Pin(0, Some((Family::Ipv4, 0, 0))),
        ],
    });
}

/// From 1.20 on, a Service joins one of two addresses of its key whose pool is gone. Those that
/// wait for other pools do not matter to it.
#[test]
fn one_of_several_addresses_of_a_key_is_sure() {
    let sharing = |last| ServiceSpec {
        held: vec![(Family::Ipv4, 0, last)],
        key: Some(0),
        ..holder(0)
    };
    let joining = ServiceSpec {
        held: Vec::new(),
        families: 2,
        port: 81,
        ..sharing(1)
    };
    let holders = (0..5).map(|last| ServiceSpec {
        held: (0..4)
            .contains(&last)
            .then_some((Family::Ipv4, 1, last))
            .into_iter()
            .collect(),
        ..holder(1)
    });
    let ipv6 = PoolSpec {
        parts: vec![(Family::Ipv6, 2, 0, 8)],
        ..quarter(0)
    };
    assert_same_as_one_group(&World {
        version: "1.20.3",
        pools: vec![Some(quarter(0)), Some(quarter(1))],
        services: [sharing(1), sharing(2), joining]
            .into_iter()
            .chain(holders)
            .collect(),
        steps: vec![Step::Pool(0, None), Step::Pool(2, Some(ipv6))],
    });
}

proptest! {
    #[test]
    fn groups_are_simulated_as_if_they_were_one(world in world()) {
        assert_same_as_one_group(&world);
    }
}
