//! The page: one file with its script, style and data. Its policy allows these two by their
//! digests, and no request to anywhere.

use super::data::page_data;
use crate::render::html_page::{digest, filled};
use ipam_planner::map::AddressMap;

const PAGE: &str = include_str!("page.html");
const SCRIPT: &str = include_str!("page.js");
const STYLE: &str = concat!(include_str!("../colours.css"), include_str!("page.css"));

/// The map as a page that needs nothing but a browser.
///
/// # Errors
/// Fails if the data cannot be serialized.
pub fn html(map: &AddressMap) -> serde_json::Result<String> {
    let data = without_markup(&serde_json::to_string(&page_data(map))?);
    let policy = format!(
        "default-src 'none'; script-src '{}'; style-src '{}'; base-uri 'none'; form-action 'none'",
        digest(SCRIPT),
        digest(STYLE)
    );
    let time = map.at.strftime("%Y-%m-%d %H:%M UTC").to_string();
    let parts = [
        ("POLICY", policy.as_str()),
        ("STYLE", STYLE),
        ("TIME", &time),
        ("DATA", &data),
        ("SCRIPT", SCRIPT),
    ];
    Ok(filled(PAGE, &parts))
}

/// JSON that no parser of HTML takes for markup.
fn without_markup(json: &str) -> String {
    json.replace('&', "\\u0026")
        .replace('<', "\\u003c")
        .replace('>', "\\u003e")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_template_has_every_place() {
        for name in ["POLICY", "STYLE", "TIME", "DATA", "SCRIPT"] {
            let place = format!("{{{{{name}}}}}");
            assert_eq!(PAGE.matches(&place).count(), 1, "{name}");
        }
    }

    #[test]
    fn data_ends_no_script() {
        let json = serde_json::to_string("</script><!--&").unwrap();
        let safe = without_markup(&json);
        assert!(!safe.contains(['<', '>', '&']), "{safe}");
        assert_eq!(
            serde_json::from_str::<String>(&safe).unwrap(),
            "</script><!--&"
        );
    }
}
