//! Makes the job of the load engine from the flags.

use super::fio_options::refuse_ineffective_values;
use super::flags::{AccessMode, Args};
use crate::failure::{Failure, usage_error};
use fsarena_core::exit::ExitCode;
use fsarena_engine::{
    AllowedExtents, Bound, Content, Durability, Engine, LoadJob, OpenMode, Pattern, Rate, SyncCall, SyncEvery, Warmup,
};

/// The run time in seconds if no flag sets a limit.
const DEFAULT_RUN_S: f64 = 10.0;

/// Refuses flags that the mode would ignore.
fn refuse_ignored(args: &Args) -> Result<(), Failure> {
    let refuse = |flag: &str, modes: &str| {
        usage_error(format!("{flag} applies to {modes} only; choose another --rw, or leave it out"))
    };
    let has_sync_flag =
        args.fsync.is_some() || args.fdatasync.is_some() || args.end_fsync || args.sync != Durability::Plain;
    if (args.rwmixread.is_some() || args.fio.rwmixwrite.is_some()) && args.rw.read_share.is_some() {
        return refuse("--rwmixread or --rwmixwrite", "rw and randrw");
    }
    if has_sync_flag && read_share(args) == 1.0 {
        return refuse("--sync, --fsync, --fdatasync or --end-fsync", "loads that write");
    }
    Ok(())
}

/// Makes the job of these flags.
///
/// # Errors
/// Flags that contradict each other.
pub fn make_job(args: &Args) -> Result<LoadJob, Failure> {
    let has_size_limit = args.number_ios.is_some() || args.io_size.is_some();
    refuse_ineffective_values(&args.fio, has_size_limit, args.create_on_open)?;
    refuse_ignored(args)?;
    // The engine refuses blocks of more than 1 GiB.
    let block_bytes = u32::try_from(args.bs).unwrap_or(u32::MAX);
    let sync_interval = args.fsync.or(args.fdatasync);
    let mut allow = AllowedExtents::default();
    args.allow.iter().for_each(|allow_kind| allow_kind(&mut allow));
    Ok(LoadJob {
        engine: args.ioengine.unwrap_or(if args.iodepth > 1 { Engine::IoUring } else { Engine::Sync }),
        open: OpenMode {
            direct: args.fio.buffered.map_or(args.direct, |buffered| !buffered),
            durability: args.sync,
            recreate: args.create_on_open,
        },
        block_bytes,
        threads: args.numjobs,
        depth: args.iodepth,
        batch: args.batch,
        pattern: access_pattern(args)?,
        read_share: read_share(args),
        sync_every: sync_interval.map(|requests| SyncEvery { requests, over_all_threads: false }),
        sync_call: if args.fdatasync.is_some() { SyncCall::Fdatasync } else { SyncCall::Fsync },
        sync_end: args.end_fsync,
        bound: bound(args),
        warmup: args.ramp_time.map_or(Warmup::Detect, |time| Warmup::Seconds(time.as_secs_f64())),
        rate: args.rate.map(|per_s| Rate { per_s, arrivals: args.rate_process }),
        content: if args.zero_buffers { Content::Zeros } else { Content::Random },
        verify: args.verify,
        allow,
        seed: args.seed,
        ..LoadJob::default()
    })
}

/// The share of reads among the operations, from 0 to 1.
fn read_share(args: &Args) -> f64 {
    args.rw.read_share.unwrap_or_else(|| {
        let percent = args.fio.rwmixwrite.map(|writes| 100 - writes).or(args.rwmixread);
        f64::from(percent.unwrap_or(50)) / 100.0
    })
}

/// The order of the offsets: sequential, or the random distribution.
fn access_pattern(args: &Args) -> Result<Pattern, Failure> {
    let distribution_failure = |why: String| Failure::new(ExitCode::Usage, format!("--random-distribution: {why}"));
    let random = Pattern::parse_random(&args.random_distribution).map_err(distribution_failure)?;
    let Args { rw: AccessMode { is_random, .. }, shared_cursor, .. } = *args;
    if is_random && shared_cursor {
        return usage_error("--shared-cursor applies to sequential modes only");
    }
    if is_random {
        return Ok(random);
    }
    if random != Pattern::Uniform {
        return Err(distribution_failure("applies to random modes only".into()));
    }
    Ok(Pattern::Sequential { shared_cursor })
}

