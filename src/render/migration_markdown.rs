//! The schedule of a migration as a comment for a pull request. It fits into the limit of the large
//! Git hosts.

use super::human::{Detail, named};
use super::markdown_page::{Entry, Fold, Page, PageLimit, Table, UpTo, WHOLE};
use super::markup::{Phrase, code, codes, prose};
use super::migration::{
    headline, lacks_pods, left_by_cause, moves_by_name, of_wave, reasons_of, risks_of, steps_of,
    time, wave_title,
};
use super::text::count;
use ipam_planner::migration::{MoveDocument, ScheduleDocument};

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
    commands(&mut page, "After the last wave, run:", &schedule.after);
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

fn steps(page: &mut Page<'_>, moves: &[MoveDocument]) {
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
        let row = |one: &MoveDocument| {
            let (pods, takes) = match one.pods {
                Some(pods) => (pods.to_string(), time(one.estimate_seconds)),
                None => ("?".to_owned(), "?".to_owned()),
            };
            [
                code(&one.node),
                codes(&one.from),
                codes(&one.to),
                code(&one.pool),
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

fn commands(page: &mut Page<'_>, title: &str, commands: &[String]) {
    if commands.is_empty() {
        return;
    }
    let each = commands
        .iter()
        .map(|command| format!("\n- {}", code(command)));
    let text = format!("\n{title}\n{}\n", each.collect::<String>());
    page.part(Entry { text, count: 1 }, "command");
}
