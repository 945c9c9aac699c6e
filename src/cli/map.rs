//! `map`: writes the address space as one file, a page or a picture: pools, blocks of nodes, Services,
//! what is kept free, and what a plan would change.

use std::path::PathBuf;

use super::failure::Failure;
use super::files::{Files, output_file};
use super::show::read_and_plan;
use super::{Common, ExitStatus, output};
use crate::render::map::{html, svg};
use crate::render::{count, printable};
use ipam_cluster::replace_file;
use ipam_planner::map::AddressMap;

/// Write a map of the address space, now and after a plan, as one file.
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    files: Files,
    /// The file. `.html` is a page to search and zoom, which needs nothing but a browser; `.svg` is a
    /// picture.
    #[arg(long, value_name = "FILE", default_value = "map.html", value_parser = output_file())]
    out: PathBuf,
}

/// The format, by the extension of the file.
#[derive(Clone, Copy)]
enum MapFormat {
    Page,
    Picture,
}

pub(super) async fn run(arguments: &Arguments, common: &Common) -> Result<ExitStatus, Failure> {
    let format = format(arguments)?;
    let (loaded, observed, plan) = read_and_plan(arguments.files.location(), common).await?;
    let map = AddressMap::new(&loaded.desired, &observed, &plan);
    let text = match format {
        MapFormat::Page => html(&map).map_err(std::io::Error::from)?,
        MapFormat::Picture => svg(&map),
    };
    let file = arguments.out.display().to_string();
    replace_file(&arguments.out, &text)
        .map_err(|error| Failure::Failed(format!("{file} cannot be written: {error}")))?;
    let areas = map.areas().count();
    output::talk(&format!(
        "Wrote {}: {} in {} of the address space.\n",
        printable(&file),
        count(areas, "area"),
        count(map.panels.len(), "part"),
    ));
    Ok(ExitStatus::Done)
}

fn format(arguments: &Arguments) -> Result<MapFormat, Failure> {
    let extension = arguments
        .out
        .extension()
        .map(|text| text.to_ascii_lowercase());
    match extension.as_deref().and_then(std::ffi::OsStr::to_str) {
        Some("html" | "htm") => Ok(MapFormat::Page),
        Some("svg") => Ok(MapFormat::Picture),
        _ => Err(Failure::Failed(format!(
            "`{}` names no format: end it with `.html` for a page, or with `.svg` for a picture",
            printable(&arguments.out.display().to_string())
        ))),
    }
}
