//! Commands and flags as users of Terraform, kubectl and calicoctl type them.

use std::path::Path;

use serde_json::{Value, json};

use super::operator::{GROUP, install_definitions};
use super::server::Server;
use super::support::{
    Folder, KUBERNETES, Ran, TextAssertions, address_pool, cluster, holds, node, pin, pool,
    program, ran, repository,
};

pub const POOL: &str = "{cidrs: [10.20.0.0/16], blockSize: 24}";

/// Three nodes without blocks, of which one is in rack `b`.
pub fn three() -> Folder {
    let nodes = [
        node("n1", "a", ""),
        node("n2", "a", ""),
        node("n3", "b", ""),
    ];
    Folder::with_cluster(&nodes, &[("pools/a.yaml", &pool("a", POOL))])
}

/// Runs a command on `cluster.json`, which a variable selects.
pub fn on_cluster(folder: &Folder, arguments: &[&str]) -> Ran {
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
    // Two variables that exclude each other are still an error.
    plan(&[other, context], &["plan"]).expect(1);
    let target = ("CILIUM_IPAM_PLAN_TARGET", "node/n1");
    let json = ["plan", "-o", "json"];
    let limited = |variables: &[(&str, &str)], flags: &[&str]| {
        let plan = plan(variables, &[&json, flags].concat()).expect(0).json();
        plan["summary"]["assign"].as_u64().unwrap()
    };
    assert_eq!(limited(&[file, target], &[]), 1);
    assert_eq!(limited(&[file, target], &["-l", "rack=a"]), 2);
    // An argument without a flag excludes flags, too.
    let crds = ("CILIUM_IPAM_SCHEMA_CRDS", "true");
    let schema = plan(&[crds], &["schema", "IPPool"]).expect(0).json();
    assert_eq!(schema["title"], "IPPool");
    assert_eq!(plan(&[crds], &["schema"]).expect(0).json()["kind"], "List");
}

#[test]
fn a_switch_that_is_off_overrides_its_variable() {
    for variable in ["true", "1"] {
        for (switch, code) in [
            (&[][..], 0),
            (&["--auto-approve=true"], 0),
            (&["-auto-approve=false"], 1),
            (&["--auto-approve=false"], 1),
        ] {
            let folder = three();
            let arguments = [&["apply", "--cluster-file", "cluster.json"], switch].concat();
            let mut command = program(folder.path(), &arguments);
            command.env("CILIUM_IPAM_APPLY_AUTO_APPROVE", variable);
            let ran = ran(command.output().unwrap()).expect(code);
            let is_written = folder.read("cluster.json").contains("10.20.0.0/24");
            assert_eq!(is_written, code == 0, "{switch:?}");
            if code != 0 {
                ran.stderr.assert_has("pass --auto-approve");
            }
        }
    }
    let folder = three();
    let mut command = program(
        folder.path(),
        &["plan", "--show-all=false", "--cluster-file", "cluster.json"],
    );
    ran(command.env("CILIUM_IPAM_FULL", "true").output().unwrap()).expect(0);
}

#[test]
fn the_name_of_a_kubeconfig_cluster_is_no_file() {
    let folder = three();
    let kubeconfig = "apiVersion: v1\nkind: Config\nclusters: [{name: prod, cluster: {server: 'https://127.0.0.1:1'}}]\n";
    folder.write(".kube/config", kubeconfig);
    let told = folder.expect("plan --cluster prod", 1).stderr;
    told.assert_has("the kubeconfig has a cluster of this name");
    told.assert_has("--context");
    folder.expect("plan --cluster other", 8);
    // A file of that name is meant.
    folder.write("prod", folder.read("cluster.json"));
    folder.expect("plan --cluster prod", 0);
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
    for (name, part) in [
        ("worker-1", "`cilium-ipam show nodes` lists all"),
        ("n33", "did you mean `n3`?"),
    ] {
        let told = on_cluster(&folder, &["show", "nodes", name]).expect(1);
        let expected = format!("there is no node `{name}`, and no such directory; {part}");
        told.stderr.assert_has(&expected);
    }
    let wide = on_cluster(&folder, &["show", "nodes", "n1", "-o", "wide"]).expect(0);
    wide.stdout.assert_has("rack=a");
    let yaml = on_cluster(&folder, &["show", "nodes", "n1", "-o", "yaml"]).expect(0);
    yaml.stdout.assert_has("name: n1");
}

