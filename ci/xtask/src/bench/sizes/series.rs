//! The costs of a command at growing sizes: tables of them, and how fast they grow. It must never
//! know how a cost is measured.

use ipam_core::model::grouped_digits;

/// The smallest size.
pub const SMALLEST: usize = 100;
/// How many times as many nodes the next size has.
pub const STEP: usize = 10;
/// Below it, most of the time is the start of the process.
const WORTH_A_LOOK_SECONDS: f64 = 0.2;

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    Plan,
    Doctor,
    Apply,
    /// Up to its first plan.
    Watch,
}

impl Command {
    pub fn name(self) -> &'static str {
        match self {
            Command::Plan => "plan",
            Command::Doctor => "doctor",
            Command::Apply => "apply",
            Command::Watch => "watch",
        }
    }
}

/// Where the cluster is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    Server,
    File,
}

/// What one command took at one size.
#[derive(Clone, Copy, Debug)]
pub struct Cost {
    pub nodes: usize,
    pub seconds: f64,
    pub cpu_seconds: f64,
    pub peak_rss_mib: f64,
}

/// One command at growing sizes.
#[derive(Debug)]
pub struct Series {
    pub command: Command,
    pub place: Place,
    pub costs: Vec<Cost>,
}

/// From one size to the next.
#[derive(Debug)]
pub struct Step {
    pub name: String,
    /// The larger of both sizes.
    pub nodes: usize,
    /// The processor time for each node in that of the size before.
    pub growth: f64,
    limit: f64,
}

impl Step {
    /// Of its growth, with as many digits as the growth is printed with.
    pub fn limit(&self) -> f64 {
        (self.limit * 100.0).round() / 100.0
    }
}

impl Series {
    /// Without costs yet.
    pub fn of_every_command() -> Vec<Series> {
        let on_a_server = [
            Command::Plan,
            Command::Doctor,
            Command::Apply,
            Command::Watch,
        ];
        let in_a_file = [Command::Plan, Command::Doctor, Command::Apply];
        let places = on_a_server
            .map(|command| (command, Place::Server))
            .into_iter()
            .chain(in_a_file.map(|command| (command, Place::File)));
        let empty = |(command, place)| Series {
            command,
            place,
            costs: Vec::new(),
        };
        places.map(empty).collect()
    }

    /// For people.
    pub fn name(&self) -> String {
        match self.place {
            Place::Server => self.command.name().to_owned(),
            Place::File => format!("{}, cluster file", self.command.name()),
        }
    }

    fn at(&self, nodes: usize) -> Option<&Cost> {
        self.costs.iter().find(|cost| cost.nodes == nodes)
    }

    /// The growth up to this size.
    fn growth(&self, nodes: usize) -> Option<f64> {
        Some(growth(self.at(nodes / STEP)?, self.at(nodes)?))
    }

    fn steps(&self) -> impl Iterator<Item = Step> + '_ {
        let worth = |cost: &&Cost| cost.cpu_seconds >= WORTH_A_LOOK_SECONDS;
        self.costs.iter().filter(worth).filter_map(|cost| {
            let place = match self.place {
                Place::Server => "server",
                Place::File => "file",
            };
            Some(Step {
                name: format!("{}_{place}", self.command.name()),
                nodes: cost.nodes,
                growth: self.growth(cost.nodes)?,
                limit: limit(cost.nodes),
            })
        })
    }
}

/// Adds costs to their series.
pub fn add(all: &mut [Series], place: Place, costs: Vec<(Command, Cost)>) {
    for (command, cost) in costs {
        let is_it = |one: &&mut Series| one.command == command && one.place == place;
        if let Some(series) = all.iter_mut().find(is_it) {
            series.costs.push(cost);
        }
    }
}

/// The step that comes closest to its limit, or exceeds it most. Steps to a short run do not count.
pub fn worst(all: &[Series]) -> Option<Step> {
    let share = |step: &Step| step.growth / step.limit;
    all.iter()
        .flat_map(Series::steps)
        .max_by(|one, other| share(one).total_cmp(&share(other)))
}

fn growth(before: &Cost, after: &Cost) -> f64 {
    (after.cpu_seconds / float(after.nodes)) / (before.cpu_seconds / float(before.nodes))
}

/// n log n: how many times the processor time of the size before each node may take.
fn limit(nodes: usize) -> f64 {
    float(nodes).ln() / float(nodes / STEP).ln()
}

