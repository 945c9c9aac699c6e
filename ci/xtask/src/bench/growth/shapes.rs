//! Inputs of any size: valid ones, faulty ones and hostile ones.

use std::fmt::Write;

const HEAD: &str = "apiVersion: cilium-ipam.io/v1alpha1\n";
const POOL: &str = "cidrs: [10.0.0.0/8], blockSize: 24";

/// A kind of input.
pub struct Shape {
    pub name: &'static str,
    /// Makes an input of about this many bytes.
    pub text: fn(usize) -> String,
}

fn shape(name: &'static str, text: fn(usize) -> String) -> Shape {
    Shape { name, text }
}

/// Files of pools.
pub fn files() -> Vec<Shape> {
    vec![
        shape("pools", |size| {
            filled(size, |n| {
                pool(
                    n,
                    &format!(
                        "{{cidrs: [{}/24], blockSize: 26, nodeSelector: {{matchLabels: {{rack: r{n}}}}}}}",
                        address(n * 256)
                    ),
                )
            })
        }),
        shape("pins", |size| {
            let pools = pool(0, &format!("{{{POOL}}}"));
            pools
                + &filled(size, |n| {
                    pin(
                        n,
                        &format!("{{pool: p0, podCIDRs: [{}/24]}}", address(n * 256)),
                    )
                })
        }),
        shape("pins into a renamed pool", |size| {
            let pools = filled(size / 2, |n| {
                pool(
                    n,
                    &format!("{{cidrs: [{}/24], blockSize: 26}}", address(n * 256)),
                )
            });
            pools
                + &filled(size / 2, |n| {
                    pin(n, "{pool: old-name, podCIDRs: [10.0.0.0/26]}")
                })
        }),
        shape("pins without a pool", |size| {
            let pools = filled(size / 2, |n| {
                pool(
                    n,
                    &format!("{{cidrs: [{}/24], blockSize: 26}}", address(n * 256)),
                )
            });
            pools
                + &filled(size / 2, |n| {
                    pin(n, &format!("{{podCIDRs: [{}/26]}}", address(n * 256)))
                })
        }),
        shape("reserved, one line", |size| {
            listed(size, "reserved", |n| address(2 * n))
        }),
        shape("reserved and CIDRs", |size| {
            let list = |what: fn(usize) -> String| filled(size / 2, |n| what(n) + ", ");
            let (cidrs, reserved) = (
                list(|n| format!("{}/30", address(4 * n))),
                list(|n| address(4 * n)),
            );
            pool(
                0,
                &format!("{{blockSize: 31, cidrs: [{cidrs}], reserved: [{reserved}]}}"),
            )
        }),
        shape("overlapping pools", |size| {
            filled(size, |n| pool(n, &format!("{{{POOL}}}")))
        }),
        shape("faults, one line", |size| {
            listed(size, "reserved", |_| "x".to_owned())
        }),
        shape("faults, multi-byte", |size| {
            listed(size, "reserved", |_| "é😀".to_owned())
        }),
        shape("faults, a line each", |size| {
            HEAD.to_owned()
                + "kind: IPPool\nmetadata: {name: a}\nspec:\n  blockSize: 24\n  reserved:\n"
                + &filled(size, |_| "  - x\n".to_owned())
        }),
        shape("fractions", |size| {
            listed(size, "reserved", |_| "1.5".to_owned())
        }),
        shape("missing and unknown fields", |size| {
            let items = filled(size, |_| "{ky: a}, ".to_owned());
            pool(
                0,
                &format!("{{{POOL}, nodeSelector: {{matchExpressions: [{items}]}}}}"),
            )
        }),
        shape("faulty documents", |size| {
            filled(size, |_| "a: 1\n---\n".to_owned())
        }),
        shape("same names", |size| {
            filled(size, |_| pool(0, &format!("{{{POOL}}}")))
        }),
        shape("wide flow map", |size| {
            format!("{{{}}}\n", filled(size, |n| format!("k{n}: {{a: 1}}, ")))
        }),
        shape("labels", |size| {
            let labels = filled(size, |n| format!("k{n}: 1, "));
            pool(
                0,
                &format!("{{{POOL}, nodeSelector: {{matchLabels: {{{labels}}}}}}}"),
            )
        }),
        shape("requirements of one key", |size| {
            let asked = filled(size, |n| {
                format!("{{key: a, operator: NotIn, values: [x{n}]}}, ")
            });
            pool(
                0,
                &format!("{{{POOL}, nodeSelector: {{matchExpressions: [{asked}]}}}}"),
            )
        }),
        shape("deep documents", |size| {
            filled(size, |_| {
                format!("{}1{}\n---\n", "[".repeat(60), "]".repeat(60))
            })
        }),
        shape("brackets", |size| "[".repeat(size)),
        shape("one long value", |size| {
            pool(0, &format!("{{{POOL}, reserved: [{}]}}", "x".repeat(size)))
        }),
        shape("one long name", |size| {
            pool(0, &format!("{{{POOL}, {}: 1}}", "x".repeat(size)))
        }),
        shape("line feeds", |size| "\n".repeat(size) + "kind: x\n"),
        shape("aliases", |size| {
            format!("x: &a [1]\ny: [{}]\n", filled(size, |_| "*a, ".to_owned()))
        }),
        shape("addresses of a Service", |size| {
            let ips = filled(size, |n| address(n) + ", ");
            format!(
                "{HEAD}kind: ServiceAssignment\nmetadata: {{name: a}}\nspec: {{service: a/b, ips: [{ips}]}}\n"
            )
        }),
    ]
}

