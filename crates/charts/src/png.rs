//! A chart as PNG, painted from its SVG by resvg, with a font that fsarena brings along: a server may have none.

use super::{Chart, svg};
use crate::Error;
use resvg::tiny_skia::{Pixmap, Transform};
use resvg::usvg::{Options, Tree, fontdb};
use std::sync::{Arc, LazyLock};

/// DejaVu Sans: Latin, Greek, and signs of mathematics.
const REGULAR: &[u8] = include_bytes!("../assets/fonts/DejaVuSans-subset.ttf");
const BOLD: &[u8] = include_bytes!("../assets/fonts/DejaVuSans-Bold-subset.ttf");

/// Pixels for each CSS pixel.
const SCALE: f32 = 2.0;

static FONTS: LazyLock<Arc<fontdb::Database>> = LazyLock::new(|| {
    let mut fonts = fontdb::Database::new();
    fonts.load_font_data(REGULAR.to_vec());
    fonts.load_font_data(BOLD.to_vec());
    fonts.set_sans_serif_family("DejaVu Sans");
    // Names of variants may be in any script; what this machine can show is shown.
    fonts.load_system_fonts();
    Arc::new(fonts)
});

/// Paints the chart.
///
/// # Errors
/// Where the renderer refuses.
pub fn file(chart: &Chart) -> Result<Vec<u8>, Error> {
    let text = svg::plain(chart)?;
    let options = Options { fontdb: FONTS.clone(), font_family: "DejaVu Sans".into(), ..Options::default() };
    let tree = Tree::from_str(&text, &options).map_err(|error| Error::Chart(error.to_string()))?;
    let size =
        tree.size().to_int_size().scale_by(SCALE).ok_or_else(|| Error::Chart("it has no size".into()))?;
    let mut pixels =
        Pixmap::new(size.width(), size.height()).ok_or_else(|| Error::Chart("it is too large".into()))?;
    resvg::render(&tree, Transform::from_scale(SCALE, SCALE), &mut pixels.as_mut());
    pixels.encode_png().map_err(|error| Error::Chart(error.to_string()))
}
