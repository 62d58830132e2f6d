//! Usage errors: paths that do not exist, names with a typo, and flags that do not apply.

use crate::common::kernel::has_programs;
use crate::common::{Sandbox, runs_as_root, stored};

/// Runs every command line in a sandbox with one stored run. Asserts that each ends with exit code 2, with nothing on standard
/// output and with the given text in standard error.
#[track_caller]
fn assert_refused(lines: &[(&str, &str)]) {
    let sandbox = Sandbox::new();
    stored::store_run(&sandbox.runs_dir());
    std::fs::write(sandbox.dir.join("a.csv"), "variant,value\na,1\n").unwrap();
    for (line, words) in lines {
        let args: Vec<&str> = line.split_whitespace().map(|word| word.trim_matches('\'')).collect();
        let (printed, stderr) = sandbox.expect(2, &args);
        assert_eq!(printed, "", "{line}");
        assert!(stderr.contains(words), "{line}: {words} is not in\n{stderr}");
        assert!(!stderr.contains("bug"), "{line}\n{stderr}");
    }
    assert_eq!(std::fs::read_dir(sandbox.runs_dir()).unwrap().count(), 1, "fsarena began a run");
    sandbox.assert_clean();
}

#[test]
fn paths_that_do_not_exist_are_usage_errors() {
    assert_refused(&[
        ("run no/plan.toml", "no/plan.toml"),
        ("run plan.toml --on dir:no/such", "no/such"),
        ("run plan.toml --on dir:home --other no/such", "no/such"),
        ("run plan.toml --on dir:home --tree no/such", "no/such"),
        ("run plan.toml --on dir:home --export md=no/such/file.md", "no/such"),
        ("run gus3 --workload dbench --on dir:home --scale tiny --set loadfile=no/such", "no/such"),
        ("run --resume no/such", "no/such"),
        ("run --after no/such gus3", "no/such"),
        ("ab plan.toml --a dir=no/such --b dir=home", "no/such"),
        ("ab no/plan.toml --a fs=ext4 --b fs=ext4", "no/plan.toml"),
        ("report no/such", "no/such"),
        ("report --runs no/such", "no/such"),
        ("report latest --export html=no/such/file.html", "no/such"),
        ("compare latest no/such", "no/such"),
        ("compare no.csv a.csv", "no.csv"),
        ("compare a.csv no.csv", "no.csv"),
        ("compare no.csv no.json", "No such file or directory: no.csv"),
        ("analyse no/such", "no/such"),
        ("analyse no.csv", "no.csv"),
        ("analyse latest --fresh no/such", "no matrix"),
        ("history --runs no/such", "no/such"),
        ("show no/such", "no/such"),
        ("load --dir no/such", "no/such"),
        ("load --file no/such/file", "no/such"),
        ("serve no/such", "no/such"),
        ("watch --log no/such --windows 1 --window 1s", "no/such"),
        ("watch --path no/such --windows 1 --window 1s", "no/such"),
        ("watch --device no/such --windows 1 --window 1s", "no/such"),
        ("watch --resume no/such", "no/such"),
    ]);
}

#[test]
fn devices_and_kernels_that_do_not_exist_are_usage_errors() {
    if !runs_as_root() {
        return;
    }
    assert_refused(&[
        ("run plan.toml --erase /dev/disk/by-id/no-such", "no-such"),
        ("run plan.toml --on loop:no/such", "no/such"),
        ("run plan.toml --on qemu --kernel no/such", "no/such"),
        ("run plan.toml --on qemu --kernel plan.toml --modules no/such", "no/such"),
    ]);
}

