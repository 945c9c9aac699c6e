//! Adds up figures of many runs, field by field. A field that is left out does not compile.

/// `Add` for a struct of figures: sums, and maxima after `max`.
macro_rules! adds_up {
    ($figures:ident { $($sum:ident),+ $(; max $($most:ident),+)? }) => {
        impl std::ops::Add for $figures {
            type Output = $figures;

            fn add(self, other: $figures) -> $figures {
                $figures {
                    $($sum: self.$sum + other.$sum,)+
                    $($($most: self.$most.max(other.$most),)+)?
                }
            }
        }
    };
}

pub(crate) use adds_up;
