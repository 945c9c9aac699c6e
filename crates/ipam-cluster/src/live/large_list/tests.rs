//! Lists of a collection that changes while it is read.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, RwLock};

use http::{Request, Response, header};
use kube::Client;
use kube::client::Body;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::live::clock::SystemClock;
use crate::live::{Connection, LiveCluster};
use crate::{Cluster, Moment};
use ipam_cilium::observed::ReadError;

/// Names with their resourceVersions.
type State = BTreeMap<String, u64>;

fn object((name, version): (&String, &u64)) -> Value {
    json!({"apiVersion": "cilium.io/v2", "kind": "CiliumNode",
        "metadata": {"name": name, "uid": "u", "resourceVersion": version.to_string()}, "spec": {}})
}

fn list(state: &State, version: u64, next: &str) -> Value {
    json!({"apiVersion": "cilium.io/v2", "kind": "CiliumNodeList",
        "items": state.iter().map(object).collect::<Vec<_>>(),
        "metadata": {"resourceVersion": version.to_string(), "continue": next}})
}

fn table(state: &State, version: u64) -> Value {
    let rows = state
        .keys()
        .map(|name| json!({"cells": [name, "10.0.0.1"], "object": null}));
    json!({"kind": "Table", "apiVersion": "meta.k8s.io/v1",
        "metadata": {"resourceVersion": version.to_string()},
        "columnDefinitions": [{"name": "Name", "format": "name"}, {"name": "IP", "format": ""}],
        "rows": rows.collect::<Vec<_>>()})
}

fn state(names: &[(&str, u64)]) -> State {
    let owned = |(name, version): &(&str, u64)| ((*name).to_owned(), *version);
    names.iter().map(owned).collect()
}

/// What the visitor is told, a line each.
#[derive(Default)]
struct Told(Vec<String>);

impl ListVisitor for Told {
    fn begun(&mut self, version: &str) -> Result<(), ClusterError> {
        self.0.push(format!("begun {version}"));
        Ok(())
    }

    fn object(&mut self, json: &str) -> Result<(), ReadError> {
        let object: Value = serde_json::from_str(json).unwrap();
        let metadata = &object["metadata"];
        let text = |key: &str| metadata[key].as_str().unwrap().to_owned();
        self.0
            .push(format!("{}@{}", text("name"), text("resourceVersion")));
        Ok(())
    }
}

/// The answers of a server by the parameters of the request.
fn cluster(
    answer: impl Fn(&str) -> (u16, Value) + Send + Sync + 'static,
) -> (LiveCluster, Arc<Mutex<Vec<String>>>) {
    let asked: Arc<Mutex<Vec<String>>> = Arc::default();
    let log = Arc::clone(&asked);
    let service = tower::service_fn(move |request: Request<Body>| {
        let query = request.uri().query().unwrap_or_default().to_owned();
        let (status, body) = answer(&query);
        log.lock().unwrap().push(query);
        let answer = Response::builder()
            .status(status)
            .header(header::CONTENT_TYPE, "application/json")
            .body(Body::from(body.to_string().into_bytes()));
        std::future::ready(answer)
    });
    let connection = Connection {
        kubeconfig: None,
        context: None,
        patience: std::time::Duration::ZERO,
    };
    let cluster = LiveCluster {
        connection: Arc::new(connection),
        client: Arc::new(RwLock::new(Client::new(service, "default"))),
        server: "https://api.example".into(),
        has_answered: Arc::default(),
        clock: Arc::new(SystemClock::new()),
        on_request: None,
    };
    (cluster, asked)
}

/// What a list tells, how it ends, and what was asked for it.
async fn listed(
    answer: impl Fn(&str) -> (u16, Value) + Send + Sync + 'static,
) -> (Vec<String>, String, Vec<String>) {
    let (cluster, asked) = cluster(answer);
    let mut told = Told::default();
    let seen = cluster
        .list(
            ObservedKind::CiliumNode,
            "kube-system",
            &Moment::Latest,
            &mut told,
        )
        .await;
    let end = match seen {
        Ok(seen) => format!("{seen:?}"),
        Err(error) => error.to_string(),
    };
    let asked = asked.lock().unwrap().clone();
    (told.0, end, asked)
}

const PROBE: &str = "limit=200";
const NAMES: &str = "includeObject=None";
const ALL: &str = "limit=0";
const EXACTLY: &str = "limit=1000&resourceVersion=7&resourceVersionMatch=Exact";

#[tokio::test(flavor = "multi_thread")]
async fn few_objects_take_one_request() {
    let (told, end, asked) = listed(|_| (200, list(&state(&[("a", 3)]), 7, ""))).await;
    assert_eq!(
        (told, end.as_str()),
        (vec!["begun 7".to_owned(), "a@3".to_owned()], "All")
    );
    assert_eq!(asked, [PROBE]);
}

