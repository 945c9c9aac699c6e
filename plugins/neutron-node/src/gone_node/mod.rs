//! `neutron-node gc`: deletes the ports of a permanently removed node. Shows a plan, asks for
//! approval, reads everything again, and deletes only ports that it showed. `judge` decides.

mod judge;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{BufRead, IsTerminal};
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use judge::{Evidence, GonePort, LivingNode, Mode, Plan, Refusal, judge, unchanged};
use serde_json::Value;

use super::network_state::{port_of, ports_of};
use crate::USER_AGENT;
use ipam_core::text::joined;
use neutron_cni::Owner;
use neutron_cni::cni::CniError;
use openstack::{
    Cloud, HttpNeutron, Neutron, NeutronError, PortFilter, SessionCache, clouds_files,
    retry_until_answered,
};
use private_files::read_secret;

pub(crate) use judge::{Arguments, HELP};

/// Timeout of one request, and of a delete with its retries.
const DEADLINE: Duration = Duration::from_mins(1);

/// Timeout of the list of the project's ports.
const LIST_TIMEOUT: Duration = Duration::from_mins(10);

/// Maximum number of servers to request until OpenStack shows one.
const PROOFS: usize = 10;

/// Why the command ends early.
enum Failure {
    /// The command failed, with this message: exit code 1.
    Failed(String),
    /// The existing objects are not known: exit code 5.
    Refused(Vec<Refusal>),
    /// Some ports were deleted, and others were not: exit code 7.
    Partly(String),
    /// The cluster could not be read: exit code 8.
    Unreadable(String),
}

impl From<NeutronError> for Failure {
    fn from(error: NeutronError) -> Failure {
        let CniError {
            code: _,
            message,
            details,
        } = error.into();
        Failure::Failed(format!("{message} ({details})"))
    }
}

/// Runs the command. Its plan goes to standard output, everything else to standard error.
pub(crate) fn run(arguments: &Arguments) -> ExitCode {
    match collect(arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            let (code, text) = match failure {
                Failure::Failed(why) => (1, why),
                Failure::Refused(refusals) => (5, refusal(&arguments.node, &refusals)),
                Failure::Partly(why) => (7, why),
                Failure::Unreadable(why) => (8, why),
            };
            eprintln!("neutron-node: {text}");
            ExitCode::from(code)
        }
    }
}

fn collect(arguments: &Arguments) -> Result<(), Failure> {
    let neutron = neutron(arguments)?;
    let plan = plan(arguments, &neutron)?;
    print!("{}", shown(&arguments.node, &plan));
    if plan.ports.is_empty() || arguments.mode == Mode::DryRun {
        return Ok(());
    }
    if arguments.mode == Mode::Ask {
        confirm()?;
    }
    let now = self::plan(arguments, &neutron)?;
    let ports = unchanged(&plan, &now);
    let changed = plan.ports.len() - ports.len();
    if changed > 0 {
        eprintln!("{changed} of the ports are gone or changed since the plan, and are left alone");
    }
    delete(&neutron, &ports)
}

/// Reads ports, then Nodes, then servers: a server that joins meanwhile is seen at OpenStack.
fn plan(arguments: &Arguments, neutron: &HttpNeutron) -> Result<Plan, Failure> {
    let mut ports = Vec::new();
    for owner in Owner::ALL {
        let of_owner = PortFilter {
            owner: Some(owner.as_str()),
            ..PortFilter::default()
        };
        let neutron = neutron.until(Instant::now() + LIST_TIMEOUT);
        ports.extend(neutron.ports(&of_owner)?);
    }
    let mut evidence = Evidence {
        ports,
        nodes: nodes(arguments).map_err(Failure::Unreadable)?,
        of_servers: BTreeMap::new(),
    };
    let (own, others) = evidence.servers(&arguments.node);
    for server in own {
        let ports = ports_of(&soon(neutron), &server)?;
        evidence.of_servers.insert(server, ports);
    }
    for server in others.into_iter().take(PROOFS) {
        let ports = ports_of(&soon(neutron), &server)?;
        evidence.of_servers.insert(server.clone(), ports);
        if evidence.port_of(&server).is_some() {
            break;
        }
    }
    judge(&arguments.node, &evidence).map_err(Failure::Refused)
}

fn neutron(arguments: &Arguments) -> Result<HttpNeutron, Failure> {
    let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let configuration = variable("XDG_CONFIG_HOME")
        .map(PathBuf::from)
        .or_else(|| Some(PathBuf::from(variable("HOME")?).join(".config")));
    let searched = clouds_files(configuration.as_deref());
    let named = arguments
        .clouds_file
        .clone()
        .or_else(|| variable("OS_CLIENT_CONFIG_FILE").map(PathBuf::from));
    let path = named
        .or_else(|| searched.into_iter().find(|path| path.exists()))
        .ok_or_else(|| Failure::Failed("no clouds file: name one with --clouds-file".to_owned()))?;
    let text = read_secret(&path)
        .map_err(|why| Failure::Failed(format!("{why}; fix: {}", why.way_out())))?;
    let name = arguments.cloud.clone().or_else(|| variable("OS_CLOUD"));
    let cloud = Cloud::read(&text, name.as_deref())
        .map_err(|why| Failure::Failed(format!("{}: {why}", path.display())))?;
    let until = Instant::now() + DEADLINE;
    let neutron = HttpNeutron::new(cloud, USER_AGENT, SessionCache::Disabled, until)?;
    // Once: each client for a request copies the session.
    neutron.log_in()?;
    Ok(neutron)
}

