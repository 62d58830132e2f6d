//! The shades of each colour: several variants of one filesystem share its hue.
//!
//! Hues are kept in Oklab (Ottosson 2020) and lightness stays within bounds, so that no shade turns black or white: each
//! stands out from its page by 3:1, and variants of different filesystems stay apart for colour-blind readers.

use super::{BLUE, Colour, GREEN, ORANGE, PURPLE, RAW, SKY, VERMILLION, YELLOW};

/// Shades of one colour: each on a light page and on a dark one, the colour itself first.
type Family = [(Colour, Colour); 4];

/// The shades of a colour: what it becomes on a dark page, and three more of it, each light and dark.
const fn family(own: Colour, [dark, a, a_dark, b, b_dark, c, c_dark]: [u32; 7]) -> Family {
    [(own, rgb(dark)), (rgb(a), rgb(a_dark)), (rgb(b), rgb(b_dark)), (rgb(c), rgb(c_dark))]
}

const fn rgb(hex: u32) -> Colour {
    Colour((hex >> 16) as u8, (hex >> 8) as u8, hex as u8)
}

pub(super) const FAMILIES: [Family; 8] = [
    family(BLUE, [0x2e8bc9, 0x4097e1, 0x8bccfe, 0x004576, 0x46adf3, 0x1d7bc3, 0x0075b4]),
    family(VERMILLION, [0xf07f2e, 0x6e2b00, 0xad5100, 0xa04500, 0xffaf7e, 0xbb5000, 0xd06504]),
    family(GREEN, [0x1fb98c, 0x005038, 0x008361, 0x007554, 0x41e3af, 0x008863, 0x059d76]),
    family(SKY, [0xa6dcf7, 0x004869, 0x3d7791, 0x006f9e, 0x6ea8c5, 0x2384b5, 0x5690ab]),
    family(PURPLE, [0xdd93bd, 0x6f1c50, 0x9c517e, 0x9f487b, 0xbe6f9d, 0x873265, 0xf9a6d5]),
    family(ORANGE, [0xe69f00, 0x5b3b00, 0x936400, 0x8e6000, 0xbc8100, 0x744e00, 0xffb426]),
    family(YELLOW, [0xd9c95a, 0x4d4300, 0x7d7000, 0xa4921e, 0xad9b00, 0x695b00, 0x948503]),
    family(RAW, [0x7d8590, 0x3b434e, 0xbcc5d2, 0x5b636f, 0x9ba5b1, 0x4b535e, 0x676f7b]),
];

impl Colour {
    /// The `at`-th shade of a colour, itself first; shades of a shade are of the same colour. Of a colour without shades
    /// it is the colour.
    pub fn shade(self, at: usize) -> Colour {
        let place = |family: &Family| family.iter().position(|(light, _)| *light == self);
        let found = FAMILIES.iter().find_map(|family| Some((family, place(family)?)));
        found.map_or(self, |(family, place)| family[(place + at) % family.len()].0)
    }

    /// Every colour that a variant may have, and what it becomes on a dark page.
    pub fn turned() -> impl Iterator<Item = (Colour, Colour)> {
        FAMILIES.into_iter().flatten()
    }
}
