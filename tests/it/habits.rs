//! Commands and flags as users of Terraform, kubectl and calicoctl type them.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::{Value, json};
use testbed::{Options, User};

use super::safety_arguments::{dual_stack, running};
use super::server::{Server, kubernetes, node as server_node};
use super::support::{
    Folder, KUBERNETES, Ran, cluster, holds, node, pool, program, ran, repository,
};

const POOL: &str = "{cidrs: [10.20.0.0/16], blockSize: 24}";

/// Three nodes without blocks, of which one is in rack `b`.
fn three() -> Folder {
    let nodes = [
        node("n1", "a", ""),
        node("n2", "a", ""),
        node("n3", "b", ""),
    ];
    Folder::new(&[
        ("cluster.json", &cluster("1.19.3", KUBERNETES, &nodes)),
        ("pools/a.yaml", &pool("a", POOL)),
    ])
}

/// Runs a command on `cluster.json`, which a variable selects.
fn on_cluster(folder: &Folder, arguments: &[&str]) -> Ran {
    let mut command = program(folder.path(), arguments);
    ran(command
        .env("CILIUM_IPAM_CLUSTER_FILE", "cluster.json")
        .output()
        .unwrap())
}

/// A command of another tool.
struct Habit {
    typed: String,
    ours: String,
    code: i32,
    part: String,
}

fn habits() -> Vec<Habit> {
    let table = repository().join("docs/src/reference/coming-from.tsv");
    let table = std::fs::read_to_string(table).unwrap();
    let lines = table.lines().filter(|line| !line.starts_with('#'));
    let habit = |line: &str| match line.split('\t').collect::<Vec<_>>()[..] {
        [typed, ours, code, part] => Habit {
            typed: typed.to_owned(),
            ours: ours.to_owned(),
            code: code.parse().unwrap(),
            part: part.to_owned(),
        },
        _ => panic!("not four columns: {line}"),
    };
    lines.map(habit).collect()
}

#[test]
fn commands_of_other_tools_work_or_name_ours() {
    let template = three();
    on_cluster(&template, &["plan", "--out", "p.json"]).expect(0);
    let plan = template.read("p.json");
    let habits = habits();
    assert!(habits.len() >= 40, "{}", habits.len());
    for habit in habits {
        let folder = three();
        folder.write("p.json", &plan);
        let words = habit.typed.split(' ').skip(1);
        let words: Vec<&str> = words.filter(|word| *word != "cilium-ipam").collect();
        let ran = on_cluster(&folder, &words);
        let told = ran.all();
        assert_eq!(ran.code, habit.code, "{}: {told}", habit.typed);
        assert!(told.contains(&habit.part), "{}: {told}", habit.typed);
    }
}

/// The page with the table.
pub fn page() -> String {
    let mut page = "\
# Coming from Terraform, kubectl or calicoctl

Type what you know. Terraform's flags work with one dash, as in `plan -out=p.json`. Most commands
that cilium-ipam does not have name the one that it has. `kubectl cilium-ipam` runs this program
if it is in `PATH` as `kubectl-cilium_ipam`.

| you type | it is | |
|---|---|---|
"
    .to_owned();
    for Habit {
        typed, ours, code, ..
    } in habits()
    {
        let how = if code == 1 { "answers" } else { "works" };
        page += &format!("| `{typed}` | `{ours}` | {how} |\n");
    }
    page
}

#[test]
fn a_flag_overrides_the_variable_and_what_it_excludes() {
    let folder = three();
    let plan = |variables: &[(&str, &str)], arguments: &[&str]| {
        let mut command = program(folder.path(), arguments);
        ran(command.envs(variables.iter().copied()).output().unwrap())
    };
    let file = ("CILIUM_IPAM_CLUSTER_FILE", "cluster.json");
    plan(&[file], &["plan"]).expect(0);
    plan(
        &[file, ("CILIUM_IPAM_PLAN_DETAILED_EXITCODE", "1")],
        &["plan"],
    )
    .expect(2);
    let json = plan(&[file, ("CILIUM_IPAM_PLAN_OUTPUT", "json")], &["plan"]).expect(0);
    assert_eq!(json.json()["summary"]["assign"], 3);
    let empty = [
        ("CILIUM_IPAM_VERBOSE", ""),
        ("CILIUM_IPAM_PLAN_OUTPUT", ""),
        file,
    ];
    plan(&empty, &["plan"]).expect(0);
    let context = ("CILIUM_IPAM_CONTEXT", "prod");
    plan(&[context], &["plan", "--cluster-file", "cluster.json"]).expect(0);
    let other = ("CILIUM_IPAM_CLUSTER_FILE", "absent.json");
    plan(&[other], &["plan", "--cluster", "cluster.json"]).expect(0);
    plan(&[other], &["plan"]).expect(8);
}

