//! What a mirror knows, and what each notice does to it. Pure, so that every order of notices can
//! be tried.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;

use super::kept::{
    Kept, Object, Owed, WITH_BLOCKS, claims_version, key, number, object_of, version,
};
use super::rollback::{self, Rollback, Writes};
use crate::{ObjectEvent, Operation, Seen, Target, Write, WriteError, Written};
use ipam_cilium::observed::ObservedKind;
use ipam_core::model::NodeName;
use ipam_core::net::Block;

/// What came of a notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Heard {
    Nothing,
    Change,
    ReadAnew,
}

/// What it is kept for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Use {
    /// Plans are made from it.
    Plans,
    /// Another process makes them; this one remembers.
    #[default]
    Memory,
}

#[derive(Debug, Default)]
pub(super) struct State {
    kept_for: Use,
    pub(super) kinds: BTreeMap<ObservedKind, Kept>,
    /// Blocks that vanished from an object, with the moment.
    vanished: Vec<(Block, u64)>,
    /// Our writes that do not show yet, by object, each with the number of its answer.
    owed: BTreeMap<(ObservedKind, String), (Owed, u64)>,
    /// Blocks that these writes give to nodes.
    given: BTreeMap<String, Vec<Block>>,
    /// What claims keep for nodes that we sent, where those that were heard of may be older.
    spoken_for: BTreeSet<(Block, NodeName)>,
    /// The cluster went back in time, and what it forgot is not quarantined yet.
    rollback: Option<Rollback>,
    /// Writes that were answered so far.
    answers: u64,
    /// How often something demanded that all is read anew. Until that has been done there is
    /// nothing to be planned from.
    demands: u64,
    /// Demands that are met.
    met: u64,
    /// Version of the claims that we wrote last.
    claims_written: u64,
    /// The claims are being written: whose a newer version is will be known with the answer.
    is_writing_claims: bool,
    /// Nodes that changed since it was asked last, by name; `None` is everything.
    touched: Option<BTreeSet<String>>,
    /// What does not work at the moment, by resource; by nothing where it is all of them.
    trouble: BTreeMap<&'static str, String>,
}

/// A moment at which reading everything began.
#[derive(Clone, Copy, Debug)]
pub(super) struct Beginning {
    answers: u64,
    demands: u64,
}

impl State {
    /// Plans are made from it from now on. What was read before may be old.
    pub(super) fn begin_term(&mut self) {
        self.kept_for = Use::Plans;
        self.demands += 1;
    }

    /// No plans are made from it.
    pub(super) fn end_term(&mut self) {
        self.kept_for = Use::Memory;
    }

    /// Whether plans are made from it.
    pub(super) fn is_planned_from(&self) -> bool {
        self.kept_for == Use::Plans
    }

    /// Everything is about to be read.
    pub(super) fn begin(&self) -> Beginning {
        Beginning {
            answers: self.answers,
            demands: self.demands,
        }
    }

    /// Begins anew with what was read since then. What was answered meanwhile may be younger than
    /// the lists.
    pub(super) fn replace(&mut self, kinds: BTreeMap<ObservedKind, Kept>, begun: Beginning) {
        self.notice_rollback(&kinds, begun);
        self.kinds = kinds;
        self.vanished.clear();
        self.touched = None;
        self.trouble.clear();
        self.met = begun.demands;
        let answered_since = std::mem::take(&mut self.owed)
            .into_iter()
            .filter(|(_, (_, at))| *at > begun.answers);
        let owed: Vec<_> = answered_since.collect();
        for ((kind, key), (owed, answer)) in owed {
            self.owe(kind, key, owed, answer);
        }
        let is_owed = |name: &String| {
            self.owed
                .keys()
                .any(|(kind, owed)| kind.shows_pod_cidrs() && owed == name)
        };
        self.given.retain(|name, _| is_owed(name));
        if !self
            .owed
            .keys()
            .any(|(kind, _)| *kind == ObservedKind::Claims)
        {
            self.claims_written = self.claims_seen();
            self.claims_are_heard_of();
        }
        self.leave_rollback_to_another();
    }

    /// Nothing that we claimed is unheard of, unless it is under way.
    fn claims_are_heard_of(&mut self) {
        if !self.is_writing_claims {
            self.spoken_for.clear();
        }
    }

