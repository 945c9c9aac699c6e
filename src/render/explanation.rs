//! An explanation as text.

use super::text::{Paint, grouped_digits, printable, table};
use ipam_core::alloc::WhenFull;
use ipam_doctor::explain::{
    ExplainedRange, Explanation, NodeExplanation, PoolExplanation, PoolNode, RangeExplanation,
    RequirementResult, ServiceExplanation, SharingExplanation,
};

/// Every step of the decision, for people.
pub fn explanation(explanation: &Explanation) -> String {
    match explanation {
        Explanation::Node(node) => of_node(node),
        Explanation::Pool(pool) => of_pool(pool),
        Explanation::Range(range) => of_range(range),
        Explanation::Service(service) => of_service(service),
        Explanation::Sharing(sharing) => of_sharing(sharing),
    }
}

fn heading(text: &str) -> String {
    format!("{}\n", Paint::Bold.on(&printable(text)))
}

fn line(text: &str) -> String {
    format!("  {}\n", printable(text))
}

fn requirements(results: &[RequirementResult]) -> String {
    if results.is_empty() {
        return "      selects everything\n".to_owned();
    }
    let one = |result: &RequirementResult| {
        let (mark, label) = (
            if result.met { "yes" } else { "no " },
            result.label.as_deref().unwrap_or("no such label"),
        );
        format!(
            "      {mark}  {}  ({})\n",
            printable(&result.requirement),
            printable(label)
        )
    };
    results.iter().map(one).collect()
}

fn of_node(node: &NodeExplanation) -> String {
    let mut text = heading(&format!("node {}", node.node));
    text.push_str(&line(&format!("outcome     {}", node.outcome)));
    text.push_str(&line(&format!("decided by  {}", node.decided_by)));
    for held in &node.holds {
        let pool = held
            .pool
            .as_ref()
            .map_or_else(|| "of no pool".to_owned(), |pool| format!("of pool {pool}"));
        text.push_str(&line(&format!(
            "shows       {} in {}: {}; {pool}",
            held.block, held.field, held.meaning
        )));
    }
    for skipped in &node.skipped {
        text.push_str(&line(&format!(
            "skipped     {}: {}",
            lower_blocks(skipped.blocks),
            skipped.why
        )));
    }
    text.push_str(&heading("pools, best first"));
    for pool in &node.pools {
        text.push_str(&line(&format!(
            "{}  priority {}  {}  ({})",
            pool.pool, pool.priority, pool.verdict, pool.origin
        )));
        text.push_str(&requirements(&pool.requirements));
    }
    text
}

fn lower_blocks(number: u128) -> String {
    let blocks = if number == 1 {
        "lower block"
    } else {
        "lower blocks"
    };
    format!("{} {blocks}", grouped_digits(number))
}

fn of_pool(pool: &PoolExplanation) -> String {
    let PoolExplanation {
        pool: name,
        origin,
        priority,
        selector,
        disabled,
        when_full,
        ranges,
        nodes,
        other_nodes,
        ..
    } = pool;
    let mut state = if *disabled { ", disabled" } else { "" }.to_owned();
    if *when_full != WhenFull::default() {
        state += &format!(", whenFull {when_full}");
    }
    let mut text = heading(&format!("pool {name}"));
    text.push_str(&line(&format!("priority {priority}{state}  ({origin})")));
    text.push_str(&line(&format!("selects   {selector}")));
    text.push_str(&heading("ranges, in the order of use"));
    let row = |range: &ExplainedRange| {
        let ExplainedRange {
            range,
            total,
            used,
            reserved,
            free,
            next,
        } = range;
        let [total, used, reserved, free] = [total, used, reserved, free].map(grouped_digits);
        let next = if next.is_empty() {
            "-".to_owned()
        } else {
            next.join(" ")
        };
        [range.clone(), total, used, reserved, free, next]
    };
    text.push_str(&table(
        ["RANGE", "BLOCKS", "USED", "RESERVED", "FREE", "NEXT FREE"],
        &ranges.iter().map(row).collect::<Vec<_>>(),
    ));
    text.push_str(&heading(&format!(
        "nodes ({}; {} others)",
        nodes.len(),
        grouped_digits(other_nodes)
    )));
    for node in nodes {
        let PoolNode {
            node,
            holds,
            verdict,
            requirements: results,
        } = node;
        let holds = match holds.is_empty() {
            true => String::new(),
            false => format!("  {}", holds.join(" ")),
        };
        text.push_str(&line(&format!("{node}{holds}  {verdict}")));
        if results.iter().any(|result| !result.met) {
            text.push_str(&requirements(results));
        }
    }
    text
}

fn of_service(service: &ServiceExplanation) -> String {
    let mut text = heading(&format!("Service {}", service.service));
    let reason = service.reason.as_deref().unwrap_or("nothing yet");
    text.push_str(&line(&format!("Cilium says  {reason}")));
    service
        .addresses
        .iter()
        .for_each(|address| text.push_str(&line(&format!("has          {address}"))));
    service
        .requested
        .iter()
        .for_each(|requested| text.push_str(&line(&format!("wants        {requested}"))));
    service
        .outlook
        .iter()
        .for_each(|outlook| text.push_str(&line(&format!("next         {outlook}"))));
    text.push_str(&heading("pools"));
    for pool in &service.pools {
        text.push_str(&line(&format!("{}  {}", pool.pool, pool.verdict)));
        text.push_str(&requirements(&pool.requirements));
    }
    text
}

fn of_sharing(sharing: &SharingExplanation) -> String {
    let [one, other] = &sharing.services;
    let mut text = heading(&format!("Services {one} and {other}"));
    text.push_str(&line(&sharing.verdict));
    sharing
        .obstacles
        .iter()
        .for_each(|why| text.push_str(&line(why)));
    text
}

fn of_range(range: &RangeExplanation) -> String {
    if range.uses.is_empty() {
        return format!(
            "{} is not used, assigned or excluded by anything here.\n",
            printable(&range.subject)
        );
    }
    let row = |one: &ipam_doctor::explain::Use| {
        let cells = [
            &one.object,
            &one.range,
            one.relation.as_str(),
            one.meaning,
            &one.field,
        ];
        cells.map(|cell| printable(cell).into_owned())
    };
    let rows: Vec<[String; 5]> = range.uses.iter().map(row).collect();
    let mut text = table(["OBJECT", "RANGE", "RELATION", "MEANING", "FIELD"], &rows);
    if !range.answers.is_empty() {
        text.push_str(&heading("who answers"));
        range
            .answers
            .iter()
            .for_each(|answer| text.push_str(&line(answer)));
    }
    text
}
