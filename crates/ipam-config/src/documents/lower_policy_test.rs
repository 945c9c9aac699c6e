//! Lowers a `PolicyTest` document to cases. Knows no rule: `policy test` joins them.

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::json;

use crate::documents::context::{Context, keys};
use crate::documents::schema_policy_test::{
    PolicyTestDocument, WrittenCase, WrittenExpectation, WrittenPlan,
};
use crate::documents::tree::Step;
use ipam_core::model::Origin;
use ipam_desired::{Expectation, RuleCase};

/// The cases of a document without structural faults.
pub(super) fn lower(context: &mut Context<'_>, written: PolicyTestDocument) -> Vec<RuleCase> {
    let cases = written.spec.and_then(|spec| spec.cases);
    let mut lowered = Vec::new();
    for (index, case) in cases.into_iter().flatten().enumerate() {
        let Some(case) = case else { continue };
        let path = [keys(["spec", "cases"]), vec![Step::Index(index)]].concat();
        let origin = context
            .document
            .origin(&[&path[..], &keys(["rule"])].concat());
        let expects_broken = matches!(case.expect, Some(WrittenExpectation::Broken));
        if case.message.is_some() && !expects_broken {
            let message = [path, keys(["message"])].concat();
            context.fault(
                "bad-policy-test",
                "a case expects a message, but no broken rule",
                &context.document.origin(&message),
                "no rule says it",
                "write `expect: broken`, or remove `message`",
            );
        }
        lowered.extend(self::case(case, origin));
    }
    lowered
}

fn case(written: WrittenCase, origin: Origin) -> Option<RuleCase> {
    let WrittenCase {
        rule,
        name,
        expect,
        message,
        plan: WrittenPlan { changes, services },
        pools,
        nodes,
    } = written;
    Some(RuleCase {
        rule: rule?,
        name,
        expected: match expect? {
            WrittenExpectation::Holds => Expectation::Holds,
            WrittenExpectation::Broken => Expectation::Broken,
            WrittenExpectation::NoResult => Expectation::NoResult,
        },
        message,
        origin,
        changes: as_written(&changes),
        services: as_written(&services),
        pools: pools.map(|pools| as_written(&pools)),
        nodes: as_written(&nodes),
    })
}

/// The fields that are written, as JSON.
fn as_written<T: DeserializeOwned + Default>(parts: &impl Serialize) -> T {
    serde_json::from_value(json!(parts)).unwrap_or_default()
}
