//! `text_enum!`: an enum whose variants each have one fixed text.
//!
//! The list of variants is the only place that holds the texts.
//!
//! `serde_as_text!`: types that stand in JSON as their text.

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

/// Lets serde write types as the text of their `Display`, and read them by their `FromStr`. The
/// words say what an unreadable text should have been.
///
/// ```
/// ipam_core::text_enum! {
///     #[derive(Clone, Copy, Debug, PartialEq, Eq)]
///     pub enum Mode {
///         Pool = "cluster-pool",
///     }
/// }
/// ipam_core::serde_as_text! { Mode: "mode" }
///
/// assert_eq!(serde_json::json!(Mode::Pool), "cluster-pool");
/// let error = serde_json::from_str::<Mode>("\"crd\"").unwrap_err();
/// assert_eq!(error.to_string(), "`crd` is not a valid mode");
/// ```
#[macro_export]
macro_rules! serde_as_text {
    ($($name:ty: $what:literal),+ $(,)?) => {$(
        impl ::serde::Serialize for $name {
            fn serialize<S: ::serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> ::serde::Deserialize<'de> for $name {
            fn deserialize<D: ::serde::Deserializer<'de>>(deserializer: D) -> Result<$name, D::Error> {
                let text = <::std::string::String as ::serde::Deserialize>::deserialize(deserializer)?;
                text.parse().map_err(|_| {
                    let text = text.escape_debug();
                    ::serde::de::Error::custom(format_args!(concat!("`{}` is not a valid ", $what), text))
                })
            }
        }
    )+};
}
