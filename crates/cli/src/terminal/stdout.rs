//! What standard output can show.

use anstream::{AutoStream, ColorChoice};
use fsarena_report::document::terminal::Screen;

/// Returns what standard output can show.
pub fn screen() -> Screen {
    Screen { width: width(), colour: color() }
}

/// Returns the columns to keep within: those that `COLUMNS` asks for, else the terminal's; none without either.
pub fn width() -> Option<u16> {
    let asked = std::env::var("COLUMNS").ok().and_then(|text| text.parse().ok());
    let terminal = || rustix::termios::tcgetwinsize(std::io::stdout()).ok().map(|size| size.ws_col);
    asked.or_else(terminal).filter(|columns| *columns > 0)
}

/// Whether standard output gets colors: as `--color`, `NO_COLOR`, `CLICOLOR_FORCE` and `TERM` say, else on a terminal.
fn color() -> bool {
    AutoStream::choice(&std::io::stdout()) != ColorChoice::Never
}
