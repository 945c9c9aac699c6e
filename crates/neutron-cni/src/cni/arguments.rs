//! `CNI_ARGS`: `KEY=VALUE;KEY=VALUE`, from a runtime or a person.

use std::net::IpAddr;

use ipam_core::net::Address;

/// Longest text that is read, in bytes.
const LONGEST: usize = 16 * 1024;

/// The arguments of an ADD that this plugin reads.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Arguments {
    /// Requested addresses.
    pub addresses: Vec<IpAddr>,
}

/// Why `CNI_ARGS` is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ArgumentFault {
    #[error("CNI_ARGS must be KEY=VALUE pairs")]
    Pair,
    #[error("CNI_ARGS is longer than {} KiB", LONGEST / 1024)]
    Length,
    #[error("CNI_ARGS asks for IP={0}, which is not an address")]
    Address(String),
    /// Without `IgnoreUnknown`, an unknown key is an error.
    #[error("CNI_ARGS has the unknown key {0}; set IgnoreUnknown=true to ignore it")]
    Unknown(String),
}

impl Arguments {
    /// Parses `CNI_ARGS`. An unknown key is an error unless `IgnoreUnknown` is set
    /// (`pkg/types/args.go` of containernetworking/cni @ 1.3.0).
    ///
    /// # Errors
    /// Fails if the text is too long or invalid.
    pub fn read(text: &str) -> Result<Arguments, ArgumentFault> {
        if text.len() > LONGEST {
            return Err(ArgumentFault::Length);
        }
        let pairs = text
            .split(';')
            .map(str::trim)
            .filter(|pair| !pair.is_empty());
        let pairs: Vec<(&str, &str)> = pairs
            .map(|pair| pair.split_once('=').ok_or(ArgumentFault::Pair))
            .collect::<Result<_, _>>()?;
        let value = |name: &str| {
            pairs
                .iter()
                .find(|(key, _)| *key == name)
                .map(|(_, value)| *value)
        };
        let ignores_unknown = value("IgnoreUnknown")
            .is_some_and(|value| matches!(value, "1" | "t" | "T" | "true" | "TRUE" | "True"));
        let mut arguments = Arguments::default();
        for (key, value) in &pairs {
            match *key {
                // The plugin of 2020 documents the key in lower case.
                "IP" | "ip" => {
                    for text in value
                        .split(',')
                        .map(str::trim)
                        .filter(|text| !text.is_empty())
                    {
                        let address = address_of(text)
                            .ok_or_else(|| ArgumentFault::Address(shortened(text)))?;
                        arguments.addresses.push(address);
                    }
                }
                "IgnoreUnknown"
                | "K8S_POD_NAMESPACE"
                | "K8S_POD_NAME"
                | "K8S_POD_INFRA_CONTAINER_ID"
                | "K8S_POD_UID" => {}
                _ if ignores_unknown => {}
                other => return Err(ArgumentFault::Unknown(shortened(other))),
            }
        }
        Ok(arguments)
    }
}

/// Parses an address and ignores a prefix length: the subnet has it.
pub fn address_of(text: &str) -> Option<IpAddr> {
    let address = text.split_once('/').map_or(text, |(address, _)| address);
    address.parse::<Address>().ok().map(IpAddr::from)
}

fn shortened(text: &str) -> String {
    text.chars().take(64).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_of_containerd_are_read() {
        let text = "IgnoreUnknown=1;K8S_POD_NAMESPACE=shop;K8S_POD_NAME=web-0;K8S_POD_INFRA_CONTAINER_ID=e2;K8S_POD_UID=u";
        let arguments = Arguments::read(text).unwrap();
        assert_eq!(arguments, Arguments::default());
        let arguments = Arguments::read("IP=::ffff:10.0.0.7/120, fd00::7;").unwrap();
        assert_eq!(
            arguments.addresses,
            [
                "10.0.0.7".parse::<IpAddr>().unwrap(),
                "fd00::7".parse().unwrap()
            ]
        );
    }

    #[test]
    fn invalid_arguments_are_refused() {
        assert_eq!(Arguments::read("IP"), Err(ArgumentFault::Pair));
        assert_eq!(
            Arguments::read("IP=10.0.0.300"),
            Err(ArgumentFault::Address("10.0.0.300".to_owned()))
        );
        assert_eq!(
            Arguments::read("X=1"),
            Err(ArgumentFault::Unknown("X".to_owned()))
        );
        assert_eq!(
            Arguments::read("X=1;IgnoreUnknown=true"),
            Ok(Arguments::default())
        );
        assert_eq!(
            Arguments::read(&";".repeat(20_000)),
            Err(ArgumentFault::Length)
        );
    }
}
