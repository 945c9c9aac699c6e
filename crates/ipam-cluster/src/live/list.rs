//! Reads a collection page by page. It must never know what the objects mean.

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use http::StatusCode;

use super::LiveCluster;
use super::request::Answer;
use crate::{ClusterError, ListVisitor, Seen};
use ipam_cilium::observed::{Query, ReadError};
use ipam_core::text::one_line;

/// Objects in one page: client-go's default for chunked lists.
const PAGE: usize = 500;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Page<'a> {
    #[serde(default)]
    api_version: String,
    #[serde(default)]
    kind: String,
    #[serde(default)]
    metadata: PageMetadata,
    #[serde(borrow)]
    items: Option<Vec<&'a RawValue>>,
}

#[derive(Default, Deserialize)]
struct PageMetadata {
    #[serde(default, rename = "continue")]
    next: String,
    #[serde(default, rename = "resourceVersion")]
    resource_version: String,
}

/// Collects whole objects.
#[derive(Clone, Debug)]
pub(super) struct Objects {
    resource: &'static str,
    /// The `apiVersion` of the list.
    pub(super) api_version: String,
    /// The resourceVersion of the list; 0 if it has none.
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

impl LiveCluster {
    /// Reads one collection. The next page is on its way while this one is decoded.
    pub(super) async fn pages(
        &self,
        (resource, kind): (&'static str, &str),
        path: &str,
        (parameters, moment): (&str, &str),
        visitor: &mut dyn ListVisitor,
    ) -> Result<Seen, ClusterError> {
        let mut answer = self
            .get(format!("{path}?limit={PAGE}{parameters}{moment}"))
            .await?;
        let mut token = String::new();
        loop {
            if let Some(seen) = unreadable(resource, &answer, &token)? {
                return Ok(seen);
            }
            let malformed = |message: String| ClusterError::Malformed { resource, message };
            let page: Page<'_> = serde_json::from_slice(&answer.body)
                .map_err(|error| malformed(error.to_string()))?;
            let expected = format!("{kind}List");
            let Some(items) = page.items.filter(|_| page.kind == expected) else {
                return Err(malformed(format!(
                    "it is a `{}`, not a `{expected}`",
                    one_line(&page.kind)
                )));
            };
            if !page.metadata.next.is_empty() && page.metadata.next == token {
                return Err(malformed(
                    "it continues with the page that it just sent".to_owned(),
                ));
            }
            if token.is_empty() {
                visitor.begun(&page.metadata.resource_version)?;
                visitor.served(&page.api_version);
            }
            token.clone_from(&page.metadata.next);
            let next = (!token.is_empty()).then(|| {
                let cluster = self.clone();
                let next = escaped(&token);
                let uri = format!("{path}?limit={PAGE}&continue={next}{parameters}");
                tokio::spawn(async move { cluster.get(uri).await })
            });
            // Decoding must not delay the next page.
            tokio::task::block_in_place(|| {
                items
                    .iter()
                    .try_for_each(|object| visitor.object(object.get()))
            })?;
            let Some(next) = next else {
                return Ok(Seen::All);
            };
            answer = next.await.map_err(|error| malformed(error.to_string()))??;
        }
    }
}

/// Why an answer holds no page; `None` where it does.
fn unreadable(
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
