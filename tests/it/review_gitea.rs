//! `apply --reviewed` on a Gitea that answers 404, which it does for a commit without a pull request
//! as well as to a token that may not see any. `gitea_actions` has a real one.

use serde_json::json;

use super::comment_forges::{Answer, TOKEN, ok, serve};
use super::review_world::COMMIT;
use super::support::{
    Folder, KUBERNETES, Ran, TextAssertions, args, cluster, node, pool, program, ran,
};

/// Applies after a commit for which the token sees no pull request. `pulls` is the answer
/// to a list of pull requests.
fn applied(pulls: Answer) -> Ran {
    let api = serve(move |asked| {
        let path = asked.path.split('?').next().unwrap();
        match path.strip_prefix("/api/repos/o/r").unwrap_or_default() {
            "" => ok(&json!({"default_branch": "main"})),
            "/branches/main" => ok(&json!({"commit": {"id": COMMIT}})),
            "/pulls" => pulls.clone(),
            path if path.starts_with("/git/trees/") => {
                let pools = json!({"path": "pools", "type": "tree", "sha": "1"});
                ok(&json!({"tree": [pools], "truncated": false}))
            }
            _ => (404, String::new(), "{}".to_owned()),
        }
    });
    let spec = "{cidrs: [10.20.0.0/16], blockSize: 24}";
    let nodes = [node("n1", "a", "")];
    let folder = Folder::new(&[
        ("pools/a.yaml", &pool("a", spec)),
        ("cluster.json", &cluster("1.19.3", KUBERNETES, &nodes)),
    ]);
    std::fs::create_dir(folder.join(".git")).unwrap();
    let words = args("apply pools --reviewed --cluster-file cluster.json");
    let mut command = program(folder.path(), &words);
    command
        .env("GITEA_ACTIONS", "true")
        .env("GITHUB_ACTIONS", "true")
        .env("GITHUB_API_URL", format!("http://{api}/api"))
        .env("GITHUB_REPOSITORY", "o/r")
        .env("GITHUB_SHA", COMMIT)
        .env("GITEA_TOKEN", TOKEN);
    let ran = ran(command.output().unwrap());
    assert!(!folder.read("cluster.json").contains("podCIDR\""));
    ran
}

#[test]
fn a_commit_without_a_pull_request_is_told_from_one_that_the_token_may_not_see() {
    let none = applied(ok(&json!([]))).expect(4).stderr;
    none.assert_has("with no pull request");
    let hidden = applied((404, String::new(), "{}".to_owned()))
        .expect(1)
        .stderr;
    hidden.assert_has("the token may not see it");
    hidden.assert_lacks("with no pull request");
}
