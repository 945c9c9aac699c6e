//! Saved plans: exactly what was reviewed, or nothing.

use ipam_plan::plan::FORMAT_VERSION;

use super::support::{Folder, KUBERNETES, TextAssertions, args, cluster, holds, node, pool};

const POOL: &str = "{cidrs: [10.20.0.0/16], blockSize: 24}";

fn saved(items: &[String]) -> Folder {
    let folder = Folder::with_cluster(items, &[("pools/a.yaml", &pool("a", POOL))]);
    folder.expect("plan --cluster cluster.json --out plan.json", 0);
    folder
}

fn apply(folder: &Folder, code: i32) -> String {
    let before = folder.read("cluster.json");
    let ran = folder.expect(
        "apply plan.json --trust-plan-file --cluster cluster.json",
        code,
    );
    if code != 0 {
        assert_eq!(
            folder.read("cluster.json"),
            before,
            "nothing may be written"
        );
    }
    ran.stderr
}

#[test]
fn a_trusted_plan_needs_no_approval_and_gives_what_it_says() {
    let folder = saved(&[node("n", "a", "")]);
    apply(&folder, 0);
    assert!(folder.read("cluster.json").contains("10.20.0.0/24"));
    assert!(apply(&folder, 0).contains("done already: 1 change of the saved plan"));
}

#[test]
fn what_does_not_matter_leaves_it_current() {
    let folder = saved(&[node("n", "a", "")]);
    let heartbeat =
        node("n", "a", "").replace("\"resourceVersion\":\"7\"", "\"resourceVersion\":\"9\"");
    let service = r#"{"apiVersion":"v1","kind":"Service","metadata":{"name":"s","namespace":"shop"},"spec":{}}"#;
    folder.write(
        "cluster.json",
        cluster(
            "1.19.3",
            KUBERNETES,
            &[heartbeat, service.into(), node("z-joined", "a", "")],
        ),
    );
    folder.write("pools/a.yaml", format!("# a comment\n{}", pool("a", POOL)));
    assert!(apply(&folder, 0).contains("not in the saved plan: 1 further change"));
    assert!(!folder.read("cluster.json").contains("10.20.1.0/24"));
}

