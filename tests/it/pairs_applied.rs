//! Ports that an apply writes, with a cluster in a file and a recorded Neutron: in which order, and
//! what happens if the cluster changes after the plan.

use std::num::NonZeroUsize;

use serde_json::{Value, json};
use testbed::{Options, wait_until};

use super::examples::copy;
use super::server::{Server, kubernetes, node};
use super::support::{Folder, TextAssertions, api_server, repository};
use ipam_cluster::live::LiveCluster;
use ipam_cluster::{Cluster, FileCluster, Opening};
use ipam_config::source::Location;
use ipam_controller::apply::{Outcome, Stop};
use ipam_controller::{
    BATCH, Job, Loaded, OnConflict, OpenStack, Scope, Sending, apply_until_settled, load,
    observe_and_plan,
};
use ipam_plan::plan::{Change, Selection};

/// The example `openstack`: the second VM's port allows a stale block, the third node is new.
struct Example {
    folder: Folder,
    loaded: Loaded,
    openstack: OpenStack,
}

impl Example {
    fn new() -> Example {
        let folder = copy(&repository().join("examples/openstack"));
        let loaded = load(&Location::from(folder.join("pools").as_path()));
        let openstack = OpenStack::recorded(folder.join("neutron.json"), Scope::Ports);
        Example {
            folder,
            loaded,
            openstack,
        }
    }

    /// Plans, lets the cluster change, and applies the plan.
    fn apply(
        &self,
        on_conflict: OnConflict,
        meanwhile: impl FnOnce(&Folder),
    ) -> Vec<(Change, Outcome)> {
        let open =
            async || FileCluster::open(&self.folder.join("cluster.yaml"), Opening::Read).unwrap();
        self.apply_to(open, on_conflict, meanwhile)
    }

    fn apply_to<C: Cluster>(
        &self,
        open: impl AsyncFn() -> C,
        on_conflict: OnConflict,
        meanwhile: impl FnOnce(&Folder),
    ) -> Vec<(Change, Outcome)> {
        let job = Job {
            openstack: Some(&self.openstack),
            selection: Selection::EVERYTHING,
            ..Job::files(&self.loaded)
        };
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            let (observed, plan) = observe_and_plan(&open().await, &job).await.unwrap();
            meanwhile(&self.folder);
            let (stop, mut on_event) = (Stop::default(), |_: ipam_controller::apply::Event<'_>| {});
            let mut sending = Sending {
                batch: BATCH,
                limit: NonZeroUsize::new(8).unwrap().into(),
                on_conflict,
                stop: &stop,
                on_event: &mut on_event,
            };
            let changes = plan.changes.clone();
            let cluster = open().await;
            let sent = apply_until_settled(
                &cluster,
                &self.openstack,
                &job,
                observed,
                changes,
                &mut sending,
            );
            let (applied, failure) = sent.await;
            assert!(failure.is_none(), "{failure:?}");
            applied.outcomes
        })
    }

    /// The ranges that the port of a worker allows.
    fn allowed(&self, worker: usize) -> Vec<String> {
        let recorded: Value = serde_json::from_str(&self.folder.read("neutron.json")).unwrap();
        let pairs = &recorded["ports"][worker - 1]["allowed_address_pairs"];
        let texts = pairs.as_array().unwrap().iter();
        texts
            .map(|pair| pair["ip_address"].as_str().unwrap().to_owned())
            .collect()
    }
}

/// Replaces text in the cluster's file.
fn edit(folder: &Folder, from: &str, to: &str) {
    let text = folder.read("cluster.yaml");
    text.assert_has(from);
    folder.write("cluster.yaml", text.replacen(from, to, 1));
}

fn replace_the_third_node(folder: &Folder) {
    edit(
        folder,
        "name: worker-3, labels: {",
        "name: worker-3, uid: other, labels: {",
    );
}

fn outcome_of(outcomes: &[(Change, Outcome)], target: &str) -> Outcome {
    let found = outcomes
        .iter()
        .find(|(change, _)| change.target().to_string().contains(target));
    found.unwrap_or_else(|| panic!("{outcomes:#?}")).1.clone()
}

#[test]
fn a_port_does_not_allow_a_block_that_its_node_did_not_get() {
    let example = Example::new();
    let outcomes = example.apply(OnConflict::Leave, replace_the_third_node);
    assert!(matches!(
        outcome_of(&outcomes, "worker-3"),
        Outcome::Superseded(_)
    ));
    let Outcome::Superseded(why) = outcome_of(&outcomes, "30000000-") else {
        panic!("{outcomes:#?}")
    };
    why.assert_has("worker-3");
    why.assert_has("was not applied");
    assert_eq!(outcome_of(&outcomes, "10000000-"), Outcome::Applied);
    assert_eq!(example.allowed(1), ["10.9.0.200", "10.20.0.0/24"]);
    assert!(example.allowed(3).is_empty());
}

