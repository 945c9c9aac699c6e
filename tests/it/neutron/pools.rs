//! Pools that are subnets of a real Neutron: planned and applied by people, to a cluster in a file.

use serde_json::{Value, json};
use testbed::openstack::{DOMAIN, MEMBER_PASSWORD, MEMBER_PROJECT, MEMBER_USER, Options};
use testbed::{OpenStack, or_skip};

use super::support::stack;
use crate::support::{Folder, KUBERNETES, Ran, TextAssertions, args, cluster, node, pool};

/// Files, a cluster and credentials of one person.
struct Person {
    folder: Folder,
}

fn clouds(stack: &OpenStack, password: &str) -> String {
    let auth = json!({
        "auth_url": stack.keystone_url(), "username": MEMBER_USER, "password": password,
        "project_name": MEMBER_PROJECT, "user_domain_id": DOMAIN, "project_domain_id": DOMAIN,
    });
    json!({"clouds": {"lab": {"auth": auth}}}).to_string()
}

fn subnet_pool(name: &str, network: &str, subnet: &str) -> String {
    pool(
        name,
        &format!("{{neutron: {{network: {network}, subnet: {subnet}}}}}"),
    )
}

impl Person {
    fn new(stack: &OpenStack, pools: &[String]) -> Person {
        let cluster = cluster(
            "1.19.3",
            KUBERNETES,
            &[node("n1", "a", ""), node("n2", "a", "")],
        );
        let files = [
            ("cluster.json", cluster.as_str()),
            ("pools/a.yaml", &pools.join("---\n")),
        ];
        let person = Person {
            folder: Folder::new(&files),
        };
        person
            .folder
            .write("clouds.yaml", clouds(stack, MEMBER_PASSWORD));
        person
    }

    fn run(&self, verb: &[&str]) -> Ran {
        let ran = self
            .folder
            .run(&[verb, &["--cluster", "cluster.json"]].concat());
        assert!(!ran.all().contains(MEMBER_PASSWORD), "{}", ran.all());
        ran
    }

    fn plan(&self) -> Value {
        self.run(&["plan", "-o", "json", "--fail-on", "never"])
            .expect(0)
            .json()
    }

    fn given(&self) -> Vec<String> {
        let plan = self.plan();
        let changes = plan["changes"].as_array().unwrap();
        changes
            .iter()
            .map(|change| change["after"][0].as_str().unwrap().to_owned())
            .collect()
    }

    /// Whether a command leaves the cluster as it is.
    #[track_caller]
    fn writes_nothing(&self, verb: &[&str], code: i32) -> Ran {
        let before = self.folder.read("cluster.json");
        let ran = self.run(verb).expect(code);
        assert_eq!(self.folder.read("cluster.json"), before, "{}", ran.all());
        ran
    }
}

#[test]
fn pools_that_are_subnets_of_neutron() {
    let stack = or_skip!(stack(&Options::default()));
    let network = stack.create_network("pods").unwrap();
    let subnet = stack
        .create_subnet(&network, "10.1.0.0/24", &json!({}))
        .unwrap();
    a_pool_over_the_subnet_stops_only_what_overlaps(&stack, &network, &subnet);
    blocks_beside_it_are_given(&stack, &network, &subnet);
    requests_are_printed_without_secrets(&stack, &network, &subnet);
    an_ipv6_subnet(&stack);
    of_another_network(&stack, &subnet);
    neutron_that_is_gone_meanwhile(&stack, &network, &subnet);
    credentials_that_are_no_good(&stack, &network, &subnet);
    a_subnet_that_is_deleted_meanwhile(&stack, &network, &subnet);
}

