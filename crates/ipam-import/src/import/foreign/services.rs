//! Services with addresses of another address manager: their pins, and what a person has to change
//! on them so that Cilium's LB-IPAM serves them.

use std::collections::{BTreeMap, BTreeSet};

use super::object::{Object, Remark, RemarkName};
use super::{ADDRESS_POOL_LABEL, ForeignAddressPool, ForeignServicePin, listed};
use ipam_core::model::{Labels, Selector, ServiceName};
use ipam_core::net::{Address, RangeIndex};

/// Keys of annotations of Services. Of several, the first that a Service has counts.
pub(super) struct Annotations {
    /// Requested addresses, as a JSON list or with commas between them.
    pub(super) addresses: &'static [&'static str],
    /// Requested pools, as a JSON list or with commas between them.
    pub(super) pools: &'static [&'static str],
    /// Keys of Services that may share addresses.
    pub(super) sharing: &'static [&'static str],
}

/// A Service of type LoadBalancer.
struct Wanted<'v> {
    object: &'v Object<'v>,
    name: ServiceName,
    labels: Labels,
    held: BTreeSet<Address>,
    requested: BTreeSet<Address>,
}

/// The namespaces of the Services that hold an address.
struct Holders<'w>(BTreeMap<Address, BTreeSet<&'w str>>);

impl<'w> Holders<'w> {
    fn of(services: &'w [Wanted<'_>]) -> Holders<'w> {
        let mut holders: BTreeMap<Address, BTreeSet<&str>> = BTreeMap::new();
        for service in services {
            for address in &service.held {
                let of_address = holders.entry(*address).or_default();
                of_address.insert(service.name.namespace());
            }
        }
        Holders(holders)
    }

    fn are_of_several_namespaces(&self, addresses: &[Address]) -> bool {
        let mut holders = addresses.iter().filter_map(|one| self.0.get(one));
        holders.any(|namespaces| namespaces.len() > 1)
    }

    /// Whether Services hold every address of the pool.
    fn fill(&self, pool: &ForeignAddressPool) -> bool {
        let mut ranges = pool.manifest.spec.ranges();
        ranges.all(|range| {
            let held = self.0.keys().filter(|one| range.contains(&(**one).into()));
            u128::try_from(held.count()).is_ok_and(|held| held > range.width())
        })
    }
}

/// A pool, and the Services that it selects.
struct Selecting<'p> {
    pool: &'p ForeignAddressPool,
    selector: Selector,
}

