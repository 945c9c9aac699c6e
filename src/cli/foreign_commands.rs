//! Commands of Terraform, OpenTofu, kubectl and calicoctl that are not ours, with our command for
//! the same purpose. It runs nothing and knows no name of a cluster.

use super::other_tools;

/// The only command of ours whose own commands have counterparts in other tools.
pub(super) const MIGRATE: &str = "migrate";

/// A kind of objects, as `explain` and `show` name it.
#[derive(Clone, Copy, Debug)]
struct Kind {
    table: &'static str,
    /// What `explain` expects before a name. It takes `NAMESPACE/NAME` for a Service.
    explained_as: &'static str,
}

fn kind(word: &str) -> Option<Kind> {
    let ours = other_tools::of_word("[kinds]", &word.to_lowercase())?;
    let (table, explained_as) = ours.split_once(' ').unwrap_or((ours, ""));
    Some(Kind {
        table,
        explained_as,
    })
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
    let line = format!("{} ", words.join(" "));
    let ours = other_tools::section("[commands]")
        .filter(|(theirs, _)| line.starts_with(&format!("{theirs} ")))
        .max_by_key(|(theirs, _)| theirs.len());
    let mut first_words = words.iter().take(2);
    let note = first_words.find_map(|word| other_tools::of_word("[notes]", word));
    match (ours, note) {
        (None, None) => None,
        (None, Some(note)) => Some(note.to_owned()),
        (Some((_, ours)), None) => Some(format!("use `cilium-ipam {ours}`")),
        (Some((_, ours)), Some(note)) => Some(format!("use `cilium-ipam {ours}`: {note}")),
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
