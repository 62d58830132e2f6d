//! Flame graphs: chains of functions as a picture whose widths are their instructions (Gregg 2016).

use super::Sampled;
use crate::error::Error;
use inferno::flamegraph::{self, Options};
use std::{collections::BTreeMap, path::Path};

/// The flame graph of one variant: every call chain with its thousands of instructions.
///
/// # Errors
/// Fails without samples.
pub fn of_one(title: &str, variant: &Sampled) -> Result<Vec<u8>, Error> {
    let lines = variant
        .stacks
        .iter()
        .map(|(frames, samples)| format!("{} {}", frames.join(";"), scaled(variant, *samples)));
    drawn(title, lines.collect())
}

/// The differential flame graph of two variants. Widths are those of the second; red is more than the first, blue less.
///
/// # Errors
/// Fails without samples.
pub fn of_two(title: &str, [first, second]: [&Sampled; 2]) -> Result<Vec<u8>, Error> {
    let mut chains: BTreeMap<String, [u64; 2]> = BTreeMap::new();
    for (at, variant) in [first, second].into_iter().enumerate() {
        for (frames, samples) in &variant.stacks {
            chains.entry(frames.join(";")).or_default()[at] += scaled(variant, *samples);
        }
    }
    drawn(title, chains.into_iter().map(|(chain, [a, b])| format!("{chain} {a} {b}")).collect())
}

fn scaled(variant: &Sampled, samples: u64) -> u64 {
    (samples as f64 * variant.weight() / 1e3).round() as u64
}

fn drawn(title: &str, lines: Vec<String>) -> Result<Vec<u8>, Error> {
    let mut options = Options::default();
    options.title = title.into();
    options.count_name = "thousand instructions".into();
    // The same samples give the same picture.
    options.hash = true;
    let mut svg = Vec::new();
    flamegraph::from_lines(&mut options, lines.iter().map(String::as_str), &mut svg)
        .map_err(|error| Error::Flame(error.to_string()))?;
    Ok(svg)
}

/// Writes the flame graphs of one task into a directory, and says which file shows what.
///
/// # Errors
/// Fails without samples, or where a file cannot be written.
pub fn draw(dir: &Path, task: &str, variants: &[Sampled]) -> Result<Vec<(String, String)>, Error> {
    std::fs::create_dir_all(dir).map_err(Error::file(dir))?;
    let mut pictures = vec![];
    let mut keep = |about: String, name: String, svg: Vec<u8>| {
        let path = dir.join(name);
        std::fs::write(&path, svg).map_err(Error::file(&path))?;
        pictures.push((about, path.display().to_string()));
        Ok::<(), Error>(())
    };
    for (at, variant) in variants.iter().enumerate() {
        let about = format!("{} {task}", variant.variant);
        keep(about.clone(), format!("{}-{at}.svg", plain(task)), of_one(&about, variant)?)?;
    }
    if let [a, b] = variants {
        let about = format!("{task}: {} against {}", b.variant, a.variant);
        keep(about.clone(), format!("{}-difference.svg", plain(task)), of_two(&about, [a, b])?)?;
    }
    Ok(pictures)
}

/// A name that any filesystem takes.
fn plain(task: &str) -> String {
    task.chars().map(|letter| if letter.is_alphanumeric() { letter } else { '-' }).collect()
}

#[cfg(test)]
mod tests {
    use super::super::tests::variant;
    use super::*;

    #[test]
    fn pictures_name_functions_and_are_always_the_same() {
        let a = variant("a", 1e6, &[(&["vfs_write", "ext4_write"], 5), (&["vfs_write"], 5)]);
        let b = variant("b", 2e6, &[(&["vfs_write", "ext4_write"], 15), (&["vfs_write"], 5)]);
        let one = String::from_utf8(of_one("cp", &a).unwrap()).unwrap();
        assert!(one.contains("<svg") && one.contains("ext4_write (500 thousand instructions"), "{one}");
        assert_eq!(of_one("cp", &a).unwrap(), one.as_bytes());
        let two = String::from_utf8(of_two("cp", [&a, &b]).unwrap()).unwrap();
        assert!(two.contains("ext4_write (1,500 thousand instructions") && two.contains("+"), "{two}");
        assert!(of_one("cp", &variant("a", 1.0, &[])).is_err());
    }
}