#[test]
fn a_typo_in_a_name_gets_the_nearest_name() {
    assert_refused(&[
        ("run --fs ext", "Did you mean `ext"),
        ("run --options noatme", "Did you mean `noatime`?"),
        ("run --factor schedulr=none", "Did you mean `scheduler`?"),
        ("run --factor device=loopp", "Did you mean `loop`?"),
        ("run --workload coreutil", "Did you mean `coreutils`?"),
        ("run --set drvier=native", "Did you mean `driver`?"),
        ("run --set driver=nativ", "Did you mean `native`?"),
        ("run engel --modes rndrdd", "Did you mean `rndrd`?"),
        ("run --scale quik", "Did you mean `quick`?"),
        ("run --metric elapsd", "Did you mean `elapsed`?"),
        ("run --on lopp", "Did you mean `loop`?"),
        ("run --export htm=x", "Did you mean `html`?"),
        ("run piszc", "Did you mean `piszcz`?"),
        ("run plan.toml --on dir:home --weight touc=3", "Did you mean `touch`?"),
        ("run plan.toml --on dir:home --claim touc.elapsed:'best'is'x", "touc"),
        ("ab plan.toml --a fss=ext4 --b fs=ext4", "Did you mean `fs`?"),
        ("report --metric elapsd", "Did you mean `elapsed`?"),
        ("report --format htm", "Did you mean `html`?"),
        ("report latst", "Did you mean `latest`?"),
        ("report --weight uttar=3", "Did you mean `untar`?"),
        ("compare latest published:piszcz-3", "Did you mean `published:piszcz-I"),
        ("compare latest latst", "Did you mean `latest`?"),
        ("compare latest latest --metric elapsd", "Did you mean `elapsed`?"),
        ("history exmple", "Did you mean `example`?"),
        ("history --variant ext", "Did you mean `ext"),
        ("history --reference ext", "Did you mean `ext"),
        ("history --metric elapsd", "Did you mean `elapsed`?"),
        ("show piszc", "Did you mean `piszcz`?"),
        ("show published:engl", "Did you mean `published:engel`?"),
        ("load --meta creat", "Did you mean `create`?"),
        ("load --random-distribution randm", "Did you mean `random`?"),
        ("list filesystem", "filesystems"),
        ("reprot", "report"),
    ]);
}

/// The same names in the commands and flags of the test above that take them too.
#[test]
fn every_command_proposes_the_nearest_name() {
    assert_refused(&[
        ("run --engine sysbnch --workload fileio", "Did you mean `sysbench`?"),
        ("run fileio", "Did you mean --workload fileio?"),
        ("run ext4,xfs", "Did you mean --fs ext4,xfs?"),
        ("run gus3 --stage on", "Did you mean `"),
        ("run gus3 --after latst", "Did you mean `latest`?"),
        ("run --resume latst", "Did you mean `latest`?"),
        ("run --find bst", "a similar value exists: 'best'"),
        ("run --cmd true --cache warmm --on dir:home", "Did you mean `warm`?"),
        ("run plan.toml --fs ext4 --current ext44 --on qemu", "Did you mean `ext4`?"),
        ("run --factor fs=ext44", "Did you mean `ext4`?"),
        ("run --factor options=noatme", "Did you mean `noatime`?"),
        ("ab pizcz --a fs=ext4 --b fs=ext4", "Did you mean `piszcz`?"),
        ("ab plan.toml --a fs=ext44 --b fs=ext4", "Did you mean `ext4`?"),
        ("ab plan.toml --a fs=ext4 --b fs=ext4,options=noatme", "Did you mean `noatime`?"),
        ("ab plan.toml --a fs=ext4 --b fs=ext4 --workload coreutil", "Did you mean `coreutils`?"),
        ("ab plan.toml --a fs=ext4 --b fs=ext4 --metric elapsd", "Did you mean `elapsed`?"),
        ("ab plan.toml --a fs=ext4 --b fs=ext4 --weight touc=3", "Did you mean `touch`?"),
        ("ab plan.toml --a fs=ext4 --b fs=ext4 --current ext4/c", "Did you mean `ext4/"),
        ("ab plan.toml --a fs=ext4 --b fs=ext4 --export htm=x", "Did you mean `html`?"),
        ("advise pizcz", "Did you mean `piszcz`?"),
        ("advise plan.toml --fs ext44", "Did you mean `ext4`?"),
        ("advise --workload coreutil", "Did you mean `coreutils`?"),
        ("advise --metric elapsd", "Did you mean `elapsed`?"),
        ("advise --export htm=x", "Did you mean `html`?"),
        ("merge latst", "Did you mean `latest`?"),
        ("merge latest --metric elapsd", "Did you mean `elapsed`?"),
        ("merge latest --export htm=x", "Did you mean `html`?"),
        ("report --current ext", "Did you mean `ext"),
        ("report --export htm=x", "Did you mean `html`?"),
        ("report --claim untar.elapsd:ext2<xfs", "Did you mean `elapsed`?"),
        ("report --claim untr.elapsed:ext2<xfs", "Did you mean `untar`?"),
        ("report --claim untar.elapsed:ext<xfs", "Did you mean `ext"),
        ("compare latst latest", "Did you mean `latest`?"),
        ("compare latest latest latst", "Did you mean `latest`?"),
        ("compare published:piszcz-3 latest", "Did you mean `published:piszcz-I"),
        ("compare published:piszcz-I latest", "fsarena compare latest published:piszcz-I"),
        ("compare published:piszcz-I published:piszcz-3", "Did you mean `published:piszcz-I"),
        ("compare published:piszcz-I published:piszcz-II --metric elapsd", "Did you mean `elapsed`?"),
        ("compare a.csv a.csv --metric valu", "Did you mean `value`?"),
        ("compare latest latest --format htm", "a similar value exists: 'html'"),
        ("analyse latst", "Did you mean `latest`?"),
        ("analyse published:engl", "Did you mean `published:engel`?"),
        ("analyse latest --explain untr", "Did you mean `untar`?"),
        ("analyse latest --explain untar --variant ext", "Did you mean `ext"),
        ("analyse --format htm", "a similar value exists: 'html'"),
        ("history --format htm", "a similar value exists: 'html'"),
        ("load --rw randreed", "a similar value exists: 'randread'"),
        ("load --ioengine iouring", "a similar value exists: 'io_uring'"),
        ("load --allow spars", "a similar value exists: 'sparse'"),
        ("load --format htm", "a similar value exists: 'html'"),
        ("list filesystem", "a similar value exists: 'filesystems'"),
        ("show latst", "Did you mean `latest`?"),
        ("show latest --format jsn", "a similar value exists: 'json'"),
        ("watch --resume latst", "Did you mean `latest`?"),
        ("selftest --format jsn", "a similar value exists: 'json'"),
        ("config --format jsn", "a similar value exists: 'json'"),
        ("doctor --format jsn", "a similar value exists: 'json'"),
    ]);
}

