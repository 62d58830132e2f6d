//! The macro for enums whose variants have names.

/// Defines an enum without fields in which each variant has a name. Adds the constant `ALL`
/// with all variants, and the method `name`. The enum must derive `Clone` and `Copy`.
///
/// # Examples
/// ```
/// fsarena_core::named_enum! {
///     /// The speed of a disk.
///     #[derive(Debug, Clone, Copy)]
///     pub enum Speed {
///         /// Under 100 MB/s.
///         Low = "slow",
///         /// 100 MB/s or more.
///         High = "fast",
///     }
/// }
/// assert_eq!(Speed::ALL.map(Speed::name), ["slow", "fast"]);
/// ```
#[macro_export]
macro_rules! named_enum {
    (
        $(#[$attribute:meta])*
        $visibility:vis enum $Enum:ident {
            $($(#[$variant_attribute:meta])* $Variant:ident = $name:literal,)*
        }
    ) => {
        $(#[$attribute])*
        $visibility enum $Enum {
            $($(#[$variant_attribute])* $Variant,)*
        }

        impl $Enum {
            /// All variants, in the order of the enum.
            pub const ALL: [$Enum; [$($name),*].len()] = [$($Enum::$Variant),*];

            /// The name of the variant in every output, and where users write it.
            pub const fn name(self) -> &'static str {
                match self {
                    $($Enum::$Variant => $name,)*
                }
            }
        }
    };
}
