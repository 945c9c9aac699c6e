//! LoadBalancer pools that are stale, or planned for a cluster that cannot be seen. Plans of single
//! cluster files are in `cases/load-balancers`.

use serde_json::{Value, json};

use super::support::{Folder, KUBERNETES, TextAssertions, address_pool, cluster};
use ipam_cilium::observed::{ObservedKind, Reader};
use ipam_cluster::{FileCluster, Opening};
use ipam_config::documents::{Documents, SourceFile, lower};
use ipam_config::source::Location;
use ipam_controller::apply::{Event, Outcome, Stop};
use ipam_controller::{
    BATCH, Job, NoPorts, OnConflict, Sending, apply_until_settled, load, observe_and_plan,
};
use ipam_core::model::{Hazard, Waiver};
use ipam_plan::plan::{Change, plan};

const OURS: &str = "app.kubernetes.io/managed-by";

fn ours(name: &str, cidr: &str) -> String {
    json!({"apiVersion": "cilium.io/v2", "kind": "CiliumLoadBalancerIPPool", "metadata": {"name": name, "uid": format!("uid-{name}"),
        "resourceVersion": "5", "creationTimestamp": "2026-01-01T00:00:01Z", "labels": {OURS: "cilium-ipam"}},
        "spec": {"blocks": [{"cidr": cidr}]}, "status": {"conditions": [{"type": "cilium.io/PoolConflict", "status": "False"}]}})
    .to_string()
}

fn service(name: &str, address: &str) -> String {
    json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name, "namespace": "default", "uid": format!("uid-{name}"),
        "resourceVersion": "5"}, "spec": {"type": "LoadBalancer", "ipFamilies": ["IPv4"],
        "ports": [{"port": 80}]}, "status": {"loadBalancer": {"ingress": [{"ip": address}]}}})
    .to_string()
}

fn folder(items: &[String], files: &[String]) -> Folder {
    Folder::with_cluster(items, &[("pools/a.yaml", &files.join("---\n"))])
}

fn apply(folder: &Folder, more: &[&str], code: i32) -> String {
    folder
        .run(&[&["apply", "--cluster", "cluster.json"], more].concat())
        .expect(code)
        .stderr
}

#[test]
fn an_unknown_version_reads_nobody_knows_what() {
    let folder = folder(
        &[],
        &[address_pool("blue", "{blocks: [{cidr: 10.7.0.0/24}]}")],
    );
    folder.write(
        "cluster.json",
        r#"{"apiVersion": "v1", "kind": "List", "items": []}"#,
    );
    assert!(
        folder.plan()["blocked"][0]["reason"]
            .as_str()
            .unwrap()
            .contains("version is unknown")
    );
}

#[test]
fn a_saved_plan_is_stale_when_another_service_would_lose() {
    let files = [address_pool("blue", "{blocks: [{cidr: 10.7.0.0/25}]}")];
    let one = [ours("blue", "10.7.0.0/24"), service("web", "10.7.0.200")];
    let folder = folder(&one, &files);
    folder.expect(
        "plan --cluster cluster.json --out plan.json --waive lost-addresses=2",
        0,
    );
    let two = [one.as_slice(), &[service("shop", "10.7.0.201")]].concat();
    folder.write("cluster.json", cluster("1.19.3", KUBERNETES, &two));
    let stale = apply(&folder, &["plan.json", "--trust-plan-file"], 4);
    stale.assert_has("Service/default/shop: would or may now lose 10.7.0.201");
    folder.write("cluster.json", cluster("1.19.3", KUBERNETES, &one));
    apply(&folder, &["plan.json", "--trust-plan-file"], 0);
    assert_eq!(folder.plan()["changes"], json!([]));
}

/// The changes of a plan with the outcomes of its apply, if the cluster changes in between.
fn outcomes(before: &[String], after: &[String], files: &[String]) -> Vec<(Change, Outcome)> {
    let folder = folder(before, files);
    let loaded = load(&Location::from(folder.join("pools").as_path()));
    let waivers = [Waiver::LostAddresses(1)].into();
    let job = Job::saved(&loaded, None, &waivers);
    let open = || FileCluster::open(&folder.join("cluster.json"), Opening::Write).unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let (observed, plan) = observe_and_plan(&open(), &job).await.unwrap();
        folder.write("cluster.json", cluster("1.19.3", KUBERNETES, after));
        let (stop, mut on_event) = (Stop::default(), |_: Event<'_>| {});
        let mut sending = Sending {
            batch: BATCH,
            limit: std::num::NonZeroUsize::MIN.into(),
            on_conflict: OnConflict::Replan,
            stop: &stop,
            on_event: &mut on_event,
        };
        let (target, changes) = (open(), plan.changes);
        let sent = apply_until_settled(&target, &NoPorts, &job, observed, changes, &mut sending);
        let (applied, failure) = sent.await;
        assert!(failure.is_none(), "{failure:?}");
        target.save_all().unwrap();
        applied.outcomes
    })
}

