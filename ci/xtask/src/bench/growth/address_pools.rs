//! Plans of LoadBalancer pools, each with Services of its own: one of the pools changes, or all do. It
//! knows nothing of how the costs are judged.

use std::path::Path;

use anyhow::{Result, ensure};

use super::plans::{KUBERNETES, MOST_POOLS, Shape, cluster, loaded, planned, rendered, shape};
use super::{Taken, Unit};

/// Services of each pool in shapes that change every pool.
const SERVICES: usize = 4;

pub fn shapes() -> Vec<Shape> {
    use Unit::Pools;
    vec![
        shape("LoadBalancer pools", Pools, MOST_POOLS, one_edited),
        shape(
            "LoadBalancer pools, all edited",
            Pools,
            MOST_POOLS,
            all_edited,
        ),
        shape(
            "LoadBalancer pools, all created",
            Pools,
            MOST_POOLS,
            all_created,
        ),
    ]
}

/// The files give one of them a second block.
fn one_edited(file: &Path, pools: usize) -> Result<Vec<Taken>> {
    let cluster = |n| format!("{},\n{}", pool(n), service(n, 0, Address::Held));
    plan(file, pools, |n| n == 0, &cluster, 1)
}

/// The files give each of them a second block.
fn all_edited(file: &Path, pools: usize) -> Result<Vec<Taken>> {
    let cluster = |n| format!("{},\n{}", pool(n), services(n, Address::Held));
    plan(file, pools, |_| true, &cluster, pools)
}

/// The files have all of them, and the Services wait.
fn all_created(file: &Path, pools: usize) -> Result<Vec<Taken>> {
    let cluster = |n| services(n, Address::Missing);
    plan(file, pools, |_| false, &cluster, pools)
}

fn plan(
    file: &Path,
    pools: usize,
    has_more: fn(usize) -> bool,
    objects: &dyn Fn(usize) -> String,
    changes: usize,
) -> Result<Vec<Taken>> {
    let loaded = loaded((0..pools).map(|n| manifest(n, has_more(n))).collect())?;
    let objects = cluster(KUBERNETES, pools, objects);
    let (mut taken, plan) = planned(file, &objects, &loaded)?;
    ensure!(
        plan.changes.len() == changes,
        "{} pools change, not {changes}",
        plan.changes.len()
    );
    taken.extend(rendered(&plan, &loaded));
    Ok(taken)
}

/// Whether a Service has an address.
#[derive(Clone, Copy)]
enum Address {
    Held,
    Missing,
}

fn network(first: u8, n: usize) -> String {
    format!("{first}.{}.{}", n >> 8 & 255, n & 255)
}

fn manifest(n: usize, has_more: bool) -> String {
    let block = |first| format!("{{cidr: {}.0/24}}", network(first, n));
    let more = if has_more {
        format!(", {}", block(30))
    } else {
        String::new()
    };
    format!(
        "---\napiVersion: cilium.io/v2\nkind: CiliumLoadBalancerIPPool\nmetadata: {{name: p{n}}}\nspec: {{blocks: [{}{more}], serviceSelector: {{matchLabels: {{pool: p{n}}}}}}}\n",
        block(20)
    )
}

/// The pool in the cluster, as JSON.
fn pool(n: usize) -> String {
    format!(
        "{{\"apiVersion\":\"cilium.io/v2\",\"kind\":\"CiliumLoadBalancerIPPool\",\"metadata\":{{\"name\":\"p{n}\",\"uid\":\"p{n}\",\"resourceVersion\":\"1\",\"creationTimestamp\":\"2026-01-01T00:00:00Z\",\"labels\":{{\"app.kubernetes.io/managed-by\":\"cilium-ipam\"}}}},\"spec\":{{\"blocks\":[{{\"cidr\":\"{}.0/24\"}}],\"serviceSelector\":{{\"matchLabels\":{{\"pool\":\"p{n}\"}}}}}}}}",
        network(20, n)
    )
}

fn services(n: usize, address: Address) -> String {
    let services: Vec<String> = (0..SERVICES)
        .map(|place| service(n, place, address))
        .collect();
    services.join(",\n")
}

/// A Service of the pool, as JSON.
fn service(n: usize, place: usize, address: Address) -> String {
    let status = match address {
        Address::Held => {
            let address = format!("{}.{}", network(20, n), place + 1);
            format!("{{\"ingress\":[{{\"ip\":\"{address}\"}}]}}")
        }
        Address::Missing => "{}".to_owned(),
    };
    format!(
        "{{\"apiVersion\":\"v1\",\"kind\":\"Service\",\"metadata\":{{\"name\":\"s{n}-{place}\",\"namespace\":\"default\",\"uid\":\"s{n}-{place}\",\"resourceVersion\":\"1\",\"labels\":{{\"pool\":\"p{n}\"}}}},\"spec\":{{\"type\":\"LoadBalancer\",\"ipFamilies\":[\"IPv4\"],\"ports\":[{{\"port\":80,\"protocol\":\"TCP\"}}]}},\"status\":{{\"loadBalancer\":{status}}}}}"
    )
}