/// The same client with a new deadline, for the next request.
fn soon(neutron: &HttpNeutron) -> HttpNeutron {
    neutron.until(Instant::now() + DEADLINE)
}

/// All Nodes of the cluster, or why they could not be read.
fn nodes(arguments: &Arguments) -> Result<Vec<LivingNode>, String> {
    let program = arguments.kubectl.to_string_lossy();
    let mut kubectl = Command::new(&arguments.kubectl);
    kubectl.args(["get", "nodes", "--output=json"]);
    kubectl.arg(format!("--request-timeout={}s", DEADLINE.as_secs()));
    if let Some(context) = &arguments.context {
        kubectl.arg("--context").arg(context);
    }
    let output = kubectl
        .stdin(Stdio::null())
        .output()
        .map_err(|why| format!("{program}: {why}"))?;
    if !output.status.success() {
        let why = String::from_utf8_lossy(&output.stderr);
        return Err(format!(
            "{program} get nodes: {}",
            why.trim().escape_debug()
        ));
    }
    let listed: Value = serde_json::from_slice(&output.stdout)
        .map_err(|_| format!("{program} get nodes did not print JSON"))?;
    let items = listed["items"].as_array();
    items
        .and_then(|items| items.iter().map(LivingNode::read).collect())
        .ok_or_else(|| format!("{program} get nodes did not print a list of Nodes"))
}

fn shown(node: &str, plan: &Plan) -> String {
    let Plan {
        ports,
        kept,
        proof,
        hashed,
    } = plan;
    let mut text = String::new();
    for GonePort { port, server } in ports {
        let addresses = port.fixed_ips.iter().map(|fixed| fixed.ip_address);
        // Writing to a string does not fail.
        let _ = writeln!(
            text,
            "- port {} {} {} {} of {} on server {server}, created {}",
            port.id,
            joined(addresses, " "),
            port.device_owner,
            port.device_id.escape_debug(),
            port.name.escape_debug(),
            port.created_at.escape_debug(),
        );
    }
    for (why, number) in kept {
        let _ = writeln!(text, "Kept: {} of {node}: {why}.", count(*number));
    }
    if *hashed > 0 {
        let _ = writeln!(
            text,
            "Kept: {} of unknown nodes: their names are hashes.",
            count(*hashed)
        );
    }
    if !ports.is_empty() {
        let _ = writeln!(
            text,
            "These servers are no Nodes of the cluster, and OpenStack does not show them. It shows that of Node {proof}."
        );
    }
    let _ = writeln!(text, "Plan: {} to delete.", count(ports.len()));
    text
}

fn confirm() -> Result<(), Failure> {
    let nothing = |why: &str| Failure::Failed(format!("{why}; nothing was deleted"));
    if !std::io::stdin().is_terminal() {
        let why = "stdin is not a terminal: pass --auto-approve to delete without confirmation";
        return Err(nothing(why));
    }
    eprint!("\nDelete these ports? Type `yes` to continue: ");
    let mut answer = String::new();
    std::io::stdin()
        .lock()
        .read_line(&mut answer)
        .map_err(|why| nothing(&why.to_string()))?;
    match answer.trim() {
        "yes" => Ok(()),
        _ => Err(nothing("not approved")),
    }
}

/// Deletes the ports, and goes on after an error. Looks for the server before each.
fn delete(neutron: &HttpNeutron, ports: &[GonePort]) -> Result<(), Failure> {
    let mut left = 0;
    for gone in ports {
        if let Err(why) = delete_if_gone(neutron, gone) {
            eprintln!("port {} was not deleted: {why}", gone.port.id);
            left += 1;
        }
    }
    let deleted = ports.len() - left;
    eprintln!("Deleted {}.", count(deleted));
    match (deleted, left) {
        (_, 0) => Ok(()),
        (0, _) => Err(Failure::Failed("no port was deleted".to_owned())),
        (_, left) => Err(Failure::Partly(format!("{} left", count(left)))),
    }
}

fn delete_if_gone(neutron: &HttpNeutron, gone: &GonePort) -> Result<(), String> {
    let GonePort { port, server } = gone;
    let ports = ports_of(&soon(neutron), server).map_err(|error| error.to_string())?;
    if let Some(shown) = port_of(&ports, server) {
        return Err(format!("server {server} exists again (port {})", shown.id));
    }
    retry_until_answered(&soon(neutron), |neutron| neutron.delete_port(&port.id))
        .map_err(|error| error.to_string())
}

fn count(ports: usize) -> String {
    format!("{ports} {}", if ports == 1 { "port" } else { "ports" })
}

fn refusal(node: &str, refusals: &[Refusal]) -> String {
    let lines = refusals.iter().map(|refusal| format!("\n- {refusal}"));
    format!(
        "nothing of node {node} is deleted:{}",
        lines.collect::<String>()
    )
}
