//! The proxy alone, in front of a server that says what it was asked.

use std::io::{BufRead, BufReader};
use std::sync::mpsc::{Receiver, channel};

use super::*;
use crate::wait::wait_until;

const LIMIT: Duration = Duration::from_secs(10);
const SHORT: Duration = Duration::from_millis(300);

/// A server that answers each request with its first line; the receiver hears of each.
fn server() -> (String, Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let (said, heard) = channel();
    thread::spawn(move || {
        for mut client in listener.incoming().flatten() {
            let mut line = String::new();
            BufReader::new(client.try_clone().unwrap())
                .read_line(&mut line)
                .unwrap();
            let line = line.trim().to_owned();
            let length = line.len();
            write!(client, "HTTP/1.1 201 Created\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{line}")
                .unwrap();
            said.send(line).unwrap();
        }
    });
    (address, heard)
}

/// The status and the body, or the error.
fn ask(
    faults: &Faults,
    method: &str,
    path: &str,
    limit: Duration,
) -> std::result::Result<(u16, String), ureq::Error> {
    let agent = ureq::Agent::config_builder()
        .proxy(None)
        .http_status_as_error(false)
        .timeout_global(Some(limit))
        .build()
        .new_agent();
    let url = format!("{}{path}", faults.url());
    let mut answer = match method {
        "POST" => agent.post(url).send("{}")?,
        _ => agent.get(url).call()?,
    };
    Ok((
        answer.status().as_u16(),
        answer.body_mut().read_to_string()?,
    ))
}

#[test]
fn requests_pass_and_are_counted() {
    let (upstream, _heard) = server();
    let faults = Faults::start(&upstream).unwrap();
    assert_eq!(
        ask(&faults, "GET", "/ports?name=a", LIMIT).unwrap(),
        (201, "GET /ports?name=a HTTP/1.1".to_owned())
    );
    ask(&faults, "POST", "/ports", LIMIT).unwrap();
    let counts = [("GET", "/ports"), ("*", "/"), ("POST", "/networks")]
        .map(|(method, path)| faults.count(method, path));
    assert_eq!(counts, [1, 2, 0]);
    assert_eq!(faults.requests()[0].query, "name=a");
    assert_eq!(faults.requests()[1].status, Some(201));
    faults.clear();
    assert_eq!(faults.requests(), []);
}

#[test]
fn only_as_many_requests_as_ordered_meet_a_fault_and_only_those_that_match() {
    let (upstream, _heard) = server();
    let faults = Faults::start(&upstream).unwrap();
    faults.next(2, "POST", "/ports", Fault::unavailable());
    let asked = [
        ("GET", "/ports"),
        ("POST", "/ports"),
        ("POST", "/networks"),
        ("POST", "/ports/1"),
        ("POST", "/ports"),
    ];
    let statuses = asked.map(|(method, path)| ask(&faults, method, path, LIMIT).unwrap().0);
    assert_eq!(statuses, [201, 503, 201, 503, 201]);
    assert_eq!(faults.pending(), 0);
}

#[test]
fn the_server_never_hears_of_what_is_silenced_or_closed() {
    let (upstream, heard) = server();
    let faults = Faults::start(&upstream).unwrap();
    for fault in [Fault::Silence, Fault::Close] {
        faults.next(1, "*", "/", fault);
        ask(&faults, "GET", "/", SHORT).unwrap_err();
    }
    ask(&faults, "GET", "/last", LIMIT).unwrap();
    assert_eq!(heard.try_iter().collect::<Vec<_>>(), ["GET /last HTTP/1.1"]);
}

#[test]
fn the_server_has_done_what_is_withheld_or_lost() {
    let (upstream, heard) = server();
    let faults = Faults::start(&upstream).unwrap();
    for fault in [Fault::Withhold, Fault::Lose] {
        faults.next(1, "POST", "/", fault.clone());
        ask(&faults, "POST", "/", SHORT).unwrap_err();
        let answered = || {
            Ok(faults
                .requests()
                .last()
                .filter(|seen| seen.status == Some(201))
                .map(|_| ()))
        };
        wait_until("the server's answer", LIMIT, answered).unwrap();
        assert_eq!(faults.requests().last().unwrap().fault, Some(fault));
    }
    assert_eq!(heard.try_iter().count(), 2);
}

#[test]
fn an_answer_that_drips_comes_whole_to_who_waits() {
    let (upstream, _heard) = server();
    let faults = Faults::start(&upstream).unwrap();
    faults.next(2, "*", "/", Fault::Drip(Duration::from_millis(5)));
    assert_eq!(ask(&faults, "GET", "/", LIMIT).unwrap().0, 201);
    ask(&faults, "GET", "/", Duration::from_millis(50)).unwrap_err();
}

#[test]
fn clearing_lets_those_go_that_wait() {
    let (upstream, _heard) = server();
    let faults = Faults::start(&upstream).unwrap();
    faults.next(1, "*", "/", Fault::Silence);
    thread::scope(|scope| {
        let asked = scope.spawn(|| ask(&faults, "GET", "/", LIMIT));
        let is_held = || Ok((!faults.shared.held().is_empty()).then_some(()));
        wait_until("the request to be held", LIMIT, is_held).unwrap();
        faults.clear();
        assert!(!matches!(
            asked.join().unwrap(),
            Ok(_) | Err(ureq::Error::Timeout(_))
        ));
    });
}

#[test]
fn a_server_that_is_away_closes_the_connection() {
    let nobody = format!("127.0.0.1:{}", crate::process::free_port().unwrap());
    let faults = Faults::start(&nobody).unwrap();
    ask(&faults, "GET", "/", LIMIT).unwrap_err();
    assert_eq!(faults.requests()[0].status, None);
}
