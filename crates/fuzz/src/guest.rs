//! Targets for guests and agents: requests to agents and lines from them, kernel images, kernel modules, names of kernel
//! releases, recordings of writes, and the last lines of a console.

use crate::support::{self, check_error};
use fsarena_guest::config::GuestConfig;
use fsarena_guest::debian::{compare_releases, flavour_of, matches_version};
use fsarena_guest::write_recording::{UnflushedWrites, replay};
use fsarena_guest::{launch::ConsoleEnd, modules::Modules, vmlinux};
use fsarena_run::protocol::{AgentMessage, AgentRequest, GuestRequest};
use fsarena_sys::process_output;
use serde::{Serialize, de::DeserializeOwned};
use std::io::Cursor;
use std::path::Path;

/// Reads the last lines of a console log, and checks that they are few and have no control characters.
pub fn fuzz_console_log(bytes: &[u8]) {
    let console_end = ConsoleEnd::read(&support::write_file("console.log", bytes));
    assert!(console_end.lines.chars().all(|letter| letter == '\n' || !letter.is_control()), "{:?}", console_end.lines);
    assert!(console_end.lines.lines().count() <= 13 && console_end.lines.len() <= 3 * (16 << 10));
}

/// Inspects and unpacks a kernel image, and checks that its release can be a part of a file name.
pub fn fuzz_kernel_image(bytes: &[u8]) {
    let (path, cache) = (Path::new("bzImage"), support::temp_path("cache"));
    let _ = vmlinux::is_compressed(bytes);
    let Some(kernel_info) = check_error(vmlinux::inspect_kernel(path, bytes), bytes) else { return };
    let name = &kernel_info.release;
    assert!(!name.contains(['/', '\0']), "{name:?} becomes a part of a file's name");
    check_error(vmlinux::find_or_unpack(path, bytes, &kernel_info, &[&cache]), bytes);
    let _ = std::fs::remove_dir_all(&cache);
}

/// Opens a directory with one module. The first byte of the input chooses the name of the module's file, and the other bytes
/// are the contents of the file.
pub fn fuzz_kernel_module(bytes: &[u8]) {
    let Some((first, contents)) = bytes.split_first() else { return };
    let names = ["m.ko", "m.ko.gz", "m.ko.xz", "m.ko.zst"];
    let dir = support::temp_path("modules");
    let path = dir.join(names[usize::from(*first) % names.len()]);
    std::fs::create_dir_all(&dir).and_then(|()| std::fs::write(&path, contents)).expect("a file");
    let modules = Modules::open(&dir).expect("a directory of modules");
    check_error(modules.load_order(&["m"], "crc32c_generic"), contents);
    std::fs::remove_file(path).expect("a file");
}

/// Replays a recording of writes to a disk of 64 KiB, and checks that the disk keeps its size.
pub fn fuzz_recorded_writes(bytes: &[u8]) {
    let (log, image) = (support::write_file("writes", bytes), support::write_file("disk.img", &[b'.'; 64 << 10]));
    for unflushed in [UnflushedWrites::Lost, UnflushedWrites::Chosen(1)] {
        check_error(replay(&log, &image, unflushed), bytes);
        assert_eq!(image.metadata().expect("an image").len(), 64 << 10);
    }
}

/// Checks that the comparison of kernel releases is a total order for any names.
pub fn fuzz_kernel_releases(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let mut names: Vec<&str> = text.lines().take(8).collect();
    names.sort_by(|a, b| compare_releases(a, b));
    for (index, a) in names.iter().enumerate() {
        assert!(matches_version(a, a), "{a}");
        let _ = flavour_of(a);
        assert!(names[index..].iter().all(|b| compare_releases(a, b).is_le() && compare_releases(b, a).is_ge()), "{a}");
    }
}

/// Parses the input as each kind of request.
pub fn fuzz_agent_request(bytes: &[u8]) {
    check_round_trip::<AgentRequest>(bytes);
    check_round_trip::<GuestRequest>(bytes);
    check_round_trip::<GuestConfig>(bytes);
}

/// Parses each line of the input as an agent's line.
pub fn fuzz_agent_lines(bytes: &[u8]) {
    for line in process_output::receive_lines(Cursor::new(bytes.to_vec())) {
        check_round_trip::<AgentMessage>(line.as_bytes());
        // The message quotes at most the beginning of a long line, so it may not be longer than the message for 200 bytes.
        check_error(AgentMessage::parse(&line), &line.as_bytes()[..line.len().min(200)]);
    }
}

/// Parses a value from JSON, and checks that it has the same JSON after it was written and parsed again.
fn check_round_trip<T: Serialize + DeserializeOwned>(bytes: &[u8]) {
    let Some(value) = check_error(serde_json::from_slice::<T>(bytes), bytes) else { return };
    let text = serde_json::to_string(&value).expect("it is JSON");
    let parsed: T = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
    assert_eq!(serde_json::to_string(&parsed).expect("it is JSON"), text);
}
