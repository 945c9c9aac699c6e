//! A running `watch` or operator, and the lines that it prints.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};

use serde_json::{Value, json};

use super::support::program;

/// One that runs.
pub struct Running {
    child: Child,
    pub lines: Receiver<Value>,
}

impl Running {
    /// Starts it with these arguments, with lines as JSON.
    pub fn start(folder: &Path, kubeconfig: &Path, arguments: &[&str]) -> Running {
        Running::start_with(folder, kubeconfig, arguments, &[])
    }

    /// The same, with these variables in its environment.
    pub fn start_with(
        folder: &Path,
        kubeconfig: &Path,
        arguments: &[&str],
        variables: &[(&str, &str)],
    ) -> Running {
        let all = [
            arguments,
            &[
                "--output",
                "json",
                "--kubeconfig",
                kubeconfig.to_str().unwrap(),
            ],
        ]
        .concat();
        let mut command = program(folder, &all);
        command.envs(variables.iter().copied());
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in stdout.lines() {
                let _ = sender.send(serde_json::from_str(&line.unwrap()).unwrap());
            }
        });
        Running { child, lines }
    }

    /// Waits for the next line of this event that has these fields.
    #[track_caller]
    pub fn until(&self, event: &str, fields: Value) -> Value {
        let mut seen = Vec::new();
        loop {
            let Ok(line) = self.lines.recv_timeout(testbed::PATIENCE) else {
                panic!("no {event} {fields} among {seen:#?}");
            };
            let has_all = fields
                .as_object()
                .unwrap()
                .iter()
                .all(|(key, value)| line[key] == *value);
            if line["event"] == event && has_all {
                return line;
            }
            seen.push(line);
        }
    }

    #[track_caller]
    pub fn written(&self, node: &str) -> Value {
        self.until("written", json!({"kind": "Node", "name": node}))["after"].clone()
    }

    /// Where it answers machines.
    #[track_caller]
    pub fn address(&self) -> String {
        self.until("listening", json!({}))["address"]
            .as_str()
            .unwrap()
            .to_owned()
    }

    /// Ends it as nothing can be prepared for.
    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Asks it to end, and waits for that.
    pub fn end(mut self) -> i32 {
        Command::new("kill")
            .arg(self.child.id().to_string())
            .status()
            .unwrap();
        self.child.wait().unwrap().code().unwrap_or(-1)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Status and body of a GET without TLS.
pub fn http_get(address: &str, path: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(testbed::PATIENCE)).unwrap();
    write!(
        stream,
        "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n"
    )
    .unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    (
        head.split(' ').nth(1).unwrap().parse().unwrap(),
        body.to_owned(),
    )
}
