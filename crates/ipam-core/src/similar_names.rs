//! Finds the name that a misspelt one probably means.

/// Below this similarity, from 0 to 1, a name is another one and not a slip.
const SIMILAR: f64 = 0.75;

/// The most similar name, if one is similar enough.
pub fn most_similar<'n>(given: &str, names: impl IntoIterator<Item = &'n str>) -> Option<&'n str> {
    let given = given.to_lowercase();
    let scored = names
        .into_iter()
        .map(|name| (strsim::jaro_winkler(&given, name), name));
    let best = scored.max_by(|(one, _), (other, _)| one.total_cmp(other));
    best.filter(|(similarity, _)| *similarity >= SIMILAR)
        .map(|(_, name)| name)
}
