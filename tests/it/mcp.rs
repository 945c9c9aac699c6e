//! `mcp` asked by a real client library over stdin and stdout.

use std::process::Stdio;

use rmcp::model::{CallToolRequestParams, CallToolResult};
use rmcp::service::RunningService;
use rmcp::transport::TokioChildProcess;
use rmcp::{RoleClient, ServiceExt};
use serde_json::{Value, json};

use super::support::{Folder, KUBERNETES, TextAssertions, cluster, holds, node, pool, program};

/// A client that has started `cilium-ipam mcp`.
struct Assistant {
    runtime: tokio::runtime::Runtime,
    client: RunningService<RoleClient, ()>,
}

impl Assistant {
    fn new(folder: &Folder) -> Assistant {
        Assistant::on(folder, &["--cluster-file", "cluster.json"])
    }

    fn on(folder: &Folder, cluster: &[&str]) -> Assistant {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let words = [&["mcp", "pools"], cluster].concat();
        let mut command = tokio::process::Command::from(program(folder.path(), &words));
        command.stderr(Stdio::null());
        let client = runtime.block_on(async {
            let child = TokioChildProcess::new(command).unwrap();
            ().serve(child).await.unwrap()
        });
        Assistant { runtime, client }
    }

    fn call(&self, tool: &'static str, arguments: &Value) -> Result<CallToolResult, String> {
        let arguments = arguments.as_object().unwrap().clone();
        let request = CallToolRequestParams::new(tool).with_arguments(arguments);
        let answer = self.runtime.block_on(self.client.call_tool(request));
        answer.map_err(|error| error.to_string())
    }

    /// The text of an answer, and whether it is one.
    #[track_caller]
    fn ask(&self, tool: &'static str, arguments: &Value) -> (String, bool) {
        let answer = self.call(tool, arguments).unwrap();
        let text = &answer.content[0].as_text().unwrap().text;
        (text.clone(), answer.is_error == Some(false))
    }

    #[track_caller]
    fn answer(&self, tool: &'static str, arguments: &Value) -> String {
        let (text, is_answer) = self.ask(tool, arguments);
        assert!(is_answer, "{tool}: {text}");
        text
    }
}

fn folder() -> Folder {
    let spec = "{cidrs: [10.20.0.0/16], blockSize: 24}";
    let nodes = [node("n1", "a", &holds("10.20.0.0/24")), node("n2", "a", "")];
    Folder::new(&[
        ("pools/a.yaml", &pool("a", spec)),
        ("cluster.json", &cluster("1.19.3", KUBERNETES, &nodes)),
    ])
}

#[test]
fn an_assistant_learns_why_and_what_would_change_and_changes_nothing() {
    let folder = folder();
    let files = ["cluster.json", "pools/a.yaml"].map(|name| (name, folder.read(name)));
    let assistant = Assistant::new(&folder);
    let tools = assistant
        .runtime
        .block_on(assistant.client.list_all_tools())
        .unwrap();
    assert_eq!(tools.len(), 6);
    for tool in tools {
        let hints = tool.annotations.unwrap();
        assert_eq!(hints.read_only_hint, Some(true), "{}", tool.name);
    }

    let plan = assistant.answer("plan", &json!({}));
    plan.assert_has("1 to assign");
    plan.assert_has("10.20.1.0/24");
    let limited = assistant.answer("plan", &json!({"targets": ["node/n1"]}));
    limited.assert_lacks("10.20.1.0/24");
    let why = assistant.answer("explain", &json!({"subject": "n1"}));
    assert!(
        why.contains("10.20.0.0/24") && !why.contains('\u{1b}'),
        "{why}"
    );
    let problems = assistant.answer("doctor", &json!({}));
    problems.assert_has("kubernetes");
    let map = assistant.answer("map", &json!({"area": "10.20.1.9"}));
    map.assert_has("10.20.1.0/24 node block n2");
    map.assert_has("added by the plan");

    // A pool that wins over the other one.
    let better = pool("b", "{cidrs: [10.30.0.0/16], blockSize: 24, priority: 10}");
    let better = json!({"files": [{"path": "b.yaml", "text": better}]});
    let simulated = assistant.answer("simulate", &better);
    simulated.assert_has("10.30.0.0/24");
    // One file, however it is spelled: two pools of one name would be an error.
    let other = pool("a", "{cidrs: [10.20.0.0/16, 10.40.0.0/16], blockSize: 24}");
    let same = json!({"files": [{"path": "./a.yaml", "text": other}]});
    let simulated = assistant.answer("simulate", &same);
    simulated.assert_has("1 to assign");
    let two = json!({"files": [
        {"path": "a.yaml", "text": ""},
        {"path": "b.yaml", "text": pool("b", "{cidrs: [10.20.0.0/16], blockSize: 25}")},
    ]});
    let simulated = assistant.answer("simulate", &two);
    simulated.assert_has("10.20.1.0/25");

    let capacity = assistant.answer("capacity", &json!({}));
    capacity.assert_has("1 of 256");
    let joining = json!({"add": [{"count": 300, "labels": {"rack": "a"}}], "remove": "rack=b"});
    let joined = assistant.answer("simulate", &joining);
    joined.assert_has("46 of 300 new nodes get no block");
    let wider = pool("a", "{cidrs: [10.20.0.0/15], blockSize: 24}");
    let joining = json!({"add": [{"count": 300}], "files": [{"path": "a.yaml", "text": wider}]});
    let joined = assistant.answer("simulate", &joining);
    joined.assert_lacks("no block");
    let many = json!({"add": [{"count": 100_001}]});
    let (why, is_answer) = assistant.ask("simulate", &many);
    assert!(!is_answer && why.contains("at most 100000"), "{why}");

    // The questions wrote nothing.
    for (name, before) in files {
        assert_eq!(folder.read(name), before, "{name}");
    }
    assert!(!folder.join("pools/b.yaml").exists());
    assistant
        .runtime
        .block_on(assistant.client.cancel())
        .unwrap();
}

