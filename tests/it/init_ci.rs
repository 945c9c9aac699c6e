//! The CI files that `init` writes: they parse, and their commands run.

use std::path::Path;

use serde_json::{Value, json};

use super::init::{INIT, documents, with_nodes};
use super::support::{
    Folder, KUBERNETES, TextAssertions, args, cluster, holds, node, pool, ran, repository,
};

/// The scripts of one job of a workflow.
fn scripts(workflow: &Value, job: &str) -> Vec<String> {
    let steps = workflow["jobs"][job]["steps"].as_array().unwrap();
    let scripts = steps.iter().filter_map(|step| step["run"].as_str());
    scripts.map(str::to_owned).collect()
}

/// Runs a script of CI with the program in the PATH, on the files of the folder: `gitea_actions`
/// runs the same workflow on the commit of a pull request.
fn run_script(folder: &Folder, script: &str) -> (i32, String, String) {
    let binary = Path::new(env!("CARGO_BIN_EXE_cilium-ipam"))
        .parent()
        .unwrap();
    let fetch = "git fetch --quiet --depth 1 origin \"$CI_MERGE_REQUEST_TARGET_BRANCH_NAME\"\n";
    let script = script
        .replace(" --revision \"$HEAD\"", "")
        .replace(" --base HEAD", "")
        .replace(" --base FETCH_HEAD", "")
        .replace(",policy", "")
        .replace(fetch, "");
    let mut command = std::process::Command::new("bash");
    command
        .current_dir(folder.path())
        .args(["-e", "-c", &script])
        .env_clear()
        .env("HOME", folder.path())
        .env("GITHUB_STEP_SUMMARY", folder.join("summary.md"))
        .env("PATH", format!("{}:/usr/bin:/bin", binary.display()));
    let ran = ran(command.output().unwrap());
    (ran.code, ran.stdout, ran.stderr)
}

/// The plan of CI fails if a node would be misplaced or blocked, and says so on the page.
fn ci_fails_for_what_a_person_must_see(folder: &Folder, script: &str) {
    script.assert_has("--fail-on error,refused,policy,blocked,misplaced ");
    let [outside, blocked] = [
        [node("n1", "a", &holds("10.99.0.0/24"))],
        [node("n1", "c", "")],
    ];
    for (nodes, part) in [(outside, "misplaced"), (blocked, "blocked")] {
        folder.write("cluster.json", cluster("1.19.3", KUBERNETES, &nodes));
        let ran = run_script(folder, script);
        assert_eq!(ran.0, 2, "{part}: {ran:?}");
        assert!(folder.read("plan.md").contains(part), "{part}: {ran:?}");
    }
}

#[test]
fn ci_does_not_fail_for_what_the_first_plan_has_already() {
    // Cilium's operator gives the blocks, so the plan blocks each node without one.
    let nodes = [node("n1", "a", ""), node("n2", "a", "")];
    let settings = r#""ipam":"cluster-pool","cluster-pool-ipv4-cidr":"10.20.0.0/16","cluster-pool-ipv4-mask-size":"24""#;
    let folder = with_nodes(settings, &nodes);
    folder
        .run(&[&INIT[..], &["--ci", "github"]].concat())
        .expect(0);
    let workflow = folder.read(".github/workflows/cilium-ipam.yaml");
    workflow.assert_has("--fail-on error,refused,policy,misplaced ");
    let plan = scripts(&documents(&workflow)[0], "plan");
    let ran = run_script(&folder, plan.last().unwrap());
    assert_eq!(ran.0, 0, "{ran:?}");
    assert!(folder.read("summary.md").contains("2 blocked"), "{ran:?}");
}

