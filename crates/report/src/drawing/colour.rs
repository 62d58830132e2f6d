//! Colours: one a filesystem in every chart, safe for colour-blind readers, and a few for what is around.

mod families;
#[cfg(test)]
mod vision;

use fsarena_core::factor;

/// Red, green, blue. The colours of [`theme`] are replaced where a page is dark.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Colour(pub u8, pub u8, pub u8);

/// Colours of the page and of everything that is not data.
pub mod theme {
    use super::Colour;
    /// Titles, axes, intervals.
    pub const INK: Colour = Colour(0x1f, 0x23, 0x28);
    /// Labels.
    pub const SOFT: Colour = Colour(0x57, 0x60, 0x6a);
    /// Grid lines.
    pub const GRID: Colour = Colour(0xd8, 0xde, 0xe4);
    /// The idle wait, which takes time but is not data.
    pub const SHADE: Colour = Colour(0x8c, 0x95, 0x9f);
    /// Warm-up, which is work but does not count.
    pub const WARM: Colour = Colour(0x8a, 0x6d, 0x5b);
    /// The page.
    pub const PAPER: Colour = Colour(0xff, 0xff, 0xff);
    /// A dark page.
    pub const DARK_PAPER: Colour = Colour(0x0d, 0x11, 0x17);
    /// What each becomes on a dark page.
    pub const TURNED: [(Colour, Colour); 6] = [
        (INK, Colour(0xe6, 0xed, 0xf3)),
        (SOFT, Colour(0x9d, 0xa7, 0xb3)),
        (GRID, Colour(0x30, 0x36, 0x3d)),
        (SHADE, Colour(0x6a, 0x75, 0x80)),
        (WARM, Colour(0xb3, 0x94, 0x7f)),
        (PAPER, DARK_PAPER),
    ];
}

/// Text on a light cell of a heat map, whatever the page.
pub const ON_LIGHT: Colour = Colour(0x01, 0x01, 0x01);
/// Text on a dark cell of a heat map, whatever the page.
pub const ON_DARK: Colour = Colour(0xfe, 0xfe, 0xfe);

/// The hues of Okabe and Ito (2008), each so dark that it stands out from white by 3:1, as WCAG 2.2 asks of graphics.
const PALETTE: [Colour; 7] = [BLUE, VERMILLION, GREEN, SKY, PURPLE, ORANGE, YELLOW];
/// Blue.
pub const BLUE: Colour = Colour(0x00, 0x5f, 0x9e);
/// Vermillion.
pub const VERMILLION: Colour = Colour(0xd5, 0x5e, 0x00);
/// Bluish green.
pub const GREEN: Colour = Colour(0x00, 0x9e, 0x73);
/// Sky blue.
pub const SKY: Colour = Colour(0x49, 0x99, 0xc6);
/// Reddish purple.
pub const PURPLE: Colour = Colour(0xcc, 0x79, 0xa7);
/// Orange.
pub const ORANGE: Colour = Colour(0xc4, 0x87, 0x00);
/// Yellow.
pub const YELLOW: Colour = Colour(0x85, 0x75, 0x00);
/// The bare device.
const RAW: Colour = Colour(0x7d, 0x85, 0x90);
const WHITE: Colour = Colour(0xff, 0xff, 0xff);
const BLACK: Colour = Colour(0x00, 0x00, 0x00);

/// Filesystems with a colour of their own in every report.
const KNOWN: [(&str, Colour); 8] = [
    ("ext4", BLUE),
    ("xfs", VERMILLION),
    ("btrfs", GREEN),
    ("ext3", SKY),
    ("ext2", PURPLE),
    ("f2fs", ORANGE),
    ("jfs", YELLOW),
    (factor::RAW, RAW),
];

/// The colours of filesystems by their names, in shades where a name occurs again. Filesystems without a colour of their
/// own take what the others leave, in order.
pub fn of_names(names: &[&str]) -> Vec<Colour> {
    let mut given: Vec<(&str, Colour)> =
        names.iter().filter_map(|name| KNOWN.into_iter().find(|(fs, _)| fs == name)).collect();
    let mut colours: Vec<Colour> = Vec::new();
    for (at, name) in names.iter().enumerate() {
        let base = match given.iter().find(|(fs, _)| fs == name) {
            Some((_, colour)) => *colour,
            None => {
                let free = PALETTE.into_iter().find(|colour| given.iter().all(|(_, taken)| taken != colour));
                let (round, place) = (given.len() / PALETTE.len(), given.len() % PALETTE.len());
                let colour = free.unwrap_or(PALETTE[place].shade(round));
                given.push((name, colour));
                colour
            }
        };
        colours.push(base.shade(shade_number(names, at)));
    }
    colours
}

/// How often the `at`-th name stands before itself: the number of its shade.
pub(crate) fn shade_number(names: &[&str], at: usize) -> usize {
    names[..at].iter().filter(|other| **other == names[at]).count()
}

