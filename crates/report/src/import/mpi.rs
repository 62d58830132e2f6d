//! Parsers for output that IOR and mdtest have in common.

/// The options of a command line, without the program, the options in `places`, which name a directory or file, and `-i`,
/// the number of repetitions.
pub fn options(command: &str, places: &[&str]) -> String {
    let mut words = command.split_whitespace().map(|word| word.trim_matches(['"', '\''])).skip(1);
    let mut kept = vec![];
    while let Some(word) = words.next() {
        if places.contains(&word) || word == "-i" {
            words.next();
        } else {
            kept.push(word);
        }
    }
    kept.join(" ")
}

/// The number of bytes in `262144 bytes`, `256.00 KiB`, `1 MiB`.
pub fn bytes(text: &str) -> Option<u64> {
    let (number, unit) = text.trim().split_once(' ')?;
    let factor = match unit.trim() {
        "bytes" | "byte" | "B" => 1.0,
        "KiB" => 1024.0,
        "MiB" => 1024.0 * 1024.0,
        "GiB" => 1024.0 * 1024.0 * 1024.0,
        "TiB" => 1024.0 * 1024.0 * 1024.0 * 1024.0,
        _ => return None,
    };
    let bytes = number.parse::<f64>().ok()? * factor;
    (bytes >= 0.0 && bytes < u64::MAX as f64).then_some(bytes as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_name_no_place() {
        assert_eq!(options("/usr/bin/ior -w -o /mnt/file -i 3 -t 4k", &["-o"]), "-w -t 4k");
        assert_eq!(options(" mdtest \"-n\" \"10\" \"-d\" \"/mnt\"", &["-d"]), "-n 10");
    }

    #[test]
    fn sizes_in_words() {
        let sizes = ["262144 bytes", "256.00 KiB", "1 MiB", "x KiB", "12"].map(bytes);
        assert_eq!(sizes, [Some(262_144), Some(262_144), Some(1 << 20), None, None]);
    }
}
