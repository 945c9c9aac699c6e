//! Files as they stand in repositories: lists, the output of `kubectl get -o yaml`, and documents
//! of other programs beside pools.

use serde_json::Value;

use crate::support::{Folder, TextAssertions, node, repository};

/// A folder with these files of `tests/it/real_manifests` as its pools.
fn folder(files: &[&str]) -> Folder {
    let folder = Folder::with_cluster(&[node("n", "a", "")], &[]);
    for file in files {
        let path = repository().join("tests/it/real_manifests").join(file);
        folder.write(&format!("pools/{file}"), std::fs::read(path).unwrap());
    }
    folder
}

fn plan(folder: &Folder) -> Value {
    folder.json("plan --cluster cluster.json --output json")
}

/// Rule, severity, message, and place of each finding of the files.
fn findings(report: &Value) -> Vec<(&str, &str, &str, String)> {
    let text = |value: &'_ Value| value.as_str().unwrap().to_owned();
    let findings = report["findings"].as_array().unwrap().iter();
    findings
        .filter(|finding| finding["origin"].is_object())
        .map(|finding| {
            let origin = &finding["origin"];
            let place = format!(
                "{}:{}:{}",
                text(&origin["file"]),
                origin["line"],
                origin["column"]
            );
            (
                finding["severity"].as_str().unwrap(),
                finding["rule"].as_str().unwrap(),
                finding["message"].as_str().unwrap(),
                place,
            )
        })
        .collect()
}

#[test]
fn a_list_of_kubectl_is_planned_like_its_items() {
    let folder = folder(&["get-ippools.yaml"]);
    let plan = plan(&folder);
    let change = &plan["changes"][0];
    assert_eq!(change["after"][0], "10.20.7.0/24", "{plan:#}");
    assert_eq!(change["pool"], "rack-a");
    let expected = [(
        "info",
        "ignored-namespace",
        "ignored `metadata.namespace` of 1 document of kind `NodeAssignment`",
        "pools/get-ippools.yaml:42:16".to_owned(),
    )];
    assert_eq!(findings(&plan), expected);
}

#[test]
fn a_list_of_one_kind_from_the_server_is_planned_without_the_servers_fields() {
    let folder = folder(&["get-lb-pools.yaml"]);
    let report = folder.json("validate -o json");
    let expected = [(
        "info",
        "ignored-namespace",
        "ignored `metadata.namespace` of 1 document of kind `CiliumLoadBalancerIPPool`",
        "pools/get-lb-pools.yaml:15:16".to_owned(),
    )];
    assert_eq!(findings(&report), expected);
    let plan = plan(&folder);
    let wanted = plan["changes"][0].to_string();
    wanted.assert_has("192.0.2.0/24");
    wanted.assert_has("blue");
    wanted.assert_lacks("last-applied-configuration");
    wanted.assert_lacks("IPsAvailable");
}

#[test]
fn documents_of_other_programs_are_ignored_with_one_remark_for_each_kind() {
    let folder = folder(&["kustomization.yaml", "pools-and-others.yaml"]);
    let more = "apiVersion: v1\nkind: Service\nmetadata: {name: more}\n";
    folder.write(
        "pools/services.yaml",
        more.repeat(2).replace("}\na", "}\n---\na"),
    );
    let report = folder.json("validate -o json");
    let expected = [
        (
            "info",
            "foreign-kind",
            "ignored 1 document of kind `Kustomization` of `kustomize.config.k8s.io/v1beta1`",
            "pools/kustomization.yaml:1:1".to_owned(),
        ),
        (
            "info",
            "ignored-namespace",
            "ignored `metadata.namespace` of 1 document of kind `CiliumLoadBalancerIPPool`",
            "pools/pools-and-others.yaml:5:14".to_owned(),
        ),
        (
            "info",
            "foreign-kind",
            "ignored 1 document of kind `CiliumL2AnnouncementPolicy` of `cilium.io/v2alpha1`",
            "pools/pools-and-others.yaml:12:7".to_owned(),
        ),
        (
            "info",
            "foreign-kind",
            "ignored 4 documents in 2 files of kind `Service` of `v1`",
            "pools/pools-and-others.yaml:19:7".to_owned(),
        ),
        (
            "info",
            "foreign-kind",
            "ignored 1 document of kind `IPPool` of `crd.projectcalico.org/v1`",
            "pools/pools-and-others.yaml:39:7".to_owned(),
        ),
    ];
    assert_eq!(findings(&report), expected);
    let strict = folder.expect("validate --strict", 0);
    strict.stdout.assert_has("1 LoadBalancer pool");
}