impl Colour {
    /// A mixture with another colour.
    pub fn towards(self, other: Colour, share: f64) -> Colour {
        let mix = |a: u8, b: u8| (f64::from(a) + (f64::from(b) - f64::from(a)) * share).round() as u8;
        Colour(mix(self.0, other.0), mix(self.1, other.1), mix(self.2, other.2))
    }

    /// `#1F2328`, as the renderer writes it.
    pub fn hex(self) -> String {
        format!("#{:02X}{:02X}{:02X}", self.0, self.1, self.2)
    }

    /// The colour of text on it.
    pub fn text(self) -> Colour {
        if self.contrast(BLACK) > self.contrast(WHITE) { ON_LIGHT } else { ON_DARK }
    }

    /// How far it stands out from another: the contrast ratio of WCAG 2.2, from 1 to 21.
    pub fn contrast(self, other: Colour) -> f64 {
        let (a, b) = (self.luminance(), other.luminance());
        (a.max(b) + 0.05) / (a.min(b) + 0.05)
    }

    fn luminance(self) -> f64 {
        0.2126 * linear(self.0) + 0.7152 * linear(self.1) + 0.0722 * linear(self.2)
    }

    /// A place on the scale of heat maps, from 0 to 1: cividis, which reads alike with all kinds of colour vision
    /// and in print (Nuñez, Anderton and Renslow 2018), by a few of its colours.
    pub fn heat(share: f64) -> Colour {
        const STOPS: [Colour; 6] = [
            Colour(0x00, 0x22, 0x4e),
            Colour(0x3b, 0x49, 0x6c),
            Colour(0x6a, 0x6a, 0x6f),
            Colour(0x96, 0x8b, 0x75),
            Colour(0xc8, 0xb3, 0x66),
            Colour(0xfd, 0xea, 0x45),
        ];
        let place = share.clamp(0.0, 1.0) * (STOPS.len() - 1) as f64;
        let at = (place.floor() as usize).min(STOPS.len() - 2);
        STOPS[at].towards(STOPS[at + 1], place - at as f64)
    }
}

/// A component of sRGB as light.
fn linear(component: u8) -> f64 {
    let c = f64::from(component) / 255.0;
    if c <= 0.04045 { c / 12.92 } else { ((c + 0.055) / 1.055).powf(2.4) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filesystem_has_one_colour_whatever_is_beside_it() {
        assert_eq!(of_names(&["xfs", "ext4"]), [VERMILLION, BLUE]);
        assert_eq!(of_names(&["zfs", "ext4"]), [VERMILLION, BLUE]);
        assert_eq!(of_names(&["zfs", "xfs", "zfs"])[1], VERMILLION);
    }

    #[test]
    fn variants_of_one_filesystem_are_shades_of_it() {
        let colours = of_names(&["ext4", "ext4", "ext4"]);
        assert_eq!(colours[0], BLUE);
        assert!(colours[1] != colours[0] && colours[2] != colours[1] && colours[2] != colours[0]);
    }

    #[test]
    fn shades_of_shades_are_of_the_same_colour() {
        assert_eq!(BLUE.shade(1).shade(2), BLUE.shade(3));
        assert_eq!(BLUE.shade(3).shade(1), BLUE);
    }

    #[test]
    fn what_is_drawn_stands_out_from_the_page_by_three_to_one() {
        assert!((BLACK.contrast(WHITE) - 21.0).abs() < 1e-9);
        for (light, dark) in Colour::turned()
            .chain(theme::TURNED.into_iter().filter(|(c, _)| [theme::SHADE, theme::WARM].contains(c)))
        {
            assert!(light.contrast(theme::PAPER) >= 3.0, "{} on white", light.hex());
            assert!(dark.contrast(theme::DARK_PAPER) >= 3.0, "{} on a dark page", dark.hex());
        }
    }

    #[test]
    fn words_stand_out_by_four_and_a_half_to_one() {
        for (light, dark) in theme::TURNED.into_iter().filter(|(c, _)| [theme::INK, theme::SOFT].contains(c))
        {
            assert!(
                light.contrast(theme::PAPER) >= 4.5 && dark.contrast(theme::DARK_PAPER) >= 4.5,
                "{light:?}"
            );
        }
        for share in 0..=20 {
            let cell = Colour::heat(f64::from(share) / 20.0);
            assert!(cell.contrast(cell.text()) >= 4.5, "{}", cell.hex());
        }
    }

    #[test]
    fn many_filesystems_stay_apart() {
        let names: Vec<String> = (0..12).map(|n| format!("fs{n}")).collect();
        let mut colours = of_names(&names.iter().map(String::as_str).collect::<Vec<_>>());
        colours.sort_unstable();
        colours.dedup();
        assert_eq!(colours.len(), 12);
    }

    #[test]
    fn heat_runs_from_dark_to_light_and_its_text_can_be_read() {
        assert_eq!(Colour::heat(-1.0).hex(), "#00224E");
        assert_eq!(Colour::heat(2.0).hex(), "#FDEA45");
        assert_eq!((Colour::heat(0.0).text(), Colour::heat(1.0).text()), (ON_DARK, ON_LIGHT));
    }
}
