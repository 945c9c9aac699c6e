//! Ids of OpenStack objects.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The id of an OpenStack object: a UUID. So it is safe in a path, even from an untrusted source.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Id(String);

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not an OpenStack id; expected a UUID such as 782ec9ac-44f9-4318-8c67-a2fed2ccca4f")]
pub struct NotAnId;

impl FromStr for Id {
    type Err = NotAnId;

    fn from_str(text: &str) -> Result<Id, NotAnId> {
        let has_form = |(index, byte): (usize, u8)| match index {
            8 | 13 | 18 | 23 => byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        };
        let is_one = text.len() == 36 && text.bytes().enumerate().all(has_form);
        is_one.then(|| Id(text.to_ascii_lowercase())).ok_or(NotAnId)
    }
}

impl TryFrom<String> for Id {
    type Error = NotAnId;

    fn try_from(text: String) -> Result<Id, NotAnId> {
        text.parse()
    }
}

impl From<Id> for String {
    fn from(id: Id) -> String {
        id.0
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_ids_become_parts_of_paths() {
        assert!("782ec9ac-44f9-4318-8c67-a2fed2ccca4f".parse::<Id>().is_ok());
        for bad in [
            "",
            "pods",
            "../../v3/users/aaaaaaaaaaaaaaaaaaaaaaaa",
            "782ec9ac-44f9-4318-8c67-a2fed2ccca4f?",
            "é",
        ] {
            assert_eq!(bad.parse::<Id>(), Err(NotAnId), "{bad}");
        }
    }
}
