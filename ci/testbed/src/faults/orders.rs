//! Which requests there were, and which fault the next one meets.

use std::collections::BTreeMap;
use std::time::Duration;

/// What a request can meet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// An answer that is not the server's; the server never hears of the request.
    Answer {
        /// The HTTP status.
        status: u16,
        /// The body, said to be JSON, whatever it is.
        body: String,
    },
    /// No answer, on a connection that stays open; the server never hears of the request.
    Silence,
    /// A connection that is closed without an answer; the server never hears of the request.
    Close,
    /// The server does it and answers, but the client hears nothing, on a connection that stays
    /// open.
    Withhold,
    /// The server does it and answers, but the connection is closed instead.
    Lose,
    /// The server's answer, byte by byte, with a pause after each.
    Drip(Duration),
}

impl Fault {
    /// The answer of a load balancer without a server: 503, and a text that is not JSON.
    #[must_use]
    pub fn unavailable() -> Self {
        Self::Answer {
            status: 503,
            body: "<html><body><h1>503 Service Unavailable</h1></body></html>\n".to_owned(),
        }
    }
}

/// A request that came by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// Its method.
    pub method: String,
    /// Its path.
    pub path: String,
    /// What stood after the `?`.
    pub query: String,
    /// The server's status, once the server has answered: not what a fault made of it.
    pub status: Option<u16>,
    /// The fault that it met.
    pub fault: Option<Fault>,
}

impl Seen {
    /// Whether it has this method, or any where that is `*`, and a path that starts so.
    #[must_use]
    pub fn is(&self, method: &str, path_prefix: &str) -> bool {
        (method == "*" || self.method == method) && self.path.starts_with(path_prefix)
    }
}

#[derive(Debug)]
struct Order {
    left: usize,
    method: String,
    path_prefix: String,
    fault: Fault,
}

/// All requests seen so far, and all orders.
#[derive(Debug, Default)]
pub(super) struct Book {
    orders: Vec<Order>,
    next_number: u64,
    seen: BTreeMap<u64, Seen>,
}

impl Book {
    pub(super) fn order(&mut self, count: usize, method: &str, path_prefix: &str, fault: Fault) {
        let (method, path_prefix) = (method.to_owned(), path_prefix.to_owned());
        self.orders.push(Order {
            left: count,
            method,
            path_prefix,
            fault,
        });
    }

    pub(super) fn pending(&self) -> usize {
        self.orders.iter().map(|order| order.left).sum()
    }

    pub(super) fn requests(&self) -> Vec<Seen> {
        self.seen.values().cloned().collect()
    }

    /// What is under way keeps its number, and so cannot be taken for something newer.
    pub(super) fn clear(&mut self) {
        self.orders.clear();
        self.seen.clear();
    }

    /// Notes a request; its number, and what it meets.
    pub(super) fn enter(&mut self, method: &str, target: &str) -> (u64, Option<Fault>) {
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let (method, path, query) = (method.to_owned(), path.to_owned(), query.to_owned());
        let mut seen = Seen {
            method,
            path,
            query,
            status: None,
            fault: None,
        };
        let met = self
            .orders
            .iter_mut()
            .find(|order| order.left > 0 && seen.is(&order.method, &order.path_prefix));
        if let Some(order) = met {
            order.left -= 1;
            seen.fault = Some(order.fault.clone());
        }
        let fault = seen.fault.clone();
        self.next_number += 1;
        self.seen.insert(self.next_number, seen);
        (self.next_number, fault)
    }

    pub(super) fn answered(&mut self, number: u64, status: Option<u16>) {
        if let Some(seen) = self.seen.get_mut(&number) {
            seen.status = status;
        }
    }
}
