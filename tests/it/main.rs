//! The integration tests, one binary: the program as people run it, on cluster files and on a real API server.

mod agent;
mod bad_input;
mod claimed;
mod classic;
mod cluster_file;
mod determinism;
mod doctor;
mod doctor_cluster;
mod doctor_rules;
mod examples;
mod explain;
mod hostile_server;
mod hostile_text;
mod lb;
mod lb_apply;
mod lb_edits;
mod lb_files;
mod lock;
mod properties;
mod rails;
mod readme;
mod saved_plans;
mod server;
mod support;
mod tidy;
mod undo;
