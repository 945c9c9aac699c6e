//! A cluster in a file: how it is read and written. What blocks a change, and which addresses are in
//! use, is in `cases`.

mod reading;
mod writing;

use crate::support::{Folder, cluster};

const POOL: &str = "{cidrs: [10.20.0.0/16], blockSize: 24}";

fn folder(version: &str, settings: &str, items: &[String], pools: &[String]) -> Folder {
    Folder::new(&[
        ("cluster.json", &cluster(version, settings, items)),
        ("pools/a.yaml", &pools.join("---\n")),
    ])
}

/// The first blocked reason.
fn blocked(folder: &Folder) -> String {
    folder.plan()["blocked"][0]["reason"]
        .as_str()
        .unwrap_or("nothing is blocked")
        .to_owned()
}