    /// What is listed may be older than what was known.
    fn notice_rollback(&mut self, listed: &BTreeMap<ObservedKind, Kept>, begun: Beginning) {
        let written = self.given.iter().flat_map(|(name, blocks)| {
            let name: Option<NodeName> = name.parse().ok();
            blocks
                .iter()
                .filter_map(move |block| Some((*block, name.clone()?)))
        });
        let unseen: Vec<_> = self.spoken_for.iter().cloned().chain(written).collect();
        let answered = self.owed.iter().filter(|(_, (_, at))| *at <= begun.answers);
        let writes = Writes::of(answered.map(|(object, (owed, _))| (object, owed)), listed);
        let Some(mut rollback) = rollback::between(&self.kinds, listed, &unseen, writes) else {
            return;
        };
        // What was forgotten at an earlier one is not quarantined yet.
        for (block, node) in self
            .rollback
            .take()
            .into_iter()
            .flat_map(|earlier| earlier.forgotten)
        {
            rollback::note(&mut rollback.forgotten, block, node);
        }
        self.rollback = Some(rollback);
    }

    /// That the cluster went back in time, with the blocks that it forgot and that no object shows
    /// by now.
    pub(super) fn rollback(&self) -> Option<Rollback> {
        let mut rollback = self.rollback.clone()?;
        rollback::leave_out_shown(&self.kinds, &mut rollback.forgotten);
        Some(rollback)
    }

    /// From where to where it went back, where that is not settled yet.
    pub(super) fn rollback_at(&self) -> Option<(u64, u64)> {
        self.rollback
            .as_ref()
            .map(|rollback| (rollback.from, rollback.to))
    }

    /// A process that stands by need not quarantine what the one that leads has.
    fn leave_rollback_to_another(&mut self) {
        let rollback = self.rollback().filter(|_| self.kept_for == Use::Memory);
        if rollback
            .is_some_and(|rollback| rollback::is_quarantined(&self.kinds, &rollback.forgotten))
        {
            self.rollback = None;
        }
    }

    /// What it forgot then is quarantined. It may have gone back once more since.
    pub(super) fn rollback_is_settled(&mut self, settled: &Rollback) {
        if self.rollback_at() == Some((settled.from, settled.to)) {
            self.rollback = None;
        }
    }

    /// The newest moment of all that was heard of.
    pub(super) fn newest(&self) -> u64 {
        self.kinds
            .values()
            .map(|kept| kept.reached)
            .max()
            .unwrap_or_default()
            .max(self.claims_written)
    }

    /// Whether all was read at least once.
    pub(super) fn is_read(&self) -> bool {
        !self.kinds.is_empty()
    }

    pub(super) fn is_complete(&self) -> bool {
        self.is_read()
            && self.owed.is_empty()
            && self.met == self.demands
            && self.rollback.is_none()
    }

    fn read_anew(&mut self) -> Heard {
        self.demands += 1;
        Heard::ReadAnew
    }

    /// What does not work.
    pub(super) fn trouble(&self) -> Option<String> {
        let trouble: BTreeSet<&str> = self.trouble.values().map(String::as_str).collect();
        (!trouble.is_empty()).then(|| trouble.into_iter().collect::<Vec<_>>().join("; "))
    }

    /// Notes that something does not work; `None` is everything.
    pub(super) fn has_trouble(&mut self, kind: Option<ObservedKind>, why: String) {
        self.trouble
            .insert(kind.map_or("", ObservedKind::resource), why);
    }

    /// Where to go on with a kind.
    pub(super) fn position(&self, kind: ObservedKind) -> Option<(Seen, String, u64)> {
        let kept = self.kinds.get(&kind)?;
        Some((kept.seen.clone(), kept.namespace.clone(), kept.reached))
    }

    /// Blocks that vanished somewhere, and may have come up elsewhere in what was not heard yet.
    pub(super) fn lingering(&self) -> BTreeSet<Block> {
        let mut lingering: BTreeSet<Block> =
            self.vanished.iter().map(|(block, _)| *block).collect();
        if !lingering.is_empty() {
            let kinds = WITH_BLOCKS.iter().filter_map(|kind| self.kinds.get(kind));
            let shown = kinds
                .flat_map(|kept| kept.objects.values())
                .flat_map(|object| &object.blocks);
            shown.for_each(|block| {
                lingering.remove(block);
            });
        }
        lingering
    }

