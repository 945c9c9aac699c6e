//! Flags of command lines, as Go's pflag reads them. It must never know which program has which.

use std::collections::BTreeMap;

use super::setting_key;
use super::view_workload::Container;

/// The flags of a container of Cilium: its command line overrides its environment. An empty variable
/// sets nothing (viper).
pub(super) fn arguments(container: &Container) -> BTreeMap<String, String> {
    let variables = container.env.iter().filter_map(|one| {
        let key = setting_key::of_variable(&one.name)?;
        let value = one.value.as_ref().filter(|value| !value.is_empty())?;
        Some((key.to_owned(), value.clone()))
    });
    let words = container.command.iter().chain(&container.args);
    variables.chain(arguments_of(words)).collect()
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
        // Programs of Kubernetes take `_` for `-` (`WordSepNormalizeFunc` of component-base).
        let key = key.replace('_', "-");
        // Repeated flags extend lists. Of other flags the last one wins.
        let is_list = key.ends_with("-cidr") || key == "source" || key == "controllers";
        match arguments.get_mut(&key).filter(|_| is_list) {
            Some(list) => *list = format!("{list},{value}"),
            None => {
                arguments.insert(key, value);
            }
        }
    }
    arguments
}
