//! How a claim stands, in one line.

use fsarena_core::event::Standing;

/// Columns of a terminal that nobody has made wider.
const WIDTH: usize = 80;

/// `  ? −1.2% [−2.9%, +0.4%]  12 rounds █▄▂▁  untar.elapsed: xfs < ext4`, no wider than 80 columns: a long claim
/// loses its middle. The sparkline says how the interval narrowed.
pub fn line(standing: &Standing, sparkline: &str) -> String {
    let mark = match standing.outcome.as_str() {
        "inconclusive" => "?",
        outcome => outcome,
    };
    let known = match standing.effect {
        None => "nothing known yet".to_string(),
        Some((effect, low, high)) => {
            let few = if standing.provisional { " so far" } else { "" };
            format!("{} [{}, {}]{few}", change(effect), change(low), change(high))
        }
    };
    let rounds = if standing.rounds == 1 { "1 round".into() } else { format!("{} rounds", standing.rounds) };
    let gap = if sparkline.is_empty() { "" } else { " " };
    let head = format!("  {mark} {known}  {rounds}{gap}{sparkline}  ");
    let room = WIDTH.saturating_sub(head.chars().count());
    format!("{head}{}", shortened(&standing.claim, room.max(10)))
}

/// Per cent; from twice as much on the ratio itself.
fn change(fraction: f64) -> String {
    if fraction >= 1.0 {
        return format!("{:.1}×", 1.0 + fraction);
    }
    let percent = 100.0 * fraction;
    let digits = if percent.abs() < 9.95 { 2 } else { usize::from(percent.abs() < 99.5) };
    format!("{percent:+.digits$}%").replace('-', "−")
}

/// The beginning and the end of a text that is too long.
fn shortened(text: &str, room: usize) -> String {
    let chars: Vec<char> = text.chars().map(|c| if c.is_control() { '·' } else { c }).collect();
    if chars.len() <= room {
        return chars.into_iter().collect();
    }
    let end = (room - 1) / 2;
    let (first, last) = (&chars[..room - 1 - end], &chars[chars.len() - end..]);
    first.iter().chain(['…'].iter()).chain(last).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn standing(claim: &str, outcome: &str, effect: Option<(f64, f64, f64)>) -> Standing {
        let open = outcome == "inconclusive";
        Standing {
            claim: claim.into(),
            outcome: outcome.into(),
            open,
            rounds: 12,
            provisional: false,
            effect,
        }
    }

    #[test]
    fn one_line_of_eighty_columns() {
        let claim = "untar.elapsed: xfs < ext4";
        assert_eq!(
            line(&standing(claim, "inconclusive", Some((-0.0123, -0.029, 0.5))), "█▄▂"),
            "  ? −1.23% [−2.90%, +50.0%]  12 rounds █▄▂  untar.elapsed: xfs < ext4"
        );
        assert_eq!(
            line(&standing(claim, "inconclusive", None), ""),
            "  ? nothing known yet  12 rounds  untar.elapsed: xfs < ext4"
        );
        let long = line(&standing(&"a.very-long-claim ".repeat(9), "held", Some((20.0, 19.0, 21.0))), "");
        assert_eq!(long.chars().count(), 80);
        assert!(long.starts_with("  held 21.0× [20.0×, 22.0×]  12 rounds  a.very") && long.contains('…'));
    }

    #[test]
    fn control_characters_do_no_harm() {
        assert!(!line(&standing("a\u{1b}[2J\n", "held", None), "").contains(char::is_control));
    }
}
