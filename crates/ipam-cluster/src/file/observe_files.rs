//! Observes cluster files in one pass, on all processors, without keeping the text of Nodes and
//! CiliumNodes. It must never report a fault: it gives up, and its caller reads the whole files,
//! which names the place.

use std::collections::BTreeMap;
use std::io::Read;
use std::num::NonZero;
use std::panic::resume_unwind;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use jiff::Timestamp;

use super::FileCluster;
use super::disk::{is_open_already, open_regular};
use super::item_splitter::{BATCH, Batch, Irregular, ItemSplitter};
use super::items::{ItemHead, ItemLocation};
use crate::ClusterError;
use crate::observe::{Extent, observe};
use ipam_cilium::observed::{Observed, ObservedKind, Reader, Understood};

/// Observes the cluster in one or more files. `cilium_namespace` is that of Cilium, if the user names
/// it.
///
/// # Errors
/// Fails as [`FileCluster::union`] and [`observe`] do.
pub async fn observe_files(
    paths: &[impl AsRef<Path>],
    extent: Extent,
    cilium_namespace: Option<&str>,
) -> Result<Observed, ClusterError> {
    match in_one_pass(paths, extent, Reader::of_cilium_in(cilium_namespace)) {
        Ok(observed) => Ok(observed),
        Err(Irregular) => {
            let cluster = FileCluster::union(paths)?;
            let cluster = cluster.with_cilium_in(cilium_namespace.map(str::to_owned));
            observe(&cluster, extent).await
        }
    }
}

/// An object of a kind that is observed.
struct Item {
    location: ItemLocation,
    content: Content,
}

enum Content {
    Understood(Understood),
    Json(String),
}

/// Items in the order of the files.
type Items = Vec<Item>;

fn in_one_pass(
    paths: &[impl AsRef<Path>],
    extent: Extent,
    reader: Reader,
) -> Result<Observed, Irregular> {
    let mut items = Items::new();
    for path in paths.iter().map(|path| path.as_ref()) {
        if is_open_already(path) {
            // It can be read only once.
            return Err(Irregular);
        }
        let file = open_regular(path).map_err(|_| Irregular)?;
        let length = file.metadata().map_err(|_| Irregular)?.len();
        let processors = thread::available_parallelism().map_or(1, NonZero::get);
        let batches = usize::try_from(length).map_or(processors, |length| 1 + length / BATCH);
        items.extend(items_of(file, BATCH, processors.min(batches), extent)?);
    }
    observed(items, extent, reader)
}

/// Reads on this thread, and parses on others.
fn items_of(
    input: impl Read,
    batch: usize,
    threads: usize,
    extent: Extent,
) -> Result<Items, Irregular> {
    let (send, receive) = sync_channel(threads);
    let receive = Arc::new(Mutex::new(receive));
    let has_fault = AtomicBool::new(false);
    let parse = |receive| {
        let parsed = parse_all(receive, extent);
        has_fault.fetch_or(parsed.is_err(), Ordering::Relaxed);
        parsed
    };
    let parse = &parse;
    let parts = thread::scope(|scope| {
        let mut parsers = Vec::new();
        for receive in vec![receive; threads] {
            let parser = thread::Builder::new().spawn_scoped(scope, move || parse(receive));
            parsers.push(parser.map_err(|_| Irregular)?);
        }
        let mut number = 0;
        let split = ItemSplitter::new(input).split(batch, |batch| {
            number += 1;
            match has_fault.load(Ordering::Relaxed) {
                true => Err(Irregular),
                false => send.send((number, batch)).map_err(|_| Irregular),
            }
        });
        drop(send);
        let parts = parsers
            .into_iter()
            .map(|parser| parser.join().unwrap_or_else(|panic| resume_unwind(panic)));
        let parts: Result<Vec<_>, Irregular> = parts.collect();
        split.and(parts)
    })?;
    let parts: BTreeMap<usize, Items> = parts.into_iter().flatten().collect();
    Ok(parts.into_values().flatten().collect())
}

/// Parses batches until there are no more, and keeps their numbers. When all parsers have ended,
/// nothing can be sent any more.
fn parse_all(
    batches: Arc<Mutex<Receiver<(usize, Batch)>>>,
    extent: Extent,
) -> Result<Vec<(usize, Items)>, Irregular> {
    let next = || {
        let receiver = batches.lock().unwrap_or_else(PoisonError::into_inner);
        receiver.recv().ok()
    };
    let mut parsed = Vec::new();
    while let Some((number, batch)) = next() {
        let items = batch
            .items()
            .filter_map(|item| item_of(item, extent).transpose());
        parsed.push((number, items.collect::<Result<_, _>>()?));
    }
    Ok(parsed)
}