#[test]
fn pools_are_listed_as_kubectl_lists_them() {
    let both = "{cidrs: [10.20.0.0/16, 'fd00:20::/48'], blockSize: {ipv4: 24, ipv6: 64}}";
    let settings = format!(r#"{KUBERNETES},"enable-ipv6":"true""#);
    let nodes = [node("n1", "a", &holds("10.30.0.0/24"))];
    let folder = Folder::new(&[
        ("cluster.json", &cluster("1.19.3", &settings, &nodes)),
        ("pools/rack-a.yaml", &pool("rack-a", both)),
        (
            "pools/rack-b.yaml",
            &pool("rack-b", "{cidrs: [10.30.0.0/22], blockSize: 24}"),
        ),
    ]);
    let show = |arguments: &[&str]| {
        on_cluster(&folder, &[&["show", "pools"], arguments].concat()).expect(0)
    };
    let names = |arguments: &[&str]| -> Vec<String> {
        let items = show(&[&["-o", "json"], arguments].concat()).json();
        let items = items["items"].as_array().unwrap().clone();
        let name = |item: &Value| format!("{} {}", text(&item["name"]), text(&item["family"]));
        items.iter().map(name).collect()
    };
    let all = ["rack-a IPv4", "rack-a IPv6", "rack-b IPv4"];
    assert_eq!(names(&[]), all);
    assert_eq!(names(&["pools"]), all);
    assert_eq!(
        names(&["rack-b", "pools", "pool/rack-a"]),
        [all[2], all[0], all[1]]
    );
    let one = show(&["rack-b"]).stdout;
    one.assert_has("10.30.0.0/22");
    one.assert_lacks("rack-a");
    one.assert_lacks("LONGEST FREE");
    let wide = show(&["rack-b", "-o", "wide"]).stdout;
    for part in [
        "FAMILY",
        "LONGEST FREE",
        "10.30.1.0-10.30.3.255",
        "pools/rack-b.yaml:3",
    ] {
        assert!(wide.contains(part), "{part}: {wide}");
    }
    let yaml: Value = serde_yaml::from_str(&show(&["rack-a", "-o", "yaml"]).stdout).unwrap();
    let json = show(&["rack-a", "-o", "json"]).json();
    assert_eq!(yaml, json);
    assert_eq!(json["items"][1]["total"], 65_536);
    for (name, part) in [
        ("rak-a", "did you mean `rack-a`?"),
        ("zz", "`cilium-ipam show pools` lists all"),
    ] {
        let told = on_cluster(&folder, &["get", "pools", name])
            .expect(1)
            .stderr;
        let expected = format!("there is no pool `{name}`, and no such directory; {part}");
        told.assert_has(&expected);
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap()
}

#[test]
fn a_plan_with_blocked_changes_never_looks_done() {
    let nodes = [node("n1", "a", &holds("10.20.0.0/24")), node("n2", "a", "")];
    let folder = Folder::with_cluster(
        &nodes,
        &[(
            "pools/a.yaml",
            &pool("a", "{cidrs: [10.20.0.0/24], blockSize: 24}"),
        )],
    );
    let headline = "1 blocked, 1 error; no changes can be made now";
    let human = on_cluster(&folder, &["plan"]).stdout;
    assert!(human.starts_with(headline), "{human}");
    let page = on_cluster(&folder, &["plan", "-o", "markdown"]).stdout;
    assert!(
        page.starts_with(&format!("### {headline}. 1 of 2 nodes")),
        "{page}"
    );
    let limited = on_cluster(&folder, &["plan", "--target", "node/n2"]).stdout;
    assert!(
        limited.starts_with("1 blocked, 1 error; no changes to 1 selected node can be made now."),
        "{limited}"
    );
    on_cluster(&folder, &["plan", "--out", "p.json"]);
    let saved = on_cluster(&folder, &["show", "p.json"]).stdout;
    for text in [human, page, limited, saved] {
        text.assert_lacks("No changes");
    }
}

#[test]
fn a_pool_is_explained() {
    let nodes = [
        node("n1", "a", &holds("10.20.0.0/24")),
        node("n2", "a", ""),
        node("n3", "b", ""),
    ];
    let spec = "{cidrs: [10.20.0.0/22], blockSize: 24, nodeSelector: {matchLabels: {rack: a}}}";
    let folder = Folder::with_cluster(&nodes, &[("pools/a.yaml", &pool("a", spec))]);
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
    told.assert_has("did you mean `pool/a`?");
    assert_eq!(of("node/n2")["kind"], "node");
}

#[test]
fn what_kubectl_prints_is_a_document_for_the_program_and_for_editors() {
    let server = Server::usual();
    install_definitions(&server);
    let documents = [
        pool("a", POOL),
        pin("n1", "10.20.3.0/24"),
        address_pool("edge", "{blocks: [{cidr: 20.0.10.0/24}]}"),
    ];
    server.folder.write("all.yaml", documents.join("---\n"));
    let kubectl = |arguments: &[&str]| -> String {
        let mut command = server.plane.kubectl(&server.programs).unwrap();
        let output = command
            .current_dir(server.folder.path())
            .args(arguments)
            .output()
            .unwrap();
        assert!(output.status.success(), "{arguments:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    kubectl(&["apply", "-f", "all.yaml"]);
    let condition = json!({"type": "Ready", "status": "True", "reason": "Applied", "message": "", "observedGeneration": 1, "lastTransitionTime": "2026-01-01T00:00:00Z"});
    let status = json!({"status": {"observedGeneration": 1, "nodes": 0, "blocks": [], "conditions": [condition]}});
    server
        .plane
        .patch(&format!("{GROUP}/ippools/a/status"), &status)
        .unwrap();
    let schema = |arguments: &[&str]| {
        let schema = server
            .folder
            .run(&[&["schema"], arguments].concat())
            .expect(0)
            .json();
        jsonschema::validator_for(&schema).unwrap()
    };
    let kinds =
        "ippools.cilium-ipam.io,nodeassignments.cilium-ipam.io,ciliumloadbalancerippools.cilium.io";
    for (arguments, of_kind) in [
        (vec!["ippools.cilium-ipam.io", "a"], Some("IPPool")),
        (
            vec!["ciliumloadbalancerippools.cilium.io", "edge"],
            Some("CiliumLoadBalancerIPPool"),
        ),
        (vec![kinds], None),
    ] {
        let get = [
            &["get", "-o", "yaml", "--show-managed-fields"],
            &arguments[..],
        ]
        .concat();
        let printed = kubectl(&get);
        for part in ["uid:", "resourceVersion:", "managedFields:", "last-applied"] {
            assert!(printed.contains(part), "{part}: {printed}");
        }
        server.folder.write("printed/all.yaml", &printed);
        server.folder.expect("validate printed", 0);
        let mut document: Value = serde_yaml::from_str(&printed).unwrap();
        let validators = [Some(schema(&[])), of_kind.map(|kind| schema(&[kind]))];
        for validator in validators.iter().flatten() {
            let errors: Vec<String> = validator
                .iter_errors(&document)
                .map(|error| error.to_string())
                .collect();
            assert!(errors.is_empty(), "{errors:#?}\n{printed}");
        }
        // A slip beside the server's fields is still found.
        match of_kind {
            Some(_) => document["metadata"]["labls"] = json!({}),
            None => document["items"][0]["metadata"]["labls"] = json!({}),
        }
        for validator in validators.iter().flatten() {
            assert!(!validator.is_valid(&document));
        }
    }
}

#[test]
fn the_version_names_the_formats() {
    let folder = Folder::new(&[]);
    let version = folder.json("version -o json");
    assert_eq!(version["version"], env!("CARGO_PKG_VERSION"));
    for field in ["plan_format", "claims_format", "api_version"] {
        assert!(version[field].is_string(), "{version}");
    }
}

#[test]
fn there_is_a_man_page_for_each_command() {
    let folder = Folder::new(&[]);
    folder.expect("manual man", 0);
    let page = folder.read("man/cilium-ipam-show-nodes.1");
    page.assert_has("CILIUM_IPAM_SHOW_NODES_OUTPUT");
    assert!(folder.read("man/cilium-ipam.1").contains("cilium\\-ipam"));
    assert!(!Path::new(&folder.join("man/cilium-ipam-manual.1")).exists());
}
