//! The map over HTTP, for browsers: read-only. Must never know how a plan is made.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use tokio::sync::Semaphore;

use super::failure::Failure;
use crate::render::map::html;
use crate::render::printable;
use ipam_controller::{Answer, Bytes, ControllerEvent, HttpServer, Site, Visit};
use ipam_core::net::Address;
use ipam_doctor::map::AddressMap;

/// The drawn map, or why it could not be drawn.
type MapResult = Result<Arc<Drawn>, String>;

/// A map with its page, which is drawn once: many visitors must cost a leader little more than one.
struct Drawn {
    map: AddressMap,
    page: OnceLock<Page>,
}

/// An HTML page, or why it could not be made.
type Page = Result<Bytes, String>;

impl Drawn {
    /// The page is not drawn before a visitor asks for it.
    fn new(map: AddressMap) -> Drawn {
        Drawn {
            map,
            page: OnceLock::new(),
        }
    }

    fn page(&self) -> Page {
        let draw = || {
            html(&self.map)
                .map(Bytes::from)
                .map_err(|why| why.to_string())
        };
        self.page.get_or_init(draw).clone()
    }
}

/// From where the map may be visited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Visitors {
    /// Visitors who name this machine by its loopback address.
    ThisMachine,
    Anyone,
}

impl Visitors {
    fn of(address: SocketAddr) -> Visitors {
        match address.ip().to_canonical().is_loopback() {
            true => Visitors::ThisMachine,
            false => Visitors::Anyone,
        }
    }

    fn has(self, host: Option<&str>) -> bool {
        let is_loopback = |host: &str| {
            let address = host.parse::<Address>().map(IpAddr::from);
            host == "localhost" || address.is_ok_and(|address| address.is_loopback())
        };
        match self {
            Visitors::Anyone => true,
            Visitors::ThisMachine => host.is_some_and(is_loopback),
        }
    }
}

/// The map at an address.
pub(super) struct LiveMap {
    /// The map of the last plan.
    latest: Mutex<MapResult>,
    visitors: Visitors,
    /// Allows one page to be drawn at a time: drawing shares its threads with the evaluation of
    /// rules.
    drawing: Arc<Semaphore>,
}

impl Site for LiveMap {
    /// Each slow one may keep a large page in memory.
    const CONNECTIONS: usize = 16;

    /// The page of a large cluster takes time to draw.
    const PATIENCE: Duration = Duration::from_secs(120);

    async fn answer(&self, visit: Visit) -> Answer {
        if !self.visitors.has(visit.host.as_deref()) {
            let why = "this map is for this machine: open it by its loopback address";
            return Answer::forbidden(why);
        }
        if visit.path != "/" {
            return Answer::not_found();
        }
        let map = match self.latest().clone() {
            Ok(map) => map,
            Err(why) => return unavailable(&why),
        };
        let Ok(turn) = self.drawing.clone().acquire_owned().await else {
            return unavailable("cilium-ipam ends");
        };
        // The turn ends with the drawing, even if the visitor leaves before.
        let drawn = tokio::task::spawn_blocking(move || {
            let page = map.page();
            drop(turn);
            page
        });
        match drawn.await {
            Ok(Ok(page)) => Answer::of("text/html; charset=utf-8", page),
            Ok(Err(why)) => unavailable(&why),
            Err(why) => unavailable(&why.to_string()),
        }
    }
}

fn unavailable(why: &str) -> Answer {
    Answer::unavailable(&printable(why))
}

impl LiveMap {
    fn latest(&self) -> MutexGuard<'_, MapResult> {
        self.latest.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A server of the map.
pub(super) struct MapServer {
    server: HttpServer,
    site: Arc<LiveMap>,
}

impl MapServer {
    /// Serves the map of the last plan. `None` without an address.
    pub(super) async fn of_plans(address: Option<SocketAddr>) -> Result<Option<Self>, Failure> {
        let Some(address) = address else {
            return Ok(None);
        };
        let server = HttpServer::bind(address).await?;
        let visitors = Visitors::of(server.address()?);
        let site = Arc::new(LiveMap {
            latest: Mutex::new(Err("there is no plan yet".to_owned())),
            visitors,
            drawing: Arc::new(Semaphore::new(1)),
        });
        Ok(Some(MapServer { server, site }))
    }

    pub(super) fn address(&self) -> std::io::Result<SocketAddr> {
        self.server.address()
    }

    /// Keeps the map of a plan, and forgets it when another replica leads.
    pub(super) fn on_event(&self, event: &ControllerEvent<'_>) {
        let made = match event {
            ControllerEvent::Planned(planned) => {
                let desired = &planned.loaded.desired;
                let map = AddressMap::new(desired, planned.observed, planned.plan);
                Ok(Arc::new(Drawn::new(map)))
            }
            ControllerEvent::Standby(_) => {
                Err("this replica is on standby: another one leads".to_owned())
            }
            _ => return,
        };
        *self.site.latest() = made;
    }
}

/// Serves while it is polled. Without a server, it does nothing.
pub(super) async fn serve(server: Option<&MapServer>) -> std::convert::Infallible {
    match server {
        Some(MapServer { server, site }) => server.serve(site).await,
        None => std::future::pending().await,
    }
}

/// `ADDRESS:PORT`, or a port of loopback.
pub(super) fn listen_address(text: &str) -> Result<SocketAddr, String> {
    let of_port = text.parse().ok();
    let of_port = of_port.map(|port| SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
    let address = of_port.or_else(|| text.parse().ok());
    address.ok_or_else(|| "expected a port, or an address as `127.0.0.1:8464`".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_alone_is_of_loopback() {
        let shown = |text: &str| listen_address(text).map(|address| address.to_string());
        assert_eq!(shown("8464"), Ok("127.0.0.1:8464".to_owned()));
        assert_eq!(shown("0.0.0.0:80"), Ok("0.0.0.0:80".to_owned()));
        assert_eq!(shown("[::1]:80"), Ok("[::1]:80".to_owned()));
        for bad in ["", "localhost:80", "pools", "70000"] {
            assert!(shown(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn only_names_of_this_machine_reach_a_loopback_address() {
        let here = Visitors::of("[::ffff:127.0.0.1]:1".parse().unwrap());
        assert_eq!(here, Visitors::of("127.0.0.1:1".parse().unwrap()));
        for host in ["127.0.0.1", "localhost", "127.9.9.9", "::1"] {
            assert!(here.has(Some(host)), "{host}");
        }
        let others = [Some("evil.example"), Some("10.0.0.1"), Some(""), None];
        for host in others {
            assert!(!here.has(host), "{host:?}");
            let anyone = Visitors::of("0.0.0.0:1".parse().unwrap());
            assert!(anyone.has(host), "{host:?}");
        }
    }
}
