//! The value of `--parallelism`.

use ipam_controller::Parallelism;

pub(super) fn parallelism(text: &str) -> Result<Parallelism, String> {
    if text == "auto" {
        return Ok(Parallelism::Adaptive);
    }
    text.parse()
        .map(Parallelism::Fixed)
        .map_err(|_| "expected a number from 1 on, or `auto`".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_or_auto() {
        assert_eq!(parallelism("auto"), Ok(Parallelism::Adaptive));
        let eight = std::num::NonZeroUsize::new(8).unwrap();
        assert_eq!(parallelism("8"), Ok(Parallelism::Fixed(eight)));
        assert!(
            ["", "0", "-1", "Auto"]
                .iter()
                .all(|text| parallelism(text).is_err())
        );
    }
}
