//! The command line of the daemon. Must never know what the daemon does.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use lexopt::{Arg, Parser, ValueExt};

use neutron_cni::{STATE_DIRECTORY, VmInterface};

/// The text of `--help`.
pub(super) const HELP: &str = "\
Serves the CNI plugin cni-ipam-neutron on this node, as the configurations of its networks ask (documentation: how-to/openstack): fills
a warm pool of Neutron ports, deletes garbage ports, and keeps the allowed_address_pairs of the VM's port.

Usage: neutron-node [OPTIONS]

      --networks DIR        folder with network configurations; repeatable [/etc/cni/net.d]
      --results DIR         folder with a container runtime's cache of results; repeatable
                            [/var/lib/cni/results and /var/lib/cni/multus/results]
      --interval SECONDS    interval between reads of the node's files [5]
      --look SECONDS        longest interval between syncs with Neutron [60]
      --grace SECONDS       how long a port must look like garbage before it is deleted [600]
      --once                run once and exit; deletes no garbage, because that takes two runs
      --pod-cidrs-on PORT   allow the Node's pod CIDRs on this port of the VM: an interface of the node with the port's
                            hardware address, or the port's id
      --node-name NAME      with --pod-cidrs-on: the Node [$NODE_NAME]
      --service-account DIR with --pod-cidrs-on: token and certificates for Kubernetes
                            [/var/run/secrets/kubernetes.io/serviceaccount]
      --cloud NAME          with --pod-cidrs-on: the cloud [the only one]
      --clouds-file FILE    with --pod-cidrs-on: the file with that cloud [/etc/openstack/clouds.yaml]
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
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Arguments {
    pub(super) networks: Vec<PathBuf>,
    pub(super) results: Vec<PathBuf>,
    /// Interval between reads of the node's files.
    pub(super) interval: Duration,
    /// Longest interval between syncs with Neutron (`--look`).
    pub(super) neutron_interval: Duration,
    pub(super) grace: Duration,
    pub(super) run_mode: RunMode,
    pub(super) state: PathBuf,
    pub(super) pod_cidrs: Option<PodCidrs>,
    /// Where to serve metrics and health.
    pub(super) listen: Option<SocketAddr>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RunMode {
    Once,
    Loop,
}

/// The arguments of `--pod-cidrs-on`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PodCidrs {
    pub(super) on: VmInterface,
    pub(super) node_name: String,
    pub(super) service_account: PathBuf,
    pub(super) cloud: Option<String>,
    pub(super) clouds_file: PathBuf,
    pub(super) state: PathBuf,
}

