//! A cluster file: reading, planning, applying, and reading again.

use std::collections::BTreeSet;
use std::num::NonZeroUsize;
use std::path::Path;

use serde_json::Value;
use tempfile::TempDir;

use crate::block_on::block_on;
use crate::{fixtures, plan_invariants};
use ipam_cilium::observed::{ANNOTATION_KEYS, CLAIMS_NAME, Observed};
use ipam_cluster::{ClusterError, Extent, FileCluster, Opening, observe, observe_files, snapshot};
use ipam_controller::apply::{Event, Outcome, Stop};
use ipam_controller::{Applied, Job, NoPorts, OnConflict, Sending, apply_until_settled};
use ipam_plan::plan::{AddressPoolChange, Change, Plan, node_changes};

/// In memory, where there is such a place: every run writes and syncs.
fn folder() -> TempDir {
    let memory = Path::new("/dev/shm");
    let folder = if memory.is_dir() {
        tempfile::tempdir_in(memory)
    } else {
        tempfile::tempdir()
    };
    folder.expect("a temporary folder can be made")
}

/// The bytes are the file.
pub fn check(data: &[u8]) {
    let folder = folder();
    let path = folder.path().join("cluster");
    std::fs::write(&path, data).expect("the file can be written");
    let Some((observed, plan, cluster)) = planned(&path) else {
        return;
    };
    plan_invariants::assert_plan(&plan, &fixtures::directory().desired, &observed);
    let _ = block_on(snapshot(&cluster));
    let before = text(&path);
    let Some(applied) = apply(&cluster, observed, plan) else {
        return;
    };
    drop(cluster);
    let after = text(&path);
    assert_kept(&before, &after, &applied);
    let (_, again, _) = planned(&path).expect("what was written can be read");
    assert!(
        again.changes.is_empty(),
        "applied, and planned again: {:?}",
        again.changes
    );
}

fn text(path: &Path) -> String {
    std::fs::read_to_string(path).expect("the file was read before")
}

/// The plan for the file; `None` if the file is refused with a reason.
fn planned(path: &Path) -> Option<(Observed, Plan, FileCluster)> {
    let refused = |error: ClusterError| drop(error.to_string());
    let in_one_pass = block_on(observe_files(&[path], Extent::Examination, None));
    let whole = FileCluster::open(path, Opening::Write).and_then(|cluster| {
        let observed = block_on(observe(&cluster, Extent::Examination))?;
        Ok((observed, cluster))
    });
    assert_same(whole.as_ref().map(|(observed, _)| observed), in_one_pass);
    let (observed, cluster) = whole.map_err(refused).ok()?;
    let plan = Job::files(fixtures::directory()).plan(&observed);
    Some((observed, plan, cluster))
}

/// Both ways to read a file observe the same, or refuse it for the same reason.
fn assert_same(whole: Result<&Observed, &ClusterError>, one_pass: Result<Observed, ClusterError>) {
    match (whole, one_pass) {
        (Ok(whole), Ok(one_pass)) => {
            let one_pass = Observed {
                at: whole.at,
                ..one_pass
            };
            assert_eq!(format!("{whole:#?}"), format!("{one_pass:#?}"));
        }
        (Err(whole), Err(one_pass)) => assert_eq!(whole.to_string(), one_pass.to_string()),
        (whole, one_pass) => panic!("{whole:?} is not {one_pass:?}"),
    }
}

/// No real server counts so far: there is no next version.
const LAST_VERSION: &str = "no resourceVersion is left";

/// There is no other writer, so every change is applied; `None` if there is no next version.
fn apply(cluster: &FileCluster, observed: Observed, plan: Plan) -> Option<Applied> {
    let stop = Stop::default();
    let mut on_event = |_: Event<'_>| {};
    // Few at a time, so that a small file has several batches.
    let (batch, parallelism) = (
        NonZeroUsize::MIN.saturating_add(1),
        NonZeroUsize::MIN.saturating_add(2),
    );
    let mut sending = Sending {
        batch,
        limit: parallelism.into(),
        on_conflict: OnConflict::Replan,
        stop: &stop,
        on_event: &mut on_event,
    };
    let job = Job::files(fixtures::directory());
    let (applied, failure) = block_on(apply_until_settled(
        cluster,
        &NoPorts,
        &job,
        observed,
        plan.changes,
        &mut sending,
    ));
    let is_last = |why: &str| why.contains(LAST_VERSION);
    let refused =
        |(_, outcome): &(_, Outcome)| matches!(outcome, Outcome::Refused(why) if is_last(why));
    if failure
        .as_ref()
        .is_some_and(|error| is_last(&error.to_string()))
        || applied.outcomes.iter().any(refused)
    {
        return None;
    }
    assert!(failure.is_none(), "it cannot be applied: {failure:?}");
    cluster.save_all().expect("the file can be replaced");
    for (change, outcome) in &applied.outcomes {
        assert!(*outcome == Outcome::Applied, "{outcome:?} of {change:?}");
    }
    Some(applied)
}

