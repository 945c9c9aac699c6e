//! Which apply wrote an address, from the reports that applies write.

use super::POOL;
use super::repo::Repo;
use crate::support::{KUBERNETES, TextAssertions, cluster, node, pool};

/// Two applies, one after the other, each with its report.
fn applied() -> Repo {
    let mut repo = Repo::new();
    repo.write("pools/a.yaml", pool("rack-a", POOL));
    repo.commit("Ada", "Begin");
    std::fs::create_dir(repo.folder.join("reports")).unwrap();
    let mut nodes = Vec::new();
    for name in ["worker-1", "worker-7"] {
        nodes.push(node(name, "a", ""));
        if name == "worker-1" {
            repo.write("state.json", cluster("1.19.3", KUBERNETES, &nodes));
        } else {
            let mut state: serde_json::Value =
                serde_json::from_str(&repo.folder.read("state.json")).unwrap();
            let new = serde_json::from_str(&nodes[1]).unwrap();
            state["items"].as_array_mut().unwrap().push(new);
            repo.write("state.json", state.to_string());
        }
        let report = format!("reports/{name}.json");
        let words = ["apply", "pools", "--cluster-file", "state.json"];
        let flags = ["--auto-approve", "--report-out", &report];
        repo.folder.run(&[&words[..], &flags].concat()).expect(0);
    }
    repo
}

#[test]
fn the_report_of_an_apply_says_what_it_wrote_and_when() {
    let repo = applied();
    let history = repo.history(&["10.20.1.9", "--applied", "reports"]);
    assert_eq!(history["reports"], 2);
    let [found] = &history["applied"].as_array().unwrap()[..] else {
        panic!("{history:#}")
    };
    assert_eq!(found["object"], "Node/worker-7");
    assert_eq!(found["after"], serde_json::json!(["10.20.1.0/24"]));
    assert_eq!(found["outcome"], "applied");
    assert_eq!(found["report"], "reports/worker-7.json");
    let time = found["time"].as_str().unwrap();
    assert!(time.parse::<jiff::Timestamp>().is_ok(), "{time}");

    let named = ["worker-1", "--applied", "reports/worker-1.json"];
    let text = repo.run(&named).expect(0).stdout;
    text.assert_has("applies, of 1 report\n  Node/worker-1  assign 10.20.0.0/24\n");
    let none = repo
        .run(&["10.20.9.9", "--applied", "reports"])
        .expect(0)
        .stdout;
    none.assert_has("applies, of 2 reports\n  none changed it\n");
    let before = ["10.20.1.9", "--applied", "reports", "--until", "2026-03-02"];
    assert_eq!(repo.history(&before)["applied"], serde_json::json!([]));
}

#[test]
fn a_file_that_is_no_report_is_told() {
    let repo = applied();
    repo.write(
        "reports/other.json",
        "{\"format_version\": \"1.3\", \"applied\": []}",
    );
    repo.write("reports/notes.txt", "not read");
    let arguments = ["worker-7", "--applied", "reports", "--applied", "gone.json"];
    let history = repo.history(&arguments);
    assert_eq!(history["reports"], 2);
    let unread = history["unread_reports"].as_array().unwrap();
    let files: Vec<_> = unread
        .iter()
        .map(|one| one["file"].as_str().unwrap())
        .collect();
    assert_eq!(files, ["reports/other.json", "gone.json"]);
    let text = repo.run(&arguments).expect(0).stdout;
    text.assert_has("could not be read, so it may have said more\n");
    text.assert_has("reports/other.json: it is no report of an apply");
}
