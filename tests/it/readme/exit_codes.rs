//! The page about exit codes: the codes from the help of the program, and the conditions of
//! `--fail-on` from the help of `plan`.

use std::fmt::Write as _;

use super::generated::{NOTE, printed};

const EXIT_CODE_NOTES: &str = "

What each situation gives. The code follows the verdict, which is the first and the last line of a plan.

| the plan | `plan` | `plan --detailed-exitcode` | `comment` | `apply` |
|---|---|---|---|---|
| has nothing to do | 0 | 0 | 0 | 0 |
| has changes | 0 | 2 | 0 | 0 |
| is refused: by a limit, a protection, a rule, or lost addresses that no waiver allows | 5 | 5 | 5 | 5 |
| has errors, such as a full pool or a block that two nodes hold, and no changes | 2 | 1 | 2 | 0 |
| has errors and changes | 2 | 2 | 2 | 0 |
| has a weakened Policy (with `--base`), and no refusal | 0 | 0, with changes 2 | 2 | - |
| has blocked, misplaced or drifted nodes, nodes outside their best pool, or warnings | 0 | 0 | 0 | 0 |

- `--fail-on` changes the columns of `plan` and `comment`. `drift` gives 0 whatever it finds, unless
  `--fail-on` is set.
- 1 also means: not approved, refused by the server, no permission to write, or a plan file that cannot
  be read.
- 2 is only for changes and findings. A wrong command line gives 1.
- 6 also means that another process has the cluster file.
- 7 also means that a signal ended the apply after its first write. Plan again for the rest. Of an undo
  plan, it also means that some of its objects are blocked; the others are undone.
- 7 also means that a migration stopped, or waits for you. See [Move a running
  cluster](../how-to/migrate.md).
- 8 also means that the login to OpenStack failed, where a pool is a subnet of Neutron.

## `--fail-on`

`plan --fail-on LIST` takes any of these, separated by commas. `error` and `refused` are always among
them, unless `never` is. A refused plan gives 5, and everything else in the list gives 2.

| `--fail-on` | fails when the plan has |
|---|---|
";

const DETAILED_EXITCODE: &str = "
A pipeline that must stop at everything:

```console
$ cilium-ipam plan --fail-on blocked,misplaced,fell-over,refused,drift,warning,error
```

## `--detailed-exitcode`

`plan --detailed-exitcode` is as in Terraform: 2 when there are changes, 1 for an error, 0 otherwise. A
refused plan gives 5: `apply` would not write its changes. A finding of severity `error`, such as a
block that two nodes hold, is an error: without changes it gives 1, with changes 2. Blocked, misplaced or drifted nodes give 0 unless `--fail-on` names them. With both
flags, changes, errors and what `--fail-on` names give 2.
";

/// The text with flags and environment variables as code.
pub fn with_code(text: &str) -> String {
    let words = text.split(' ').map(|word| {
        let name = word.trim_end_matches([',', ')']);
        match name.starts_with("--") || name.starts_with("CILIUM_") {
            true => format!("`{name}`{}", &word[name.len()..]),
            false => word.to_owned(),
        }
    });
    words.collect::<Vec<_>>().join(" ")
}

pub fn page() -> String {
    let mut page = format!(
        "{NOTE}\n\n# Exit codes\n\nBlocked nodes give 0, unless you ask: `cilium-ipam plan --fail-on blocked` exits with 2.\n\n| code | means |\n|---|---|\n"
    );
    let help = printed(&["--help"]);
    let (_, codes) = help.split_once("Exit codes:\n").unwrap();
    let rows = codes.lines().take_while(|line| line.starts_with("  "));
    let rows: Vec<(&str, &str)> = rows
        .map(|line| line.trim_start().split_once(' ').unwrap())
        .collect();
    assert!(rows.len() >= 10, "{help}");
    for (code, meaning) in rows {
        writeln!(page, "| {code} | {} |", with_code(meaning.trim_start())).unwrap();
    }
    page.push_str(EXIT_CODE_NOTES);
    let help = printed(&["plan", "--help"]);
    let (_, values) = help.split_once("--fail-on <LIST>").unwrap();
    let values = values
        .lines()
        .skip_while(|line| !line.trim_start().starts_with("- "))
        .take_while(|line| line.trim_start().starts_with("- "));
    let mut count = 0;
    for line in values {
        let (name, meaning) = line.trim_start().split_once(':').unwrap();
        let mut meaning = meaning.trim_start().to_owned();
        meaning[..1].make_ascii_lowercase();
        writeln!(page, "| `{}` | {meaning} |", &name[2..]).unwrap();
        count += 1;
    }
    assert!(count >= 8, "{help}");
    page + DETAILED_EXITCODE
}
