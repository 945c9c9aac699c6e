//! Values as the texts that people write, in JSON. It must never know which values.

use std::fmt::Display;
use std::str::FromStr;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serializer};

pub(super) fn serialize<T: Display, S: Serializer>(
    value: &T,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_str(value)
}

pub(super) fn deserialize<'de, T: FromStr, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<T, D::Error> {
    let text = String::deserialize(deserializer)?;
    parsed(&text)
}

fn parsed<T: FromStr, E: serde::de::Error>(text: &str) -> Result<T, E> {
    text.parse()
        .map_err(|_| E::custom(format!("`{}` is not valid here", text.escape_debug())))
}

/// Lists of such values.
pub(super) mod list {
    use super::*;

    pub(in super::super) fn serialize<T: Display, S: Serializer>(
        values: &[T],
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(values.iter().map(ToString::to_string))
    }

    pub(in super::super) fn deserialize<'de, T: FromStr, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Vec<T>, D::Error> {
        let texts = Vec::<String>::deserialize(deserializer)?;
        texts
            .iter()
            .map(|text| parsed(text).map_err(|error: serde_json::Error| D::Error::custom(error)))
            .collect()
    }
}

/// Sets of such values.
pub(super) mod set {
    use std::collections::BTreeSet;

    use super::*;

    pub(in super::super) fn serialize<T: Display, S: Serializer>(
        values: &BTreeSet<T>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(values.iter().map(ToString::to_string))
    }

    pub(in super::super) fn deserialize<'de, T: FromStr + Ord, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<BTreeSet<T>, D::Error> {
        list::deserialize(deserializer).map(|values: Vec<T>| values.into_iter().collect())
    }
}