/// The node is another one: its change is not the approved one.
#[test]
fn nor_after_a_conflict() {
    let example = Example::new();
    let outcomes = example.apply(OnConflict::Replan, replace_the_third_node);
    let node = outcome_of(&outcomes, "worker-3");
    assert_eq!(
        node == Outcome::Applied,
        !example.allowed(3).is_empty(),
        "{outcomes:#?}"
    );
}

/// The port's removals are planned again, and the refused node is not.
#[test]
fn nor_after_the_node_was_refused() {
    let example = Example::new();
    let text = example.folder.read("neutron.json");
    let stale = r#""allowed_address_pairs": [{"ip_address": "10.20.9.0/24"}]"#;
    let text = text.replace(r#""allowed_address_pairs": []"#, stale);
    example.folder.write("neutron.json", text);
    let server = Server::start(&kubernetes("1.19.3", None), None, Options::default(), &[]);
    let vm = "openstack:///33333333-9d65-4b7e-8d1e-6f0c1d5a9b11";
    let mut third = node("worker-3", json!({}));
    third["spec"]["providerID"] = vm.into();
    server.nodes([third, node("probe", json!({}))]);
    refuse_blocks(&server);
    let open = async || {
        let connection = api_server(server.plane.kubeconfig(), testbed::PATIENCE);
        LiveCluster::connect(connection).await.unwrap()
    };
    let outcomes = example.apply_to(open, OnConflict::Replan, |_| {});
    assert!(
        matches!(outcome_of(&outcomes, "worker-3"), Outcome::Refused(_)),
        "{outcomes:#?}"
    );
    let Outcome::NotSent(why) = outcome_of(&outcomes, "30000000-") else {
        panic!("{outcomes:#?}")
    };
    why.assert_has("worker-3");
    assert_eq!(example.allowed(3), ["10.20.9.0/24"]);
}

/// The server refuses each block of a Node.
fn refuse_blocks(server: &Server) {
    let group = "/apis/admissionregistration.k8s.io/v1";
    let rule = json!({"apiGroups": [""], "apiVersions": ["v1"], "operations": ["UPDATE"], "resources": ["nodes"]});
    let object = |kind: &str, spec: Value| json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": {"name": "no-blocks"}, "spec": spec});
    let spec = json!({
        "matchConstraints": {"resourceRules": [rule]},
        "validations": [{"expression": "!has(object.spec.podCIDRs)"}],
    });
    let policy = object("ValidatingAdmissionPolicy", spec);
    let spec = json!({"policyName": "no-blocks", "validationActions": ["Deny"]});
    let binding = object("ValidatingAdmissionPolicyBinding", spec);
    let plane = &server.plane;
    for (kind, object) in [("policies", policy), ("policybindings", binding)] {
        plane
            .create(&format!("{group}/validatingadmission{kind}"), &object)
            .unwrap();
    }
    let block = json!({"spec": {"podCIDR": "10.99.0.0/24", "podCIDRs": ["10.99.0.0/24"]}});
    wait_until("the policy to hold", testbed::PATIENCE, || {
        let tried = plane.patch("/api/v1/nodes/probe?dryRun=All", &block);
        Ok(tried.is_err().then_some(()))
    })
    .unwrap();
}

/// The port's revision does not tell that its node got the block meanwhile.
#[test]
fn a_port_allows_less_only_if_the_nodes_still_say_so() {
    let example = Example::new();
    let outcomes = example.apply(OnConflict::Replan, |_| {});
    assert!(
        outcomes
            .iter()
            .all(|(_, outcome)| *outcome == Outcome::Applied),
        "{outcomes:#?}"
    );
    assert_eq!(example.allowed(2), ["10.20.1.0/24", "10.9.0.200"]);

    let example = Example::new();
    let outcomes = example.apply(OnConflict::Replan, |folder| {
        edit(
            folder,
            "podCIDRs: [10.20.1.0/24]",
            "podCIDRs: [10.20.9.0/24]",
        );
        edit(folder, "podCIDR: 10.20.1.0/24", "podCIDR: 10.20.9.0/24");
    });
    assert!(
        matches!(outcome_of(&outcomes, "20000000-"), Outcome::Superseded(_)),
        "{outcomes:#?}"
    );
    assert!(example.allowed(2).contains(&"10.20.9.0/24".to_owned()));
}
