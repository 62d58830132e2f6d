//! Tests of `writer.rs`.

mod power;

use super::*;
use crate::read;
use crate::testing::{cells, command, create_run, host, plan, run_cell, run_unfinished_cell, sample};
use fsarena_core::event::{Activity, Cause, Note, NoteKind, Phase, VariantDeparture};
use fsarena_core::{metric::TIMER_READINGS, state::RunState};

fn cell_event(id: &CellId, event: CellEvent) -> Event {
    Event::Cell { cell: id.clone(), event }
}

/// Copies a run in the state in which a crash at this moment would leave it.
fn copy_as_crashed(run: &RunDir, root: &std::path::Path) -> RunDir {
    let path = root.join("20260101-000000-crashed-2222");
    std::fs::create_dir(&path).unwrap();
    for entry in std::fs::read_dir(run.path()).unwrap() {
        let entry = entry.unwrap();
        std::fs::copy(entry.path(), path.join(entry.file_name())).unwrap();
    }
    RunDir::open(&path).unwrap()
}

#[test]
fn every_event_can_be_read_back() {
    let root = tempfile::tempdir().unwrap();
    let plan = plan(&["ext4", "xfs"]);
    let (run, mut writer) = create_run(root.path(), &plan);
    let cell = cells(&plan, 0).remove(0);
    let id = cell.id();
    let variants = vec!["ext4".to_string(), "xfs".to_string()];
    let note = Note::new(NoteKind::IdleTimeout, "slow").variant(&cell.variant.name).task("untar").fix("wait");
    let events = [
        Event::RunStarted { rounds: 8, variants: variants.clone(), tasks_per_cell: 1, already_done: 0, budget_s: None },
        Event::Note(Note::new(NoteKind::Fairness, "unfair")),
        Event::Command(command("losetup")),
        Event::RoundStarted { round: 0, order: variants },
        Event::Note(Note::new(NoteKind::Remark, "in the round")),
        Event::CellStarted { cell: cell.clone() },
        cell_event(&id, CellEvent::Phase { name: Phase::Task("mkfs".into()) }),
        cell_event(&id, CellEvent::Command(CommandRecord { times: 3, ..command("touch") })),
        cell_event(&id, CellEvent::Sample(sample("untar", 1.5e9))),
        cell_event(&id, CellEvent::Note(note.clone())),
        cell_event(&id, CellEvent::Spent { activity: Activity::Timed, ns: 5 }),
        cell_event(&id, CellEvent::Spent { activity: Activity::Idle, ns: 7 }),
        cell_event(&id, CellEvent::Spent { activity: Activity::Timed, ns: 6 }),
        Event::CellFinished { cell: id.clone(), outcome: Outcome::Done },
        Event::RoundFinished { round: 0 },
        Event::RunFinished { why: "all rounds done".into(), complete: true },
    ];
    for event in &events {
        writer.apply(event).unwrap();
    }
    drop(writer);

    let record = read(&run).unwrap();
    assert_eq!((record.id, record.version, record.plan), (run.id(), "0.1.0".into(), plan));
    assert_eq!((record.status.complete, record.status.why.as_str()), (true, "all rounds done"));
    assert!(record.started.ends_with('Z') && record.ended >= record.started);
    assert_eq!(record.command_count, 4);
    assert_eq!(record.hosts, [host("b1")]);
    assert_eq!(record.variants.iter().map(|variant| variant.name.as_str()).collect::<Vec<_>>(), ["ext4", "xfs"]);
    assert_eq!(record.tasks, [sample("untar", 0.0).task]);
    let stored_cell = &record.cells[0];
    assert_eq!((&stored_cell.id, stored_cell.round, stored_cell.position), (&id.0, 0, 0));
    assert_eq!(record.variants[stored_cell.variant], cell.variant);
    assert_eq!((stored_cell.workload.as_str(), &stored_cell.outcome, stored_cell.host), ("tasks", &Outcome::Done, 0));
    assert!(stored_cell.started_at > 1.7e9);
    assert_eq!(stored_cell.spent[0].0, Activity::Total);
    assert_eq!(stored_cell.spent[1..], [(Activity::Timed, 11), (Activity::Idle, 7)]);
    assert_eq!((record.samples.cell, record.samples.task, record.samples.started_at), (vec![0], vec![0], vec![1e9]));
    let ids: Vec<_> = record.readings.iter().map(|reading| reading.id.as_str()).collect();
    assert_eq!(ids, TIMER_READINGS.iter().map(|def| def.id).collect::<Vec<_>>());
    assert_eq!(record.readings[0].help, TIMER_READINGS[0].help);
    assert_eq!(record.samples.values[0], [1.5e9]);
    assert!(record.samples.values[1][0].is_nan(), "a reading that was not taken is NaN");
    let expected = [
        (None, Note::new(NoteKind::Fairness, "unfair")),
        (Some(0), Note::new(NoteKind::Remark, "in the round")),
        (Some(0), note),
    ];
    assert_eq!(record.notes, expected);
    assert!(!run.path().join("run.db-wal").exists(), "a run that ended is one plain file");
}

