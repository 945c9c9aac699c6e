//! A real Gitea with its real runner, and a repository of pools with the workflow of `init`.
//! `actions/checkout`, `actions/upload-artifact` and `github/codeql-action/upload-sarif` are stand-ins,
//! because jobs here reach no other host.

use std::path::Path;

use serde_json::{Value, json};
use testbed::{Client, Gitea, GiteaRunner, Options, PATIENCE, wait_until};

use super::git::git;
use super::server::{Server, kubernetes};
use super::support::{Folder, pool, repository};

pub(super) const IPAM: &str = "/repos/owner/ipam";
pub(super) const WORKFLOW: &str = "cilium-ipam.yaml";

/// What the workflow needs of `actions/checkout`.
const CHECKOUT: &str = r#"
name: checkout
description: Fetches the commit of the job.
runs:
  using: composite
  steps:
  - shell: bash
    run: |
      git init --quiet .
      git remote add origin "$SERVER/$REPOSITORY"
      header=$(printf 'x-access-token:%s' "$TOKEN" | base64 --wrap=0)
      git config http.extraheader "Authorization: Basic $header"
      git fetch --quiet --depth 1 origin "$COMMIT"
      git checkout --quiet --detach FETCH_HEAD
    env:
      SERVER: ${{ github.server_url }}
      REPOSITORY: ${{ github.repository }}
      COMMIT: ${{ github.sha }}
      TOKEN: ${{ github.token }}
"#;

/// What the workflow needs of `actions/upload-artifact`: it takes a file that may be missing.
const UPLOAD: &str = r#"
name: upload-artifact
description: Names the file that it would keep.
inputs:
  path:
    required: true
runs:
  using: composite
  steps:
  - shell: bash
    run: for file in $FILE; do ls "$file" || true; done
    env:
      FILE: ${{ inputs.path }}
"#;

/// What the workflow needs of `github/codeql-action/upload-sarif`.
const UPLOAD_SARIF: &str = r#"
name: upload-sarif
description: Fails without findings in the form of SARIF.
inputs:
  sarif_file:
    required: true
  category:
    required: true
runs:
  using: composite
  steps:
  - shell: bash
    run: |
      grep '"version": *"2.1.0"' "$FILE"
    env:
      FILE: ${{ inputs.sarif_file }}
"#;

/// A repository of `owner` with pools and the workflow, and the cluster that they are for.
pub(super) struct World {
    pub(super) server: Server,
    pub(super) gitea: Gitea,
    pub(super) runner: GiteaRunner,
    pub(super) owner: Client,
    /// The clone of `owner`.
    pub(super) clone: Folder,
}

pub(super) fn node(name: &str, rack: &str, block: Option<&str>) -> Value {
    let mut node = json!({"apiVersion": "v1", "kind": "Node",
        "metadata": {"name": name, "labels": {"rack": rack}}});
    if let Some(block) = block {
        node["spec"] = json!({"podCIDR": block, "podCIDRs": [block]});
    }
    node
}

pub(super) fn rack(name: &str, range: &str) -> String {
    let selector = format!("{{matchLabels: {{rack: {name}}}}}");
    let spec = format!("{{cidrs: [{range}], blockSize: 24, nodeSelector: {selector}}}");
    pool(&format!("rack-{name}"), &spec)
}

impl World {
    pub(super) fn new() -> World {
        let server = Server::start(&kubernetes("1.19.3", None), None, Options::default(), &[]);
        let first = node("n1", "a", Some("10.1.0.0/24"));
        server.nodes([first, node("n2", "c", None)]);
        let gitea = Gitea::start().unwrap();
        let owner = gitea.client(&gitea.user("owner", "all").unwrap());
        let programs = Path::new(env!("CARGO_BIN_EXE_cilium-ipam"));
        let runner = GiteaRunner::start(&gitea, programs.parent().unwrap()).unwrap();
        let world = World {
            server,
            gitea,
            runner,
            owner,
            clone: Folder::new(&[]),
        };
        world.actions();
        world.repository();
        world
    }

    /// The stand-ins, and the action of this repository.
    pub(super) fn actions(&self) {
        let ours = std::fs::read_to_string(repository().join("action.yml")).unwrap();
        for organization in ["actions", "github"] {
            let organization = json!({"username": organization});
            self.owner.create("/orgs", &organization).unwrap();
        }
        self.action("actions/checkout", "action.yml", CHECKOUT);
        self.action("actions/upload-artifact", "action.yml", UPLOAD);
        self.action("actions/cilium-ipam", "action.yml", &ours);
        self.action(
            "github/codeql-action",
            "upload-sarif/action.yml",
            UPLOAD_SARIF,
        );
    }

