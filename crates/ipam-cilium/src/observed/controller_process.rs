//! Recognizes kube-controller-manager and cloud-controller-manager in Pods and DaemonSets, and
//! reads the flags that decide about pod CIDRs. It must never know Nodes or plans.

use std::collections::BTreeMap;

use super::cluster_cidrs::ClusterCidrs;
use super::distribution::Distribution;
use super::go;
use super::setting_key::arguments_of;
use super::view_lb::{Container, WorkloadView};
use ipam_core::net::{Block, Range};

ipam_core::text_enum! {
    /// A program that can assign `spec.podCIDRs` of Nodes. The text is the name of its executable.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub enum ControllerProgram {
        KubeControllerManager = "kube-controller-manager",
        CloudControllerManager = "cloud-controller-manager",
        /// kubernetes-sigs/node-ipam-controller, which has no switch: it always assigns.
        NodeIpamController = "node-ipam-controller",
    }
}

/// Whether a program assigns pod CIDRs to Nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum AllocatorStatus {
    Inactive,
    /// Its flags are not visible, or there is only indirect evidence.
    Unknown,
    Active,
}

/// Whether the flags make a controller create cloud routes for the pod CIDRs of each Node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum CloudRoutes {
    #[default]
    Off,
    On,
}

/// A container that runs such a program.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ControllerProcess {
    pub program: ControllerProgram,
    pub status: AllocatorStatus,
    pub cluster_cidrs: ClusterCidrs,
    /// `--service-cluster-ip-range`.
    pub service_cidrs: Vec<Range>,
    pub routes: CloudRoutes,
    /// Name of the Pod or DaemonSet.
    pub object: String,
    /// Its creation, RFC 3339. Empty if unknown.
    pub created: String,
    /// The distribution, as recognized by the labels.
    pub distribution: Option<Distribution>,
}

pub(super) const ALLOCATE: &str = "allocate-node-cidrs";
const SERVICE_CIDR: &str = "service-cluster-ip-range";
const ROUTES: &str = "configure-cloud-routes";

/// Cloud controller managers without a node-ipam controller, by executable or image. In them,
/// `--allocate-node-cidrs` only allows the route controller (`startRouteController` in app/core.go
/// of k8s.io/cloud-provider), and their manifests set it. Their main.go starts
/// `DefaultInitFuncConstructors` alone.
const WITHOUT_NODE_IPAM: [&str; 2] = ["hcloud-cloud-controller-manager", "rke2-cloud-provider"];

impl ControllerProcess {
    /// The processes of a Pod, or of the Pods of a DaemonSet, each with the place of its container.
    pub(super) fn of(view: &WorkloadView<'_>) -> Vec<(usize, ControllerProcess)> {
        if view.is_over() {
            return Vec::new();
        }
        let containers: Vec<&Container> = view.containers().collect();
        let lines: Vec<Vec<CommandLine>> =
            containers.iter().map(|one| command_lines(one)).collect();
        let programs = programs(&view.metadata.name, &containers, &lines);
        let distribution = view.metadata.labels.as_ref().and_then(Distribution::of_pod);
        let created = view.metadata.created.as_deref().unwrap_or_default();
        let process = |(place, program): (usize, Option<ControllerProgram>)| {
            let lines = &lines[place];
            Some((
                place,
                ControllerProcess {
                    program: program?,
                    status: status(program?, containers[place], lines),
                    cluster_cidrs: ClusterCidrs::of(lines),
                    service_cidrs: ranges_of(lines, SERVICE_CIDR),
                    routes: routes(lines),
                    object: view.metadata.name.clone().into_owned(),
                    created: created.to_owned(),
                    distribution,
                },
            ))
        };
        programs
            .into_iter()
            .enumerate()
            .filter_map(process)
            .collect()
    }

    /// A command line from which [`ControllerProcess::of`] reads the same.
    pub(super) fn words(&self) -> Vec<String> {
        let value = match self.status {
            AllocatorStatus::Inactive => "false",
            AllocatorStatus::Unknown => "$",
            AllocatorStatus::Active => "true",
        };
        let mut words = vec![self.program.to_string(), format!("--{ALLOCATE}={value}")];
        words.extend(self.cluster_cidrs.words());
        words.extend(ranges_flag(SERVICE_CIDR, &self.service_cidrs));
        if self.routes == CloudRoutes::On {
            words.push(format!("--{ROUTES}=true"));
        }
        words
    }
}

/// One command: the words of a container, or a command of its shell script.
pub(super) struct CommandLine {
    words: Vec<String>,
    flags: BTreeMap<String, String>,
}

