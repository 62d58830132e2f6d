//! Tests of `grammar.rs`. They try every option in the manual of every mkfs, in every form that getopt(3) reads, with a victim
//! path in each place, and check that no accepted input makes mkfs open a second path.

use super::{
    COMMON_MOUNT_OPTIONS, PINNED_ID, ValueKind, check_mkfs_arguments, check_mount_options, pin_random_values,
    suggest_feature, suggest_mount_option,
};
use crate::filesystems::{FILESYSTEMS, find};
use crate::{def::FsDef, lifecycle};
use fsarena_core::cell::Variant;
use fsarena_core::exit::{ExitCode, HasExitCode};
use std::collections::BTreeSet;

/// Paths of a user's data, as a plan could write them. The last has no slash.
const VICTIMS: [&str; 4] = ["/dev/loop6", "~/photos.tar", "../photos.tar", "photos.tar"];
const TARGET: &str = "TARGET";

/// The options in the manual of a mkfs: flags, options with a value, options that name a device or a file, and options with
/// a list of keys (a key with `!` names a device or a file). From Debian 12 and later versions.
struct Manual {
    fs: &'static str,
    flags: &'static str,
    values: &'static str,
    paths: &'static str,
    lists: &'static [(&'static str, &'static str)],
}

const MANUALS: &[Manual] = &[
    MKE2FS,
    Manual { fs: "ext3", ..MKE2FS },
    Manual { fs: "ext4", ..MKE2FS },
    Manual {
        fs: "xfs",
        flags: "-C -f -K -N -q -V",
        values: "-L",
        paths: "-p -P",
        lists: &[
            ("-b", "size log"),
            ("-c", "!options"),
            (
                "-d",
                "agcount agsize concurrency cowextsize daxinherit !file extszinherit !name noalign projinherit \
                    rtinherit sectlog sectsize size su sunit sw swidth",
            ),
            ("-i", "align attr exchange log maxpct nrext64 perblock projid32bit size sparse"),
            ("-l", "agnum concurrency !file internal lazy-count !logdev !name sectlog sectsize size su sunit version"),
            ("-m", "autofsck bigtime crc finobt inobtcount metadir reflink rmapbt uuid"),
            ("-n", "ftype log parent size version"),
            ("-r", "concurrency extsize !file !name noalign rgcount rgsize !rtdev size zoned"),
            ("-s", "log sectlog sectsize size"),
        ],
    },
    Manual {
        fs: "btrfs",
        flags: "-f --force -K --nodiscard -M --mixed -q --quiet -v --verbose -V --version --help --shrink",
        values: "-A --alloc-start -b --byte-count --csum --checksum -d --data -m --metadata -n --nodesize -s --sectorsize \
                 -L --label -O --features -R --runtime-features -U --uuid --device-uuid -l --leafsize --compress",
        paths: "-r --rootdir -u --subvol --inode-flags",
        lists: &[],
    },
    Manual {
        fs: "bcachefs",
        flags: "-f --force -q --quiet -v --verbose -h --help --acl --discard --inodes_32bit --nocow --shard_inode_numbers \
                --inodes_use_key_cache --journal_transaction_names --encrypted --no_passphrase --wide_macs --usrquota \
                --grpquota --prjquota --erasure_code --no_initialize",
        values: "--block_size --btree_node_size --bucket --errors --metadata_replicas --data_replicas --replicas \
                 --metadata_replicas_required --data_replicas_required --encoded_extent_max --metadata_checksum \
                 --data_checksum --compression --background_compression --str_hash --gc_reserve_percent \
                 --gc_reserve_bytes --root_reserve_percent --superblock_size --fs_size -L --fs_label -U --uuid --version \
                 -l --label --durability",
        paths: "--source --metadata_target --foreground_target --background_target --promote_target",
        lists: &[],
    },
    Manual {
        fs: "zfs",
        flags: "-d -f -n",
        values: "-t",
        paths: "-m -R",
        lists: &[
            (
                "-o",
                "!altroot ashift autoexpand autoreplace autotrim !cachefile comment !compatibility delegation failmode \
                 multihost",
            ),
            (
                "-O",
                "acltype atime casesensitivity checksum compression copies dedup direct dnodesize !keylocation logbias \
                 !mountpoint normalization prefetch primarycache quota recordsize redundant_metadata relatime \
                 secondarycache !sharenfs !sharesmb snapdir special_small_blocks sync utf8only xattr",
            ),
        ],
    },
    Manual { fs: "jfs", flags: "-c -O -q -V", values: "-L -s", paths: "-j", lists: &[("-J", "!device journal_dev")] },
    Manual {
        fs: "reiserfs",
        flags: "-f --force -q --quiet -d --debug -V",
        values: "-b --block-size -h --hash --format -u --uuid -l --label -o --journal-offset -s --journal-size \
                 -t --transaction-max-size",
        paths: "-j --journal-device -B --badblocks",
        lists: &[],
    },
    Manual {
        fs: "reiser4",
        flags: "-V --version -? -h --help -y --yes -f --force -s --lost-found -d --discard -p --print-profile \
                -l --print-plugins",
        values: "-b --block-size -L --label -U --uuid -o --override",
        paths: "",
        lists: &[],
    },
    Manual {
        fs: "f2fs",
        flags: "-f -i -m -q -r -V -h --help",
        values: "-a -C -d -e -E -g -l -o -O -R -s -S -t -T -U -w -z -Z -H",
        paths: "-c",
        lists: &[],
    },
    Manual { fs: "nilfs2", flags: "-c -f -h -K -n -q -v -V", values: "-b -B -L -m -O -P", paths: "", lists: &[] },
    Manual {
        fs: "vfat",
        flags: "-a -A -c -C -I -v --invariant --help --mbr",
        values: "-b -D -f -F -g -h -i -M -n -r -R -s -S --codepage --offset --variant",
        paths: "-l -m",
        lists: &[],
    },
    Manual {
        fs: "exfat",
        flags: "-f --full-format -h --help --pack-bitmap -q --quiet -v --verbose -V --version",
        values: "-b --boundary-align -c --cluster-size -s --sector-size -L --volume-label -n -U --volume-guid",
        paths: "",
        lists: &[],
    },
    Manual {
        fs: "ntfs3",
        flags: "-f --fast -Q --quick -C --enable-compression -n --no-action -T --zero-time -U --with-uuid \
                -I --no-indexing -F --force -q --quiet -v --verbose --debug -V --version -l --license -h --help",
        values: "-L --label -c --cluster-size -s --sector-size -p --partition-start -H --heads -S --sectors-per-track \
                 -z --mft-zone-multiplier",
        paths: "",
        lists: &[],
    },
    Manual { fs: "hfsplus", flags: "-h -P -s -w", values: "-b -c -G -i -M -n -N -U -v", paths: "-D -J", lists: &[] },
    Manual {
        fs: "udf",
        flags: "-h --help -n --no-write --new-file --read-only --spartable --vat --closed --noefe --locale --u8 --u16 --utf8",
        values: "-l --label -u --uuid -b --blocksize -m --media-type -r --udfrev --lvid --vid --vsid --fsid --fullvsid \
                 --owner --organization --contact --uid --gid --mode --bootarea --strategy --sparspace --packetlen \
                 --startblock --minblocks --space --ad",
        paths: "",
        lists: &[],
    },
    Manual {
        fs: "minix",
        flags: "-1 -2 -3 -v -c --check -h --help -V --version --lock",
        values: "-n --namelength -i --inodes",
        paths: "-l --badblocks",
        lists: &[],
    },
    Manual {
        fs: "erofs",
        flags: "-h --help -V --version --quiet --all-root --ignore-mtime --preserve-mtime --gzip --mount-point",
        values: "-b -C -d -L -T -U -x -z --chunksize --max-extent-bytes --force-uid --force-gid --uid-offset --gid-offset \
                 --workers --fsalignblks --sort",
        paths: "--blobdev --clean --compress-hints --exclude-path --exclude-regex --file-contexts --incremental \
                --ovlfs-strip --tar --aufs --unxz --ungzip --vmdk-desc --root-xattr-isize",
        lists: &[(
            "-E",
            "48bit all-fragments dedupe dot-omitted force-inode-blockmap force-inode-compact force-inode-extended \
             fragdedupe fragments inline_data legacy-compress noinline_data nosbcrc xattr-name-filter ztailpacking",
        )],
    },
    Manual {
        fs: "squashfs",
        flags: "-tar -no-strip -tarstyle -cpiostyle -cpiostyle0 -reproducible -not-reproducible -no-exports -exports \
                -no-sparse -no-xattrs -xattrs -noI -noId -noD -noF -noX -no-tailends -tailends -no-fragments \
                -always-use-fragments -no-duplicates -no-hardlinks -all-root -keep-as-directory -wildcards -regex \
                -one-file-system -noappend -version -exit-on-error -no-recovery -quiet -info -no-progress -progress \
                -nopad -root-owned -help -h -Xhelp -Xhc",
        values: "-comp -b -mkfs-time -fstime -all-time -root-time -root-mode -root-uid -root-gid -force-uid -force-gid \
                 -root-becomes -throttle -limit -processors -mem -Xcompression-level -Xwindow-size -Xstrategy \
                 -Xalgorithm -Xbcj -Xdict-size",
        paths: "-action -log-action -true-action -false-action -action-file -log-action-file -true-action-file \
                -false-action-file -p -pf -sort -ef -e -recover -recovery-path -offset -o",
        lists: &[],
    },
];

