//! A draw target for indicatif that works on a terminal which changes its width.
//!
//! indicatif itself fills each line with spaces up to the edge, so that the next line begins without a line break. When the
//! terminal changes its width, it wraps all these lines anew as one long line. This target ends every line after its last
//! word with a line break. Before it draws again, it computes how many rows the old lines take at the present width.

use indicatif::{ProgressDrawTarget, TermLike};
use std::fmt::Write as _;
use std::io::{Result, Write as _};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use textwrap::core::display_width;

/// The largest width of a line, in columns. Longer lines are hard to read.
pub const MAX_WIDTH: u16 = 100;
/// The largest number of draws per second.
const DRAWS_PER_S: u8 = 20;

/// A terminal to draw on.
pub trait Terminal: std::fmt::Debug + Send + Sync {
    /// Its numbers of rows and columns.
    fn size(&self) -> (u16, u16);

    /// Writes text and control sequences to it.
    ///
    /// # Errors
    /// If the terminal is closed.
    fn write_bytes(&self, bytes: &[u8]) -> Result<()>;
}

/// Standard error.
#[derive(Debug)]
struct Stderr;

impl Terminal for Stderr {
    fn size(&self) -> (u16, u16) {
        match rustix::termios::tcgetwinsize(std::io::stderr()) {
            Ok(size) if size.ws_row > 1 && size.ws_col > 0 => (size.ws_row, size.ws_col),
            _ => (24, 80),
        }
    }

    fn write_bytes(&self, bytes: &[u8]) -> Result<()> {
        let mut out = std::io::stderr().lock();
        out.write_all(bytes)?;
        out.flush()
    }
}

/// Standard error as a terminal.
pub fn stderr() -> Arc<dyn Terminal> {
    Arc::new(Stderr)
}

/// A draw target for progress bars on a terminal.
pub fn draw_target(terminal: Arc<dyn Terminal>) -> ProgressDrawTarget {
    let target = TerminalTarget { frame: Mutex::default(), terminal };
    ProgressDrawTarget::term_like_with_hz(Box::new(target), DRAWS_PER_S)
}

/// Whether standard error is a terminal that can redraw lines.
pub fn is_terminal() -> bool {
    use std::io::IsTerminal;
    std::io::stderr().is_terminal() && std::env::var_os("TERM").is_some_and(|term| term != "dumb")
}

/// The draw target of indicatif on a terminal.
#[derive(Debug)]
struct TerminalTarget {
    frame: Mutex<Frame>,
    terminal: Arc<dyn Terminal>,
}

/// The lines on the screen and the lines to draw next. The cursor is in the row below the lines.
#[derive(Debug, Default)]
struct Frame {
    /// The widths of the lines on the screen.
    shown_widths: Vec<usize>,
    /// The width of the screen when these lines were drawn.
    drawn_width: usize,
    /// The number of rows at the end of the screen, at that width, that indicatif has cleared and will draw again.
    stale_rows: usize,
    /// The lines to draw next.
    lines: Vec<String>,
    /// Whether the next text only fills the rest of a line with spaces.
    next_is_fill: bool,
}

impl Frame {
    /// Adds a line to draw. indicatif writes a line and the spaces that fill it in turn; this ignores the spaces.
    fn add_text(&mut self, text: &str) {
        if !self.next_is_fill {
            self.lines.push(text.trim_end().to_string());
        }
        self.next_is_fill = !self.next_is_fill;
    }

    /// Returns the bytes that clear the stale lines and draw the next lines, on a screen of this width.
    fn next_draw(&mut self, width: usize) -> String {
        let row_count = |line_width: usize, width: usize| line_width.div_ceil(width.max(1)).max(1);
        let (mut stale_rows, mut rows_up) = (self.stale_rows, 0);
        for line_width in self.shown_widths.iter().rev() {
            if stale_rows == 0 {
                break;
            }
            stale_rows = stale_rows.saturating_sub(row_count(*line_width, self.drawn_width));
            rows_up += row_count(*line_width, width);
        }
        let mut bytes = String::new();
        if rows_up > 0 {
            let _ = write!(bytes, "\x1b[{rows_up}A\r\x1b[J");
        }
        for line in &self.lines {
            bytes.extend([line.as_str(), "\r\n"]);
        }
        let shown_widths = self.lines.drain(..).map(|line| display_width(&line)).collect();
        *self = Frame { shown_widths, drawn_width: width, ..Frame::default() };
        bytes
    }
}

