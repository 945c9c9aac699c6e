//! In which order a kernel's modules are loaded, from what `depmod` found out. Knows nothing of
//! guests.

use crate::error::{Error, Result};

/// The files of these modules and of all that they need, the needed ones first. `dependencies` is
/// `modules.dep`, whose lines name the nearest first; `builtin` is `modules.builtin`, with what the
/// kernel has anyway.
pub(super) fn load_order(
    dependencies: &str,
    builtin: &str,
    wanted: &[&str],
) -> Result<Vec<String>> {
    let mut order: Vec<String> = Vec::new();
    for module in wanted {
        let lines = dependencies.lines().filter_map(|line| line.split_once(':'));
        let Some((file, needed)) = lines.into_iter().find(|(file, _)| is_of(file, module)) else {
            if builtin.lines().any(|file| is_of(file, module)) {
                continue;
            }
            return Err(Error::unreadable(
                "modules.dep",
                format!("no module {module}"),
            ));
        };
        for file in needed.split_whitespace().rev().chain([file]) {
            if !order.iter().any(|other| other == file) {
                order.push(file.to_owned());
            }
        }
    }
    Ok(order)
}

/// Names of modules have `-` and `_` as the same letter, and files may be compressed.
fn is_of(file: &str, module: &str) -> bool {
    let name = file
        .rsplit('/')
        .next()
        .and_then(|name| name.split(".ko").next());
    name.is_some_and(|name| name.replace('-', "_") == module.replace('-', "_"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_needed_comes_first_and_once() {
        let dependencies = "kernel/a/b-c.ko.xz: kernel/near.ko kernel/far.ko\nkernel/near.ko: kernel/far.ko\nkernel/far.ko:\n";
        let order = |wanted: &[&str]| load_order(dependencies, "kernel/fs/ext4/ext4.ko\n", wanted);
        let all = ["kernel/far.ko", "kernel/near.ko", "kernel/a/b-c.ko.xz"];
        assert_eq!(order(&["near", "b_c", "ext4"]).unwrap(), all);
        assert!(
            order(&["nowhere"])
                .unwrap_err()
                .to_string()
                .contains("no module nowhere")
        );
    }
}