#[test]
fn the_name_of_a_kubeconfig_cluster_is_no_file() {
    let folder = three();
    let kubeconfig = "apiVersion: v1\nkind: Config\nclusters: [{name: prod, cluster: {server: 'https://127.0.0.1:1'}}]\n";
    folder.write(".kube/config", kubeconfig);
    let told = folder.run(&["plan", "--cluster", "prod"]).expect(1).stderr;
    assert!(
        told.contains("the kubeconfig has a cluster of this name"),
        "{told}"
    );
    assert!(told.contains("--context"), "{told}");
    folder.run(&["plan", "--cluster", "other"]).expect(8);
    // A file of that name is meant.
    folder.write("prod", folder.read("cluster.json"));
    folder.run(&["plan", "--cluster", "prod"]).expect(0);
}

fn blocks(plan: &Value) -> Vec<(String, Value)> {
    let changes = plan["changes"].as_array().unwrap().iter();
    changes
        .map(|change| {
            let name = change["name"].as_str().unwrap().to_owned();
            (name, change["after"].clone())
        })
        .collect()
}

#[test]
fn a_limited_plan_decides_as_the_whole_one_and_counts_the_rest() {
    let folder = three();
    let whole = on_cluster(&folder, &["plan", "-o", "json"])
        .expect(0)
        .json();
    let of = |flags: &[&str]| {
        on_cluster(&folder, &[&["plan", "-o", "json"], flags].concat())
            .expect(0)
            .json()
    };
    for (flags, names) in [
        (vec!["--target", "node/n3"], vec!["n3"]),
        (vec!["--target", "label:rack=a"], vec!["n1", "n2"]),
        (vec!["-l", "rack!=a"], vec!["n3"]),
        (
            vec!["--target", "pool/a", "--exclude", "node/n2"],
            vec!["n1", "n3"],
        ),
        (
            vec!["--target", "node/n1", "--target", "node/n2"],
            vec!["n1", "n2"],
        ),
        (vec!["--exclude", "pool/a"], vec![]),
    ] {
        let limited = of(&flags);
        let expected: Vec<_> = blocks(&whole)
            .into_iter()
            .filter(|(name, _)| names.contains(&name.as_str()))
            .collect();
        assert_eq!(blocks(&limited), expected, "{flags:?}");
        let left_out = &limited["summary"]["left_out"];
        assert_eq!(left_out["changes"], 3 - names.len(), "{flags:?}");
        assert_ne!(limited["digest"], whole["digest"], "{flags:?}");
    }
    assert_eq!(
        of(&["--target", "node/n3"])["selection"],
        json!({"targets": ["node/n3"], "excluded": []})
    );
    assert!(whole.get("selection").is_none() && whole["summary"].get("left_out").is_none());
}

#[test]
fn a_limited_plan_never_speaks_for_the_whole_cluster() {
    let nodes = [node("n1", "a", &holds("10.20.0.0/24")), node("n2", "b", "")];
    let folder = Folder::new(&[
        ("cluster.json", &cluster("1.19.3", KUBERNETES, &nodes)),
        ("pools/a.yaml", &pool("a", POOL)),
    ]);
    let flags = ["plan", "--target", "node/n1", "--detailed-exitcode"];
    let told = on_cluster(&folder, &flags).expect(0).stdout;
    assert!(
        told.starts_with("No changes to 1 selected node. 1 change is not in this plan.\n"),
        "{told}"
    );
    assert!(told.contains("limited by --target 'node/n1'"), "{told}");
    assert!(!told.contains("as the files say"), "{told}");
    let page = on_cluster(&folder, &[&flags[..3], &["-o", "markdown"]].concat());
    let page = page.expect(0).stdout;
    assert!(page.contains("1 change is not in this plan"), "{page}");
    on_cluster(&folder, &["plan", "--detailed-exitcode"]).expect(2);
}

#[test]
fn an_unknown_object_is_an_error() {
    let folder = three();
    for (object, part) in [
        ("node/n9", "exists neither in the files nor in the cluster"),
        ("pool/b", "exists neither in the files nor in the cluster"),
        ("label:rack=z", "no node has the labels"),
        ("n1", "write it as node/n1"),
    ] {
        for command in ["plan", "apply"] {
            let told = on_cluster(&folder, &[command, "--target", object]).expect(1);
            assert!(told.stderr.contains(part), "{}", told.stderr);
        }
    }
}

