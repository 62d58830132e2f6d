//! Runs whose files were changed: each is refused, in little memory, with a message that names the file and the invalid
//! value, and other runs can be read.

use crate::bounded::{expect_bounded, limit_memory};
use crate::common::web::WebServer;
use crate::common::{Sandbox, gate::wait_until, stored};
use fsarena_store::RunDir;
use rusqlite::Connection;

/// Changes of a stored plan: the old text, the new text, and the key that the refusal names.
const PLAN_CHANGES: &[(&str, &str, &str)] = &[
    ("rounds = 8", "rounds = 0", "rounds"),
    ("rounds = 8", "rounds = 4294967295", "rounds"),
    ("rounds = 8", "rounds = 8\nwarmup = 4294967295", "warmup"),
    ("rounds = 8", "rounds = 8\nmargin = nan", "margin"),
    ("rounds = 8", "rounds = 8\nmargin = 101.0", "margin"),
    ("rounds = 8", "rounds = 8\nbest_within = -0.1", "best_within"),
    ("rounds = 8", "rounds = 8\nbest_by = \"median\"", "best_by"),
    ("rounds = 8", "rounds = 8\nbudget_s = -1.0", "budget_s"),
    ("rounds = 8", "rounds = 8\nbudget_s = 1e30", "budget_s"),
    ("rounds = 8", "rounds = 8\nshard = \"3/0\"", "shard"),
    ("timeout_s = 5.0", "timeout_s = -1.0", "timeout_s"),
    ("timeout_s = 5.0", "timeout_s = nan", "timeout_s"),
    ("timeout_s = 5.0", "timeout_s = 1e30", "timeout_s"),
    ("io_pressure_percent = 10.0", "io_pressure_percent = -3.0", "io_pressure_percent"),
    ("kind = \"loop\"", "kind = \"guest\"\nemulator = \"qemu\"\nmemory = \"1 GiB\"\npatience_s = 1e30", "patience_s"),
    ("kind = \"loop\"", "kind = \"guest\"\nemulator = \"qemu\"\nmemory = \"0 B\"\npatience_s = 1.0", "memory"),
    ("direct_io = true", "direct_io = true\nsize = \"0 B\"", "size"),
];

/// Changes of a database, and words of the refusal.
const DATABASE_CHANGES: &[(&str, &str)] = &[
    ("UPDATE cell SET round = 4294967295 WHERE id = 1", "table cell"),
    ("UPDATE cell SET position = -1", "table cell"),
    ("UPDATE cell SET started_at = 9e999", "table cell"),
    ("UPDATE note SET round = 4294967295", "table note"),
    (
        "WITH RECURSIVE n(i) AS (SELECT 100 UNION ALL SELECT i + 1 FROM n WHERE i < 4000)
         INSERT INTO variant(name, levels) SELECT 'v' || i, '{}' FROM n;
         WITH RECURSIVE n(i) AS (SELECT 100 UNION ALL SELECT i + 1 FROM n WHERE i < 4000)
         INSERT INTO task(name, params, title, in_totals) SELECT 't' || i, '{}', 't', 1 FROM n;
         WITH RECURSIVE n(i) AS (SELECT 100 UNION ALL SELECT i + 1 FROM n WHERE i < 4000)
         INSERT INTO cell(hash, round, position, variant, workload, outcome, host, started_at, spent)
         SELECT 'h' || i, i, 0, 1, 'coreutils', '{\"outcome\":\"done\"}', 1, 0.0, '[]' FROM n",
        "absurd",
    ),
    ("UPDATE run SET why = printf('%.*c', 100000000, 'x')", "too big"),
];

/// Stores a run, and replaces a text in its plan.
fn store_with_changed_plan(sandbox: &Sandbox, old: &str, new: &str) -> RunDir {
    let run = stored::store_run(&sandbox.runs_dir());
    let plan = std::fs::read_to_string(run.plan_file()).unwrap();
    assert!(plan.contains(old), "{old}: {plan}");
    std::fs::write(run.plan_file(), plan.replace(old, new)).unwrap();
    run
}

/// Stores a run, and changes its database.
fn store_with_changed_database(sandbox: &Sandbox, sql: &str) -> RunDir {
    let run = stored::store_run(&sandbox.runs_dir());
    let db = Connection::open(run.database_file()).unwrap();
    db.execute_batch(&format!("PRAGMA foreign_keys = OFF; PRAGMA ignore_check_constraints = ON; {sql}")).unwrap();
    run
}

#[test]
fn invalid_numbers_of_a_stored_plan_are_refused() {
    let sandbox = Sandbox::new();
    for (old, new, key) in PLAN_CHANGES {
        let id = store_with_changed_plan(&sandbox, old, new).id();
        for args in [&["report", &id][..], &["run", "--resume", &id], &["compare", &id, &id]] {
            expect_bounded(&sandbox, 2, args, &[&id, "plan.toml", key]);
        }
    }
}

#[test]
fn invalid_numbers_of_a_plan_file_are_refused_with_their_line() {
    let sandbox = Sandbox::new();
    let plan = std::fs::read_to_string(sandbox.dir.join("plan.toml")).unwrap();
    for (old, new) in [
        ("rounds = 1", "rounds = 0"),
        ("rounds = 1", "rounds = 4294967295"),
        ("rounds = 1", "rounds = 1\nwarmup = 4294967295"),
        ("rounds = 1", "rounds = 1\nbudget = \"9000000000000years\""),
        ("timeout = \"50ms\"", "timeout = \"1000000years\""),
        ("dirty = \"1GiB\"", "dirty = \"-1\""),
        ("[stop]", "[device]\nsize = \"0\"\n[stop]"),
    ] {
        std::fs::write(sandbox.dir.join("bad.toml"), plan.replace(old, new)).unwrap();
        expect_bounded(&sandbox, 2, &["run", "bad.toml", "--on", "dir:home", "--dry-run"], &["bad.toml, line "]);
    }
    let run = ["run", "plan.toml", "--on", "dir:home", "--dry-run"];
    for flag in [
        ["--rounds", "4294967295"],
        ["--warmup", "4294967295"],
        ["--budget", "1e18"],
        ["--margin", "10001%"],
        ["--guest-timeout", "1e18"],
    ] {
        expect_bounded(&sandbox, 2, &[&run[..], &flag].concat(), &[flag[0]]);
    }
}

