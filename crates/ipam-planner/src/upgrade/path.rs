//! The hops of an upgrade: Cilium supports one minor release at a time. Knows versions, and no
//! objects.

use ipam_cilium::releases::{NEWEST, OLDEST};
use ipam_core::model::CiliumVersion;

/// Why an upgrade cannot be judged.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    #[error(
        "the version of the running Cilium could not be detected: pass --from VERSION, such as --from 1.15.19"
    )]
    UnknownStart,
    #[error("Cilium {0} is newer than the newest known release, {NEWEST}: use a newer cilium-ipam")]
    TooNew(CiliumVersion),
    #[error("Cilium {0} is older than the oldest known release, {OLDEST}")]
    TooOld(CiliumVersion),
    #[error(
        "Cilium {0} runs, and {1} is older: Cilium supports a rollback by one minor release at most, and the \
         CustomResourceDefinitions stay those of {0}, so it is unknown what the older release reads"
    )]
    Downgrade(CiliumVersion, CiliumVersion),
}

/// The versions after the start, one for each minor release and `to` last. A minor release stands
/// for its latest patch release, also for the one that runs. Empty if `to` runs already.
///
/// # Errors
/// Fails if a version is unknown, or `to` is of an older minor release.
pub(super) fn hops(from: CiliumVersion, to: CiliumVersion) -> Result<Vec<CiliumVersion>, Refused> {
    for version in [from, to] {
        let minor = (version.major, version.minor);
        if minor > (NEWEST.major, NEWEST.minor) {
            return Err(Refused::TooNew(version));
        }
        if minor < (OLDEST.major, OLDEST.minor) {
            return Err(Refused::TooOld(version));
        }
    }
    if to.minor < from.minor {
        return Err(Refused::Downgrade(from, to));
    }
    if to.minor == from.minor {
        return Ok((to != from).then_some(to).into_iter().collect());
    }
    let between = (from.minor + 1..to.minor).map(CiliumVersion::minor);
    Ok(between.chain([to]).collect())
}

/// The version whose rules apply where only the minor release is given: that of its latest patch
/// releases. Patches with other rules are named as such.
pub(super) fn with_latest_patch(version: CiliumVersion) -> CiliumVersion {
    CiliumVersion {
        patch: version.patch.or(Some(u16::MAX)),
        ..version
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn v(text: &str) -> CiliumVersion {
        text.parse().unwrap()
    }

    #[test]
    fn one_minor_at_a_time() {
        let cases = [
            ("1.15.19", "1.19", "1.16 1.17 1.18 1.19"),
            ("1.15.19", "1.16.3", "1.16.3"),
            ("1.19.1", "1.19.3", "1.19.3"),
            ("1.19.3", "1.19.1", "1.19.1"),
            ("1.19", "1.19.3", "1.19.3"),
            ("1.19.3", "1.19", "1.19"),
            ("1.19", "1.19", ""),
            ("1.19.3", "1.19.3", ""),
        ];
        for (from, to, expected) in cases {
            let hops = hops(v(from), v(to)).unwrap();
            let hops: Vec<String> = hops.iter().map(ToString::to_string).collect();
            assert_eq!(hops.join(" "), expected, "{from} to {to}");
        }
    }

    #[test]
    fn what_is_refused() {
        assert_eq!(hops(v("1.19"), v("1.21")), Err(Refused::TooNew(v("1.21"))));
        assert_eq!(hops(v("1.21"), v("1.21")), Err(Refused::TooNew(v("1.21"))));
        assert_eq!(hops(v("1.19"), v("2.0")), Err(Refused::TooNew(v("2.0"))));
        assert_eq!(hops(v("1.10"), v("1.12")), Err(Refused::TooOld(v("1.10"))));
        let down = Refused::Downgrade(v("1.19.3"), v("1.18"));
        assert_eq!(hops(v("1.19.3"), v("1.18")), Err(down));
    }
}
