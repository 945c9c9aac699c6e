//! Fields and texts that no value has are found before there is a value.

use super::*;

const HAZARDS: &[&str] = &["none", "disruptive", "destructive"];

fn variables() -> Fields {
    let change = Shape::fields([
        ("name", Shape::Scalar),
        ("hazard", Shape::OneOf(HAZARDS)),
        ("after", Shape::list(Shape::Scalar)),
        ("labels", Shape::map(Shape::Scalar)),
        ("edit", Shape::Any),
        ("origin", Shape::fields([("file", Shape::Scalar)])),
    ]);
    Fields::from([
        (
            "plan",
            Shape::fields([("changes", Shape::list(change.clone()))]),
        ),
        ("nodes", Shape::map(change)),
    ])
}

fn fault(source: &str) -> Option<(Fault, String)> {
    let error = Expression::compile(source, &variables()).err()?;
    let at = error.at.unwrap_or_else(|| panic!("{source}: no place"));
    Some((error.fault, source[at].to_owned()))
}

#[test]
fn an_unknown_field_is_found_where_it_stands() {
    for source in [
        "plan.poool",
        "plan.changes.all(c, c.poool != '')",
        "plan.changes.all(c, has(c.poool))",
        "plan.changes.all(c, c.?poool.orValue('') == '')",
        "plan.changes.all(c, c[?'poool'].orValue('') == '')",
        "plan.changes.all(c, c['poool'] == '')",
        "plan.changes.all(c, 'poool' in c)",
        "plan.changes[0].poool == ''",
        "plan.changes.filter(c, c.name == 'poooool')[0].poool == ''",
        "plan.changes.filter(c, c.hazard == 'none').filter(d, d.poool == '').size() == 0",
        "plan.changes.map(c, c.origin).all(o, o.poool == '')",
        "plan.changes.map(c, c.name != '', c.origin).exists_one(o, o.poool == '')",
        "plan.?changes.orValue([]).all(c, c.poool == '')",
        "(true ? plan.changes : plan.changes).all(c, c.poool == '')",
        "(plan.changes + plan.changes).all(c, c.poool == '')",
        "[plan.changes[0]].all(c, c.poool == '')",
        "nodes.all(name, nodes[name].poool == '')",
        "'ä' == '' && nodes.exists(name, nodes['a'].poool == '')",
        "plan.changes.all(c, plan.changes.exists(d, c.name == d.name && d.poool == ''))",
        "{'a': plan.poool} == {}",
    ] {
        let (fault, at) = fault(source).unwrap_or_else(|| panic!("{source} is accepted"));
        assert!(
            matches!(&fault, Fault::UnknownField { name, .. } if name == "poool"),
            "{source}: {fault}"
        );
        assert_eq!(at, "poool", "{source}");
    }
}

#[test]
fn a_text_that_the_field_never_has_is_found() {
    for source in [
        "plan.changes.all(c, c.hazard != 'nonne')",
        "plan.changes.all(c, 'nonne' == c.hazard)",
        "plan.changes.all(c, c.hazard in ['none', 'nonne'])",
        "'nonne' in plan.changes.map(c, c.hazard) || plan.changes[0]['hazard'] == 'nonne'",
    ] {
        let (fault, at) = fault(source).unwrap_or_else(|| panic!("{source} is accepted"));
        assert!(
            matches!(fault, Fault::UnknownValue { .. }),
            "{source}: {fault}"
        );
        assert_eq!(at, "nonne", "{source}");
    }
    let (fault, at) = fault("plan.changes.name == 'a'").unwrap();
    assert_eq!((fault, &*at), (Fault::NoFields("name".to_owned()), "name"));
}

#[test]
fn what_may_exist_is_accepted() {
    for source in [
        "plan.changes.all(c, c.labels.rack == '' || has(c.labels.zone) || 'tier' in c.labels)",
        "plan.changes.all(c, c.labels[?'rack'].orValue('') == '' && c.?labels.rack == c.name)",
        "plan.changes.all(c, c.edit.anything.else == 1 || dyn(c).poool == '')",
        "plan.changes.all(c, c.hazard == c.name || c.?hazard.orValue('x') == 'x')",
        "plan.changes.all(c, c.hazard in plan.changes.map(d, d.name))",
        "nodes['worker-1'].name == '' && nodes.all(n, n == nodes[n].name)",
        "[{'a': 1}].all(x, x.a == 1) && plan.changes.map(c, {'b': c.name})[0].b == ''",
        "plan.changes.all(plan, plan.name != '') && plan.changes.exists_one(c, c.name == '')",
    ] {
        assert_eq!(fault(source).map(|(fault, _)| fault), None, "{source}");
    }
}
