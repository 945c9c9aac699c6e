//! Tables as `kubectl get` prints them: upper-case headings, columns three spaces apart, no lines.

/// A table with a heading row. Cells must not hold colours.
pub fn table<const N: usize>(heading: [&str; N], rows: &[[String; N]]) -> String {
    let mut widths = heading.map(str::len);
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let mut text = String::new();
    let heading = heading.map(str::to_owned);
    for row in std::iter::once(&heading).chain(rows) {
        let mut line = String::new();
        for (width, cell) in widths.iter().zip(row) {
            line.push_str(cell);
            line.push_str(&" ".repeat(width + 3 - cell.chars().count()));
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_kubectl_does() {
        let rows = [
            ["a".to_owned(), "10.0.0.0/24".to_owned()],
            ["worker-1".to_owned(), "-".to_owned()],
        ];
        assert_eq!(
            table(["NODE", "CIDR"], &rows),
            "NODE       CIDR\na          10.0.0.0/24\nworker-1   -\n"
        );
    }
}