fn a_pool_over_the_subnet_stops_only_what_overlaps(stack: &OpenStack, network: &str, subnet: &str) {
    let wide = pool("rack", "{cidrs: [10.1.0.0/16], blockSize: 24}");
    let person = Person::new(stack, &[wide, subnet_pool("vm", network, subnet)]);
    person.folder.run(&["validate"]).expect(0);
    let told = person.run(&["plan"]).expect(2).all();
    told.assert_has("pool `rack` overlaps pool `vm`");
    told.assert_has("a.yaml:4");
    assert_eq!(
        person.given(),
        ["10.1.1.0/24", "10.1.2.0/24"],
        "they avoid the subnet"
    );
    person.run(&["plan", "--out", "plan.json"]).expect(2);
    let applied = person
        .run(&["apply", "plan.json", "--trust-plan-file"])
        .expect(0)
        .all();
    applied.assert_has("10.1.1.0/24");
    assert!(!person.folder.read("cluster.json").contains("10.1.0.0/24"));
    let explained = person.run(&["explain", "10.1.0.7"]).expect(0).stdout;
    explained.assert_has("IPPool/vm");
    explained.assert_has("given to ports by Neutron");
    let examined = person.run(&["doctor", "pools"]).expect(2).all();
    examined.assert_has("neutron-overlap");
}

