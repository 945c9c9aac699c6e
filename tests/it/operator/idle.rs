//! The operator's HTTP port under clients that connect and send nothing.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use tokio::net::{TcpSocket, TcpStream};

use super::{operator_of, server};
use crate::running::http_get;

/// Far more than the server keeps open.
const IDLE: usize = 4_000;
/// Addresses of loopback that connect: with a single one, only the limit of one peer would count.
const PEERS: usize = 40;
const PROBES: usize = 20;

async fn idle_connections(address: SocketAddr) -> std::io::Result<Vec<TcpStream>> {
    let mut open = Vec::new();
    for number in 0..IDLE {
        let peer = Ipv4Addr::new(127, 0, 1, u8::try_from(number % PEERS).unwrap());
        let socket = TcpSocket::new_v4()?;
        socket.bind((peer, 0).into())?;
        open.push(socket.connect(address).await?);
    }
    Ok(open)
}

/// The slowest of several answers.
fn slowest_answer(address: &str) -> Duration {
    let answer = |_| {
        let asked = Instant::now();
        assert_eq!(http_get(address, "/livez").0, 200);
        asked.elapsed()
    };
    (0..PROBES).map(answer).max().unwrap()
}

#[test]
fn probes_are_answered_while_4000_connections_are_idle() {
    let server = server();
    let operator = operator_of(&server);
    let address = operator.address();
    let without = slowest_answer(&address);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .build()
        .unwrap();
    let open = runtime.block_on(idle_connections(address.parse().unwrap()));
    let open = open.unwrap();
    let with = slowest_answer(&address);
    assert_eq!(open.len(), IDLE);
    let ratio = with.as_secs_f64() / without.as_secs_f64();
    println!("/livez: {with:?} beside {IDLE} idle connections, {without:?} without: × {ratio:.1}");
    assert_eq!(operator.end(), 0);
}