#[test]
fn invalid_settings_of_a_stored_plan_are_refused_before_a_resumption() {
    let sandbox = Sandbox::new();
    sandbox.expect(0, &["run", "--on", "dir:home", "--rounds", "1", "--", "true"]);
    let run = RunDir::find(&sandbox.runs_dir(), "latest").unwrap();
    let db = Connection::open(run.database_file()).unwrap();
    db.execute_batch("UPDATE run SET complete = 0").unwrap();
    drop(db);
    let plan = std::fs::read_to_string(run.plan_file()).unwrap();
    let write_plan_with = |key: &str, value: &str| {
        let line = |line: &str| match line.split_once(" = ") {
            Some((name, _)) if name == key => format!("{key} = {value}"),
            _ => line.to_string(),
        };
        let changed = plan.lines().map(line).collect::<Vec<_>>().join("\n");
        assert_ne!(changed, plan.trim_end(), "{key}");
        std::fs::write(run.plan_file(), changed).unwrap();
    };
    for (key, value) in [
        ("timeout", "-1.0"),
        ("timeout", "nan"),
        ("timeout", "1e30"),
        ("room", "18446744073709551615"),
        ("room", "-1"),
        ("setup", "7"),
        ("needs", "[7]"),
    ] {
        write_plan_with(key, value);
        expect_bounded(&sandbox, 2, &["run", "--resume", "latest"], &["plan.toml", key]);
    }
    std::fs::write(run.plan_file(), plan).unwrap();
    sandbox.expect(0, &["run", "--resume", "latest"]);
}

#[test]
fn invalid_numbers_of_a_stored_database_are_refused() {
    let sandbox = Sandbox::new();
    for (sql, words) in DATABASE_CHANGES {
        let id = store_with_changed_database(&sandbox, sql).id();
        expect_bounded(&sandbox, 2, &["report", &id], &[&id, "run.db", words]);
    }
}

#[test]
fn a_history_skips_damaged_runs_and_names_them() {
    let sandbox = Sandbox::new();
    let good = [(); 2].map(|()| stored::store_run(&sandbox.runs_dir()).id());
    let bad = [
        store_with_changed_plan(&sandbox, "rounds = 8", "rounds = 8\nwarmup = 4294967295").id(),
        store_with_changed_database(&sandbox, "UPDATE cell SET round = -1").id(),
        store_with_changed_database(&sandbox, "DROP TABLE value").id(),
    ];
    let words: Vec<&str> = bad.iter().map(String::as_str).chain(["plan.toml", "warmup"]).collect();
    let printed = expect_bounded(&sandbox, 0, &["history", "--format", "json"], &words);
    assert!(good.iter().all(|id| printed.contains(id)) && !bad.iter().any(|id| printed.contains(id)), "{printed}");
}

#[test]
fn the_server_lists_damaged_runs_with_the_good_ones() {
    let sandbox = Sandbox::new();
    let good = stored::store_run(&sandbox.runs_dir()).id();
    let mut bad: Vec<String> =
        PLAN_CHANGES.iter().map(|(old, new, _)| store_with_changed_plan(&sandbox, old, new).id()).collect();
    bad.extend(DATABASE_CHANGES.iter().map(|(sql, _)| store_with_changed_database(&sandbox, sql).id()));
    let large = stored::store_run(&sandbox.runs_dir());
    std::fs::write(large.plan_file(), "[[workload]]\nuse=\"\"\n".repeat(300_000)).unwrap();
    let deep = stored::store_run(&sandbox.runs_dir());
    std::fs::write(deep.plan_file(), "a=".to_string() + &"[".repeat(1 << 20)).unwrap();
    bad.extend([large.id(), deep.id()]);
    let mut serve = sandbox.fsarena(&["serve"]);
    limit_memory(&mut serve);
    let web = WebServer::spawn(serve);
    let rows = || serde_json::from_str::<serde_json::Value>(&web.get_page("/runs.json")).unwrap()["runs"].clone();
    let row_of = |rows: &serde_json::Value, id: &str| {
        rows.as_array()
            .unwrap()
            .iter()
            .find(|row| row["run"] == id)
            .unwrap_or_else(|| panic!("{id} is not listed"))
            .clone()
    };
    wait_until("the good run has its answer", || row_of(&rows(), &good)["answer"].is_string());
    // The server computes the answers one after the other.
    wait_until("all have an answer", || {
        rows().as_array().unwrap().iter().all(|row| row["answer"].is_string() || row["problem"].is_string())
    });
    let listed = rows();
    for ((_, new, key), id) in PLAN_CHANGES.iter().zip(&bad) {
        let problem = row_of(&listed, id)["problem"].to_string();
        assert!(problem.contains("plan.toml") && problem.contains(key), "{new}: {problem}");
    }
    for id in &bad {
        let page = web.get(&format!("/runs/{id}"));
        assert_eq!(page.status, 422, "{id}: {}", page.body);
    }
    assert_eq!(web.get(&format!("/runs/{good}")).status, 200);
    assert!(web.get_page("/").contains(&good));
}
