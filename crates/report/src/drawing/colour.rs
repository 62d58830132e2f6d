//! Colours of charts: one for each filesystem, the same in every chart and distinguishable with colour-blindness, and the
//! colours of axes, labels and the page.

use fsarena_core::factor;

/// An sRGB colour: red, green, blue. On a dark page the style sheet uses its replacement in [`theme`] or
/// [`Colour::series_dark_replacements`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Colour(pub u8, pub u8, pub u8);

/// Colours of the page and of everything that is not data.
pub mod theme {
    use super::Colour;
    /// Titles, axes, intervals.
    pub const INK: Colour = Colour(0x1f, 0x23, 0x28);
    /// Labels.
    pub const MUTED: Colour = Colour(0x57, 0x60, 0x6a);
    /// Grid lines.
    pub const GRID: Colour = Colour(0xd8, 0xde, 0xe4);
    /// Lines of axes, and the idle wait, which takes time but is not data.
    pub const GREY: Colour = Colour(0x8c, 0x95, 0x9f);
    /// Warm-up, which is work but does not count.
    pub const WARM_UP: Colour = Colour(0x8a, 0x6d, 0x5b);
    /// The page.
    pub const PAPER: Colour = Colour(0xff, 0xff, 0xff);
    /// A dark page.
    pub const DARK_PAPER: Colour = Colour(0x0d, 0x11, 0x17);
    /// Colours of this module, each with its replacement on a dark page.
    pub const DARK_REPLACEMENTS: [(Colour, Colour); 6] = [
        (INK, Colour(0xe6, 0xed, 0xf3)),
        (MUTED, Colour(0x9d, 0xa7, 0xb3)),
        (GRID, Colour(0x30, 0x36, 0x3d)),
        (GREY, Colour(0x6a, 0x75, 0x80)),
        (WARM_UP, Colour(0xb3, 0x94, 0x7f)),
        (PAPER, DARK_PAPER),
    ];
}

/// Text on a light cell of a heat map. Neither the text nor the cell has a dark replacement.
pub const TEXT_ON_LIGHT: Colour = Colour(0x01, 0x01, 0x01);
/// Text on a dark cell of a heat map. Neither the text nor the cell has a dark replacement.
pub const TEXT_ON_DARK: Colour = Colour(0xfe, 0xfe, 0xfe);

/// The hues of Okabe and Ito (2008), darkened to a contrast of at least 3:1 with white, which WCAG 2.2 requires of
/// graphics.
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
/// The grey of the bare device.
const BARE_DEVICE: Colour = Colour(0x7d, 0x85, 0x90);
const WHITE: Colour = Colour(0xff, 0xff, 0xff);
const BLACK: Colour = Colour(0x00, 0x00, 0x00);

/// Filesystems that have the same colour in every report: the n-th has the n-th colour of [`PALETTE`], and the last, the bare
/// device, has [`BARE_DEVICE`].
const NAMES_WITH_FIXED_COLOUR: [&str; 8] = ["ext4", "xfs", "btrfs", "ext3", "ext2", "f2fs", "jfs", factor::RAW];

/// The colour that a filesystem has in every report; `None` if it has no fixed colour.
fn fixed_colour(name: &str) -> Option<Colour> {
    let index = NAMES_WITH_FIXED_COLOUR.iter().position(|known| *known == name)?;
    Some(PALETTE.get(index).copied().unwrap_or(BARE_DEVICE))
}

/// The colours of filesystems, in the order of their names. A name that occurs again gets another shade of its colour.
/// Filesystems without a fixed colour get the unused colours of the palette, in order.
pub fn filesystem_colours(names: &[&str]) -> Vec<Colour> {
    let mut assigned: Vec<(&str, Colour)> =
        names.iter().filter_map(|name| Some((*name, fixed_colour(name)?))).collect();
    let mut colours: Vec<Colour> = Vec::new();
    for (index, name) in names.iter().enumerate() {
        let base = match assigned.iter().find(|(fs, _)| fs == name) {
            Some((_, colour)) => *colour,
            None => {
                let colour = next_unused_colour(&assigned);
                assigned.push((name, colour));
                colour
            }
        };
        colours.push(base.shade(shade_number(names, index)));
    }
    colours
}

/// The first colour of the palette that is not assigned; if all are, a shade of one of them.
fn next_unused_colour(assigned: &[(&str, Colour)]) -> Colour {
    let unused = PALETTE.into_iter().find(|colour| assigned.iter().all(|(_, used)| used != colour));
    let (shade, index) = (assigned.len() / PALETTE.len(), assigned.len() % PALETTE.len());
    unused.unwrap_or(PALETTE[index].shade(shade))
}

