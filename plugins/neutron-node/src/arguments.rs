//! The command line of the daemon. Must never know what the daemon does.

use std::ffi::OsString;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use lexopt::{Arg, Parser, ValueExt};

use crate::{gone_node, service_account};
use neutron_cni::STATE_DIRECTORY;

/// The text of `--help`.
pub(super) const HELP: &str = "\
Serves the CNI plugin cni-ipam-neutron on this node, as the configurations of its networks ask (documentation: how-to/openstack): fills
a warm pool of Neutron ports, deletes garbage ports, and keeps the allowed_address_pairs of the VM's port.

Usage: neutron-node [OPTIONS]
       neutron-node gc --node NAME [OPTIONS]    delete the ports of a node that is gone for good

      --networks DIR        folder with network configurations; repeatable [/etc/cni/net.d]
      --attachment-definitions NAMESPACE
                            also serve the networks of the NetworkAttachmentDefinitions in this namespace;
                            repeatable
      --service-account DIR folder of the ServiceAccount that may list them
                            [/var/run/secrets/kubernetes.io/serviceaccount]
      --results DIR         folder with a container runtime's cache of results; repeatable
                            [/var/lib/cni/results and /var/lib/cni/multus/results]
      --interval SECONDS    interval between reads of the node's files [5]
      --look SECONDS        longest interval between syncs with Neutron [60]
      --grace SECONDS       how long a port must look like garbage before it is deleted [600]
      --once                run once and exit; deletes no garbage, because that takes two runs
      --listen [ADDRESS:]PORT
                            serve /livez, /healthz, /readyz and /metrics there; a port alone is one of 127.0.0.1
      --state-directory DIR folder of cached logins and of pools without a configuration
                            [/var/lib/cni/cilium-ipam-neutron]
  -h, --help
  -V, --version