/// The same paths in the commands and flags of the first test that take them too.
#[test]
fn every_command_refuses_a_path_that_does_not_exist() {
    if has_programs(&["qemu-system-x86_64"]) {
        assert_refused(&[("ab plan.toml --a fs=ext4,kernel=no/such --b fs=ext4", "no/such")]);
    }
    // An ordinary user advises in guests, which have no source disk to name.
    if runs_as_root() {
        assert_refused(&[("advise plan.toml --other no/such", "no/such")]);
    }
    assert_refused(&[
        ("ab plan.toml --a fs=ext4 --b fs=ext4 --tree no/such", "no/such"),
        ("ab plan.toml --a fs=ext4 --b fs=ext4 --export md=no/such/file.md", "no/such"),
        ("advise no/plan.toml", "no/plan.toml"),
        ("advise plan.toml --tree no/such", "no/such"),
        ("advise plan.toml --export md=no/such/file.md", "no/such"),
        ("merge no/such", "no/such"),
        ("merge latest --runs no/such", "no/such"),
        ("compare no/such latest", "no/such"),
        ("compare latest latest no/such", "no/such"),
        ("compare latest latest --runs no/such", "no/such"),
        ("analyse --runs no/such", "no/such"),
        ("show latest --runs no/such", "no/such"),
        ("list runs --runs no/such", "no/such"),
        ("load --meta create --dir no/such", "no/such"),
        ("serve --runs no/such", "no/such"),
        ("watch --service no/such --windows 1 --window 1s", "no/such"),
        ("watch --resume latest --runs no/such", "no/such"),
        ("man no/such", "no/such"),
    ]);
}

