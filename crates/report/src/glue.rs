//! Blanks where no line may break: between a ratio and its interval or value, inside an interval, between a number and its
//! unit.

/// The blank at which neither a terminal's layout nor a browser breaks a line.
const NO_BREAK: char = '\u{a0}';
/// Keeps a browser from breaking a line beside it.
const JOINER: char = '\u{2060}';

/// Units that follow a number after a blank.
const UNITS: [&str; 16] =
    ["s", "ms", "µs", "ns", "min", "h", "B", "KiB", "MiB", "GiB", "TiB", "kB", "MB", "GB", "MB/s", "GB/s"];

/// The text with such blanks: `xfs 1.05 [0.606, 1.27] in 0.145 s` breaks only around `xfs` and `in`.
pub fn glued(text: &str) -> String {
    let mut interval = false;
    let mut glued = String::with_capacity(text.len());
    for (at, letter) in text.char_indices() {
        let (before, after) = (&text[..at], &text[at + letter.len_utf8()..]);
        match letter {
            '[' => interval = starts_number(after),
            ']' => interval = false,
            _ => {}
        }
        match letter {
            ' ' if interval || belongs(before, after) => glued.push(NO_BREAK),
            '–' if interval => glued.extend([JOINER, letter, JOINER]),
            _ => glued.push(letter),
        }
    }
    glued
}

/// The text as it was before.
pub fn unglued(text: &str) -> String {
    text.replace(NO_BREAK, " ").replace(JOINER, "")
}

/// Whether what follows a blank belongs to what is before it.
fn belongs(before: &str, after: &str) -> bool {
    let number = before.ends_with(|c: char| c.is_ascii_digit() || ['%', '×'].contains(&c));
    let figure = number || before.ends_with(['≈', '?', '*']);
    let bracketed = after.strip_prefix(['[', '(']).is_some_and(starts_number);
    let unit = after.split(|c: char| c.is_whitespace() || [',', ';', ')', ']', '.'].contains(&c)).next();
    (figure && (bracketed || after.starts_with(['≈', '?'])))
        || (number && unit.is_some_and(|unit| UNITS.contains(&unit)))
}

fn starts_number(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_digit() || ['−', '-', '+'].contains(&c))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_and_what_belongs_to_it_are_one_word() {
        let words = |text: &str| glued(text).split(' ').map(String::from).collect::<Vec<_>>();
        assert_eq!(words("xfs 1.05 ≈ [0.6, 1.2] or"), ["xfs", "1.05\u{a0}≈\u{a0}[0.6,\u{a0}1.2]", "or"]);
        assert_eq!(words("1.00 (0.145 s) by"), ["1.00\u{a0}(0.145\u{a0}s)", "by"]);
        assert_eq!(words("costs 11.8% [−37.5, 207]."), ["costs", "11.8%\u{a0}[−37.5,\u{a0}207]."]);
        assert_eq!(
            words("in 8 rounds (a, b), 12 MiB at"),
            ["in", "8", "rounds", "(a,", "b),", "12\u{a0}MiB", "at"]
        );
        assert_eq!(unglued(&glued("1.05 [0.6–1.2] 3 s")), "1.05 [0.6–1.2] 3 s");
        assert_eq!(glued("[0.6–1.2]"), "[0.6\u{2060}–\u{2060}1.2]");
    }
}
