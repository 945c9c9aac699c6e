//! Commands of Terraform, OpenTofu, kubectl and calicoctl that are not ours, with our command for
//! the same purpose. It runs nothing.

/// The words of a command, and ours. Of several that fit, the longest applies.
const OURS: [(&[&str], &str); 36] = [
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
    (&["import"], "plan"),
    (&["state", "list"], "show nodes"),
    (&["state", "show"], "explain"),
    (&["state", "pull"], "snapshot"),
    (&["state"], "show nodes"),
    (&["output"], "show pools"),
    (&["graph"], "show pools"),
    (&["force-unlock"], "apply --lock-timeout 5m"),
    (&["taint"], "plan"),
    (&["describe"], "explain"),
    (&["logs"], "doctor"),
    (&["status"], "doctor"),
    (&["check"], "doctor"),
    (&["node", "status"], "doctor"),
    (&["ipam", "show"], "show pools"),
    (&["ipam", "check"], "doctor"),
    (&["ipam", "release"], "apply undo-TIME.json"),
    (&["ipam", "configure"], "validate"),
    (&["ipam"], "show pools"),
    (&["datastore", "migrate", "export"], "snapshot"),
    (&["api-resources"], "schema"),
    (&["rbac"], "schema --rbac"),
    (&["list"], "show nodes"),
];

/// A note for commands whose purpose ours serves in another way.
const NOTES: [(&str, &str); 9] = [
    ("fmt", "there is no formatter: any YAML layout works"),
    (
        "destroy",
        "blocks are never released from files: an undo plan takes one apply back",
    ),
    (
        "delete",
        "remove the document from the files, then apply them",
    ),
    ("edit", "change the document in the files, then apply them"),
    (
        "import",
        "there is nothing to import: a plan finds the blocks that nodes hold in the cluster",
    ),
    (
        "force-unlock",
        "a lock whose holder died expires after 15 seconds; --lock-timeout waits for it",
    ),
    (
        "taint",
        "a node keeps its block; pin another one with a NodeAssignment",
    ),
    (
        "workspace",
        "keep one directory of files for each cluster, and select the cluster with --context",
    ),
    (
        "release",
        "Cilium uses a block as long as its Node exists: delete the Node",
    ),
];

/// What to run instead of an unknown command; `words` are its words without flags.
pub(super) fn advice(words: &[&str]) -> Option<String> {
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
        assert_eq!(ours("state list").unwrap(), "use `cilium-ipam show nodes`");
        assert_eq!(ours("state show n1").unwrap(), "use `cilium-ipam explain`");
        assert_eq!(ours("ipam check").unwrap(), "use `cilium-ipam doctor`");
        assert!(ours("workspace new x").unwrap().contains("--context"));
        assert_eq!(ours("nonsense"), None);
    }
}
