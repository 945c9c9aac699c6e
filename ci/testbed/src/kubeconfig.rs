//! Kubeconfig files for the users of a control plane. JSON is YAML, so they are JSON.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;

/// The name of the cluster, the context and the user in every file.
const NAME: &str = "testbed";

pub(crate) fn kubeconfig(server: &str, authority: &str, token: &str) -> String {
    let text = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": NAME, "cluster": {
            "server": server,
            "certificate-authority-data": STANDARD.encode(authority),
        }}],
        "users": [{"name": NAME, "user": {"token": token}}],
        "contexts": [{"name": NAME, "context": {"cluster": NAME, "user": NAME}}],
        "current-context": NAME,
    });
    format!("{text:#}\n")
}