impl CommandLine {
    pub(super) fn new(words: Vec<String>) -> CommandLine {
        let flags = arguments_of(&words);
        CommandLine { words, flags }
    }

    pub(super) fn flag(&self, key: &str) -> Option<&str> {
        self.flags.get(key).map(String::as_str)
    }

    /// The program that the line starts, perhaps by way of another one such as `exec` or
    /// `/go-runner`.
    fn program(&self) -> Option<ControllerProgram> {
        let before = [""]
            .into_iter()
            .chain(self.words.iter().map(String::as_str));
        let words = before.zip(&self.words);
        let is_hyperkube = |word: &String| word.ends_with("hyperkube");
        let mut names = words.filter_map(|(before, word)| {
            let name = word.rsplit('/').next()?;
            match name {
                _ if word.starts_with('-') || takes_value(before) => None,
                "controller-manager" if self.words.iter().any(is_hyperkube) => {
                    Some(ControllerProgram::KubeControllerManager)
                }
                // A file such as `cloud-controller-manager.conf`.
                _ if name.contains('.') => None,
                _ => named_in(name),
            }
        });
        names.next()
    }

    /// Whether flags may come from a file, a variable or another command, or use syntax that only a
    /// shell expands.
    pub(super) fn hides_flags(&self) -> bool {
        let hides = |word: &String| {
            let is_value_of_flag = word.starts_with("--") && !word.starts_with("--{");
            let is_expanded = word.contains(['$', '{', '\\']) && !is_value_of_flag;
            matches!(word.as_str(), "xargs" | "eval") || is_expanded
        };
        self.flag("config").is_some() || self.words.iter().any(hides)
    }

    /// What its flags say of the node-ipam controller; `None` if they say nothing.
    pub(super) fn allocation(&self) -> Option<AllocatorStatus> {
        let value = self.flag(ALLOCATE)?;
        Some(match go::boolean(value) {
            _ if self.leaves_out(&["nodeipam", "node-ipam-controller"]) => {
                AllocatorStatus::Inactive
            }
            Some(true) => AllocatorStatus::Active,
            Some(false) => AllocatorStatus::Inactive,
            None => AllocatorStatus::Unknown,
        })
    }

    /// Whether `--controllers` switches these controllers off: the names of one. The first entry
    /// that names it decides (`IsControllerEnabled` of kubernetes/controller-manager).
    fn leaves_out(&self, names: &[&str]) -> bool {
        let is_read = |list: &&str| !list.is_empty() && !list.contains('$');
        let Some(list) = self.flag("controllers").filter(is_read) else {
            return false;
        };
        let mut entries = list.split(',').map(str::trim);
        let decision = entries.clone().find_map(|entry| {
            let (name, is_off) = match entry.strip_prefix('-') {
                Some(name) => (name, true),
                None => (entry, false),
            };
            names.contains(&name).then_some(is_off)
        });
        decision.unwrap_or_else(|| !entries.any(|entry| entry == "*"))
    }
}

/// Whether the word is a flag whose value may be the next word.
fn takes_value(word: &str) -> bool {
    word.len() > 2 && word.starts_with("--") && !word.contains('=')
}

/// The program in the name of an executable, an image, a container, a Pod or a field manager:
/// clouds prefix theirs, as in `openstack-cloud-controller-manager`.
pub(super) fn named_in(name: &str) -> Option<ControllerProgram> {
    let mut programs = ControllerProgram::ALL.into_iter();
    programs.find(|program| name.contains(program.as_str()))
}

/// The program of each container. If none tells one and the name of the Pod does, one of the
/// containers runs it: the first with the flag.
fn programs(
    name: &str,
    containers: &[&Container],
    lines: &[Vec<CommandLine>],
) -> Vec<Option<ControllerProgram>> {
    let known = containers.iter().zip(lines).map(program_of);
    let mut programs: Vec<Option<ControllerProgram>> = known.collect();
    if programs.iter().all(Option::is_none)
        && let Some(program) = named_in(name)
    {
        let has_flag =
            |lines: &Vec<CommandLine>| lines.iter().any(|line| line.flag(ALLOCATE).is_some());
        let place = lines.iter().position(has_flag).unwrap_or_default();
        if let Some(found) = programs.get_mut(place) {
            *found = Some(program);
        }
    }
    programs
}

fn program_of((container, lines): (&&Container, &Vec<CommandLine>)) -> Option<ControllerProgram> {
    let of_image = || named_in(container.image_name());
    let of_command = lines.iter().find_map(CommandLine::program);
    of_command
        .or_else(of_image)
        .or_else(|| named_in(&container.name))
}