fn blocks_beside_it_are_given(stack: &OpenStack, network: &str, subnet: &str) {
    let rack = pool("rack", "{cidrs: [10.20.0.0/16], blockSize: 24}");
    let person = Person::new(stack, &[rack, subnet_pool("vm", network, subnet)]);
    let shown = person.run(&["show", "pools"]).expect(0).stdout;
    shown.assert_has("10.1.0.0/24");
    shown.assert_has(subnet);
    let before = stack.keystone().faults().count("POST", "/v3/auth/tokens");
    person.run(&["apply", "--auto-approve"]).expect(0);
    assert_eq!(
        stack.keystone().faults().count("POST", "/v3/auth/tokens"),
        before + 1,
        "one login for one run"
    );
    let text = person.folder.read("cluster.json");
    text.assert_has("10.20.0.0/24");
    text.assert_has("10.20.1.0/24");
    let mut left: Vec<String> = std::fs::read_dir(person.folder.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    left.sort();
    assert_eq!(
        left,
        ["clouds.yaml", "cluster.json", "pools"],
        "no token is kept"
    );
}

fn requests_are_printed_without_secrets(stack: &OpenStack, network: &str, subnet: &str) {
    let rack = pool("rack", "{cidrs: [10.20.0.0/16], blockSize: 24}");
    let person = Person::new(stack, &[rack, subnet_pool("vm", network, subnet)]);
    let told = person.run(&["plan", "-v"]).expect(0).stderr;
    let login = format!("POST {}/auth/tokens 201 ", stack.keystone_url());
    let read = format!("/v2.0/subnets/{subnet} 200 ");
    for (start, part) in [(login.as_str(), ""), ("GET http", read.as_str())] {
        let is_request = |line: &&str| {
            let (_, time) = line.split_at(line.find(part).unwrap_or(0));
            line.starts_with(start) && line.contains(part) && time.ends_with(" ms")
        };
        let requests: Vec<&str> = told.lines().filter(is_request).collect();
        assert_eq!(requests.len(), 1, "{start} {part}: {told}");
    }
    // A token of Keystone begins like this.
    assert!(!told.contains("gAAAA") && !told.contains('?'), "{told}");
    let quiet = person.run(&["plan"]).expect(0).stderr;
    quiet.assert_lacks("auth/tokens");
    person.folder.write("clouds.yaml", clouds(stack, "wrong"));
    let told = person.run(&["plan", "-v", "--fail-on", "never"]).stderr;
    let login = format!("POST {}/auth/tokens 401 ", stack.keystone_url());
    told.assert_has(&login);
}

fn an_ipv6_subnet(stack: &OpenStack) {
    let network = stack.create_network("six").unwrap();
    let subnet = stack
        .create_subnet(&network, "fd00:1::/64", &json!({}))
        .unwrap();
    let wide = pool(
        "rack",
        "{cidrs: [10.20.0.0/16, \"fd00:1::/48\"], blockSize: {ipv4: 24, ipv6: 64}}",
    );
    let person = Person::new(stack, &[wide, subnet_pool("six", &network, &subnet)]);
    let told = person.run(&["apply", "--auto-approve"]).expect(0).stderr;
    told.assert_has("fd00:1::/48 and fd00:1::/64");
}

fn of_another_network(stack: &OpenStack, subnet: &str) {
    let other = stack.create_network("other").unwrap();
    let rack = pool("rack", "{cidrs: [10.20.0.0/16], blockSize: 24}");
    let person = Person::new(stack, &[rack, subnet_pool("vm", &other, subnet)]);
    let plan = person.plan();
    assert_eq!(plan["changes"], json!([]));
    assert!(
        plan["blocked"][0]["reason"]
            .as_str()
            .unwrap()
            .contains("is of network"),
        "{plan}"
    );
    person.writes_nothing(&["apply", "--auto-approve"], 0);
}

fn neutron_that_is_gone_meanwhile(stack: &OpenStack, network: &str, subnet: &str) {
    let rack = pool("rack", "{cidrs: [10.20.0.0/16], blockSize: 24}");
    let person = Person::new(stack, &[rack, subnet_pool("vm", network, subnet)]);
    person.run(&["plan", "--out", "plan.json"]).expect(0);
    stack.neutron().stop();
    let stale = person.writes_nothing(&["apply", "plan.json", "--trust-plan-file"], 4);
    stale.stderr.assert_has("now blocked");
    stale.stderr.assert_has("cannot be read");
    let fresh = person.writes_nothing(&["apply", "--auto-approve"], 0).all();
    fresh.assert_has("Neutron does not answer");
    stack.neutron().start().unwrap();
    person
        .run(&["apply", "plan.json", "--trust-plan-file"])
        .expect(0);
}

fn credentials_that_are_no_good(stack: &OpenStack, network: &str, subnet: &str) {
    let rack = pool("rack", "{cidrs: [10.20.0.0/16], blockSize: 24}");
    let person = Person::new(stack, &[rack, subnet_pool("vm", network, subnet)]);
    person.folder.write("clouds.yaml", clouds(stack, "hunter2"));
    for verb in [
        &["plan"][..],
        &["apply", "--auto-approve"],
        &["show", "pools"],
    ] {
        let ran = person.writes_nothing(verb, 8);
        ran.stderr
            .assert_has("Keystone does not accept the credentials");
        assert!(!ran.all().contains("hunter2"), "{}", ran.all());
    }
    let unknown = person
        .run(&["plan", "--os-cloud", "production"])
        .expect(8)
        .stderr;
    unknown.assert_has("no cloud `production`");
    person
        .folder
        .write("other/clouds.yaml", clouds(stack, MEMBER_PASSWORD));
    person
        .run(&args("plan --clouds-file other/clouds.yaml --os-cloud lab"))
        .expect(0);
}

fn a_subnet_that_is_deleted_meanwhile(stack: &OpenStack, network: &str, subnet: &str) {
    let rack = pool("rack", "{cidrs: [10.20.0.0/16], blockSize: 24}");
    let person = Person::new(stack, &[rack, subnet_pool("vm", network, subnet)]);
    person.run(&["plan", "--out", "plan.json"]).expect(0);
    stack
        .as_member()
        .delete(&format!("/v2.0/subnets/{subnet}"))
        .unwrap();
    let stale = person.writes_nothing(&["apply", "plan.json", "--trust-plan-file"], 4);
    stale.stderr.assert_has("has no subnet");
    let plan = person.plan();
    assert_eq!(
        (
            plan["changes"].clone(),
            plan["blocked"].as_array().unwrap().len()
        ),
        (json!([]), 2),
        "{plan}"
    );
}
