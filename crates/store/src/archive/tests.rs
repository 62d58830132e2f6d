use super::*;
use ruzstd::encoding::{CompressionLevel, compress_to_vec};

const SMALL_LIMITS: ArchiveLimits =
    ArchiveLimits { max_members: 4, max_bytes: 1 << 20, max_ratio: 10, bytes_without_ratio: 64 << 10 };

/// The header and content of a member, as in a tar file.
fn member(name: &[u8], kind: EntryType, content: &[u8]) -> Vec<u8> {
    let mut header = Header::new_ustar();
    header.as_old_mut().name[..name.len()].copy_from_slice(name);
    header.set_entry_type(kind);
    header.set_size(content.len() as u64);
    header.set_mode(0o4777);
    header.set_cksum();
    let mut bytes = header.as_bytes().to_vec();
    bytes.extend(content);
    bytes.resize(bytes.len().next_multiple_of(512), 0);
    bytes
}

/// Extracts a tar file of these members, and returns the names of the extracted files.
fn extract_members(members: &[Vec<u8>]) -> std::result::Result<Vec<String>, Error> {
    let mut tar = members.concat();
    tar.resize(tar.len() + 1024, 0);
    extract_bytes(&compress_to_vec(&tar[..], CompressionLevel::Fastest))
}

fn extract_bytes(zstd: &[u8]) -> std::result::Result<Vec<String>, Error> {
    let dir = tempfile::tempdir().unwrap();
    let (archive, target) = (dir.path().join("a.tar.zst"), dir.path().join("into"));
    fs::write(&archive, zstd).unwrap();
    fs::create_dir(&target).unwrap();
    let extracted = extract(&archive, &target, SMALL_LIMITS);
    let outside = files_below(dir.path()).unwrap();
    assert!(outside.iter().all(|name| name == "a.tar.zst" || name.starts_with("into/")), "{outside:?}");
    let files = extracted?;
    assert_eq!(files_below(&target).unwrap().len(), files.len());
    Ok(files)
}

