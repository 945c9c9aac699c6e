//! Lists of a collection that changes while it is read.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, RwLock};

use http::{Request, Response, header};
use kube::Client;
use kube::client::Body;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::live::connection::SystemClock;
use crate::live::{Connection, LiveCluster};
use crate::{Cluster, Moment};
use ipam_cilium::observed::ReadError;

/// Larger than all lists but one.
const LARGEST_ANSWER: usize = 1 << 16;

/// Names with their resourceVersions.
type State = BTreeMap<String, u64>;

fn object((name, version): (&String, &u64)) -> Value {
    json!({"apiVersion": "cilium.io/v2", "kind": "CiliumNode",
        "metadata": {"name": name, "uid": "u", "resourceVersion": version.to_string()}, "spec": {}})
}

fn list(state: &State, version: u64, next: &str) -> Value {
    json!({"apiVersion": "cilium.io/v2", "kind": "CiliumNodeList",
        "items": state.iter().map(object).collect::<Vec<_>>(),
        "metadata": {"resourceVersion": version.to_string(), "continue": next, "remainingItemCount": 1}})
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

/// A line for each call of the visitor.
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

/// The answers of a server by the parameters of the request, or by its path if it has none.
fn cluster(
    answer: impl Fn(&str) -> (u16, Value) + Send + Sync + 'static,
) -> (LiveCluster, Arc<Mutex<Vec<String>>>) {
    let asked: Arc<Mutex<Vec<String>>> = Arc::default();
    let log = Arc::clone(&asked);
    let service = tower::service_fn(move |request: Request<Body>| {
        let uri = request.uri();
        let query = uri.query().unwrap_or(uri.path()).to_owned();
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
        cilium_namespace: None,
        patience: std::time::Duration::ZERO,
    };
    let cluster = LiveCluster {
        connection: Arc::new(connection),
        client: Arc::new(RwLock::new(Client::new(service, "default"))),
        server: "https://api.example".into(),
        has_answered: Arc::default(),
        clock: Arc::new(SystemClock::new()),
        on_request: None,
        largest_answer: LARGEST_ANSWER,
        room_for_answer: 0,
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

const FIRST: &str = "limit=200";
const VERSION: &str = "/version";
const NAMES: &str = "limit=0&includeObject=None";
const ALL: &str = "limit=0";
const ALL_AGAIN: &str = "limit=0&resourceVersion=7&resourceVersionMatch=NotOlderThan";
const EXACTLY: &str = "limit=1000&resourceVersion=7&resourceVersionMatch=Exact";
const PAGES: &str = "limit=1000";

#[tokio::test(flavor = "multi_thread")]
async fn few_objects_take_one_request() {
    let (told, end, asked) = listed(|_| (200, list(&state(&[("a", 3)]), 7, ""))).await;
    assert_eq!(told, ["begun 7", "a@3"]);
    assert_eq!(end, "All");
    assert_eq!(asked, [FIRST]);
}

/// Two objects, as of the moment of the names and after it.
fn both() -> State {
    state(&[("a", 3), ("b", 5)])
}

/// A server with these objects, of which the first page shows one.
fn two(query: &str) -> (u16, Value) {
    let body = match query {
        FIRST => list(&state(&[("a", 3)]), 6, "token"),
        VERSION => json!({"major": "1", "minor": "31+"}),
        NAMES => table(&both(), 7),
        ALL | ALL_AGAIN | PAGES => list(&both(), 9, ""),
        EXACTLY => list(&both(), 7, ""),
        other => panic!("{other}"),
    };
    (200, body)
}

/// The same as [`listed`], of a server that answers one request otherwise.
async fn with(query: &'static str, answer: (u16, Value)) -> (Vec<String>, String, Vec<String>) {
    listed(move |asked| match asked == query {
        true => answer.clone(),
        false => two(asked),
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_that_did_not_change_are_those_of_the_moment_of_their_names() {
    let (told, end, asked) = listed(two).await;
    assert_eq!(told, ["begun 7", "a@3", "b@5"]);
    assert_eq!(end, "All");
    assert_eq!(asked, [FIRST, VERSION, NAMES, ALL]);
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_that_may_have_changed_are_listed_as_of_the_moment_of_the_names() {
    let refused = || json!({"kind": "Status", "message": "no"});
    for (what, all) in [
        ("written", (200, list(&state(&[("a", 3), ("b", 8)]), 9, ""))),
        ("deleted", (200, list(&state(&[("a", 3)]), 9, ""))),
        (
            "created",
            (200, list(&state(&[("a", 3), ("b", 5), ("c", 8)]), 9, "")),
        ),
        (
            "replaced",
            (200, list(&state(&[("a", 3), ("c", 8)]), 9, "")),
        ),
        ("not whole", (200, list(&both(), 9, "more"))),
        (
            "without a moment",
            (200, json!({"kind": "CiliumNodeList", "items": []})),
        ),
        ("a table", (200, table(&both(), 9))),
        ("hidden", (403, refused())),
        ("not served", (404, refused())),
        ("busy", (429, refused())),
        ("too slow", (504, refused())),
    ] {
        let (told, end, asked) = with(ALL, all).await;
        assert_eq!(told, ["begun 7", "begun 7", "a@3", "b@5"], "{what}");
        assert_eq!(end, "All", "{what}");
        assert_eq!(asked, [FIRST, VERSION, NAMES, ALL, EXACTLY], "{what}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_of_an_earlier_moment_are_read_once_more() {
    let earlier = (200, list(&both(), 6, ""));
    let (told, end, asked) = with(ALL, earlier.clone()).await;
    assert_eq!(told, ["begun 7", "a@3", "b@5"]);
    assert_eq!(end, "All");
    assert_eq!(asked, [FIRST, VERSION, NAMES, ALL, ALL_AGAIN]);
    let ahead = (504, json!({"message": "Too large resource version"}));
    for again in [earlier.clone(), ahead] {
        let earlier = earlier.clone();
        let (told, end, asked) = listed(move |query| match query {
            ALL => earlier.clone(),
            ALL_AGAIN => again.clone(),
            other => two(other),
        })
        .await;
        assert_eq!(told, ["begun 7", "begun 7", "a@3", "b@5"]);
        assert_eq!(end, "All");
        assert_eq!(asked, [FIRST, VERSION, NAMES, ALL, ALL_AGAIN, EXACTLY]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_is_larger_than_expected_is_read_in_pages() {
    let mut large = list(&both(), 9, "");
    large["items"][0]["spec"]["padding"] = json!("x".repeat(LARGEST_ANSWER));
    let (told, end, asked) = with(ALL, (200, large)).await;
    assert_eq!(told, ["begun 7", "begun 7", "a@3", "b@5"]);
    assert_eq!(end, "All");
    assert_eq!(asked, [FIRST, VERSION, NAMES, ALL, EXACTLY]);
}

#[tokio::test(flavor = "multi_thread")]
async fn without_names_pages_are_read() {
    let mut no_name = table(&both(), 7);
    no_name["columnDefinitions"][0]["format"] = json!("");
    let mut more = table(&both(), 7);
    more["metadata"]["continue"] = json!("token");
    let mut no_moment = table(&both(), 7);
    no_moment["metadata"]["resourceVersion"] = json!("");
    for names in [
        (406, json!({"message": "no tables"})),
        (403, json!({"message": "no tables"})),
        (200, list(&both(), 9, "")),
        (200, no_name),
        (200, more),
        (200, no_moment),
    ] {
        let (told, end, mut asked) = with(NAMES, names).await;
        assert_eq!(told, ["begun 9", "a@3", "b@5"]);
        assert_eq!(end, "All");
        // All objects may be asked for before the answer.
        asked.retain(|asked| asked != ALL);
        assert_eq!(asked, [FIRST, VERSION, NAMES, PAGES]);
    }
    let (told, end, _) = with(NAMES, (500, json!({"message": "broken"}))).await;
    assert_eq!((told.len(), end.as_str()), (3, "All"));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_older_server_and_a_very_large_collection_are_read_in_pages() {
    for version in [
        (200, json!({"major": "1", "minor": "30"})),
        (200, json!({"major": "1"})),
        (403, json!({"message": "no"})),
    ] {
        let (told, _, asked) = with(VERSION, version).await;
        assert_eq!(told, ["begun 9", "a@3", "b@5"]);
        assert_eq!(asked, [FIRST, VERSION, PAGES]);
    }
    for remaining in [json!(1_000_000), json!(null), json!(-1), json!(i64::MAX)] {
        let mut first = list(&both(), 6, "token");
        first["metadata"]["remainingItemCount"] = remaining;
        let (told, _, asked) = with(FIRST, (200, first)).await;
        assert_eq!(told, ["begun 9", "a@3", "b@5"]);
        assert_eq!(asked, [FIRST, PAGES]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_collection_that_disappears_meanwhile_is_not_empty() {
    let gone = || json!({"kind": "Status", "message": "gone"});
    let (told, end, _) = listed(move |query| match query {
        ALL | EXACTLY => (404, gone()),
        other => two(other),
    })
    .await;
    assert_eq!(told, ["begun 7"]);
    assert!(end.contains("expired while it was read"), "{end}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_of_another_moment_than_asked_is_not_taken() {
    let (told, end, _) = listed(move |query| match query {
        ALL => (504, json!({})),
        EXACTLY => (200, list(&both(), 8, "")),
        other => two(other),
    })
    .await;
    assert_eq!(told, ["begun 7"]);
    assert!(end.contains("expired while it was read"), "{end}");
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
            moment: then as u64,
            names: states[then].keys().cloned().collect(),
        };
        let text = list(&states[later], later as u64, "").to_string();
        let answer = Answer::of_json(200, &text);
        let page = Page::read(&answer, "CiliumNode").unwrap();
        let found = names.objects(&page, ObservedKind::CiliumNode).ok();
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
