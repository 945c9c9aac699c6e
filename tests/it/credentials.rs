//! Unusable credentials and proxies: an error that names them, and no panic.

use super::support::{Folder, pool, program, ran};

const KUBECONFIG: &str = r#"
apiVersion: v1
kind: Config
current-context: c
clusters: [{name: c, cluster: {server: "http://127.0.0.1:1"}}]
contexts: [{name: c, context: {cluster: c, user: u}}]
users: [{name: u, user: {token: "s3cret\nX-Other: 1"}}]
"#;

fn folder() -> Folder {
    let spec = "{cidrs: [10.20.0.0/16], blockSize: 24}";
    Folder::new(&[
        ("kubeconfig", KUBECONFIG),
        ("pools/a.yaml", &pool("a", spec)),
    ])
}

#[test]
fn a_token_with_a_line_break_is_an_error() {
    let refused = folder().run(&["plan", "--kubeconfig", "kubeconfig"]);
    assert_ne!(refused.code, 0);
    let expected = "the token of the kubeconfig has a character that no header can carry";
    assert!(refused.stderr.contains(expected), "{refused:?}");
    assert!(!refused.all().contains("s3cret"), "{refused:?}");
}

#[test]
fn a_proxy_that_cannot_be_used_is_an_error() {
    let folder = folder();
    let words = ["drift", "pools", "--kubeconfig", "kubeconfig"];
    for (name, value) in [("HTTPS_PROXY", "http://"), ("https_proxy", "a b")] {
        let mut command = program(folder.path(), &words);
        command
            .env("GITHUB_ACTIONS", "true")
            .env("GITHUB_API_URL", "https://forge.invalid/api")
            .env("GITHUB_REPOSITORY", "o/r")
            .env("GITHUB_TOKEN", "ghp_0123456789abcdef")
            .env(name, value);
        let refused = ran(command.output().unwrap()).expect(1);
        let expected = format!("{name} is not the URL of a proxy");
        assert!(refused.stderr.contains(&expected), "{refused:?}");
    }
}
