//! The picture of `bench sizes`: processor time over nodes, both axes logarithmic, in light and in
//! dark. It must never know how a cost is measured.

use super::series::{Place, SMALLEST, Series, float};
use ipam_core::model::grouped_digits;

const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 460.0;
/// The area of the lines; their names need the room to its right.
const LEFT: f64 = 72.0;
const RIGHT: f64 = 590.0;
const TOP: f64 = 64.0;
const BOTTOM: f64 = 400.0;
/// Between the baselines of two names.
const LINE_HEIGHT: f64 = 16.0;
/// Linux counts the time of a running process in hundredths of a second.
const LEAST_SECONDS: f64 = 0.01;
/// How far above the points of the largest size n log n ends: on one of them, it would hide a line.
/// At the smallest size, the start of the process takes more.
const ABOVE: f64 = 1.5;
/// Parts of the curve for each power of ten.
const PARTS: i32 = 8;

const STYLE: &str = "  <style>
    .back { fill: #ffffff; stroke: #d0d7de; }
    text { font: 14px system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif; fill: #1f2328; }
    .head { font-weight: 700; }
    .note { fill: #59636e; font-size: 12.5px; }
    .name { paint-order: stroke; stroke: #ffffff; stroke-width: 4px; }
    .grid { stroke: #d0d7de; }
    .limit { stroke: #59636e; stroke-width: 1.5; stroke-dasharray: 7 5; fill: none; }
    .server { stroke-width: 2.5; fill: none; }
    .file { stroke-width: 1.5; stroke-dasharray: 2 3; fill: none; }
    .plan { stroke: #0969da; }
    .doctor { stroke: #1a7f37; }
    .apply { stroke: #bc4c00; }
    .watch { stroke: #8250df; }
    @media (prefers-color-scheme: dark) {
      .back { fill: #0d1117; stroke: #3d444d; }
      text { fill: #e6edf3; }
      .note { fill: #b1bac4; }
      .name { stroke: #0d1117; }
      .grid { stroke: #3d444d; }
      .limit { stroke: #9198a1; }
      .plan { stroke: #4493f8; }
      .doctor { stroke: #3fb950; }
      .apply { stroke: #f0883e; }
      .watch { stroke: #ab7df8; }
    }
  </style>
";

/// A logarithmic axis: these powers of ten lie between these places of the picture.
struct Axis {
    powers: [i32; 2],
    places: [f64; 2],
}

impl Axis {
    /// It ends at the powers of ten around these values.
    fn around(least: f64, most: f64, places: [f64; 2]) -> Axis {
        let powers = [least.log10().floor(), most.log10().ceil()];
        #[expect(clippy::cast_possible_truncation, reason = "logarithms are small")]
        let powers = powers.map(|power| power as i32);
        Axis { powers, places }
    }

    fn place(&self, value: f64) -> f64 {
        let [low, high] = self.powers.map(f64::from);
        let [from, to] = self.places;
        from + (value.log10() - low) / (high - low) * (to - from)
    }

    fn ticks(&self) -> impl Iterator<Item = f64> + use<> {
        let [low, high] = self.powers;
        (low..=high).map(|power| 10_f64.powi(power))
    }
}

/// Both axes, and the height of n log n.
struct Chart {
    nodes: Axis,
    seconds: Axis,
    /// Seconds for each n log n.
    factor: f64,
}

/// A text at the end of a line.
struct Name {
    x: f64,
    y: f64,
    text: String,
}

/// The picture as a file.
pub fn svg(all: &[Series]) -> String {
    let chart = Chart::of(all);
    let label = "Processor time of each command over the number of nodes, with n log n to compare";
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" width=\"{WIDTH}\" height=\"{HEIGHT}\" role=\"img\" aria-label=\"{label}\">\n\
         {STYLE}  <rect class=\"back\" x=\"0.5\" y=\"0.5\" width=\"{}\" height=\"{}\" rx=\"8\"/>\n\
         {}{}{}</svg>\n",
        WIDTH - 1.0,
        HEIGHT - 1.0,
        chart.axes(),
        chart.lines(all),
        chart.names(all),
    )
}

/// The measured points. A time below the resolution of the clock has no logarithm.
fn points(series: &Series) -> impl Iterator<Item = (f64, f64)> + '_ {
    let point = |cost: &super::Cost| (float(cost.nodes), cost.cpu_seconds.max(LEAST_SECONDS));
    series.costs.iter().map(point)
}

impl Chart {
    fn of(all: &[Series]) -> Chart {
        let points: Vec<(f64, f64)> = all.iter().flat_map(points).collect();
        let nodes = points.iter().map(|(nodes, _)| *nodes);
        let most_nodes = nodes.fold(float(SMALLEST), f64::max);
        let last = points.iter().filter(|(nodes, _)| *nodes >= most_nodes);
        let end = ABOVE * last.fold(LEAST_SECONDS, |most, (_, seconds)| most.max(*seconds));
        let most_seconds = points
            .iter()
            .fold(end, |most, (_, seconds)| most.max(*seconds));
        Chart {
            nodes: Axis::around(float(SMALLEST), most_nodes, [LEFT, RIGHT]),
            seconds: Axis::around(LEAST_SECONDS, most_seconds, [BOTTOM, TOP]),
            factor: end / n_log_n(most_nodes),
        }
    }

    fn axes(&self) -> String {
        let mut text = format!(
            "  <text class=\"head\" x=\"20\" y=\"28\">Processor time of the tool, in seconds</text>\n  \
             <text class=\"note\" x=\"20\" y=\"46\">Both axes are logarithmic. Dotted: a cluster in a JSON file. Dashed: n log n.</text>\n  \
             <text class=\"note\" x=\"{}\" y=\"{}\" text-anchor=\"middle\">nodes</text>\n",
            f64::midpoint(LEFT, RIGHT),
            BOTTOM + 42.0
        );
        for nodes in self.nodes.ticks() {
            let x = self.nodes.place(nodes);
            text += &format!(
                "  <path class=\"grid\" d=\"M{x:.1},{TOP} V{BOTTOM}\"/><text class=\"note\" x=\"{x:.1}\" y=\"{}\" text-anchor=\"middle\">{}</text>\n",
                BOTTOM + 20.0,
                ticked(nodes)
            );
        }
        for seconds in self.seconds.ticks() {
            let y = self.seconds.place(seconds);
            text += &format!(
                "  <path class=\"grid\" d=\"M{LEFT},{y:.1} H{RIGHT}\"/><text class=\"note\" x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>\n",
                LEFT - 8.0,
                y + 4.0,
                ticked(seconds)
            );
        }
        text
    }

    /// The part of n log n that is within the picture.
    fn limit(&self) -> Vec<(f64, f64)> {
        let [low, high] = self.nodes.powers;
        let nodes = (low * PARTS..=high * PARTS)
            .map(|part| 10_f64.powf(f64::from(part) / f64::from(PARTS)));
        nodes
            .map(|nodes| (nodes, self.factor * n_log_n(nodes)))
            .filter(|(_, seconds)| *seconds >= LEAST_SECONDS)
            .collect()
    }

    fn line(&self, class: &str, points: impl Iterator<Item = (f64, f64)>) -> String {
        let places = points.map(|(nodes, seconds)| {
            let (x, y) = (self.nodes.place(nodes), self.seconds.place(seconds));
            format!("{x:.1},{y:.1}")
        });
        let places: Vec<String> = places.collect();
        format!(
            "  <polyline class=\"{class}\" points=\"{}\"/>\n",
            places.join(" ")
        )
    }

    fn lines(&self, all: &[Series]) -> String {
        let mut text = self.line("limit", self.limit().into_iter());
        for series in all {
            let place = match series.place {
                Place::Server => "server",
                Place::File => "file",
            };
            text += &self.line(
                &format!("{place} {}", series.command.name()),
                points(series),
            );
        }
        text
    }

    fn names(&self, all: &[Series]) -> String {
        let ends = all
            .iter()
            .filter_map(|series| Some((points(series).last()?, series.name())));
        let limit = self.limit().last().map(|end| (*end, "n log n".to_owned()));
        let name = |((nodes, seconds), text): ((f64, f64), String)| Name {
            x: self.nodes.place(nodes) + 8.0,
            y: self.seconds.place(seconds) + 4.0,
            text,
        };
        let names = apart(ends.chain(limit).map(name).collect());
        let shown = names.iter().map(|Name { x, y, text }| {
            format!("  <text class=\"name\" x=\"{x:.1}\" y=\"{y:.1}\">{text}</text>\n")
        });
        shown.collect()
    }
}

fn n_log_n(nodes: f64) -> f64 {
    nodes * nodes.ln()
}

/// Moves each name below the one above it that ends at the same size.
fn apart(mut names: Vec<Name>) -> Vec<Name> {
    names.sort_by(|one, other| one.x.total_cmp(&other.x).then(one.y.total_cmp(&other.y)));
    for index in 1..names.len() {
        let (above, below) = (&names[index - 1], &names[index]);
        if (above.x - below.x).abs() < 1.0 {
            names[index].y = below.y.max(above.y + LINE_HEIGHT);
        }
    }
    names
}

/// A power of ten.
fn ticked(value: f64) -> String {
    if value < 1.0 {
        return value.to_string();
    }
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a number of nodes or of seconds"
    )]
    grouped_digits(value.round() as usize)
}

#[cfg(test)]
mod tests {
    use super::super::series::tests::plan;
    use super::*;

    #[test]
    fn each_power_of_ten_is_as_far_from_the_next() {
        let axis = Axis::around(100.0, 20_000.0, [0.0, 300.0]);
        let places = [100.0, 1_000.0, 10_000.0, 100_000.0].map(|nodes| axis.place(nodes).round());
        assert_eq!(places, [0.0, 100.0, 200.0, 300.0].map(f64::round));
    }

    #[test]
    fn n_log_n_ends_above_the_largest_size_and_stays_within_the_picture() {
        let chart = Chart::of(&[plan(&[0.5, 0.6, 1.0])]);
        let limit = chart.limit();
        let (nodes, seconds) = limit[limit.len() - 1];
        assert!(nodes > 9_999.0 && (seconds - ABOVE).abs() < 1e-9);
        let bottom = chart.seconds.place(limit[0].1);
        assert!(bottom <= BOTTOM && chart.seconds.place(seconds) >= TOP);
    }

    #[test]
    fn names_of_the_same_size_do_not_overlap() {
        let name = |x, y| Name {
            x,
            y,
            text: String::new(),
        };
        let names = apart(vec![
            name(9.0, 30.0),
            name(1.0, 20.0),
            name(9.0, 25.0),
            name(9.0, 26.0),
        ]);
        let places: Vec<f64> = names.iter().map(|name| name.y.round()).collect();
        assert_eq!(places, [20.0, 25.0, 41.0, 57.0].map(f64::round));
    }

    #[test]
    fn a_time_that_the_clock_does_not_show_is_drawn_at_the_bottom() {
        let text = svg(&[plan(&[0.0, 0.3])]);
        assert!(
            text.contains("class=\"server plan\" points=\"72.0,400.0 "),
            "{text}"
        );
        assert!(!text.contains("NaN") && !text.contains("inf"), "{text}");
    }
}
