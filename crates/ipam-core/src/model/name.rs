//! Names of objects, as Kubernetes allows them.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use super::selector::Labels;

/// Label of every object that we create or adopt. We delete no object without it.
pub const OWNER_LABEL: (&str, &str) = ("app.kubernetes.io/managed-by", "cilium-ipam");

pub fn is_ours(labels: &Labels) -> bool {
    labels
        .get(OWNER_LABEL.0)
        .is_some_and(|owner| owner == OWNER_LABEL.1)
}

/// A text that is not a Kubernetes object name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{text}` is not an object name: expected lower-case letters, digits, `-` and `.`, at most 253, first and last a letter or digit"
)]
pub struct NameError {
    text: String,
}

/// DNS-1123 subdomain, `k8s.io/apimachinery/pkg/util/validation` `IsDNS1123Subdomain`.
fn check(text: &str) -> Result<(), NameError> {
    let edge = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit();
    let part_is_fine = |part: &str| {
        let bytes = part.as_bytes();
        bytes.first().is_some_and(|&c| edge(c))
            && bytes.last().is_some_and(|&c| edge(c))
            && bytes.iter().all(|&c| edge(c) || c == b'-')
    };
    if text.len() <= 253 && text.split('.').all(part_is_fine) {
        Ok(())
    } else {
        Err(NameError {
            text: text.to_owned(),
        })
    }
}

macro_rules! name {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Arc<str>);

        impl $name {
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl FromStr for $name {
            type Err = NameError;

            fn from_str(text: &str) -> Result<$name, NameError> {
                check(text).map(|()| $name(text.into()))
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(&self.0)
            }
        }
    };
}

impl NodeName {
    /// A name that no node has. A block reserved for it is free for no node (RFC 2606 reserves
    /// `invalid`).
    pub fn nobody() -> NodeName {
        NodeName("nobody.cilium-ipam.invalid".into())
    }
}

name! {
    /// Name of an `IPPool`.
    PoolName
}
name! {
    /// Name of a Node, and of its CiliumNode.
    NodeName
}

name! {
    /// Name of a `CiliumLoadBalancerIPPool`.
    AddressPoolName
}

/// Namespace and name of a Service, as the API server shows them.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ServiceName {
    namespace: Arc<str>,
    name: Arc<str>,
}

impl ServiceName {
    pub fn new(namespace: &str, name: &str) -> ServiceName {
        ServiceName {
            namespace: namespace.into(),
            name: name.into(),
        }
    }

    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    pub fn name(&self) -> &str {
        &self.name
    }
}

impl FromStr for ServiceName {
    type Err = NameError;

    /// Reads `namespace/name`.
    fn from_str(text: &str) -> Result<ServiceName, NameError> {
        let (namespace, name) = text.split_once('/').ok_or_else(|| NameError {
            text: text.to_owned(),
        })?;
        check(namespace)?;
        check(name)?;
        Ok(ServiceName::new(namespace, name))
    }
}

impl fmt::Display for ServiceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{}/{}", self.namespace, self.name))
    }
}

/// Kind and name of a live object or of a document.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectRef {
    /// Kind as Kubernetes writes it.
    pub kind: &'static str,
    /// Name without namespace.
    pub name: String,
}

impl ObjectRef {
    pub fn node(name: &NodeName) -> ObjectRef {
        ObjectRef {
            kind: "Node",
            name: name.to_string(),
        }
    }

    pub fn pool(name: &PoolName) -> ObjectRef {
        ObjectRef {
            kind: "IPPool",
            name: name.to_string(),
        }
    }

    /// A `CiliumLoadBalancerIPPool`, even if its name is invalid.
    pub fn address_pool(name: &str) -> ObjectRef {
        ObjectRef {
            kind: "CiliumLoadBalancerIPPool",
            name: name.to_owned(),
        }
    }

    pub fn service(name: &ServiceName) -> ObjectRef {
        ObjectRef {
            kind: "Service",
            name: name.to_string(),
        }
    }
}

impl fmt::Display for ObjectRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.kind, self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        for good in ["a", "worker-7", "ip-10-0-0-1.eu.compute.internal", "0"] {
            assert!(good.parse::<NodeName>().is_ok(), "{good}");
        }
        for bad in [
            "",
            "-a",
            "a-",
            "A",
            "a..b",
            "a_b",
            "a/b",
            "\u{1b}[31m",
            "ä",
            &"a".repeat(254),
        ] {
            assert!(bad.parse::<NodeName>().is_err(), "{bad}");
        }
    }
}
