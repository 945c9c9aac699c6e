//! Colours that people with the common forms of colour blindness tell apart (Okabe and Ito 2008),
//! in light and dark. Colour never carries meaning alone: hatching, outlines and texts say the same.

/// A colour on light and on dark ground.
pub(super) struct Pair {
    pub(super) light: &'static str,
    pub(super) dark: &'static str,
}

/// For pools and failure domains, in turn.
pub(super) const SERIES: [Pair; 8] = [
    pair("#0072b2", "#3a9bd9"),
    pair("#e69f00", "#e6a817"),
    pair("#009e73", "#1fb88d"),
    pair("#cc79a7", "#d38db5"),
    pair("#56b4e9", "#7cc5ee"),
    pair("#d55e00", "#ee7a24"),
    pair("#8a7f00", "#f0e442"),
    pair("#6a51a3", "#a58fd8"),
];

const fn pair(light: &'static str, dark: &'static str) -> Pair {
    Pair { light, dark }
}
