//! How MetalLB announces addresses, in the objects of Cilium, where they can mean the same.
//!
//! Source: `pkg/k8s/apis/cilium.io/v2alpha1/l2announcement_types.go` and `v2/bgp_advert_types.go`
//! @ 1.19.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use super::metallb_peers::peers;
use super::metallb_pool::MetalPool;
use super::object::{Object, Remark, RemarkName, any_of, selectors, texts};
use super::{Announcement, listed};
use ipam_cilium::lbipam::WrittenSelector;
use ipam_core::model::Selector;

/// A label of the imported `CiliumBGPAdvertisement`s, for a `CiliumBGPPeerConfig` to select.
pub(super) const LABEL: (&str, &str) = ("cilium-ipam.io/imported-from", "metallb");

/// Advertisements of MetalLB that differ only in their pools.
struct Advertised<'v> {
    /// The first advertisement of the group.
    object: &'v Object<'v>,
    pools: BTreeSet<&'v str>,
}

/// The announcements of all advertisements.
pub(super) fn announcements(
    objects: &[Object<'_>],
    pools: &[MetalPool],
    remarks: &mut Vec<Remark>,
) -> Vec<Announcement> {
    let aliases = aliases(objects);
    let mut announcements = Vec::new();
    for kind in ["L2Advertisement", "BGPAdvertisement"] {
        for advertised in advertised(objects, kind, pools, remarks) {
            let made = match kind {
                "L2Advertisement" => advertised.l2(pools),
                _ => advertised.bgp(pools, &aliases),
            };
            match made {
                Ok(announcement) => announcements.push(announcement),
                Err(remark) => remarks.push(*remark),
            }
        }
    }
    announcements.extend(peers(objects, remarks));
    announcements
}

/// The advertisements of a kind, joined where they differ only in their pools.
fn advertised<'v>(
    objects: &'v [Object<'v>],
    kind: &str,
    pools: &'v [MetalPool],
    remarks: &mut Vec<Remark>,
) -> Vec<Advertised<'v>> {
    let mut found: BTreeMap<String, Advertised<'v>> = BTreeMap::new();
    for object in objects.iter().filter(|object| object.kind == kind) {
        let of_object = match pools_of(object, pools) {
            Ok(names) => names,
            Err(error) => {
                remarks.push(object.unreadable(&format!("`ipAddressPoolSelectors`: {error}")));
                continue;
            }
        };
        let mut settings = object.value["spec"]
            .as_object()
            .cloned()
            .unwrap_or_default();
        settings.remove("ipAddressPools");
        settings.remove("ipAddressPoolSelectors");
        let advertised = found
            .entry(Value::Object(settings).to_string())
            .or_insert_with(|| Advertised {
                object,
                pools: BTreeSet::new(),
            });
        advertised.pools.extend(of_object);
    }
    found.into_values().collect()
}

/// Names of the pools of an advertisement.
fn pools_of<'p>(object: &Object<'_>, pools: &'p [MetalPool]) -> Result<Vec<&'p str>, String> {
    let names: BTreeSet<&str> = texts(object.spec("ipAddressPools")).collect();
    let selectors = selectors(object.spec("ipAddressPoolSelectors"))?;
    let has_all = names.is_empty() && selectors.is_empty();
    let is_selected = |pool: &&MetalPool| {
        has_all
            || names.contains(pool.pool.name.as_str())
            || selectors
                .iter()
                .any(|selector| selector.matches(&pool.labels))
    };
    let selected = pools.iter().filter(is_selected);
    Ok(selected.map(|pool| pool.pool.name.as_str()).collect())
}