#[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
pub fn float(nodes: usize) -> f64 {
    nodes as f64
}

/// All costs, a column for each size.
pub fn costs(all: &[Series]) -> String {
    table(all, &sizes(all), |series, nodes| {
        let Cost {
            nodes: _,
            seconds,
            cpu_seconds,
            peak_rss_mib,
        } = series.at(nodes)?;
        Some(format!(
            "{seconds:.2} s, CPU {cpu_seconds:.2} s, {peak_rss_mib:.0} MiB"
        ))
    })
}

/// The growth up to each size but the first, and the limit.
pub fn growths(all: &[Series]) -> String {
    let sizes = sizes(all).split_off(1);
    let mut text = table(all, &sizes, |series, nodes| {
        Some(format!("{:.2}", series.growth(nodes)?))
    });
    text += "| limit: n log n |";
    for nodes in sizes {
        text += &format!(" {:.2} |", limit(nodes));
    }
    text + "\n"
}

fn sizes(all: &[Series]) -> Vec<usize> {
    let costs = all.iter().flat_map(|series| &series.costs);
    let mut sizes: Vec<usize> = costs.map(|cost| cost.nodes).collect();
    sizes.sort_unstable();
    sizes.dedup();
    sizes
}

/// Markdown. A cell without a text is empty.
fn table(
    all: &[Series],
    sizes: &[usize],
    cell: impl Fn(&Series, usize) -> Option<String>,
) -> String {
    let mut text = "| command |".to_owned();
    for nodes in sizes {
        text += &format!(" {} nodes |", grouped_digits(*nodes));
    }
    text = text + "\n|---|" + &"---|".repeat(sizes.len()) + "\n";
    for series in all {
        text += &format!("| {} |", series.name());
        for nodes in sizes {
            text += &format!(" {} |", cell(series, *nodes).unwrap_or_default());
        }
        text += "\n";
    }
    text
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// `plan` on a server with this processor time at 100 nodes, at 1,000 and so on.
    pub fn plan(cpu_seconds: &[f64]) -> Series {
        let nodes = std::iter::successors(Some(SMALLEST), |nodes| Some(nodes * STEP));
        let cost = |(nodes, &cpu_seconds)| Cost {
            nodes,
            seconds: 1.0,
            cpu_seconds,
            peak_rss_mib: 20.0,
        };
        Series {
            command: Command::Plan,
            place: Place::Server,
            costs: nodes.zip(cpu_seconds).map(cost).collect(),
        }
    }

    #[test]
    fn linear_growth_is_one_for_each_node_and_quadratic_ten() {
        let series = plan(&[0.1, 1.0, 100.0]);
        assert!((series.growth(1_000).unwrap() - 1.0).abs() < 1e-9);
        assert!((series.growth(10_000).unwrap() - 10.0).abs() < 1e-9);
        assert!(series.growth(100).is_none());
    }

    #[test]
    fn n_log_n_takes_a_half_more_for_each_of_1000_nodes() {
        assert!((limit(1_000) - 1.5).abs() < 1e-9);
        assert!((limit(100_000) - 1.25).abs() < 1e-9);
    }

    #[test]
    fn the_worst_step_is_the_one_closest_to_its_own_limit() {
        // 1.4 of 1.5 and 1.3 of 1.33.
        let step = worst(&[plan(&[0.5, 7.0, 91.0])]).unwrap();
        assert_eq!((step.name.as_str(), step.nodes), ("plan_server", 10_000));
        assert!((step.limit() - 1.33).abs() < 1e-9);
    }

    #[test]
    fn a_step_to_a_short_run_does_not_count() {
        assert!(worst(&[plan(&[0.001, 0.19])]).is_none());
        assert!(worst(&[plan(&[0.001, 0.2])]).is_some());
    }

    #[test]
    fn a_column_for_each_size() {
        let all = [plan(&[0.1, 2.0])];
        assert_eq!(
            costs(&all),
            "| command | 100 nodes | 1,000 nodes |\n|---|---|---|\n\
             | plan | 1.00 s, CPU 0.10 s, 20 MiB | 1.00 s, CPU 2.00 s, 20 MiB |\n"
        );
        assert_eq!(
            growths(&all),
            "| command | 1,000 nodes |\n|---|---|\n| plan | 2.00 |\n| limit: n log n | 1.50 |\n"
        );
    }
}