";

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Request {
    Help,
    Version,
    Run(Box<Arguments>),
    /// The command `gc`; `None` for the help of `gc`.
    Gc(Option<gone_node::Arguments>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Arguments {
    pub(super) networks: Vec<PathBuf>,
    /// The namespaces whose NetworkAttachmentDefinitions are served.
    pub(super) definitions: Vec<String>,
    /// Folder of the ServiceAccount with which the definitions are listed.
    pub(super) service_account: PathBuf,
    pub(super) results: Vec<PathBuf>,
    /// Interval between reads of the node's files.
    pub(super) interval: Duration,
    /// Longest interval between syncs with Neutron (`--look`).
    pub(super) neutron_interval: Duration,
    pub(super) grace: Duration,
    pub(super) run_mode: RunMode,
    pub(super) state: PathBuf,
    /// Where to serve metrics and health.
    pub(super) listen: Option<SocketAddr>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RunMode {
    Once,
    Loop,
}

impl Arguments {
    /// Parses the command line.
    pub(super) fn read(mut parser: Parser) -> Result<Request, lexopt::Error> {
        let mut arguments = Arguments {
            networks: Vec::new(),
            definitions: Vec::new(),
            service_account: service_account::FOLDER.into(),
            results: Vec::new(),
            interval: Duration::from_secs(5),
            neutron_interval: Duration::from_mins(1),
            grace: Duration::from_mins(10),
            run_mode: RunMode::Loop,
            state: STATE_DIRECTORY.into(),
            listen: None,
        };
        let mut is_first = true;
        while let Some(argument) = parser.next()? {
            match argument {
                Arg::Value(word) if is_first && word == "gc" => {
                    return gone_node::Arguments::read(&mut parser).map(Request::Gc);
                }
                Arg::Short('h') | Arg::Long("help") => return Ok(Request::Help),
                Arg::Short('V') | Arg::Long("version") => return Ok(Request::Version),
                Arg::Long("networks") => arguments.networks.push(parser.value()?.into()),
                Arg::Long("attachment-definitions") => {
                    arguments.definitions.push(namespace(parser.value()?)?);
                }
                Arg::Long("service-account") => arguments.service_account = parser.value()?.into(),
                Arg::Long("results") => arguments.results.push(parser.value()?.into()),
                Arg::Long("interval") => arguments.interval = seconds(&mut parser)?,
                Arg::Long("look") => arguments.neutron_interval = seconds(&mut parser)?,
                Arg::Long("grace") => arguments.grace = seconds(&mut parser)?,
                Arg::Long("once") => arguments.run_mode = RunMode::Once,
                Arg::Long("listen") => {
                    arguments.listen = Some(listen(&parser.value()?.string()?)?);
                }
                Arg::Long("state-directory") => arguments.state = parser.value()?.into(),
                other => return Err(other.unexpected()),
            }
            is_first = false;
        }
        if arguments.networks.is_empty() {
            arguments.networks.push("/etc/cni/net.d".into());
        }
        if arguments.results.is_empty() {
            arguments.results = ["/var/lib/cni/results", "/var/lib/cni/multus/results"]
                .map(PathBuf::from)
                .to_vec();
        }
        Ok(Request::Run(Box::new(arguments)))
    }
}

/// A name that is safe in a path (a label of DNS).
fn namespace(text: OsString) -> Result<String, lexopt::Error> {
    let text = text.string()?;
    let is_safe = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    if !text.is_empty() && text.bytes().all(is_safe) {
        Ok(text)
    } else {
        Err("--attachment-definitions: expected the name of a namespace".into())
    }
}

fn seconds(parser: &mut Parser) -> Result<Duration, lexopt::Error> {
    let seconds: u64 = parser.value()?.parse()?;
    // An interval of at most one day is enough, and cannot overflow a time.
    if (1..=86_400).contains(&seconds) {
        Ok(Duration::from_secs(seconds))
    } else {
        Err("expected a number of seconds from 1 to 86400".into())
    }
}

/// An address and a port, or a port of loopback.
fn listen(text: &str) -> Result<SocketAddr, lexopt::Error> {
    if let Ok(port) = text.parse() {
        return Ok((Ipv4Addr::LOCALHOST, port).into());
    }
    text.parse().map_err(|_| {
        "--listen: expected a port or an address with a port, such as 9465 or 0.0.0.0:9465".into()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(words: &[&str]) -> Result<Request, lexopt::Error> {
        Arguments::read(Parser::from_args(words))
    }

    #[test]
    fn a_port_alone_is_one_of_loopback() {
        let listens = |text: &str| match read(&["--listen", text]) {
            Ok(Request::Run(arguments)) => arguments.listen.map(|address| address.to_string()),
            _ => None,
        };
        assert_eq!(listens("9465").as_deref(), Some("127.0.0.1:9465"));
        assert_eq!(listens("[::1]:0").as_deref(), Some("[::1]:0"));
        for bad in ["", "localhost:1", "10.0.0.1", "70000"] {
            assert_eq!(listens(bad), None, "{bad}");
        }
    }

    #[test]
    fn valid_arguments_are_taken_and_others_refused() {
        let Ok(Request::Run(arguments)) = read(&["--grace", "7", "--once", "--results=/r"]) else {
            panic!()
        };
        assert_eq!(
            (arguments.grace, arguments.run_mode),
            (Duration::from_secs(7), RunMode::Once)
        );
        assert_eq!(arguments.results, [PathBuf::from("/r")]);
        assert_eq!(read(&["-h"]).unwrap(), Request::Help);
        assert!(matches!(
            read(&["gc", "--node", "n"]),
            Ok(Request::Gc(Some(_)))
        ));
        assert!(read(&["--once", "gc", "--node", "n"]).is_err());
        for bad in [
            &["--grace", "0"][..],
            &["--look", "1d"],
            &["x"],
            &["--nonsense"],
        ] {
            assert!(read(bad).is_err(), "{bad:?}");
        }
        let Ok(Request::Run(arguments)) = read(&["--networks=/a", "--networks", "/b"]) else {
            panic!()
        };
        assert_eq!(arguments.networks, ["/a", "/b"].map(PathBuf::from));
        let words = [
            "--attachment-definitions=a",
            "--attachment-definitions",
            "b-1",
        ];
        let Ok(Request::Run(arguments)) = read(&words) else {
            panic!()
        };
        assert_eq!(arguments.definitions, ["a", "b-1"]);
        for bad in ["", "a/b", "A", "a?"] {
            assert!(read(&["--attachment-definitions", bad]).is_err(), "{bad}");
        }
        let Ok(Request::Run(arguments)) = read(&[]) else {
            panic!()
        };
        assert_eq!(arguments.networks, [PathBuf::from("/etc/cni/net.d")]);
    }
}
