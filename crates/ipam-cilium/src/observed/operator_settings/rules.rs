//! What an operator of a release makes of the settings. Must never say why a person wants them.

use super::{
    MOST_BITS_OF_IPV6, OperatorPool, OperatorRange, OperatorSettings, Rejection, SettingFault,
    WrittenPool, mask_key, ranges_key, switch_key,
};
use crate::behaviours;
use crate::observed::go;
use ipam_core::model::CiliumVersion;
use ipam_core::net::{Block, Family};

/// What an operator of this release makes of the settings.
pub fn read(written: &[WrittenPool<'_>], release: CiliumVersion) -> OperatorSettings {
    let mut settings = OperatorSettings::default();
    // All texts are parsed before any is used.
    for pool in written.iter().filter(|pool| !pool.is_unknown()) {
        settings.rejections.extend(pool.faults_of_texts(release));
    }
    let is_faulty = |family| {
        let faults = settings.rejections.iter();
        faults.clone().any(|rejection| rejection.family == family)
    };
    let sound = written
        .iter()
        .filter(|pool| !pool.is_unknown() && !is_faulty(pool.family));
    let read: Vec<_> = sound
        .map(|pool| (pool.family, pool.pool(release)))
        .collect();
    for (family, pool) in read {
        match pool {
            Ok(pool) => settings.pools.extend(pool.map(|pool| (family, pool))),
            Err(rejection) => settings.rejections.push(*rejection),
        }
    }
    settings
}

impl WrittenPool<'_> {
    fn is_unknown(&self) -> bool {
        let WrittenPool {
            family: _,
            switch,
            ranges,
            mask,
        } = self;
        [switch, ranges, mask]
            .into_iter()
            .any(|one| one.is_unknown())
    }

    /// Texts that are not what their flags parse.
    fn faults_of_texts(&self, release: CiliumVersion) -> Vec<Rejection> {
        let (switch, mask) = (switch_key(self.family), mask_key(self.family));
        let of_flag =
            |key: &str, text: &str| format!("invalid argument {text:?} for \"--{key}\" flag");
        let no_switch = |text: &&str| go::boolean(text).is_none();
        let of_switch = |text: &str, words| (SettingFault::Switch(text.to_owned()), words);
        let of_mask = |text: &str, words| (SettingFault::Mask(text.to_owned()), words);
        let switch_config = self.switch.config().filter(no_switch).map(|text| {
            let words =
                format!("option {switch}: strconv.ParseBool: parsing {text:?}: invalid syntax");
            of_switch(text, words)
        });
        let switch_argument = self.switch.argument.filter(no_switch);
        let switch_argument = switch_argument.map(|text| of_switch(text, of_flag(switch, text)));
        let mask_config = self
            .mask
            .config()
            .filter(|text| number(text, release).is_none());
        let mask_config = mask_config.map(|text| of_mask(text, self.no_number(text, release)));
        let mask_argument = self
            .mask
            .argument
            .filter(|text| go::integer(text).is_none());
        let mask_argument = mask_argument.map(|text| of_mask(text, of_flag(mask, text)));
        let faults = [switch_config, switch_argument, mask_config, mask_argument];
        let rejection = |(fault, words)| Rejection {
            family: self.family,
            fault,
            words,
        };
        faults.into_iter().flatten().map(rejection).collect()
    }

    /// What an operator logs of a mask in `cilium-config` that is no number.
    fn no_number(&self, text: &str, release: CiliumVersion) -> String {
        match go::integer(go::cut_decimals(text)) {
            Some(_) if reads_commas(release) => {
                format!("cannot parse 'ClusterPool{}MaskSize' as int", self.family)
            }
            _ => format!(
                "option {}: unable to cast {text:?} of type string to int",
                mask_key(self.family)
            ),
        }
    }

    /// The mask; `None` if its text is no number.
    pub fn mask(&self, release: CiliumVersion) -> Option<i64> {
        let default = match self.family {
            Family::Ipv4 => 24,
            Family::Ipv6 => 112,
        };
        match (self.mask.argument, self.mask.plain()) {
            (Some(text), _) => go::integer(text),
            (None, Some(text)) => number(text, release),
            (None, None) => Some(default),
        }
    }

    /// The texts of the ranges.
    fn range_texts(&self, release: CiliumVersion) -> Vec<String> {
        let by_comma = |text: &str| text.split(',').map(str::to_owned).collect::<Vec<_>>();
        let by_space = |text: &str| text.split_whitespace().map(str::to_owned).collect();
        let reads_both = reads_commas(release);
        // An argument is a line of CSV.
        let argument = self
            .ranges
            .argument
            .map(|text| text.lines().next().unwrap_or_default());
        match (argument, self.ranges.plain()) {
            (Some(""), _) | (None, None) => Vec::new(),
            (Some(text), _) if text.contains(',') || !reads_both => by_comma(text),
            (None, Some(text)) if text.contains(',') && reads_both => by_comma(text),
            (Some(text), _) | (None, Some(text)) => by_space(text),
        }
    }

    /// The ranges, or the texts that are not CIDRs.
    pub fn ranges(&self, release: CiliumVersion) -> Vec<Result<OperatorRange, String>> {
        let texts = self.range_texts(release).into_iter();
        let parse = |text: String| OperatorRange::parse(&text, release).ok_or(text);
        texts.map(parse).collect()
    }

    /// The pool of the family; `None` if it is off.
    fn pool(&self, release: CiliumVersion) -> Result<Option<OperatorPool>, Box<Rejection>> {
        let family = self.family;
        let reject = |fault, words| {
            Box::new(Rejection {
                family,
                fault,
                words,
            })
        };
        let key = ranges_key(family);
        let ranges = self.ranges(release);
        let is_on = self
            .switch
            .effective()
            .and_then(go::boolean)
            .unwrap_or(true);
        match (is_on, ranges.is_empty()) {
            (true, true) => {
                let words = format!("{key} must be provided when using ClusterPool");
                return Err(reject(SettingFault::NoRange, words));
            }
            (false, false) => {
                let words = format!("{key} must not be set if {family} is disabled");
                return Err(reject(SettingFault::RangeWithoutFamily, words));
            }
            (false, true) => return Ok(None),
            (true, false) => {}
        }
        let mut pool = OperatorPool {
            ranges: Vec::new(),
            mask: self.mask(release).unwrap_or_default(),
        };
        for range in ranges {
            let accepted = range
                .map_err(|text| unreadable(text, release))
                .and_then(|range| pool.accept(family, range));
            if let Err((fault, words)) = accepted {
                let words = format!("unable to initialize {family} allocator: {words}");
                return Err(reject(fault, words));
            }
        }
        Ok(Some(pool))
    }
}