#[test]
fn a_saved_plan_keeps_its_limit() {
    let folder = three();
    let out = ["plan", "--target", "node/n2", "--out", "p.json"];
    on_cluster(&folder, &out).expect(0);
    let told = on_cluster(&folder, &["show", "p.json"]).expect(0).stdout;
    assert!(told.contains("2 changes are not in this plan"), "{told}");
    let other = ["apply", "p.json", "--target", "node/n1"];
    let told = on_cluster(&folder, &other).expect(4).stderr;
    assert!(
        told.contains("the plan is limited by --target 'node/n2'"),
        "{told}"
    );
    // Files that change elsewhere do not concern it.
    folder.write(
        "pools/z.yaml",
        pool(
            "z",
            "{cidrs: [10.30.0.0/16], blockSize: 24, nodeSelector: {matchLabels: {rack: b}}}",
        ),
    );
    on_cluster(&folder, &["apply", "p.json"]).expect(0);
    let written = folder.read("cluster.json");
    assert!(written.contains("10.20.1.0/24"), "{written}");
    assert!(!written.contains("10.20.0.0/24"), "{written}");
    assert!(!written.contains("10.30."), "{written}");
    // Without its limit, a saved plan is another one.
    let edited = folder.read("p.json").replace("node/n2", "node/n1");
    folder.write("edited.json", edited);
    let told = on_cluster(&folder, &["apply", "edited.json"])
        .expect(1)
        .stderr;
    assert!(told.contains("do not match its digest"), "{told}");
}

#[test]
fn a_limit_that_refuses_the_whole_plan_allows_a_part() {
    let folder = dual_stack(&running(&[("n1", "a"), ("n2", "a"), ("n3", "b")]), "");
    let told = on_cluster(&folder, &["apply", "--auto-approve"])
        .expect(5)
        .stderr;
    assert!(
        told.contains("apply fewer at a time with --target"),
        "{told}"
    );
    on_cluster(&folder, &["apply", "--auto-approve", "--target", "node/n1"]).expect(0);
    let written = folder.read("cluster.json");
    assert!(written.contains("fd00:20::/64"), "{written}");
    assert!(!written.contains("fd00:20:0:"), "{written}");
}

#[test]
fn nodes_are_listed_as_kubectl_lists_them() {
    let folder = three();
    let names = |arguments: &[&str]| -> Vec<String> {
        let arguments = [&["show", "nodes", "-o", "json"], arguments].concat();
        let items = on_cluster(&folder, &arguments).expect(0).json();
        let items = items["items"].as_array().unwrap().clone();
        items
            .iter()
            .map(|item| item["name"].as_str().unwrap().to_owned())
            .collect()
    };
    assert_eq!(names(&[]), ["n1", "n2", "n3"]);
    assert_eq!(names(&["pools"]), ["n1", "n2", "n3"]);
    assert_eq!(names(&["n3", "node/n1"]), ["n3", "n1"]);
    assert_eq!(names(&["-l", "rack in (a)", "pools"]), ["n1", "n2"]);
    on_cluster(&folder, &["show", "nodes", "n9"]).expect(1);
    let wide = on_cluster(&folder, &["show", "nodes", "n1", "-o", "wide"]).expect(0);
    assert!(wide.stdout.contains("rack=a"), "{}", wide.stdout);
    let yaml = on_cluster(&folder, &["show", "nodes", "n1", "-o", "yaml"]).expect(0);
    assert!(yaml.stdout.contains("name: n1"), "{}", yaml.stdout);
}