/// The flag is off by default.
fn status(
    program: ControllerProgram,
    container: &Container,
    lines: &[CommandLine],
) -> AllocatorStatus {
    match program {
        ControllerProgram::NodeIpamController => return AllocatorStatus::Active,
        ControllerProgram::CloudControllerManager if lacks_node_ipam(container) => {
            return AllocatorStatus::Inactive;
        }
        _ => {}
    }
    // Without a command, the image names the program.
    let runs_image = container.command.is_empty() && !container.args.is_empty();
    let of_line = |line: &CommandLine| match line.allocation() {
        None if line.program().is_none() && !runs_image => None,
        None if line.hides_flags() => Some(AllocatorStatus::Unknown),
        None => Some(AllocatorStatus::Inactive),
        explicit => explicit,
    };
    let statuses = lines.iter().filter_map(of_line);
    statuses.max().unwrap_or(AllocatorStatus::Unknown)
}

fn lacks_node_ipam(container: &Container) -> bool {
    let words = container.command.iter().chain(&container.args);
    let words = words.filter(|word| !word.starts_with('-'));
    let mut words = [&container.image].into_iter().chain(words);
    words.any(|word| WITHOUT_NODE_IPAM.iter().any(|name| word.contains(name)))
}

pub(super) fn ranges_of(lines: &[CommandLine], flag: &str) -> Vec<Range> {
    let texts = lines.iter().filter_map(|line| line.flag(flag));
    let texts = texts.flat_map(|list| list.split(','));
    let blocks = texts.filter_map(|text| Block::lenient(text.trim()).ok());
    blocks.map(|block| block.range()).collect()
}

/// A flag from which [`ranges_of`] reads the same; `None` without ranges.
pub(super) fn ranges_flag(flag: &str, ranges: &[Range]) -> Option<String> {
    let blocks = ranges.iter().filter_map(Range::largest_block);
    let cidrs: Vec<String> = blocks.map(|block| block.to_string()).collect();
    (!cidrs.is_empty()).then(|| format!("--{flag}={}", cidrs.join(",")))
}

fn routes(lines: &[CommandLine]) -> CloudRoutes {
    const NAMES: [&str; 3] = [
        "route",
        "node-route-controller",
        "cloud-node-route-controller",
    ];
    let makes = |line: &CommandLine| line.flag(ROUTES) == Some("true") && !line.leaves_out(&NAMES);
    match lines.iter().any(makes) {
        true => CloudRoutes::On,
        false => CloudRoutes::Off,
    }
}

/// The words of the container, and each command of the scripts among them.
fn command_lines(container: &Container) -> Vec<CommandLine> {
    let mut lines = Vec::new();
    let mut plain: Vec<String> = Vec::new();
    for word in container.command.iter().chain(&container.args) {
        let is_value = plain.last().is_some_and(|before| takes_value(before));
        if word.contains(char::is_whitespace) && !word.starts_with('-') && !is_value {
            lines.extend(commands(word));
        } else {
            plain.push(word.clone());
        }
    }
    lines.push(CommandLine::new(plain));
    lines
}

/// The commands of a shell script, roughly: quotes do not hold words together.
fn commands(script: &str) -> Vec<CommandLine> {
    let script = script.replace("\\\n", "");
    // A quoted `#` begins no comment. It and the output of a command count as variables.
    let script = script.replace("\"#", "$").replace("'#", "$");
    let script = script.replace(['"', '\''], "").replace('`', " $\n");
    let commands = script.split([';', '|', '&', '\n', '(', ')']);
    let words = commands.map(|command| {
        let words = command.split_whitespace();
        let words = words.take_while(|word| !word.starts_with('#'));
        words.map(flag_of_variable).collect()
    });
    words.map(CommandLine::new).collect()
}

