//! Lowers a label selector to a [`Selector`].

use crate::documents::context::{Context, keys};
use crate::documents::schema::{LabelSelector, SelectorOperator};
use crate::documents::tree::Step;
use ipam_core::model::{Operator, Requirement, Selector};

pub(super) fn lower(context: &mut Context<'_>, written: &LabelSelector, at: &[Step]) -> Selector {
    let mut requirements = Vec::new();
    for (key, value) in &written.match_labels {
        let path = [at, &keys(["matchLabels", key])].concat();
        let operator = Operator::In([value.clone()].into());
        requirements.extend(requirement(context, key, operator, &path));
    }
    for (index, expression) in written.match_expressions.iter().enumerate() {
        let Some(expression) = expression else {
            continue;
        };
        let path = [at, &keys(["matchExpressions"]), &[Step::Index(index)]].concat();
        let values = expression.values.iter().cloned().collect();
        let operator = match expression.operator {
            SelectorOperator::In => Operator::In(values),
            SelectorOperator::NotIn => Operator::NotIn(values),
            SelectorOperator::Exists => Operator::Exists,
            SelectorOperator::DoesNotExist => Operator::DoesNotExist,
        };
        if matches!(operator, Operator::Exists | Operator::DoesNotExist)
            && !expression.values.is_empty()
        {
            let origin = context.document.origin(&[path, keys(["values"])].concat());
            let message = format!("`{}` takes no values", expression.operator.as_str());
            context.fault(
                "bad-selector",
                message,
                &origin,
                "values",
                "remove `values`",
            );
            continue;
        }
        requirements.extend(requirement(context, &expression.key, operator, &path));
    }
    Selector::all_of(requirements)
}

fn requirement(
    context: &mut Context<'_>,
    key: &str,
    operator: Operator,
    path: &[Step],
) -> Option<Requirement> {
    let help = "write it as in a Kubernetes label selector";
    match Requirement::new(key, operator) {
        Ok(requirement) => Some(requirement),
        Err(error) => {
            let origin = context.document.origin(path);
            context.fault(
                "bad-selector",
                error.to_string(),
                &origin,
                "cannot match a label",
                help,
            );
            None
        }
    }
}
