//! How far a migration came, for a person at a terminal: counts, and each node that is under way or
//! failed.
//!
//! The schedule of a migration as a comment for a pull request.

use super::human::{Detail, limit, named};
use super::markdown_page::{Entry, Fold, Page, PageLimit, Table, UpTo, WHOLE};
use super::markup::{Phrase, code, codes, prose};
use super::migration::{
    commands, grouped, headline, lacks_pods, left_by_cause, moves_by_name, of_wave, reasons_of,
    risks_of, steps_of, time, wave_title,
};
use super::migration_status::{
    MigrationCounts, MigrationStatus, NextStep, NodeStatus, WindowsStatus,
};
use super::text::{Paint, count, grouped_digits, printable};
use ipam_core::model::NodeName;
use ipam_core::text::by_name;
use ipam_migrate::migration::{Direction, NodeMove, ScheduleDocument};

/// The status as text.
pub fn migration_status(status: &MigrationStatus, detail: Detail) -> String {
    // Every field is named, so that a new one cannot be forgotten here.
    let MigrationStatus {
        id,
        state,
        note,
        not_back,
        runs_as,
        waits_for,
        windows,
        directory,
        check,
        unseen,
        waves,
        waves_done,
        counts,
        nodes,
        next,
    } = status;
    let title = format!("migration {}: {state}", printable(id));
    let mut text = format!("{}\n", Paint::Bold.on(&title));
    let red = |line: &str| format!("  {}\n", Paint::Red.on(&printable(line)));
    let line = |what: &str, value: &Option<String>| {
        let value = value.as_ref();
        value.map_or_else(String::new, |value| {
            format!("  {what} {}\n", printable(value))
        })
    };
    text += &note.as_deref().map_or_else(String::new, red);
    if !not_back.is_empty() {
        let names: Vec<String> = not_back.iter().map(NodeName::to_string).collect();
        text += &red(&format!("not back: {}", named(&names, detail)));
    }
    text += &format!("  files: {}\n", printable(directory));
    text += &line("carried out by", runs_as);
    text += &windows
        .as_ref()
        .map_or_else(String::new, WindowsStatus::text);
    text += &line("waits for", waits_for);
    text += &line("each moved node must pass your check:", check);
    text += &format!(
        "  {} of {} done\n  {}\n",
        grouped_digits(waves_done),
        count(*waves, "wave"),
        sentence(counts)
    );
    text += &under_way(nodes, detail);
    text += &line("what they wait for is unknown:", unseen);
    text += &failed(nodes, detail);
    text += &left_alone(nodes, detail);
    for NextStep {
        why,
        commands: lines,
    } in next
    {
        text += &commands(why, lines);
    }
    text
}

fn sentence(counts: &MigrationCounts) -> String {
    let MigrationCounts {
        nodes,
        pending,
        under_way,
        moved,
        back,
        failed,
    } = counts;
    let parts = [
        (moved, "moved"),
        (back, "back"),
        (under_way, "under way"),
        (failed, "failed"),
        (pending, "not begun"),
    ];
    let parts = parts
        .iter()
        .filter(|(number, _)| **number > 0)
        .map(|(number, what)| format!("{} {what}", grouped_digits(*number)));
    format!(
        "{}: {}",
        count(*nodes, "node"),
        parts.collect::<Vec<_>>().join(", ")
    )
}

fn under_way(nodes: &[NodeStatus], detail: Detail) -> String {
    let nodes = by_name(nodes, |one| one.node.as_str());
    let rows: Vec<&&NodeStatus> = nodes.iter().filter(|one| one.is_under_way()).collect();
    if rows.is_empty() {
        return String::new();
    }
    let shown = &rows[..rows.len().min(limit(detail))];
    let width = shown
        .iter()
        .map(|one| one.node.as_str().chars().count())
        .max();
    let width = width.unwrap_or_default();
    let mut text = format!("\n{}\n", Paint::Bold.on("under way"));
    for one in shown {
        let back = match one.direction {
            Direction::Back => " (back)",
            Direction::Forward => "",
        };
        text += &format!(
            "  {:width$}  {}{back}, since {}\n",
            one.node, one.phase, one.since
        );
        if let Some(waits_for) = &one.waits_for {
            text += &format!("  {:width$}  waits: {}\n", "", printable(waits_for));
        }
    }
    match rows.len() - shown.len() {
        0 => text,
        more => {
            text + &format!(
                "  … and {} more; --show-all shows all\n",
                grouped_digits(more)
            )
        }
    }
}

/// Failed nodes by step and reason.
fn failed(nodes: &[NodeStatus], detail: Detail) -> String {
    let cause = |one: &NodeStatus| Some(format!("{}: {}", one.phase, one.failure.as_ref()?));
    by_cause("failed", Paint::Red, nodes, cause, detail)
}

/// Nodes for which nothing is left to do, by reason.
fn left_alone(nodes: &[NodeStatus], detail: Detail) -> String {
    by_cause(
        "left as they are",
        Paint::Yellow,
        nodes,
        |one| one.note.clone(),
        detail,
    )
}

