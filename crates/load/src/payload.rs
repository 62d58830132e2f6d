//! Generates the contents of files: compressible text and noise in a set ratio, and noise for numbered contents. Also
//! compares files with their expected contents, makes empty directories, and stores numbers for later checks.

use crate::error::{Result, TaskError, failed_to};
use chacha20::ChaCha8Rng;
use fsarena_core::schedule::mix;
use fsarena_core::setting::{SettingDef, Settings};
use fsarena_engine::{Content, EngineError};
use fsarena_sys::none_if_missing;
use rand::{Rng, RngExt, SeedableRng};
use std::path::Path;

/// The setting for the contents of writes.
pub const PAYLOAD: SettingDef = SettingDef::choice("payload", &["random", "zeros"], "random");

/// The contents that a workload writes, by [`PAYLOAD`].
pub fn payload_content(settings: &Settings) -> Content {
    if settings.text(PAYLOAD.id) == "zeros" { Content::Zeros } else { Content::Random }
}

/// Bytes of a piece. Every piece has the set ratio of text and noise, so that compression by blocks of any size finds
/// it.
const PIECE_BYTES: usize = 4096;

/// Bytes of the generated text from which the text of all pieces is copied.
const TEXT_BYTES: usize = 1 << 20;

/// A source of file contents. The same seed gives the same contents.
pub struct Payload {
    rng: ChaCha8Rng,
    text: Vec<u8>,
    compressible_percent: u8,
}

impl Payload {
    /// Makes a source with this percentage of compressible text.
    pub fn new(seed: u64, compressible_percent: u8) -> Payload {
        let mut rng = ChaCha8Rng::seed_from_u64(mix(seed, 2));
        let text = generate_text(&mut rng);
        Payload { rng, text, compressible_percent: compressible_percent.min(100) }
    }

    /// Fills a buffer with the next contents of the source.
    pub fn fill(&mut self, buffer: &mut [u8]) {
        for piece in buffer.chunks_mut(PIECE_BYTES) {
            let (text, noise) = piece.split_at_mut(piece.len() * usize::from(self.compressible_percent) / 100);
            let start = self.rng.random_range(0..TEXT_BYTES - PIECE_BYTES);
            text.copy_from_slice(&self.text[start..start + text.len()]);
            self.rng.fill_bytes(noise);
        }
    }
}

/// Generates lines of random words. A few words are frequent, as in any language.
fn generate_text(rng: &mut ChaCha8Rng) -> Vec<u8> {
    let words: Vec<Vec<u8>> = (0..2000)
        .map(|_| {
            let length = rng.random_range(2..=10);
            (0..length).map(|_| rng.random_range(b'a'..=b'z')).collect()
        })
        .collect();
    let mut text = Vec::with_capacity(TEXT_BYTES + 16);
    while text.len() < TEXT_BYTES {
        // The cube makes the first words frequent.
        let rank = rng.random::<f64>().powi(3) * words.len() as f64;
        text.extend_from_slice(&words[rank as usize]);
        text.push(if rng.random_range(0..10) == 0 { b'\n' } else { b' ' });
    }
    text.truncate(TEXT_BYTES);
    text
}

/// Generates incompressible bytes. The same seed gives the same bytes.
pub fn generate_noise(seed: u64, bytes: usize) -> Vec<u8> {
    let mut noise = vec![0; bytes];
    Payload::new(seed, 0).fill(&mut noise);
    noise
}

/// Noise from which numbered contents are cut, each at an offset that depends on its number.
pub struct Noise {
    /// The whole noise.
    pub bytes: Vec<u8>,
    seed: u64,
}

impl Noise {
    /// Number of offsets at which contents can begin.
    const OFFSET_COUNT: usize = 64 << 10;

    /// Makes noise for contents of at most `max_bytes` bytes.
    pub fn new(seed: u64, max_bytes: usize) -> Noise {
        Noise { bytes: generate_noise(mix(seed, 0x3A1), Noise::OFFSET_COUNT + max_bytes), seed }
    }

    /// The contents with this number.
    pub fn contents(&self, number: u64, bytes: usize) -> &[u8] {
        let start = mix(self.seed, number) as usize % Noise::OFFSET_COUNT;
        &self.bytes[start..start + bytes]
    }
}

/// Makes an empty directory. Removes an existing one with its contents first.
///
/// # Errors
/// If the existing directory cannot be removed or the new one cannot be created.
pub fn make_empty_dir(dir: &Path) -> Result<(), EngineError> {
    none_if_missing(std::fs::remove_dir_all(dir)).map_err(EngineError::io("emptying", dir))?;
    std::fs::create_dir(dir).map_err(EngineError::io("making", dir))
}

/// Describes how a file differs from its expected contents. Returns `None` if it does not.
pub fn describe_difference(path: &Path, expected: &[u8]) -> Option<String> {
    match std::fs::read(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Some("missing".into()),
        Err(error) => Some(error.to_string()),
        Ok(contents) if contents.len() != expected.len() => {
            Some(format!("{} bytes instead of {}", contents.len(), expected.len()))
        }
        Ok(contents) => (contents != expected).then(|| "other contents".into()),
    }
}

/// Writes a number to a file.
///
/// # Errors
/// If the file cannot be written.
pub fn save_number(path: &Path, number: u64) -> Result<()> {
    std::fs::write(path, number.to_string()).map_err(failed_to("write", path))
}

/// Reads the number that [`save_number`] wrote.
///
/// # Errors
/// If the file cannot be read or does not hold a number.
pub fn read_number(path: &Path) -> Result<u64> {
    let text = std::fs::read_to_string(path).map_err(failed_to("read", path))?;
    text.parse().map_err(|_| TaskError::Unfit(format!("{} holds no number", path.display())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::process::{Command, Stdio};

    fn contents(seed: u64, compressible_percent: u8, bytes: usize) -> Vec<u8> {
        let mut contents = vec![0; bytes];
        Payload::new(seed, compressible_percent).fill(&mut contents);
        contents
    }

    /// The size after gzip divided by the size before.
    fn gzip_ratio(bytes: &[u8]) -> f64 {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytes).unwrap();
        std::io::Seek::rewind(&mut file).unwrap();
        let output = Command::new("gzip").arg("-c").stdin(file).stdout(Stdio::piped()).output().unwrap();
        assert!(output.status.success());
        output.stdout.len() as f64 / bytes.len() as f64
    }

    #[test]
    fn the_same_seed_gives_the_same_contents() {
        assert_eq!(contents(3, 50, 10_000), contents(3, 50, 10_000));
        assert_ne!(contents(3, 50, 10_000), contents(4, 50, 10_000));
    }

    #[test]
    fn gzip_compresses_text_and_mixed_contents_but_not_noise() {
        let text_ratio = gzip_ratio(&contents(1, 100, 1 << 20));
        assert!((0.25..0.5).contains(&text_ratio), "text shrinks to {text_ratio}");
        let noise_ratio = gzip_ratio(&contents(1, 0, 1 << 20));
        assert!((1.0..1.01).contains(&noise_ratio), "noise shrinks to {noise_ratio}");
        // The mean of the two is 0.68. gzip uses one code for both and compresses somewhat less.
        let mixed_ratio = gzip_ratio(&contents(1, 50, 1 << 20));
        assert!((0.65..0.8).contains(&mixed_ratio), "mixed contents shrink to {mixed_ratio}");
    }

    #[test]
    fn a_small_file_has_the_ratio_of_text_and_noise() {
        let small = contents(9, 50, 1000);
        assert!(small[..500].iter().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_whitespace()));
        assert!(small[500..].iter().any(|byte| !byte.is_ascii()));
    }
}
