//! The programs that show what an apply would change, each on as many objects as it does in seconds.

use std::ffi::OsStr;
use std::path::PathBuf;

use anyhow::Result;
use serde_json::{Value, json};
use testbed::Program;
use xtask::pools::Pools;
use xtask::{fleet, node};

use super::fresh::Stage;
use super::tofu::Tofu;
use crate::process::{timed, timed_finding};
use crate::samples::Samples;

const RUNS: usize = 3;
/// Objects for those that ask the server about each.
const FEW: usize = 100;
/// Objects for the others.
const MANY: usize = 5_000;

/// One of them.
pub enum Differ {
    Tool,
    Kubectl,
    /// This program.
    Kapp(PathBuf),
    Tofu(Tofu),
}

impl Differ {
    fn objects(&self) -> usize {
        match self {
            Differ::Tool => MANY,
            Differ::Kubectl | Differ::Kapp(_) | Differ::Tofu(_) => FEW,
        }
    }

    /// Measures it; returns the row of the table.
    pub fn row(&self, stage: &Stage<'_>) -> Result<String> {
        let objects = self.objects();
        fleet::create_nodes(stage.plane, 0..objects)?;
        let mut seconds = Samples::default();
        for _ in 0..RUNS {
            seconds.add(self.seconds(stage, objects)?);
        }
        stage.plane.delete(node::NODES)?;
        #[expect(clippy::cast_precision_loss, reason = "a few thousand")]
        let each = seconds.median() / objects as f64 * 1e3;
        Ok(format!(
            "| {} | {objects} | {} | {each:.2} |",
            self.shown(),
            seconds.spread_of(2)
        ))
    }

    fn shown(&self) -> &'static str {
        match self {
            Differ::Tool => "cilium-ipam | `cilium-ipam plan`",
            Differ::Kubectl => "kubectl 1.36.3 | `kubectl diff -f nodes.json`",
            Differ::Kapp(_) => "kapp | `kapp deploy -a nodes -f nodes.json --diff-run`",
            Differ::Tofu(_) => {
                "OpenTofu | `tofu plan -input=false -no-color`, `kubernetes_manifest` with `import`"
            }
        }
    }

    fn seconds(&self, stage: &Stage<'_>, objects: usize) -> Result<f64> {
        let kubeconfig = stage.plane.kubeconfig().as_os_str();
        let flag = OsStr::new("--kubeconfig");
        let run = match self {
            Differ::Tool => {
                let pools = Pools::racks()?;
                let arguments = [OsStr::new("plan"), pools.path(), flag, kubeconfig];
                timed(&stage.tool.words(&arguments))?
            }
            Differ::Kubectl => {
                let file = wanted(objects)?;
                let program = stage.programs.path(Program::Kubectl)?.as_os_str();
                let [diff, from] = ["diff", "-f"].map(OsStr::new);
                let file = file.path().as_os_str();
                timed_finding(&[program, flag, kubeconfig, diff, from, file])?
            }
            Differ::Kapp(program) => {
                let file = wanted(objects)?;
                let words = ["deploy", "-a", "nodes", "-n", "default", "--diff-run", "-f"];
                let mut all = vec![program.as_os_str()];
                all.extend(words.map(OsStr::new));
                all.extend([file.path().as_os_str(), flag, kubeconfig]);
                timed(&all)?
            }
            Differ::Tofu(tofu) => {
                let blocks = (0..objects).map(|index| (node::name(index), block(index)));
                tofu.plan(stage.plane.kubeconfig(), &blocks.collect())?
            }
        };
        Ok(run.milliseconds / 1e3)
    }
}

/// The Nodes as files would have them, each with its block.
fn wanted(objects: usize) -> Result<tempfile::NamedTempFile> {
    let node = |index: usize| -> Value {
        let block = block(index);
        let mut node = node::node(index);
        node["spec"]["podCIDR"] = json!(block);
        node["spec"]["podCIDRs"] = json!([block]);
        if let Some(fields) = node.as_object_mut() {
            fields.remove("status");
        }
        node
    };
    let items: Vec<Value> = (0..objects).map(node).collect();
    let list = json!({"apiVersion": "v1", "kind": "List", "items": items});
    let file = tempfile::Builder::new().suffix(".json").tempfile()?;
    std::fs::write(file.path(), list.to_string())?;
    Ok(file)
}

/// The block that files would give a node.
fn block(index: usize) -> String {
    format!("10.{}.{}.0/24", 16 + index / 256, index % 256)
}
