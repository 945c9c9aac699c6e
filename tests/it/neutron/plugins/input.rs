//! Input that the plugin refuses, without an OpenStack.

use serde_json::{Value, json};

use crate::neutron::support::{fault, finish, start, variables};
use crate::support::{Folder, TextAssertions, node_program};
use neutron_cni::Settings;
use neutron_cni::cni::Arguments;
use neutron_cni::nic::NicSettings;
use neutron_cni::unnumbered::PtpSettings;
use openstack::Cloud;

fn refused(input: &str, variables: &[(&str, &str)]) -> (u64, String) {
    fault(&finish(start(input, variables)))
}

/// Its files are in the folder.
fn configuration(folder: &Folder, version: &str) -> String {
    let state = folder.join("state");
    let openstack = json!({"username": "u", "password": "hunter2", "project": "p", "domain": "d", "authUrl": "http://127.0.0.1:1/v3"});
    let ipam = json!({"openstackConf": openstack, "networks": ["782ec9ac-44f9-4318-8c67-a2fed2ccca4f"], "node": "n", "stateDirectory": state, "deadlineSeconds": 10});
    json!({"cniVersion": version, "name": "net", "ipam": ipam}).to_string()
}

#[test]
fn what_cannot_be_understood_is_refused_with_the_numbers_of_the_specification() {
    let folder = Folder::new(&[]);
    let good = configuration(&folder, "1.1.0");
    let add = variables("ADD", "c");
    for (input, code) in [
        ("", 6),
        ("{", 6),
        ("[]", 7),
        ("null", 7),
        (r#"{"ipam": "hunter2"}"#, 7),
        (configuration(&folder, "0.1.0").as_str(), 1),
        (configuration(&folder, "2.0.0").as_str(), 1),
        (good.replace("782ec9ac", "../../..").as_str(), 7),
        (good.replace("\"node\"", "\"nodes\"").as_str(), 7),
        (&"[".repeat(100_000), 6),
    ] {
        let (answered, message) = refused(input, &add);
        assert_eq!(
            answered,
            code,
            "{} {message}",
            &input[..input.len().min(200)]
        );
        message.assert_lacks("hunter2");
    }
    for (index, lacking) in ["CNI_COMMAND", "CNI_CONTAINERID", "CNI_NETNS", "CNI_IFNAME"]
        .into_iter()
        .enumerate()
    {
        let without: Vec<(&str, &str)> = add
            .iter()
            .copied()
            .filter(|(key, _)| *key != lacking)
            .collect();
        let (code, message) = refused(&good, &without);
        assert!(
            code == 4 && message.contains(lacking),
            "{index} {code} {message}"
        );
    }
}

#[test]
fn a_person_is_told_what_they_are() {
    for (name, path) in [
        ("cni-ipam-neutron", node_program("cni-ipam-neutron")),
        ("cni-unnumbered-ptp", node_program("cni-unnumbered-ptp")),
        ("cni-vm-nic", node_program("cni-vm-nic")),
    ] {
        let output = std::process::Command::new(path)
            .arg("--version")
            .env_clear()
            .output()
            .unwrap();
        let told = String::from_utf8(output.stdout).unwrap();
        let expected = format!(
            "{name} {}: a CNI plugin (CNI 0.3.1, 0.4.0, 1.0.0, 1.1.0)",
            env!("CARGO_PKG_VERSION")
        );
        assert!(
            output.status.success() && told.starts_with(&expected),
            "{told}"
        );
    }
}

#[test]
fn hostile_words_of_the_environment_are_refused() {
    let folder = Folder::new(&[]);
    let good = configuration(&folder, "1.1.0");
    for container in ["", "../../etc", "a b", "-rf", "a\nb", &"c".repeat(300)] {
        assert_eq!(
            refused(&good, &variables("ADD", container)).0,
            4,
            "{container:?}"
        );
    }
    for interface in ["eth0/..", "..", "0123456789abcdef", "a b"] {
        let mut variables = variables("ADD", "c");
        variables[3].1 = interface;
        assert_eq!(refused(&good, &variables).0, 4, "{interface:?}");
    }
    for arguments in [
        "IP",
        "IP=10.0.0.300",
        "X=1",
        "IP=10.0.0.1/24;IP",
        &format!("X={}", "y".repeat(20_000)),
        "IP=\u{1b}[2J",
    ] {
        let mut variables = variables("ADD", "c").to_vec();
        variables.push(("CNI_ARGS", arguments));
        let (code, message) = refused(&good, &variables);
        assert_eq!(code, 4, "{arguments:?}");
        assert!(
            !message.contains('\u{1b}') && message.len() < 300,
            "{message}"
        );
    }
    let (code, message) = refused(&good, &variables("ADD", "c"));
    assert_eq!(
        code, 11,
        "with nothing hostile it would ask Keystone: {message}"
    );
}

/// The pages about OpenStack, one after the other.
pub(super) fn pages() -> String {
    let folder = crate::support::repository().join("docs/src/how-to/openstack");
    let entries = std::fs::read_dir(folder).unwrap();
    let mut pages: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    pages.sort();
    let texts = pages
        .iter()
        .map(|page| std::fs::read_to_string(page).unwrap());
    texts.collect()
}

/// The blocks of a language in the pages about OpenStack.
pub(super) fn snippets(language: &str) -> Vec<String> {
    let text = pages();
    let fence = format!("```{language}\n");
    let blocks = text.split(fence.as_str()).skip(1);
    blocks
        .map(|rest| rest.split("```").next().unwrap().to_owned())
        .collect()
}

fn is_usable(list: &Value) {
    // As a runtime hands a plugin of a list its part.
    for plugin in list["plugins"].as_array().unwrap() {
        let mut configuration = plugin.clone();
        ["cniVersion", "name"]
            .into_iter()
            .for_each(|key| configuration[key] = list[key].clone());
        let input = configuration.to_string();
        if plugin["type"] == "cni-unnumbered-ptp" {
            PtpSettings::read(input.as_bytes())
                .unwrap()
                .wanted()
                .unwrap();
        } else if plugin["type"] == "cni-vm-nic" {
            let settings = Settings::read_from(input.as_bytes(), "neutron").unwrap();
            NicSettings::read(settings.written()).unwrap();
        } else {
            Settings::read(input.as_bytes())
                .unwrap()
                .request(&Arguments::default())
                .unwrap();
        }
    }
}

#[test]
fn the_documents_snippets_are_valid() {
    let lists: Vec<Value> = snippets("json")
        .iter()
        .map(|list| serde_json::from_str(list).unwrap())
        .collect();
    assert!(!lists.is_empty());
    lists.iter().for_each(is_usable);
    let (clouds, others): (Vec<_>, Vec<_>) = snippets("yaml")
        .into_iter()
        .partition(|text| text.starts_with("clouds:"));
    let (attachments, documents): (Vec<_>, Vec<_>) = others
        .into_iter()
        .partition(|text| text.contains("kind: NetworkAttachmentDefinition"));
    assert!(!clouds.is_empty() && !attachments.is_empty() && !documents.is_empty());
    for text in clouds {
        Cloud::read(&text, Some("kubernetes")).unwrap();
    }
    for text in attachments {
        let object: Value = serde_yaml::from_str(&text).unwrap();
        let list: Value = serde_json::from_str(object["spec"]["config"].as_str().unwrap()).unwrap();
        assert!(
            lists.contains(&list),
            "a list that is in the document, and so is tried elsewhere: {list}"
        );
    }
    for text in documents {
        Folder::new(&[("pools/a.yaml", &text)])
            .run(&["validate"])
            .expect(0);
    }
}
