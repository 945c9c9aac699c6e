//! Reads a large collection without pages, as of a moment that is known before its objects are. Of
//! an object, it must never know more than the name and the resourceVersion.
//!
//! From Kubernetes 1.31 on, the server answers a list of the newest moment from its memory. Later
//! pages, and a list of an earlier moment, come from etcd if the kind was not written for some
//! minutes: each compaction removes the older states from the memory (apiserver
//! `pkg/storage/cacher` @ 1.36). For custom resources, this takes the server four times as long.
//!
//! So three lists are read. The first has some objects, and shows whether there are more. The second
//! has the names of all objects, and tells the moment. The third has all objects, of a later moment.
//! They are the objects of the moment of the names if they have the same names, and none was
//! written after that moment: a deleted object would be missing, and a new or replaced one would be
//! newer.

use std::collections::BTreeSet;
use std::pin::pin;

use futures_util::future::{Either, select};
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::task::{JoinSet, block_in_place};

use super::LiveCluster;
use super::list::{Items, Listing, Page, begin, give, page_of, unreadable};
use super::request::{Answer, TABLE};
use crate::{ClusterError, ListVisitor, Moment, Seen};
use ipam_cilium::observed::{Encoding, ObservedKind, Understood};

/// Objects of a collection that is not large. A page of them costs less than the names.
const FEW: usize = 200;

/// Largest collection, in bytes as its first page lets expect, that is read without pages.
const MOST: usize = 64 << 20;

/// Largest answer, in bytes: it is kept in memory as a whole.
const MOST_IN_FACT: usize = 2 * MOST;

/// First version that answers lists from memory: `ConsistentListFromCache` (apiserver
/// `pkg/features/kube_features.go` @ 1.36).
const FROM_MEMORY: (u32, u32) = (1, 31);

/// The names of all objects of one moment.
struct Names {
    /// resourceVersion of the moment.
    moment: u64,
    names: BTreeSet<String>,
}

/// Why a list may not show the objects of the moment of the names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Doubt {
    /// The list is of an earlier moment.
    Earlier,
    /// The list could not be read, or an object may have changed.
    Other,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Table {
    kind: String,
    metadata: TableMetadata,
    column_definitions: Vec<Column>,
    rows: Vec<Row>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct TableMetadata {
    resource_version: String,
    #[serde(default, rename = "continue")]
    next: String,
}

#[derive(Deserialize)]
struct Column {
    format: String,
}

#[derive(Deserialize)]
struct Row {
    cells: Vec<serde_json::Value>,
}

/// An object, as JSON text and as the result of parsing.
struct Parsed<'a> {
    json: &'a str,
    understood: Understood,
}

#[derive(Deserialize)]
struct ServerVersion {
    major: String,
    minor: String,
}

impl LiveCluster {
    /// Reads the newest objects of one collection, as JSON.
    pub(super) async fn large_list(
        &self,
        kind: ObservedKind,
        listing: Listing<'_>,
        visitor: &mut dyn ListVisitor,
    ) -> Result<Seen, ClusterError> {
        let few = self.get(listing.uri(FEW)).await?;
        if let Some(seen) = unreadable(listing.resource, &few, "")? {
            return Ok(seen);
        }
        let page = page_of(&few, listing)?;
        if page.next.is_empty() {
            begin(&page, listing, visitor)?;
            block_in_place(|| give(&page.items, listing, visitor))?;
            return Ok(Seen::All);
        }
        let expected = estimated_bytes(&page, few.body.len()).filter(|bytes| *bytes <= MOST);
        drop(page);
        drop(few);
        let expected = match expected {
            Some(expected) if self.lists_from_memory().await => expected,
            _ => return self.pages(listing, visitor).await,
        };
        match self.names_and_all(expected, listing, visitor).await? {
            Some((names, all)) => {
                let lists = (expected, all);
                self.of_moment(&names, lists, kind, listing, visitor).await
            }
            None => self.pages(listing, visitor).await,
        }
    }

    /// Tells the visitor the moment of the names. `None` without names; all objects may be missing.
    async fn names_and_all(
        &self,
        expected: usize,
        listing: Listing<'_>,
        visitor: &mut dyn ListVisitor,
    ) -> Result<Option<(Names, Option<Answer>)>, ClusterError> {
        let names = async {
            let names = self.names(listing).await?;
            if let Some(names) = &names {
                visitor.begun(&names.moment.to_string())?;
            }
            Ok::<_, ClusterError>(names)
        };
        // The request for the names goes first, so that their moment is the earlier one.
        match select(pin!(names), pin!(self.all(listing.uri(0), expected))).await {
            Either::Left((names, all)) => match names? {
                Some(names) => Ok(Some((names, all.await))),
                None => Ok(None),
            },
            Either::Right((all, names)) => Ok(names.await?.map(|names| (names, all))),
        }
    }

    /// Gives the objects of the moment of the names. `all` are those of another moment, if they could
    /// be read, of about `expected` bytes.
    async fn of_moment(
        &self,
        names: &Names,
        (expected, all): (usize, Option<Answer>),
        kind: ObservedKind,
        listing: Listing<'_>,
        visitor: &mut dyn ListVisitor,
    ) -> Result<Seen, ClusterError> {
        let mut given = names.give(all, kind, listing, visitor)?;
        if given == Err(Doubt::Earlier) {
            // Another API server, whose memory is older, may have answered.
            let moment = names.moment;
            let later = format!("&resourceVersion={moment}&resourceVersionMatch=NotOlderThan");
            let all = self.all(listing.uri(0) + &later, expected).await;
            given = names.give(all, kind, listing, visitor)?;
        }
        if given.is_ok() {
            return Ok(Seen::All);
        }
        let listing = Listing {
            moment: &Moment::Of(names.moment.to_string()),
            ..listing
        };
        match self.pages(listing, visitor).await? {
            // The kind disappeared after that moment.
            Seen::NotServed => Err(ClusterError::Expired {
                resource: listing.resource,
            }),
            seen => Ok(seen),
        }
    }