const MKE2FS: Manual = Manual {
    fs: "ext2",
    flags: "-c -D -F -j -K -n -q -S -v -V",
    values: "-b -C -e -g -G -i -I -L -m -N -o -O -r -R -s -t -T -U",
    paths: "-d -l -M -z",
    lists: &[
        (
            "-E",
            "assume_storage_prezeroed desc-size discard encoding encoding_flags hash_seed lazy_itable_init \
             lazy_journal_init mmp_update_interval no_copy_xattrs nodiscard num_backup_sb offset orphan_file_size \
             packed_meta_blocks quotatype resize revision root_owner root_perms root_selinux stride stripe-width \
             stripe_width test_fs",
        ),
        ("-J", "!device fast_commit_size location size"),
    ],
};

/// How a mkfs reads one of its options.
#[derive(Clone, Copy, PartialEq)]
enum Reads {
    Flag,
    Value,
    Path,
    List(&'static str),
}

impl Manual {
    fn def(&self) -> &'static FsDef {
        find(self.fs).unwrap()
    }

    fn options(&self) -> Vec<(&'static str, Reads)> {
        let kinds = [(self.flags, Reads::Flag), (self.values, Reads::Value), (self.paths, Reads::Path)];
        let plain =
            kinds.into_iter().flat_map(|(names, reads)| names.split_whitespace().map(move |name| (name, reads)));
        plain.chain(self.lists.iter().map(|(name, keys)| (*name, Reads::List(keys)))).collect()
    }

