//! The SQL views of `run.db`, for programs that read it directly, such as DuckDB, pandas and R.
//!
//! `samples_tidy` has a row for each stored value. `comparisons` has a row for each pair of values of two variants in the same
//! round. fsarena itself never reads the views: a run may come from another machine, and its views may be anything. They do
//! not change the tables, so they take no new store version.
//!
//! DuckDB parses the text of a view by its own grammar, so the views use only what SQLite and DuckDB have in common.

use crate::insert::serde_name;
use fsarena_core::{factor, matrix, plan::Plan, sample::Unit};
use std::collections::BTreeSet;

/// The statements that add the views to a run of this plan. They keep views that the run already has.
///
/// The database stores neither the number of warm-up rounds nor which factors vary, so the text of the views contains both.
pub fn views_sql(plan: &Plan) -> String {
    let warmup_rounds = plan.stop.warmup;
    // The table `metric` stores the name that serde gives a unit (`serde_name`); the views have its suffix
    // (`ns`) instead.
    let units: String = Unit::suffixes()
        .filter_map(Unit::from_suffix)
        .map(|unit| format!(" WHEN {} THEN {}", quote(&serde_name(&unit), '\''), quote(unit.suffix(), '\'')))
        .collect();
    let factors: String = varying_factors(plan).iter().map(|id| format!("\n    {},", level_column(id))).collect();
    format!(
        "CREATE VIEW IF NOT EXISTS samples_tidy AS SELECT
    (SELECT id FROM run) AS \"run\", c.round AS \"round\", c.position AS \"position\", va.name AS \"variant\",{factors}
    CASE WHEN c.round < {warmup_rounds} THEN 1 ELSE 0 END AS \"warmup\",
    CASE WHEN c.round IN (SELECT n.round FROM note AS n WHERE n.kind = 'dropped' AND n.round IS NOT NULL)
        THEN 1 ELSE 0 END AS \"dropped\",
    h.hostname AS \"host\", h.boot_id AS \"boot\", c.workload AS \"workload\", t.name AS \"task\",
    t.params AS \"task_params\", s.id AS \"sample\", s.started_at AS \"started_at_s\", m.name AS \"metric\",
    CASE m.unit{units} ELSE m.unit END AS \"unit\", m.direction AS \"direction\", v.value AS \"value\"
FROM value AS v JOIN sample AS s ON s.id = v.sample JOIN cell AS c ON c.id = s.cell JOIN variant AS va ON va.id = c.variant
    JOIN host AS h ON h.id = c.host JOIN task AS t ON t.id = s.task JOIN metric AS m ON m.id = v.metric;
CREATE VIEW IF NOT EXISTS comparisons AS WITH means AS (
    SELECT \"run\", \"round\", \"variant\", \"task\", \"task_params\", \"metric\", \"unit\", \"direction\", avg(\"value\") AS \"value\"
    FROM samples_tidy WHERE \"warmup\" = 0 AND \"dropped\" = 0
    GROUP BY \"run\", \"round\", \"variant\", \"task\", \"task_params\", \"metric\", \"unit\", \"direction\")
SELECT b.\"run\" AS \"run\", b.\"round\" AS \"round\", b.\"task\" AS \"task\", b.\"task_params\" AS \"task_params\",
    b.\"metric\" AS \"metric\", b.\"unit\" AS \"unit\", b.\"direction\" AS \"direction\", a.\"variant\" AS \"baseline\",
    b.\"variant\" AS \"variant\", a.\"value\" AS \"baseline_value\", b.\"value\" AS \"value\",
    CASE WHEN a.\"value\" > 0 THEN b.\"value\" / a.\"value\" END AS \"ratio\"
FROM means AS a JOIN means AS b ON b.\"round\" = a.\"round\" AND b.\"task\" = a.\"task\"
    AND b.\"task_params\" = a.\"task_params\" AND b.\"metric\" = a.\"metric\" AND b.\"variant\" <> a.\"variant\";
"
    )
}

/// The factors whose level differs between the variants of a plan, in the order of reports.
fn varying_factors(plan: &Plan) -> Vec<String> {
    let variants = matrix::expand(plan);
    let ids: BTreeSet<&str> = variants.iter().flat_map(|variant| variant.levels.keys().map(String::as_str)).collect();
    let varies = |id: &&str| variants.windows(2).any(|pair| pair[0].level(id) != pair[1].level(id));
    let varying = ids.into_iter().filter(varies).map(String::from).collect();
    factor::sorted_for_names(varying, |id| id)
}

/// The column with the level of a factor, which is the factor's default for a variant that does not set it.
fn level_column(id: &str) -> String {
    let path = quote(&format!("$.{}", quote(id, '"')), '\'');
    let default = quote(factor::default_level(id), '\'');
    format!("coalesce(va.levels ->> {path}, {default}) AS {}", quote(id, '"'))
}

/// Puts a text between quotation marks, as SQL requires.
fn quote(text: &str, mark: char) -> String {
    format!("{mark}{}{mark}", text.replace(mark, &format!("{mark}{mark}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{cells, create_run, plan, run_cell};
    use fsarena_core::event::{Event, Note, NoteKind, Outcome};
    use rusqlite::Connection;

    /// A run of two variants and three rounds, of which the first is a warm-up and the last was dropped.
    fn write_run(root: &std::path::Path) -> Connection {
        let mut plan = plan(&["ext4", "xfs"]);
        plan.stop.warmup = 1;
        let (run, mut writer) = create_run(root, &plan);
        for round in 0..3 {
            writer.apply(&Event::RoundStarted { round, order: vec![] }).unwrap();
            cells(&plan, round).iter().for_each(|cell| run_cell(&mut writer, cell, Outcome::Done));
            if round == 2 {
                writer.apply(&Event::Note(Note::new(NoteKind::Dropped, "throttled"))).unwrap();
            }
        }
        Connection::open(run.database_file()).unwrap()
    }

    fn read_first_column(db: &Connection, sql: &str) -> Vec<String> {
        let mut statement = db.prepare(sql).unwrap();
        let rows = statement.query_map([], |row| row.get(0)).unwrap();
        rows.collect::<rusqlite::Result<_>>().unwrap()
    }

    #[test]
    fn each_value_is_a_row_with_its_round_factor_task_and_unit() {
        let root = tempfile::tempdir().unwrap();
        let db = write_run(root.path());
        let count = "SELECT count(*) || '' FROM ";
        assert_eq!(
            read_first_column(&db, &format!("{count} samples_tidy")),
            read_first_column(&db, &format!("{count} value"))
        );
        let sql = "SELECT DISTINCT round || ' ' || warmup || ' ' || dropped FROM samples_tidy ORDER BY 1";
        assert_eq!(read_first_column(&db, sql), ["0 1 0", "1 0 0", "2 0 1"]);
        let sql = "SELECT DISTINCT variant || ' ' || fs || ' ' || metric || ' ' || unit FROM samples_tidy
                   WHERE metric = 'elapsed_ns' ORDER BY 1";
        assert_eq!(read_first_column(&db, sql), ["ext4 ext4 elapsed_ns ns", "xfs xfs elapsed_ns ns"]);
    }

    #[test]
    fn a_comparison_is_within_one_round_that_counts() {
        let root = tempfile::tempdir().unwrap();
        let db = write_run(root.path());
        let sql = "SELECT DISTINCT round || ' ' || baseline || ' ' || variant FROM comparisons ORDER BY 1";
        assert_eq!(read_first_column(&db, sql), ["1 ext4 xfs", "1 xfs ext4"]);
        let wrong = "SELECT 'x' FROM comparisons WHERE baseline_value > 0 AND ratio <> value / baseline_value";
        assert_eq!(read_first_column(&db, wrong), [""; 0]);
    }

    #[test]
    fn names_of_factors_are_quoted() {
        let text = level_column("set.it's \"odd\"");
        assert_eq!(text, r#"coalesce(va.levels ->> '$."set.it''s ""odd"""', '') AS "set.it's ""odd""""#);
    }
}
