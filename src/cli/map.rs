//! `map`: writes the address space as one file, a page or a picture: pools, blocks of nodes, Services,
//! what is kept free, and what a plan would change.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use super::failure::Failure;
use super::files::{Files, output_file};
use super::interruption::shutdown_signal;
use super::live_map::{Drawn, MapServer, listen_address};
use super::output_files::Inputs;
use super::show::read_and_plan;
use super::{Common, ExitStatus, live_map, output};
use crate::render::map::{html, svg};
use crate::render::{count, printable};
use ipam_cluster::replace_file;
use ipam_planner::map::AddressMap;

/// Write a map of the address space, now and after a plan, as one file, or show it to browsers.
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    files: Files,
    /// The file. `.html` is a page to search and zoom, which needs nothing but a browser; `.svg` is a
    /// picture.
    #[arg(long, value_name = "FILE", default_value = "map.html", value_parser = output_file())]
    out: PathBuf,
    /// Write no file: serve the map to browsers on this port of 127.0.0.1, or on this address, until
    /// Ctrl-C. Each visit reads the files and the cluster anew. It shows names and addresses of all
    /// nodes and Services to each visitor.
    #[arg(long, value_name = "[ADDRESS:]PORT", value_parser = listen_address, conflicts_with = "out")]
    listen: Option<SocketAddr>,
}

/// The format, by the extension of the file.
#[derive(Clone, Copy)]
enum MapFormat {
    Page,
    Picture,
}

pub(super) async fn run(arguments: &Arguments, common: &Common) -> Result<ExitStatus, Failure> {
    if let Some(address) = arguments.listen {
        return live(arguments, common, address).await;
    }
    let format = format(arguments)?;
    Inputs::of(common)
        .with_directory(&arguments.files.location().directory)
        .check(&[("--out", Some(&arguments.out))])?;
    let map = made(arguments, common).await?;
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

async fn made(arguments: &Arguments, common: &Common) -> Result<AddressMap, Failure> {
    let (loaded, observed, plan) = read_and_plan(arguments.files.location(), common).await?;
    Ok(AddressMap::new(&loaded.desired, &observed, &plan))
}

/// Serves the map until a signal.
async fn live(
    arguments: &Arguments,
    common: &Common,
    address: SocketAddr,
) -> Result<ExitStatus, Failure> {
    // Faulty files, or a cluster that cannot be read, end the command at once.
    made(arguments, common).await?;
    let (server, mut asked) = MapServer::on_demand(address).await?;
    output::data(&format!("http://{}/\n", server.address()?))?;
    output::talk(
        "The map is there until Ctrl-C. Each visit reads the files and the cluster anew.\n",
    );
    let answering = async {
        while let Some(first) = asked.recv().await {
            // Those who wait share one map.
            let mut waiting = vec![first];
            waiting.extend(std::iter::from_fn(|| asked.try_recv().ok()));
            let made = made(arguments, common).await;
            let made = made.map(|map| Arc::new(Drawn::new(map)));
            let made = made.map_err(|failure| failure.brief(common.detail()));
            for visitor in waiting {
                // A visitor may have left.
                let _ = visitor.send(made.clone());
            }
        }
        std::future::pending::<Infallible>().await
    };
    tokio::select! {
        never = live_map::serve(Some(&server)) => match never {},
        never = answering => match never {},
        () = shutdown_signal() => Ok(ExitStatus::Done),
    }
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
