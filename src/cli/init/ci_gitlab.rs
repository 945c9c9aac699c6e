//! The pipeline for GitLab. The program decides; the pipeline has one command for each job.

use super::ci::{Jobs, SNAPSHOT, filled};

const PIPELINE: &str = r#"# Checks the pools, shows the plan of a merge request as a comment, applies exactly that plan after the
# merge, and keeps an issue open while the cluster differs from the files.
#
# Variables, all of them masked:
# - GITLAB_TOKEN, for comments and the issue: a project access token with the scope `api` and the role
#   Reporter.
# - KUBECONFIG of the type "File", protected: with the rights of `cilium-ipam schema --rbac apply`.
# For the drift job, create a schedule under "Build", "Pipeline schedules".
.cilium-ipam:
  # Required: an image or a runner with `cilium-ipam` in the PATH.
  # image: registry.example/cilium-ipam-ci
  before_script:
  - cilium-ipam version

cilium-ipam-validate:
  extends: .cilium-ipam
  rules:
  - if: $CI_PIPELINE_SOURCE == "push"
    changes: CHANGES
  script:
  - |
    cilium-ipam validate DIRECTORY --strict -o junit > validate.xml
  artifacts:
    when: always
    reports:
      junit: validate.xml

cilium-ipam:
  extends: .cilium-ipam
  rules:
  - if: $CI_PIPELINE_SOURCE == "merge_request_event"
    changes: CHANGES
  script:
  # The plan is made even if the files are faulty. The job fails with the first failure of the two.
  # For the plan, commit a snapshot: `cilium-ipam snapshot --out SNAPSHOT`. It has names, labels
  # and addresses of nodes, and no Secrets. The plan fails with 2 if it has one of the conditions of
  # --fail-on.
  - |
    cilium-ipam validate DIRECTORY --strict -o junit > validate.xml || code=$?
    if [ -f SNAPSHOT ]; then
      git fetch --quiet --depth 1 origin "$CI_MERGE_REQUEST_TARGET_BRANCH_NAME"
      cilium-ipam plan DIRECTORY --base FETCH_HEAD --cluster-file SNAPSHOT \
        --fail-on FAIL_ON -o markdown > plan.md || code=${code:-$?}
      if [ -n "${GITLAB_TOKEN:-}" ]; then
        cilium-ipam comment DIRECTORY --base FETCH_HEAD --cluster-file SNAPSHOT \
          --fail-on FAIL_ON || code=${code:-$?}
      fi
    fi
    exit "${code:-0}"
  artifacts:
    when: always
    paths: [plan.md]
    reports:
      junit: validate.xml

# Applies the plan that the comment showed, and no other one, while the main branch has these files and
# a maintenance window of the Policy is open, if it has any. Tells the outcome in the merge request.
# Outside of the windows, run the job again in one, or wait for it: `wait` for `refuse`.
cilium-ipam-apply:
  extends: .cilium-ipam
  rules:
  - if: $CI_PIPELINE_SOURCE == "push" && $CI_COMMIT_BRANCH == $CI_DEFAULT_BRANCH
    changes: CHANGES
  environment: {name: cilium-ipam}
  resource_group: cilium-ipam
  script:
  - |
    cilium-ipam apply DIRECTORY --reviewed --maintenance-windows refuse \
      --lock-timeout 10m --undo-out undo.json --report-out applied.json
  artifacts:
    when: always
    paths: [undo.json, applied.json]

cilium-ipam-drift:
  extends: .cilium-ipam
  rules:
  - if: $CI_PIPELINE_SOURCE == "schedule"
  environment: {name: cilium-ipam, action: access}
  script:
  - |
    cilium-ipam drift DIRECTORY
"#;

/// The pipeline.
pub(super) fn pipeline(jobs: &Jobs<'_>) -> String {
    filled(
        PIPELINE,
        &[
            ("SNAPSHOT", SNAPSHOT),
            ("FAIL_ON", jobs.fail_on),
            ("CHANGES", &jobs.all_below),
            ("DIRECTORY", &jobs.directory),
        ],
    )
}