    fn option(&self, name: &str) -> Option<(&'static str, Reads)> {
        self.options().into_iter().find(|(known, _)| *known == name)
    }

    /// An option by its name or, like getopt_long(3), by an unambiguous beginning of a long name.
    fn option_by_abbreviation(&self, name: &str) -> Option<(&'static str, Reads)> {
        let options = self.options();
        let mut matching = options.iter().filter(|(known, _)| known.starts_with(name));
        let only_match = matching.next().filter(|_| matching.next().is_none()).copied();
        self.option(name).or(only_match)
    }

    /// Whether mkfs reads each word with a single dash as one name.
    fn has_long_names(&self) -> bool {
        self.fs == "squashfs"
    }

    /// The paths that mkfs would open if it reads its arguments like getopt_long(3) with permutation.
    fn opened_paths(&self, argv: &[String]) -> Vec<String> {
        let mut opened = vec![];
        let mut words = argv.iter();
        while let Some(word) = words.next() {
            if word == "--" {
                opened.extend(words.by_ref().cloned());
            } else if self.has_long_names() && word.starts_with('-') {
                if let Some((_, reads)) = self.option(word).filter(|(_, reads)| *reads != Reads::Flag) {
                    opened.extend(named_paths(reads, words.next().unwrap_or(&String::new())));
                }
            } else if word.starts_with("--") {
                let (name, attached) =
                    word.split_once('=').map_or((&word[..], None), |(name, value)| (name, Some(value)));
                if let Some((_, reads)) = self.option_by_abbreviation(name).filter(|(_, reads)| *reads != Reads::Flag) {
                    let value = attached.map(String::from).or_else(|| words.next().cloned());
                    opened.extend(named_paths(reads, &value.unwrap_or_default()));
                }
            } else if let Some(letters) = word.strip_prefix('-').filter(|letters| !letters.is_empty()) {
                for (index, letter) in letters.char_indices() {
                    let Some((_, reads)) = self.option(&format!("-{letter}")) else { continue };
                    if reads != Reads::Flag {
                        let rest = &letters[index + letter.len_utf8()..];
                        let value = if rest.is_empty() { words.next().cloned() } else { Some(rest.into()) };
                        opened.extend(named_paths(reads, &value.unwrap_or_default()));
                        break;
                    }
                }
            } else {
                opened.push(word.clone());
            }
        }
        opened
    }

