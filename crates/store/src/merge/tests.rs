//! Tests of `merge.rs`.

use super::*;
use crate::testing::{cells, command, plan, run_cell};
use crate::{Writer, for_each_command, read};
use fsarena_core::event::{Event, Note, NoteKind, Outcome};
use fsarena_core::{host::Host, metric::TIMER_READINGS};

/// Writes a shard of a plan of four rounds of two variants, as a host with this name and build would.
fn write_shard(
    root: &Path,
    (number, shard_count): (u32, u32),
    hostname: &str,
    build: &str,
    edit: impl Fn(&mut Plan),
) -> RunDir {
    let mut plan = plan(&["ext4", "xfs"]);
    plan.stop.rounds = 4;
    plan.stop.shard = format!("{number}/{shard_count}").parse().ok();
    edit(&mut plan);
    let run = RunDir::create(root, &plan, "0.1.0").unwrap();
    let facts = [(BUILD_FACT.to_string(), build.to_string())].into();
    let host = Host { hostname: hostname.into(), boot_id: "b".into(), kernel: "6.18".into(), facts };
    let mut writer = Writer::open(&run, &host, TIMER_READINGS).unwrap();
    writer.apply(&Event::Note(Note::new(NoteKind::Remark, "the same everywhere"))).unwrap();
    writer.apply(&Event::Command(command("uname"))).unwrap();
    for round in (0..4).filter(|round| plan.stop.runs_round(*round)) {
        writer.apply(&Event::RoundStarted { round, order: vec!["ext4".into(), "xfs".into()] }).unwrap();
        cells(&plan, round).iter().for_each(|cell| run_cell(&mut writer, cell, Outcome::Done));
        writer.apply(&Event::RoundFinished { round }).unwrap();
    }
    writer.apply(&Event::RunFinished { why: "done".into(), complete: true }).unwrap();
    run
}

/// Writes one of two shards.
fn shard(root: &Path, number: u32, hostname: &str) -> RunDir {
    write_shard(root, (number, 2), hostname, "b1", |_| {})
}

#[test]
fn shards_become_one_run_in_any_number_of_merges() {
    let root = tempfile::tempdir().unwrap();
    let (shard_1, shard_2) = (shard(root.path(), 1, "h1"), shard(root.path(), 2, "h2"));
    let partial = merge(root.path(), std::slice::from_ref(&shard_2)).unwrap();
    assert_eq!((partial.added_cells, partial.complete), (4, false));
    assert_eq!(partial.why, "2 of 4 rounds are merged; shards 1/2 lack rounds");
    assert!(!read(&partial.run).unwrap().status.complete);
    for added in [4, 0] {
        let complete = merge(root.path(), &[shard_2.clone(), shard_1.clone()]).unwrap();
        assert_eq!(
            (complete.added_cells, complete.complete, complete.why.as_str()),
            (added, true, "merged: all 4 rounds, of 2 hosts")
        );
        assert_eq!(complete.run, partial.run);
    }
    let record = read(&partial.run).unwrap();
    assert_eq!(record.plan.stop.shard, None);
    assert_eq!((record.cells.len(), record.samples.len(), record.notes.len()), (8, 16, 1));
    assert_eq!((&record.id, &record.started), (&partial.run.id(), &read(&shard_1).unwrap().started));
    for cell in &record.cells {
        // Rounds 1 and 3, counted from 1, are those of shard 1.
        let host = if cell.round % 2 == 0 { "h1" } else { "h2" };
        assert_eq!(record.hosts[cell.host].hostname, host);
    }
    // Each value encodes the round and the position of its cell.
    for row in 0..16 {
        let cell = &record.cells[record.samples.cell[row] as usize];
        let elapsed = record.samples.values[record.reading_column("elapsed_ns").unwrap()][row];
        assert_eq!(elapsed, f64::from(cell.round * 10 + cell.position));
    }
    let mut logged = 0;
    for_each_command(&partial.run, &mut |_| logged += 1).unwrap();
    assert_eq!((logged, record.command_count), (2, 2));
}

#[test]
fn a_shard_whose_commands_cannot_be_read_is_merged_later_with_its_commands() {
    let root = tempfile::tempdir().unwrap();
    let shard_1 = shard(root.path(), 1, "h1");
    let (log, moved_log) = (shard_1.command_log_file(), root.path().join("log"));
    std::fs::rename(&log, &moved_log).unwrap();
    std::fs::create_dir(&log).unwrap();
    merge(root.path(), std::slice::from_ref(&shard_1)).unwrap_err();
    std::fs::remove_dir(&log).unwrap();
    std::fs::rename(&moved_log, &log).unwrap();
    let merged = merge(root.path(), &[shard_1]).unwrap();
    assert_eq!((merged.added_cells, read(&merged.run).unwrap().command_count), (4, 1));
}

