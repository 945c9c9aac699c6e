//! The map over HTTP: `map --listen`, and `--listen-map` of `watch`.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Stdio};

use serde_json::json;
use testbed::{Options, PATIENCE};

use super::running::{Running, http_get};
use super::server::{Server, kubernetes, node as live_node};
use super::support::{Folder, KUBERNETES, cluster, holds, node, pool, program};

/// `map --listen`, which ends with its test.
struct Serving {
    child: Child,
    address: String,
}

impl Serving {
    fn start(folder: &Folder) -> Serving {
        let words = ["map", "--listen", "0", "--cluster-file", "cluster.json"];
        let mut command = program(folder.path(), &words);
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        let mut printed = BufReader::new(child.stdout.take().unwrap());
        printed.read_line(&mut line).unwrap();
        let address = line.trim().trim_start_matches("http://");
        let address = address.trim_end_matches('/').to_owned();
        Serving { child, address }
    }

    /// The head and the body of an answer.
    fn ask(&self, request: &str) -> (String, String) {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        write!(stream, "{request}\r\nConnection: close\r\n\r\n").unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        (head.to_owned(), body.to_owned())
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn racks(nodes: &[String]) -> String {
    cluster("1.19.3", KUBERNETES, nodes)
}

#[test]
fn each_visit_sees_the_cluster_and_the_files_as_they_are() {
    let one = node("n1", "a", &holds("10.20.0.0/24"));
    let folder = Folder::new(&[
        (
            "pools/a.yaml",
            &pool("a", "{cidrs: [10.20.0.0/16], blockSize: 24}"),
        ),
        ("cluster.json", &racks(std::slice::from_ref(&one))),
    ]);
    let serving = Serving::start(&folder);
    assert!(
        serving.address.starts_with("127.0.0.1:"),
        "{}",
        serving.address
    );
    let (status, page) = http_get(&serving.address, "/");
    assert_eq!(status, 200);
    assert!(
        page.contains("\"n1\"") && !page.contains("\"n2\""),
        "{page}"
    );
    assert!(
        page.contains("default-src 'none'"),
        "it may send no request"
    );

    let two = node("n2", "a", &holds("10.20.1.0/24"));
    folder.write("cluster.json", racks(&[one, two]));
    assert!(http_get(&serving.address, "/").1.contains("\"n2\""));
    let (status, picture) = http_get(&serving.address, "/map.svg");
    assert_eq!(status, 200);
    assert!(picture.contains("<svg"), "{picture}");
    assert_eq!(http_get(&serving.address, "/other").0, 404);

    let (head, body) = serving.ask(&format!("POST / HTTP/1.1\r\nHost: {}", serving.address));
    assert!(head.starts_with("HTTP/1.1 405"), "{head}");
    assert!(!body.contains("n1"), "{body}");
    // A page of another site whose name leads here.
    let (head, body) = serving.ask("GET / HTTP/1.1\r\nHost: evil.example");
    assert!(head.starts_with("HTTP/1.1 421"), "{head}");
    assert!(!body.contains("n1"), "{body}");
    let (head, _) = serving.ask("GET / HTTP/1.1\r\nHost: node-1");
    assert!(head.starts_with("HTTP/1.1 403"), "{head}");
    let (head, _) = serving.ask("GET / HTTP/1.1");
    assert!(head.starts_with("HTTP/1.1 400"), "{head}");

    folder.write(
        "pools/a.yaml",
        pool("a", "{cidrs: [10.20.0.0/99], blockSize: 24}"),
    );
    let (status, why) = http_get(&serving.address, "/");
    assert_eq!(status, 503);
    assert!(why.contains("invalid"), "{why}");
}

#[test]
fn faults_end_the_command_and_a_file_is_not_written() {
    let folder = Folder::new(&[
        (
            "pools/a.yaml",
            &pool("a", "{cidrs: [10.20.0.0/99], blockSize: 24}"),
        ),
        ("cluster.json", &racks(&[])),
    ]);
    let words = ["map", "--listen", "0", "--cluster-file", "cluster.json"];
    folder.run(&words).expect(3);
    let both = [&words[..], &["--out", "map.html"]].concat();
    let both = folder.run(&both).expect(1).stderr;
    assert!(both.contains("cannot be used with"), "{both}");
    let name = ["map", "--listen", "pools", "--cluster-file", "cluster.json"];
    let name = folder.run(&name).expect(1).stderr;
    assert!(name.contains("expected a port"), "{name}");
}

#[test]
fn watch_serves_the_map_of_its_last_plan() {
    let server = Server::start(
        &kubernetes("1.19.3", None),
        Some("1.19.3"),
        Options::default(),
        &[],
    );
    server.folder.write(
        "pools/a.yaml",
        pool("a", "{cidrs: [10.20.0.0/16], blockSize: 24}"),
    );
    server.nodes([live_node("n1", json!({}))]);
    let words = ["watch", "--listen-map", "0"];
    let kubeconfig = server.plane.kubeconfig();
    let watch = Running::start(server.folder.path(), kubeconfig, &words);
    let listening = watch.until("listening", json!({"serves": "map"}));
    let address = listening["address"].as_str().unwrap();
    assert_eq!(watch.written("n1"), json!(["10.20.0.0/24"]));
    testbed::wait_until("the map to have the block", PATIENCE, || {
        let (status, page) = http_get(address, "/");
        let is_there = status == 200 && page.contains("\"n1\"") && page.contains("10.20.0.0/24");
        Ok(is_there.then_some(()))
    })
    .unwrap();
    assert_eq!(watch.end(), 0);
}
