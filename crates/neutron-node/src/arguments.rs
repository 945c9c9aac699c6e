//! The command line of the daemon.

use std::path::PathBuf;
use std::time::Duration;

use lexopt::{Arg, Parser, ValueExt};

use neutron_cni::{GuardedInterface, STATE_DIRECTORY};

/// What `--help` says.
pub(super) const HELP: &str = "\
Keeps what the CNI plugin cni-ipam-neutron needs on this node: a warm pool of Neutron's ports, no garbage, and the
allowed_address_pairs of the VM's port, as the configurations of its networks ask for (NEUTRON.md).

Usage: neutron-node [OPTIONS]

      --networks DIR        configurations of networks; may be repeated [/etc/cni/net.d]
      --results DIR         what a runtime remembers; may be repeated
                            [/var/lib/cni/results and /var/lib/cni/multus/results]
      --interval SECONDS    how often the node's files are looked at [5]
      --look SECONDS        how often Neutron is asked at least [60]
      --grace SECONDS       how long a port looks abandoned before it is deleted [600]
      --once                look once, and end; no garbage is deleted, which takes two looks
      --pod-cidrs-on PORT   let the Node's pod CIDRs out of this port of the VM: the interface of the node that has its
                            hardware address, or the port's id
      --node-name NAME      the Node for it [$NODE_NAME]
      --service-account DIR its token and its certificates
                            [/var/run/secrets/kubernetes.io/serviceaccount]
      --cloud NAME          the cloud for it [the only one]
      --clouds-file FILE    the file that has it [/etc/openstack/clouds.yaml]
      --state-directory DIR where logins are kept for it, and where pools of networks without a configuration are found
                            [/var/lib/cni/cilium-ipam-neutron]
  -h, --help
  -V, --version
";

/// What to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Request {
    Help,
    Version,
    Run(Box<Arguments>),
}

/// How often, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Arguments {
    pub(super) networks: Vec<PathBuf>,
    pub(super) results: Vec<PathBuf>,
    pub(super) interval: Duration,
    pub(super) look: Duration,
    pub(super) grace: Duration,
    pub(super) rounds: Rounds,
    pub(super) state: PathBuf,
    pub(super) pod_cidrs: Option<PodCidrs>,
}

/// When it ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rounds {
    One,
    Endless,
}

/// The port that lets the Node's pod CIDRs out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PodCidrs {
    pub(super) on: GuardedInterface,
    pub(super) node_name: String,
    pub(super) service_account: PathBuf,
    pub(super) cloud: Option<String>,
    pub(super) clouds_file: PathBuf,
    pub(super) state: PathBuf,
}

impl Arguments {
    /// Reads them; `node_name` is what the environment says.
    pub(super) fn read(
        mut parser: Parser,
        node_name: Option<String>,
    ) -> Result<Request, lexopt::Error> {
        let mut arguments = Arguments {
            networks: Vec::new(),
            results: Vec::new(),
            interval: Duration::from_secs(5),
            look: Duration::from_mins(1),
            grace: Duration::from_mins(10),
            rounds: Rounds::Endless,
            state: STATE_DIRECTORY.into(),
            pod_cidrs: None,
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
                Arg::Long("look") => arguments.look = seconds(&mut parser)?,
                Arg::Long("grace") => arguments.grace = seconds(&mut parser)?,
                Arg::Long("once") => arguments.rounds = Rounds::One,
                Arg::Long("pod-cidrs-on") => on = Some(interface(&parser.value()?.string()?)?),
                Arg::Long("node-name") => node_name = Some(parser.value()?.string()?),
                Arg::Long("service-account") => service_account = parser.value()?.into(),
                Arg::Long("cloud") => cloud = Some(parser.value()?.string()?),
                Arg::Long("clouds-file") => clouds_file = parser.value()?.into(),
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
                .ok_or("--pod-cidrs-on needs --node-name, or NODE_NAME in the environment")?;
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
    // A day is longer than anybody wants, and what is added to a time stays a time.
    if (1..=86_400).contains(&seconds) {
        Ok(Duration::from_secs(seconds))
    } else {
        Err("a number of seconds from 1 to 86400 is needed".into())
    }
}

fn interface(text: &str) -> Result<GuardedInterface, lexopt::Error> {
    if let Ok(id) = text.parse() {
        return Ok(GuardedInterface::Port(id));
    }
    text.parse()
        .map(GuardedInterface::Interface)
        .map_err(|why| format!("--pod-cidrs-on: {why}").into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(words: &[&str], node_name: Option<&str>) -> Result<Request, lexopt::Error> {
        Arguments::read(Parser::from_args(words), node_name.map(str::to_owned))
    }

    #[test]
    fn what_is_said_is_taken_and_nonsense_refused() {
        let Ok(Request::Run(arguments)) = read(&["--grace", "7", "--once", "--results=/r"], None)
        else {
            panic!()
        };
        assert_eq!(
            (arguments.grace, arguments.rounds),
            (Duration::from_secs(7), Rounds::One)
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
            GuardedInterface::Interface("eth0".parse().unwrap())
        );
    }
}
