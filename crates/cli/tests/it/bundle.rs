//! `fsarena bundle` and `fsarena verify`: bundles are made and checked, and hostile ones are refused.

use crate::common::{Sandbox, stored};
use fsarena_store::archive::{self, ArchiveLimits};
use fsarena_store::bundle::write_checksums;
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};

/// Makes a sandbox with a stored run of three filesystems, and its bundle `a.tar.zst`.
fn sandbox_with_bundle() -> Sandbox {
    let sandbox = Sandbox::new();
    stored::store_run(&sandbox.runs_dir());
    let (printed, _) = sandbox.expect(0, &["bundle", "latest", "-o", "a.tar.zst"]);
    assert!(printed.starts_with("a.tar.zst: 1 run, "), "{printed}");
    sandbox
}

/// Extracts a bundle. Returns its directory.
fn extract(sandbox: &Sandbox, archive: &str) -> PathBuf {
    let extract_dir = sandbox.dir.join("extracted");
    fs::create_dir(&extract_dir).unwrap();
    archive::extract(&sandbox.dir.join(archive), &extract_dir, ArchiveLimits::BUNDLE).unwrap();
    fs::read_dir(extract_dir).unwrap().next().unwrap().unwrap().path()
}

/// The only run of an extracted bundle.
fn run_of(bundle: &Path) -> PathBuf {
    fs::read_dir(bundle.join("runs")).unwrap().next().unwrap().unwrap().path()
}

/// Replaces the first occurrence of a text in a file, which must have it.
fn replace_in_file(path: &Path, old: &str, new: &str) {
    let text = fs::read_to_string(path).unwrap();
    assert!(text.contains(old), "{}", path.display());
    fs::write(path, text.replacen(old, new, 1)).unwrap();
}

/// Runs `fsarena verify` on a bundle and asserts its exit code. Returns its standard output and standard error.
#[track_caller]
fn verify(sandbox: &Sandbox, code: i32, archive: &str) -> (String, String) {
    let scratch = sandbox.dir.join("tmp");
    fs::create_dir_all(&scratch).unwrap();
    let output = sandbox.fsarena(&["verify", archive]).env("TMPDIR", &scratch).output().unwrap();
    let [printed, stderr] = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    assert_eq!(output.status.code(), Some(code), "{printed}\n{stderr}");
    assert_eq!(fs::read_dir(&scratch).unwrap().count(), 0, "a scratch directory is left");
    (printed, stderr)
}

#[test]
fn a_bundle_has_the_same_bytes_each_time_and_its_figures_follow_from_its_data() {
    let sandbox = sandbox_with_bundle();
    sandbox.expect(0, &["bundle", "latest", "-o", "b.tar.zst"]);
    let [a, b] = ["a.tar.zst", "b.tar.zst"].map(|name| fs::read(sandbox.dir.join(name)).unwrap());
    assert!(a == b, "{} and {} bytes", a.len(), b.len());
    let (printed, _) = verify(&sandbox, 0, "a.tar.zst");
    assert!(printed.contains("checksums: all match") && printed.contains("every report follows"), "{printed}");
    assert_eq!(
        fs::read_dir(&sandbox.dir)
            .unwrap()
            .flatten()
            .filter(|entry| entry.file_name().to_string_lossy().starts_with(".fsarena"))
            .count(),
        0
    );

    let bundle = extract(&sandbox, "a.tar.zst");
    let (run, id) = (run_of(&bundle), run_of(&bundle).file_name().unwrap().to_str().unwrap().to_string());
    let files = archive::files_below(&bundle).unwrap();
    for name in ["README.md", "SHA256SUMS", "bundle.json"] {
        assert!(files.iter().any(|file| file == name), "{files:?}");
    }
    let run_files = ["command.log", "plan.toml", "report.html", "report.json", "report.md", "run.db", "samples.csv"];
    assert!(run_files.iter().all(|name| files.contains(&format!("runs/{id}/{name}"))), "{files:?}");
    // The README has the command that repeats the run, which works in the directory of the bundle.
    let readme = fs::read_to_string(bundle.join("README.md")).unwrap();
    let command = format!("fsarena run runs/{id}/plan.toml");
    assert!(readme.contains(&command) && readme.contains("same seed (7)"), "{readme}");
    let mut repeat = sandbox.fsarena(&["run", &format!("runs/{id}/plan.toml"), "--dry-run", "--quiet"]);
    let output = repeat.current_dir(&bundle).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let manifest: Value = serde_json::from_slice(&fs::read(bundle.join("bundle.json")).unwrap()).unwrap();
    assert_eq!((&manifest["format"], &manifest["runs"][0]["seed"]), (&1.into(), &7.into()));
    assert_eq!(manifest["runs"][0]["machines"][0]["kernel"], "6.18.0");
    // Other commands can read the run in the bundle.
    sandbox.expect(0, &["report", run.to_str().unwrap()]);
}