    pub(super) fn on_event(&mut self, kind: ObservedKind, object_event: ObjectEvent<'_>) -> Heard {
        self.trouble.remove(kind.resource());
        let Some(kept) = self.kinds.get_mut(&kind) else {
            return Heard::Nothing;
        };
        let at = match object_event {
            ObjectEvent::Bookmark(version) => version.parse().unwrap_or(0),
            ObjectEvent::Changed(object) | ObjectEvent::Deleted(object) => version(object),
        };
        if at < kept.reached {
            // A watch never tells of what was before it began: the server went back in time.
            return self.read_anew();
        }
        let heard = match object_event {
            ObjectEvent::Bookmark(_) => {
                kept.reached = at;
                Heard::Nothing
            }
            ObjectEvent::Changed(object) => self.changed(kind, object),
            ObjectEvent::Deleted(object) => self.gone(kind, object),
        };
        let is_known = self.forget_vanished();
        if is_known {
            self.touched = None;
        }
        match heard {
            Heard::Nothing if is_known => Heard::Change,
            heard => heard,
        }
    }

    fn touch(&mut self, kind: ObservedKind, key: &str) {
        match kind {
            ObservedKind::Node | ObservedKind::CiliumNode => {
                if let Some(touched) = &mut self.touched {
                    touched.insert(key.to_owned());
                }
            }
            // Only ours are heard of without reading anew.
            ObservedKind::Claims => {}
            _ => self.touched = None,
        }
    }

    /// Nodes that changed since the last time, by name; `None` is everything, and stays so until
    /// all is seen.
    pub(super) fn take_touched(&mut self) -> Option<BTreeSet<String>> {
        self.touched.as_mut().map(std::mem::take)
    }

    /// From now on nothing has changed.
    pub(super) fn all_is_seen(&mut self) {
        self.touched = Some(BTreeSet::new());
    }

    /// An object, if there is one.
    pub(super) fn json(&self, kind: ObservedKind, key: &str) -> Option<Arc<str>> {
        Some(self.kinds.get(&kind)?.objects.get(key)?.json.clone())
    }

    fn changed(&mut self, kind: ObservedKind, object: &Value) -> Heard {
        let (key, at) = (key(object), version(object));
        let Some(kept) = self.kinds.get_mut(&kind) else {
            return Heard::Nothing;
        };
        kept.reached = kept.reached.max(at);
        if kept
            .objects
            .get(&key)
            .is_some_and(|known| known.version > at)
        {
            return Heard::Nothing;
        }
        let are_claims_of_another =
            kind == ObservedKind::Claims && !self.is_writing_claims && at > self.claims_written;
        let new = Object::new(kind, object);
        let is_owed = self.owed.get(&(kind, key.clone()));
        let was_paid = is_owed.is_some_and(|(owed, _)| new.pays(owed));
        if was_paid {
            self.owed.remove(&(kind, key.clone()));
            self.given.remove(&key);
        }
        let old = Arc::make_mut(&mut kept.objects).insert(key.clone(), new.clone());
        let is_same = old.as_ref().is_some_and(|old| old.meaning == new.meaning);
        if !is_same {
            self.touch(kind, &key);
        }
        if kind == ObservedKind::Claims && at >= self.claims_written {
            self.claims_are_heard_of();
        }
        for block in old
            .into_iter()
            .flat_map(|old| old.blocks)
            .filter(|block| !new.blocks.contains(block))
        {
            self.vanished.push((block, at));
        }
        match kind {
            ObservedKind::Claims if are_claims_of_another => {
                self.leave_rollback_to_another();
                self.read_anew()
            }
            // The settings lie beside it.
            ObservedKind::CiliumDaemonSet if !is_same => self.read_anew(),
            _ if is_same && !was_paid => Heard::Nothing,
            _ => Heard::Change,
        }
    }

    fn gone(&mut self, kind: ObservedKind, object: &Value) -> Heard {
        let (key, at) = (key(object), version(object));
        let Some(kept) = self.kinds.get_mut(&kind) else {
            return Heard::Nothing;
        };
        kept.reached = kept.reached.max(at);
        if kind == ObservedKind::Claims {
            // What they kept is compared with the next list.
            return self.read_anew();
        }
        let old = Arc::make_mut(&mut kept.objects).remove(&key);
        self.vanished.extend(
            old.into_iter()
                .flat_map(|old| old.blocks)
                .map(|block| (block, at)),
        );
        self.touch(kind, &key);
        self.owed.remove(&(kind, key));
        match kind {
            ObservedKind::CiliumDaemonSet => self.read_anew(),
            _ => Heard::Change,
        }
    }