#[test]
fn a_crash_loses_only_the_running_cell() {
    let root = tempfile::tempdir().unwrap();
    let plan = plan(&["ext4", "xfs"]);
    let (run, mut writer) = create_run(root.path(), &plan);
    let [first, second] = [0, 1].map(|i| cells(&plan, 0)[i].clone());
    run_cell(&mut writer, &first, Outcome::Done);
    run_unfinished_cell(&mut writer, &second);
    writer.apply(&cell_event(&second.id(), CellEvent::Command(command("cp")))).unwrap();
    let crashed = copy_as_crashed(&run, root.path());
    let record = read(&crashed).unwrap();
    assert_eq!((record.cells.len(), record.samples.len()), (1, 2));
    assert_eq!(record.status.why, "interrupted");
    let state = RunState::new(record);
    assert!(state.has_measured(&first.id()) && !state.has_measured(&second.id()));
    let log = std::fs::read_to_string(crashed.command_log_file()).unwrap();
    assert!(log.contains("\"cp\""), "commands are logged at once: {log}");

    let mut resumed = Writer::open(&crashed, &host("b2"), TIMER_READINGS).unwrap();
    run_cell(&mut resumed, &second, Outcome::Done);
    drop(resumed);
    let record = read(&crashed).unwrap();
    assert_eq!((record.cells.len(), record.samples.len()), (2, 4));
    assert_eq!(record.cells.iter().map(|cell| cell.host).collect::<Vec<_>>(), [0, 1]);
    assert_eq!(record.hosts[1].boot_id, "b2");
}

#[test]
fn interrupted_cells_are_dropped_and_failed_ones_keep_their_samples() {
    let root = tempfile::tempdir().unwrap();
    let plan = plan(&["ext4", "xfs"]);
    let (run, mut writer) = create_run(root.path(), &plan);
    let [first, second] = [0, 1].map(|i| cells(&plan, 0)[i].clone());
    run_cell(&mut writer, &first, Outcome::Interrupted);
    run_cell(&mut writer, &second, Outcome::Failed { why: "cp failed".into(), cause: Default::default() });
    let record = read(&run).unwrap();
    assert_eq!(record.status.why, "running");
    assert_eq!((record.cells.len(), record.samples.len()), (1, 2));
    assert_eq!(record.cells[0].outcome, Outcome::Failed { why: "cp failed".into(), cause: Default::default() });
    let state = RunState::new(record);
    assert!(!state.has_measured(&first.id()) && !state.has_measured(&second.id()));
    let departures: Vec<_> = state.departures().into_iter().collect();
    let departure = VariantDeparture { round: 0, why: "cp failed".into(), cause: Cause::default() };
    assert_eq!(departures, [(second.variant.name.clone(), departure)]);
    writer.apply(&Event::Note(Note::new(NoteKind::VariantFailed, "gone").variant(&first.variant.name))).unwrap();
    assert_eq!(RunState::new(read(&run).unwrap()).departures().len(), 2);
}

#[test]
fn a_rerun_cell_replaces_its_first_attempt() {
    let root = tempfile::tempdir().unwrap();
    let plan = plan(&["ext4"]);
    let (run, mut writer) = create_run(root.path(), &plan);
    let cell = cells(&plan, 0).remove(0);
    run_cell(&mut writer, &cell, Outcome::Failed { why: "full".into(), cause: Default::default() });
    run_cell(&mut writer, &cell, Outcome::Done);
    let record = read(&run).unwrap();
    assert_eq!((record.cells.len(), record.samples.len()), (1, 2));
    assert_eq!(record.cells[0].outcome, Outcome::Done);
}

