//! A chart as PNG, painted from its SVG by resvg, with a font that fsarena brings along: a server may have none.

use crate::text::{BOLD, REGULAR};
use crate::{Chart, Error, svg};
use resvg::tiny_skia::{Pixmap, Transform};
use resvg::usvg::{Options, Tree, fontdb};
use std::sync::{Arc, LazyLock};

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
    let text = svg::plain(chart);
    let options = Options { fontdb: FONTS.clone(), font_family: "DejaVu Sans".into(), ..Options::default() };
    let tree = Tree::from_str(&text, &options).map_err(|error| Error(error.to_string()))?;
    let size = tree.size().to_int_size().scale_by(SCALE).ok_or_else(|| Error("it has no size".into()))?;
    let mut pixels =
        Pixmap::new(size.width(), size.height()).ok_or_else(|| Error("it is too large".into()))?;
    resvg::render(&tree, Transform::from_scale(SCALE, SCALE), &mut pixels.as_mut());
    pixels.encode_png().map_err(|error| Error(error.to_string()))
}