fn by_cause(
    title: &str,
    paint: Paint,
    nodes: &[NodeStatus],
    cause: impl Fn(&NodeStatus) -> Option<String>,
    detail: Detail,
) -> String {
    let nodes = by_name(nodes, |one| one.node.as_str()).into_iter();
    let groups = grouped(nodes.filter_map(|one| Some((cause(one)?, one.node.to_string()))));
    if groups.is_empty() {
        return String::new();
    }
    let mut text = format!("\n{}\n", Paint::Bold.on(title));
    for (why, names) in groups.iter().take(limit(detail)) {
        text += &format!(
            "  {} {}\n      {}\n",
            paint.on("!"),
            printable(&named(names, detail)),
            printable(why)
        );
    }
    match groups.len().saturating_sub(limit(detail)) {
        0 => text,
        more => {
            text + &format!(
                "  … and {} more; --show-all shows all\n",
                grouped_digits(more)
            )
        }
    }
}

/// The schedule as Markdown.
pub fn migration_markdown(schedule: &ScheduleDocument, detail: Detail, limit: PageLimit) -> String {
    let tail = format!(
        "\n{} · digest {}\n",
        code(&schedule.directory),
        code(&schedule.digest)
    );
    let unseen = match lacks_pods(schedule) {
        true => "\n\n**The Pods are unknown, because the cluster is a file.**",
        false => "",
    };
    let mut page = Page::new(
        limit,
        format!("### {}{unseen}\n", headline(schedule)),
        &tail,
    );
    remarks(&mut page, &schedule.remarks);
    left_behind(&mut page, schedule, detail);
    groups(
        &mut page,
        "risk",
        &risks_of(&schedule.moves, detail),
        detail,
    );
    groups(&mut page, "why", &reasons_of(&schedule.moves), detail);
    steps(&mut page, &schedule.moves);
    waves(&mut page, schedule);
    page_commands(&mut page, "After the last wave, run:", &schedule.after);
    page.finish()
}

fn remarks(page: &mut Page<'_>, remarks: &[String]) {
    let line = |remark: &String| format!("\n- **note** {}", prose(remark));
    let lines = page.each(remarks, |_| 1, line);
    page.list(lines, UpTo(3), "note");
}

fn left_behind(page: &mut Page<'_>, schedule: &ScheduleDocument, detail: Detail) {
    let groups = left_by_cause(&schedule.left_out, detail);
    let lines = page.each(
        &groups,
        |(_, nodes)| nodes.len(),
        |((why, help), nodes)| {
            let help = match help.is_empty() {
                true => String::new(),
                false => format!("; {}", prose(help)),
            };
            let names = prose(&named(nodes, detail));
            format!("\n- **stays** {names}: {}{help}", prose(why))
        },
    );
    page.list(lines, UpTo(3), "node that stays");
}

fn groups(page: &mut Page<'_>, word: &str, groups: &[(String, Vec<String>)], detail: Detail) {
    let lines = page.each(
        groups,
        |(_, nodes)| nodes.len(),
        |(shared, nodes)| {
            let all = count(nodes.len(), "node");
            let names = prose(&named(nodes, detail));
            format!("\n- **{word}** ({all}: {names}): {}", prose(shared))
        },
    );
    page.list(lines, UpTo(5), "reason");
}

fn steps(page: &mut Page<'_>, moves: &[NodeMove]) {
    let methods = steps_of(moves);
    let lines = page.each(
        methods,
        |_| 1,
        |(method, (steps, nodes))| {
            let all = count(nodes, "node");
            format!("\n- **steps** {} ({all}): {}", code(method), codes(steps))
        },
    );
    page.list(lines, UpTo(5), "method");
}

fn waves(page: &mut Page<'_>, schedule: &ScheduleDocument) {
    let by_name = moves_by_name(&schedule.moves);
    for (index, wave) in schedule.waves.iter().enumerate() {
        let title = wave_title(index + 1, schedule.waves.len(), wave);
        let row = |one: &NodeMove| {
            let (pods, takes) = match one.pods {
                Some(pods) => (pods.to_string(), time(one.estimate.as_secs())),
                None => ("?".to_owned(), "?".to_owned()),
            };
            [
                code(one.node.as_str()),
                codes(&one.from),
                codes(&one.to),
                code(one.pool.as_str()),
                prose(&pods),
                prose(&takes),
            ]
        };
        page.table(Table {
            title: Phrase::new("").value(&title),
            heading: ["node", "from", "to", "pool", "Pods", "takes about"],
            rows: page.each(of_wave(wave, &by_name), |_| 1, row),
            noun: "node",
            fold: Fold::Folded,
            up_to: WHOLE,
        });
    }
}

fn page_commands(page: &mut Page<'_>, title: &str, commands: &[String]) {
    if commands.is_empty() {
        return;
    }
    let each = commands
        .iter()
        .map(|command| format!("\n- {}", code(command)));
    let text = format!("\n{title}\n{}\n", each.collect::<String>());
    page.part(Entry { text, count: 1 }, "command");
}
