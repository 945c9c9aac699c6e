//! Reads a collection page by page, in the encoding that the server chose. It must never know what
//! the objects mean.

use std::borrow::Cow;

use http::StatusCode;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::LiveCluster;
use super::request::Answer;
use crate::{ClusterError, ListVisitor, Moment, Seen};
use ipam_cilium::observed::{
    Encoding, ObservedKind, ProtobufList, Query, ReadError, cheapest_encoding,
};
use ipam_core::text::one_line;

/// Objects in one page. Pages of 500, client-go's default, take the server a fifth longer in all.
const PAGE: usize = 1_000;

/// Collects the objects of a list as whole JSON values.
#[derive(Clone, Debug)]
pub(super) struct Objects {
    resource: &'static str,
    /// The `apiVersion` of the list.
    pub(super) api_version: String,
    /// resourceVersion of the list; 0 if the list has none.
    pub(super) version: u64,
    pub(super) objects: Vec<Value>,
}

impl Objects {
    pub(super) fn of(resource: &'static str) -> Objects {
        Objects {
            resource,
            api_version: String::new(),
            version: 0,
            objects: Vec::new(),
        }
    }
}

impl ListVisitor for Objects {
    fn begun(&mut self, version: &str) -> Result<(), ClusterError> {
        self.version = version.parse().unwrap_or(0);
        Ok(())
    }

    fn served(&mut self, api_version: &str) {
        api_version.clone_into(&mut self.api_version);
    }

    fn object(&mut self, json: &str) -> Result<(), ReadError> {
        let object = serde_json::from_str(json)
            .map_err(|error| ReadError::of(self.resource, json, &error))?;
        self.objects.push(object);
        Ok(())
    }
}

/// A collection to list, and which parts and moment of it.
#[derive(Clone, Copy)]
pub(super) struct Listing<'l> {
    pub(super) resource: &'static str,
    /// Kind of the objects.
    pub(super) kind: &'l str,
    pub(super) path: &'l str,
    /// To be appended to another parameter.
    pub(super) parameters: &'l str,
    pub(super) moment: &'l Moment,
    /// The kind whose views read the objects. Without it, whole objects are read.
    pub(super) viewed: Option<ObservedKind>,
}

impl<'l> Listing<'l> {
    /// Lists whole objects as of the newest moment.
    pub(super) fn whole(
        (resource, kind): (&'static str, &'l str),
        path: &'l str,
        parameters: &'l str,
    ) -> Listing<'l> {
        Listing {
            resource,
            kind,
            path,
            parameters,
            moment: &Moment::Latest,
            viewed: None,
        }
    }

    fn encoding(&self) -> Encoding {
        self.viewed.map_or(Encoding::Json, cheapest_encoding)
    }

    /// The request of the first page, with at most this many objects, or of all if it is 0.
    pub(super) fn uri(&self, most: usize) -> String {
        let Listing {
            path, parameters, ..
        } = self;
        let moment = match self.moment {
            Moment::Latest => String::new(),
            Moment::Of(version) => format!(
                "&resourceVersion={}&resourceVersionMatch=Exact",
                escaped(version)
            ),
        };
        format!("{path}?limit={most}{parameters}{moment}")
    }

    /// URI of the next page. The token keeps the moment of the list.
    fn uri_of_next(&self, token: &str) -> String {
        let Listing {
            path, parameters, ..
        } = self;
        let next = escaped(token);
        format!("{path}?limit={PAGE}&continue={next}{parameters}")
    }
}

