//! Reads a large collection without pages, as of a moment that is known before its objects are. It
//! must never know what the objects mean.
//!
//! The server answers a list of the newest moment from its memory. Later pages, and a list of an
//! earlier moment, come from etcd if the kind was not written for some minutes: each compaction
//! removes the older states of the memory (apiserver `pkg/storage/cacher` @ 1.36). For custom
//! resources this takes the server four times as long.
//!
//! So three lists are read: some objects, to see whether there are more; the names of all, which
//! tell the moment; and all objects, of a later moment. If these are the same names, and no object
//! was written after the first moment, they are the objects of the first moment: to have been
//! deleted, an object must be missing; to have been created or created again, it must be newer.

use std::collections::BTreeSet;

use futures_util::future::try_join;
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::task::block_in_place;

use super::LiveCluster;
use super::list::{Listing, at_exactly, give, unreadable};
use super::page::{Items, Page};
use super::request::{Answer, TABLE};
use crate::{ClusterError, ListVisitor, Seen};
use ipam_cilium::observed::{Encoding, ObservedKind, Understood};

/// Objects of a collection that is not large. A page of them costs less than the names.
const FEW: usize = 200;

/// The names of all objects of one moment.
struct Names {
    /// The resourceVersion.
    moment: String,
    names: BTreeSet<String>,
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

impl LiveCluster {
    /// Reads one collection of JSON objects, of its newest moment.
    pub(super) async fn large_list(
        &self,
        kind: ObservedKind,
        listing: Listing<'_>,
        visitor: &mut dyn ListVisitor,
    ) -> Result<Seen, ClusterError> {
        let Listing {
            path, parameters, ..
        } = listing;
        let few = self.get(format!("{path}?limit={FEW}{parameters}")).await?;
        if let Some(seen) = unreadable(listing.resource, &few, "")? {
            return Ok(seen);
        }
        let page = page_of(&few, listing)?;
        if page.next.is_empty() {
            begin(&page, visitor)?;
            give(&page.items, listing, visitor)?;
            return Ok(Seen::All);
        }
        drop(page);
        let names = async {
            let names = self.names(listing).await?;
            if let Some(names) = &names {
                visitor.begun(&names.moment)?;
            }
            Ok(names)
        };
        // The names are asked first, so that their moment is the earlier one.
        let all = self.get(format!("{path}?limit=0{parameters}"));
        match try_join(names, all).await? {
            (None, _) => self.pages(listing, visitor).await,
            (Some(names), all) => self.of_moment(&names, &all, kind, listing, visitor).await,
        }
    }

    /// Gives the objects of the moment of the names. `all` are those of another moment.
    async fn of_moment(
        &self,
        names: &Names,
        all: &Answer,
        kind: ObservedKind,
        listing: Listing<'_>,
        visitor: &mut dyn ListVisitor,
    ) -> Result<Seen, ClusterError> {
        if let Some(seen) = unreadable(listing.resource, all, &names.moment)? {
            return Ok(seen);
        }
        let all = page_of(all, listing)?;
        if let Some(objects) = block_in_place(|| names.objects(&all, kind)) {
            visitor.served(&all.api_version);
            let give = |object: &Parsed<'_>| visitor.known(object.json, &object.understood);
            block_in_place(|| objects.iter().try_for_each(give))?;
            return Ok(Seen::All);
        }
        let moment = at_exactly(&names.moment);
        let listing = Listing {
            moment: &moment,
            ..listing
        };
        self.pages(listing, visitor).await
    }

    /// `None` if the server does not make tables of this kind.
    async fn names(&self, listing: Listing<'_>) -> Result<Option<Names>, ClusterError> {
        let Listing {
            path, parameters, ..
        } = listing;
        let answer = self
            .get_accepting(TABLE, format!("{path}?includeObject=None{parameters}"))
            .await?;
        Ok(block_in_place(|| Names::read(&answer)))
    }
}

fn page_of<'b>(answer: &'b Answer, listing: Listing<'_>) -> Result<Page<'b>, ClusterError> {
    Page::read(answer, listing.kind).map_err(|message| ClusterError::Malformed {
        resource: listing.resource,
        message,
    })
}

fn begin(page: &Page<'_>, visitor: &mut dyn ListVisitor) -> Result<(), ClusterError> {
    visitor.begun(&page.version)?;
    visitor.served(&page.api_version);
    Ok(())
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
            moment: metadata.resource_version,
            names: rows.into_iter().map(name).collect::<Option<_>>()?,
        })
    }

    /// The objects of the moment of the names, if it is sure that these are they.
    fn objects<'a>(&self, all: &Page<'a>, kind: ObservedKind) -> Option<Vec<Parsed<'a>>> {
        let Items::Json(objects) = &all.items else {
            return None;
        };
        let moment: u64 = self.moment.parse().ok()?;
        let later: u64 = all.version.parse().ok()?;
        if later < moment || !all.next.is_empty() {
            return None;
        }
        let parsed = |object: &&'a RawValue| {
            let json = object.get();
            let understood = Understood::of(kind, json)?;
            let version: u64 = understood.resource_version().parse().ok()?;
            (version <= moment).then_some(Parsed { json, understood })
        };
        let objects: Vec<Parsed<'_>> = objects.iter().map(parsed).collect::<Option<_>>()?;
        let names = objects
            .iter()
            .map(|object| object.understood.name().as_str());
        let are_the_same = names
            .collect::<BTreeSet<&str>>()
            .into_iter()
            .eq(&self.names);
        are_the_same.then_some(objects)
    }
}

#[cfg(test)]
mod tests;