    /// Whether something vanished for good: all that could tell where it went has been heard.
    fn forget_vanished(&mut self) -> bool {
        let reached = WITH_BLOCKS.iter().filter_map(|kind| self.kinds.get(kind));
        let reached = reached
            .filter(|kept| kept.seen == Seen::All)
            .map(|kept| kept.reached)
            .min()
            .unwrap_or(0);
        let before = self.vanished.len();
        self.vanished.retain(|(_, at)| *at > reached);
        self.vanished.len() < before
    }

    fn claims_seen(&self) -> u64 {
        claims_version(&self.kinds)
    }

    /// The newest version of the claims that was read, heard of or written.
    pub(super) fn claims_known(&self) -> u64 {
        self.claims_seen().max(self.claims_written)
    }

    /// A write is about to be sent.
    pub(super) fn writing(&mut self, write: &Write) {
        if let (Target::Claims, Operation::Patch(content) | Operation::Create(content)) =
            (&write.target, &write.operation)
        {
            self.is_writing_claims = true;
            self.spoken_for.extend(rollback::held_by_claims(content));
        }
    }

    /// A write was answered.
    pub(super) fn written(&mut self, write: &Write, answer: &Result<Written, WriteError>) -> Heard {
        self.answers += 1;
        if let (Ok(Written { version }), Some((kind, key))) = (answer, object_of(&write.target)) {
            let owed = match &write.operation {
                Operation::Delete(deleted) => Owed::End(deleted.uid.clone()),
                Operation::Patch(_) | Operation::Apply(_) | Operation::Create(_) => {
                    Owed::Version(number(version))
                }
            };
            let given = match &write.operation {
                Operation::Patch(patch) | Operation::Create(patch) if kind.shows_pod_cidrs() => {
                    rollback::blocks_written(patch)
                }
                _ => Vec::new(),
            };
            self.owe(kind, key.clone(), owed, self.answers);
            if !given.is_empty() && self.owed.contains_key(&(kind, key.clone())) {
                self.given.insert(key, given);
            }
        }
        if write.target != Target::Claims {
            return Heard::Nothing;
        }
        self.is_writing_claims = false;
        match answer {
            Ok(Written { version }) => {
                self.claims_written = self.claims_written.max(number(version));
                if self.claims_seen() > self.claims_written {
                    self.read_anew()
                } else {
                    Heard::Nothing
                }
            }
            // Which claims there are now is known only by looking.
            Err(WriteError::Superseded(_) | WriteError::Unknown(_)) => self.read_anew(),
            Err(_) if self.claims_seen() > self.claims_written => self.read_anew(),
            Err(_) => Heard::Nothing,
        }
    }

