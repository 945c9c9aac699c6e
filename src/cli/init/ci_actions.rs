//! The workflow for GitHub, Gitea and Forgejo. The program decides; the workflow has one command for
//! each job.

use super::ci::{Jobs, SNAPSHOT, filled};

/// Whose workflow it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Actions {
    Github,
    /// Gitea and Forgejo.
    Gitea,
}

impl Actions {
    /// The variable with the token, and its value.
    fn token(self) -> &'static str {
        match self {
            Actions::Github => "GITHUB_TOKEN: ${{ steps.account.outputs.token || github.token }}",
            Actions::Gitea => "GITEA_TOKEN: ${{ secrets.CILIUM_IPAM_TOKEN || github.token }}",
        }
    }

    /// The action that keeps a file. Gitea does not have what the fourth version needs.
    fn upload(self) -> &'static str {
        match self {
            Actions::Github => {
                "actions/upload-artifact@ea165f8d65b6e75b540449e92b4886f43607fa02 # v4.6.2"
            }
            Actions::Gitea => {
                "actions/upload-artifact@ff15f0306b3f739f7b6fd43fb5d26cd321bd4de5 # v3.2.1"
            }
        }
    }

    /// Gitea shows no annotations.
    fn format(self) -> &'static str {
        match self {
            Actions::Github => " -o github",
            Actions::Gitea => "",
        }
    }

    /// Steps that only one of them has.
    fn code_scanning(self) -> &'static str {
        match self {
            Actions::Github => CODE_SCANNING,
            Actions::Gitea => "",
        }
    }

    /// The environment of the jobs that write. Gitea has none.
    fn environments(self) -> [(&'static str, &'static str); 2] {
        match self {
            Actions::Github => [
                (
                    "ENVIRONMENT_OF_REVIEW",
                    "    environment: cilium-ipam-review\n",
                ),
                ("ENVIRONMENT_OF_CLUSTER", "    environment: cilium-ipam\n"),
            ],
            Actions::Gitea => [
                ("ENVIRONMENT_OF_REVIEW", ""),
                ("ENVIRONMENT_OF_CLUSTER", ""),
            ],
        }
    }

    /// The step that gets the token of an account of its own. Any other workflow of the repository
    /// can edit the comments of the job's own token.
    fn account(self) -> &'static str {
        match self {
            Actions::Github => ACCOUNT,
            Actions::Gitea => "",
        }
    }

    /// What these steps may do.
    fn rights(self) -> &'static str {
        match self {
            Actions::Github => {
                "    permissions:\n      contents: read\n      security-events: write\n"
            }
            Actions::Gitea => "",
        }
    }

    fn about_token(self) -> &'static str {
        match self {
            Actions::Github => ABOUT_ACCOUNT,
            Actions::Gitea => {
                "# For pull requests from forks: the secret CILIUM_IPAM_TOKEN, a token of an account of its own\n# with the scopes `write:issue`, `read:user` and `read:repository`. The token of their jobs may not\n# write.\n"
            }
        }
    }
}

const CHECKOUT: &str = "actions/checkout@34e114876b0b11c390a56381ad16ebd13914f8d5 # v4.3.1";

const ACCOUNT: &str = r#"    - name: Account
      id: account
      if: vars.CILIUM_IPAM_APP_ID != ''
      uses: actions/create-github-app-token@fee1f7d63c2ff003460e3d139729b119787bc349 # v2.2.2
      with:
        app-id: ${{ vars.CILIUM_IPAM_APP_ID }}
        private-key: ${{ secrets.CILIUM_IPAM_APP_KEY }}
"#;

const ABOUT_ACCOUNT: &str = "\
# Create a GitHub App that may write pull requests and issues and read contents. Put its id into the
# variable CILIUM_IPAM_APP_ID and its key into the secret CILIUM_IPAM_APP_KEY of the environments
# `cilium-ipam-review` and `cilium-ipam`. Limit both environments to the main branch, and keep
# KUBECONFIG in `cilium-ipam`. Without the App, the jobs use their own token. Then each workflow of the
# repository can edit the comment that `apply` trusts.
";

const HEAD: &str = r#"# Checks the pools on each push, shows the plan of a pull request as a comment, applies exactly that
# plan after the merge, and keeps an issue open while the cluster differs from the files.
#
# Required: `cilium-ipam` in the PATH of the runner. Install it in a step before the others, or use an
# image that has it.
# For `plan` and `comment`: commit a snapshot, `cilium-ipam snapshot --out SNAPSHOT`. It has names,
# labels and addresses of nodes, and no Secrets.
# For `apply` and `drift`: the secret KUBECONFIG, with the rights of `cilium-ipam schema --rbac apply`.
TOKENname: cilium-ipam
on:
  push:
    paths: PATHS
  # Runs this file as it is on the main branch, so that pull requests from forks get a comment, too.
  # Their files are read as data, at their commit. Nothing of them runs.
  pull_request_target:
    paths: PATHS
  schedule:
  - cron: "17 * * * *"
  workflow_dispatch:
permissions:
  contents: read
jobs:
  validate:
    if: github.event_name == 'push'
    runs-on: ubuntu-latest
RIGHTS    steps:
    - uses: CHECKOUT
      with: {persist-credentials: false}
    - name: Validate
      run: |
        cilium-ipam validate DIRECTORY --strictFORMAT
"#;

/// The findings of all files in one list. Annotations show those of one push.
const CODE_SCANNING: &str = r#"    - name: Findings
      if: success() || failure()
      run: |
        cilium-ipam validate DIRECTORY -o sarif > cilium-ipam.sarif || true
    # In a private repository, code scanning needs a licence. Without one, only this step fails.
    - name: Code scanning
      if: success() || failure()
      continue-on-error: true
      uses: github/codeql-action/upload-sarif@8aad20d150bbac5944a9f9d289da16a4b0d87c1e # v4.36.2
      with:
        sarif_file: cilium-ipam.sarif
        category: cilium-ipam