/// A pin for each Service that holds or requests addresses of the pools, sorted.
pub(super) fn of_services(
    services: &[Object<'_>],
    pools: &[ForeignAddressPool],
    annotations: &Annotations,
    remarks: &mut Vec<Remark>,
) -> Vec<ForeignServicePin> {
    let selecting: Vec<Selecting<'_>> = pools.iter().map(Selecting::new).collect();
    let ranges = pools.iter().enumerate().flat_map(|(place, pool)| {
        let ranges = pool.manifest.spec.ranges();
        ranges.map(move |range| (range, place))
    });
    let index = RangeIndex::new(ranges);
    let of_type = services
        .iter()
        .filter(|one| one.spec_text("type") == "LoadBalancer");
    let mut all: Vec<Wanted<'_>> = Vec::new();
    for service in of_type {
        match Wanted::read(service, annotations) {
            Ok(wanted) => all.push(wanted),
            Err(remark) => remarks.push(*remark),
        }
    }
    let holders = Holders::of(&all);
    let mut pins = Vec::new();
    for wanted in &all {
        let pool_of = |address: &Address| {
            let mut pools = index.overlapping(&(*address).into());
            pools.next().map(|(_, place)| &selecting[*place])
        };
        let requests = wanted.requested_pools(pools, annotations, &holders);
        match wanted.pin(&pool_of, annotations, &holders) {
            Ok(mut pin) => {
                pin.remarks.extend(requests);
                pins.push(pin);
            }
            Err(remark) => {
                remarks.extend(remark.map(|remark| *remark));
                remarks.extend(requests);
            }
        }
    }
    pins.sort_by(|one, two| one.service.cmp(&two.service));
    pins.dedup_by(|two, one| one.service == two.service);
    pins
}

impl<'p> Selecting<'p> {
    fn new(pool: &'p ForeignAddressPool) -> Selecting<'p> {
        let written = pool.manifest.spec.service_selector.as_ref();
        let selector = written.map(|written| written.selector());
        Selecting {
            pool,
            selector: selector.map_or_else(Selector::default, |selector| {
                selector.unwrap_or_else(|_| Selector::nothing())
            }),
        }
    }
}

impl<'v> Wanted<'v> {
    fn read(object: &'v Object<'v>, annotations: &Annotations) -> Result<Wanted<'v>, Box<Remark>> {
        let name: ServiceName = format!("{}/{}", object.namespace(), object.name())
            .parse()
            .map_err(|error| Box::new(object.unreadable(&format!("{error}"))))?;
        let ingress = object.value["status"]["loadBalancer"]["ingress"].as_array();
        let held = ingress
            .into_iter()
            .flatten()
            .filter_map(|ingress| ingress["ip"].as_str()?.parse().ok());
        let requested = first(object, annotations.addresses)
            .unwrap_or_else(|| object.spec_text("loadBalancerIP"));
        let requested = words(requested)
            .iter()
            .map(|text| text.parse::<Address>().map_err(|error| error.to_string()))
            .collect::<Result<_, String>>()
            .map_err(|error| Box::new(object.unreadable(&format!("its request: {error}"))))?;
        let written = object.value["metadata"]["labels"].as_object();
        let labels = written.into_iter().flatten();
        let mut labels: Labels = labels
            .filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())))
            .collect();
        for (key, value) in [
            ("io.kubernetes.service.namespace", name.namespace()),
            ("io.kubernetes.service.name", name.name()),
        ] {
            labels.insert(key.to_owned(), value.to_owned());
        }
        Ok(Wanted {
            object,
            name,
            labels,
            held: held.collect(),
            requested,
        })
    }

    /// # Errors
    /// Fails if no pool has its addresses; without a remark if it has none.
    fn pin<'p>(
        &self,
        pool_of: &impl Fn(&Address) -> Option<&'p Selecting<'p>>,
        annotations: &Annotations,
        holders: &Holders<'_>,
    ) -> Result<ForeignServicePin, Option<Box<Remark>>> {
        let wanted = match self.held.is_empty() {
            true => &self.requested,
            false => &self.held,
        };
        let (addresses, outside): (Vec<Address>, Vec<Address>) = wanted
            .iter()
            .partition(|address| pool_of(address).is_some());
        if addresses.is_empty() {
            return Err((!outside.is_empty()).then(|| Box::new(self.is_outside(outside))));
        }
        let mut remarks = vec![self.origin(&addresses)];
        if !outside.is_empty() {
            remarks.push(self.is_outside(outside));
        }
        let mut pools: Vec<&Selecting<'_>> = addresses.iter().filter_map(pool_of).collect();
        pools.dedup_by(|two, one| one.pool.name == two.pool.name);
        remarks.extend(pools.into_iter().filter_map(|pool| self.selected(pool)));
        remarks.extend(self.shares(&addresses, annotations, holders));
        let class = self.object.spec_text("loadBalancerClass");
        if !class.is_empty() && !class.starts_with("io.cilium/") {
            remarks.push(self.to_do(
                RemarkName::LoadBalancerClass,
                format!(
                    "Cilium does not serve `loadBalancerClass: {class}`, and the field never changes: create the Service again without it"
                ),
            ));
        }
        Ok(ForeignServicePin {
            service: self.name.clone(),
            addresses,
            remarks,
        })
    }

    /// A remark, if it lacks annotations by which Cilium lets it share its addresses.
    fn shares(
        &self,
        addresses: &[Address],
        annotations: &Annotations,
        holders: &Holders<'_>,
    ) -> Option<Remark> {
        let key = first(self.object, annotations.sharing)?;
        let mut missing = Vec::new();
        if first(self.object, &SHARING_KEY) != Some(key) {
            missing.push(format!("{}={}", SHARING_KEY[0], shell(key)));
        }
        if holders.are_of_several_namespaces(addresses)
            && first(self.object, &SHARING_NAMESPACES).is_none()
        {
            missing.push(format!("{}='*'", SHARING_NAMESPACES[0]));
        }
        if missing.is_empty() {
            return None;
        }
        let text = format!(
            "it shares its address. Run `kubectl annotate service --namespace {} {} {}`",
            self.name.namespace(),
            self.name.name(),
            missing.join(" ")
        );
        Some(self.to_do(RemarkName::SharingKey, text))
    }

    /// A remark for each pool that the Service requests by an annotation, which Cilium does not read.
    fn requested_pools(
        &self,
        pools: &[ForeignAddressPool],
        annotations: &Annotations,
        holders: &Holders<'_>,
    ) -> Vec<Remark> {
        let keys = annotations.pools.iter();
        let requested = keys.filter_map(|key| self.object.annotation(key));
        let requested: BTreeSet<String> = requested.flat_map(words).collect();
        let remark = |name: String| {
            match pools.iter().find(|pool| is_called(pool, &name)) {
            None => self.left_out(
                RemarkName::PoolRequested,
                format!(
                    "it requests the pool `{name}`, which is not imported: Cilium would give a new address of any pool that selects the Service"
                ),
            ),
            Some(pool) if self.held.is_empty() && holders.fill(pool) => self.to_do(
                RemarkName::PoolRequested,
                format!(
                    "it requests the pool `{}`, which is full, by an annotation, which Cilium does not read: Cilium gives it an address of another pool that selects it. Set `type: ClusterIP`, or add addresses to the pool",
                    pool.name
                ),
            ),
            Some(pool) if self.held.is_empty() && self.requested.is_empty() => self.to_do(
                RemarkName::PoolRequested,
                format!(
                    "it requests the pool `{}` by an annotation, which Cilium does not read, and holds no address yet: pin it to an address of the pool",
                    pool.name
                ),
            ),
            Some(_) => Remark::inferred(
                RemarkName::PoolRequested,
                self.about(),
                format!(
                    "it requests the pool `{name}` by an annotation, which Cilium does not read: the pin keeps its address"
                ),
            ),
        }
        };
        requested.into_iter().map(remark).collect()
    }

    fn is_outside(&self, addresses: Vec<Address>) -> Remark {
        let is_read = !self.object.spec_text("loadBalancerIP").is_empty()
            || first(self.object, &REQUESTS).is_some();
        let effect = match self.held.is_empty() && !is_read {
            true => {
                "Cilium gives it another address of any pool that selects it. To let it wait, request the address by the annotation `lbipam.cilium.io/ips`"
            }
            false => "Cilium does not give it",
        };
        let addresses = listed(addresses);
        let text = format!("no imported pool has {addresses}: it is not pinned, and {effect}");
        self.left_out(RemarkName::AddressOutsidePools, text)
    }

    fn origin(&self, addresses: &[Address]) -> Remark {
        let about = self.about();
        let pinned = listed(addresses);
        match (self.held.is_empty(), self.requested.is_empty()) {
            (true, _) => Remark::inferred(
                RemarkName::AddressRequested,
                about,
                format!("it requests {pinned} and holds no address yet"),
            ),
            (false, false) if self.held != self.requested => Remark::to_do(
                RemarkName::AddressRequested,
                about,
                format!(
                    "it holds {pinned} and requests {}: the pin keeps what it holds. Remove the request",
                    listed(&self.requested)
                ),
            ),
            (false, _) => Remark::inferred(
                RemarkName::ServicePinned,
                about,
                format!("it holds {pinned}"),
            ),
        }
    }

    /// A remark, if a pool does not select the Service.
    fn selected(&self, selecting: &Selecting<'_>) -> Option<Remark> {
        if selecting.selector.matches(&self.labels) {
            return None;
        }
        let pool = &selecting.pool.name;
        let keys: Vec<&str> = selecting.selector.keys().collect();
        let fix = match keys[..] == [ADDRESS_POOL_LABEL] {
            true => format!(
                "Run `kubectl label service --namespace {} {} {ADDRESS_POOL_LABEL}={pool}`",
                self.name.namespace(),
                self.name.name()
            ),
            false => format!("Give it labels that match {}", selecting.selector),
        };
        Some(self.to_do(
            RemarkName::NotAutomatic,
            format!(
                "pool `{pool}` does not select it, so Cilium would not give it its address. {fix}"
            ),
        ))
    }

    fn about(&self) -> String {
        format!("Service {}", self.name)
    }

    fn to_do(&self, name: RemarkName, text: String) -> Remark {
        Remark::to_do(name, self.about(), text)
    }

    fn left_out(&self, name: RemarkName, text: String) -> Remark {
        Remark::left_out(name, self.about(), text)
    }
}