/// `None` if its kind is not observed.
fn item_of(text: &[u8], extent: Extent) -> Result<Option<Item>, Irregular> {
    let text = std::str::from_utf8(text).map_err(|_| Irregular)?;
    let head = ItemHead::read(text).map_err(|_| Irregular)?;
    if head.is_list() {
        return Err(Irregular);
    }
    let Some(kind) = head.observed_kind().map_err(|_| Irregular)? else {
        return Ok(None);
    };
    let json = head.identified(text).map_err(|_| Irregular)?;
    if !extent.kinds().any(|of| of == kind) {
        return Ok(None);
    }
    let content = match Understood::of(kind, json.as_deref().unwrap_or(text)) {
        Some(understood) => Content::Understood(understood),
        None => Content::Json(json.unwrap_or_else(|| text.to_owned())),
    };
    let location = head.location(kind);
    Ok(Some(Item { location, content }))
}

fn observed(items: Items, extent: Extent, mut reader: Reader) -> Result<Observed, Irregular> {
    if has_twins(&items) {
        return Err(Irregular);
    }
    let mut of_kinds: BTreeMap<ObservedKind, Vec<Content>> = BTreeMap::new();
    for Item { location, content } in items {
        of_kinds.entry(location.kind).or_default().push(content);
    }
    for kind in extent.kinds() {
        for content in of_kinds.remove(&kind).unwrap_or_default() {
            match content {
                Content::Understood(understood) => reader.understood(&understood),
                Content::Json(json) => reader.object(kind, &json).map_err(|_| Irregular)?,
            }
        }
    }
    Ok(reader.finish(Timestamp::now()))
}

/// Whether one object would hide another one.
fn has_twins(items: &[Item]) -> bool {
    let locations = items.iter().map(|item| &item.location);
    let mut unique: Vec<_> = locations.filter(|location| location.is_unique()).collect();
    unique.sort_unstable();
    unique.windows(2).any(|pair| pair[0] == pair[1])
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn node(name: &str) -> Value {
        json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name},
            "spec": {"podCIDR": "10.0.0.0/24", "podCIDRs": ["10.0.0.0/24"]}})
    }

    fn list(items: &[Value]) -> String {
        json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string()
    }

    fn read(text: &str, batch: usize) -> Result<Observed, Irregular> {
        observed(
            items_of(text.as_bytes(), batch, 2, Extent::Plan)?,
            Extent::Plan,
            Reader::default(),
        )
    }

    async fn read_whole(text: &str) -> Observed {
        let cluster = FileCluster::of_text(Path::new("cluster.json"), text.to_owned()).unwrap();
        observe(&cluster, Extent::Plan).await.unwrap()
    }

    #[tokio::test]
    async fn one_pass_observes_what_the_whole_file_shows() {
        let mut identified = node("n2");
        identified["metadata"]["uid"] = json!("3f0c");
        identified["metadata"]["resourceVersion"] = json!("7");
        let of_cilium = json!({"apiVersion": "cilium.io/v2", "kind": "CiliumNode",
            "metadata": {"name": "n1"}, "spec": {"ipam": {"podCIDRs": ["10.0.1.0/24"]}}});
        let service = json!({"apiVersion": "v1", "kind": "Service",
            "metadata": {"name": "web", "namespace": "default"}, "spec": {"type": "LoadBalancer"}});
        let unread = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}});
        let no_name = node("Not A Name");
        let text = list(&[node("n1"), unread, identified, of_cilium, service, no_name]);
        let whole = read_whole(&text).await;
        assert_eq!(whole.nodes.len(), 2);
        for batch in [1, 100, BATCH] {
            let one_pass = Observed {
                at: whole.at,
                ..read(&text, batch).unwrap()
            };
            assert_eq!(format!("{one_pass:#?}"), format!("{whole:#?}"), "{batch}");
        }
    }

    #[test]
    fn a_fault_ends_the_pass_wherever_it_is() {
        let faults = [
            node("n7"),
            json!({"kind": "Node", "metadata": {"name": "no-version"}}),
            json!({"apiVersion": "v1", "kind": "Node", "metadata": ["no object"]}),
            json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}, "spec": 1}),
        ];
        for fault in faults {
            let mut items: Vec<Value> = (0..40).map(|n| node(&format!("n{n}"))).collect();
            items.insert(20, fault);
            for batch in [1, 100, BATCH] {
                assert!(
                    read(&list(&items), batch).is_err(),
                    "{batch}: {}",
                    items[20]
                );
            }
        }
    }
}
