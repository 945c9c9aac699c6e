//! What pages of one file share: a template with places, and digests for its policy. It must never
//! know what a page shows.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256};

/// The template with each `{{NAME}}` replaced, in this order, from left to right: a part that looks
/// like a place stays as it is.
pub(super) fn filled(template: &str, parts: &[(&str, &str)]) -> String {
    let (mut page, mut rest) = (String::new(), template);
    for (name, part) in parts {
        let place = format!("{{{{{name}}}}}");
        if let Some((before, after)) = rest.split_once(&place) {
            page.push_str(before);
            page.push_str(part);
            rest = after;
        }
    }
    page + rest
}

/// The digest by which a policy allows a script or a style.
pub(super) fn digest(text: &str) -> String {
    format!("sha256-{}", STANDARD.encode(Sha256::digest(text)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_filled_once_and_from_left_to_right() {
        let parts = [("A", "{{B}}"), ("B", "{{A}}")];
        assert_eq!(filled("x{{A}}y{{B}}z", &parts), "x{{B}}y{{A}}z");
    }
}