    fn action(&self, place: &str, file: &str, text: &str) {
        let (organization, name) = place.split_once('/').unwrap();
        let repository = json!({"name": name, "auto_init": true, "default_branch": "v4"});
        let repositories = format!("/orgs/{organization}/repos");
        self.owner.create(&repositories, &repository).unwrap();
        let content = base64(text);
        let added = json!({"content": content, "message": "Add it", "branch": "v4"});
        let path = format!("/repos/{place}");
        let action = format!("{path}/contents/{file}");
        self.owner.create(&action, &added).unwrap();
        let third = json!({"new_branch_name": "v3", "old_branch_name": "v4"});
        self.owner
            .create(&format!("{path}/branches"), &third)
            .unwrap();
    }

    /// Pools of the racks that have blocks, the workflow of `init`, and a snapshot.
    pub(super) fn repository(&self) {
        let repository = json!({"name": "ipam", "default_branch": "main"});
        self.owner.create("/user/repos", &repository).unwrap();
        let bot = "write:issue,read:user,read:repository";
        let bot = self.gitea.user("bot", bot).unwrap();
        let member = format!("{IPAM}/collaborators/bot");
        // Gitea answers with nothing.
        let _ = self.owner.put(&member, &json!({"permission": "write"}));
        let kubeconfig = std::fs::read_to_string(self.server.plane.kubeconfig()).unwrap();
        for (name, data) in [("CILIUM_IPAM_TOKEN", bot), ("KUBECONFIG", kubeconfig)] {
            let path = format!("{IPAM}/actions/secrets/{name}");
            let _ = self.owner.put(&path, &json!({"data": data}));
        }
        let folder = self.clone.path();
        git(folder, &["init", "--quiet", "--initial-branch=main"]);
        let url = self.gitea.git_url("owner", "owner/ipam");
        git(folder, &["remote", "add", "origin", &url]);
        let init = ["init", "pools", "--offline", "--ci", "gitea", "--no-input"];
        self.clone.run(&init).expect(0);
        self.use_stand_ins(".gitea");
        self.clone
            .write("pools/pools.yaml", rack("a", "10.1.0.0/16"));
        self.snapshot();
        self.commit("main", "Add the pools");
    }

    /// Names the stand-ins by their tags: no commit of theirs is the one that `init` pins. No App
    /// gives a token here.
    pub(super) fn use_stand_ins(&self, place: &str) {
        let name = format!("{place}/workflows/cilium-ipam.yaml");
        let text = self.clone.read(&name);
        let tagged = text.lines().map(|line| match line.split_once(" # v") {
            Some((pinned, version)) if pinned.contains("uses: ") => {
                let action = pinned.split('@').next().unwrap_or(pinned);
                let major = version.split('.').next().unwrap_or(version);
                format!("{action}@v{major}\n")
            }
            _ => format!("{line}\n"),
        });
        let mut tagged: String = tagged.collect();
        while let Some((before, rest)) = tagged.split_once("    - name: Account\n") {
            let after = rest
                .split_once("    - name:")
                .map_or("", |(_, after)| after);
            tagged = format!("{before}    - name:{after}");
        }
        self.clone.write(&name, tagged);
    }

    pub(super) fn snapshot(&self) {
        let out = self.clone.join("cluster.json");
        let out = ["snapshot", "--out", out.to_str().unwrap()];
        self.server.run(&out).expect(0);
    }

    /// Commits everything, and pushes it to this branch.
    pub(super) fn commit(&self, branch: &str, message: &str) -> String {
        let folder = self.clone.path();
        git(folder, &["add", "."]);
        git(folder, &["commit", "--quiet", "--message", message]);
        let to = format!("HEAD:refs/heads/{branch}");
        git(folder, &["push", "--quiet", "origin", &to]);
        git(folder, &["rev-parse", "HEAD"])
    }

    /// A branch from the newest main.
    pub(super) fn branch(&self, name: &str) {
        let folder = self.clone.path();
        git(folder, &["fetch", "--quiet", "origin", "main"]);
        git(folder, &["checkout", "--quiet", "-B", name, "FETCH_HEAD"]);
    }

