//! Text of a chart: its width in DejaVu Sans, and what of it fits into a given width.

use ttf_parser::Face;

/// DejaVu Sans: Latin, Greek, and signs of mathematics. readers of SVG files may have another font, and most are
/// narrower.
const REGULAR: &[u8] = include_bytes!("../../assets/fonts/DejaVuSans-subset.ttf");
/// The same in bold.
const BOLD: &[u8] = include_bytes!("../../assets/fonts/DejaVuSans-Bold-subset.ttf");

/// Labels of axes and of the legend.
pub const LABEL: Font = Font { size: 11.0, bold: false };
/// Words and figures between the axes.
pub const SMALL: Font = Font { size: 10.0, bold: false };

/// Size and weight of text.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Font {
    /// Height of the font in CSS pixels.
    pub size: f64,
    /// Whether it is bold.
    pub bold: bool,
}

impl Font {
    /// Width of `text` in CSS pixels. A character that the font lacks counts as a square.
    pub fn width(self, text: &str) -> f64 {
        let bytes = if self.bold { BOLD } else { REGULAR };
        let face = Face::parse(bytes, 0).expect("the font that is built in");
        let unit = self.size / f64::from(face.units_per_em());
        let width = |c| {
            let advance = face.glyph_index(c).and_then(|glyph| face.glyph_hor_advance(glyph));
            advance.map_or(self.size, |advance| f64::from(advance) * unit)
        };
        text.chars().map(width).sum()
    }

    /// `text`, or its beginning and end if it is wider than `room`.
    pub fn fit(self, text: &str, room: f64) -> String {
        if self.width(text) <= room {
            return text.to_string();
        }
        let chars: Vec<char> = text.chars().collect();
        // No character of the font is narrower than a quarter of its height.
        let most = chars.len().min((4.0 * room / self.size) as usize);
        let shortened = |kept: usize| {
            let (start, end) = (kept.div_ceil(2), chars.len() - kept / 2);
            chars[..start].iter().chain(&['…']).chain(&chars[end..]).collect::<String>()
        };
        (0..most).rev().map(shortened).find(|text| self.width(text) <= room).unwrap_or_else(|| "…".into())
    }

    /// `text` as one or two lines, each no wider than `room`; no line for empty text.
    pub fn lines(self, text: &str, room: f64) -> Vec<String> {
        let mut lines: Vec<String> = vec![];
        for word in text.split_whitespace() {
            let last = lines.len() == 2;
            match lines.last_mut() {
                Some(line) if last || self.width(&format!("{line} {word}")) <= room => {
                    line.push(' ');
                    line.push_str(word);
                }
                _ => lines.push(word.into()),
            }
        }
        lines.into_iter().map(|line| self.fit(&line, room)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FONT: Font = SMALL;

    #[test]
    fn width_is_that_of_the_letters() {
        assert!(FONT.width("iii") < FONT.width("WWW"));
        assert!(Font { bold: true, ..FONT }.width("word") > FONT.width("word"));
        assert_eq!(FONT.width("漢字"), 20.0, "characters that the font lacks are squares");
    }

    #[test]
    fn long_text_loses_its_middle() {
        assert_eq!(FONT.fit("short", 100.0), "short");
        let fitted = FONT.fit("xfs over ext4: serve", 60.0);
        assert!(fitted.starts_with("xfs") && fitted.ends_with("rve") && fitted.contains('…'), "{fitted}");
        assert!(FONT.width(&fitted) <= 60.0, "{fitted}");
        assert_eq!(FONT.fit("anything", 0.0), "…");
    }

    #[test]
    fn titles_have_two_lines_at_most() {
        let lines = FONT.lines("cold cache of a file server in another room", 70.0);
        assert_eq!((lines.len(), lines[0].as_str()), (2, "cold cache of"));
        assert!(lines.iter().all(|line| FONT.width(line) <= 70.0), "{lines:?}");
        assert_eq!(FONT.lines("", 70.0), Vec::<String>::new());
    }
}