    fn owe(&mut self, kind: ObservedKind, key: String, owed: Owed, answer: u64) {
        let Some(kept) = self.kinds.get(&kind).filter(|kept| kept.seen == Seen::All) else {
            return;
        };
        if !kept.pays(&key, &owed) {
            self.owed.insert((kind, key), (owed, answer));
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use ipam_cilium::observed::{CLAIMS_NAME, OWN_NAMESPACE, ObjectVersion};

    fn object(name: &str, at: u64, block: Option<&str>) -> Value {
        let blocks: Vec<&str> = block.into_iter().collect();
        let metadata =
            json!({"name": name, "uid": format!("{name}-uid"), "resourceVersion": at.to_string()});
        json!({"metadata": metadata, "spec": {"podCIDRs": blocks, "ipam": {"podCIDRs": blocks}}})
    }

    fn claims(at: u64) -> Value {
        let metadata = json!({"namespace": OWN_NAMESPACE, "name": CLAIMS_NAME, "resourceVersion": at.to_string()});
        json!({"metadata": metadata})
    }

    /// Node `n` with a block, read at 10, and no CiliumNodes.
    fn state() -> State {
        let kinds = [
            ObservedKind::Claims,
            ObservedKind::CiliumNode,
            ObservedKind::Node,
        ];
        let mut kept: BTreeMap<ObservedKind, Kept> = kinds.map(|kind| (kind, Kept::of(""))).into();
        for one in kept.values_mut() {
            one.begin("10");
        }
        kept.get_mut(&ObservedKind::Node)
            .unwrap()
            .put(ObservedKind::Node, &object("n", 5, Some("10.0.0.0/24")));
        kept.get_mut(&ObservedKind::Claims)
            .unwrap()
            .put(ObservedKind::Claims, &claims(9));
        let mut state = State::default();
        let begun = state.begin();
        state.replace(kept, begun);
        state
    }

    fn lingering(state: &State) -> Vec<String> {
        state.lingering().iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_block_that_vanishes_lingers_until_it_is_known_where_it_went() {
        let mut state = state();
        assert_eq!(
            state.on_event(
                ObservedKind::Node,
                ObjectEvent::Deleted(&object("n", 12, Some("10.0.0.0/24")))
            ),
            Heard::Change
        );
        assert_eq!(
            state.on_event(
                ObservedKind::Node,
                ObjectEvent::Changed(&object("n", 13, None))
            ),
            Heard::Change
        );
        assert_eq!(lingering(&state), ["10.0.0.0/24"]);
        // The agent had started before the Node was deleted, which is heard of only now.
        state.on_event(
            ObservedKind::CiliumNode,
            ObjectEvent::Changed(&object("n", 11, Some("10.0.0.0/24"))),
        );
        assert_eq!(lingering(&state), [""; 0], "an object shows it");
        state.on_event(
            ObservedKind::CiliumNode,
            ObjectEvent::Deleted(&object("n", 14, Some("10.0.0.0/24"))),
        );
        assert_eq!(
            lingering(&state),
            ["10.0.0.0/24"],
            "and then none does, but the Node may"
        );
        assert_eq!(
            state.on_event(ObservedKind::Node, ObjectEvent::Bookmark("20")),
            Heard::Change
        );
        assert_eq!(lingering(&state), [""; 0]);
    }

    #[test]
    fn what_says_nothing_new_wakes_nobody() {
        let mut state = state();
        let heartbeat = object("n", 11, Some("10.0.0.0/24"));
        assert_eq!(
            state.on_event(ObservedKind::Node, ObjectEvent::Changed(&heartbeat)),
            Heard::Nothing
        );
        let kept = &state.kinds[&ObservedKind::Node];
        assert!(
            kept.objects
                .values()
                .any(|object| object.json.contains(r#""resourceVersion":"11""#)),
            "but its version counts"
        );
        assert_eq!(state.position(ObservedKind::Node).unwrap().2, 11);
        assert!(state.is_complete());
    }

    #[test]
    fn a_notice_of_an_earlier_time_demands_that_all_is_read_anew() {
        for object_event in [
            ObjectEvent::Changed(&object("n", 6, None)),
            ObjectEvent::Deleted(&object("n", 6, None)),
            ObjectEvent::Bookmark("9"),
        ] {
            let mut state = state();
            assert_eq!(
                state.on_event(ObservedKind::Node, object_event),
                Heard::ReadAnew,
                "{object_event:?}"
            );
            assert!(!state.is_complete() && lingering(&state).is_empty());
        }
    }

    #[test]
    fn a_lost_swap_of_the_claims_demands_that_all_is_read_anew() {
        let mut state = state();
        state.writing(&write(Target::Claims));
        let lost = Err(WriteError::Superseded("changed".to_owned()));
        assert_eq!(
            state.written(&write(Target::Claims), &lost),
            Heard::ReadAnew,
            "nobody was heard of, and still"
        );
        assert!(!state.is_complete());
    }

    fn forgotten(state: &State) -> Vec<String> {
        let rollback = state.rollback().unwrap();
        rollback
            .forgotten
            .iter()
            .map(|(block, node)| format!("{block} {node}"))
            .collect()
    }

    /// All is read as it was at an earlier moment, when there were no nodes.
    fn go_back(state: &mut State, at: &str) {
        let mut earlier = self::state().kinds;
        for kept in earlier.values_mut() {
            kept.begin(at);
        }
        std::sync::Arc::make_mut(&mut earlier.get_mut(&ObservedKind::Node).unwrap().objects)
            .clear();
        let begun = state.begin();
        state.replace(earlier, begun);
    }

    #[test]
    fn what_we_claimed_is_remembered_before_it_is_heard_of() {
        let record = r#"{"format_version":"1.0","claims":[{"block":"10.0.2.0/24","node":"p","uid":"u","resource_version":"7"}]}"#;
        let claim = || Write {
            target: Target::Claims,
            operation: Operation::Patch(
                json!({"data": {(ipam_cilium::observed::CLAIMS_KEY): record}}),
            ),
        };
        let unknown = || Err(WriteError::Unknown("no answer".to_owned()));
        for answer in [answered(12), unknown()] {
            let mut state = state();
            state.writing(&claim());
            state.written(&claim(), &answer);
            go_back(&mut state, "7");
            assert_eq!(
                forgotten(&state),
                ["10.0.0.0/24 n", "10.0.2.0/24 p"],
                "{answer:?}"
            );
        }
        let mut state = state();
        state.writing(&claim());
        state.written(&claim(), &answered(12));
        state.on_event(ObservedKind::Claims, ObjectEvent::Changed(&claims(12)));
        state.on_event(ObservedKind::Claims, ObjectEvent::Changed(&claims(13)));
        go_back(&mut state, "7");
        assert_eq!(forgotten(&state), ["10.0.0.0/24 n"], "it was settled since");
    }

    #[test]
    fn a_write_that_lists_do_not_have_tells_that_the_cluster_went_back() {
        let node = || Target::Node("n".parse().unwrap());
        for (target, listed) in [
            (node(), "11"),
            (Target::Claims, "11"),
            (node(), "1000"),
            (Target::Claims, "1000"),
        ] {
            let mut state = state();
            state.begin_term();
            let mut lists = self::state().kinds;
            lists.values_mut().for_each(|kept| kept.begin(listed));
            if target == Target::Claims {
                // Nobody had claimed anything before.
                for kinds in [&mut state.kinds, &mut lists] {
                    kinds.get_mut(&ObservedKind::Claims).unwrap().objects = Arc::default();
                }
            }
            state.written(&write(target.clone()), &answered(12));
            let begun = state.begin();
            state.replace(lists, begun);
            assert!(state.rollback().is_some(), "{target:?} {listed}");
        }
    }

    #[test]
    fn claims_that_are_deleted_are_kept_in_mind() {
        let mut state = state();
        let mut full = claims(11);
        full["data"][ipam_cilium::observed::CLAIMS_KEY] = json!(
            r#"{"format_version":"1.0","resting":[{"block":"10.0.2.0/24","node":"p","free_at":"2026-01-02T03:04:05Z"}]}"#
        );
        state.on_event(ObservedKind::Claims, ObjectEvent::Changed(&full));
        assert_eq!(
            state.on_event(ObservedKind::Claims, ObjectEvent::Deleted(&claims(12))),
            Heard::ReadAnew
        );
        let mut later = self::state().kinds;
        later.values_mut().for_each(|kept| kept.begin("13"));
        later.get_mut(&ObservedKind::Claims).unwrap().objects = Arc::default();
        let begun = state.begin();
        state.replace(later, begun);
        assert_eq!(forgotten(&state), ["10.0.2.0/24 p"]);
    }

    #[test]
    fn one_that_stands_by_remembers_and_reads_anew_only_when_its_term_begins() {
        let mut state = state();
        assert!(!state.is_planned_from());
        go_back(&mut state, "7");
        state.begin_term();
        assert!(
            state.is_planned_from() && !state.is_complete(),
            "what was read before may be old"
        );
        assert_eq!(forgotten(&state), ["10.0.0.0/24 n"]);
        let rollback = state.rollback().unwrap();
        state.rollback_is_settled(&rollback);
        let (kinds, begun) = (state.kinds.clone(), state.begin());
        state.replace(kinds, begun);
        assert!(state.is_complete());
        state.end_term();
        assert!(!state.is_planned_from());
    }

    #[test]
    fn one_that_stands_by_leaves_a_rollback_to_another_that_quarantined_all_of_it() {
        let quarantined = |block: &str| {
            let mut claims = claims(20);
            let record = format!(
                r#"{{"format_version":"1.0","resting":[{{"block":"{block}","node":"n","free_at":"2026-01-02T03:04:05Z"}}]}}"#
            );
            claims["data"][ipam_cilium::observed::CLAIMS_KEY] = json!(record);
            claims
        };
        for (block, is_left, planned_from) in [
            ("10.0.0.0/24", true, false),
            ("10.0.9.0/24", false, false),
            ("10.0.0.0/24", false, true),
        ] {
            let mut state = state();
            go_back(&mut state, "7");
            if planned_from {
                state.begin_term();
            }
            state.on_event(
                ObservedKind::Claims,
                ObjectEvent::Changed(&quarantined(block)),
            );
            assert_eq!(
                state.rollback().is_none(),
                is_left,
                "{block} {planned_from}"
            );
        }
    }

    #[test]
    fn what_a_cluster_forgot_must_be_quarantined_first() {
        let mut state = state();
        let target = Target::Node("m".parse().unwrap());
        let patch = json!({"spec": {"podCIDRs": ["10.0.1.0/24"]}});
        state.written(
            &Write {
                target,
                operation: Operation::Patch(patch),
            },
            &answered(12),
        );
        go_back(&mut state, "7");
        assert!(!state.is_complete());
        assert_eq!(forgotten(&state), ["10.0.0.0/24 n", "10.0.1.0/24 m"]);
        let rollback = state.rollback().unwrap();
        state.rollback_is_settled(&rollback);
        assert!(state.is_complete());
    }

    fn write(target: Target) -> Write {
        Write {
            target,
            operation: Operation::Patch(json!({})),
        }
    }

    fn answered(at: u64) -> Result<Written, WriteError> {
        Ok(Written {
            version: ObjectVersion {
                uid: "u".to_owned(),
                resource_version: at.to_string(),
            },
        })
    }

    #[test]
    fn what_we_wrote_must_show_first() {
        let mut state = state();
        let target = Target::Node("n".parse().unwrap());
        state.written(&write(target.clone()), &answered(12));
        assert!(!state.is_complete());
        state.on_event(
            ObservedKind::Node,
            ObjectEvent::Changed(&object("n", 11, None)),
        );
        assert!(!state.is_complete());
        assert_eq!(
            state.on_event(
                ObservedKind::Node,
                ObjectEvent::Changed(&object("n", 12, None))
            ),
            Heard::Change
        );
        assert!(state.is_complete());
        state.written(&write(target), &answered(12));
        assert!(
            state.is_complete(),
            "it was heard of before the answer came"
        );
    }

    #[test]
    fn what_was_answered_while_all_was_read_is_still_owed() {
        let mut state = state();
        let again = self::state().kinds;
        let begun = state.begin();
        let target = Target::Node("n".parse().unwrap());
        state.written(&write(target), &answered(12));
        state.replace(again.clone(), begun);
        assert!(!state.is_complete(), "the list may be older than the write");
        let begun = state.begin();
        let mut later = again;
        later
            .get_mut(&ObservedKind::Node)
            .unwrap()
            .put(ObservedKind::Node, &object("n", 12, Some("10.0.0.0/24")));
        state.replace(later, begun);
        assert!(
            state.is_complete(),
            "a list that began after the answer has it"
        );
    }

    #[test]
    fn what_we_deleted_must_be_gone_or_going_or_another_one() {
        let target = Target::Node("n".parse().unwrap());
        let delete = |uid: &str| Write {
            target: target.clone(),
            operation: Operation::Delete(ObjectVersion {
                uid: uid.to_owned(),
                resource_version: "5".to_owned(),
            }),
        };
        let mut state = state();
        state.written(&delete("n-uid"), &answered(0));
        assert!(!state.is_complete());
        let mut going = object("n", 12, None);
        going["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        state.on_event(ObservedKind::Node, ObjectEvent::Changed(&going));
        assert!(state.is_complete());
        state.written(&delete("an-earlier-uid"), &answered(0));
        assert!(state.is_complete());
    }

    #[test]
    fn claims_of_somebody_else_demand_that_all_is_read_anew() {
        let mut state = state();
        assert_eq!(
            state.on_event(ObservedKind::Claims, ObjectEvent::Changed(&claims(12))),
            Heard::ReadAnew
        );
        assert!(!state.is_complete(), "Nodes may be older than these claims");
        let begun = state.begin();
        assert_eq!(
            state.on_event(ObservedKind::Claims, ObjectEvent::Changed(&claims(13))),
            Heard::ReadAnew
        );
        state.replace(self::state().kinds, begun);
        assert!(!state.is_complete(), "it was demanded again meanwhile");
        let mut state = self::state();
        state.writing(&write(Target::Claims));
        assert_eq!(
            state.on_event(ObservedKind::Claims, ObjectEvent::Changed(&claims(12))),
            Heard::Nothing,
            "ours, perhaps"
        );
        assert_eq!(
            state.written(&write(Target::Claims), &answered(12)),
            Heard::Nothing
        );
        assert_eq!(
            state.on_event(ObservedKind::Claims, ObjectEvent::Changed(&claims(13))),
            Heard::ReadAnew
        );
        let mut state = self::state();
        state.writing(&write(Target::Claims));
        state.on_event(ObservedKind::Claims, ObjectEvent::Changed(&claims(12)));
        let lost = Err(WriteError::Superseded("changed".to_owned()));
        assert_eq!(
            state.written(&write(Target::Claims), &lost),
            Heard::ReadAnew
        );
    }

    /// What happened, in order: the moment, the kind, the object's name, and its block from then
    /// on; `None` when it is gone.
    type Happening = (u64, ObservedKind, usize, Option<u8>);

    /// A block is in the world from the moment on at which an object shows it, until none does.
    fn shown_all_the_time(happenings: &[Happening], block: u8, from: u64, to: u64) -> bool {
        (from..=to).all(|moment| {
            let mut objects: BTreeMap<(ObservedKind, usize), Option<u8>> = BTreeMap::new();
            for (at, kind, name, shows) in happenings.iter().filter(|(at, ..)| *at <= moment) {
                let _ = at;
                objects.insert((*kind, *name), *shows);
            }
            objects.values().any(|shows| *shows == Some(block))
        })
    }

    #[test]
    fn whatever_was_shown_all_the_time_is_shown_or_lingers_in_every_order_of_notices() {
        let kinds = [ObservedKind::Node, ObservedKind::CiliumNode];
        for seed in 0..400 {
            let mut rng = fastrand::Rng::with_seed(seed);
            let happenings: Vec<Happening> = (11..31)
                .map(|at| {
                    (
                        at,
                        kinds[rng.usize(..2)],
                        rng.usize(..2),
                        rng.bool().then(|| rng.u8(..2)),
                    )
                })
                .collect();
            let mut kept: BTreeMap<ObservedKind, Kept> =
                kinds.map(|kind| (kind, Kept::of(""))).into();
            kept.values_mut().for_each(|kept| kept.begin("10"));
            let mut state = State::default();
            let begun = state.begin();
            state.replace(kept, begun);
            let mut heard = [10_u64; 2];
            while heard.iter().any(|at| *at < 30) {
                let index = rng.usize(..2);
                heard[index] = (heard[index] + 1).min(30);
                let of_kind =
                    |(at, kind, ..): &&Happening| *at == heard[index] && *kind == kinds[index];
                if let Some((at, kind, name, shows)) = happenings.iter().find(of_kind) {
                    let block = shows.map(|number| format!("10.0.{number}.0/24"));
                    let object = object(&name.to_string(), *at, block.as_deref());
                    let gone = shows.is_none() && rng.bool();
                    state.on_event(
                        *kind,
                        if gone {
                            ObjectEvent::Deleted(&object)
                        } else {
                            ObjectEvent::Changed(&object)
                        },
                    );
                } else if rng.bool() {
                    state.on_event(
                        kinds[index],
                        ObjectEvent::Bookmark(&heard[index].to_string()),
                    );
                }
                let shown = state
                    .kinds
                    .values()
                    .flat_map(|kept| kept.objects.values())
                    .flat_map(|one| &one.blocks);
                let known: BTreeSet<Block> = shown.copied().chain(state.lingering()).collect();
                for number in 0..2 {
                    let block: Block = format!("10.0.{number}.0/24").parse().unwrap();
                    let (from, to) = (heard[0].min(heard[1]), heard[0].max(heard[1]));
                    let is_free = !known.contains(&block);
                    assert!(
                        !(is_free && shown_all_the_time(&happenings, number, from, to)),
                        "seed {seed}: {block} is called free; heard {heard:?} of {happenings:?}"
                    );
                }
            }
        }
    }
}