impl LiveCluster {
    /// Reads one collection. The next page is on its way while this one is decoded.
    pub(super) async fn pages(
        &self,
        listing: Listing<'_>,
        visitor: &mut dyn ListVisitor,
    ) -> Result<Seen, ClusterError> {
        let resource = listing.resource;
        let malformed = |message: String| ClusterError::Malformed { resource, message };
        let first = listing.uri(PAGE);
        let mut answer = self.get_in(listing.encoding(), first).await?;
        let mut token = String::new();
        loop {
            if let Some(seen) = unreadable(resource, &answer, &token)? {
                return Ok(seen);
            }
            let page = page_of(&answer, listing)?;
            if !page.next.is_empty() && page.next == token {
                return Err(malformed(
                    "it continues with the page that it just sent".to_owned(),
                ));
            }
            if token.is_empty() {
                begin(&page, listing, visitor)?;
            }
            token = page.next.into_owned();
            let next = (!token.is_empty()).then(|| {
                let (cluster, encoding) = (self.clone(), listing.encoding());
                let uri = listing.uri_of_next(&token);
                tokio::spawn(async move { cluster.get_in(encoding, uri).await })
            });
            // Decoding must not delay the next page.
            tokio::task::block_in_place(|| give(&page.items, listing, visitor))?;
            let Some(next) = next else {
                return Ok(Seen::All);
            };
            answer = next.await.map_err(|error| malformed(error.to_string()))??;
        }
    }
}

/// Reads a successful answer.
pub(super) fn page_of<'b>(
    answer: &'b Answer,
    listing: Listing<'_>,
) -> Result<Page<'b>, ClusterError> {
    Page::read(answer, listing.kind).map_err(|message| ClusterError::Malformed {
        resource: listing.resource,
        message,
    })
}

/// Tells the visitor of the first page.
pub(super) fn begin(
    page: &Page<'_>,
    listing: Listing<'_>,
    visitor: &mut dyn ListVisitor,
) -> Result<(), ClusterError> {
    if matches!(listing.moment, Moment::Of(version) if *version != page.version) {
        let resource = listing.resource;
        return Err(ClusterError::Expired { resource });
    }
    visitor.begun(&page.version)?;
    visitor.served(&page.api_version);
    Ok(())
}

pub(super) fn give(
    items: &Items<'_>,
    listing: Listing<'_>,
    visitor: &mut dyn ListVisitor,
) -> Result<(), ClusterError> {
    match (items, listing.viewed) {
        (Items::Json(objects), _) => objects
            .iter()
            .try_for_each(|object| visitor.object(object.get()))?,
        (Items::Protobuf(objects), Some(kind)) => objects
            .iter()
            .try_for_each(|object| visitor.protobuf(kind, object))?,
        (Items::Protobuf(_), None) => {
            return Err(ClusterError::Malformed {
                resource: listing.resource,
                message: "it is not JSON".to_owned(),
            });
        }
    }
    Ok(())
}

/// Why an answer is not a page; `None` if it is one. `token` is empty for the first page.
pub(super) fn unreadable(
    resource: &'static str,
    answer: &Answer,
    token: &str,
) -> Result<Option<Seen>, ClusterError> {
    match answer.status {
        // On a later page it would mean that half of the list is missing.
        StatusCode::NOT_FOUND if token.is_empty() => Ok(Some(Seen::NotServed)),
        StatusCode::FORBIDDEN => Ok(Some(Seen::Hidden(answer.message()))),
        StatusCode::GONE => Err(ClusterError::Expired { resource }),
        _ if answer.is_ahead_of_the_server() => Err(ClusterError::Expired { resource }),
        status if !status.is_success() => Err(ClusterError::Refused {
            resource,
            message: answer.message(),
        }),
        _ => Ok(None),
    }
}

/// The parameters that select a kind, to be appended to another parameter.
pub(super) fn parameters(query: &Query) -> String {
    query
        .parameters
        .iter()
        .map(|(key, value)| format!("&{key}={}", escaped(value)))
        .collect()
}

/// Percent-encodes a query value.
pub(super) fn escaped(value: &str) -> String {
    let keep = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte);
    value
        .bytes()
        .map(|byte| {
            if keep(byte) {
                char::from(byte).to_string()
            } else {
                format!("%{byte:02X}")
            }
        })
        .collect()
}

/// One page of a list.
pub(super) struct Page<'b> {
    pub(super) api_version: Cow<'b, str>,
    /// resourceVersion of the list; empty if the list has none.
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