/// Files of clusters.
pub fn clusters() -> Vec<Shape> {
    vec![
        shape("nodes, JSON", |size| list(size, &node)),
        shape("nodes, YAML", |size| {
            let one = |n: usize| {
                format!(
                    "- {{apiVersion: v1, kind: Node, metadata: {{name: n{n}, uid: u{n}, resourceVersion: \"{n}\"}}, spec: {{podCIDR: {0}/24, podCIDRs: [{0}/24]}}}}\n",
                    address(n * 256)
                )
            };
            "apiVersion: v1\nkind: List\nitems:\n".to_owned() + &filled(size, one)
        }),
        shape("one node with many labels", |size| {
            let labels = filled(size, |n| format!("\"k{n}\":\"a\","));
            list(1, &|_| {
                node(0).replacen("\"labels\":{", &format!("\"labels\":{{{labels}"), 1)
            })
        }),
        shape("unknown objects", |size| {
            list(size, &|n| {
                format!(
                    "{{\"apiVersion\":\"v1\",\"kind\":\"X\",\"metadata\":{{\"name\":\"x{n}\"}}}}"
                )
            })
        }),
        shape("cluster of brackets", |size| "[".repeat(size)),
    ]
}

fn list(size: usize, one: &dyn Fn(usize) -> String) -> String {
    let items = filled(size, |n| one(n) + ",\n");
    format!(
        "{{\"apiVersion\":\"v1\",\"kind\":\"List\",\"items\":[\n{}]}}\n",
        items.trim_end_matches(",\n")
    )
}

fn node(n: usize) -> String {
    let metadata = format!(
        "\"name\":\"n{n}\",\"uid\":\"u{n}\",\"resourceVersion\":\"{n}\",\"labels\":{{\"rack\":\"a\"}}"
    );
    format!(
        "{{\"apiVersion\":\"v1\",\"kind\":\"Node\",\"metadata\":{{{metadata}}},\"spec\":{{\"podCIDR\":\"{0}/24\",\"podCIDRs\":[\"{0}/24\"]}}}}",
        address(n * 256)
    )
}

/// Adds one part after the other until the text has this many bytes.
fn filled(size: usize, part: impl Fn(usize) -> String) -> String {
    let mut text = String::with_capacity(size + 256);
    for n in 0.. {
        if text.len() >= size {
            break;
        }
        text.push_str(&part(n));
    }
    text
}

fn listed(size: usize, field: &str, one: fn(usize) -> String) -> String {
    pool(
        0,
        &format!("{{{POOL}, {field}: [{}]}}", filled(size, |n| one(n) + ", ")),
    )
}

fn document(kind: &str, name: &str, spec: &str) -> String {
    let mut text = HEAD.to_owned();
    // A String takes everything.
    let _ = write!(
        text,
        "kind: {kind}\nmetadata: {{name: {name}}}\nspec: {spec}\n---\n"
    );
    text
}

fn pool(n: usize, spec: &str) -> String {
    document("IPPool", &format!("p{n}"), spec)
}

fn pin(n: usize, spec: &str) -> String {
    document("NodeAssignment", &format!("n{n}"), spec)
}

/// The `n`-th address of 10.0.0.0/8.
fn address(n: usize) -> String {
    format!("10.{}.{}.{}", n >> 16 & 255, n >> 8 & 255, n & 255)
}
