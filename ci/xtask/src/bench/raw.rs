//! The limits on a real API server: requests alone, as kubectl would send them. Answers are read to
//! their end and discarded; connections are warm, and no process starts.

use std::fmt::{self, Display};
use std::io::Write;
use std::process::Stdio;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use testbed::{Client, ControlPlane, Program, Programs};
use xtask::tool::clean;

use ipam_cilium::observed::ObservedKind;

/// The page size of kubectl and client-go.
const PAGE: usize = 500;
/// Where to search a page for its continue token, at both ends: in custom resources, `metadata`
/// comes last.
const TOKEN_WITHIN: usize = 2_048;

/// The time and the size of a LIST.
pub struct Listed {
    /// From the first request to the last byte.
    pub milliseconds: f64,
    /// Size of the bodies.
    pub bytes: usize,
}

/// Lists every kind that a plan needs, page after page.
pub fn list(client: &Client) -> Result<Listed> {
    list_kinds(client, &ObservedKind::OF_PLANS)
}

/// Lists these kinds, page after page.
pub fn list_kinds(client: &Client, kinds: &[ObservedKind]) -> Result<Listed> {
    let start = Instant::now();
    let mut bytes = 0;
    for kind in kinds {
        bytes += list_kind(client, *kind)?;
    }
    Ok(Listed {
        milliseconds: start.elapsed().as_secs_f64() * 1e3,
        bytes,
    })
}

fn list_kind(client: &Client, kind: ObservedKind) -> Result<usize> {
    let query = kind.query("kube-system");
    let parameters: String = query
        .parameters
        .iter()
        .map(|(key, value)| format!("&{key}={value}"))
        .collect();
    for path in &query.paths {
        match list_pages(client, path, &parameters) {
            Err(error) if error.status() == Some(404) => {}
            other => return Ok(other?),
        }
    }
    Ok(0)
}

fn list_pages(client: &Client, path: &str, parameters: &str) -> Result<usize, testbed::Error> {
    let mut bytes = 0;
    let mut next = String::new();
    loop {
        let page = client.get_bytes(&format!("{path}?limit={PAGE}{next}{parameters}"))?;
        bytes += page.len();
        match continue_token(&page) {
            Some(token) => next = format!("&continue={token}"),
            None => return Ok(bytes),
        }
    }
}

fn continue_token(page: &[u8]) -> Option<String> {
    let head = &page[..page.len().min(TOKEN_WITHIN)];
    let tail = &page[page.len().saturating_sub(TOKEN_WITHIN)..];
    [head, tail].into_iter().find_map(|part| {
        let text = String::from_utf8_lossy(part);
        let (_, rest) = text.split_once("\"continue\":\"")?;
        let (token, _) = rest.split_once('"')?;
        (!token.is_empty()).then(|| token.to_owned())
    })
}

/// A write as the tool's: guarded by UID and resourceVersion.
pub struct Patch {
    path: String,
    body: Value,
}

/// A block for every existing Node.
pub fn patches(plane: &ControlPlane) -> Result<Vec<Patch>> {
    let nodes = plane.list("/api/v1/nodes")?;
    Ok(nodes
        .iter()
        .zip(0u32..)
        .map(|(node, index)| patch(node, index))
        .collect())
}

fn patch(node: &Value, index: u32) -> Patch {
    let name = node["metadata"]["name"].as_str().unwrap_or_default();
    let metadata = json!({"uid": node["metadata"]["uid"], "resourceVersion": node["metadata"]["resourceVersion"]});
    let first = std::net::Ipv4Addr::from_bits((10 << 24) + (index << 6));
    let block = format!("{first}/26");
    let body = json!({"metadata": metadata, "spec": {"podCIDR": block, "podCIDRs": [block]}});
    Patch {
        path: format!("/api/v1/nodes/{name}?fieldManager=cilium-ipam"),
        body,
    }
}

/// A raw loop of PATCHes: how it speaks to the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Version of HTTP: 1 or 2.
    pub http: u8,
    /// Requests in flight. With HTTP/1.1 each has a connection of its own.
    pub in_flight: usize,
}

impl Peer {
    /// All that are tried.
    pub const ALL: [Peer; 6] = [
        Peer::new(1, 16),
        Peer::new(1, 32),
        Peer::new(1, 64),
        Peer::new(2, 16),
        Peer::new(2, 32),
        Peer::new(2, 64),
    ];

    const fn new(http: u8, in_flight: usize) -> Peer {
        Peer { http, in_flight }
    }

    /// Sends the PATCHes in a process of its own; returns how many the server takes per second.
    pub fn rate(self, programs: &Programs, plane: &ControlPlane, patches: &[Patch]) -> Result<f64> {
        let mut lines = String::new();
        for Patch { path, body } in patches {
            lines += &(json!({"path": path, "body": body}).to_string() + "\n");
        }
        let mut child = clean(programs.path(Program::RawLoop)?)
            .arg("-kubeconfig")
            .arg(plane.kubeconfig())
            .args(["-http", &self.http.to_string()])
            .args(["-connections", &self.in_flight.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("the raw loop does not start")?;
        // It reads all of them before it prints anything.
        let mut stdin = child.stdin.take().context("no standard input")?;
        stdin.write_all(lines.as_bytes())?;
        drop(stdin);
        let output = child.wait_with_output()?;
        ensure!(output.status.success(), "the raw loop failed");
        let report: Value = serde_json::from_slice(&output.stdout)?;
        let seconds = report["seconds"].as_f64().context("no time")?;
        #[expect(clippy::cast_precision_loss, reason = "far fewer than 2^52")]
        Ok(patches.len() as f64 / seconds)
    }
}

impl Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HTTP/{}×{}", self.http, self.in_flight)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_token_is_found_at_either_end() {
        let filler = "x".repeat(2 * TOKEN_WITHIN);
        let head = format!(r#"{{"metadata":{{"continue":"abc"}},"items":["{filler}"]}}"#);
        let tail = format!(r#"{{"items":["{filler}"],"metadata":{{"continue":"abc"}}}}"#);
        let last = format!(r#"{{"items":["{filler}"],"metadata":{{"continue":""}}}}"#);
        let token = |page: &str| continue_token(page.as_bytes());
        assert_eq!(
            (token(&head), token(&tail), token(&last)),
            (Some("abc".into()), Some("abc".into()), None)
        );
    }
}