#[test]
fn flags_that_do_not_apply_are_refused() {
    assert_refused(&[
        ("run plan.toml --on dir:home --fs ext4", "--fs"),
        ("run plan.toml --on dir:home --options noatime", "--options"),
        ("run plan.toml --on dir:home --mkfs -b1024", "--mkfs"),
        ("run plan.toml --on dir:home --mount noatime", "--mount"),
        ("run plan.toml --on dir:home --size 1g", "--size"),
        ("run plan.toml --on dir:home --factor scheduler=none", "--factor scheduler"),
        ("run plan.toml --on dir:home --modes randread", "Unknown setting `modes`"),
        ("run plan.toml --on dir:home --guest-memory 1g", "--guest-memory: requires a guest"),
        ("run plan.toml --on ram --kernel debian:6.1", "--kernel: requires a guest"),
        ("run plan.toml --on ram --fresh-guests", "--fresh-guests: requires a guest"),
        ("run plan.toml --on qemu --fixed-layout", "--fixed-layout: requires guests that count instructions"),
        ("run plan.toml --on qemu --other home", "--other: the source disk of a guest"),
        ("run plan.toml --on dir:home --other plan.toml", "--other: requires a directory"),
        ("run plan.toml --on ram --other home --other-signature ext4", "requires --other DEVICE"),
        ("run plan.toml --on ram --erase-signature ext4", "--erase"),
        ("ab plan.toml --a dir=home --b dir=shims --size 1g", "--size"),
        ("run --metric-regex x", "--metric-regex: add --cmd COMMAND"),
        ("run --resume latest --within 2%", "cannot be used with"),
        ("compare latest latest --margin 2%", "--margin applies to files"),
        ("compare latest latest --from csv", "--from applies to files"),
        ("compare published:wilton --metric system", "--metric needs two things to compare"),
        ("analyse latest --metric iosp", "Did you mean `iops`?"),
        ("analyse published:engel --metric iops", "--metric: published:engel has one metric"),
        ("analyse published:engel --scaling", "--scaling: published:engel has no curves"),
        ("analyse published:shaikh-files --over files", "--over: published:shaikh-files has its own setting"),
        ("analyse published:engel --profile", "--profile: published:engel was measured"),
        ("analyse latest --confirm --rounds 0", "invalid value '0' for '--rounds <N>'"),
        ("analyse a.csv --confirm", "--confirm: a.csv is a file"),
        ("analyse a.csv --over files", "--over: a.csv is a file of curves"),
        ("analyse a.csv --ceiling 1GB/s", "--ceiling: a.csv is a file of curves"),
        ("selftest --exact --budget 1m", "cannot be used with"),
        ("selftest --here --repeats 3", "cannot be used with"),
        ("watch --log plan.toml --series requests --windows 1 --window 1s", "cannot be used with"),
        ("watch --path . --word x --windows 1 --window 1s -- true", "cannot be used with"),
        ("load --rw read --rwmixread 70", "--rwmixread or --rwmixwrite applies to"),
        ("load --rw read --fsync 8", "--fsync"),
        ("load --meta create --shared-cursor", "cannot be used with"),
        ("doctor --install --format json", "cannot be used with"),
    ]);
}

/// Before it measures anything, fsarena tries the options that the user wrote with mkfs and the kernel.
#[test]
fn options_that_mkfs_or_the_kernel_refuses_are_found_before_the_run() {
    if !runs_as_root() || !has_programs(&["mkfs.xfs", "mkfs.btrfs"]) {
        return;
    }
    let refusals = [
        ("ext4 --mkfs ^has_jounal", "Did you mean `has_journal`?"),
        ("ext4 --mkfs 'bigallok' --on qemu", "Did you mean `bigalloc`?"),
        ("ext4 --mkfs -b65536", "cannot mount ext4 made with `-b65536`"),
        ("ext4 --mount nodelalloc,noatme", "mount option `noatme`"),
        ("ext4 --mount noatme", "Did you mean `noatime`?"),
        ("ext4 --mount data=writebak --dry-run", "Did you mean `data=writeback`?"),
        ("ext4 --factor journal=external --mount commit=x", "mount option `commit=x`"),
        ("xfs --mkfs=-mreflnk=1", "did you mean `reflink`?"),
        ("ext4 --mount data=writbeck", "Did you mean `data=writeback`?"),
        ("ext4,ext2 --mount noatime,noatme", "mount option `noatme`"),
        ("btrfs --factor raid=raid1 --mkfs no-hole", "Did you mean `no-holes`?"),
    ];
    // A guest's filesystem is made by the mkfs of this machine.
    let guests = has_programs(&["qemu-system-x86_64"]);
    let refusals = refusals.into_iter().filter(|(args, _)| guests || !args.contains("qemu"));
    let lines = refusals.map(|(args, words)| (format!("run plan.toml --fs {args}"), words));
    let lines: Vec<(String, &str)> = lines.collect();
    assert_refused(&lines.iter().map(|(line, words)| (line.as_str(), *words)).collect::<Vec<_>>());
    assert_refused(&[("ab plan.toml --a fs=ext4 --b fs=ext4,mount=noatme", "Did you mean `noatime`?")]);
    let sandbox = Sandbox::new();
    sandbox.edit_plan("[factors]", "[factors]\nmount = [\"\", \"noatme\"]");
    let (_, stderr) = sandbox.expect(2, &["run", "plan.toml", "--fs", "ext4"]);
    assert!(stderr.contains("Did you mean `noatime`?") && !sandbox.runs_dir().exists(), "{stderr}");
    sandbox.edit_plan("noatme", "noatime");
    let stages = "[[stage]]\nname = \"one\"\n[[stage]]\nname = \"two\"\nfactors = { mount = [\"relatme\"] }\n";
    let plan = std::fs::read_to_string(sandbox.dir.join("plan.toml")).unwrap();
    std::fs::write(sandbox.dir.join("stages.toml"), plan.replace("mount = ", "#") + stages).unwrap();
    let (_, stderr) = sandbox.expect(2, &["run", "stages.toml", "--fs", "ext4"]);
    assert!(stderr.contains("Did you mean `relatime`?") && !sandbox.runs_dir().exists(), "{stderr}");
    for good in ["ext4 --mkfs ^has_journal --mount noatime", "btrfs --factor raid=raid1 --mkfs -draid1"] {
        let args = format!("run plan.toml --dry-run --fs {good}");
        sandbox.expect(0, &args.split_whitespace().collect::<Vec<_>>());
    }
    sandbox.assert_clean();
}