#[track_caller]
fn assert_refused(members: &[Vec<u8>], why: &str) {
    match extract_members(members) {
        Err(Error::Hostile(_, reason)) => assert!(reason.contains(why), "{reason}"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn regular_files_and_directories_are_extracted() {
    let members = [member(b"a/", EntryType::Directory, b""), member(b"a/b", EntryType::Regular, b"text")];
    assert_eq!(extract_members(&members).unwrap(), ["a/b"]);
}

#[test]
fn members_that_could_write_elsewhere_are_refused() {
    let file = |name: &str| member(name.as_bytes(), EntryType::Regular, b"x");
    for (name, why) in [
        ("/etc/passwd", "an absolute path"),
        ("../up", "leads elsewhere"),
        ("a/../../up", "leads elsewhere"),
        ("a//b", "leads elsewhere"),
        ("./a", "leads elsewhere"),
        ("", "leads elsewhere"),
        ("a\\b", "a bundle does not accept"),
        ("a\nb", "a bundle does not accept"),
        ("1/2/3/4/5/6/7/8/9", "too deep"),
    ] {
        assert_refused(&[file(name)], why);
    }
    assert_refused(&[member(b"\xff", EntryType::Regular, b"")], "not UTF-8");
    assert_refused(&[file("a"), file("a")], "two members are named a");
    for (kind, why) in [
        (EntryType::Symlink, "a symbolic link"),
        (EntryType::Link, "a hard link"),
        (EntryType::Char, "a character device"),
        (EntryType::Block, "a block device"),
        (EntryType::Fifo, "a named pipe"),
        (EntryType::GNULongName, "type 'L'"),
        (EntryType::XHeader, "type 'x'"),
        (EntryType::GNUSparse, "type 'S'"),
    ] {
        assert_refused(&[member(b"a", kind, b"")], why);
    }
    assert_refused(&[file("a"), file("a/b")], "in the place of another");
    assert_refused(&[file("a/b"), file("a")], "in the place of another");
}

#[test]
fn archives_beyond_the_limits_are_refused() {
    let many: Vec<Vec<u8>> =
        (0..5).map(|number| member(format!("{number}").as_bytes(), EntryType::Regular, b"")).collect();
    assert_refused(&many, "more than 4 members");
    assert_refused(&[member(b"a", EntryType::Regular, &[0; 4 << 20])], "and the limit is");
    let zeros: Vec<Vec<u8>> =
        (0..4).map(|number| member(format!("{number}").as_bytes(), EntryType::Regular, &[0; 60 << 10])).collect();
    assert_refused(&zeros, "decompression bomb");
    // Members end after the first, and zeros follow.
    let zeros_after_end = [member(b"a", EntryType::Regular, b"x"), vec![0; 4 << 20]].concat();
    let bomb = extract_bytes(&compress_to_vec(&zeros_after_end[..], CompressionLevel::Fastest));
    assert!(matches!(bomb, Err(Error::Hostile(_, reason)) if reason.contains("decompression bomb")));
}

#[test]
fn data_after_the_end_is_refused() {
    let first = member(b"a", EntryType::Regular, b"x");
    let second = member(b"b", EntryType::Regular, b"y");
    assert_refused(&[first.clone(), vec![0; 1024], second], "follows the end");
    let mut zstd = compress_to_vec(&[first, vec![0; 1024]].concat()[..], CompressionLevel::Fastest);
    zstd.push(7);
    assert!(matches!(extract_bytes(&zstd), Err(Error::Hostile(_, reason)) if reason.contains("follows the end")));
}

#[test]
fn a_damaged_archive_is_reported_as_damaged() {
    let whole = member(b"a", EntryType::Regular, &[7; 3000]);
    let archive = compress_to_vec(&whole[..], CompressionLevel::Fastest);
    for bytes in [&b""[..], b"no archive", &archive[..archive.len() / 2]] {
        assert!(matches!(extract_bytes(bytes), Err(Error::Damaged(..))));
    }
    assert!(matches!(extract_members(&[whole[..1024].to_vec()]), Err(Error::Damaged(..))));
}

#[test]
fn equal_files_give_equal_bytes_whatever_their_order_and_times() {
    let names = ["b", "a/z", "a/b/c", "empty"];
    let write_and_extract = |order: &[&str]| {
        let dir = tempfile::tempdir().unwrap();
        let files = dir.path().join("files");
        for name in order {
            let path = files.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, name.repeat(400 * name.len())).unwrap();
        }
        fs::write(files.join("empty"), "").unwrap();
        let archive = dir.path().join("x.tar.zst");
        write(&files, "root", 1_700_000_000, &archive).unwrap();
        let target = dir.path().join("into");
        fs::create_dir(&target).unwrap();
        let extracted = extract(&archive, &target, SMALL_LIMITS).unwrap();
        assert_eq!(extracted, ["root/a/b/c", "root/a/z", "root/b", "root/empty"]);
        for name in extracted {
            let original = fs::read(files.join(name.strip_prefix("root/").unwrap())).unwrap();
            assert_eq!(fs::read(target.join(&name)).unwrap(), original);
        }
        assert!(!dir.path().join("x.tar.zst.partial").exists());
        fs::read(archive).unwrap()
    };
    let reversed: Vec<&str> = names.iter().rev().copied().collect();
    assert_eq!(write_and_extract(&names), write_and_extract(&reversed));
}

#[test]
fn a_file_that_cannot_be_written_is_an_error_and_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("a"), "x").unwrap();
    assert!(matches!(write(dir.path(), "r", 0, &dir.path().join("no/such")), Err(Error::Io(..))));
    assert!(matches!(write(dir.path(), "r", 0, Path::new("/dev/full/x")), Err(Error::Io(..))));
    assert_eq!(files_below(dir.path()).unwrap(), ["a"]);
}
