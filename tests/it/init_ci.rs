//! The CI files that `init` writes: they parse, and their commands run.

use std::path::Path;

use serde_json::json;

use super::init::{INIT, documents, with_nodes};
use super::support::{Folder, KUBERNETES, cluster, holds, node, pool, ran};

/// Runs a script of CI with the program in the PATH.
fn run_script(folder: &Folder, script: &str) -> (i32, String, String) {
    let binary = Path::new(env!("CARGO_BIN_EXE_cilium-ipam"))
        .parent()
        .unwrap();
    let mut command = std::process::Command::new("bash");
    command
        .current_dir(folder.path())
        .args(["-e", "-c", script])
        .env_clear()
        .env("HOME", folder.path())
        .env("GITHUB_STEP_SUMMARY", folder.join("summary.md"))
        .env("PATH", format!("{}:/usr/bin:/bin", binary.display()));
    let ran = ran(command.output().unwrap());
    (ran.code, ran.stdout, ran.stderr)
}

/// The plan of CI fails if a node would be misplaced or blocked, and says so on the page.
fn ci_fails_for_what_a_person_must_see(folder: &Folder, script: &str) {
    assert!(
        script.contains("--fail-on error,refused,blocked,misplaced "),
        "{script}"
    );
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
    assert!(
        workflow.contains("--fail-on error,refused,misplaced "),
        "{workflow}"
    );
    let workflow = documents(&workflow);
    let steps = workflow[0]["jobs"]["check"]["steps"].as_array().unwrap();
    let plan = steps[steps.len() - 2]["run"].as_str().unwrap();
    let ran = run_script(&folder, plan);
    assert_eq!(ran.0, 0, "{ran:?}");
    assert!(folder.read("summary.md").contains("2 blocked"), "{ran:?}");
}

#[test]
fn the_ci_files_parse_and_their_commands_run() {
    let nodes = [node("n1", "a", &holds("10.20.0.0/24")), node("n2", "b", "")];
    let here = with_nodes(KUBERNETES, &nodes);
    // The snapshot lies where the CI file expects it.
    let flags = ["my pools", "--ci", "github"];
    here.run(&[&INIT[..], &flags].concat()).expect(0);
    let workflow = documents(&here.read(".github/workflows/cilium-ipam.yaml"));
    assert_eq!(
        workflow[0]["on"]["pull_request"]["paths"],
        json!([
            "my pools/**",
            "cluster.json",
            ".github/workflows/cilium-ipam.yaml"
        ])
    );
    let steps = workflow[0]["jobs"]["check"]["steps"].as_array().unwrap();
    let scripts: Vec<&str> = steps
        .iter()
        .filter_map(|step| step["run"].as_str())
        .collect();
    assert_eq!(scripts.len(), 4);
    let comment = scripts[3].replace(" comment ", " comment --dry-run ");
    for script in [scripts[0], scripts[1], scripts[2], &comment] {
        let ran = run_script(&here, script);
        assert_eq!(ran.0, 0, "{script}: {ran:?}");
    }
    let ran = run_script(&here, scripts[3]);
    assert!(ran.2.contains("no pull request is known"), "{ran:?}");
    assert!(here.read("summary.md").contains("1 to assign"));
    ci_fails_for_what_a_person_must_see(&here, scripts[2]);

    let gitlab = Folder::new(&[
        (".git/HEAD", ""),
        ("cluster.json", &cluster("1.19.3", KUBERNETES, &nodes)),
    ]);
    gitlab
        .run(&[
            "init",
            "net/pools",
            "--ci",
            "gitlab",
            "--cluster-file",
            "cluster.json",
        ])
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
    assert!(
        again.stdout.contains("Add to .gitlab-ci.yml"),
        "{}",
        again.all()
    );
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