fn operator(replicas: u32) -> String {
    json!({"apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "cilium-operator", "namespace": "kube-system", "labels": {"io.cilium/app": "operator"}},
        "spec": {"replicas": replicas, "template": {"spec": {"containers": [
            {"name": "cilium-operator", "image": "quay.io/cilium/operator-generic:v1.19.3"}]}}}})
    .to_string()
}

#[test]
fn an_operator_that_starts_after_the_plan_takes_no_address_away() {
    let files = [
        address_pool("a", "{blocks: [{cidr: 10.7.0.0/24}]}"),
        address_pool("b", "{blocks: [{cidr: 10.7.1.0/24}]}"),
    ];
    let items = |replicas: u32| {
        let services = [service("one", "10.7.0.2"), service("two", "10.7.1.2")];
        [&[operator(replicas)][..], &services].concat()
    };
    for (after, sent) in [(0, 2), (1, 0)] {
        let outcomes = outcomes(&items(0), &items(after), &files);
        let applied = outcomes.iter();
        let applied = applied.filter(|(_, outcome)| *outcome == Outcome::Applied);
        assert_eq!((outcomes.len(), applied.count()), (2, sent));
    }
}

#[test]
fn a_service_does_not_move_into_a_pool_that_another_client_has_created() {
    let files = [
        address_pool("a", "{blocks: [{cidr: 10.7.0.0/24}]}"),
        address_pool("b", "{blocks: [{cidr: 10.7.1.0/24}]}"),
        "apiVersion: cilium-ipam.io/v1alpha1\nkind: ServiceAssignment\nmetadata: {name: web}\nspec: {service: default/web, ips: [10.7.1.2]}\n"
            .to_owned(),
    ];
    let before = [
        operator(0),
        ours("a", "10.7.0.0/24"),
        service("web", "10.7.0.2"),
    ];
    let after = [&before[..], &[ours("b", "10.7.1.0/25")]].concat();
    let outcomes = outcomes(&before, &after, &files);
    assert!(
        matches!(
            &outcomes[..],
            [
                (Change::AddressPool(_), Outcome::Superseded(_)),
                (Change::Service(_), Outcome::NotTried)
            ]
        ),
        "{outcomes:?}"
    );
}

#[test]
fn what_nobody_can_see_is_not_risked() {
    let file = |text: &str| SourceFile {
        path: "a.yaml".into(),
        text: text.into(),
    };
    let plan_of = |items: &[String], text: &str| {
        let mut reader = Reader::default();
        let list: Value = serde_json::from_str(&cluster("1.19.3", KUBERNETES, items)).unwrap();
        for item in list["items"].as_array().unwrap() {
            let kind = match item["kind"].as_str().unwrap() {
                "DaemonSet" => ObservedKind::CiliumDaemonSet,
                "ConfigMap" => ObservedKind::CiliumConfig,
                "CiliumLoadBalancerIPPool" => ObservedKind::LoadBalancerPool,
                _ => continue,
            };
            reader.object(kind, &item.to_string()).unwrap();
        }
        reader.hidden(ObservedKind::Service, "forbidden".to_owned());
        let (desired, findings) = lower(&Documents {
            files: vec![file(text)],
        });
        assert!(findings.is_empty(), "{findings:?}");
        plan(
            &desired,
            &reader.finish("2026-01-01T00:00:00Z".parse().unwrap()),
            Vec::new(),
        )
    };
    let narrow = address_pool("blue", "{blocks: [{cidr: 10.7.0.0/25}]}");
    // The first pool of a cluster wakes the operator, which takes away what it did not give.
    for items in [vec![ours("blue", "10.7.0.0/24")], Vec::new()] {
        let plan = plan_of(&items, &narrow);
        assert_eq!(plan.changes[0].hazard(), Hazard::Destructive);
        assert!(
            plan.refusals
                .iter()
                .any(|refusal| refusal.rule.0 == "destructive-with-unreadable-kind"),
            "{:?}",
            plan.refusals
        );
    }
}