#[test]
fn a_changed_file_or_figure_is_named() {
    let sandbox = sandbox_with_bundle();
    let bundle = extract(&sandbox, "a.tar.zst");
    let run = run_of(&bundle);
    let repack = |name: &str| archive::write(&bundle, "bundle", 0, &sandbox.dir.join(name)).unwrap();
    // A report with another choice, published with the old checksums, then with new ones.
    replace_in_file(&run.join("report.json"), "\"choose\": \"ext2\"", "\"choose\": \"xfs\"");
    repack("old-sums.tar.zst");
    let (printed, _) = verify(&sandbox, 3, "old-sums.tar.zst");
    assert!(
        printed.contains("checksums: no match for 1 file") && printed.contains("report.json: changed"),
        "{printed}"
    );
    write_checksums(&bundle).unwrap();
    repack("new-sums.tar.zst");
    let (printed, _) = verify(&sandbox, 3, "new-sums.tar.zst");
    assert!(printed.contains("checksums: all match"), "{printed}");
    assert!(printed.contains("- decision.choose: xfs in the bundle, ext2 from the data"), "{printed}");
    replace_in_file(&run.join("report.json"), "\"choose\": \"xfs\"", "\"choose\": \"ext2\"");

    // If the same program made the report, every byte is compared; if another program made it, only the figures are.
    replace_in_file(&run.join("report.md"), "ext2", "xfs");
    write_checksums(&bundle).unwrap();
    repack("text.tar.zst");
    let (printed, _) = verify(&sandbox, 3, "text.tar.zst");
    assert!(printed.contains("- report.md: another text in the bundle"), "{printed}");
    let manifest = fs::read_to_string(bundle.join("bundle.json")).unwrap();
    let manifest: Value = serde_json::from_str(&manifest).unwrap();
    replace_in_file(&bundle.join("bundle.json"), manifest["fsarena_build"].as_str().unwrap(), "0123");
    write_checksums(&bundle).unwrap();
    repack("other-build.tar.zst");
    let (printed, _) = verify(&sandbox, 0, "other-build.tar.zst");
    assert!(printed.contains("Another build of fsarena made this bundle (0123)"), "{printed}");

    // A report without figures cannot contradict the data, but it is not complete.
    let report = fs::read(run.join("report.json")).unwrap();
    fs::write(run.join("report.json"), "{}").unwrap();
    write_checksums(&bundle).unwrap();
    repack("empty.tar.zst");
    let (printed, _) = verify(&sandbox, 3, "empty.tar.zst");
    assert!(printed.contains("- analyses: missing in the bundle"), "{printed}");
    fs::write(run.join("report.json"), report).unwrap();

    // A changed value of the database, with the old report.
    let db = rusqlite::Connection::open(run.join("run.db")).unwrap();
    db.execute("UPDATE value SET value = 3 * value WHERE sample = 2", []).unwrap();
    drop(db);
    write_checksums(&bundle).unwrap();
    repack("data.tar.zst");
    let output = sandbox.fsarena(&["verify", "data.tar.zst", "--format", "json"]).output().unwrap();
    assert_eq!(output.status.code(), Some(3));
    let checked: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&checked["sound"], &checked["same_build"]), (&false.into(), &false.into()));
    let differences = checked["runs"][0]["differences"].as_array().unwrap();
    let places: Vec<&str> = differences.iter().filter_map(|difference| difference["place"].as_str()).collect();
    assert!(places.iter().any(|sandbox| sandbox.starts_with("analyses[elapsed]")), "{places:?}");
}

