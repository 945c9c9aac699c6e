//! Reads the objects of a saved plan. The file is not trusted: fields that no plan writes are
//! refused.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use super::PodPoolSpec;
use ipam_cilium::lbipam::WrittenSelector;
use ipam_cilium::observed::{DEFAULT_POOL_SETTING, PodRanges};
use ipam_core::model::{PerFamily, PoolName};
use ipam_core::net::{Block, BlockSize, Family};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SavedPool {
    ipv4: Option<SavedRanges>,
    ipv6: Option<SavedRanges>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct SavedRanges {
    cidrs: Vec<String>,
    mask_size: u64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct SavedChoice {
    node_selector: WrittenSelector,
    defaults: BTreeMap<String, String>,
}

/// `None` if it is not the spec of a `CiliumPodIPPool` as a plan has it.
pub(super) fn pool(spec: &Value) -> Option<PodPoolSpec> {
    let SavedPool { ipv4, ipv6 } = SavedPool::deserialize(spec).ok()?;
    let mut families = PerFamily::NONE;
    for (family, saved) in [(Family::Ipv4, ipv4), (Family::Ipv6, ipv6)] {
        let Some(saved) = saved else { continue };
        *families.get_mut(family) = Some(ranges(family, &saved)?);
    }
    (!families.is_empty()).then_some(PodPoolSpec::Pool(families))
}

fn ranges(family: Family, saved: &SavedRanges) -> Option<PodRanges> {
    let size = BlockSize::new(family, saved.mask_size).ok()?;
    let block = |text: &String| {
        let block: Block = text.parse().ok()?;
        let fits = block.family() == family && block.prefix_len() <= size.prefix_len();
        fits.then_some(block)
    };
    let cidrs: Vec<Block> = saved.cidrs.iter().map(block).collect::<Option<_>>()?;
    (!cidrs.is_empty()).then_some(PodRanges { cidrs, size })
}

/// `None` if it is not the spec of a `CiliumNodeConfig` that chooses a pool.
pub(super) fn choice(spec: &Value) -> Option<PodPoolSpec> {
    let SavedChoice {
        node_selector,
        mut defaults,
    } = SavedChoice::deserialize(spec).ok()?;
    let pool = defaults.remove(DEFAULT_POOL_SETTING)?;
    let pool: PoolName = pool.parse().ok()?;
    defaults.is_empty().then_some(PodPoolSpec::Choice {
        nodes: node_selector.selector().ok()?,
        pool: pool.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_a_plan_writes_is_read_and_nothing_else() {
        let ranges = json!({"cidrs": ["10.20.0.0/16"], "maskSize": 24});
        let good = json!({"ipv4": ranges});
        assert_eq!(pool(&good).unwrap().to_json(), good);
        for bad in [
            json!({}),
            json!({"ipv4": ranges, "podSelector": {}}),
            json!({"ipv6": ranges}),
            json!({"ipv4": {"cidrs": [], "maskSize": 24}}),
            json!({"ipv4": {"cidrs": ["10.20.0.0/25"], "maskSize": 24}}),
            json!({"ipv4": {"cidrs": ["10.20.0.1/16"], "maskSize": 24}}),
            json!({"ipv4": {"cidrs": ["10.20.0.0/16"], "maskSize": 240}}),
        ] {
            assert_eq!(pool(&bad), None, "{bad}");
        }
        let selector =
            json!({"matchExpressions": [{"key": "rack", "operator": "In", "values": ["a"]}]});
        let good =
            json!({"nodeSelector": selector, "defaults": {"ipam-default-ip-pool": "rack-a"}});
        assert_eq!(choice(&good).unwrap().to_json(), good);
        for bad in [
            json!({"nodeSelector": selector, "defaults": {}}),
            json!({"nodeSelector": selector, "defaults": {"ipam-default-ip-pool": "rack-a", "debug": "true"}}),
            json!({"defaults": {"ipam-default-ip-pool": "rack-a"}}),
            json!({"nodeSelector": {"matchExpressions": [{"key": "rack", "operator": "Near"}]}, "defaults": {"ipam-default-ip-pool": "rack-a"}}),
        ] {
            assert_eq!(choice(&bad), None, "{bad}");
        }
    }
}
