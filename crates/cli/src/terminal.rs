//! What standard output can show.

use fsarena_report::document::terminal::Screen;
use std::io::IsTerminal;

/// What it can show.
pub fn screen() -> Screen {
    Screen { width: width(), colour: colour() }
}

/// Columns to keep within: those that `COLUMNS` asks for, else the terminal's; none where neither says.
pub fn width() -> Option<u16> {
    let asked = std::env::var("COLUMNS").ok().and_then(|text| text.parse().ok());
    let terminal = || rustix::termios::tcgetwinsize(std::io::stdout()).ok().map(|size| size.ws_col);
    asked.or_else(terminal).filter(|columns| *columns > 0)
}

/// Whether colours may be used: on a terminal, where `NO_COLOR` does not forbid them.
fn colour() -> bool {
    std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}