/// The number of the shade of the name at this index: how often the same name occurs before it.
pub(crate) fn shade_number(names: &[&str], index: usize) -> usize {
    names[..index].iter().filter(|other| **other == names[index]).count()
}

impl Colour {
    /// Mixes the colour with another: fraction 0 is this colour, 1 is the other.
    pub fn mixed_with(self, other: Colour, fraction: f64) -> Colour {
        let mix = |own: u8, other: u8| (f64::from(own) + (f64::from(other) - f64::from(own)) * fraction).round() as u8;
        Colour(mix(self.0, other.0), mix(self.1, other.1), mix(self.2, other.2))
    }

    /// The colour as CSS writes it: `#1F2328`.
    pub fn hex(self) -> String {
        format!("#{:02X}{:02X}{:02X}", self.0, self.1, self.2)
    }

    /// The colour of readable text on this colour: black or white, nearly.
    pub fn text_colour(self) -> Colour {
        if self.contrast(BLACK) > self.contrast(WHITE) { TEXT_ON_LIGHT } else { TEXT_ON_DARK }
    }

    /// The contrast ratio of WCAG 2.2 to another colour, from 1 to 21.
    pub fn contrast(self, other: Colour) -> f64 {
        let (a, b) = (self.luminance(), other.luminance());
        (a.max(b) + 0.05) / (a.min(b) + 0.05)
    }

    /// The relative luminance of WCAG 2.2, from 0 to 1.
    fn luminance(self) -> f64 {
        0.2126 * to_linear_light(self.0) + 0.7152 * to_linear_light(self.1) + 0.0722 * to_linear_light(self.2)
    }

    /// The colour of a value of a heat map, from 0 to 1: interpolated between six colours of cividis, which looks alike with
    /// all kinds of colour vision and in print (Nuñez, Anderton and Renslow 2018).
    pub fn on_heat_scale(fraction: f64) -> Colour {
        const STOPS: [Colour; 6] = [
            Colour(0x00, 0x22, 0x4e),
            Colour(0x3b, 0x49, 0x6c),
            Colour(0x6a, 0x6a, 0x6f),
            Colour(0x96, 0x8b, 0x75),
            Colour(0xc8, 0xb3, 0x66),
            Colour(0xfd, 0xea, 0x45),
        ];
        let position = fraction.clamp(0.0, 1.0) * (STOPS.len() - 1) as f64;
        let index = (position.floor() as usize).min(STOPS.len() - 2);
        STOPS[index].mixed_with(STOPS[index + 1], position - index as f64)
    }
}

/// Converts a component of sRGB to linear light, from 0 to 1.
fn to_linear_light(component: u8) -> f64 {
    let c = f64::from(component) / 255.0;
    if c <= 0.04045 { c / 12.92 } else { ((c + 0.055) / 1.055).powf(2.4) }
}

/// Four shades of one colour, the colour itself first. Each shade has a colour for light pages and one for dark pages.
type ShadeFamily = [(Colour, Colour); 4];

/// Makes a family of a colour, its replacement on a dark page, and three more shades, each for light and dark pages. The
/// numbers are `0xRRGGBB`.
const fn shade_family(base: Colour, [dark, a, a_dark, b, b_dark, c, c_dark]: [u32; 7]) -> ShadeFamily {
    [(base, rgb(dark)), (rgb(a), rgb(a_dark)), (rgb(b), rgb(b_dark)), (rgb(c), rgb(c_dark))]
}

const fn rgb(hex: u32) -> Colour {
    Colour((hex >> 16) as u8, (hex >> 8) as u8, hex as u8)
}

/// All colours of series, with their shades.
const SHADE_FAMILIES: [ShadeFamily; 8] = [
    shade_family(BLUE, [0x2e8bc9, 0x4097e1, 0x8bccfe, 0x004576, 0x46adf3, 0x1d7bc3, 0x0075b4]),
    shade_family(VERMILLION, [0xf07f2e, 0x6e2b00, 0xad5100, 0xa04500, 0xffaf7e, 0xbb5000, 0xd06504]),
    shade_family(GREEN, [0x1fb98c, 0x005038, 0x008361, 0x007554, 0x41e3af, 0x008863, 0x059d76]),
    shade_family(SKY, [0xa6dcf7, 0x004869, 0x3d7791, 0x006f9e, 0x6ea8c5, 0x2384b5, 0x5690ab]),
    shade_family(PURPLE, [0xdd93bd, 0x6f1c50, 0x9c517e, 0x9f487b, 0xbe6f9d, 0x873265, 0xf9a6d5]),
    shade_family(ORANGE, [0xe69f00, 0x5b3b00, 0x936400, 0x8e6000, 0xbc8100, 0x744e00, 0xffb426]),
    shade_family(YELLOW, [0xd9c95a, 0x4d4300, 0x7d7000, 0xa4921e, 0xad9b00, 0x695b00, 0x948503]),
    shade_family(BARE_DEVICE, [0x7d8590, 0x3b434e, 0xbcc5d2, 0x5b636f, 0x9ba5b1, 0x4b535e, 0x676f7b]),
];