fn first<'v>(object: &Object<'v>, keys: &[&str]) -> Option<&'v str> {
    keys.iter().find_map(|key| object.annotation(key))
}

/// Annotations of Cilium with requested addresses, the effective one first.
const REQUESTS: [&str; 2] = ["lbipam.cilium.io/ips", "io.cilium/lb-ipam-ips"];

/// Annotations of Cilium with the namespaces that may share an address, the effective one first.
const SHARING_NAMESPACES: [&str; 2] = [
    "lbipam.cilium.io/sharing-cross-namespace",
    "io.cilium/lb-ipam-sharing-cross-namespace",
];

/// Annotations of Cilium with the sharing key, the effective one first.
const SHARING_KEY: [&str; 2] = [
    "lbipam.cilium.io/sharing-key",
    "io.cilium/lb-ipam-sharing-key",
];

/// The items of a JSON list of texts, or of a text with commas.
fn words(text: &str) -> Vec<String> {
    if let Ok(list) = serde_json::from_str(text) {
        return list;
    }
    let words = text.split(',').map(str::trim);
    let words = words.filter(|word| !word.is_empty());
    words.map(str::to_owned).collect()
}

/// Whether the text is the name or a CIDR of the pool.
fn is_called(pool: &ForeignAddressPool, text: &str) -> bool {
    let mut blocks = pool.manifest.spec.blocks.iter();
    pool.name.as_str() == text || blocks.any(|block| block.cidr.as_deref() == Some(text))
}

/// A text as one word of a shell.
fn shell(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:".contains(c);
    match !text.is_empty() && text.chars().all(is_plain) {
        true => text.to_owned(),
        false => format!("'{}'", text.replace('\'', r"'\''")),
    }
}