#[test]
fn faults_of_items_have_their_own_places() {
    let folder = folder(&["faulty-list.yaml"]);
    let report = folder.expect("validate -o json", 3).json();
    let places: Vec<(&str, String)> = findings(&report)
        .into_iter()
        .map(|(_, rule, _, place)| (rule, place))
        .collect();
    let expected = [
        ("host-bits", "pools/faulty-list.yaml:9:13"),
        ("unknown-kind", "pools/faulty-list.yaml:12:9"),
        ("unknown-field", "pools/faulty-list.yaml:24:7"),
    ];
    assert_eq!(
        places,
        expected.map(|(rule, place)| (rule, place.to_owned()))
    );
}

#[test]
fn files_with_only_other_documents_plan_nothing() {
    let folder = folder(&["kustomization.yaml"]);
    let report = folder.expect("validate -o json", 3).json();
    assert_eq!(report["findings"][0]["rule"], "empty-directory");
    assert_eq!(
        report["findings"][0]["message"],
        "`pools/kustomization.yaml` has only tests, or documents of other programs"
    );
}

#[test]
fn a_misspelt_kind_or_group_of_ours_is_an_error_with_a_suggestion() {
    let spec = "metadata: {name: a}\nspec: {cidrs: [10.20.0.0/16], blockSize: 24}\n";
    let lb = "metadata: {name: a}\nspec: {blocks: [{cidr: 192.0.2.0/24}]}\n";
    for (api_version, kind, spec, rule, help) in [
        (
            "cilium-ipam.io/v1alpha1",
            "IPPol",
            spec,
            "unknown-kind",
            "did you mean `IPPool`?",
        ),
        (
            "cilum-ipam.io/v1alpha1",
            "IPPool",
            spec,
            "unknown-value",
            "write `cilium-ipam.io/v1alpha1`",
        ),
        (
            "cilium-ipam.io/v1",
            "IPPool",
            spec,
            "unknown-value",
            "write `cilium-ipam.io/v1alpha1`",
        ),
        (
            "v1alpha1",
            "IPPool",
            spec,
            "unknown-value",
            "write `cilium-ipam.io/v1alpha1`",
        ),
        (
            "cilium.io/v2",
            "IPPool",
            spec,
            "unknown-value",
            "write `cilium-ipam.io/v1alpha1`",
        ),
        (
            "cilium.io/v2",
            "CiliumLoadBalancerPool",
            lb,
            "unknown-kind",
            "did you mean `CiliumLoadBalancerIPPool`?",
        ),
        (
            "cilum.io/v2",
            "CiliumLoadBalancerIPPool",
            lb,
            "unknown-value",
            "did you mean `cilium.io/v2`?",
        ),
        (
            "v1",
            "NodeAssignmnt",
            spec,
            "unknown-kind",
            "did you mean `NodeAssignment`?",
        ),
    ] {
        let folder = folder(&["pools-and-others.yaml"]);
        let text = format!("apiVersion: {api_version}\nkind: {kind}\n{spec}");
        folder.write("pools/misspelt.yaml", text);
        let report = folder.expect("validate -o json", 3).json();
        let all = report["findings"].as_array().unwrap().iter();
        let errors: Vec<_> = all
            .filter(|finding| finding["severity"] == "error")
            .map(|finding| {
                (
                    finding["rule"].as_str().unwrap(),
                    finding["help"].as_str().unwrap(),
                )
            })
            .collect();
        assert_eq!(errors, [(rule, help)], "{api_version} {kind}");
    }
}