fn the_jobs_of_a_workflow_run(here: &Folder, folder: &str, workflow: &Value) {
    for event in ["push", "pull_request_target"] {
        assert_eq!(
            workflow["on"][event]["paths"],
            json!([format!("{folder}/**")])
        );
    }
    assert_eq!(workflow["permissions"], json!({"contents": "read"}));
    let plan = scripts(workflow, "plan");
    for script in scripts(workflow, "validate").iter().chain(&plan[1..]) {
        let ran = run_script(here, script);
        assert_eq!(ran.0, 0, "{script}: {ran:?}");
    }
    assert!(here.read("summary.md").contains("1 to assign"));
    ci_fails_for_what_a_person_must_see(here, &plan[2]);
    for (job, missing) in [
        ("comment", "no pull request is known"),
        ("apply", "--reviewed needs a forge"),
        ("drift", "no repository is known"),
    ] {
        let scripts = scripts(workflow, job);
        let ran = run_script(here, scripts.last().unwrap());
        assert!(ran.2.contains(missing), "{job}: {ran:?}");
    }
}

#[test]
fn the_ci_files_parse_and_their_commands_run() {
    let nodes = [node("n1", "a", &holds("10.20.0.0/24")), node("n2", "b", "")];
    let here = with_nodes(KUBERNETES, &nodes);
    // The snapshot lies where the CI file expects it.
    for (ci, place) in [("github", ".github"), ("gitea", ".gitea")] {
        here.write("cluster.json", cluster("1.19.3", KUBERNETES, &nodes));
        let folder = format!("my {ci}");
        here.run(&[&INIT[..], &[&folder, "--ci", ci]].concat())
            .expect(0);
        let workflow = here.read(&format!("{place}/workflows/cilium-ipam.yaml"));
        the_jobs_of_a_workflow_run(&here, &folder, &documents(&workflow)[0]);
        let steps = documents(&workflow)[0]["jobs"]["validate"]["steps"].clone();
        let upload = "github/codeql-action/upload-sarif@8aad20d150bbac5944a9f9d289da16a4b0d87c1e";
        let uploads = steps.as_array().unwrap().iter();
        let uploads = uploads.filter(|step| step["uses"] == upload).count();
        assert_eq!(uploads, usize::from(ci == "github"));
        if ci == "github" {
            let findings: Value = serde_json::from_str(&here.read("cilium-ipam.sarif")).unwrap();
            assert_eq!(findings["version"], "2.1.0");
        }
        // Another CI system would check it as well.
        std::fs::remove_dir_all(here.join(place)).unwrap();
    }

    let gitlab = Folder::new(&[
        (".git/HEAD", ""),
        ("cluster.json", &cluster("1.19.3", KUBERNETES, &nodes)),
    ]);
    gitlab
        .run(&args(
            "init net/pools --ci gitlab --cluster-file cluster.json",
        ))
        .expect(0);
    let ci = documents(&gitlab.read(".gitlab-ci.yml"));
    let script = ci[0]["cilium-ipam"]["script"].as_array().unwrap();
    for part in script {
        let ran = run_script(&gitlab, part.as_str().unwrap());
        assert_eq!(ran.0, 0, "{part}: {ran:?}");
    }
    assert!(gitlab.read("plan.md").contains("1 to assign"));
    let plan = script.last().unwrap().as_str().unwrap();
    ci_fails_for_what_a_person_must_see(&gitlab, plan);
    let again = gitlab
        .run(&["init", "more", "--ci", "gitlab", "--offline"])
        .expect(0);
    again.stdout.assert_has("Add to .gitlab-ci.yml");
    documents(&gitlab.read(".gitlab/cilium-ipam.gitlab-ci.yml"));
}

/// GitLab runs the whole script in one shell, which ends with the first command that fails.
#[test]
fn gitlab_plans_even_if_the_files_have_a_fault() {
    let folder = Folder::new(&[
        (".git/HEAD", ""),
        (
            "cluster.json",
            &cluster("1.19.3", KUBERNETES, &[node("n1", "a", "")]),
        ),
    ]);
    let words = ["init", "pools", "--ci", "gitlab", "--cluster-file"];
    folder
        .run(&[&words[..], &["cluster.json"]].concat())
        .expect(0);
    // Two pools of equal rank for the same nodes: a warning.
    for name in ["x", "y"] {
        let spec = format!(
            "{{cidrs: [10.{}.0.0/16], blockSize: 24, nodeSelector: {{matchLabels: {{rack: z}}}}}}",
            if name == "x" { 60 } else { 61 }
        );
        folder.write(&format!("pools/{name}.yaml"), pool(name, &spec));
    }
    let validated = folder.run(&["validate", "pools", "--strict"]);
    assert_eq!(validated.code, 3, "{}", validated.all());
    let ci = documents(&folder.read(".gitlab-ci.yml"));
    let parts = ci[0]["cilium-ipam"]["script"].as_array().unwrap();
    let parts: Vec<&str> = parts.iter().filter_map(|part| part.as_str()).collect();
    let ran = run_script(&folder, &parts.join("\n"));
    assert_eq!(
        ran.0, 3,
        "the job fails, and the merge request with it: {ran:?}"
    );
    assert!(folder.read("plan.md").contains("1 to assign"), "{ran:?}");
}