/// A server with two objects, of which the probe shows one; `all` is the later list.
fn two(query: &str, (status, all): (u16, Value)) -> (u16, Value) {
    let then = state(&[("a", 3), ("b", 5)]);
    match query {
        PROBE => (200, list(&state(&[("a", 3)]), 6, "token")),
        NAMES => (200, table(&then, 7)),
        ALL => (status, all),
        EXACTLY => (200, list(&then, 7, "")),
        other => panic!("{other}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_that_did_not_change_are_those_of_the_moment_of_their_names() {
    let same = list(&state(&[("a", 3), ("b", 5)]), 9, "");
    let (told, end, asked) = listed(move |query| two(query, (200, same.clone()))).await;
    assert_eq!(told, ["begun 7", "a@3", "b@5"]);
    assert_eq!(end, "All");
    assert_eq!(asked, [PROBE, NAMES, ALL]);
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_that_may_have_changed_are_listed_as_of_the_moment_of_the_names() {
    for (what, all) in [
        ("written", list(&state(&[("a", 3), ("b", 8)]), 9, "")),
        ("deleted", list(&state(&[("a", 3)]), 9, "")),
        (
            "created",
            list(&state(&[("a", 3), ("b", 5), ("c", 8)]), 9, ""),
        ),
        ("replaced", list(&state(&[("a", 3), ("c", 8)]), 9, "")),
        (
            "of an earlier moment",
            list(&state(&[("a", 3), ("b", 5)]), 6, ""),
        ),
        ("not whole", list(&state(&[("a", 3), ("b", 5)]), 9, "more")),
        (
            "without a moment",
            json!({"kind": "CiliumNodeList", "items": []}),
        ),
    ] {
        let (told, end, asked) = listed(move |query| two(query, (200, all.clone()))).await;
        assert_eq!(told, ["begun 7", "begun 7", "a@3", "b@5"], "{what}");
        assert_eq!(end, "All", "{what}");
        assert_eq!(asked, [PROBE, NAMES, ALL, EXACTLY], "{what}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_names_pages_are_read() {
    let same = || list(&state(&[("a", 3), ("b", 5)]), 9, "");
    let mut no_name = table(&state(&[("a", 3)]), 7);
    no_name["columnDefinitions"][0]["format"] = json!("");
    let mut more = table(&state(&[("a", 3)]), 7);
    more["metadata"]["continue"] = json!("token");
    for names in [
        (406, json!({"message": "no tables"})),
        (200, same()),
        (200, no_name),
        (200, more),
    ] {
        let (told, end, asked) = listed(move |query| match query {
            NAMES => names.clone(),
            "limit=1000" => (200, same()),
            _ => two(query, (200, same())),
        })
        .await;
        assert_eq!(told, ["begun 9", "a@3", "b@5"]);
        assert_eq!(end, "All");
        assert_eq!(asked, [PROBE, NAMES, ALL, "limit=1000"]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_collection_that_disappears_meanwhile_is_not_empty() {
    let gone = json!({"kind": "Status", "message": "gone"});
    let (told, end, _) = listed(move |query| two(query, (404, gone.clone()))).await;
    assert_eq!(told, ["begun 7"]);
    assert!(
        end.contains("refused to list ciliumnodes.cilium.io: gone"),
        "{end}"
    );
}

/// The states of a collection, one after the other. Each step writes or deletes an object.
fn history(steps: &[(u8, bool)]) -> Vec<State> {
    let mut states = vec![State::new()];
    for ((name, is_written), version) in steps.iter().zip(1u64..) {
        let mut state = states.last().unwrap().clone();
        let name = format!("n{name}");
        match is_written {
            true => drop(state.insert(name, version)),
            false => drop(state.remove(&name)),
        }
        states.push(state);
    }
    states
}

proptest! {
    #[test]
    fn objects_are_never_those_of_another_moment(
        steps in proptest::collection::vec((0u8..4, any::<bool>()), 0..12),
        then: prop::sample::Index,
        later: prop::sample::Index,
    ) {
        let states = history(&steps);
        let (then, later) = (then.index(states.len()), later.index(states.len()));
        let names = Names {
            moment: then.to_string(),
            names: states[then].keys().cloned().collect(),
        };
        let text = list(&states[later], later as u64, "").to_string();
        let page = Page::of_text(&text, "CiliumNode");
        let found = names.objects(&page, ObservedKind::CiliumNode);
        let found = found.map(|objects| -> State {
            let parsed = objects.iter().map(|object| &object.understood);
            parsed.map(|one| (one.name().to_string(), one.resource_version().parse().unwrap())).collect()
        });
        if let Some(found) = &found {
            prop_assert_eq!(found, &states[then]);
        }
        let is_unchanged = later >= then && states[then..=later].iter().all(|state| *state == states[then]);
        prop_assert!(found.is_some() || !is_unchanged);
    }
}