impl TerminalTarget {
    fn frame(&self) -> MutexGuard<'_, Frame> {
        self.frame.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl TermLike for TerminalTarget {
    fn width(&self) -> u16 {
        self.terminal.size().1.min(MAX_WIDTH)
    }

    fn height(&self) -> u16 {
        // The last row is for the cursor.
        self.terminal.size().0.saturating_sub(1)
    }

    // indicatif moves the cursor only to clear stale rows, which `flush` does.
    fn move_cursor_up(&self, _: usize) -> Result<()> {
        Ok(())
    }

    fn move_cursor_down(&self, _: usize) -> Result<()> {
        Ok(())
    }

    fn move_cursor_right(&self, _: usize) -> Result<()> {
        Ok(())
    }

    fn move_cursor_left(&self, _: usize) -> Result<()> {
        Ok(())
    }

    fn write_line(&self, line: &str) -> Result<()> {
        self.write_str(line)?;
        self.write_str("")
    }

    fn write_str(&self, text: &str) -> Result<()> {
        self.frame().add_text(text);
        Ok(())
    }

    fn clear_line(&self) -> Result<()> {
        self.frame().stale_rows += 1;
        Ok(())
    }

    fn flush(&self) -> Result<()> {
        let bytes = self.frame().next_draw(usize::from(self.terminal.size().1));
        self.terminal.write_bytes(bytes.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One draw as indicatif does it: clears `stale_rows` rows, writes lines and fills each.
    fn draw_like_indicatif(frame: &mut Frame, stale_rows: usize, lines: &[&str], width: usize) -> String {
        frame.stale_rows += stale_rows;
        for line in lines {
            frame.add_text(line);
            frame.add_text(&" ".repeat(width.saturating_sub(line.len())));
        }
        frame.next_draw(width)
    }

    #[test]
    fn lines_end_after_their_last_word() {
        let mut frame = Frame::default();
        assert_eq!(draw_like_indicatif(&mut frame, 0, &["a note", "bar   ", ""], 80), "a note\r\nbar\r\n\r\n");
        // Two bars are drawn again; the note remains.
        assert_eq!(draw_like_indicatif(&mut frame, 2, &["bar 2", ""], 80), "\x1b[2A\r\x1b[Jbar 2\r\n\r\n");
        assert_eq!(draw_like_indicatif(&mut frame, 2, &[], 80), "\x1b[2A\r\x1b[J");
    }

    #[test]
    fn on_a_narrower_screen_the_same_lines_take_more_rows() {
        let mut frame = Frame::default();
        let bar = "x".repeat(60);
        draw_like_indicatif(&mut frame, 0, &["note", &bar, "in all"], 80);
        // At 25 columns the bar takes three rows.
        assert!(draw_like_indicatif(&mut frame, 2, &["y", "in all"], 25).starts_with("\x1b[4A\r\x1b[J"));
        // Wider again: one row each.
        assert!(draw_like_indicatif(&mut frame, 2, &["y", "in all"], 80).starts_with("\x1b[2A\r\x1b[J"));
    }

    #[test]
    fn a_bar_that_took_two_rows_is_cleared_as_one_line() {
        let mut frame = Frame::default();
        draw_like_indicatif(&mut frame, 0, &["note", &"█".repeat(30)], 20);
        assert!(draw_like_indicatif(&mut frame, 2, &["z"], 20).starts_with("\x1b[2A"));
        draw_like_indicatif(&mut frame, 1, &[&"█".repeat(30)], 20);
        assert!(draw_like_indicatif(&mut frame, 2, &["z"], 40).starts_with("\x1b[1A"));
    }
}