#[test]
fn what_matters_makes_it_stale_with_the_difference() {
    let bare = || saved(&[node("n", "a", "")]);
    let folder = bare();
    folder.write(
        "cluster.json",
        cluster(
            "1.19.3",
            KUBERNETES,
            &[node("n", "a", ""), node("m", "a", &holds("10.20.0.0/24"))],
        ),
    );
    assert!(
        apply(&folder, 4)
            .contains("saved to get 10.20.0.0/24 by node-spec, would now get 10.20.1.0/24")
    );

    let folder = bare();
    folder.write(
        "pools/a.yaml",
        pool("a", "{cidrs: [10.21.0.0/16], blockSize: 24}"),
    );
    assert!(apply(&folder, 4).contains("would now get 10.21.0.0/24"));

    let folder = bare();
    folder.write(
        "cluster.json",
        cluster(
            "1.19.3",
            KUBERNETES,
            &[node("n", "a", "").replace("uid-n", "uid-other")],
        ),
    );
    assert!(apply(&folder, 4).contains("another object by now"));

    let folder = bare();
    folder.write("cluster.json", cluster("1.19.3", KUBERNETES, &[]));
    assert!(apply(&folder, 4).contains("but it is gone"));

    let folder = bare();
    folder.write(
        "cluster.json",
        cluster("1.19.3", r#""ipam":"eni""#, &[node("n", "a", "")]),
    );
    assert!(apply(&folder, 4).contains("now blocked"));
}

#[test]
fn new_pools_with_further_changes_make_it_stale() {
    let only_a = "{cidrs: [10.20.0.0/16], blockSize: 24, nodeSelector: {matchLabels: {rack: a}}}";
    let folder = Folder::with_cluster(
        &[node("n", "a", ""), node("m", "b", "")],
        &[("pools/a.yaml", &pool("a", only_a))],
    );
    folder.expect("plan --cluster cluster.json --out plan.json", 0);
    folder.write(
        "pools/b.yaml",
        pool(
            "b",
            "{cidrs: [10.21.0.0/16], blockSize: 24, nodeSelector: {matchLabels: {rack: b}}}",
        ),
    );
    assert!(apply(&folder, 4).contains("not in the saved plan, would now get 10.21.0.0/24"));
}

#[test]
fn edited_and_foreign_files_are_refused() {
    let folder = saved(&[node("n", "a", "")]);
    let plan = folder.read("plan.json");
    folder.write("plan.json", plan.replace("10.20.0.0/24", "10.20.66.0/24"));
    assert!(apply(&folder, 1).contains("do not match its digest"));
    let version = format!("\"format_version\": \"{FORMAT_VERSION}\",");
    assert!(plan.contains(&version));
    let later = plan.replace(&version, "\"format_version\": \"2.0\",");
    folder.write("plan.json", later);
    assert!(apply(&folder, 1).contains("format version 2.0"));
    let novel = plan.replace(&version, &format!("{version} \"novelty\": 1,"));
    folder.write("plan.json", novel);
    apply(&folder, 0);
    folder.write("plan.json", &plan[..plan.len() / 2]);
    assert!(apply(&folder, 1).contains("not a saved plan"));
    let unknown = plan.replace("\"hazard\": \"none\"", "\"hazard\": \"\\u001bnone\"");
    assert_ne!(unknown, plan);
    folder.write("plan.json", unknown);
    let said = apply(&folder, 1);
    let why = "not a saved plan: `\\u{1b}none` is not a valid hazard at line";
    assert!(said.contains(why), "{said}");
}

#[test]
fn a_further_change_of_a_node_whose_saved_one_is_done_is_told() {
    let dual_stack = "{cidrs: [10.20.0.0/16, \"fd00:20::/48\"], blockSize: {ipv4: 24, ipv6: 64}}";
    let settings = r#""ipam":"kubernetes","annotate-k8s-node":"true""#;
    let bare = cluster("1.19.3", settings, &[node("n", "a", "")]);
    let folder = Folder::new(&[("cluster.json", &bare), ("pools/a.yaml", &pool("a", POOL))]);
    folder.expect("plan --cluster cluster.json --out plan.json", 0);
    folder.write(
        "cluster.json",
        cluster(
            "1.19.3",
            settings,
            &[node("n", "a", &holds("10.20.0.0/24"))],
        ),
    );
    folder.write("pools/a.yaml", pool("a", dual_stack));
    assert!(
        apply(&folder, 4).contains("Node/n: not in the saved plan, would now get fd00:20::/64")
    );
}

#[test]
fn a_plan_that_changes_a_node_twice_is_refused_though_its_digest_fits() {
    let bare = cluster("1.19.3", KUBERNETES, &[node("n", "a", "")]);
    let folder = Folder::new(&[("cluster.json", &bare), ("pools/a.yaml", &pool("a", POOL))]);
    folder.expect("plan --cluster cluster.json --out plan.json", 0);
    let mut plan: serde_json::Value = serde_json::from_str(&folder.read("plan.json")).unwrap();
    let change = plan["changes"][0].clone();
    plan["changes"].as_array_mut().unwrap().push(change);
    let forged = ipam_plan::plan::PlanDocument::resealed(&plan.to_string()).unwrap();
    folder.write("plan.json", serde_json::to_string(&forged).unwrap());
    assert!(apply(&folder, 1).contains("it changes `n` twice"));
}

/// A plan of `pools` for one node, with the digest that `plan` printed.
fn reviewed() -> (Folder, String) {
    let items = [node("n", "a", "")];
    let folder = Folder::with_cluster(
        &items,
        &[
            ("pools/a.yaml", &pool("a", POOL)),
            ("others/a.yaml", &pool("a", POOL)),
        ],
    );
    let said = folder
        .expect("plan --cluster cluster.json --out plan.json", 0)
        .stderr;
    let digest = said
        .lines()
        .find_map(|line| line.strip_prefix("digest: "))
        .unwrap()
        .to_owned();
    assert_eq!(digest.len(), 64, "{said}");
    (folder, digest)
}

fn expecting(folder: &Folder, digest: &str, more: &[&str], code: i32) -> String {
    let before = folder.read("cluster.json");
    let words = [
        "apply",
        "plan.json",
        "--cluster",
        "cluster.json",
        "--expect-digest",
        digest,
    ];
    let ran = folder.run(&[&words[..], more].concat()).expect(code);
    if code != 0 {
        assert_eq!(
            folder.read("cluster.json"),
            before,
            "nothing may be written"
        );
    }
    ran.stderr
}

#[test]
fn an_expected_digest_lets_no_other_plan_through() {
    let (folder, digest) = reviewed();
    let plan = folder.read("plan.json");
    // An attacker who replaces the file makes its own digest fit.
    for (place, value) in [
        ("/source/directory", serde_json::json!("others")),
        ("/source/revision", serde_json::json!("0123")),
        ("/source/digest", serde_json::json!("0123")),
        ("/waivers", serde_json::json!(["release-percent"])),
        ("/changes", serde_json::json!([])),
        ("/intent", serde_json::json!("undo")),
    ] {
        let mut forged: serde_json::Value = serde_json::from_str(&plan).unwrap();
        forged["source"]["revision"] = serde_json::Value::Null;
        *forged.pointer_mut(place).unwrap() = value;
        let forged = ipam_plan::plan::PlanDocument::resealed(&forged.to_string()).unwrap();
        folder.write("plan.json", serde_json::to_string(&forged).unwrap());
        let said = expecting(&folder, &digest, &[], 4);
        assert!(
            said.contains(&digest) && said.contains(&forged.digest),
            "{place}: {said}"
        );
    }
    folder.write("plan.json", &plan);
    assert!(
        expecting(&folder, &digest[..31], &[], 1).contains("expected 32 to 64 hexadecimal digits")
    );
    expecting(&folder, &digest[..32].to_uppercase(), &[], 0);
    expecting(&folder, &digest, &[], 0);
}

#[test]
fn what_a_saved_plan_chooses_is_shown_first_and_its_directory_can_be_pinned() {
    let (folder, digest) = reviewed();
    let shown = expecting(&folder, &digest, &["--directory", "./pools"], 0);
    let introduction = format!(
        "saved plan plan.json\n  directory  pools\n  waivers    none\n  digest     {digest}\n"
    );
    assert!(shown.starts_with(&introduction), "{shown}");
    let refused = expecting(&folder, &digest, &["--directory", "others"], 4);
    refused.assert_has("was made from `pools`, and --directory asks for `others`");
    let words = args("apply pools --directory pools --cluster cluster.json --auto-approve");
    folder.run(&words).expect(1);
}

#[test]
fn a_plan_that_is_made_anew_is_applied_without_asking_if_it_is_the_expected_one() {
    let (folder, digest) = reviewed();
    let words = ["apply", "--cluster", "cluster.json", "--expect-digest"];
    let other = folder
        .run(&[&words[..], &["0123456789abcdef".repeat(2).as_str()]].concat())
        .expect(4)
        .stderr;
    other.assert_has(&digest);
    other.assert_has("run `cilium-ipam plan`, review that plan");
    other.assert_lacks("show FILE");
    assert!(!folder.read("cluster.json").contains("10.20.0.0/24"));
    folder.run(&[&words[..], &[&digest]].concat()).expect(0);
    assert!(folder.read("cluster.json").contains("10.20.0.0/24"));
}

/// The same files at the same place are one plan, and its digest approves it in each spelling.
#[test]
fn a_digest_does_not_depend_on_the_spelling_of_the_directory() {
    let (folder, digest) = reviewed();
    let absolute = folder.join("pools");
    let absolute = absolute.to_str().unwrap();
    let bare = folder.read("cluster.json");
    for spelling in ["pools", "pools/", "./pools", "others/../pools", absolute] {
        let words = [
            "plan",
            spelling,
            "--cluster",
            "cluster.json",
            "--out",
            "p.json",
        ];
        let said = folder.run(&words).expect(0);
        assert!(said.stderr.contains(&digest), "{spelling}: {said:?}");
        assert!(said.stdout.contains(&digest[..32]), "{spelling}: {said:?}");
        let words = [
            "apply",
            spelling,
            "--cluster",
            "cluster.json",
            "--expect-digest",
        ];
        folder
            .run(&[&words[..], &[&digest[..32]]].concat())
            .expect(0);
        folder.write("cluster.json", &bare);
    }
    // From another working directory, only the absolute path leads there.
    let cluster = folder.join("cluster.json");
    let elsewhere = ["plan", absolute, "--cluster", cluster.to_str().unwrap()];
    let said = super::support::run(&folder.join("others"), &elsewhere).expect(0);
    assert!(said.stdout.contains(&digest[..32]), "{said:?}");
    let words = args("plan others --cluster cluster.json --out p.json");
    let others = folder.run(&words).expect(0).stderr;
    others.assert_lacks(&digest);
}

/// Another job of the pipeline may have replaced the file.
#[test]
fn a_plan_file_needs_a_digest_or_trust_where_no_person_answers() {
    let (folder, digest) = reviewed();
    let words = ["apply", "plan.json", "--cluster", "cluster.json"];
    for more in [&[][..], &["--auto-approve"], &["--no-input"]] {
        let refused = folder.run(&[&words[..], more].concat()).expect(1).stderr;
        refused.assert_has("--trust-plan-file");
        assert!(!folder.read("cluster.json").contains("10.20.0.0/24"));
    }
    let both = ["--trust-plan-file", "--expect-digest", digest.as_str()];
    folder.run(&[&words[..], &both].concat()).expect(1);
    folder
        .run(&[&words[..], &["--trust-plan-file"]].concat())
        .expect(0);
}

#[test]
fn a_plan_file_with_an_empty_edit_is_refused() {
    let (folder, _) = reviewed();
    let plan = folder.read("plan.json");
    for edit in [
        serde_json::json!({"spec.podCIDRs": []}),
        serde_json::json!({"CiliumNode.spec.ipam.podCIDRs": []}),
        serde_json::json!({"metadata.annotations": {}}),
        serde_json::json!({"CiliumNodeConfig.spec.defaults": {}}),
        serde_json::json!({"allowed_address_pairs": {"add": [], "remove": []}}),
    ] {
        let mut forged: serde_json::Value = serde_json::from_str(&plan).unwrap();
        forged["changes"][0]["edit"] = edit;
        let forged = ipam_plan::plan::PlanDocument::resealed(&forged.to_string()).unwrap();
        folder.write("plan.json", serde_json::to_string(&forged).unwrap());
        assert!(apply(&folder, 1).contains("its change of `n` sets nothing"));
    }
}