"#;

const PLAN: &str = r#"  # Has no credential for the cluster, and none that may write. Fails with 2 if the plan has one of the
  # conditions of --fail-on.
  plan:
    if: github.event_name == 'pull_request_target' && github.base_ref == github.event.repository.default_branch
    runs-on: ubuntu-latest
    env:
      HEAD: ${{ github.event.pull_request.head.sha }}
    steps:
    - uses: CHECKOUT
      with: {persist-credentials: false}
    - name: Fetch
      run: |
        git -c "http.extraHeader=Authorization: Basic $(printf 'x-access-token:%s' "$FETCH_WITH" | base64 -w0)" \
          fetch --quiet --depth 1 origin "$HEAD"
      env:
        FETCH_WITH: ${{ github.token }}
    - name: Validate
      run: |
        cilium-ipam validate DIRECTORY --revision "$HEAD" --strictFORMAT
    - name: Plan
      if: success() || failure()
      run: |
        cilium-ipam plan DIRECTORY --revision "$HEAD" --base HEAD --cluster-file SNAPSHOT \
          --fail-on FAIL_ON -o markdown > plan.md || code=$?
        cat plan.md >> "$GITHUB_STEP_SUMMARY"
        exit "${code:-0}"
  # Trusts nothing of the job above: it plans again from the commit and the snapshot of the main
  # branch. Fails as that one does, and the comment says so.
  comment:
    if: github.event_name == 'pull_request_target' && github.base_ref == github.event.repository.default_branch
    runs-on: ubuntu-latest
ENVIRONMENT_OF_REVIEW    permissions:
      contents: read
      pull-requests: write
    env:
      HEAD: ${{ github.event.pull_request.head.sha }}
    steps:
    - uses: CHECKOUT
      with: {persist-credentials: false}
    - name: Fetch
      run: |
        git -c "http.extraHeader=Authorization: Basic $(printf 'x-access-token:%s' "$FETCH_WITH" | base64 -w0)" \
          fetch --quiet --depth 1 origin "$HEAD"
      env:
        FETCH_WITH: ${{ github.token }}
ACCOUNT    - name: Comment
      run: |
        cilium-ipam comment DIRECTORY --revision "$HEAD" --base HEAD --cluster-file SNAPSHOT \
          --fail-on FAIL_ON
      env:
        TOKEN
"#;

const APPLY: &str = r#"  # Applies the plan that the comment showed, and no other one, while the main branch has these files
  # and a maintenance window of the Policy is open, if it has any. Tells the outcome in the merged pull
  # request. Outside of the windows, run the job again in one, or wait for it: `wait` for `refuse`.
  apply:
    if: github.event_name == 'push' && github.ref == format('refs/heads/{0}', github.event.repository.default_branch)
    needs: validate
    runs-on: ubuntu-latest
ENVIRONMENT_OF_CLUSTER    permissions:
      contents: read
      pull-requests: write
    steps:
    - uses: CHECKOUT
      with: {persist-credentials: false}
ACCOUNT    - name: Kubeconfig
      run: (umask 077 && printf '%s\n' "$CONFIG" > "$RUNNER_TEMP/kubeconfig")
      env:
        CONFIG: ${{ secrets.KUBECONFIG }}
    - name: Apply
      run: |
        cilium-ipam apply DIRECTORY --reviewed --maintenance-windows refuse --lock-timeout 10m \
          --undo-out undo.json --report-out applied.json --kubeconfig "$RUNNER_TEMP/kubeconfig"
      env:
        TOKEN
    # `history --applied` reads the report.
    - name: Keep the undo plan and the report
      if: always()
      uses: UPLOAD
      with:
        name: applied
        path: |
          undo.json
          applied.json
        if-no-files-found: ignore
  drift:
    if: github.event_name == 'schedule' || github.event_name == 'workflow_dispatch'
    runs-on: ubuntu-latest
ENVIRONMENT_OF_CLUSTER    permissions:
      contents: read
      issues: write
    steps:
    - uses: CHECKOUT
      with: {persist-credentials: false}
ACCOUNT    - name: Kubeconfig
      run: (umask 077 && printf '%s\n' "$CONFIG" > "$RUNNER_TEMP/kubeconfig")
      env:
        CONFIG: ${{ secrets.KUBECONFIG }}
    - name: Drift
      run: |
        cilium-ipam drift DIRECTORY --kubeconfig "$RUNNER_TEMP/kubeconfig"
      env:
        TOKEN
"#;

/// The workflow.
pub(super) fn workflow(jobs: &Jobs<'_>, actions: Actions) -> String {
    let [review, cluster] = actions.environments();
    let common = [
        review,
        cluster,
        ("SNAPSHOT", SNAPSHOT),
        ("FORMAT", actions.format()),
        ("FAIL_ON", jobs.fail_on),
        ("PATHS", &jobs.all),
        ("DIRECTORY", &jobs.directory),
        ("CHECKOUT", CHECKOUT),
        ("ACCOUNT", actions.account()),
        ("UPLOAD", actions.upload()),
        ("RIGHTS", actions.rights()),
    ];
    let head = [&common[..], &[("TOKEN", actions.about_token())]].concat();
    let values = [&common[..], &[("TOKEN", actions.token())]].concat();
    let rest = filled(&[actions.code_scanning(), PLAN, APPLY].concat(), &values);
    filled(HEAD, &head) + &rest
}
