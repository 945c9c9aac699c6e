//! Nodes of ipam `kubernetes` that move by a setting for one node.

use serde_json::{Value, json};
use testbed::{Options, Program, agent_settings};

use super::server::{Server, kubernetes, node as live_node};
use super::support::{Folder, KUBERNETES, TextAssertions, cluster, pin, policy, pool};

const POLICY: &str = "{writePath: node-config, limits: {disruptive: {percent: 100}}}";

fn node(name: &str, hostname: &str, cidr: &str) -> String {
    json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "uid": format!("uid-{name}"), "resourceVersion": "7",
        "labels": {"kubernetes.io/hostname": hostname}}, "spec": {"podCIDR": cidr, "podCIDRs": [cidr]}})
    .to_string()
}

fn files(pins: &[String]) -> String {
    let pools = pool("a", "{cidrs: [10.20.0.0/16], blockSize: 24}");
    [&[policy(POLICY), pools], pins].concat().join("---\n")
}

fn folder(items: &[String], pins: &[String]) -> Folder {
    Folder::new(&[
        ("pools/a.yaml", &files(pins)),
        ("cluster.json", &cluster("1.19.3", KUBERNETES, items)),
    ])
}

fn plan(folder: &Folder) -> Value {
    folder.json("plan --cluster cluster.json -o json")
}

#[test]
fn a_pin_moves_its_node_and_nothing_else_is_given_there() {
    let items = [
        node("n1", "n1", "10.20.1.0/24"),
        node("n2", "n2", "10.20.2.0/24"),
    ];
    let folder = folder(&items, &[pin("n1", "10.20.0.0/24")]);
    let planned = plan(&folder);
    let change = &planned["changes"][0];
    assert_eq!(
        change["edit"],
        json!({"CiliumNodeConfig.spec.defaults": {"ipv4-range": "10.20.0.0/24"}})
    );
    assert_eq!(
        (&change["write_path"], &change["hazard"]),
        (&json!("node-config"), &json!("disruptive"))
    );
    assert_eq!(
        (
            &planned["summary"]["moved"],
            &planned["summary"]["irreversible"]
        ),
        (&json!(1), &json!(0))
    );
    folder.expect("apply --cluster cluster.json --auto-approve", 0);
    let objects: Value = serde_json::from_str(&folder.read("cluster.json")).unwrap();
    let configs = objects["items"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|item| item["kind"] == "CiliumNodeConfig");
    let [config] = configs.collect::<Vec<_>>()[..] else {
        panic!("{objects:#}")
    };
    assert_eq!(config["metadata"]["name"], "cilium-ipam-n1");
    assert_eq!(config["apiVersion"], "cilium.io/v2");
    assert_eq!(config["metadata"]["ownerReferences"][0]["uid"], "uid-n1");
    assert_eq!(
        config["spec"],
        json!({"defaults": {"ipv4-range": "10.20.0.0/24"}, "nodeSelector": {"matchLabels": {"kubernetes.io/hostname": "n1"}}})
    );
    let told = folder.expect("explain n1 --cluster cluster.json", 0).stdout;
    told.assert_has("setting ipv*-range");
    told.assert_has("its agent does not use it");
    // Both the block that it leaves and the one that it goes to are taken.
    let third = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n3", "uid": "u3", "resourceVersion": "1"}});
    let mut objects = objects;
    objects["items"].as_array_mut().unwrap().push(third);
    folder.write("cluster.json", objects.to_string());
    let planned = plan(&folder);
    assert_eq!(planned["changes"].as_array().unwrap().len(), 1);
    assert_eq!(planned["changes"][0]["after"], json!(["10.20.3.0/24"]));
    // A removed pin moves nothing back, and one with the old block does.
    folder.write("pools/a.yaml", files(&[]));
    let planned = plan(&folder);
    let of_n1 = |planned: &Value| {
        let changes = planned["changes"].as_array().unwrap().clone();
        changes.into_iter().find(|change| change["name"] == "n1")
    };
    assert_eq!(of_n1(&planned), None);
    folder.write("pools/a.yaml", files(&[pin("n1", "10.20.1.0/24")]));
    let back = of_n1(&plan(&folder)).unwrap();
    assert_eq!(back["after"], json!(["10.20.1.0/24"]));
    // Another pin changes the same object.
    folder.write("pools/a.yaml", files(&[pin("n1", "10.20.9.0/24")]));
    let planned = plan(&folder);
    assert_eq!(planned["changes"][0]["before"], json!(["10.20.0.0/24"]));
    folder.expect("apply --cluster cluster.json --auto-approve", 0);
    folder.expect("plan --cluster cluster.json --detailed-exitcode", 0);
}

/// Both versions of the API, as a real server has them.
#[test]
fn a_real_server_takes_the_setting() {
    for release in ["1.15.19", "1.19.3"] {
        let server = Server::start(
            &kubernetes(release, None),
            Some(release),
            Options::default(),
            &[Program::NodeSettingsOracle],
        );
        let mut first = live_node("n1", json!({"kubernetes.io/hostname": "n1"}));
        first["spec"] = json!({"podCIDR": "10.20.1.0/24", "podCIDRs": ["10.20.1.0/24"]});
        server.nodes([first]);
        let path =
            "/apis/cilium.io/v2alpha1/namespaces/kube-system/ciliumnodeconfigs/cilium-ipam-n1";
        for wanted in ["10.20.0.0/24", "10.20.7.0/24"] {
            server
                .folder
                .write("pools/a.yaml", files(&[pin("n1", wanted)]));
            let undo = format!("undo-{}.json", wanted.replace('/', "-"));
            server
                .run(&["apply", "--auto-approve", "--undo-out", &undo])
                .expect(0);
            let config = server.plane.get(path).unwrap();
            assert_eq!(
                config["spec"]["defaults"],
                json!({"ipv4-range": wanted}),
                "{release}"
            );
            if release == "1.19.3" {
                let settings = agent_settings(&server.programs, &server.plane, &["n1"]).unwrap();
                assert_eq!(settings["n1"]["ipv4-range"], wanted);
            }
            server.expect("plan --detailed-exitcode", 0);
        }
        let undone = |file: &str| {
            server.run(&["apply", file, "--auto-approve"]).expect(0);
        };
        undone("undo-10.20.7.0-24.json");
        assert_eq!(
            server.plane.get(path).unwrap()["spec"]["defaults"],
            json!({"ipv4-range": "10.20.0.0/24"}),
            "{release}"
        );
        undone("undo-10.20.0.0-24.json");
        let all = "/apis/cilium.io/v2alpha1/ciliumnodeconfigs";
        assert_eq!(server.plane.list(all).unwrap(), [json!(null); 0]);
    }
}
