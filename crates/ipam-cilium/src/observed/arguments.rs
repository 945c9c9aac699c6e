//! Flags of command lines, as Go's pflag reads them. It must never know which program has which.

use std::collections::BTreeMap;

use super::view_workload::Container;

/// The flags of a container's command line.
pub(super) fn arguments(container: &Container) -> BTreeMap<String, String> {
    arguments_of(container.command.iter().chain(&container.args))
}

/// `--key=value` or `--key value` of a command line; `--key` alone means true.
pub(super) fn arguments_of<'w>(
    words: impl IntoIterator<Item = &'w String>,
) -> BTreeMap<String, String> {
    let mut words = words.into_iter().peekable();
    let mut arguments: BTreeMap<String, String> = BTreeMap::new();
    while let Some(word) = words.next() {
        let Some(flag) = word.strip_prefix("--") else {
            continue;
        };
        let (key, value) = match flag.split_once('=') {
            Some((key, value)) => (key, value.to_owned()),
            None => (
                flag,
                words
                    .next_if(|next| !next.starts_with('-'))
                    .map_or_else(|| "true".to_owned(), Clone::clone),
            ),
        };
        // Repeated flags extend lists of CIDRs. Of other flags the last one wins.
        match arguments
            .get_mut(key)
            .filter(|_| key.ends_with("-cidr") || key == "source")
        {
            Some(list) => *list = format!("{list},{value}"),
            None => {
                arguments.insert(key.to_owned(), value);
            }
        }
    }
    arguments
}