impl Advertised<'_> {
    fn l2(&self, pools: &[MetalPool]) -> Result<Announcement, Box<Remark>> {
        let refused = |reason: String| {
            Box::new(Remark::left_out(
                RemarkName::L2NotExpressible,
                self.object.about(),
                format!("no CiliumL2AnnouncementPolicy means the same, because {reason}"),
            ))
        };
        self.refuse_some_pools(pools).map_err(refused)?;
        if self.has_items("preferredNodeSelectors") {
            return Err(refused("Cilium prefers no nodes".to_owned()));
        }
        let mut spec = Map::new();
        spec.insert("loadBalancerIPs".to_owned(), json!(true));
        for (field, to) in [
            ("nodeSelectors", "nodeSelector"),
            ("serviceSelectors", "serviceSelector"),
        ] {
            if let Some(selector) = self.any_of(field).map_err(refused)? {
                spec.insert(to.to_owned(), json!(WrittenSelector::from(&selector)));
            }
        }
        let interfaces: Vec<String> = texts(self.object.spec("interfaces"))
            .map(|name| format!("^{}$", literal(name)))
            .collect();
        if !interfaces.is_empty() {
            spec.insert("interfaces".to_owned(), json!(interfaces));
        }
        Ok(Announcement {
            object: json!({
                "apiVersion": "cilium.io/v2alpha1",
                "kind": "CiliumL2AnnouncementPolicy",
                "metadata": {"name": self.object.name()},
                "spec": spec,
            }),
            remarks: vec![Remark::to_do(
                RemarkName::L2Announced,
                self.object.about(),
                "apply it when MetalLB is gone, and set `l2announcements.enabled` of Cilium's chart. With `externalTrafficPolicy: Local`, Cilium can announce from a node without a Pod of the Service"
                    .to_owned(),
            )],
        })
    }

    fn bgp(
        &self,
        pools: &[MetalPool],
        aliases: &BTreeMap<&str, &str>,
    ) -> Result<Announcement, Box<Remark>> {
        let refused = |reason: String| {
            Box::new(Remark::left_out(
                RemarkName::BgpNotExpressible,
                self.object.about(),
                format!("no CiliumBGPAdvertisement means the same, because {reason}"),
            ))
        };
        self.refuse_some_pools(pools).map_err(refused)?;
        for (field, reason) in [
            ("peers", "a CiliumBGPPeerConfig chooses the peers"),
            (
                "nodeSelectors",
                "a CiliumBGPClusterConfig chooses the nodes",
            ),
        ] {
            if self.has_items(field) {
                return Err(refused(format!("it has `{field}`, and {reason}")));
            }
        }
        let selector = match self.any_of("serviceSelectors").map_err(refused)? {
            Some(selector) => json!(WrittenSelector::from(&selector)),
            // Without a selector, Cilium advertises no Service.
            None => json!({"matchExpressions": [
                {"key": "cilium-ipam.io/not-advertised", "operator": "DoesNotExist"},
            ]}),
        };
        let mut service = json!({"addresses": ["LoadBalancerIP"]});
        for (field, usual, to) in [
            ("aggregationLength", 32, "aggregationLengthIPv4"),
            ("aggregationLengthV6", 128, "aggregationLengthIPv6"),
        ] {
            if let Some(length) = self.object.spec(field).as_u64().filter(|one| *one != usual) {
                service[to] = json!(length);
            }
        }
        let mut advertisement = json!({
            "advertisementType": "Service",
            "service": service,
            "selector": selector,
        });
        let attributes = self.attributes(aliases).map_err(refused)?;
        if !attributes.is_empty() {
            advertisement["attributes"] = Value::Object(attributes);
        }
        Ok(Announcement {
            object: json!({
                "apiVersion": "cilium.io/v2",
                "kind": "CiliumBGPAdvertisement",
                "metadata": {"name": self.object.name(), "labels": {LABEL.0: LABEL.1}},
                "spec": {"advertisements": [advertisement]},
            }),
            remarks: vec![Remark::to_do(
                RemarkName::BgpAnnounced,
                self.object.about(),
                format!(
                    "select it in `families[].advertisements` of each CiliumBGPPeerConfig, by the label {}={}. `aggregationLengthIPv4` and `aggregationLengthIPv6` need a Cilium that has these fields. Before 1.18, write `apiVersion: cilium.io/v2alpha1`",
                    LABEL.0, LABEL.1
                ),
            )],
        })
    }

    fn attributes(&self, aliases: &BTreeMap<&str, &str>) -> Result<Map<String, Value>, String> {
        let mut attributes = Map::new();
        let preference = self.object.spec("localPref").as_u64().unwrap_or_default();
        if preference > 0 {
            attributes.insert("localPreference".to_owned(), json!(preference));
        }
        let (mut standard, mut large) = (Vec::new(), Vec::new());
        for written in texts(self.object.spec("communities")) {
            let value = aliases.get(written).copied().unwrap_or(written);
            let (numbers, list, expected) = match value.strip_prefix("large:") {
                Some(numbers) => (numbers, &mut large, 3),
                None => (value, &mut standard, 2),
            };
            let is_number = |text: &str| match expected {
                2 => text.parse::<u16>().is_ok(),
                _ => text.parse::<u32>().is_ok(),
            };
            let parts: Vec<&str> = numbers.split(':').collect();
            if parts.len() != expected || !parts.into_iter().all(is_number) {
                return Err(format!("the community `{written}` is unknown"));
            }
            list.push(numbers);
        }
        let mut communities = Map::new();
        for (field, values) in [("standard", standard), ("large", large)] {
            if !values.is_empty() {
                communities.insert(field.to_owned(), json!(values));
            }
        }
        if !communities.is_empty() {
            attributes.insert("communities".to_owned(), Value::Object(communities));
        }
        Ok(attributes)
    }

    /// Fails if the advertisement leaves out a pool: Cilium announces Services, whatever pool their
    /// addresses are of.
    fn refuse_some_pools(&self, pools: &[MetalPool]) -> Result<(), String> {
        match self.pools.len() == pools.len() {
            true => Ok(()),
            false => Err(format!(
                "it announces some pools only ({}), and Cilium selects Services, not pools",
                listed(&self.pools)
            )),
        }
    }

    fn has_items(&self, field: &str) -> bool {
        let items = self.object.spec(field).as_array();
        items.is_some_and(|items| !items.is_empty())
    }

    /// The selector of the objects that one of the field's selectors selects; `None` for all
    /// objects.
    fn any_of(&self, field: &str) -> Result<Option<Selector>, String> {
        let selectors = selectors(self.object.spec(field))?;
        if selectors.is_empty() {
            return Ok(None);
        }
        let selector = any_of(selectors).map_err(|error| format!("`{field}`: {error}"))?;
        let selector = selector.ok_or_else(|| format!("`{field}` selects nothing"))?;
        Ok(Some(selector).filter(|selector| *selector != Selector::default()))
    }
}

/// Values of BGP communities, by the names of the communities.
fn aliases<'v>(objects: &[Object<'v>]) -> BTreeMap<&'v str, &'v str> {
    let communities = objects.iter().filter(|object| object.kind == "Community");
    communities
        .filter_map(|object| object.spec("communities").as_array())
        .flatten()
        .filter_map(|alias| Some((alias["name"].as_str()?, alias["value"].as_str()?)))
        .collect()
}

/// A name as a regular expression.
fn literal(name: &str) -> String {
    let mut literal = String::new();
    for c in name.chars() {
        if !(c.is_alphanumeric() || "-_:@".contains(c)) {
            literal.push('\\');
        }
        literal.push(c);
    }
    literal
}
