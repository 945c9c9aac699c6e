//! The hidden first line by which a comment is found again. It is no secret: only comments of our
//! own user count.

use std::fmt;

use sha2::{Digest, Sha256};

/// Identifies one comment of a pull request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Marker(String);

impl Marker {
    /// The marker of what these texts identify, such as a directory and a cluster. It contains none
    /// of them.
    #[must_use]
    pub fn new(identity: &[&str]) -> Marker {
        let mut hash = Sha256::new();
        for text in identity {
            hash.update(text.len().to_be_bytes());
            hash.update(text);
        }
        let digest = hash.finalize();
        let digits = digest[..16].iter().map(|byte| format!("{byte:02x}"));
        Marker(digits.collect())
    }

    /// Whether a comment begins with it.
    pub(crate) fn is_in(&self, body: &str) -> bool {
        body.lines().next().map(str::trim_end) == Some(self.to_string().as_str())
    }

    /// A comment with it.
    pub(crate) fn before(&self, text: &str) -> String {
        format!("{self}\n{text}")
    }
}

impl fmt::Display for Marker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "<!-- cilium-ipam comment {} -->", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_identity_has_its_own_marker_without_its_text() {
        let marker = Marker::new(&["--> @team", "prod"]);
        assert_eq!(marker, Marker::new(&["--> @team", "prod"]));
        assert_ne!(marker, Marker::new(&["--> @teamprod", ""]));
        assert!(!marker.to_string().contains("team"));
        assert!(marker.is_in(&marker.before("text")));
        assert!(marker.is_in(&format!("{marker}\r\ntext")));
        assert!(!marker.is_in(&format!("quoted: {marker}")));
        assert!(!marker.is_in(""));
    }
}
