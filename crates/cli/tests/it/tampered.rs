//! Runs whose files were changed: each is refused with a sentence that names the file and what is wrong in it, in little
//! memory, and the other runs beside it can be read.

use crate::bounded::{expect, in_little_memory};
use crate::common::web::Web;
use crate::common::{Place, gate::wait_until, stored};
use fsarena_store::RunDir;
use rusqlite::Connection;

/// Changes of a stored plan: what is replaced, by what, and the key that the refusal names.
const PLANS: &[(&str, &str, &str)] = &[
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
const DATABASES: &[(&str, &str)] = &[
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

/// A stored run with a change in its plan.
fn planned(place: &Place, from: &str, to: &str) -> RunDir {
    let run = stored::run(&place.runs());
    let plan = std::fs::read_to_string(run.plan_file()).unwrap();
    assert!(plan.contains(from), "{from}: {plan}");
    std::fs::write(run.plan_file(), plan.replace(from, to)).unwrap();
    run
}

/// A stored run with a change in its database.
fn changed(place: &Place, sql: &str) -> RunDir {
    let run = stored::run(&place.runs());
    let db = Connection::open(run.database_file()).unwrap();
    db.execute_batch(&format!("PRAGMA foreign_keys = OFF; PRAGMA ignore_check_constraints = ON; {sql}")).unwrap();
    run
}

#[test]
fn a_number_of_a_stored_plan_is_checked_like_one_that_is_typed() {
    let place = Place::new();
    for (from, to, key) in PLANS {
        let id = planned(&place, from, to).id();
        for args in [&["report", &id][..], &["run", "--resume", &id], &["compare", &id, &id]] {
            expect(&place, 2, args, &[&id, "plan.toml", key]);
        }
    }
}

#[test]
fn a_plan_file_with_such_a_number_is_refused_at_its_place() {
    let place = Place::new();
    let plan = std::fs::read_to_string(place.dir.join("plan.toml")).unwrap();
    for (from, to) in [
        ("rounds = 1", "rounds = 0"),
        ("rounds = 1", "rounds = 4294967295"),
        ("rounds = 1", "rounds = 1\nwarmup = 4294967295"),
        ("rounds = 1", "rounds = 1\nbudget = \"9000000000000years\""),
        ("timeout = \"50ms\"", "timeout = \"1000000years\""),
        ("dirty = \"1GiB\"", "dirty = \"-1\""),
        ("[stop]", "[device]\nsize = \"0\"\n[stop]"),
    ] {
        std::fs::write(place.dir.join("bad.toml"), plan.replace(from, to)).unwrap();
        expect(&place, 2, &["run", "bad.toml", "--on", "dir:home", "--dry-run"], &["bad.toml, line "]);
    }
    let run = ["run", "plan.toml", "--on", "dir:home", "--dry-run"];
    for flag in [
        ["--rounds", "4294967295"],
        ["--warmup", "4294967295"],
        ["--budget", "1e18"],
        ["--margin", "10001%"],
        ["--guest-timeout", "1e18"],
    ] {
        expect(&place, 2, &[&run[..], &flag].concat(), &[flag[0]]);
    }
}

#[test]
fn a_setting_of_a_stored_plan_is_checked_before_the_run_goes_on() {
    let place = Place::new();
    place.expect(0, &["run", "--on", "dir:home", "--rounds", "1", "--", "true"]);
    let run = RunDir::find(&place.runs(), "latest").unwrap();
    let db = Connection::open(run.database_file()).unwrap();
    db.execute_batch("UPDATE run SET complete = 0").unwrap();
    drop(db);
    let plan = std::fs::read_to_string(run.plan_file()).unwrap();
    let set = |key: &str, value: &str| {
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
        set(key, value);
        expect(&place, 2, &["run", "--resume", "latest"], &["plan.toml", key]);
    }
    std::fs::write(run.plan_file(), plan).unwrap();
    place.expect(0, &["run", "--resume", "latest"]);
}

#[test]
fn numbers_of_a_stored_database_are_bounded() {
    let place = Place::new();
    for (sql, words) in DATABASES {
        let id = changed(&place, sql).id();
        expect(&place, 2, &["report", &id], &[&id, "run.db", words]);
    }
}

#[test]
fn a_history_passes_over_damaged_runs_and_names_them() {
    let place = Place::new();
    let good = [(); 2].map(|()| stored::run(&place.runs()).id());
    let bad = [
        planned(&place, "rounds = 8", "rounds = 8\nwarmup = 4294967295").id(),
        changed(&place, "UPDATE cell SET round = -1").id(),
        changed(&place, "DROP TABLE value").id(),
    ];
    let words: Vec<&str> = bad.iter().map(String::as_str).chain(["plan.toml", "warmup"]).collect();
    let printed = expect(&place, 0, &["history", "--format", "json"], &words);
    assert!(good.iter().all(|id| printed.contains(id)) && !bad.iter().any(|id| printed.contains(id)), "{printed}");
}

#[test]
fn the_server_lists_damaged_runs_with_the_good_ones() {
    let place = Place::new();
    let good = stored::run(&place.runs()).id();
    let mut bad: Vec<String> = PLANS.iter().map(|(from, to, _)| planned(&place, from, to).id()).collect();
    bad.extend(DATABASES.iter().map(|(sql, _)| changed(&place, sql).id()));
    let large = stored::run(&place.runs());
    std::fs::write(large.plan_file(), "[[workload]]\nuse=\"\"\n".repeat(300_000)).unwrap();
    let deep = stored::run(&place.runs());
    std::fs::write(deep.plan_file(), "a=".to_string() + &"[".repeat(1 << 20)).unwrap();
    bad.extend([large.id(), deep.id()]);
    let mut serve = place.fsarena(&["serve"]);
    in_little_memory(&mut serve);
    let web = Web::of(serve);
    let rows = || serde_json::from_str::<serde_json::Value>(&web.page("/runs.json")).unwrap()["runs"].clone();
    let of = |rows: &serde_json::Value, id: &str| {
        rows.as_array()
            .unwrap()
            .iter()
            .find(|row| row["run"] == id)
            .unwrap_or_else(|| panic!("{id} is not listed"))
            .clone()
    };
    wait_until("the good run has its answer", || of(&rows(), &good)["answer"].is_string());
    // Answers are worked out one after the other; every run has one or a problem.
    wait_until("all have an answer", || {
        rows().as_array().unwrap().iter().all(|row| row["answer"].is_string() || row["problem"].is_string())
    });
    let listed = rows();
    for ((_, to, key), id) in PLANS.iter().zip(&bad) {
        let problem = of(&listed, id)["problem"].to_string();
        assert!(problem.contains("plan.toml") && problem.contains(key), "{to}: {problem}");
    }
    for id in &bad {
        let page = web.get(&format!("/runs/{id}"));
        assert_eq!(page.status, 422, "{id}: {}", page.body);
    }
    assert_eq!(web.get(&format!("/runs/{good}")).status, 200);
    assert!(web.page("/").contains(&good));
}