/// The limit at which the load ends.
fn bound(args: &Args) -> Bound {
    let seconds = args.runtime.map_or(DEFAULT_RUN_S, |time| time.as_secs_f64());
    match (args.number_ios, args.io_size) {
        (Some(operations), _) => Bound::Operations(operations),
        (_, Some(bytes)) => Bound::Bytes(bytes),
        _ if args.steady => Bound::Steady { at_most_s: seconds },
        _ => Bound::Seconds(seconds),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;
    use fsarena_engine::Arrivals;

    #[derive(Debug, Parser)]
    struct LoadCommand {
        #[command(flatten)]
        args: Args,
    }

    fn parse_job(flags: &str) -> LoadJob {
        let command = LoadCommand::try_parse_from(["load"].into_iter().chain(flags.split_whitespace()));
        make_job(&command.unwrap().args).unwrap()
    }

    #[test]
    fn the_modes_of_sysbench_are_those_of_fio() {
        for (sysbench, fio) in fsarena_core::setting::MODES {
            assert_eq!(parse_job(&format!("--rw {sysbench}")), parse_job(&format!("--rw {fio}")));
        }
    }

    #[test]
    fn options_have_the_meaning_that_they_have_in_fio() {
        let job = parse_job(
            "--rw=randrw --rwmixread=70 --bs=8k --iodepth=32 --numjobs=4 --direct=1 --runtime=20 --ramp_time=2s \
             --rate_iops=5000 --rate_process=linear --random_distribution=zipf:1.2 --fdatasync=8",
        );
        assert_eq!((job.engine, job.depth, job.threads, job.block_bytes), (Engine::IoUring, 32, 4, 8192));
        assert_eq!((job.open.direct, job.read_share, job.pattern), (true, 0.7, Pattern::Zipf { theta: 1.2 }));
        assert_eq!((job.bound, job.warmup), (Bound::Seconds(20.0), Warmup::Seconds(2.0)));
        assert_eq!(job.rate, Some(Rate { per_s: 5000.0, arrivals: Arrivals::Fixed }));
        assert_eq!(job.sync_every, Some(SyncEvery { requests: 8, over_all_threads: false }));
        assert_eq!(job.sync_call, SyncCall::Fdatasync);
    }

    #[test]
    fn a_command_line_of_a_tutorial_has_its_effect() {
        let tutorial = parse_job(
            "--name=test --filename=f --rw=randrw --rwmixwrite=30 --bs=4k --size=1g --buffered=0 --ioengine=io_uring \
             --iodepth=64 --runtime=60 --time_based --group_reporting=1 --thread --norandommap --randrepeat=1 --end_fsync=1 \
             --sync=0 --verify=crc32 --refill_buffers --overwrite=1 --eta=never --output-format=json",
        );
        assert_eq!((tutorial.open.direct, tutorial.read_share, tutorial.sync_end), (true, 0.7, true));
        assert_eq!((tutorial.depth, tutorial.bound, tutorial.verify), (64, Bound::Seconds(60.0), true));
        assert!(!parse_job("--rw write --end_fsync=0").sync_end && parse_job("--rw write --end-fsync").sync_end);
        assert_eq!(parse_job("--rw write --sync=1").open.durability, Durability::Sync);
    }

    #[test]
    fn values_without_their_effect_are_refused_with_the_reason() {
        for (line, excerpt) in [
            ("--name a --name b", "fsarena run job.fio"),
            ("--time_based=0", "--io-size"),
            ("--group_reporting=0", "all threads together"),
            ("--thread=0", "fsarena run job.fio"),
            ("--time_based --number-ios 5", "conflicts with --number-ios"),
            ("--rw write --overwrite=1 --create_on_open=1", "conflicts with --create-on-open"),
        ] {
            let parsed = LoadCommand::try_parse_from(["load"].into_iter().chain(line.split_whitespace())).unwrap();
            let why = make_job(&parsed.args).unwrap_err().to_string();
            assert!(why.contains(excerpt), "{line}: {why}");
        }
        for (line, excerpt) in [
            ("--verify=md5", "crc32"),
            ("--rate=10m", "operations a second"),
            ("--output-format=terse", "`normal` and `json`"),
            ("--eta=always", "`never`"),
        ] {
            let parsed = LoadCommand::try_parse_from(["load"].into_iter().chain(line.split_whitespace()));
            let why = parsed.unwrap_err().to_string();
            assert!(why.contains(excerpt), "{line}: {why}");
        }
    }

    #[test]
    fn the_defaults_are_those_of_the_engine() {
        assert_eq!(parse_job(""), LoadJob::default());
        assert_eq!(parse_job("--ioengine=psync --direct=0"), LoadJob::default());
    }

    #[test]
    fn contradictions_are_usage_errors() {
        for line in [
            "--rw read --rwmixread 70",
            "--rw randread --end-fsync",
            "--rw read --random-distribution zipf:1.2",
            "--random-distribution zipf",
            "--random-distribution zipf:much",
            "--shared-cursor",
        ] {
            let parsed = LoadCommand::try_parse_from(["load"].into_iter().chain(line.split_whitespace())).unwrap();
            assert_eq!(make_job(&parsed.args).unwrap_err().exit_code(), ExitCode::Usage, "{line}");
        }
        for line in ["--rate-process linear", "--runtime 5 --io-size 1g", "--meta stat --rw read", "--files 5"] {
            let parsed = LoadCommand::try_parse_from(["load"].into_iter().chain(line.split_whitespace()));
            assert!(parsed.is_err(), "{line}");
        }
    }
}
