//! Colours as they are seen with each kind of colour vision: tests that variants stay apart, and filesystems recognisable.

use super::{Colour, families::FAMILIES, linear};

/// What linear light becomes: normal vision, protanopia, deuteranopia (Machado, Oliveira and Fernandes 2009).
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
        [
            [0.367_322, 0.860_646, -0.227_968],
            [0.280_085, 0.672_501, 0.047_413],
            [-0.011_820, 0.042_940, 0.968_881],
        ],
    ),
];

/// A colour in Oklab (Ottosson 2020), as someone sees it: lightness, green to red, blue to yellow.
fn seen(Colour(r, g, b): Colour, vision: &[[f64; 3]; 3]) -> [f64; 3] {
    let light = [r, g, b].map(linear);
    let of = |row: &[f64; 3], v: [f64; 3]| row[0] * v[0] + row[1] * v[1] + row[2] * v[2];
    let light = [0, 1, 2].map(|at| of(&vision[at], light).clamp(0.0, 1.0));
    let cones = [
        [0.412_221_470_8, 0.536_332_536_3, 0.051_445_992_9],
        [0.211_903_498_2, 0.680_699_545_1, 0.107_396_956_6],
        [0.088_302_461_9, 0.281_718_837_6, 0.629_978_700_5],
    ];
    let cones = cones.map(|row| of(&row, light).cbrt());
    [
        [0.210_454_255_3, 0.793_617_785, -0.004_072_046_8],
        [1.977_998_495_1, -2.428_592_205, 0.450_593_709_9],
        [0.025_904_037_1, 0.782_771_766_2, -0.808_675_766],
    ]
    .map(|row| of(&row, cones))
}

fn distance(a: Colour, b: Colour, vision: &[[f64; 3]; 3]) -> f64 {
    let (a, b) = (seen(a, vision), seen(b, vision));
    a.iter().zip(b).map(|(a, b)| (a - b) * (a - b)).sum::<f64>().sqrt()
}

/// Hue in degrees.
fn hue(colour: Colour) -> f64 {
    let [_, a, b] = seen(colour, &VISIONS[0].1);
    b.atan2(a).to_degrees()
}

/// All shades on a light page, and all on a dark one.
fn pages() -> [Vec<Vec<Colour>>; 2] {
    let page = |dark: bool| {
        let of = |family: &[(Colour, Colour); 4]| {
            family.iter().map(|(light, turned)| if dark { *turned } else { *light }).collect()
        };
        FAMILIES.iter().map(of).collect()
    };
    [page(false), page(true)]
}

#[test]
fn a_shade_keeps_its_hue_and_is_neither_black_nor_white() {
    for family in pages().iter().flatten() {
        for shade in family {
            let [lightness, a, b] = seen(*shade, &VISIONS[0].1);
            assert!((0.37..0.87).contains(&lightness), "{}: {lightness}", shade.hex());
            // A grey has no hue.
            if family[0] == super::RAW {
                continue;
            }
            let turned = (hue(*shade) - hue(family[0]) + 540.0) % 360.0 - 180.0;
            assert!(turned.abs() < 5.0, "{} is {turned}° from {}", shade.hex(), family[0].hex());
            assert!(a.hypot(b) > 0.5 * seen_chroma(family[0]), "{} is grey", shade.hex());
        }
    }
}

fn seen_chroma(colour: Colour) -> f64 {
    let [_, a, b] = seen(colour, &VISIONS[0].1);
    a.hypot(b)
}

#[test]
fn variants_of_the_common_filesystems_stay_apart_with_every_kind_of_colour_vision() {
    for page in pages() {
        // Blue, vermillion and green are ext4, xfs and btrfs.
        let variants: Vec<(usize, Colour)> =
            page[..3].iter().enumerate().flat_map(|(fs, of)| of.iter().map(move |c| (fs, *c))).collect();
        for (at, (fs, one)) in variants.iter().enumerate() {
            for (other_fs, other) in &variants[..at] {
                // Shapes and dashes tell the variants of one filesystem apart, too.
                let least = if fs == other_fs { 0.035 } else { 0.045 };
                for (name, vision) in &VISIONS {
                    let apart = distance(*one, *other, vision);
                    assert!(apart > least, "{} and {}: {apart}, {name}", one.hex(), other.hex());
                }
            }
        }
    }
}
