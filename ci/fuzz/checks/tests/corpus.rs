//! Runs the corpus of every fuzz target, without a fuzzer. A test fails with the name of the file
//! that breaks a promise.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use fuzz_checks::{
    claims, cluster_file, cni_input, plan_file, protobuf_list, rules, world, yaml_directory,
};

fn files(target: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../corpus")
        .join(target);
    let entries =
        std::fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

#[track_caller]
fn run(target: &str, check: fn(&[u8])) {
    let files = files(target);
    assert!(!files.is_empty(), "the corpus of {target} is gone");
    let breaks = |file: &&PathBuf| {
        let data = std::fs::read(file).unwrap();
        catch_unwind(AssertUnwindSafe(|| check(&data))).is_err()
    };
    let broken: Vec<&PathBuf> = files.iter().filter(breaks).collect();
    assert!(
        broken.is_empty(),
        "{} of {} break a promise: {broken:#?}",
        broken.len(),
        files.len()
    );
}

#[test]
fn directories_of_yaml() {
    run("yaml_directory", yaml_directory::check);
}

#[test]
fn saved_plans() {
    run("plan_file", plan_file::check);
}

#[test]
fn cluster_files() {
    run("cluster_file", cluster_file::check);
}

#[test]
fn kept_claims() {
    run("claims", claims::check);
}

#[test]
fn what_a_container_runtime_says() {
    run("cni_input", cni_input::check);
}

#[test]
fn expressions_of_rules() {
    run("rules", rules::check);
}

#[test]
fn answers_in_protobuf() {
    run("protobuf_list", protobuf_list::check);
}

#[test]
fn generated_worlds() {
    run("world", world::check);
}