    /// All objects in one answer of about `expected` bytes. `None` without such an answer: reading
    /// pages then reports the reason.
    async fn all(&self, uri: String, expected: usize) -> Option<Answer> {
        let cluster = LiveCluster {
            largest_answer: self.largest_answer.min(MOST_IN_FACT),
            room_for_answer: expected + expected / 8,
            ..self.clone()
        };
        // A task of its own: while other lists are decoded, the server must not wait.
        let mut reading = JoinSet::new();
        reading.spawn(async move { cluster.get_once(&uri).await });
        let answer = reading.join_next().await?.ok()?.ok()?;
        answer.status.is_success().then_some(answer)
    }

    /// `None` if the server does not make tables of this kind.
    async fn names(&self, listing: Listing<'_>) -> Result<Option<Names>, ClusterError> {
        let uri = listing.uri(0) + "&includeObject=None";
        let answer = self.get_accepting(TABLE, uri).await?;
        Ok(block_in_place(|| Names::read(&answer)))
    }

    /// Whether the server answers lists of the newest moment from its memory.
    async fn lists_from_memory(&self) -> bool {
        let answer = self.get_once("/version").await;
        let is_new = |answer: Answer| -> Option<bool> {
            let version: ServerVersion = serde_json::from_slice(&answer.body).ok()?;
            // Some cloud providers add a plus sign to the minor version.
            let minor = version.minor.trim_end_matches('+').parse().ok()?;
            Some((version.major.parse().ok()?, minor) >= FROM_MEMORY)
        };
        answer.ok().and_then(is_new).unwrap_or(false)
    }
}

/// The size of the collection whose first page has this many bytes.
fn estimated_bytes(page: &Page<'_>, bytes: usize) -> Option<usize> {
    let Items::Json(objects) = &page.items else {
        return None;
    };
    let each = bytes.checked_div(objects.len())?;
    let remaining = usize::try_from(page.remaining?).ok()?;
    each.checked_mul(objects.len().checked_add(remaining)?)
}

impl Names {
    fn read(answer: &Answer) -> Option<Names> {
        if !answer.status.is_success() || answer.encoding != Encoding::Json {
            return None;
        }
        let table: Table = serde_json::from_slice(&answer.body).ok()?;
        let Table {
            kind,
            metadata,
            column_definitions,
            rows,
        } = table;
        let is_whole = kind == "Table" && metadata.next.is_empty();
        // The names of a custom resource come first (apiextensions-apiserver
        // `pkg/registry/customresource/tableconvertor` @ 1.36).
        if !is_whole || column_definitions.first()?.format != "name" {
            return None;
        }
        let name = |row: Row| row.cells.first()?.as_str().map(str::to_owned);
        Some(Names {
            moment: metadata.resource_version.parse().ok()?,
            names: rows.into_iter().map(name).collect::<Option<_>>()?,
        })
    }

    /// Gives the objects of this answer to the visitor, if it is certain that they are those of the
    /// moment of the names.
    fn give(
        &self,
        all: Option<Answer>,
        kind: ObservedKind,
        listing: Listing<'_>,
        visitor: &mut dyn ListVisitor,
    ) -> Result<Result<(), Doubt>, ClusterError> {
        let Some(all) = all else {
            return Ok(Err(Doubt::Other));
        };
        block_in_place(|| {
            let Ok(all) = page_of(&all, listing) else {
                return Ok(Err(Doubt::Other));
            };
            let objects = match self.objects(&all, kind) {
                Ok(objects) => objects,
                Err(doubt) => return Ok(Err(doubt)),
            };
            visitor.served(&all.api_version);
            for Parsed { json, understood } in objects {
                visitor.known(json, &understood)?;
            }
            Ok(Ok(()))
        })
    }

    /// The objects of the moment of the names, if it is certain that this list shows them.
    fn objects<'a>(&self, all: &Page<'a>, kind: ObservedKind) -> Result<Vec<Parsed<'a>>, Doubt> {
        let Items::Json(objects) = &all.items else {
            return Err(Doubt::Other);
        };
        let later: u64 = all.version.parse().map_err(|_| Doubt::Other)?;
        if later < self.moment {
            return Err(Doubt::Earlier);
        }
        if !all.next.is_empty() {
            return Err(Doubt::Other);
        }
        let parsed = |object: &&'a RawValue| {
            let json = object.get();
            let understood = Understood::of(kind, json)?;
            let version: u64 = understood.resource_version().parse().ok()?;
            (version <= self.moment).then_some(Parsed { json, understood })
        };
        let objects: Option<Vec<Parsed<'_>>> = objects.iter().map(parsed).collect();
        let objects = objects.ok_or(Doubt::Other)?;
        let names: BTreeSet<&str> = objects
            .iter()
            .map(|object| object.understood.name().as_str())
            .collect();
        match names.into_iter().eq(&self.names) {
            true => Ok(objects),
            false => Err(Doubt::Other),
        }
    }
}

#[cfg(test)]
mod tests;
