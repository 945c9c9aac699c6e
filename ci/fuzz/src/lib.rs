//! Mutations of JSON that leave valid JSON. Most of libFuzzer's own mutations leave text that no
//! longer parses.
//!
//! Knows nothing about the fuzz targets except a few words that their fields may contain.

use serde_json::{Value, json};

/// Values that some field of a fuzz target accepts.
const WORDS: &[&str] = &[
    "",
    "n1",
    "n2",
    "worker-7",
    "uid-n1",
    "uid-n2",
    "7",
    "18446744073709551615",
    "10.20.0.0/24",
    "10.20.0.0/16",
    "10.20.0.7/24",
    "10.20.9.0/24",
    "0.0.0.0/0",
    "10.21.0.4/30",
    "fd00:20::/64",
    "::ffff:10.20.0.0/120",
    "network.cilium.io/ipv4-pod-cidr",
    "network.cilium.io/ipv6-pod-cidr",
    "io.cilium.network.ipv4-pod-cidr",
    "io.cilium.network.ipv6-pod-cidr",
    "spec.podCIDRs",
    "metadata.annotations",
    "undo",
    "release-percent",
    "Node",
    "CiliumNode",
    "true",
    "yes",
    "null",
    "~",
    "1e3",
    "0x1f",
    "2026-01-02T03:04:05Z",
    "a: b\n- c\u{85}\u{2028} #d",
    "\u{1b}]0;x\u{7}",
    "\u{202e}\u{61c}",
];

/// The SplitMix64 random generator: small, and deterministic for a seed.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) % sides.max(1) as u64) as usize
    }
}

/// Changes JSON into other JSON, half of the time; `None` leaves it to libFuzzer.
pub fn mutate(data: &mut [u8], size: usize, max_size: usize, seed: u32) -> Option<usize> {
    let mut dice = Dice(u64::from(seed));
    if dice.roll(2) == 0 {
        return None;
    }
    let mut value: Value = serde_json::from_slice(&data[..size]).ok()?;
    for _ in 0..=dice.roll(3) {
        once(&mut value, &mut dice);
    }
    let text = serde_json::to_vec(&value).ok()?;
    let fits = text.len() <= max_size.min(data.len());
    fits.then(|| {
        data[..text.len()].copy_from_slice(&text);
        text.len()
    })
}

fn once(root: &mut Value, dice: &mut Dice) {
    let (target, donor) = (dice.roll(count(root)), dice.roll(count(root)));
    let donor = nth(root, donor).map(|donor| donor.clone());
    let Some(target) = nth(root, target) else {
        return;
    };
    match (target, dice.roll(4)) {
        (Value::Array(items), 0) if !items.is_empty() => {
            items.remove(dice.roll(items.len()));
        }
        (Value::Array(items), 1) if !items.is_empty() => {
            let copy = items[dice.roll(items.len())].clone();
            items.push(copy);
        }
        (Value::Array(items), 2) => items.extend(donor),
        (Value::Object(fields), 0) => drop_one(fields, dice),
        (Value::Object(fields), 1) => {
            let word = WORDS[dice.roll(WORDS.len())];
            fields.insert(word.to_owned(), donor.unwrap_or(Value::Null));
        }
        (Value::String(text), 0) => text.push_str(WORDS[dice.roll(WORDS.len())]),
        (target, 0) => {
            *target =
                [json!(null), json!(true), json!(0), json!([]), json!({})][dice.roll(5)].clone()
        }
        (target @ Value::String(_), 1 | 2) => *target = json!(WORDS[dice.roll(WORDS.len())]),
        (target, _) => *target = donor.unwrap_or(Value::Null),
    }
}

fn drop_one(fields: &mut serde_json::Map<String, Value>, dice: &mut Dice) {
    if let Some(key) = fields.keys().nth(dice.roll(fields.len())).cloned() {
        fields.remove(&key);
    }
}

/// Values in a tree, itself included.
fn count(value: &Value) -> usize {
    1 + match value {
        Value::Array(items) => items.iter().map(count).sum(),
        Value::Object(fields) => fields.values().map(count).sum::<usize>(),
        _ => 0,
    }
}

/// The value at a place, counted depth first.
fn nth(value: &mut Value, place: usize) -> Option<&mut Value> {
    fn walk<'v>(value: &'v mut Value, left: &mut usize) -> Option<&'v mut Value> {
        if *left == 0 {
            return Some(value);
        }
        *left -= 1;
        match value {
            Value::Array(items) => items.iter_mut().find_map(|item| walk(item, left)),
            Value::Object(fields) => fields.values_mut().find_map(|field| walk(field, left)),
            _ => None,
        }
    }
    let mut left = place;
    walk(value, &mut left)
}
