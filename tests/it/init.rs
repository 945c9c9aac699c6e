//! `init`: the files that it writes are valid, and every node keeps its block under them.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::path::Path;
use std::process::Stdio;

use rustix::pty::{OpenptFlags, ioctl_tiocgptpeer, openpt, unlockpt};
use serde_json::{Value, json};

use super::server::Server;
use super::support::{
    Folder, KUBERNETES, TextAssertions, args, cluster, holds, node, program, repository,
};

pub const INIT: [&str; 3] = ["init", "--cluster-file", "cluster.json"];

/// A folder with a cluster of these nodes.
pub fn with_nodes(settings: &str, nodes: &[String]) -> Folder {
    Folder::new(&[("cluster.json", &cluster("1.19.3", settings, nodes))])
}

/// Plans, and fails unless the first line starts like this and no node is misplaced or blocked.
#[track_caller]
fn plans(folder: &Folder, headline: &str) -> String {
    folder.expect("validate --strict", 0);
    let plan = folder.run(&[
        "plan",
        "--cluster-file",
        "cluster.json",
        "--fail-on",
        "blocked,misplaced,refused,drift,warning,error",
    ]);
    let plan = plan.expect(0).stdout;
    assert!(plan.starts_with(headline), "{plan}");
    plan
}

/// The documents of a file.
pub fn documents(text: &str) -> Vec<Value> {
    serde_yaml::from_multiple(text).unwrap()
}

/// The CIDRs of each pool, by its name.
fn pools(folder: &Folder) -> BTreeMap<String, Vec<String>> {
    let documents = documents(&folder.read("pools/pools.yaml"));
    let texts = |value: &Value| -> Vec<String> {
        let texts = value.as_array().unwrap().iter();
        texts
            .map(|text| text.as_str().unwrap().to_owned())
            .collect()
    };
    documents
        .iter()
        .map(|pool| {
            let name = pool["metadata"]["name"].as_str().unwrap().to_owned();
            (name, texts(&pool["spec"]["cidrs"]))
        })
        .collect()
}

#[test]
fn nodes_that_hold_blocks_keep_them_without_a_question() {
    let nodes = [
        node("n1", "a", &holds("10.20.0.0/24")),
        node("n2", "a", &holds("10.20.1.0/24")),
        node("n3", "b", &holds("10.21.0.0/24")),
    ];
    let folder = with_nodes(KUBERNETES, &nodes);
    let ran = folder.run(&INIT).expect(0);
    assert!(!ran.stderr.contains("]: "), "a question: {}", ran.all());
    ran.stdout
        .assert_has("No changes. 3 nodes match the files, 0 moved.");
    plans(&folder, "No changes. 3 nodes match the files, 0 moved.");
    let pools = pools(&folder);
    assert_eq!(pools["rack-a"], ["10.20.0.0/20"]);
    assert_eq!(pools["rack-b"], ["10.21.0.0/20"]);
    assert!(
        !folder.join(".github").exists(),
        "nothing asks for a CI file"
    );
}

#[test]
fn blocks_of_racks_that_alternate_stay_and_new_nodes_get_some() {
    let rack = |number: usize| ["a", "b", "c"][number % 3];
    let nodes: Vec<String> = (0..30)
        .map(|number| {
            let block = holds(&format!("10.20.{number}.0/24"));
            let spec = if number < 24 { block.as_str() } else { "" };
            node(&format!("n{number:02}"), rack(number), spec)
        })
        .collect();
    let folder = with_nodes(KUBERNETES, &nodes);
    let flags = ["--split-by", "rack", "--cidr", "10.20.0.0/16"];
    folder.run(&[&INIT[..], &flags].concat()).expect(0);
    plans(&folder, "Plan: 6 to assign, 0 moved; 24 unchanged.");
    folder.expect("apply --cluster-file cluster.json --auto-approve", 0);
    plans(&folder, "No changes. 30 nodes match the files, 0 moved.");
    let by_default = with_nodes(KUBERNETES, &nodes);
    by_default.run(&INIT).expect(0);
    let pools = pools(&by_default);
    assert_eq!(
        pools.keys().collect::<Vec<_>>(),
        ["default"],
        "racks alternate"
    );
}