    pub(super) fn open(&self, head: &str) -> u64 {
        let pull = json!({"title": head, "head": head, "base": "main"});
        let pull = self.owner.create(&format!("{IPAM}/pulls"), &pull).unwrap();
        pull["number"].as_u64().unwrap()
    }

    /// Merges the pull request in this way; gives the commit of the merge.
    pub(super) fn merge(&self, number: u64, way: &str) -> String {
        let path = format!("{IPAM}/pulls/{number}");
        let merge = json!({"Do": way});
        // Until Gitea has checked it for conflicts, it refuses. Its answer to a merge is empty.
        wait_until("the pull request to be merged", PATIENCE, || {
            let _ = self.owner.create(&format!("{path}/merge"), &merge);
            let pull = self.owner.get(&path)?;
            let commit = pull["merge_commit_sha"].as_str().map(str::to_owned);
            Ok(commit.filter(|_| pull["merged"] == true))
        })
        .unwrap()
    }

    /// Waits for the run of this event at this commit; gives the conclusion of each job.
    #[track_caller]
    pub(super) fn jobs(&self, event: &str, commit: &str) -> Vec<(String, String)> {
        let id = self.run(event, commit);
        let jobs = self.owner.get(&format!("{IPAM}/actions/runs/{id}/jobs"));
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let jobs = jobs.unwrap();
        let jobs = jobs["jobs"].as_array().unwrap().iter();
        jobs.map(|job| (text(&job["name"]), text(&job["conclusion"])))
            .collect()
    }

    /// Waits for the end of the run of this event at this commit; gives its number.
    #[track_caller]
    pub(super) fn run(&self, event: &str, commit: &str) -> u64 {
        let run = wait_until("the run of the workflow", PATIENCE, || {
            let listed = self.owner.get(&format!("{IPAM}/actions/runs"))?;
            let runs = listed["workflow_runs"].as_array().cloned();
            let is_it = |run: &Value| {
                let seen = run["event"].as_str().unwrap_or_default();
                let branch = run["head_branch"].as_str().unwrap_or_default();
                seen.starts_with(event)
                    && run["head_sha"] == commit
                    && run["status"] == "completed"
                    && (event == PULL || PUSHED.contains(&branch))
            };
            Ok(runs.into_iter().flatten().find(is_it))
        });
        let run = run.unwrap_or_else(|why| panic!("{why}\n{}", self.trace()));
        run["id"].as_u64().unwrap()
    }

    /// Fails with the logs if a job of this event at this commit ended otherwise.
    #[track_caller]
    pub(super) fn expect(&self, event: &str, commit: &str, jobs: &[(&str, &str)]) {
        let mut seen = self.jobs(event, commit);
        seen.sort();
        let expected: Vec<(String, String)> = jobs
            .iter()
            .map(|(name, end)| ((*name).to_owned(), (*end).to_owned()))
            .collect();
        assert_eq!(seen, expected, "{}", self.trace());
    }

    /// The log of every job, and of the runner.
    pub(super) fn trace(&self) -> String {
        let mut text = std::fs::read_to_string(self.runner.log()).unwrap_or_default();
        let listed = self.owner.get(&format!("{IPAM}/actions/tasks")).unwrap();
        text += &format!("{listed:#}\n");
        for job in 1..100 {
            let log = format!("{IPAM}/actions/jobs/{job}/logs");
            if let Ok(log) = self.owner.get_bytes(&log) {
                text += &format!("--- job {job}\n{}\n", String::from_utf8_lossy(&log));
            }
        }
        text
    }

    /// Number, author and text of each comment.
    pub(super) fn comments(&self, number: u64) -> Vec<(u64, String, String)> {
        let path = format!("{IPAM}/issues/{number}/comments");
        let listed = self.owner.get(&path).unwrap();
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let one = |comment: &Value| {
            let (author, body) = (text(&comment["user"]["login"]), text(&comment["body"]));
            (comment["id"].as_u64().unwrap(), author, body)
        };
        listed.as_array().unwrap().iter().map(one).collect()
    }

    pub(super) fn block(&self, node: &str) -> Vec<String> {
        self.server.pod_cidrs()[node].clone()
    }
}

fn base64(text: &str) -> String {
    use base64::Engine;
    base64::engine::general_purpose::STANDARD.encode(text)
}

/// How the names begin that Gitea's API gives the events of `pull_request_target`.
pub(super) const PULL: &str = "pull_request";

/// The branches whose pushes count. A rebase gives the main branch a commit that was pushed to
/// another one before.
const PUSHED: [&str; 2] = ["main", "action"];