#[test]
fn documents_that_are_no_objects_are_ignored() {
    let folder = folder(&["pools-and-others.yaml"]);
    let others = "cluster: {name: talos}\nkubeProxyReplacement: true\n---\nversion: v1alpha1\nmachine: {type: worker}\n";
    folder.write("pools/values.yaml", others);
    folder.write("pools/patch.yaml", "- {op: remove, path: /spec/cidrs}\n");
    let report = folder.expect("validate -o json", 0).json();
    let told = report["findings"].to_string();
    told.assert_has("ignored 3 documents in 2 files without `apiVersion` and `kind`");
    for ours in [
        "metadata: {name: a}\n",
        "spec: {cidrs: [10.0.0.0/16]}\n",
        "- kind: IPPool\n",
        "Kind: IPPool\n",
    ] {
        folder.write("pools/ours.yaml", ours);
        folder.expect("validate", 3);
    }
}

#[test]
fn a_template_is_to_be_rendered_first() {
    let folder = folder(&["pools-and-others.yaml"]);
    let pool = |cidr: &str| {
        format!(
            "apiVersion: cilium-ipam.io/v1alpha1\nkind: IPPool\nmetadata: {{name: t}}\nspec:\n  cidrs: [{cidr}]\n  blockSize: 24\n"
        )
    };
    for cidr in [
        "{{ .Values.cidr }}",
        "'{{ cidr }}'",
        "${POD_CIDR}",
        "'${POD_CIDR}'",
    ] {
        folder.write("pools/template.yaml", pool(cidr));
        let report = folder.expect("validate -o json", 3).json();
        let helps = report["findings"].to_string();
        helps.assert_has("render this file first");
    }
    folder.write(
        "pools/template.yaml",
        "{{- if .Values.pools }}\nkind: IPPool\n{{- end }}\n",
    );
    let report = folder.expect("validate -o json", 3).json();
    report["findings"]
        .to_string()
        .assert_has("render this file first");
    // The fault is elsewhere.
    let twice =
        pool("10.0.0.0/16").replace("  blockSize: 24\n", "  blockSize: 24\n  blockSize: 25\n");
    folder.write(
        "pools/template.yaml",
        format!("# {{{{ .Values.x }}}}\n{twice}"),
    );
    let report = folder.expect("validate -o json", 3).json();
    assert_eq!(report["findings"][0]["rule"], "yaml-syntax", "{report:#}");
    let helps = report["findings"].to_string();
    assert!(!helps.contains("render this file first"), "{helps}");
}

#[test]
fn a_list_without_items_is_an_error() {
    let folder = folder(&["pools-and-others.yaml"]);
    for (text, rule) in [
        ("apiVersion: v1\nkind: List\n", "missing-field"),
        ("apiVersion: v1\nkind: List\nitems: {a: b}\n", "wrong-type"),
    ] {
        folder.write("pools/list.yaml", text);
        let report = folder.expect("validate -o json", 3).json();
        assert_eq!(report["findings"][0]["rule"], rule, "{report:#}");
    }
}

#[test]
fn the_owner_label_is_ignored_only_in_objects_of_the_server() {
    let folder = folder(&["get-lb-pools.yaml"]);
    let dump = folder.read("pools/get-lb-pools.yaml");
    folder.expect("validate", 0);
    let written = dump
        .replace("    uid:", "    x:")
        .replace("    resourceVersion: \"50211\"\n", "");
    folder.write(
        "pools/get-lb-pools.yaml",
        written.replace("    x: 0d3c1c1f-8f1c-4c53-8f0b-3e1c6a0f2d11\n", ""),
    );
    let report = folder.expect("validate -o json", 3).json();
    assert_eq!(report["findings"][0]["rule"], "owner-label", "{report:#}");
}
