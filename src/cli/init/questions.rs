//! Asks on a terminal. Without one, and with `--no-input`, the defaults are the answers.

use std::collections::BTreeSet;
use std::io::{BufRead, IsTerminal};

use super::ci::CiSystem;
use super::words::{self, Sizes};
use crate::cli::failure::Failure;
use crate::cli::{Common, output};
use crate::render::{Paint, printable};
use ipam_cilium::observed::Observed;
use ipam_core::net::{Block, Family};
use ipam_import::proposal::{CidrSource, Split, Suggestion};

/// Limit of the labels that the question names.
const NAMED: usize = 5;

pub(super) struct Questions {
    asking: Asking,
    /// Questions for which no flag was given.
    left: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asking {
    /// A person answers on the terminal.
    Person,
    /// Defaults are the answers, for this reason.
    Never(&'static str),
}

impl Questions {
    /// Limit of the questions of one run. An invalid answer repeats its question.
    const MOST: usize = 4;

    pub(super) fn new(common: &Common) -> Questions {
        let asking = if common.no_input {
            Asking::Never("--no-input is set")
        } else if std::io::stdin().is_terminal() {
            Asking::Person
        } else {
            Asking::Never("stdin is not a terminal")
        };
        Questions {
            asking,
            left: Questions::MOST,
        }
    }

    /// Asks whether to continue although the cluster cannot be read.
    pub(super) async fn continue_offline(&mut self) -> Result<(), Failure> {
        if let Asking::Never(why) = self.asking {
            return Err(Failure::Failed(format!(
                "the cluster cannot be read, and {why}; nothing was written: pass --offline to write files without a cluster, or select one with --kubeconfig, --context or --cluster-file"
            )));
        }
        let parse = |text: &str| match text {
            "yes" | "y" => Ok(true),
            "no" | "n" => Ok(false),
            _ => Err("write `yes` or `no`".to_owned()),
        };
        let question = "Continue without a cluster? Existing blocks are unknown then";
        match self.ask(question, "no", false, parse).await? {
            true => Ok(()),
            false => Err(Failure::Failed("nothing was written".to_owned())),
        }
    }

    pub(super) async fn cidrs(&mut self, suggestion: &Suggestion) -> Result<Vec<Block>, Failure> {
        let default: Vec<String> = suggestion.cidrs.iter().map(ToString::to_string).collect();
        let source = match suggestion.source {
            CidrSource::Cilium => "from Cilium's settings",
            CidrSource::ControllerManager => "from kube-controller-manager",
            CidrSource::HeldBlocks => "around the blocks that nodes hold",
            CidrSource::Usual => "a usual range",
        };
        let question = format!("CIDRs of the pods, IPv4 and IPv6 (default: {source})");
        self.ask(
            &question,
            &default.join(","),
            suggestion.cidrs.clone(),
            words::cidrs,
        )
        .await
    }

    /// Without a cluster, the values of a label are unknown. A person who chose to continue without
    /// one is not asked, and gets one pool.
    pub(super) async fn split(
        &mut self,
        suggestion: &Suggestion,
        observed: Option<&Observed>,
    ) -> Result<Split, Failure> {
        if observed.is_none() && self.left < Questions::MOST - 1 {
            return Ok(Split::None);
        }
        let default = match &suggestion.split {
            Split::None => "none",
            Split::ByLabel { key, .. } => key,
        };
        let others: Vec<&str> = suggestion
            .labels
            .iter()
            .map(String::as_str)
            .take(NAMED)
            .collect();
        let others = match others.is_empty() {
            true => "such as `rack`".to_owned(),
            false => format!("such as {}", others.join(", ")),
        };
        let question = format!("Node label whose values get a pool each, or `none` ({others})");
        let parse = |text: &str| words::known_split(words::split(text)?, suggestion, observed);
        self.ask(&question, default, suggestion.split.clone(), parse)
            .await
    }

    pub(super) async fn sizes(
        &mut self,
        suggestion: &Suggestion,
        cidrs: &[Block],
    ) -> Result<Sizes, Failure> {
        let families: BTreeSet<Family> = cidrs.iter().map(|cidr| cidr.family()).collect();
        let mut default = suggestion.sizes;
        for family in Family::BOTH {
            if !families.contains(&family) {
                *default.get_mut(family) = None;
            }
        }
        let text: Vec<String> = default
            .iter()
            .map(|size| size.prefix_len().to_string())
            .collect();
        let parse = |text: &str| {
            let sizes = words::sizes(text)?;
            words::sizes_for(cidrs, sizes, &default).map(|_| sizes)
        };
        let question = "Prefix length of each node's block (over 32: IPv6)";
        self.ask(question, &text.join(","), default, parse).await
    }

    pub(super) async fn ci(&mut self, usual: CiSystem) -> Result<CiSystem, Failure> {
        let parse = |text: &str| {
            <CiSystem as clap::ValueEnum>::from_str(text, true)
                .map_err(|_| "write `github`, `gitlab`, `gitea` or `none`".to_owned())
        };
        let question = "CI system that checks pull requests: github, gitlab, gitea or none";
        self.ask(question, usual.name(), usual, parse).await
    }

    /// Asks until the answer can be read. An empty answer is the default.
    async fn ask<T>(
        &mut self,
        question: &str,
        shown: &str,
        default: T,
        parse: impl Fn(&str) -> Result<T, String>,
    ) -> Result<T, Failure> {
        if self.asking != Asking::Person {
            return Ok(default);
        }
        self.left = self.left.saturating_sub(1);
        loop {
            output::talk(&format!("{} [{shown}]: ", Paint::Bold.on(question)));
            let answer = read_line().await?;
            let answer = answer.trim();
            if answer.is_empty() {
                return Ok(default);
            }
            match parse(answer) {
                Ok(answer) => return Ok(answer),
                Err(error) => output::warn(&printable(&error)),
            }
        }
    }
}

/// A line of stdin. Its end is a failure: otherwise a closed terminal would choose the defaults.
async fn read_line() -> Result<String, Failure> {
    let read = tokio::task::spawn_blocking(|| {
        let mut line = String::new();
        std::io::stdin()
            .lock()
            .read_line(&mut line)
            .map(|length| (length, line))
    });
    let (length, line) = read
        .await
        .map_or_else(Failure::from_panic, |read| Ok(read?))?;
    match length {
        0 => Err(Failure::Failed("no answer; nothing was written".to_owned())),
        _ => Ok(line),
    }
}