    /// Parts of argument lists: each option in each form, with the victim in each place.
    fn pieces(&self, victim: &str) -> Vec<String> {
        let mut pieces =
            vec![victim.to_string(), format!("-- {victim}"), "--".into(), "-".into(), format!("- {victim}")];
        let short = |name: &&str| !name.starts_with("--");
        let flags: String = self.flags.split_whitespace().filter(short).map(|name| &name[1..]).collect();
        for (name, reads) in self.options() {
            for form in
                ["{o}", "{o} {v}", "{o}{v}", "{o}={v}", "{o} 1 {v}", "{o} 1,{v}", "{o} ^a,{v}", "{v} {o}", "{o} -- {v}"]
            {
                pieces.push(form.replace("{o}", name).replace("{v}", victim));
            }
            match name.strip_prefix("--") {
                // Every abbreviation.
                Some(long) => (1..long.len()).for_each(|end| {
                    pieces.extend(["", " ", "="].map(|between| format!("--{}{between}{victim}", &long[..end])))
                }),
                // Behind all flags in one word.
                None => pieces.extend(["", " ", "="].map(|between| format!("-{flags}{}{between}{victim}", &name[1..]))),
            }
            let Reads::List(keys) = reads else { continue };
            for key in keys.split_whitespace().map(|key| key.trim_start_matches('!')) {
                for form in
                    ["{o} {k}={v}", "{o}{k}={v}", "{o} size=1,{k}={v}", "{o} {k}={v},size=1", "{o} {k},{v}", "{o} {k}"]
                {
                    pieces.push(form.replace("{o}", name).replace("{k}", key).replace("{v}", victim));
                }
            }
        }
        pieces
    }
}

/// The paths that the value of an option names.
fn named_paths(reads: Reads, value: &str) -> Vec<String> {
    match reads {
        Reads::Flag | Reads::Value => vec![],
        Reads::Path => vec![value.into()],
        Reads::List(keys) => {
            let names = |key: &str| keys.split_whitespace().any(|name| name.strip_prefix('!') == Some(key));
            let parts = value.split(',').filter_map(|part| part.split_once('='));
            parts.filter(|(key, _)| names(key)).map(|(_, path)| path.into()).collect()
        }
    }
}

/// The arguments of mkfs for a level of the factor `mkfs`.
fn arguments(def: &FsDef, level: &str) -> Result<Vec<String>, crate::Error> {
    let levels = [("fs", def.id), ("mkfs", level)];
    let levels = levels.iter().map(|(factor, level)| (factor.to_string(), level.to_string())).collect();
    lifecycle::variant_options(def, &Variant { name: def.id.into(), levels }).map(|options| options.mkfs)
}