impl OperatorPool {
    /// Adds a range, or says why the operator cannot.
    fn accept(
        &mut self,
        family: Family,
        range: OperatorRange,
    ) -> Result<(), (SettingFault, String)> {
        let mask = self.mask;
        let text = range.text.clone();
        let overlaps = |earlier: &&OperatorRange| {
            earlier.net.contains(&range.net.network()) || range.net.contains(&earlier.net.network())
        };
        if let Some(earlier) = self.ranges.iter().find(overlaps) {
            let words = format!(
                "requested CIDR {text} collides with clusterCIDR: {}, nodeMask: {mask}",
                earlier.net.trunc()
            );
            let earlier = earlier.text.clone();
            return Err((
                SettingFault::Overlap {
                    earlier,
                    later: text,
                },
                words,
            ));
        }
        if Family::of(range.net.addr()) != family {
            let words = match family {
                Family::Ipv4 => "CIDR is not v4 family",
                Family::Ipv6 => "CIDR is not v6 family",
            };
            return Err((SettingFault::OtherFamily(text), words.to_owned()));
        }
        if mask > i64::from(family.bits()) {
            let words = "SubNetMask is invalid, should be lower or equal to 32 for IPv4 and to 128 for IPv6";
            return Err((SettingFault::MaskTooLong(mask), words.to_owned()));
        }
        let apart = mask.saturating_sub(i64::from(range.length));
        if family == Family::Ipv6 && apart > MOST_BITS_OF_IPV6 {
            let words = "New CIDR set failed; the node CIDR size is too big".to_owned();
            let length = range.length;
            return Err((
                SettingFault::TooManyBlocks {
                    range: text,
                    length,
                    mask,
                },
                words,
            ));
        }
        self.ranges.push(range);
        Ok(())
    }
}

fn unreadable(text: String, release: CiliumVersion) -> (SettingFault, String) {
    let words = match uses_netip(release) {
        true => go::prefix_error(&text),
        false => format!("invalid CIDR address: {text}"),
    };
    (SettingFault::Range(text), words)
}

impl OperatorRange {
    fn parse(text: &str, release: CiliumVersion) -> Option<OperatorRange> {
        let (net, length) = match uses_netip(release) {
            true => go::prefix(text),
            false => go::cidr(text),
        }?;
        Some(OperatorRange {
            text: text.to_owned(),
            net,
            length,
        })
    }

    /// The range as a block; `None` if it is a whole address space.
    pub fn block(&self) -> Option<Block> {
        Block::lenient(&self.net.to_string()).ok()
    }
}

fn reads_commas(release: CiliumVersion) -> bool {
    behaviours::LISTS_BY_COMMA.has(release) != Some(false)
}

fn uses_netip(release: CiliumVersion) -> bool {
    behaviours::RANGES_BY_NETIP.has(release) != Some(false)
}

/// A number of `cilium-config`.
fn number(text: &str, release: CiliumVersion) -> Option<i64> {
    let is_newer = behaviours::EMPTY_MASK_IS_ZERO.has(release) != Some(false);
    match text {
        "" if is_newer => Some(0),
        _ if reads_commas(release) => go::integer(text),
        _ if is_newer => go::integer(go::cut_decimals(text)),
        _ => go::integer(go::without_zero_decimal(text)),
    }
}