#[test]
fn dual_stack_nodes_keep_both_blocks() {
    let both = |number: u8| {
        let (v4, v6) = (
            format!("10.20.{number}.0/24"),
            format!("fd00:20:0:{number}::/64"),
        );
        format!(r#""podCIDR":"{v4}","podCIDRs":["{v4}","{v6}"]"#)
    };
    let nodes = [
        node("n1", "a", &both(0)),
        node("n2", "b", &both(1)),
        node("n3", "b", ""),
    ];
    let settings = r#""ipam":"kubernetes","enable-ipv4":"true","enable-ipv6":"true""#;
    for split in ["none", "rack"] {
        let folder = with_nodes(settings, &nodes);
        folder
            .run(&[&INIT[..], &["--split-by", split]].concat())
            .expect(0);
        let plan = plans(&folder, "Plan: 1 to assign, 0 moved; 2 unchanged.");
        plan.assert_has("fd00:20:0:");
    }
}

#[test]
fn blocks_of_other_sizes_and_outside_the_cidrs_stay_and_are_remarked() {
    let nodes = [
        node("n1", "a", &holds("10.20.0.0/24")),
        node("n2", "a", &holds("10.20.1.0/24")),
        node("n3", "a", &holds("10.20.2.0/26")),
        node("n4", "a", &holds("10.99.7.0/24")),
        node("n5", "a", ""),
    ];
    let folder = with_nodes(KUBERNETES, &nodes);
    let ran = folder
        .run(&[&INIT[..], &["--cidr", "10.20.0.0/16"]].concat())
        .expect(0);
    for remark in [
        "1 block of nodes outside the given CIDRs, such as 10.99.7.0/24",
        "pool `default-26` keeps these blocks",
    ] {
        ran.stderr.assert_has(remark);
    }
    let plan = plans(&folder, "Plan: 1 to assign, 0 moved; 4 unchanged.");
    plan.assert_has("pool default");
    assert_eq!(pools(&folder)["default-26"], ["10.20.2.0/26"]);
}

#[test]
fn values_of_labels_cannot_write_yaml() {
    let labels = [
        "true",
        "007",
        "1e3",
        "null",
        "No",
        "x: y\\nkind: IPAMPolicy",
        "a\\n---\\n",
        "# b",
        "\\u001b[31m",
    ];
    let nodes: Vec<String> = labels
        .iter()
        .enumerate()
        .map(|(number, label)| node(&format!("n{number}"), label, ""))
        .collect();
    let folder = with_nodes(KUBERNETES, &nodes);
    let ran = folder
        .run(&[&INIT[..], &["--split-by", "rack"]].concat())
        .expect(0);
    ran.stderr
        .assert_has("4 nodes with a label value that no selector can have");
    plans(&folder, "Plan: 9 to assign, 0 moved.");
    let text = folder.read("pools/pools.yaml");
    let documents = documents(&text);
    assert!(
        documents
            .iter()
            .all(|document| document["kind"] == "IPPool"),
        "{text}"
    );
    let mut selected: Vec<&str> = documents
        .iter()
        .filter_map(|document| document["spec"]["nodeSelector"]["matchLabels"]["rack"].as_str())
        .collect();
    selected.sort();
    assert_eq!(selected, ["007", "1e3", "No", "null", "true"], "{text}");
    assert!(!text.contains('\u{1b}'), "{text}");
}

#[test]
fn no_file_is_replaced_and_nothing_is_written_beside_one() {
    for (name, flags) in [
        ("pools/pools.yaml", &[][..]),
        ("pools/other/mine.yml", &[]),
        ("pools/policy.yaml", &[]),
        ("pools/.cilium-ipam/schema.json", &[]),
        (".github/workflows/cilium-ipam.yaml", &["--ci", "github"]),
    ] {
        let folder = Folder::new(&[(name, "# mine\n")]);
        let ran = folder
            .run(&[&["init", "--offline"], flags].concat())
            .expect(1);
        ran.stderr
            .assert_has(&format!("{name} exists; nothing was written"));
        assert_eq!(folder.read(name), "# mine\n");
        assert_eq!(files(folder.path()), [name], "{name}");
    }
}

/// All files below a folder, sorted.
fn files(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        match path.is_dir() {
            true => found.extend(files(&path).iter().map(|file| format!("{name}/{file}"))),
            false => found.push(name),
        }
    }
    found.sort();
    found
}

