//! The map over HTTP: `--listen-map` of `watch`.

use std::io::{Read, Write};
use std::net::TcpStream;

use serde_json::json;
use testbed::PATIENCE;

use super::running::{Running, http_get};
use super::server::{Server, node};
use super::support::{TextAssertions, pool};

/// The head and the body of an answer.
fn ask(address: &str, request: &str) -> (String, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    write!(stream, "{request}\r\nConnection: close\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    (head.to_owned(), body.to_owned())
}

#[test]
fn watch_serves_the_map_of_its_last_plan() {
    let server = Server::usual();
    server.folder.write(
        "pools/a.yaml",
        pool("a", "{cidrs: [10.20.0.0/16], blockSize: 24}"),
    );
    server.nodes([node("n1", json!({}))]);
    let words = ["watch", "--listen-map", "0"];
    let kubeconfig = server.plane.kubeconfig();
    let watch = Running::start(server.folder.path(), kubeconfig, &words);
    let listening = watch.until("listening", json!({"serves": "map"}));
    let address = listening["address"].as_str().unwrap();
    assert!(address.starts_with("127.0.0.1:"), "{address}");
    assert_eq!(watch.written("n1"), json!(["10.20.0.0/24"]));
    let page = testbed::wait_until("the map to have the block", PATIENCE, || {
        let (status, page) = http_get(address, "/");
        let is_there = status == 200 && page.contains("\"n1\"") && page.contains("10.20.0.0/24");
        Ok(is_there.then_some(page))
    })
    .unwrap();
    assert!(
        page.contains("default-src 'none'"),
        "it may send no request"
    );
    only_this_machine_reads_the_map(address);
    assert_eq!(watch.end(), 0);
}

fn only_this_machine_reads_the_map(address: &str) {
    assert_eq!(http_get(address, "/other").0, 404);
    let (head, body) = ask(address, &format!("POST / HTTP/1.1\r\nHost: {address}"));
    assert!(head.starts_with("HTTP/1.1 405"), "{head}");
    body.assert_lacks("n1");
    // A page of another site whose name leads here.
    let (head, body) = ask(address, "GET / HTTP/1.1\r\nHost: evil.example");
    assert!(head.starts_with("HTTP/1.1 421"), "{head}");
    body.assert_lacks("n1");
    let (head, _) = ask(address, "GET / HTTP/1.1\r\nHost: node-1");
    assert!(head.starts_with("HTTP/1.1 403"), "{head}");
    let (head, _) = ask(address, "GET / HTTP/1.1");
    assert!(head.starts_with("HTTP/1.1 400"), "{head}");
}