#[test]
fn no_argument_reaches_a_second_path() {
    for manual in MANUALS {
        let def = manual.def();
        let (mut accepted, mut refused) = (0, 0);
        let mut check = |level: &str| match arguments(def, level) {
            Err(error) => {
                refused += 1;
                assert!([ExitCode::Refused, ExitCode::Usage].contains(&error.exit_code()), "{error}");
            }
            Ok(mut words) => {
                accepted += 1;
                words.push(TARGET.into());
                assert_eq!(manual.opened_paths(&words), [TARGET], "{}: {level:?} became {words:?}", def.mkfs);
                assert!(!words.iter().any(|word| word.contains(['/', '~'])), "{}: {words:?}", def.mkfs);
            }
        };
        for victim in VICTIMS {
            let pieces = manual.pieces(victim);
            pieces.iter().for_each(|piece| check(piece));
            // Pairs of pieces: an option in one piece could take its value from the other. Each stride makes other pairs.
            for stride in [1, 7, 61, 211] {
                let others = pieces.iter().cycle().skip(stride);
                pieces.iter().zip(others).for_each(|(first, second)| check(&format!("{first} {second}")));
            }
        }
        assert!(accepted > 20 && refused > 500, "{}: {accepted} accepted, {refused} refused", def.id);
    }
}

/// If mkfs took a value for an option that the grammar treats as a flag, or the reverse, it would read all later words in
/// another way.
#[test]
fn grammars_agree_with_the_manuals() {
    let covered: BTreeSet<&str> = MANUALS.iter().map(|manual| manual.fs).collect();
    assert_eq!(covered, FILESYSTEMS.iter().filter(|def| !def.mkfs.is_empty()).map(|def| def.id).collect());
    for manual in MANUALS {
        for (kind, names) in manual.def().allowed_arguments {
            for name in names.split(' ') {
                let reads = manual.option(name).map(|(_, reads)| reads);
                let set = |keys: &'static str| keys.split_whitespace().collect::<BTreeSet<_>>();
                let agrees = match (kind, reads) {
                    (ValueKind::Nothing, Some(Reads::Flag)) | (ValueKind::Plain, Some(Reads::Value)) => true,
                    (ValueKind::Keys(keys), Some(Reads::List(all))) => set(keys).is_subset(&set(all)),
                    // The grammar may refuse options that name no path, too.
                    (ValueKind::Path, Some(_)) => true,
                    _ => false,
                };
                assert!(agrees, "{} {name}", manual.fs);
            }
        }
        for (name, reads) in manual.options() {
            let accepted = |value: &str| arguments(manual.def(), &format!("{name} {value}")).is_ok();
            assert!(reads != Reads::Path || !accepted("1") && !accepted(""), "{} {name}", manual.fs);
        }
    }
}

#[test]
fn the_option_sets_that_ship_are_accepted() {
    for def in FILESYSTEMS {
        for set in def.option_sets {
            let words: Vec<String> = set.mkfs.iter().map(|word| word.to_string()).collect();
            assert_eq!(check_mkfs_arguments(def, &words).unwrap(), words, "{} {}", def.id, set.id);
            check_mount_options(set.mount.iter().copied()).unwrap();
        }
    }
}

#[test]
fn short_options_are_returned_as_separate_words() {
    for (fs, level, expected) in [
        (
            "ext4",
            "-b4096 -qDO^has_journal -E lazy_itable_init=0,hash_seed=1-2",
            "-b 4096 -q -D -O ^has_journal -E lazy_itable_init=0,hash_seed=1-2",
        ),
        ("btrfs", "-Kn16384 --nodesize=4096 --metadata single", "-K -n 16384 --nodesize=4096 --metadata single"),
        ("xfs", "-dagcount=16,su=64k,sw=2 -i size=512", "-d agcount=16,su=64k,sw=2 -i size=512"),
        ("udf", "--label=data --udfrev=2.01", "--label=data --udfrev=2.01"),
    ] {
        assert_eq!(arguments(find(fs).unwrap(), level).unwrap().join(" "), expected);
    }
}

