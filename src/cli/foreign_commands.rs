//! Commands of Terraform, OpenTofu, kubectl and calicoctl that are not ours, with our command for
//! the same purpose. It runs nothing and knows no name of a cluster.

/// The words of a command, and ours. Of several that fit, the longest applies.
const OURS: [(&[&str], &str); 61] = [
    (&["fmt"], "validate"),
    (&["lint"], "validate --strict"),
    (&["diff"], "plan"),
    (&["refresh"], "plan"),
    (&["destroy"], "apply undo-TIME.json"),
    (&["delete"], "apply"),
    (&["rollout", "undo"], "apply undo-TIME.json"),
    (&["rollback"], "apply undo-TIME.json"),
    (&["undo"], "apply undo-TIME.json"),
    (&["create"], "apply"),
    (&["replace"], "apply"),
    (&["patch"], "apply"),
    (&["edit"], "apply"),
    (&["state", "list"], "show nodes"),
    (&["state", "show"], "explain"),
    (&["state", "pull"], "snapshot"),
    (&["state"], "show nodes"),
    (&["output"], "show pools"),
    (&["graph"], "show pools"),
    (&["force-unlock"], "apply --lock-timeout 5m"),
    (&["taint"], "plan"),
    (&["describe"], "explain"),
    (&["top"], "show pools"),
    (&["cluster-info"], "doctor"),
    (&["auth", "can-i"], "schema --rbac"),
    (&["config"], "plan --context NAME"),
    (&["logs"], "doctor"),
    (&["status"], "doctor"),
    (&["check"], "doctor"),
    (&["node", "status"], "doctor"),
    (
        &["ipam", "show"],
        "show pools` or `cilium-ipam explain ADDRESS",
    ),
    (&["ipam", "check"], "doctor"),
    (&["ipam", "release"], "apply undo-TIME.json"),
    (&["ipam", "configure"], "validate"),
    (&["ipam"], "show pools"),
    (&["get", "all"], "show nodes"),
    (&["get", "pods"], "explain ADDRESS"),
    (&["get", "pod"], "explain ADDRESS"),
    (&["get", "po"], "explain ADDRESS"),
    (&["get", "crds"], "schema --crds"),
    (&["get", "crd"], "schema --crds"),
    (&["get", "events"], "watch"),
    (&["get", "clusterroles"], "schema --rbac"),
    (&["get", "clusterrole"], "schema --rbac"),
    (&["datastore", "migrate", "export"], "snapshot"),
    (&["api-resources"], "schema"),
    (&["rbac"], "schema --rbac"),
    (&["list"], "show nodes"),
    (&["ls"], "show nodes"),
    (&["nodes"], "show nodes"),
    (&["pools"], "show pools"),
    (&["revert"], "apply undo-TIME.json"),
    (&["drain"], "migrate"),
    (&["cordon"], "migrate"),
    (&["rollout", "status"], "migrate status"),
    (&[MIGRATE, "rollback"], "migrate undo"),
    (&[MIGRATE, "revert"], "migrate undo"),
    (&[MIGRATE, "abort"], "migrate undo"),
    (&[MIGRATE, "pause"], "migrate resume"),
    (&[MIGRATE, "continue"], "migrate resume"),
    (&[MIGRATE, "show"], "migrate status"),
];

/// The only command of ours whose own commands have counterparts in other tools.
pub(super) const MIGRATE: &str = "migrate";

/// Notes for commands of other tools whose purpose `cilium-ipam` serves in another way.
const NOTES: [(&str, &str); 11] = [
    ("fmt", "there is no formatter: any YAML layout works"),
    (
        "destroy",
        "blocks are never released from files: an undo plan takes one apply back",
    ),
    (
        "delete",
        "remove the document from the files, then apply them",
    ),
    ("pause", "stop a migration with Ctrl-C, and go on later"),
    (
        "drain",
        "a node is drained before it moves to another block",
    ),
    ("edit", "change the document in the files, then apply them"),
    (
        "force-unlock",
        "a lock whose holder died expires after 15 seconds; --lock-timeout waits for it",
    ),
    (
        "taint",
        "a node keeps its block; pin another one with a NodeAssignment",
    ),
    ("state", "there is no state file: the cluster is the state"),
    (
        "workspace",
        "keep one directory of files for each cluster, and select the cluster with --context",
    ),
    (
        "release",
        "a block is free once its Node and CiliumNode are gone; an undo plan takes one apply back",
    ),
];

/// Kinds as kubectl names them, and how `explain` and `show` name them.
const KINDS: [(&str, Kind); 22] = [
    ("node", NODE),
    ("nodes", NODE),
    ("no", NODE),
    ("ciliumnode", NODE),
    ("ciliumnodes", NODE),
    ("cn", NODE),
    ("nodeassignment", NODE),
    ("nodeassignments", NODE),
    ("pool", POOL),
    ("pools", POOL),
    ("ippool", POOL),
    ("ippools", POOL),
    ("ciliumpodippool", POOL),
    ("ciliumpodippools", POOL),
    ("service", SERVICE),
    ("services", SERVICE),
    ("svc", SERVICE),
    ("serviceassignment", SERVICE),
    ("serviceassignments", SERVICE),
    ("ciliumloadbalancerippool", SERVICE),
    ("ciliumloadbalancerippools", SERVICE),
    ("lbippool", SERVICE),
];

