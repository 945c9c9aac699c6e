//! Credentials: their sources, their permissions, and the handling of refused ones.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use serde_json::{Value, json};
use testbed::openstack::{ApplicationCredential, Options};
use testbed::{OpenStack, or_skip};

use crate::neutron::support::{Plugin, fault, ports, stack};
use crate::support::TextAssertions;

#[test]
fn credentials_are_kept_safe_and_refusals_are_remembered() {
    let stack = or_skip!(stack(&Options::default()));
    let network = stack.create_network("pods").unwrap();
    stack
        .create_subnet(&network, "10.1.0.0/24", &json!({}))
        .unwrap();
    an_application_credential_in_a_file(&stack, &network);
    a_password_that_is_wrong(&stack, &network);
    a_token_that_is_not_taken_any_more(&stack, &network);
    nothing_is_readable_for_others(&stack, &network);
    assert_eq!(ports(&stack, &network), [""; 0]);
}

fn in_file(stack: &OpenStack, network: &str) -> Plugin {
    let plugin = Plugin::new(stack, network, "n1").with("openstackConf", Value::Null);
    let file = plugin.folder().join("clouds.yaml");
    plugin
        .with("cloudsFile", json!(file))
        .with("cloud", json!("lab"))
}

fn write_clouds(plugin: &Plugin, stack: &OpenStack, credential: &ApplicationCredential, mode: u32) {
    let auth = json!({
        "auth_url": stack.keystone_url(),
        "application_credential_id": credential.id, "application_credential_secret": credential.secret,
    });
    let clouds = json!({"clouds": {"lab": {"auth_type": "v3applicationcredential", "auth": auth, "region_name": "RegionOne"}}});
    let file = plugin.folder().join("clouds.yaml");
    std::fs::write(&file, clouds.to_string()).unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).unwrap();
}

fn an_application_credential_in_a_file(stack: &OpenStack, network: &str) {
    let rule =
        |method: &str, path: &str| json!({"service": "network", "method": method, "path": path});
    let rules = json!([
        rule("GET", "/v2.0/ports"),
        rule("POST", "/v2.0/ports"),
        rule("DELETE", "/v2.0/ports/*"),
        rule("GET", "/v2.0/subnets/*"),
    ]);
    let credential = stack
        .create_application_credential("nodes", Some(&rules))
        .unwrap();
    let plugin = in_file(stack, network);
    assert_eq!(plugin.refused("ADD", "a").0, 5, "there is no file");
    write_clouds(&plugin, stack, &credential, 0o644);
    let (code, message) = plugin.refused("ADD", "a");
    assert!(
        code == 7 && message.contains("may read or write"),
        "{message}"
    );
    write_clouds(&plugin, stack, &credential, 0o600);
    plugin.add("a");
    plugin.del("a");
    let plugin = plugin.with("mtu", json!("network"));
    let (code, message) = plugin.refused("ADD", "a");
    assert!(
        code == 100 && message.contains("token"),
        "its rules do not allow networks: {code} {message}"
    );
    assert_eq!(ports(stack, network), [""; 0]);
    let other = stack.create_application_credential("others", None).unwrap();
    write_clouds(&plugin, stack, &other, 0o600);
    plugin.add("a");
    plugin.del("a");
    stack.delete_application_credential(&other).unwrap();
    stack.delete_application_credential(&credential).unwrap();
    std::fs::remove_dir_all(plugin.state()).unwrap();
    let (code, message) = plugin.refused("ADD", "a");
    assert!(
        code == 100 && message.contains("does not accept the credentials"),
        "{code} {message}"
    );
    assert_eq!(plugin.refused("STATUS", "").0, 50);
}

fn a_password_that_is_wrong(stack: &OpenStack, network: &str) {
    let plugin = Plugin::new(stack, network, "n1");
    let right = plugin.configuration["ipam"]["openstackConf"].clone();
    let mut wrong = right.clone();
    wrong["password"] = "hunter2".into();
    let plugin = plugin.with("openstackConf", wrong);
    stack.keystone().faults().clear();
    for _ in 0..3 {
        let ran = plugin.run("ADD", "a");
        ran.stdout.assert_lacks("hunter2");
        assert_eq!(fault(&ran).0, 100);
    }
    assert_eq!(plugin.refused("STATUS", "").0, 50, "no ADD could work");
    assert_eq!(
        stack.keystone().faults().count("POST", "/v3/auth/tokens"),
        1,
        "users are locked out after a few"
    );
    let plugin = plugin.with("openstackConf", right);
    plugin.add("a");
    plugin.del("a");
    stack.keystone().stop();
    plugin.run("STATUS", "").expect(0);
    std::fs::remove_dir_all(plugin.state()).unwrap();
    plugin.run("STATUS", "").expect(0);
    stack.keystone().start().unwrap();
}

fn a_token_that_is_not_taken_any_more(stack: &OpenStack, network: &str) {
    let plugin = Plugin::new(stack, network, "n1");
    plugin.add("a");
    let logins = || stack.keystone().faults().count("POST", "/v3/auth/tokens");
    let before = logins();
    let unauthorized = testbed::Fault::Answer {
        status: 401,
        body: String::new(),
    };
    stack
        .neutron()
        .faults()
        .next(1, "DELETE", "/v2.0/ports", unauthorized);
    plugin.del("a");
    assert_eq!(logins(), before + 1);
    plugin.add("a");
    plugin.del("a");
    assert_eq!(logins(), before + 1, "the new one is kept");
}

fn nothing_is_readable_for_others(stack: &OpenStack, network: &str) {
    let plugin = Plugin::new(stack, network, "n1");
    plugin.add("a");
    plugin.del("a");
    plugin.add("a");
    let files = is_for_its_owner_alone(&plugin.state());
    assert!(files > 5, "{files}");
    plugin.del("a");
    std::fs::set_permissions(plugin.state(), std::fs::Permissions::from_mode(0o777)).unwrap();
    let (code, message) = plugin.refused("ADD", "a");
    assert!(code == 7 && message.contains("other users"), "{message}");
}

/// How many files there are in a folder and those within it, none of them for others, and none with
/// the password.
fn is_for_its_owner_alone(folder: &Path) -> usize {
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(folder), 0o700, "{}", folder.display());
    let paths = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let files = paths.map(|path| {
        if path.is_dir() {
            return is_for_its_owner_alone(&path);
        }
        assert_eq!(mode(&path), 0o600, "{}", path.display());
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(
            !text.contains(testbed::openstack::MEMBER_PASSWORD),
            "{}",
            path.display()
        );
        1
    });
    files.sum()
}