#[test]
fn an_interrupted_shard_adds_its_remaining_cells_later() {
    let root = tempfile::tempdir().unwrap();
    let shard_1 = shard(root.path(), 1, "h1");
    let complete_db = root.path().join("whole.db");
    std::fs::copy(shard_1.database_file(), &complete_db).unwrap();
    let delete_round = "PRAGMA foreign_keys = ON; DELETE FROM cell WHERE round = 2; DELETE FROM round WHERE number = 2";
    Connection::open(shard_1.database_file()).unwrap().execute_batch(delete_round).unwrap();
    assert_eq!(merge(root.path(), std::slice::from_ref(&shard_1)).unwrap().added_cells, 2);
    std::fs::copy(&complete_db, shard_1.database_file()).unwrap();
    let merged = merge(root.path(), &[shard_1]).unwrap();
    assert_eq!((merged.added_cells, read(&merged.run).unwrap().samples.len()), (2, 8));
}

#[test]
fn an_attempt_without_cells_does_not_reopen_a_finished_round() {
    let root = tempfile::tempdir().unwrap();
    let (shard_1, attempt) = (shard(root.path(), 1, "h1"), shard(root.path(), 1, "h2"));
    // The attempt was interrupted in its first cell.
    let interrupt =
        "PRAGMA foreign_keys = ON; DELETE FROM cell; DELETE FROM round WHERE number > 0; UPDATE round SET finished = 0";
    Connection::open(attempt.database_file()).unwrap().execute_batch(interrupt).unwrap();
    let merged = merge(root.path(), &[shard_1, attempt, shard(root.path(), 2, "h2")]).unwrap();
    assert_eq!((merged.complete, merged.why.as_str()), (true, "merged: all 4 rounds, of 2 hosts"));
}

#[test]
fn shards_of_other_plans_builds_or_rounds_are_refused_by_name() {
    let root = tempfile::tempdir().unwrap();
    let shard_1 = shard(root.path(), 1, "h1");
    let assert_refused = |other: RunDir, expected: &str| {
        let error = merge(root.path(), &[shard_1.clone(), other.clone()]).unwrap_err().to_string();
        assert!(error.contains(expected) && error.contains(&other.id()), "{error}");
    };
    let edited_shard = |edit: fn(&mut Plan)| write_shard(root.path(), (2, 2), "h2", "b1", edit);
    assert_refused(edited_shard(|plan| plan.seed = 8), "the plans differ in seed (8, and 7 in the other)");
    assert_refused(
        edited_shard(|plan| plan.stop.rounds = 5),
        "the plans differ in stop.rounds (5, and 4 in the other)",
    );
    assert_refused(
        write_shard(root.path(), (2, 2), "h2", "b2", |_| {}),
        "another build of fsarena measured it (b2, and b1",
    );
    assert_refused(shard(root.path(), 1, "h1"), "another run, on host h1, also measured round 1 of");
    assert_refused(shard(root.path(), 1, "h2"), "round 1 was measured on two hosts, h1 and h2");
    assert_refused(write_shard(root.path(), (1, 1), "h1", "b1", |_| {}), "also measured round 1");
    assert_refused(crate::testing::create_run(root.path(), &plan(&["ext4"])).0, "not a shard");
    let damaged = shard(root.path(), 2, "h2");
    let sql = "PRAGMA foreign_keys = OFF; UPDATE value SET metric = 99 WHERE sample = 1 AND metric = 1";
    Connection::open(damaged.database_file()).unwrap().execute_batch(sql).unwrap();
    assert_refused(damaged, "damaged: table value refers to rows that are missing");
    // Nothing was copied from the refused shards.
    let merged = merge(root.path(), &[shard_1]).unwrap();
    assert_eq!(read(&merged.run).unwrap().cells.len(), 4);
}

#[test]
fn devices_may_have_other_names_on_other_machines() {
    let root = tempfile::tempdir().unwrap();
    let erase = |path: &str| Backing::Erase { path: path.into(), signature: None };
    let shards = [(1, "/dev/disk/by-id/x"), (2, "/dev/disk/by-id/y")].map(|(number, path)| {
        write_shard(root.path(), (number, 2), path, "b1", |plan| plan.device.backing = erase(path))
    });
    assert!(merge(root.path(), &shards).unwrap().complete);
}
