//! `text_enum!`: an enum whose variants each have one fixed text.
//!
//! The list of variants is the only place that holds the texts. It knows nothing of serde.

/// Declares an enum with `ALL`, `as_str`, `Display` and `FromStr` from one list of
/// `Variant = "text"`.
///
/// Further texts that `FromStr` accepts follow after `|`. `FromStr` fails with `()` on any other
/// text: the caller knows the place, and so writes the message.
///
/// ```
/// ipam_core::text_enum! {
///     /// A mode.
///     #[derive(Clone, Copy, Debug, PartialEq, Eq)]
///     pub enum Mode {
///         /// The default.
///         Pool = "cluster-pool" | "cluster-pool-v2beta",
///         /// An external program allocates.
///         Crd = "crd",
///     }
/// }
/// assert_eq!("cluster-pool-v2beta".parse(), Ok(Mode::Pool));
/// assert_eq!(Mode::ALL.map(Mode::as_str), ["cluster-pool", "crd"]);
/// ```
#[macro_export]
macro_rules! text_enum {
    (
        $(#[$meta:meta])*
        $visibility:vis enum $name:ident {
            $($(#[$variant_meta:meta])* $variant:ident = $text:literal $(| $alias:literal)*),+ $(,)?
        }
    ) => {
        $(#[$meta])*
        $visibility enum $name {
            $($(#[$variant_meta])* $variant),+
        }

        impl $name {
            /// Every variant, in the order of declaration.
            pub const ALL: [$name; [$($text),+].len()] = [$($name::$variant),+];

            /// The fixed text of the variant.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $($name::$variant => $text),+
                }
            }
        }

        impl ::std::fmt::Display for $name {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                f.pad(self.as_str())
            }
        }

        impl ::std::str::FromStr for $name {
            type Err = ();

            fn from_str(text: &str) -> Result<$name, ()> {
                match text {
                    $($text $(| $alias)* => Ok($name::$variant),)+
                    _ => Err(()),
                }
            }
        }
    };
}