/// `FLAGS=--cluster-cidr=10.0.0.0/8` counts as the flag.
fn flag_of_variable(word: &str) -> String {
    match word.split_once("=--") {
        Some((variable, flag)) if !variable.starts_with('-') => format!("--{flag}"),
        _ => word.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::AllocatorStatus::{Active, Inactive, Unknown};
    use super::ControllerProgram::{
        CloudControllerManager as Ccm, KubeControllerManager as Kcm, NodeIpamController as Ipam,
    };
    use super::*;

    fn processes(name: &str, container: &Value) -> Vec<ControllerProcess> {
        let pod = json!({"metadata": {"name": name}, "spec": {"containers": [container]}});
        let text = pod.to_string();
        let view: WorkloadView<'_> = serde_json::from_str(&text).unwrap();
        let found = ControllerProcess::of(&view).into_iter();
        found.map(|(_, process)| process).collect()
    }

    fn of_command(words: &[&str]) -> Option<(ControllerProgram, AllocatorStatus)> {
        let found = processes("p", &json!({"name": "c", "command": words}));
        found
            .first()
            .map(|process| (process.program, process.status))
    }

    #[test]
    fn flags_of_a_command_line() {
        let kcm = "/usr/local/bin/kube-controller-manager";
        let cases: [(&[&str], Option<_>); 26] = [
            (&[kcm, "--allocate_node_cidrs=true"], Some((Kcm, Active))),
            (
                &[
                    kcm,
                    "--allocate-node-cidrs",
                    "--controllers=*",
                    "--controllers=-ttl",
                ],
                Some((Kcm, Active)),
            ),
            (
                &[
                    kcm,
                    "--allocate-node-cidrs",
                    "--controllers=nodeipam,-nodeipam",
                ],
                Some((Kcm, Active)),
            ),
            (
                &[
                    kcm,
                    "--allocate-node-cidrs",
                    "--controllers=-nodeipam,*,nodeipam",
                ],
                Some((Kcm, Inactive)),
            ),
            (&[kcm], Some((Kcm, Inactive))),
            (&[kcm, "--allocate-node-cidrs"], Some((Kcm, Active))),
            (&[kcm, "--allocate-node-cidrs", "true"], Some((Kcm, Active))),
            (
                &[kcm, "--allocate-node-cidrs", "--v=2"],
                Some((Kcm, Active)),
            ),
            (&[kcm, "--allocate-node-cidrs=T"], Some((Kcm, Active))),
            (&[kcm, "--allocate-node-cidrs=false"], Some((Kcm, Inactive))),
            (&[kcm, "--allocate-node-cidrs=0"], Some((Kcm, Inactive))),
            (&[kcm, "--allocate-node-cidrs=$(ON)"], Some((Kcm, Unknown))),
            (&[kcm, "--config", "/etc/c.yaml"], Some((Kcm, Unknown))),
            (&[kcm, "--config=/etc/c.yaml"], Some((Kcm, Unknown))),
            (
                &[kcm, "--config=c", "--allocate-node-cidrs=false"],
                Some((Kcm, Inactive)),
            ),
            (
                &[
                    kcm,
                    "--allocate-node-cidrs=true",
                    "--controllers=*,-nodeipam",
                ],
                Some((Kcm, Inactive)),
            ),
            (
                &[kcm, "--allocate-node-cidrs=true", "--controllers=job"],
                Some((Kcm, Inactive)),
            ),
            (
                &[
                    kcm,
                    "--allocate-node-cidrs=true",
                    "--controllers=node-ipam-controller",
                ],
                Some((Kcm, Active)),
            ),
            (
                &["/go-runner", "--log-file=/l", "--", kcm],
                Some((Kcm, Inactive)),
            ),
            (&["/hyperkube", "controller-manager"], Some((Kcm, Inactive))),
            (
                &[
                    "/bin/openstack-cloud-controller-manager",
                    "--allocate-node-cidrs",
                ],
                Some((Ccm, Active)),
            ),
            (&["node-ipam-controller"], Some((Ipam, Active))),
            (&["etcd", "--name=kube-controller-manager"], None),
            (&["proxy", "--to", "kube-controller-manager"], None),
            (&["cat", "/etc/cloud-controller-manager.conf"], None),
            (&[], None),
        ];
        for (words, expected) in cases {
            assert_eq!(of_command(words), expected, "{words:?}");
        }
    }

    #[test]
    fn flags_of_a_script() {
        let cases = [
            (
                "exec kube-controller-manager --allocate-node-cidrs=true 2>&1",
                Active,
            ),
            (
                "kube-controller-manager \\\n --allocate-node-cidrs \\\n true",
                Active,
            ),
            (
                "a=1; exec kube-controller-manager --allocate-node-cidrs=false",
                Inactive,
            ),
            (
                "exec kube-controller-manager \"--allocate-node-cidrs=true\" | tee /log",
                Active,
            ),
            ("exec kube-controller-manager $FLAGS", Unknown),
            ("exec kube-controller-manager `cat /flags`", Unknown),
            ("exec kube-controller-manager $(cat /flags)", Unknown),
            ("exec kube-controller-manager -v=2${FLAGS}", Unknown),
            ("xargs -a /flags kube-controller-manager", Unknown),
            ("eval kube-controller-manager --v=2", Unknown),
            ("kube-controller-manager < /f '#x' --v=2", Unknown),
            ("kube-controller-manager --{v=2,profiling=false}", Unknown),
            ("kube-controller-manager \\--v=2", Unknown),
            (
                "kube-controller-manager --allocate-\\\nnode-cidrs=true",
                Active,
            ),
            (
                "kube-controller-manager --allocate-node-cidrs --controllers=`cat /c`",
                Active,
            ),
            (
                "F='--v=2 --allocate-node-cidrs=true'\nexec kube-controller-manager $F",
                Active,
            ),
            (
                "F=--allocate-node-cidrs=true\nexec kube-controller-manager $F",
                Active,
            ),
            (
                "exec kube-controller-manager --allocate-node-cidrs=${ON:-true}",
                Unknown,
            ),
            (
                "# --allocate-node-cidrs=true\nexec kube-controller-manager --v=2",
                Inactive,
            ),
        ];
        for (script, expected) in cases {
            for shell in [
                &["/bin/sh", "-c"][..],
                &["bash", "-ec"],
                &["tini", "--", "sh", "-c"],
            ] {
                let words = [shell, &[script]].concat();
                assert_eq!(of_command(&words), Some((Kcm, expected)), "{words:?}");
            }
        }
    }

    #[test]
    fn names_identify_a_program_that_the_command_does_not_show() {
        let image = "registry.k8s.io/kube-controller-manager:v1.31.4";
        let cases = [
            (
                "p",
                json!({"name": "c", "image": image}),
                Some((Kcm, Unknown)),
            ),
            (
                "p",
                json!({"name": "c", "image": image, "args": ["--v=2"]}),
                Some((Kcm, Inactive)),
            ),
            (
                "p",
                json!({"name": "c", "image": image, "args": ["--allocate-node-cidrs"]}),
                Some((Kcm, Active)),
            ),
            (
                "p",
                json!({"name": "kube-controller-manager", "command": ["/run.sh"]}),
                Some((Kcm, Unknown)),
            ),
            (
                "kube-controller-manager-cp-1",
                json!({"name": "c", "command": ["/run.sh", "--allocate-node-cidrs=true"]}),
                Some((Kcm, Active)),
            ),
            (
                "cloud-controller-manager-x",
                json!({"name": "c"}),
                Some((Ccm, Unknown)),
            ),
            (
                "coredns-1",
                json!({"name": "coredns", "args": ["-conf", "/etc/c"]}),
                None,
            ),
        ];
        for (name, container, expected) in cases {
            let found = processes(name, &container);
            let found = found
                .first()
                .map(|process| (process.program, process.status));
            assert_eq!(found, expected, "{name} {container}");
        }
    }

    #[test]
    fn cloud_controllers_without_node_ipam() {
        let on = "--allocate-node-cidrs=true";
        let cases = [
            (
                json!({"image": "rancher/rke2-cloud-provider:v1.33.4", "command": ["cloud-controller-manager", on]}),
                Inactive,
            ),
            (
                json!({"image": "mirror/ccm:1", "command": ["/bin/hcloud-cloud-controller-manager", on]}),
                Inactive,
            ),
            (
                json!({"image": "azure-cloud-controller-manager:v1", "command": ["cloud-controller-manager", on, "--leader-elect-resource-name=rke2-cloud-provider"]}),
                Active,
            ),
        ];
        for (container, expected) in cases {
            let process = processes("p", &container).remove(0);
            assert_eq!(
                (process.program, process.status),
                (Ccm, expected),
                "{container}"
            );
        }
    }

    #[test]
    fn ranges_and_routes() {
        let read = |words: &[&str]| {
            let words = [&["cloud-controller-manager"], words].concat();
            let process = processes("p", &json!({"name": "c", "command": words})).remove(0);
            let ranges = process.cluster_cidrs.ranges.iter().map(ToString::to_string);
            (ranges.collect::<Vec<_>>().join(" "), process.routes)
        };
        let cidrs = ["--cluster-cidr", "10.1.0.0/16,fd00::/48"];
        assert_eq!(
            read(&cidrs),
            ("10.1.0.0/16 fd00::/48".to_owned(), CloudRoutes::Off)
        );
        let on = "--configure-cloud-routes=true";
        assert_eq!(read(&[on]).1, CloudRoutes::On);
        assert_eq!(read(&[on, "--controllers=*,-route"]).1, CloudRoutes::Off);
    }
}