#[test]
fn an_assistant_is_told_what_is_wrong_with_its_question() {
    let folder = folder();
    let assistant = Assistant::new(&folder);
    for (tool, arguments, expected) in [
        ("explain", json!({"subject": "n9"}), "n9"),
        ("plan", json!({"targets": ["node/n9"]}), "exists neither"),
        ("map", json!({"area": "here"}), "neither a CIDR"),
        (
            "simulate",
            json!({"files": [{"path": "../x.yaml", "text": "a: 1"}]}),
            "not a path of a YAML file",
        ),
        (
            "simulate",
            json!({"files": [{"path": "b.yaml", "text": ""}]}),
            "b.yaml` is not there",
        ),
        (
            "simulate",
            json!({"files": [{"path": "a.yaml", "text": ""}]}),
            "has no YAML files",
        ),
        (
            "simulate",
            json!({"files": [{"path": "x.yaml", "text": pool("x", "{cidr: 10.0.0.0/8}")}]}),
            "x.yaml",
        ),
    ] {
        let (text, is_answer) = assistant.ask(tool, &arguments);
        assert!(!is_answer && text.contains(expected), "{tool}: {text}");
    }
    for (tool, arguments) in [
        ("apply", json!({})),
        ("plan", json!({"autoApprove": true})),
        ("explain", json!({})),
    ] {
        let refused = assistant.call(tool, &arguments);
        assert!(refused.is_err(), "{tool}: {refused:?}");
    }
    // It still answers.
    std::fs::remove_file(folder.join("cluster.json")).unwrap();
    let (text, is_answer) = assistant.ask("doctor", &json!({}));
    assert!(!is_answer && text.contains("cluster.json"), "{text}");
}

/// The plugin would take the client's next question for its own input.
#[test]
fn a_credential_plugin_gets_nothing_of_the_protocol() {
    let folder = folder();
    let input = folder.join("input");
    let script = format!("cat > {} && exit 7", input.display());
    let kubeconfig = format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: c\ncontexts: [{{name: c, context: {{cluster: c, user: u}}}}]\nclusters: [{{name: c, cluster: {{server: \"https://127.0.0.1:1\"}}}}]\nusers: [{{name: u, user: {{exec: {{apiVersion: client.authentication.k8s.io/v1, interactiveMode: IfAvailable, command: /bin/sh, args: [-c, \"{script}\"]}}}}}}]\n"
    );
    folder.write("kubeconfig", kubeconfig);
    let assistant = Assistant::on(&folder, &["--kubeconfig", "kubeconfig"]);
    for _ in 0..2 {
        let (text, is_answer) = assistant.ask("plan", &json!({}));
        assert!(!is_answer && text.contains("exit status: 7"), "{text}");
        assert_eq!(folder.read("input"), "");
    }
}

#[test]
fn a_line_that_is_not_json_gets_an_error_response() {
    let folder = folder();
    let hello = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-03-26","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}"#;
    let ready = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
    let asked = format!("{hello}\n{ready}\n{{broken\n");
    let mut child = program(
        folder.path(),
        &["mcp", "pools", "--cluster-file", "cluster.json"],
    )
    .stdin(Stdio::piped())
    .stdout(Stdio::piped())
    .spawn()
    .unwrap();
    let mut input = child.stdin.take().unwrap();
    std::io::Write::write_all(&mut input, asked.as_bytes()).unwrap();
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(child.stdout.take().unwrap()));
    let mut answer = || -> Value { serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap() };
    assert_eq!(answer()["id"], 1);
    assert_eq!(answer()["error"]["code"], -32600);
    drop(input);
    child.wait().unwrap();
}
