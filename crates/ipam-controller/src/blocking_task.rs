//! Judges plans on a thread of their own: rules may take seconds, and the task renews its Lease
//! meanwhile. It must never decide anything.

use std::collections::BTreeSet;

use tokio::task::spawn_blocking;

use crate::Job;
use ipam_cilium::observed::Observed;
use ipam_core::model::Waiver;
use ipam_desired::Desired;
use ipam_planner::plan::{Change, Plan, Refusal, Unattended, effects, refusals, unattended};

/// Plans for an observed cluster, and gives it back.
pub(crate) async fn plan(job: &Job<'_>, observed: Observed) -> (Observed, Plan) {
    if !is_slow(&job.loaded.desired) {
        let plan = job.plan(&observed);
        return (observed, plan);
    }
    let (loaded, undo) = (job.loaded.clone(), job.undo.cloned());
    let (waivers, selection) = (job.waivers.clone(), job.selection.clone());
    in_blocking_task(move || {
        let job = Job {
            loaded: &loaded,
            undo: undo.as_ref(),
            waivers: &waivers,
            openstack: None,
            selection: &selection,
        };
        let plan = job.plan(&observed);
        (observed, plan)
    })
    .await
}

/// The parts of a plan that need a person, and that need none.
pub(crate) async fn part(
    plan: &Plan,
    desired: &Desired,
    observed: &Observed,
    waivers: &BTreeSet<Waiver>,
) -> Unattended {
    if !is_slow(desired) {
        return unattended(plan, desired, observed, waivers);
    }
    let (plan, desired) = (plan.clone(), desired.clone());
    let (observed, waivers) = (observed.clone(), waivers.clone());
    in_blocking_task(move || unattended(&plan, &desired, &observed, &waivers)).await
}

/// Limits, protections and rules that refuse these changes and are not waived.
pub(crate) async fn refused(
    job: &Job<'_>,
    changes: &[Change],
    observed: &Observed,
) -> Vec<Refusal> {
    let desired = &job.loaded.desired;
    let mut refused = match is_slow(desired) {
        false => refusals(changes, &effects(changes, observed), desired, observed),
        true => {
            let (changes, desired) = (changes.to_vec(), desired.clone());
            let observed = observed.clone();
            let judging =
                move || refusals(&changes, &effects(&changes, &observed), &desired, &observed);
            in_blocking_task(judging).await
        }
    };
    refused.retain(|refusal| !refusal.is_waived(job.waivers));
    refused
}

/// Only rules take long, and another thread needs copies.
fn is_slow(desired: &Desired) -> bool {
    !desired.policy.rules.is_empty()
}

async fn in_blocking_task<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    match spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            // The runtime ends.
            Err(_) => std::future::pending().await,
        },
    }
}

#[cfg(test)]
mod tests {
    use std::future::ready;
    use std::pin::pin;
    use std::sync::Arc;

    use super::*;
    use crate::check_documents;
    use ipam_config::documents::{Documents, SourceFile};

    const POLICY: &str = "apiVersion: cilium-ipam.io/v1alpha1
kind: IPAMPolicy
metadata: {name: default}
spec: {rules: [{name: never, expression: \"false\"}]}
";

    /// No thread is free, so nothing is judged until the test lets one go.
    #[test]
    fn rules_are_judged_on_another_thread() {
        let file = SourceFile {
            path: Arc::from("policy.yaml"),
            text: Arc::from(POLICY),
        };
        let loaded = check_documents(Documents { files: vec![file] }, Vec::new());
        assert!(!loaded.has_errors(), "{:?}", loaded.findings);
        let job = Job::files(&loaded);
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.max_blocking_threads(1).build().unwrap();
        runtime.block_on(async {
            let (release, held) = std::sync::mpsc::channel::<()>();
            let occupied = spawn_blocking(move || held.recv());
            let mut planning = pin!(plan(&job, Observed::default()));
            tokio::select! {
                biased;
                _ = &mut planning => panic!("the task judged"),
                () = ready(()) => {}
            }
            drop(release);
            assert!(occupied.await.unwrap().is_err());
            let (observed, plan) = planning.await;
            assert!(plan.findings.iter().any(|one| one.rule.0 == "policy-rule"));
            let desired = &loaded.desired;
            let parted = part(&plan, desired, &observed, job.waivers).await;
            assert!(parted.applied.is_empty());
            assert!(refused(&job, &plan.changes, &observed).await.is_empty());
        });
    }
}
