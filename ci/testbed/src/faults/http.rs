//! As much of HTTP/1.1 as a proxy needs that gives every request a connection of its own.

use std::io::{self, Read};

const END_OF_HEAD: &[u8] = b"\r\n\r\n";
/// More than any client of ours sends.
const HEAD_LIMIT: usize = 64 * 1024;

/// A whole request as it came.
#[derive(Debug)]
pub(super) struct Incoming {
    pub(super) method: String,
    /// Path and query.
    pub(super) target: String,
    pub(super) bytes: Vec<u8>,
}

impl Incoming {
    /// `None` when the client goes before it has said all. A body has a `Content-Length` or is
    /// none: no client of ours sends chunks.
    pub(super) fn read(client: &mut impl Read) -> io::Result<Option<Self>> {
        let Some((mut bytes, head)) = read_head(client)? else {
            return Ok(None);
        };
        let text = String::from_utf8_lossy(&bytes[..head]).into_owned();
        let mut words = text.lines().next().unwrap_or_default().split(' ');
        let (method, target) = (
            words.next().unwrap_or_default(),
            words.next().unwrap_or_default(),
        );
        if header(&text, "transfer-encoding").is_some() {
            return Err(io::Error::new(
                io::ErrorKind::Unsupported,
                "a body in chunks",
            ));
        }
        let whole = head
            + header(&text, "content-length")
                .and_then(|length| length.parse().ok())
                .unwrap_or(0);
        if !read_to(client, &mut bytes, whole)? {
            return Ok(None);
        }
        bytes.truncate(whole);
        Ok(Some(Self {
            method: method.to_owned(),
            target: target.to_owned(),
            bytes,
        }))
    }
}

/// A whole answer of a server that ends the connection after each.
pub(super) fn read_answer(server: &mut impl Read) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    server.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The status of an answer.
pub(super) fn status(answer: &[u8]) -> Option<u16> {
    let line = answer.split(|byte| *byte == b'\r').next()?;
    String::from_utf8_lossy(line)
        .split(' ')
        .nth(1)?
        .parse()
        .ok()
}

/// An answer of our own.
pub(super) fn answer(status: u16, body: &str) -> String {
    format!(
        "HTTP/1.1 {status} Fault\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    )
}

/// The bytes received so far, and the length of the head in them.
fn read_head(client: &mut impl Read) -> io::Result<Option<(Vec<u8>, usize)>> {
    let mut bytes = Vec::new();
    loop {
        let end = bytes
            .windows(END_OF_HEAD.len())
            .position(|window| window == END_OF_HEAD);
        if let Some(start) = end {
            return Ok(Some((bytes, start + END_OF_HEAD.len())));
        }
        if bytes.len() > HEAD_LIMIT {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "a head without an end",
            ));
        }
        let more = bytes.len() + 1;
        if !read_to(client, &mut bytes, more)? {
            return Ok(None);
        }
    }
}

/// Reads until there are that many bytes; false when the other side ends before.
fn read_to(from: &mut impl Read, bytes: &mut Vec<u8>, wanted: usize) -> io::Result<bool> {
    let mut chunk = [0; 16 * 1024];
    while bytes.len() < wanted {
        let count = from.read(&mut chunk)?;
        if count == 0 {
            return Ok(false);
        }
        bytes.extend_from_slice(&chunk[..count]);
    }
    Ok(true)
}

fn header<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    let lines = head.lines().filter_map(|line| line.split_once(':'));
    lines
        .into_iter()
        .find(|(found, _)| found.eq_ignore_ascii_case(name))
        .map(|(_, value)| value.trim())
}