#[test]
fn a_folder_that_cannot_be_written_leaves_nothing() {
    let folder = Folder::new(&[(".github", "a file, not a folder")]);
    let ran = folder.expect("init --offline --ci github", 1);
    ran.stderr.assert_has("nothing was written");
    assert_eq!(files(folder.path()), [".github"]);
    assert!(!folder.join("pools").exists());
}

#[test]
fn without_a_cluster_no_values_of_a_label_are_invented() {
    let folder = Folder::new(&[]);
    let ran = folder.expect("init --offline --split-by rack", 1);
    ran.stderr.assert_has("`rack=a,b`");
    assert!(!folder.join("pools").exists());
    let ran = folder.expect("init --offline", 0);
    ran.stdout.assert_has("IPv4 only");
}

#[test]
fn without_a_cluster_the_answers_make_an_example() {
    let folder = Folder::new(&[]);
    let ran = folder.expect("init --offline --cidr 10.50.0.0/16,fd00:50::/48 --split-by example.com/rack=r1,r2 --block-size 25,64", 0);
    ran.stdout.assert_has("No cluster was read");
    folder.expect("validate --strict", 0);
    let pools = pools(&folder);
    assert_eq!(pools["rack-r1"], ["10.50.0.0/17", "fd00:50::/49"]);
    assert_eq!(pools["rack-r2"], ["10.50.128.0/17", "fd00:50:0:8000::/49"]);
    // A kubeconfig is required otherwise.
    let ran = Folder::new(&[])
        .run(&["init", "--retry-timeout", "0s"])
        .expect(1);
    ran.stderr.assert_has("pass --offline");
}

#[test]
fn wrong_answers_name_the_way_out() {
    let folder = with_nodes(KUBERNETES, &[node("n1", "a", ""), node("n2", "b", "")]);
    for (flags, part) in [
        (
            ["--split-by", "rac"],
            "no node has the label `rac`: use `none`, or one that divides the nodes, such as rack",
        ),
        (["--cidr", "10.0.0.1/16"], "did you mean `10.0.0.0/16`?"),
        (
            ["--cidr", "10.0.0.0/16,10.0.0.0/24"],
            "overlaps 10.0.0.0/16",
        ),
        (
            ["--cidr", "10.0.0.0/25"],
            "a /24 block is larger than 10.0.0.0/25",
        ),
        (["--cidr", "127.0.0.0/16"], "unusable-address-space"),
        (["--block-size", "24,120"], "no IPv6 CIDR"),
        (["--block-size", "x"], "not a prefix length"),
    ] {
        let ran = folder.run(&[&INIT[..], &flags].concat());
        assert!(
            ran.code != 0 && ran.stderr.contains(part),
            "{flags:?}: {}",
            ran.all()
        );
        assert!(!folder.join("pools").exists(), "{flags:?}");
    }
}