#[test]
fn a_refusal_names_the_argument_and_what_is_accepted() {
    for (fs, level, code, argument) in [
        ("btrfs", "-n 16384 /dev/loop6", ExitCode::Refused, "/dev/loop6"),
        ("btrfs", "--rootdir=/home", ExitCode::Refused, "--rootdir"),
        ("xfs", "-l logdev=/dev/loop6,size=64m", ExitCode::Refused, "-l logdev=/dev/loop6"),
        ("ext4", "-J size=4,device=UUID", ExitCode::Refused, "-J device=UUID"),
        ("ext4", "-L /srv", ExitCode::Refused, "-L /srv"),
        ("btrfs", "--roo x", ExitCode::Usage, "--roo"),
        ("xfs", "-d agcount=4,new=1", ExitCode::Usage, "-d new=1"),
        ("xfs", "-L", ExitCode::Usage, "-L"),
        ("ext4", "-E", ExitCode::Usage, "-E"),
        ("ntfs3", "--fast=1", ExitCode::Usage, "--fast"),
        ("minix", "-1 -n 30", ExitCode::Usage, "-1"),
        ("ext4", "-L $(id)", ExitCode::Usage, "-L $(id)"),
    ] {
        let def = find(fs).unwrap();
        let error = arguments(def, level).unwrap_err();
        assert_eq!(error.exit_code(), code, "{error}");
        assert!(
            error.to_string().contains(argument) && error.to_string().contains(&def.list_accepted_options()),
            "{error}"
        );
    }
}

#[test]
fn no_mount_option_reaches_a_second_path() {
    let fill_in = |pattern: &str, victim: &str| pattern.replace("{}", victim);
    for victim in VICTIMS {
        let fixed = [
            "device={}",
            "logdev={}",
            "rtdev={}",
            "journal_path={}",
            "journal_dev={}",
            "jdev={}",
            "loop={}",
            "loop",
            "offset={}",
            "sizelimit={}",
            "bind",
            "rbind",
            "move",
            "remount",
            "helper={}",
            "uhelper={}",
            "lowerdir={}",
            "lowerdir+={}",
            "source={}",
            "device+={}",
            "upperdir={}",
            "workdir={}",
            "X-mount.mkdir",
            "X-mount.subdir={}",
            "x-mount.mkdir={}",
            "x-systemd.requires={}",
            "verity.hashdevice={}",
            "verity.roothash={}",
            "shared",
            "rslave",
        ];
        let of_filesystems = FILESYSTEMS
            .iter()
            .filter_map(|def| Some(def.journal?.mount))
            .chain(FILESYSTEMS.iter().filter_map(|def| Some(def.raid?.mount)));
        for option in fixed.into_iter().chain(of_filesystems.filter(|pattern| !pattern.is_empty())) {
            let option = fill_in(option, victim);
            for options in [vec![&option[..]], vec!["noatime", &option, "ro"]] {
                let error = check_mount_options(options).expect_err(&option);
                assert_eq!(error.exit_code(), ExitCode::Refused, "{option}: {error}");
            }
        }
        // Any value with a slash could be a path.
        let slashed = victim.contains('/');
        for option in ["usrquota={}", "subvol={}", "{}", "anything={}"].map(|pattern| fill_in(pattern, victim)) {
            assert_eq!(check_mount_options([&option[..]]).is_err(), slashed, "{option}");
        }
    }
    for option in ["a b", "x=\"a", "x=a\\b", "x=$HOME", "=x", "", "-o", "ro,loop", "x=1,bind"] {
        assert_eq!(check_mount_options([option]).unwrap_err().exit_code(), ExitCode::Usage, "{option}");
    }
    let error = check_mount_options(["ro,sync"]).unwrap_err().to_string();
    assert!(error.contains("without blanks, quotes or commas"), "{error}");
    let usual =
        "noatime,data=writeback,commit=30,compress-force=zstd:3,iocharset=iso8859-15,errors=remount-ro,usrjquota=";
    check_mount_options(usual.split(',')).unwrap();
}

fn pinned(fs: &str, words: &[&str]) -> String {
    let mut words = words.iter().map(|word| word.to_string()).collect();
    pin_random_values(find(fs).unwrap(), &mut words);
    words.join(" ").replace(PINNED_ID, "ID")
}

