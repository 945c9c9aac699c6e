//! `bench services`: a whole `cilium-ipam plan` of LoadBalancer pools on a real API server, from
//! the start of the process to its end. It is compared with a process that only does the raw paged
//! LIST of the same objects, and with that LIST over a warm connection: once with one pool edited,
//! and once with every pool edited.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use testbed::ControlPlane;
use xtask::cluster;
use xtask::line::Line;
use xtask::parallel::for_each;
use xtask::pools::Pools;
use xtask::tool::Tool;

use crate::pairs::Pairs;
use crate::process::timed;
use crate::raw;
use crate::samples::Samples;

/// The size of the documented figure.
pub const SERVICES: usize = 1_000;
const POOLS: usize = 100;
const RATIO_LIMIT: f64 = 0.6;
const RSS_LIMIT_MIB: f64 = 40.0;
const CONNECTIONS: usize = 16;

pub fn run(tool: &Path, services: usize) -> Result<()> {
    let tool = Tool::new(tool)?;
    let plane = cluster::start()?;
    eprintln!("bench services: creating {POOLS} pools and {services} Services that have addresses");
    plane.create_many(
        "/apis/cilium.io/v2/ciliumloadbalancerippools",
        &(0..POOLS).map(pool_object).collect::<Vec<_>>(),
        8,
    )?;
    let objects: Vec<Value> = (0..services).map(service).collect();
    plane.create_many("/api/v1/namespaces/default/services", &objects, CONNECTIONS)?;
    let indices: Vec<usize> = (0..services).collect();
    for_each(&indices, CONNECTIONS, |index| {
        let path = format!("/api/v1/namespaces/default/services/s{index}/status");
        let status = json!({"status": {"loadBalancer": {"ingress": [{"ip": address(*index)}]}}});
        plane.patch(&path, &status).map(drop)
    })?;
    measure(&tool, &plane, services)
}

fn measure(tool: &Tool, plane: &ControlPlane, services: usize) -> Result<()> {
    let (one, all) = (pools(1)?, pools(POOLS)?);
    let arguments = |pools: &Pools| -> Vec<OsString> {
        let [plan, kubeconfig, output, json] =
            ["plan", "--kubeconfig", "--output", "json"].map(OsStr::new);
        let words = [
            plan,
            pools.path(),
            kubeconfig,
            plane.kubeconfig().as_os_str(),
            output,
            json,
        ];
        words.into_iter().map(OsStr::to_owned).collect()
    };
    let (of_one, of_all) = (arguments(&one), arguments(&all));
    let this = std::env::current_exe()?;
    let listing = [
        this.as_os_str(),
        OsStr::new("raw-list"),
        plane.kubeconfig().as_os_str(),
    ];
    timed(&listing)?;
    for (arguments, edited) in [(&of_one, 1), (&of_all, POOLS)] {
        let summary = &tool.json(&as_words(arguments))?["summary"]["load_balancing"];
        ensure!(
            summary["update"] == edited && summary["lost_addresses"] == 0,
            "not what is to be measured: {summary}"
        );
    }
    let mut rss = Samples::default();
    let mut plan_with_one = || {
        let run = timed(&tool.words(&as_words(&of_one)))?;
        rss.add(run.peak_rss_mib);
        Ok(run.milliseconds)
    };
    let list = || Ok(timed(&listing)?.milliseconds);
    let with_one = Pairs::measure(&mut plan_with_one, list)?;
    let warm = Pairs::measure(
        plan_with_one,
        || Ok(raw::list(plane.client())?.milliseconds),
    )?;
    let with_all = Pairs::measure(
        || Ok(timed(&tool.words(&as_words(&of_all)))?.milliseconds),
        list,
    )?;
    println!("raw LIST, warm connection, ms: {}", warm.theirs.spread());
    println!("raw LIST, whole process, ms: {}", with_one.theirs.spread());
    println!(
        "plan --output json, one pool edited, whole process, ms: {}",
        with_one.ours.spread()
    );
    println!(
        "plan --output json, every pool edited, whole process, ms: {}",
        with_all.ours.spread()
    );
    println!("every pool edited, ratio: {}", with_all.spread());
    let line = Line::new("services")
        .with("services", services)
        .with("pools", POOLS);
    with_one
        .at_most(line, "ratio", RATIO_LIMIT)
        .measured("ratio_all_edited", with_all.ratio())
        .measured("ratio_warm", warm.ratio())
        .measured("raw_list_ms", with_one.theirs.median())
        .at_most("peak_rss_mib", rss.max(), "rss_limit_mib", RSS_LIMIT_MIB)
        .print();
    Ok(())
}

fn as_words(owned: &[OsString]) -> Vec<&OsStr> {
    owned.iter().map(OsString::as_os_str).collect()
}

/// The files, with this many pools wider than in the cluster.
fn pools(edited: usize) -> Result<Pools> {
    let document = |index: usize| {
        let mut pool = pool_object(index);
        if index < edited {
            let cidrs =
                [200, 201].map(|second| json!({"cidr": format!("10.{second}.{index}.0/24")}));
            pool["spec"]["blocks"] = json!(cidrs);
        }
        format!(
            "---\n{{\"apiVersion\": \"cilium.io/v2\", \"kind\": \"CiliumLoadBalancerIPPool\", \"metadata\": {{\"name\": {}}}, \"spec\": {}}}\n",
            pool["metadata"]["name"], pool["spec"]
        )
    };
    Pools::of(&(0..POOLS).map(document).collect::<String>())
}

fn pool_object(index: usize) -> Value {
    json!({
        "apiVersion": "cilium.io/v2",
        "kind": "CiliumLoadBalancerIPPool",
        "metadata": {"name": format!("pool-{index}"), "labels": {"app.kubernetes.io/managed-by": "cilium-ipam"}},
        "spec": {
            "blocks": [{"cidr": format!("10.200.{index}.0/24")}],
            "serviceSelector": {"matchLabels": {"team": format!("team-{index}")}},
        },
    })
}

fn service(index: usize) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": format!("s{index}"), "labels": {"team": format!("team-{}", index % POOLS), "app": format!("app-{index}")}},
        "spec": {
            "type": "LoadBalancer",
            "selector": {"app": format!("app-{index}")},
            "ports": [{"name": "http", "port": 80}, {"name": "https", "port": 443}],
        },
    })
}

fn address(index: usize) -> String {
    format!("10.200.{}.{}", index % POOLS, index / POOLS)
}
