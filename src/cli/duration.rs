//! Durations on the command line.

use jiff::SignedDuration;

/// Parses a duration that is not negative.
pub(super) fn duration(text: &str) -> Result<SignedDuration, String> {
    let read = text
        .parse()
        .ok()
        .filter(|duration: &SignedDuration| !duration.is_negative());
    read.ok_or_else(|| "expected a duration, such as `90s`, `5m` or `1h 30m`".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_has_a_unit_and_is_not_negative() {
        assert_eq!(duration("90s"), Ok(SignedDuration::from_secs(90)));
        for bad in ["", "5", "5x", "x", "-5s"] {
            assert!(
                duration(bad).is_err_and(|why| why.starts_with("expected a duration, such as")),
                "{bad}"
            );
        }
    }
}