/// Everything but the fields that were written is as it was.
fn assert_kept(before: &str, after: &str, applied: &Applied) {
    if before == after {
        assert!(applied.outcomes.is_empty(), "nothing was written");
        return;
    }
    let changes = || applied.outcomes.iter().map(|(change, _)| change);
    let written: BTreeSet<&str> = node_changes(changes())
        .map(|change| change.node.as_str())
        .collect();
    let of_pools = |is_of: fn(&AddressPoolChange) -> bool| -> BTreeSet<String> {
        let pools = changes().filter_map(|change| match change {
            Change::AddressPool(pool) if is_of(pool) => Some(pool.object.name.to_string()),
            _ => None,
        });
        pools.collect()
    };
    let (deleted, created) = (
        of_pools(|pool| pool.after.is_none()),
        of_pools(|pool| pool.before.is_none()),
    );
    let (mut before, after) = (items(before), items(after));
    before.retain(|item| !(is_pool(item) && deleted.contains(name_of(item))));
    let most = before.len() + created.len() + 1;
    assert!(
        (before.len()..=most).contains(&after.len()),
        "{} items, then {}",
        before.len(),
        after.len()
    );
    for (index, (mut before, mut after)) in
        before.into_iter().zip(after.iter().cloned()).enumerate()
    {
        let is_of_nodes = name_of(&after) == CLAIMS_NAME || written.contains(name_of(&after));
        let is_of_balancers = is_pool(&after) || after.get("kind") == Some(&Value::from("Service"));
        if is_of_balancers {
            // What may be written of these is nearly all of them; that it is as planned is what
            // planning again tells.
            assert_eq!(
                name_of(&before),
                name_of(&after),
                "item {index} is another one"
            );
            continue;
        }
        if is_of_nodes {
            [&mut before, &mut after]
                .into_iter()
                .for_each(forget_written);
        }
        assert!(
            before == after,
            "item {index} is another one: {before} and {after}"
        );
    }
}

fn name_of(item: &Value) -> &str {
    item.pointer("/metadata/name")
        .and_then(Value::as_str)
        .unwrap_or_default()
}

fn is_pool(item: &Value) -> bool {
    item.get("kind") == Some(&Value::from("CiliumLoadBalancerIPPool"))
}

/// What may be written of a Node or the claims.
fn forget_written(object: &mut Value) {
    let mut remove = |pointer: &str, keys: &[&str]| {
        let Some(fields) = object.pointer_mut(pointer).and_then(Value::as_object_mut) else {
            return;
        };
        keys.iter().for_each(|key| drop(fields.remove(*key)));
    };
    remove("/metadata", &["uid", "resourceVersion"]);
    remove("/metadata/annotations", &ANNOTATION_KEYS);
    remove("/spec", &["podCIDR", "podCIDRs"]);
    remove("/data", &["claims.json"]);
    let mut remove_empty = |pointer: &str, key: &str| {
        let Some(fields) = object.pointer_mut(pointer).and_then(Value::as_object_mut) else {
            return;
        };
        // A value that is no object is replaced by one, as in a merge patch.
        let is_empty = |value: &Value| value.as_object().is_none_or(serde_json::Map::is_empty);
        if fields.get(key).is_some_and(is_empty) {
            fields.remove(key);
        }
    };
    remove_empty("/metadata", "annotations");
    remove_empty("", "spec");
    remove_empty("", "data");
}

/// The items of a list, read without the program.
fn items(text: &str) -> Vec<Value> {
    let text = text.trim_start_matches('\u{feff}');
    let options = serde_yaml::options! { strict_booleans: true };
    let list: Value = match text.trim_start().starts_with('{') {
        true => serde_json::from_str(text).expect("the list was read as JSON before"),
        false => serde_yaml::from_str_with_options(text, options)
            .expect("the list was read as YAML before"),
    };
    let items = list.get("items").and_then(Value::as_array).cloned();
    items.expect("a list has items")
}