/// The component has inputs where `init` has values.
#[test]
fn the_component_of_gitlab_has_the_jobs_of_init() {
    let folder = Folder::new(&[(".git/HEAD", "")]);
    let init = ["init", "pools", "--ci", "gitlab", "--offline"];
    folder.run(&init).expect(0);
    let component = repository().join("templates/pools.yml");
    let component = documents(&std::fs::read_to_string(component).unwrap());
    let [header, jobs] = &component[..] else {
        panic!("{component:?}")
    };
    let mut jobs = jobs.to_string();
    for (name, input) in header["spec"]["inputs"].as_object().unwrap() {
        let value = input["default"].as_str().unwrap();
        jobs = jobs.replace(&format!("$[[ inputs.{name} ]]"), value);
    }
    let jobs: Value = serde_json::from_str(&jobs).unwrap();
    assert_eq!(jobs, documents(&folder.read(".gitlab-ci.yml"))[0]);
}

#[test]
fn a_directory_with_pools_gets_the_ci_file_alone() {
    let spec = "{cidrs: [10.1.0.0/16], blockSize: 24}";
    let folder = Folder::new(&[(".git/HEAD", ""), ("pools/a.yaml", &pool("a", spec))]);
    let ran = folder.expect("init pools --ci gitea --offline", 0);
    assert!(
        ran.stdout.contains(".gitea/workflows/cilium-ipam.yaml"),
        "{ran:?}"
    );
    let pools: Vec<_> = std::fs::read_dir(folder.join("pools")).unwrap().collect();
    assert_eq!(pools.len(), 1);
    let words = ["init", "pools", "--ci", "gitlab", "--cidr", "10.2.0.0/16"];
    folder.run(&words).expect(1);
}

/// A tag can be moved, a commit cannot.
#[test]
fn actions_are_pinned_and_leave_no_credential_in_the_clone() {
    let uses = |workflow: &Value| -> Vec<Value> {
        let jobs = workflow["jobs"].as_object().unwrap().values();
        let steps = jobs.flat_map(|job| job["steps"].as_array().unwrap().clone());
        steps.filter(|step| step["uses"].is_string()).collect()
    };
    let mut workflows = Vec::new();
    for (ci, place) in [("github", ".github"), ("gitea", ".gitea")] {
        let folder = Folder::new(&[(".git/HEAD", "")]);
        let init = ["init", "pools", "--offline", "--ci", ci];
        folder.run(&init).expect(0);
        let text = folder.read(&format!("{place}/workflows/cilium-ipam.yaml"));
        workflows.push(documents(&text)[0].clone());
    }
    for (job, environment) in [
        ("comment", "cilium-ipam-review"),
        ("apply", "cilium-ipam"),
        ("drift", "cilium-ipam"),
    ] {
        assert_eq!(workflows[0]["jobs"][job]["environment"], environment);
    }
    let release = repository().join(".github/workflows/release.yml");
    workflows.push(documents(&std::fs::read_to_string(release).unwrap())[0].clone());
    for step in workflows.iter().flat_map(uses) {
        let (action, commit) = step["uses"].as_str().unwrap().split_once('@').unwrap();
        let is_commit = commit.len() == 40 && commit.bytes().all(|one| one.is_ascii_hexdigit());
        assert!(is_commit, "{step}");
        if action == "actions/checkout" {
            assert_eq!(step["with"]["persist-credentials"], false, "{step}");
        }
    }
}