#[test]
fn files_that_are_not_bundles_or_could_do_harm_are_refused() {
    let sandbox = Sandbox::new();
    fs::write(sandbox.dir.join("text.tar.zst"), "no archive").unwrap();
    let (_, stderr) = verify(&sandbox, 2, "text.tar.zst");
    assert!(stderr.contains("not a .tar.zst archive"), "{stderr}");
    verify(&sandbox, 2, "missing.tar.zst");
    let files = sandbox.dir.join("files");
    fs::create_dir(&files).unwrap();
    fs::write(files.join("a"), "x").unwrap();
    archive::write(&files, "root", 0, &sandbox.dir.join("other.tar.zst")).unwrap();
    let (_, stderr) = verify(&sandbox, 2, "other.tar.zst");
    assert!(stderr.contains("not a bundle of fsarena: it has no bundle.json"), "{stderr}");
    fs::write(files.join("bundle.json"), "{\"format\": 99}").unwrap();
    archive::write(&files, "root", 0, &sandbox.dir.join("newer.tar.zst")).unwrap();
    let (_, stderr) = verify(&sandbox, 2, "newer.tar.zst");
    assert!(stderr.contains("made by a newer fsarena (bundle format 99"), "{stderr}");
    // A run of the manifest outside of the bundle is not read.
    let run = stored::store_run(&sandbox.runs_dir());
    let outside = run.path().to_str().unwrap();
    let manifest = format!(
        "{{\"format\": 1, \"fsarena\": \"0\", \"fsarena_build\": \"0\", \"repeat\": \"\", \"runs\": [{{\"id\": \"x\", \
         \"directory\": \"{outside}\", \"fsarena\": \"\", \"started\": \"\", \"complete\": true, \"seed\": 1, \
         \"machines\": []}}]}}"
    );
    fs::write(files.join("bundle.json"), manifest).unwrap();
    write_checksums(&files).unwrap();
    archive::write(&files, "root", 0, &sandbox.dir.join("outside.tar.zst")).unwrap();
    let (printed, _) = verify(&sandbox, 3, "outside.tar.zst");
    assert!(printed.contains("run.db: in the list of runs in the bundle, missing from the data"), "{printed}");

    let hostile = [("link", tar::EntryType::Symlink), ("../../up", tar::EntryType::Regular)];
    for (name, kind) in hostile {
        let mut header = tar::Header::new_ustar();
        header.as_old_mut().name[..name.len()].copy_from_slice(name.as_bytes());
        header.set_entry_type(kind);
        header.set_link_name("/etc").unwrap();
        header.set_size(0);
        header.set_cksum();
        let bytes = [header.as_bytes().to_vec(), vec![0; 1024]].concat();
        let level = ruzstd::encoding::CompressionLevel::Fastest;
        fs::write(sandbox.dir.join("h.tar.zst"), ruzstd::encoding::compress_to_vec(&bytes[..], level)).unwrap();
        let (_, stderr) = verify(&sandbox, 5, "h.tar.zst");
        assert!(stderr.contains("h.tar.zst: refused: "), "{stderr}");
    }
}

#[test]
fn a_bundle_names_each_run_once_and_needs_an_existing_directory() {
    let sandbox = Sandbox::new();
    let runs = [stored::store_run(&sandbox.runs_dir()), stored::store_run(&sandbox.runs_dir())].map(|run| run.id());
    let (_, stderr) = sandbox.expect(2, &["bundle", &runs[0], &runs[0], "-o", "a.tar.zst"]);
    assert!(stderr.contains("is named twice"), "{stderr}");
    let (_, stderr) = sandbox.expect(2, &["bundle", &runs[0], "-o", "no/such/a.tar.zst"]);
    assert!(stderr.contains("No such file or directory"), "{stderr}");
    let (json, _) = sandbox.expect(0, &["bundle", &runs[0], &runs[1], "-o", "a.tar.zst", "--format", "json"]);
    let printed: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(printed["runs"].as_array().unwrap().len(), 2);
    let (printed, _) = verify(&sandbox, 0, "a.tar.zst");
    assert_eq!(printed.lines().filter(|line| line.ends_with("every report follows from the data")).count(), 2);
    sandbox.assert_clean();
}

/// Standard programs can read a bundle.
#[test]
fn tar_and_sha256sum_read_a_bundle() {
    if !["tar", "zstd", "sha256sum"].iter().all(|name| fsarena_sys::testkit::has_program(name)) {
        return;
    }
    let sandbox = sandbox_with_bundle();
    let script = "tar --zstd -xf a.tar.zst && cd bundle-* && sha256sum --check --quiet SHA256SUMS";
    let output = sandbox.command(Path::new("/bin/sh"), &["-c", script]).output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && stderr.is_empty(), "{stderr}");
}
