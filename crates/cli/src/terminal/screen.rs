//! Where lines that change are drawn: a terminal, which may become narrower or wider at any time.
//!
//! indicatif fills each line up to the edge and lets the terminal go on in the next. A terminal that changes its width
//! takes all of them for one long line then, and lays it out anew. Here every line ends where its words end, and what
//! was drawn is found again by the rows that it takes now.

use indicatif::{ProgressDrawTarget, TermLike};
use std::fmt::Write as _;
use std::io::{Result, Write as _};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use textwrap::core::display_width;

/// Nobody reads lines longer than this.
pub const WIDEST: u16 = 100;
/// Draws a second.
const DRAWS: u8 = 20;

/// Where bytes go that move lines about.
pub trait Place: std::fmt::Debug + Send + Sync {
    /// Its rows and columns.
    fn size(&self) -> (u16, u16);

    /// Shows these bytes.
    ///
    /// # Errors
    /// Where it is gone.
    fn put(&self, bytes: &[u8]) -> Result<()>;
}

/// Standard error.
#[derive(Debug)]
struct Stderr;

impl Place for Stderr {
    fn size(&self) -> (u16, u16) {
        let known = rustix::termios::tcgetwinsize(std::io::stderr()).ok();
        known
            .map(|size| (size.ws_row, size.ws_col))
            .filter(|(rows, columns)| *rows > 1 && *columns > 0)
            .unwrap_or((24, 80))
    }

    fn put(&self, bytes: &[u8]) -> Result<()> {
        let mut out = std::io::stderr().lock();
        out.write_all(bytes)?;
        out.flush()
    }
}

/// Standard error.
pub fn stderr() -> Arc<dyn Place> {
    Arc::new(Stderr)
}

/// A place for bars.
pub fn target(place: Arc<dyn Place>) -> ProgressDrawTarget {
    let screen = Screen { frame: Mutex::default(), place };
    ProgressDrawTarget::term_like_with_hz(Box::new(screen), DRAWS)
}

/// Whether standard error can show lines that change.
pub fn is_there() -> bool {
    use std::io::IsTerminal;
    std::io::stderr().is_terminal() && std::env::var_os("TERM").is_some_and(|term| term != "dumb")
}

#[derive(Debug)]
struct Screen {
    frame: Mutex<Frame>,
    place: Arc<dyn Place>,
}

/// The lines on the screen and the lines to draw next. The cursor waits in the row below.
#[derive(Debug, Default)]
struct Frame {
    /// The widths of the lines on the screen, and that of the screen when they were drawn.
    shown: Vec<usize>,
    drawn_at: usize,
    /// How many of the last rows are to be drawn anew, as the screen was then.
    stale: usize,
    lines: Vec<String>,
    /// Whether what is written next only fills a line.
    filling: bool,
}

impl Frame {
    /// Lines and what fills them come in turn.
    fn write(&mut self, text: &str) {
        if !self.filling {
            self.lines.push(text.trim_end().to_string());
        }
        self.filling = !self.filling;
    }

    /// The bytes that draw it on a screen of this width.
    fn draw(&mut self, width: usize) -> String {
        let rows = |line: usize, width: usize| line.div_ceil(width.max(1)).max(1);
        let (mut stale, mut up) = (self.stale, 0);
        for line in self.shown.iter().rev() {
            if stale == 0 {
                break;
            }
            stale = stale.saturating_sub(rows(*line, self.drawn_at));
            up += rows(*line, width);
        }
        let mut bytes = String::new();
        if up > 0 {
            let _ = write!(bytes, "\x1b[{up}A\r\x1b[J");
        }
        self.lines.iter().for_each(|line| bytes.extend([line.as_str(), "\r\n"]));
        let shown = self.lines.drain(..).map(|line| display_width(&line)).collect();
        *self = Frame { shown, drawn_at: width, ..Frame::default() };
        bytes
    }
}

impl Screen {
    fn frame(&self) -> MutexGuard<'_, Frame> {
        self.frame.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl TermLike for Screen {
    fn width(&self) -> u16 {
        self.place.size().1.min(WIDEST)
    }

    fn height(&self) -> u16 {
        // One is for the cursor.
        self.place.size().0 - 1
    }

    // To clear what is stale is all that it moves for.
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
        self.frame().write(text);
        Ok(())
    }

    fn clear_line(&self) -> Result<()> {
        self.frame().stale += 1;
        Ok(())
    }

    fn flush(&self) -> Result<()> {
        let bytes = self.frame().draw(usize::from(self.place.size().1));
        self.place.put(bytes.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One draw as indicatif does it: clears `stale` rows, writes lines and fills each.
    fn drawn(frame: &mut Frame, stale: usize, lines: &[&str], width: usize) -> String {
        frame.stale += stale;
        for line in lines {
            frame.write(line);
            frame.write(&" ".repeat(width.saturating_sub(line.len())));
        }
        frame.draw(width)
    }

    #[test]
    fn lines_end_where_their_words_end() {
        let mut frame = Frame::default();
        assert_eq!(drawn(&mut frame, 0, &["a note", "bar   ", ""], 80), "a note\r\nbar\r\n\r\n");
        // Two bars are drawn anew; the note stays.
        assert_eq!(drawn(&mut frame, 2, &["bar 2", ""], 80), "\x1b[2A\r\x1b[Jbar 2\r\n\r\n");
        assert_eq!(drawn(&mut frame, 2, &[], 80), "\x1b[2A\r\x1b[J");
    }

    #[test]
    fn a_narrower_screen_has_more_rows_of_the_same_lines() {
        let mut frame = Frame::default();
        let bar = "x".repeat(60);
        drawn(&mut frame, 0, &["note", &bar, "in all"], 80);
        // At 25 columns the bar takes three rows.
        assert!(drawn(&mut frame, 2, &["y", "in all"], 25).starts_with("\x1b[4A\r\x1b[J"));
        // Wider again: one row each.
        assert!(drawn(&mut frame, 2, &["y", "in all"], 80).starts_with("\x1b[2A\r\x1b[J"));
    }

    #[test]
    fn a_bar_that_took_two_rows_is_cleared_as_one_line() {
        let mut frame = Frame::default();
        drawn(&mut frame, 0, &["note", &"█".repeat(30)], 20);
        assert!(drawn(&mut frame, 2, &["z"], 20).starts_with("\x1b[2A"));
        drawn(&mut frame, 1, &[&"█".repeat(30)], 20);
        assert!(drawn(&mut frame, 2, &["z"], 40).starts_with("\x1b[1A"));
    }
}