impl Colour {
    /// The n-th shade of this colour, which is itself shade 0. Shades of a shade belong to the same family. A
    /// colour without a family has no other shade.
    pub fn shade(self, number: usize) -> Colour {
        for family in &SHADE_FAMILIES {
            if let Some(own_number) = family.iter().position(|(light, _)| *light == self) {
                return family[(own_number + number) % family.len()].0;
            }
        }
        self
    }

    /// Every colour of a series, with its replacement on a dark page.
    pub fn series_dark_replacements() -> impl Iterator<Item = (Colour, Colour)> {
        SHADE_FAMILIES.into_iter().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_known_filesystem_has_the_same_colour_beside_any_other() {
        assert_eq!(filesystem_colours(&["xfs", "ext4"]), [VERMILLION, BLUE]);
        assert_eq!(filesystem_colours(&["zfs", "ext4"]), [VERMILLION, BLUE]);
        assert_eq!(filesystem_colours(&["zfs", "xfs", "zfs"])[1], VERMILLION);
    }

    #[test]
    fn variants_of_one_filesystem_are_shades_of_it() {
        let colours = filesystem_colours(&["ext4", "ext4", "ext4"]);
        assert_eq!(colours[0], BLUE);
        assert!(colours[1] != colours[0] && colours[2] != colours[1] && colours[2] != colours[0]);
    }

    #[test]
    fn shades_of_shades_stay_in_the_family() {
        assert_eq!(BLUE.shade(1).shade(2), BLUE.shade(3));
        assert_eq!(BLUE.shade(3).shade(1), BLUE);
    }

    #[test]
    fn graphics_have_a_contrast_of_three_to_one_with_the_page() {
        assert!((BLACK.contrast(WHITE) - 21.0).abs() < 1e-9);
        for (light, dark) in Colour::series_dark_replacements().chain(
            theme::DARK_REPLACEMENTS.into_iter().filter(|(colour, _)| [theme::GREY, theme::WARM_UP].contains(colour)),
        ) {
            assert!(light.contrast(theme::PAPER) >= 3.0, "{} on white", light.hex());
            assert!(dark.contrast(theme::DARK_PAPER) >= 3.0, "{} on a dark page", dark.hex());
        }
    }

    #[test]
    fn text_has_a_contrast_of_four_and_a_half_to_one() {
        for (light, dark) in
            theme::DARK_REPLACEMENTS.into_iter().filter(|(colour, _)| [theme::INK, theme::MUTED].contains(colour))
        {
            assert!(light.contrast(theme::PAPER) >= 4.5 && dark.contrast(theme::DARK_PAPER) >= 4.5, "{light:?}");
        }
        for twentieths in 0..=20 {
            let cell = Colour::on_heat_scale(f64::from(twentieths) / 20.0);
            assert!(cell.contrast(cell.text_colour()) >= 4.5, "{}", cell.hex());
        }
    }

    #[test]
    fn twelve_filesystems_have_twelve_colours() {
        let names: Vec<String> = (0..12).map(|n| format!("fs{n}")).collect();
        let mut colours = filesystem_colours(&names.iter().map(String::as_str).collect::<Vec<_>>());
        colours.sort_unstable();
        colours.dedup();
        assert_eq!(colours.len(), 12);
    }

    #[test]
    fn heat_runs_from_dark_to_light_with_text_that_contrasts() {
        assert_eq!(Colour::on_heat_scale(-1.0).hex(), "#00224E");
        assert_eq!(Colour::on_heat_scale(2.0).hex(), "#FDEA45");
        assert_eq!(
            (Colour::on_heat_scale(0.0).text_colour(), Colour::on_heat_scale(1.0).text_colour()),
            (TEXT_ON_DARK, TEXT_ON_LIGHT)
        );
    }

    /// Matrices that simulate colour vision in linear light: normal, protanopia, deuteranopia (Machado, Oliveira and
    /// Fernandes 2009).
    const VISIONS: [(&str, [[f64; 3]; 3]); 3] = [
        ("normal", [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]),
        (
            "protanopia",
            [
                [0.152_286, 1.052_583, -0.204_868],
                [0.114_503, 0.786_281, 0.099_216],
                [-0.003_882, -0.048_116, 1.051_998],
            ],
        ),
        (
            "deuteranopia",
            [[0.367_322, 0.860_646, -0.227_968], [0.280_085, 0.672_501, 0.047_413], [-0.011_820, 0.042_940, 0.968_881]],
        ),
    ];

    /// A colour in Oklab (Ottosson 2020) as somebody with this colour vision sees it: lightness, green to red, blue to
    /// yellow.
    fn oklab(Colour(r, g, b): Colour, vision: &[[f64; 3]; 3]) -> [f64; 3] {
        let linear = [r, g, b].map(to_linear_light);
        let dot = |row: &[f64; 3], v: [f64; 3]| row[0] * v[0] + row[1] * v[1] + row[2] * v[2];
        let light = [0, 1, 2].map(|row| dot(&vision[row], linear).clamp(0.0, 1.0));
        let cones = [
            [0.412_221_470_8, 0.536_332_536_3, 0.051_445_992_9],
            [0.211_903_498_2, 0.680_699_545_1, 0.107_396_956_6],
            [0.088_302_461_9, 0.281_718_837_6, 0.629_978_700_5],
        ];
        let cones = cones.map(|row| dot(&row, light).cbrt());
        [
            [0.210_454_255_3, 0.793_617_785, -0.004_072_046_8],
            [1.977_998_495_1, -2.428_592_205, 0.450_593_709_9],
            [0.025_904_037_1, 0.782_771_766_2, -0.808_675_766],
        ]
        .map(|row| dot(&row, cones))
    }

    /// The distance of two colours in Oklab, as somebody with this colour vision sees them.
    fn distance(a: Colour, b: Colour, vision: &[[f64; 3]; 3]) -> f64 {
        let (a, b) = (oklab(a, vision), oklab(b, vision));
        a.iter().zip(b).map(|(a, b)| (a - b) * (a - b)).sum::<f64>().sqrt()
    }

    /// Hue in degrees.
    fn hue(colour: Colour) -> f64 {
        let [_, a, b] = oklab(colour, &VISIONS[0].1);
        b.atan2(a).to_degrees()
    }

    /// The families of shades on a light page, and those on a dark page.
    fn shade_families_by_page() -> [Vec<[Colour; 4]>; 2] {
        [
            SHADE_FAMILIES.iter().map(|family| family.map(|(light, _)| light)).collect(),
            SHADE_FAMILIES.iter().map(|family| family.map(|(_, dark)| dark)).collect(),
        ]
    }

    #[test]
    fn a_shade_keeps_its_hue_and_is_neither_black_nor_white() {
        for family in shade_families_by_page().iter().flatten() {
            for shade in family {
                let [lightness, a, b] = oklab(*shade, &VISIONS[0].1);
                assert!((0.37..0.87).contains(&lightness), "{}: {lightness}", shade.hex());
                // A grey has no hue.
                if family[0] == BARE_DEVICE {
                    continue;
                }
                let hue_difference = (hue(*shade) - hue(family[0]) + 540.0) % 360.0 - 180.0;
                assert!(hue_difference.abs() < 5.0, "{} is {hue_difference}° from {}", shade.hex(), family[0].hex());
                assert!(a.hypot(b) > 0.5 * chroma(family[0]), "{} is grey", shade.hex());
            }
        }
    }

    /// The distance of a colour from grey in Oklab.
    fn chroma(colour: Colour) -> f64 {
        let [_, a, b] = oklab(colour, &VISIONS[0].1);
        a.hypot(b)
    }

    #[test]
    fn variants_of_the_common_filesystems_stay_apart_with_every_kind_of_colour_vision() {
        for families in shade_families_by_page() {
            // Blue, vermillion and green are ext4, xfs and btrfs.
            let families = families[..3].iter().enumerate();
            let variants: Vec<(usize, Colour)> =
                families.flat_map(|(fs, shades)| shades.map(|shade| (fs, shade))).collect();
            for (index, (fs, colour)) in variants.iter().enumerate() {
                for (other_fs, other_colour) in &variants[..index] {
                    // Variants of one filesystem also differ in shape and dash pattern.
                    let min_distance = if fs == other_fs { 0.035 } else { 0.045 };
                    for (name, vision) in &VISIONS {
                        let colour_distance = distance(*colour, *other_colour, vision);
                        assert!(
                            colour_distance > min_distance,
                            "{} and {}: {colour_distance}, {name}",
                            colour.hex(),
                            other_colour.hex()
                        );
                    }
                }
            }
        }
    }
}
