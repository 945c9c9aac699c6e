//! `map`: writes the address space as one page: pools, blocks of nodes, Services, what is kept free,
//! and what a plan would change.

use std::path::PathBuf;

use super::failure::Failure;
use super::files::{Files, output_file};
use super::plan_file::Inputs;
use super::show::read_and_plan;
use super::{Common, ExitStatus, output};
use crate::render::map::html;
use crate::render::{count, printable};
use ipam_cluster::replace_file;
use ipam_doctor::map::AddressMap;

#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    files: Files,
    /// The file, which ends with `.html`: a page to search and zoom, which needs nothing but a
    /// browser.
    #[arg(long, value_name = "FILE", default_value = "map.html", value_parser = output_file())]
    out: PathBuf,
}

pub(super) async fn run(arguments: &Arguments, common: &Common) -> Result<ExitStatus, Failure> {
    let file = arguments.out.display().to_string();
    if !is_page(arguments) {
        return Err(Failure::Failed(format!(
            "`map` writes an HTML page, and `{}` does not end with `.html`",
            printable(&file)
        )));
    }
    Inputs::of(common)
        .with_directory(&arguments.files.location().directory)
        .check(&[("--out", Some(&arguments.out))])?;
    let (loaded, observed, plan) = read_and_plan(arguments.files.location(), common).await?;
    let map = AddressMap::new(&loaded.desired, &observed, &plan);
    let page = html(&map).map_err(std::io::Error::from)?;
    replace_file(&arguments.out, &page)
        .map_err(|error| Failure::Failed(format!("{file} cannot be written: {error}")))?;
    let areas = map.areas().count();
    output::progress(&format!(
        "Wrote {}: {} in {} of the address space.",
        printable(&file),
        count(areas, "area"),
        count(map.panels.len(), "part"),
    ));
    Ok(ExitStatus::Done)
}

fn is_page(arguments: &Arguments) -> bool {
    let extension = arguments.out.extension();
    extension.is_some_and(|text| text.eq_ignore_ascii_case("html"))
}