impl Arguments {
    /// Parses the command line; `node_name` is the default of `--node-name`.
    pub(super) fn read(
        mut parser: Parser,
        node_name: Option<String>,
    ) -> Result<Request, lexopt::Error> {
        let mut arguments = Arguments {
            networks: Vec::new(),
            results: Vec::new(),
            interval: Duration::from_secs(5),
            neutron_interval: Duration::from_mins(1),
            grace: Duration::from_mins(10),
            run_mode: RunMode::Loop,
            state: STATE_DIRECTORY.into(),
            pod_cidrs: None,
            listen: None,
        };
        let (mut on, mut node_name, mut cloud) = (None, node_name, None);
        let mut service_account = PathBuf::from("/var/run/secrets/kubernetes.io/serviceaccount");
        let mut clouds_file = PathBuf::from("/etc/openstack/clouds.yaml");
        while let Some(argument) = parser.next()? {
            match argument {
                Arg::Short('h') | Arg::Long("help") => return Ok(Request::Help),
                Arg::Short('V') | Arg::Long("version") => return Ok(Request::Version),
                Arg::Long("networks") => arguments.networks.push(parser.value()?.into()),
                Arg::Long("results") => arguments.results.push(parser.value()?.into()),
                Arg::Long("interval") => arguments.interval = seconds(&mut parser)?,
                Arg::Long("look") => arguments.neutron_interval = seconds(&mut parser)?,
                Arg::Long("grace") => arguments.grace = seconds(&mut parser)?,
                Arg::Long("once") => arguments.run_mode = RunMode::Once,
                Arg::Long("pod-cidrs-on") => on = Some(interface(&parser.value()?.string()?)?),
                Arg::Long("node-name") => node_name = Some(parser.value()?.string()?),
                Arg::Long("service-account") => service_account = parser.value()?.into(),
                Arg::Long("cloud") => cloud = Some(parser.value()?.string()?),
                Arg::Long("clouds-file") => clouds_file = parser.value()?.into(),
                Arg::Long("listen") => {
                    arguments.listen = Some(listen(&parser.value()?.string()?)?);
                }
                Arg::Long("state-directory") => arguments.state = parser.value()?.into(),
                other => return Err(other.unexpected()),
            }
        }
        if arguments.networks.is_empty() {
            arguments.networks.push("/etc/cni/net.d".into());
        }
        if arguments.results.is_empty() {
            arguments.results = ["/var/lib/cni/results", "/var/lib/cni/multus/results"]
                .map(PathBuf::from)
                .to_vec();
        }
        if let Some(on) = on {
            let node_name = node_name
                .ok_or("--pod-cidrs-on requires --node-name, or NODE_NAME in the environment")?;
            let state = arguments.state.clone();
            arguments.pod_cidrs = Some(PodCidrs {
                on,
                node_name,
                service_account,
                cloud,
                clouds_file,
                state,
            });
        }
        Ok(Request::Run(Box::new(arguments)))
    }
}

fn seconds(parser: &mut Parser) -> Result<Duration, lexopt::Error> {
    let seconds: u64 = parser.value()?.parse()?;
    // One day is long enough, and cannot overflow a time.
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

fn interface(text: &str) -> Result<VmInterface, lexopt::Error> {
    if let Ok(id) = text.parse() {
        return Ok(VmInterface::Port(id));
    }
    text.parse()
        .map(VmInterface::Interface)
        .map_err(|why| format!("--pod-cidrs-on: {why}").into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(words: &[&str], node_name: Option<&str>) -> Result<Request, lexopt::Error> {
        Arguments::read(Parser::from_args(words), node_name.map(str::to_owned))
    }

    #[test]
    fn a_port_alone_is_one_of_loopback() {
        let listens = |text: &str| match read(&["--listen", text], None) {
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
        let Ok(Request::Run(arguments)) = read(&["--grace", "7", "--once", "--results=/r"], None)
        else {
            panic!()
        };
        assert_eq!(
            (arguments.grace, arguments.run_mode),
            (Duration::from_secs(7), RunMode::Once)
        );
        assert_eq!(
            (arguments.results, arguments.pod_cidrs),
            (vec![PathBuf::from("/r")], None)
        );
        assert_eq!(read(&["-h"], None).unwrap(), Request::Help);
        for bad in [
            &["--grace", "0"][..],
            &["--look", "1d"],
            &["x"],
            &["--pod-cidrs-on", "eth0"],
            &["--nonsense"],
        ] {
            assert!(read(bad, None).is_err(), "{bad:?}");
        }
        assert!(read(&["--pod-cidrs-on", "a b"], Some("n")).is_err());
        let Ok(Request::Run(arguments)) = read(&["--networks=/a", "--networks", "/b"], None) else {
            panic!()
        };
        assert_eq!(arguments.networks, ["/a", "/b"].map(PathBuf::from));
        let Ok(Request::Run(arguments)) = read(&["--pod-cidrs-on", "eth0"], Some("n")) else {
            panic!()
        };
        assert_eq!(arguments.networks, [PathBuf::from("/etc/cni/net.d")]);
        assert_eq!(
            arguments.pod_cidrs.unwrap().on,
            VmInterface::Interface("eth0".parse().unwrap())
        );
    }
}
