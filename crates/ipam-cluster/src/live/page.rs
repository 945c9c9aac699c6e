//! One page of a list, in the encoding that the server chose. It must never know what the objects
//! mean, and never takes an answer that is not a list for an empty one.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::request::Answer;
use ipam_cilium::observed::{Encoding, ProtobufList};
use ipam_core::text::one_line;

/// A page.
pub(super) struct Page<'b> {
    pub(super) api_version: Cow<'b, str>,
    /// The resourceVersion of the list, empty if it has none.
    pub(super) version: Cow<'b, str>,
    /// The token of the next page, empty at the end.
    pub(super) next: Cow<'b, str>,
    /// An estimate of the objects of later pages, if the server makes one.
    pub(super) remaining: Option<i64>,
    pub(super) items: Items<'b>,
}

/// The objects of a page.
pub(super) enum Items<'b> {
    Json(Vec<&'b RawValue>),
    Protobuf(Vec<&'b [u8]>),
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct JsonPage<'b> {
    #[serde(default)]
    api_version: String,
    #[serde(default)]
    kind: String,
    #[serde(default)]
    metadata: PageMetadata,
    #[serde(borrow)]
    items: Option<Vec<&'b RawValue>>,
}

#[derive(Default, Deserialize)]
struct PageMetadata {
    #[serde(default, rename = "continue")]
    next: String,
    #[serde(default, rename = "resourceVersion")]
    resource_version: String,
    #[serde(default, rename = "remainingItemCount")]
    remaining: Option<i64>,
}

impl<'b> Page<'b> {
    /// Reads a successful answer that should list objects of this kind.
    pub(super) fn read(answer: &'b Answer, kind: &str) -> Result<Page<'b>, String> {
        match answer.encoding {
            Encoding::Json => Page::of_json(&answer.body, kind),
            Encoding::Protobuf => Page::of_protobuf(&answer.body, kind),
        }
    }

    fn of_json(body: &'b [u8], kind: &str) -> Result<Page<'b>, String> {
        let page: JsonPage<'_> = serde_json::from_slice(body).map_err(|error| error.to_string())?;
        let JsonPage {
            api_version,
            kind: found,
            metadata,
            items,
        } = page;
        let items = items.ok_or_else(|| not_a_list(&found, kind))?;
        if !is_list_of(&found, kind) {
            return Err(not_a_list(&found, kind));
        }
        Ok(Page {
            api_version: api_version.into(),
            version: metadata.resource_version.into(),
            next: metadata.next.into(),
            remaining: metadata.remaining,
            items: Items::Json(items),
        })
    }

    fn of_protobuf(body: &'b [u8], kind: &str) -> Result<Page<'b>, String> {
        let list = ProtobufList::read(body).ok_or("it is neither JSON nor Protobuf")?;
        let ProtobufList {
            api_version,
            kind: found,
            version,
            next,
            items,
        } = list.map_err(|error| error.to_string())?;
        if !is_list_of(&found, kind) {
            return Err(not_a_list(&found, kind));
        }
        Ok(Page {
            api_version,
            version,
            next,
            remaining: None,
            items: Items::Protobuf(items),
        })
    }
}

fn is_list_of(found: &str, kind: &str) -> bool {
    found.strip_suffix("List") == Some(kind)
}

fn not_a_list(found: &str, kind: &str) -> String {
    format!("it is a `{}`, not a `{kind}List`", one_line(found))
}