/// Sizes with suffixes, and the modes of fio and of sysbench, in every command that takes them.
#[test]
fn sizes_and_modes_of_fio_and_sysbench_are_accepted() {
    if !runs_as_root() || !has_programs(&["mkfs.xfs"]) {
        return;
    }
    let sandbox = Sandbox::new();
    let dry_run = |extra_args: &[&str]| {
        let args = [&["run", "engel", "--on", "ram", "--scale", "tiny", "--seed", "1", "--dry-run"], extra_args];
        sandbox.expect(0, &args.concat()).0
    };
    let plan = dry_run(&["--modes", "randread,write", "--bs", "4k,64KiB", "--set", "total_bytes=64m"]);
    assert_eq!(plan, dry_run(&["--modes", "rndrd,seqwr", "--bs", "4096,65536", "--set", "total_bytes=67108864"]));
    assert!(plan.contains("4096") && plan.contains("rndrd"), "{plan}");
}

/// Filesystems that lack an option set are named on the screen and in the report.
#[test]
fn filesystems_that_an_option_set_leaves_out_are_named() {
    if !runs_as_root() || !has_programs(&["mkfs.xfs"]) {
        return;
    }
    let sandbox = Sandbox::new();
    sandbox.edit_plan("fs = [\"ext4\"]", "fs = [\"available\"]");
    let (plan, _) = sandbox.expect(0, &["run", "plan.toml", "--options", "noatime,writeback", "--dry-run"]);
    let not_compared = plan.lines().find(|line| line.starts_with("# not compared")).unwrap_or_default();
    assert!(not_compared.contains("xfs"), "{plan}");
}

/// Settings of a study that another workload lacks are left out and named; settings of the user are refused.
#[test]
fn a_workload_instead_of_that_of_the_study_gets_the_settings_that_it_has() {
    if !has_programs(&["squid"]) {
        return;
    }
    let sandbox = Sandbox::new();
    let squid = ["run", "wilton", "--workload", "squid", "--on", "dir:.", "--dry-run"];
    let (plan, _) = sandbox.expect(0, &squid);
    assert!(plan.contains("# ignored settings of the plan, which squid lacks: threads"), "{plan}");
    assert!(plan.contains("use = \"squid\"") && plan.contains("seconds = 1.0"), "{plan}");
    let (_, stderr) = sandbox.expect(2, &[&squid[..], &["--set", "threads=3"]].concat());
    assert!(stderr.contains("Unknown setting `threads` of workload squid"), "{stderr}");
}

/// A thousand combinations took four minutes.
#[test]
fn of_many_combinations_of_options_each_option_is_tried_once() {
    if !runs_as_root() || !has_programs(&["mkfs.ext2"]) {
        return;
    }
    let sandbox = Sandbox::new();
    sandbox.shim("mount", "echo x >> \"$DIR/mounts\"; exec \"$REAL\" \"$@\"");
    let dry_run_args = |mkfs_count: usize, mount_options: &[&str]| {
        let sizes = (0..mkfs_count).map(|number| format!("-N {}", 1024 + number)).collect::<Vec<_>>();
        let mkfs = sizes.iter().flat_map(|size| ["--mkfs", size]);
        let mount = mount_options.iter().flat_map(|option| ["--mount", option]);
        let args = ["run", "plan.toml", "--fs", "ext2", "--dry-run"].into_iter().chain(mkfs).chain(mount);
        args.map(String::from).collect::<Vec<_>>()
    };
    let options = ["noatime", "nodiratime", "relatime", "nodev", "nosuid", "noexec"];
    let expect = |code, args: &[String]| sandbox.expect(code, &args.iter().map(String::as_str).collect::<Vec<_>>()).1;
    expect(0, &dry_run_args(6, &options));
    let mounts = std::fs::read_to_string(sandbox.dir.join("mounts")).unwrap();
    assert_eq!(mounts.lines().count(), 6);
    let stderr = expect(2, &dry_run_args(6, &[&options[..5], &["nosiud"]].concat()));
    assert!(stderr.contains("refuses the mount option `nosiud`"), "{stderr}");
    assert!(!sandbox.runs_dir().exists());
    sandbox.assert_clean();
}
