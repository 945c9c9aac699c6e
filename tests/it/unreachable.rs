//! A server that cannot be reached, and credentials that cannot be used: the message names the
//! server and the cause, in words for people and without secrets.

use std::io::{Read, Write};
use std::net::TcpListener;

use crate::subnets::{SUBNET, subnet_pool};
use crate::support::{Folder, TextAssertions, args, pool};

const SECRET: &str = "s3cret-token";

/// A folder with a kubeconfig for this server and user.
fn folder(server: &str, user: &str) -> Folder {
    let kubeconfig = format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: c\ncontexts: [{{name: c, context: {{cluster: k, user: u}}}}]\nclusters: [{{name: k, cluster: {{server: \"{server}\"}}}}]\nusers: [{{name: u, user: {user}}}]\n"
    );
    Folder::new(&[
        ("kubeconfig", &kubeconfig),
        (
            "pools/a.yaml",
            &pool("a", "{cidrs: [10.20.0.0/16], blockSize: 24}"),
        ),
    ])
}

fn token() -> String {
    format!("{{token: {SECRET}}}")
}

#[track_caller]
fn fails_with(folder: &Folder, arguments: &[&str], expected: &str) {
    let plan = ["plan", "--kubeconfig", "kubeconfig"];
    let ran = folder.run(&[&plan, arguments].concat()).expect(8);
    assert!(ran.stderr.contains(expected), "{expected}: {}", ran.stderr);
    for internal in [
        SECRET,
        "ServiceError",
        "client error",
        "Kubeconfig(",
        "{:?}",
    ] {
        assert!(!ran.stderr.contains(internal), "{internal}: {}", ran.stderr);
    }
}

#[test]
fn a_closed_port() {
    let closed = TcpListener::bind("127.0.0.1:0").unwrap();
    let server = format!("https://{}", closed.local_addr().unwrap());
    drop(closed);
    fails_with(
        &folder(&server, &token()),
        &[],
        &format!("the API server {server} does not answer: connection refused"),
    );
}

#[test]
fn failed_requests_are_printed() {
    let closed = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = closed.local_addr().unwrap();
    drop(closed);
    let of_cluster = folder(&format!("https://{address}"), &token());
    let plan = ["plan", "-v", "--retry-timeout", "0s"];
    let told = of_cluster.run(&[&plan[..], &["--kubeconfig", "kubeconfig"]].concat());
    let told = told.expect(8).stderr;
    let is_failure = |start: &str, line: &str| {
        line.starts_with(start) && line.contains("connection refused") && line.ends_with(" ms")
    };
    let start = "GET /api/v1/namespaces/kube-system/configmaps failed: ";
    assert!(told.lines().any(|line| is_failure(start, line)), "{told}");

    let openstack = Folder::with_cluster(
        &[],
        &[
            ("pools/vm.yaml", &subnet_pool("vm", SUBNET)),
            (
                "clouds.yaml",
                &format!(
                    "clouds: {{lab: {{auth: {{auth_url: 'http://{address}/v3', username: u, password: {SECRET}, project_name: p, user_domain_id: default, project_domain_id: default}}}}}}"
                ),
            ),
        ],
    );
    let told = openstack.run(&[&plan[..], &["--cluster-file", "cluster.json"]].concat());
    let start = format!("POST http://{address}/v3/auth/tokens failed: ");
    let told = told.all();
    assert!(told.lines().any(|line| is_failure(&start, line)), "{told}");
    assert!(!told.contains(SECRET), "{told}");

    openstack.write("open.yaml", "clouds: {}");
    let open = ["plan", "--cluster-file", "cluster.json", "--clouds-file"];
    let told = openstack.run(&[&open[..], &["open.yaml"]].concat());
    let told = told.expect(8).stderr;
    told.assert_has("other users may read");
    told.assert_has("chmod 600 open.yaml");
}

#[test]
fn a_name_that_nothing_resolves() {
    let server = "https://nowhere.invalid:6443";
    let expected = format!("the API server {server} does not answer: its name cannot be resolved");
    fails_with(&folder(server, &token()), &[], &expected);
}

#[test]
fn a_server_without_tls() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let server = format!("https://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let _ = stream.read(&mut [0; 512]);
            let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n");
        }
    });
    let expected = format!("the API server {server} does not answer: it does not speak TLS");
    fails_with(&folder(&server, &token()), &[], &expected);
}

#[test]
fn a_credential_plugin_that_fails_after_it_printed_a_token() {
    let script = format!("echo {SECRET}; echo {SECRET} >&2; exit 3");
    let user = format!(
        "{{exec: {{apiVersion: client.authentication.k8s.io/v1, interactiveMode: Never, command: /bin/sh, args: [-c, \"{script}\"]}}}}"
    );
    fails_with(
        &folder("https://127.0.0.1:1", &user),
        &[],
        "the cluster's credentials cannot be used: the credential plugin failed (exit status: 3)",
    );
}

#[test]
fn a_context_or_a_file_that_is_missing() {
    let folder = folder("https://127.0.0.1:1", &token());
    fails_with(
        &folder,
        &["--context", "other"],
        "the kubeconfig has no context `other`",
    );
    let ran = folder.expect("plan --kubeconfig missing", 8);
    let expected = "the kubeconfig `missing` cannot be read: No such file or directory";
    ran.stderr.assert_has(expected);
    let ran = folder.expect("plan", 8);
    let expected = "and this is not a Pod with a service account";
    ran.stderr.assert_has(expected);
}

#[test]
fn a_plan_file_in_a_missing_folder_names_no_temporary_file() {
    let folder = Folder::new(&[
        (
            "pools/a.yaml",
            &pool("a", "{cidrs: [10.20.0.0/16], blockSize: 24}"),
        ),
        (
            "cluster.json",
            &crate::support::cluster("1.19.3", crate::support::KUBERNETES, &[]),
        ),
    ]);
    let ran = folder.run(&args(
        "plan --cluster-file cluster.json --out missing/plan.json",
    ));
    let ran = ran.expect(1);
    ran.stderr.assert_has("missing/plan.json");
    ran.stderr.assert_lacks("cilium-ipam-");
}
