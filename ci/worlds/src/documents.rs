//! Documents of a directory, as text. `spec` is YAML with its braces. It knows nothing of clusters.

use ipam_config::documents::{Documents, SourceFile};

/// Any document of our API.
#[must_use]
pub fn document(kind: &str, name: &str, spec: &str) -> String {
    format!(
        "apiVersion: cilium-ipam.io/v1alpha1\nkind: {kind}\nmetadata: {{name: {name}}}\nspec: {spec}\n"
    )
}

/// A pool.
#[must_use]
pub fn pool(name: &str, spec: &str) -> String {
    document("IPPool", name, spec)
}

/// The Policy.
#[must_use]
pub fn policy(spec: &str) -> String {
    document("IPAMPolicy", "p", spec)
}

/// A pin of one block.
#[must_use]
pub fn pin(node: &str, cidr: &str) -> String {
    document(
        "NodeAssignment",
        node,
        &format!("{{podCIDRs: [\"{cidr}\"]}}"),
    )
}

/// A `CiliumLoadBalancerIPPool`.
#[must_use]
pub fn address_pool(name: &str, spec: &str) -> String {
    format!(
        "apiVersion: cilium.io/v2\nkind: CiliumLoadBalancerIPPool\nmetadata: {{name: {name}}}\nspec: {spec}\n"
    )
}

/// A directory with all of these in `pools.yaml`.
#[must_use]
pub fn directory(documents: &[String]) -> Documents {
    Documents {
        files: vec![SourceFile {
            path: "pools.yaml".into(),
            text: documents.join("---\n").into(),
        }],
    }
}