#[test]
fn a_resumed_run_stores_repeated_notes_once() {
    let root = tempfile::tempdir().unwrap();
    let (run, mut writer) = create_run(root.path(), &plan(&["ext4"]));
    for _ in 0..2 {
        writer.apply(&Event::Note(Note::new(NoteKind::Fairness, "unfair"))).unwrap();
        drop(writer);
        writer = Writer::open(&run, &host("b1"), TIMER_READINGS).unwrap();
    }
    let record = read(&run).unwrap();
    assert_eq!((record.notes.len(), record.hosts.len(), record.readings.len()), (1, 1, TIMER_READINGS.len()));
}

#[test]
fn a_resumed_run_is_not_complete_any_more() {
    let root = tempfile::tempdir().unwrap();
    let (run, mut writer) = create_run(root.path(), &plan(&["ext4"]));
    writer.apply(&Event::RunFinished { why: "time is up".into(), complete: false }).unwrap();
    let started = Event::RunStarted { rounds: 1, variants: vec![], tasks_per_cell: 0, already_done: 0, budget_s: None };
    writer.apply(&started).unwrap();
    drop(writer);
    assert_eq!(read(&run).unwrap().status.why, "interrupted");
}

#[test]
fn a_complete_run_has_finished_every_round_that_it_began() {
    let root = tempfile::tempdir().unwrap();
    let plan = plan(&["ext4"]);
    let (run, mut writer) = create_run(root.path(), &plan);
    writer.apply(&Event::RoundStarted { round: 0, order: vec!["ext4".into()] }).unwrap();
    run_cell(&mut writer, &cells(&plan, 0)[0], Outcome::Done);
    // The process dies before the event of the end of the round. The resumed run has nothing left to do.
    drop(writer);
    let mut writer = Writer::open(&run, &host("b1"), TIMER_READINGS).unwrap();
    let finished_rounds = |writer: &Writer| -> i64 {
        writer.db.query_row("SELECT count(*) FROM round WHERE finished = 1", [], |row| row.get(0)).unwrap()
    };
    writer.apply(&Event::RunFinished { why: "a signal ended it".into(), complete: false }).unwrap();
    assert_eq!(finished_rounds(&writer), 0);
    writer.apply(&Event::RunFinished { why: "all rounds are done".into(), complete: true }).unwrap();
    assert_eq!(finished_rounds(&writer), 1);
}

#[test]
fn a_second_writer_is_refused() {
    let root = tempfile::tempdir().unwrap();
    let (run, writer) = create_run(root.path(), &plan(&["ext4"]));
    assert!(matches!(Writer::open(&run, &host("b1"), TIMER_READINGS), Err(Error::Busy { .. })));
    drop(writer);
    Writer::open(&run, &host("b1"), TIMER_READINGS).unwrap();
}

#[test]
fn events_of_unstarted_cells_and_undefined_readings_are_refused() {
    let root = tempfile::tempdir().unwrap();
    let plan = plan(&["ext4"]);
    let (run, mut writer) = create_run(root.path(), &plan);
    let cell = cells(&plan, 0).remove(0);
    let id = cell.id();
    assert!(writer.apply(&cell_event(&id, CellEvent::Sample(sample("untar", 1.0)))).is_err());
    assert!(writer.apply(&Event::CellFinished { cell: id.clone(), outcome: Outcome::Done }).is_err());
    writer.apply(&Event::CellStarted { cell }).unwrap();
    let mut undefined = sample("untar", 1.0);
    undefined.readings.set("moonlight", 1.0);
    let error = writer.apply(&cell_event(&id, CellEvent::Sample(undefined))).unwrap_err();
    assert!(error.to_string().contains("reports moonlight, which is not a defined reading"), "{error}");
    drop(writer);
    let other_definition = ReadingDef { unit: fsarena_core::sample::Unit::Bytes, ..TIMER_READINGS[0] };
    let error = Writer::open(&run, &host("b1"), &[other_definition]).err().unwrap();
    assert!(error.to_string().contains("elapsed_ns"), "{error}");
}