#[test]
fn a_mode_of_another_allocator_is_refused() {
    for mode in ["eni", "crd", "delegated-plugin", "something-new"] {
        let folder = with_nodes(&format!(r#""ipam":"{mode}""#), &[node("n1", "a", "")]);
        let ran = folder.run(&INIT).expect(1);
        ran.stderr.assert_has(mode);
        ran.stderr
            .assert_has("LoadBalancer pools work in every mode");
        assert!(!folder.join("pools").exists());
    }
}

#[test]
fn every_example_cluster_gets_files_that_its_plan_can_carry_out() {
    for entry in std::fs::read_dir(repository().join("examples")).unwrap() {
        let example = entry.unwrap().path();
        let file = example.join("cluster.yaml");
        let folder = Folder::new(&[]);
        folder.write("cluster.yaml", std::fs::read(file).unwrap());
        folder.expect("init --cluster-file cluster.yaml", 0);
        folder.expect("validate --strict", 0);
        let plan = folder.run(&args(
            "plan --cluster-file cluster.yaml --fail-on blocked,misplaced,refused",
        ));
        assert_eq!(plan.code, 0, "{}: {}", example.display(), plan.all());
    }
}

#[test]
fn editors_find_a_schema_that_accepts_the_files() {
    let folder = with_nodes(
        KUBERNETES,
        &[node("n1", "a", &holds("11.0.0.0/24")), node("n2", "b", "")],
    );
    folder.run(&INIT).expect(0);
    plans(&folder, "Plan: 1 to assign, 0 moved; 1 unchanged.");
    let schema: Value =
        serde_json::from_str(&folder.read("pools/.cilium-ipam/schema.json")).unwrap();
    assert_eq!(schema, folder.run(&["schema"]).json());
    let validator = jsonschema::validator_for(&schema).unwrap();
    let line = "# yaml-language-server: $schema=.cilium-ipam/schema.json\n";
    for name in ["pools/pools.yaml", "pools/policy.yaml"] {
        let text = folder.read(name);
        let documents = documents(&text);
        assert_eq!(text.matches(line).count(), documents.len(), "{text}");
        for document in documents {
            assert!(validator.is_valid(&document), "{document}");
        }
    }
    // 11.0.0.0/8 is not private, and nodes hold it.
    assert!(
        folder
            .read("pools/policy.yaml")
            .contains("ownAddressSpace:")
    );
}

/// Runs `init` on a terminal and gives these answers, one for each question.
fn on_a_terminal(folder: &Folder, arguments: &[&str], answers: &[&str]) -> (i32, String) {
    let options = OpenptFlags::RDWR | OpenptFlags::NOCTTY;
    let terminal = openpt(options).unwrap();
    unlockpt(&terminal).unwrap();
    let mut program = program(folder.path(), arguments);
    program.stdin(ioctl_tiocgptpeer(&terminal, options).unwrap());
    program.stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = program.spawn().unwrap();
    let mut terminal = std::fs::File::from(terminal);
    // The terminal keeps them until they are read.
    for answer in answers {
        terminal
            .write_all(format!("{answer}\n").as_bytes())
            .unwrap();
    }
    let mut stderr = String::new();
    let mut pipe = child.stderr.take().unwrap();
    pipe.read_to_string(&mut stderr).unwrap();
    (child.wait().unwrap().code().unwrap(), stderr)
}

#[test]
fn a_person_is_asked_four_questions_at_most() {
    let nodes = [node("n1", "a", &holds("10.20.0.0/24")), node("n2", "b", "")];
    let folder = with_nodes(KUBERNETES, &nodes);
    let questions = |text: &str| text.matches("]: ").count();
    let (code, asked) = on_a_terminal(&folder, &INIT, &["", "", "", ""]);
    assert_eq!((code, questions(&asked)), (0, 4), "{asked}");
    for part in ["[10.20.0.0/20]: ", "[rack]: ", "[24]: ", "[none]: "] {
        assert!(asked.contains(part), "{part}: {asked}");
    }
    plans(&folder, "Plan: 1 to assign, 0 moved; 1 unchanged.");

    // A wrong answer repeats the question; a flag answers one.
    let folder = with_nodes(KUBERNETES, &nodes);
    let answers = ["10.0.0.0/8", "rac", "none", "jenkins", "github"];
    let (code, asked) = on_a_terminal(
        &folder,
        &[&INIT[..], &["--block-size", "24"]].concat(),
        &answers,
    );
    assert_eq!((code, questions(&asked)), (0, 5), "{asked}");
    asked.assert_has("no node has the label `rac`");
    assert!(folder.join(".github/workflows/cilium-ipam.yaml").exists());
    // 10.96.0.0/16 are the Services.
    plans(&folder, "Plan: 1 to assign, 0 moved; 1 unchanged.");
    assert_eq!(pools(&folder).len(), 1);

    // Without a cluster, one of the four is whether to go on.
    let folder = Folder::new(&[]);
    let arguments = ["init", "--retry-timeout", "0s"];
    let (code, asked) = on_a_terminal(&folder, &arguments, &["yes", "", "", ""]);
    assert_eq!((code, questions(&asked)), (0, 4), "{asked}");
    folder.expect("validate --strict", 0);
    let folder = Folder::new(&[]);
    let (code, asked) = on_a_terminal(&folder, &arguments, &[""]);
    assert_eq!(code, 1, "{asked}");
    assert!(!folder.join("pools").exists());

    // With --no-input, a terminal does not matter.
    let folder = with_nodes(KUBERNETES, &nodes);
    let (code, asked) = on_a_terminal(&folder, &[&INIT[..], &["--no-input"]].concat(), &[]);
    assert_eq!((code, questions(&asked)), (0, 0), "{asked}");
}

#[test]
fn on_a_real_api_server() {
    let server = Server::usual();
    let zones = ["eu-1a", "eu-1b"];
    server.nodes((0..40).map(|number| {
        let mut node = super::server::node(
            &format!("worker-{number:02}"),
            json!({"topology.kubernetes.io/zone": zones[number % 2]}),
        );
        if number < 30 {
            let third = number % 2 * 64 + number / 2;
            let block = format!("10.20.{third}.0/24");
            node["spec"] = json!({"podCIDR": block, "podCIDRs": [block]});
        }
        node
    }));
    let held = server.pod_cidrs();
    server.expect("init", 0);
    let plan = server.expect("plan --fail-on blocked,misplaced,warning,error", 0);
    assert!(
        plan.stdout
            .starts_with("Plan: 10 to assign, 0 moved; 30 unchanged."),
        "{}",
        plan.stdout
    );
    server.expect("apply --auto-approve", 0);
    let now = server.pod_cidrs();
    for (name, blocks) in held.iter().filter(|(_, blocks)| !blocks.is_empty()) {
        assert_eq!(now[name], *blocks, "{name}");
    }
    let again = server.expect("plan --detailed-exitcode", 0);
    assert!(
        again
            .stdout
            .starts_with("No changes. 40 nodes match the files, 0 moved."),
        "{}",
        again.stdout
    );
    assert_eq!(pools(&server.folder).len(), 2, "one for each zone");
}

/// One node's block lies far from all others: no range is stretched over the addresses between.
#[test]
fn a_stray_block_stretches_no_range() {
    let mut nodes: Vec<String> = (0..5)
        .map(|index| {
            node(
                &format!("n{index}"),
                "a",
                &holds(&format!("10.20.{index}.0/24")),
            )
        })
        .collect();
    nodes.push(node("stray", "a", &holds("10.20.200.0/24")));
    nodes.push(node("far", "a", &holds("192.168.7.0/24")));
    let folder = with_nodes(KUBERNETES, &nodes);
    let ran = folder.run(&INIT).expect(0);
    let told = "2 blocks of nodes outside the given CIDRs, such as 10.20.200.0/24";
    assert!(ran.all().contains(told), "{}", ran.all());
    plans(&folder, "No changes. 7 nodes match the files, 0 moved.");
    let all: Vec<String> = pools(&folder).into_values().flatten().collect();
    assert_eq!(
        all,
        ["10.20.0.0/20", "10.20.200.0/24", "192.168.7.0/24"],
        "{all:?}"
    );
}

/// Two data centres have a rack of the same name.
#[test]
fn racks_of_one_name_in_two_places_are_remarked() {
    let placed = |name: &str, rack: &str, zone: &str, block: &str| {
        let labels = format!(r#""rack":"{rack}","topology.kubernetes.io/zone":"{zone}""#);
        node(name, rack, &holds(block)).replace(&format!(r#""rack":"{rack}""#), &labels)
    };
    let nodes = [
        placed("n1", "a", "north", "10.20.0.0/24"),
        placed("n2", "b", "north", "10.21.0.0/24"),
        placed("n3", "a", "south", "10.22.0.0/24"),
        placed("n4", "b", "north", "10.21.1.0/24"),
    ];
    let folder = with_nodes(KUBERNETES, &nodes);
    let ran = folder
        .run(&[&INIT[..], &["--split-by", "rack"]].concat())
        .expect(0);
    let all = ran.all();
    let told = "nodes with rack=a are in 2 places by the label `topology.kubernetes.io/zone` (north, south)";
    all.assert_has(told);
    all.assert_lacks("nodes with rack=b");
}