#[test]
fn a_pool_is_explained() {
    let nodes = [
        node("n1", "a", &holds("10.20.0.0/24")),
        node("n2", "a", ""),
        node("n3", "b", ""),
    ];
    let spec = "{cidrs: [10.20.0.0/22], blockSize: 24, nodeSelector: {matchLabels: {rack: a}}}";
    let folder = Folder::new(&[
        ("cluster.json", &cluster("1.19.3", KUBERNETES, &nodes)),
        ("pools/a.yaml", &pool("a", spec)),
    ]);
    let of = |subject: &str| {
        let told = on_cluster(&folder, &["explain", subject, "-o", "json"]);
        told.expect(0).json()
    };
    let pool = of("pool/a");
    assert_eq!(pool, of("a"));
    assert_eq!(pool["kind"], "pool");
    let range = &pool["ranges"][0];
    assert_eq!(
        [&range["total"], &range["used"], &range["free"]],
        [&json!(4), &json!(1), &json!(3)]
    );
    assert_eq!(range["next"][0], "10.20.1.0/24");
    let verdicts: Vec<&str> = pool["nodes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|node| node["verdict"].as_str().unwrap())
        .collect();
    assert_eq!(
        verdicts,
        ["selects it, and it keeps its block", "gives the block"]
    );
    assert_eq!(pool["other_nodes"], 1);
    let told = on_cluster(&folder, &["explain", "pool/aa"])
        .expect(1)
        .stderr;
    assert!(told.contains("did you mean `pool/a`?"), "{told}");
    assert_eq!(of("node/n2")["kind"], "node");
}

#[test]
fn the_version_names_the_formats() {
    let folder = Folder::new(&[]);
    let version = folder.run(&["version", "-o", "json"]).expect(0).json();
    assert_eq!(version["version"], env!("CARGO_PKG_VERSION"));
    for field in ["plan_format", "claims_format", "api_version"] {
        assert!(version[field].is_string(), "{version}");
    }
}

#[test]
fn there_is_a_man_page_for_each_command() {
    let folder = Folder::new(&[]);
    folder.run(&["manual", "man"]).expect(0);
    let page = folder.read("man/cilium-ipam-show-nodes.1");
    assert!(page.contains("CILIUM_IPAM_SHOW_NODES_OUTPUT"), "{page}");
    assert!(folder.read("man/cilium-ipam.1").contains("cilium\\-ipam"));
    assert!(!Path::new(&folder.join("man/cilium-ipam-manual.1")).exists());
}

/// (verb, resource and group, whether for the whole cluster) of a table or of roles.
type Rights = BTreeSet<(String, String, bool)>;

/// The rights that the documentation lists.
fn documented() -> Rights {
    let page = repository().join("docs/src/reference/rights.md");
    let page = std::fs::read_to_string(page).unwrap();
    let quoted = |cell: &str| -> Vec<String> {
        let parts = cell.split('`').skip(1).step_by(2);
        parts.map(str::to_owned).collect()
    };
    let mut rights = Rights::new();
    for line in page.lines().filter(|line| line.starts_with("| `")) {
        let cells: Vec<&str> = line.split('|').collect();
        let resources = quoted(cells[2]);
        let group = resources.iter().find(|name| name.starts_with('.'));
        for resource in resources.iter().filter(|name| !name.starts_with('.')) {
            let resource = match group {
                Some(group) => format!("{resource}{group}"),
                None => resource.clone(),
            };
            let is_everywhere = cells[3].trim() == "cluster" || cells[3].contains("all namespaces");
            for verb in quoted(cells[1]) {
                rights.insert((verb, resource.clone(), is_everywhere));
            }
        }
    }
    rights
}

/// The rights that `schema --rbac` prints.
fn printed() -> Rights {
    let text = Folder::new(&[]).run(&["schema", "--rbac"]).expect(0).stdout;
    let mut rights = Rights::new();
    for document in text.split("\n---\n") {
        let role: Value = serde_yaml::from_str(document).unwrap();
        let texts = |value: &Value| -> Vec<String> {
            let values = value.as_array().unwrap().iter();
            values
                .map(|text| text.as_str().unwrap().to_owned())
                .collect()
        };
        for rule in role["rules"].as_array().unwrap() {
            let group = match texts(&rule["apiGroups"])[0].as_str() {
                "" => String::new(),
                group => format!(".{group}"),
            };
            for resource in texts(&rule["resources"]) {
                for verb in texts(&rule["verbs"]) {
                    let is_everywhere = role["kind"] == "ClusterRole";
                    rights.insert((verb, format!("{resource}{group}"), is_everywhere));
                }
            }
        }
    }
    rights
}

#[test]
fn the_printed_roles_are_those_of_the_documentation() {
    // The page says in words that `watch` needs `watch` beside `list`.
    let without_watch: Rights = printed()
        .into_iter()
        .filter(|(verb, _, _)| verb != "watch")
        .collect();
    assert_eq!(without_watch, documented());
}

/// Binds the printed roles of this name to a user, as their comment says.
fn bind(server: &Server, role: &str, user: &str) {
    let api = "/apis/rbac.authorization.k8s.io/v1";
    let subjects = json!([{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}]);
    let binding = |kind: &str, of: &str| {
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind, "metadata": {"name": role},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": of, "name": role}, "subjects": subjects})
    };
    let namespaced = format!("{api}/namespaces/kube-system/rolebindings");
    for (path, object) in [
        (
            format!("{api}/clusterrolebindings"),
            binding("ClusterRoleBinding", "ClusterRole"),
        ),
        (namespaced, binding("RoleBinding", "Role")),
    ] {
        server.plane.create(&path, &object).unwrap();
    }
}

#[test]
fn the_printed_roles_suffice_and_requests_are_printed_without_credentials() {
    let options = Options {
        users: vec![User::named("planner")],
        ..Options::default()
    };
    let server = Server::start(&kubernetes("1.19.3", None), Some("1.19.3"), options, &[]);
    server.nodes([server_node("n", json!({}))]);
    server.folder.write("pools/a.yaml", pool("a", POOL));
    server.folder.write(
        "roles.yaml",
        server.folder.run(&["schema", "--rbac"]).expect(0).stdout,
    );
    let mut kubectl = server.plane.kubectl(&server.programs).unwrap();
    let roles = server.folder.join("roles.yaml");
    assert!(
        kubectl
            .arg("create")
            .arg("-f")
            .arg(roles)
            .status()
            .unwrap()
            .success()
    );
    let kubeconfig = server.plane.kubeconfig_for("planner").unwrap();

    bind(&server, "cilium-ipam-plan", "planner");
    let ran = server
        .run_as(&kubeconfig, &["plan", "--verbose", "-o", "json"])
        .expect(0);
    assert_eq!(ran.json()["summary"]["assign"], 1);
    let blind = ran.json()["findings"].to_string();
    assert!(!blind.contains("blind-spot"), "{blind}");
    let is_request = |line: &&str| {
        let words: Vec<&str> = line.split(' ').collect();
        matches!(words[..], ["GET", "/api/v1/nodes", "200", time, "ms"] if time.parse::<u64>().is_ok())
    };
    assert_eq!(
        ran.stderr.lines().filter(is_request).count(),
        1,
        "{}",
        ran.stderr
    );
    let token = std::fs::read_to_string(&kubeconfig).unwrap();
    let token = token.split("token").nth(1).unwrap();
    let token = token.trim_matches(|c: char| !c.is_ascii_alphanumeric());
    let token: String = token
        .chars()
        .take_while(char::is_ascii_alphanumeric)
        .collect();
    assert!(
        token.len() >= 8 && !ran.stderr.contains(&token),
        "{}",
        ran.stderr
    );
    let quiet = server.run_as(&kubeconfig, &["plan"]).expect(0);
    assert!(!quiet.stderr.contains("GET "), "{}", quiet.stderr);
    server
        .run_as(&kubeconfig, &["doctor", "--fail-on", "never"])
        .expect(0);
    server
        .run_as(&kubeconfig, &["apply", "--auto-approve"])
        .expect(1);

    bind(&server, "cilium-ipam-apply", "planner");
    let applied = server
        .run_as(&kubeconfig, &["apply", "--auto-approve"])
        .expect(0);
    assert!(
        !applied.stderr.contains("no lock is taken"),
        "{}",
        applied.stderr
    );
    assert_eq!(server.pod_cidrs()["n"], ["10.20.0.0/24"]);
}

#[test]
fn a_targeted_service_comes_with_the_pools_that_it_may_need() {
    let example = repository().join("examples/load-balancer-pins");
    let example = example.display();
    let [pools, cluster] = ["pools", "cluster.yaml"].map(|name| format!("{example}/{name}"));
    let changes = |limit: &[&str]| -> Vec<String> {
        let plan = ["plan", &pools, "--cluster-file", &cluster, "-o", "json"];
        let plan = Folder::new(&[]).run(&[&plan[..], limit].concat()).expect(0);
        let plan = plan.json();
        let names = plan["changes"].as_array().unwrap().iter();
        names
            .map(|change| {
                format!(
                    "{} {}",
                    change["kind"].as_str().unwrap(),
                    change["name"].as_str().unwrap()
                )
            })
            .collect()
    };
    let target = ["--target", "service/shop/web"];
    assert_eq!(
        changes(&target),
        [
            "Service shop/web",
            "CiliumLoadBalancerIPPool others",
            "CiliumLoadBalancerIPPool shop"
        ]
    );
    let without = [&target[..], &["--exclude", "pool/shop"]].concat();
    assert_eq!(
        changes(&without),
        ["CiliumLoadBalancerIPPool others"],
        "no pin without its pool"
    );
}