#[test]
fn values_that_the_arguments_set_are_not_pinned() {
    assert_eq!(pinned("ext4", &[]), "-U ID -E hash_seed=ID");
    assert_eq!(pinned("ext4", &["-E", "lazy_itable_init=0"]), "-E lazy_itable_init=0,hash_seed=ID -U ID");
    assert_eq!(pinned("ext4", &["-E", "hash_seed=x", "-U", "y"]), "-E hash_seed=x -U y");
    assert_eq!(pinned("xfs", &["-m", "crc=0"]), "-m crc=0,uuid=ID");
    assert_eq!(pinned("jfs", &["-q"]), "-q");
    // Of two flags for one value mkfs takes the last.
    assert_eq!(pinned("btrfs", &[]), "-U ID");
    assert_eq!(pinned("btrfs", &["--uuid=y"]), "--uuid=y");
    assert_eq!(pinned("reiserfs", &["--uuid", "y"]), "--uuid y");
}

#[test]
fn equal_options_make_equal_filesystems() {
    let dir = tempfile::tempdir().unwrap();
    let pinned_values_of = |name: &str| {
        let image = dir.path().join(name);
        std::fs::File::create(&image).unwrap().set_len(16 << 20).unwrap();
        let mut words = vec!["-q".to_string(), "-F".into()];
        pin_random_values(find("ext4").unwrap(), &mut words);
        let finished = fsarena_sys::argv::Argv::new("mkfs.ext4").args(words).arg(&image).run_checked(&mut |_| {});
        finished.unwrap();
        let description = fsarena_sys::argv::Argv::new("dumpe2fs").arg("-h").arg(&image).run_checked(&mut |_| {});
        let is_pinned_value = |line: &&str| line.contains("UUID") || line.contains("Hash Seed");
        description.unwrap().stdout.lines().filter(is_pinned_value).map(String::from).collect::<Vec<_>>()
    };
    assert_eq!(pinned_values_of("a"), pinned_values_of("b"));
    assert_eq!(pinned_values_of("a").len(), 2);
}

#[test]
fn a_mistyped_name_gets_a_suggestion() {
    let feature = |fs: &str, words: &str| suggest_feature(find(fs).unwrap(), words);
    assert_eq!(feature("ext4", "-b 4096 -O extent,^has_jounal"), Some("has_journal"));
    assert_eq!(feature("btrfs", "no-hole"), Some("no-holes"));
    assert_eq!(feature("ext4", "-O extent,^has_journal"), None);
    let mount = |fs: &str, option: &str| suggest_mount_option(find(fs).unwrap(), option);
    assert_eq!(mount("vfat", "noatme"), Some("noatime"));
    assert_eq!(mount("ext3", "data=writebak"), Some("data=writeback"));
    assert_eq!(mount("btrfs", "compres=zstd:3"), Some("compress"));
    // The name is right, and only the kernel can check the value.
    assert_eq!(mount("xfs", "logbufs=800"), None);
    assert_eq!(mount("xfs", "qwertz"), None);
}

#[test]
fn the_option_sets_use_known_names() {
    for def in FILESYSTEMS {
        for set in def.option_sets {
            for option in set.mount {
                let name = option.split('=').next().unwrap();
                let known = COMMON_MOUNT_OPTIONS.split(' ').chain(def.mount_names.split(' '));
                assert!(known.clone().any(|known| known == name), "{}: {option}", def.id);
            }
        }
    }
}

#[test]
fn names_with_a_single_dash_are_read_whole_where_mkfs_does() {
    let check = |level: &str| arguments(find("squashfs").unwrap(), level);
    assert_eq!(check("-comp zstd -b 1M -noI").unwrap().join(" "), "-comp zstd -b 1M -noI");
    for refused in ["-pf /etc/passwd", "-comp /dev/sda", "-e x"] {
        assert_eq!(check(refused).unwrap_err().exit_code(), ExitCode::Refused, "{refused}");
    }
    assert!(check("-compp zstd").unwrap_err().to_string().contains("did you mean `-comp`"));
    let why = arguments(find("tmpfs").unwrap(), "-b 4096").unwrap_err().to_string();
    assert_eq!(why, "tmpfs is made by its mount: leave out the factor `mkfs`");
}