#[derive(Clone, Copy, Debug)]
struct Kind {
    table: &'static str,
    /// What `explain` expects before a name.
    explained_as: &'static str,
}

const NODE: Kind = Kind {
    table: "nodes",
    explained_as: "node/",
};
const POOL: Kind = Kind {
    table: "pools",
    explained_as: "pool/",
};
/// Services: `explain` takes `NAMESPACE/NAME` for them.
const SERVICE: Kind = Kind {
    table: "lb",
    explained_as: "",
};

fn kind(word: &str) -> Option<Kind> {
    let word = word.to_lowercase();
    let found = KINDS.iter().find(|(kind, _)| *kind == word);
    found.map(|(_, kind)| *kind)
}

/// `KIND/NAME` or `KIND NAME`; the name may be absent.
fn kind_and_name<'w>(words: &[&'w str]) -> Option<(Kind, Option<&'w str>)> {
    let (first, further) = words.split_first()?;
    match first.split_once('/') {
        Some((of, name)) => Some((kind(of)?, Some(name))),
        None => Some((kind(first)?, further.first().copied())),
    }
}

/// Our command for `describe KIND NAME`, or for `get KIND/NAME`.
fn about_an_object(words: &[&str]) -> Option<String> {
    let (verb, object) = words.split_first()?;
    let (
        Kind {
            table,
            explained_as,
        },
        name,
    ) = kind_and_name(object)?;
    let is_pool_or_node = !explained_as.is_empty();
    match (*verb, name) {
        ("describe" | "explain", Some(name)) if is_pool_or_node || name.contains('/') => {
            Some(format!("explain {explained_as}{name}"))
        }
        ("describe" | "explain", Some(name)) => Some(format!("explain NAMESPACE/{name}")),
        ("describe", None) => Some(format!("show {table}")),
        ("get", Some(name)) if is_pool_or_node => Some(format!("show {table} {name}")),
        ("get", _) => Some(format!("show {table}")),
        (_, _) => None,
    }
}

/// What to run instead of an unknown command; `words` are its words without flags.
pub(super) fn advice(words: &[&str]) -> Option<String> {
    if let Some(ours) = about_an_object(words) {
        return Some(format!("use `cilium-ipam {ours}`"));
    }
    let fits = |theirs: &&[&str]| words.starts_with(theirs);
    let ours = OURS
        .iter()
        .filter(|(theirs, _)| fits(theirs))
        .max_by_key(|(theirs, _)| theirs.len());
    let note = words
        .iter()
        .take(2)
        .find_map(|word| NOTES.iter().find(|(of, _)| of == word));
    match (ours, note) {
        (None, None) => None,
        (None, Some((_, note))) => Some((*note).to_owned()),
        (Some((_, ours)), None) => Some(format!("use `cilium-ipam {ours}`")),
        (Some((_, ours)), Some((_, note))) => Some(format!("use `cilium-ipam {ours}`: {note}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_command_that_fits_applies() {
        let ours = |line: &str| advice(&line.split(' ').collect::<Vec<_>>());
        assert_eq!(
            ours("state list").unwrap(),
            "use `cilium-ipam show nodes`: there is no state file: the cluster is the state"
        );
        let state_show = ours("state show n1").unwrap();
        assert!(state_show.starts_with("use `cilium-ipam explain`: "));
        assert_eq!(ours("ipam check").unwrap(), "use `cilium-ipam doctor`");
        assert!(ours("workspace new x").unwrap().contains("--context"));
        assert_eq!(
            ours("migrate rollback").unwrap(),
            "use `cilium-ipam migrate undo`"
        );
        assert_eq!(ours("nonsense"), None);
    }

    #[test]
    fn an_object_is_named_as_ours() {
        for (typed, ours) in [
            ("describe node n1", "explain node/n1"),
            ("describe no/n1", "explain node/n1"),
            ("describe ippool a", "explain pool/a"),
            ("describe svc web", "explain NAMESPACE/web"),
            ("describe svc shop/web", "explain shop/web"),
            ("describe nodes", "show nodes"),
            ("get node/n1", "show nodes n1"),
            ("get pool/a", "show pools a"),
            ("get svc/web", "show lb"),
            ("get pods", "explain ADDRESS"),
        ] {
            let advice = advice(&typed.split(' ').collect::<Vec<_>>());
            let expected = format!("use `cilium-ipam {ours}`");
            assert_eq!(advice.as_deref(), Some(&*expected), "{typed}");
        }
    }
}
