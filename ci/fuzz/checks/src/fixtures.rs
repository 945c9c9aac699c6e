//! Two small clusters and one directory that inputs are planned with.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use ipam_cilium::observed::{Observed, ObservedKind, Reader};
use ipam_config::documents::{Documents, SourceFile};
use ipam_controller::{Loaded, check_documents};
use serde_json::Value;

/// IPv4 only, and a closed gate.
const SINGLE_STACK: &str = include_str!("fixtures/single-stack.ndjson");
/// Both families, an open gate, running agents, claims, and an unreadable Node.
const DUAL_STACK: &str = include_str!("fixtures/dual-stack.ndjson");

/// Pools of both families, one that is full soon, a pin, and a Policy.
const FILES: [(&str, &str); 3] = [
    ("pools/pools.yaml", include_str!("fixtures/pools.yaml")),
    ("pools/policy.yaml", include_str!("fixtures/policy.yaml")),
    (
        "pools/balancers.yaml",
        include_str!("fixtures/balancers.yaml"),
    ),
];

/// Each line is an object as the value of its [`ObservedKind`].
fn observed(lines: &str) -> Observed {
    let mut reader = Reader::default();
    for line in lines.lines() {
        let entry: BTreeMap<String, Value> = serde_json::from_str(line).expect("JSON");
        for (name, object) in entry {
            let mut kinds = ObservedKind::OF_PLANS.into_iter();
            let kind = kinds.find(|kind| format!("{kind:?}") == name);
            let kind = kind.unwrap_or_else(|| panic!("no kind is called {name}"));
            let read = reader.object(kind, &object.to_string());
            read.expect("the world is readable");
        }
    }
    reader.finish("2026-02-01T00:00:00Z".parse().expect("a time"))
}

/// The clusters.
pub(crate) fn clusters() -> &'static [Observed; 2] {
    static CLUSTERS: LazyLock<[Observed; 2]> =
        LazyLock::new(|| [SINGLE_STACK, DUAL_STACK].map(observed));
    &CLUSTERS
}

/// The directory.
pub(crate) fn directory() -> &'static Loaded {
    static DIRECTORY: LazyLock<Loaded> = LazyLock::new(|| {
        let file = |(path, text): (&str, &str)| SourceFile {
            path: path.into(),
            text: text.into(),
        };
        let files = FILES.map(file).into();
        let loaded = check_documents(Documents { files }, Vec::new());
        assert!(!loaded.has_errors(), "{:?}", loaded.findings);
        loaded
    });
    &DIRECTORY
}
