//! `fsarena show`: prints a run, a study, an application, a filesystem, or published figures.

use crate::failure::{CommandResult, Failure, usage_error};
use crate::terminal::rows::lay_out_table;
use crate::{commands::list, flags::RunsDir, output};
use clap::builder::PossibleValuesParser;
use fsarena_core::names::{nearest, unknown_name};
use fsarena_core::number::plural;
use fsarena_core::{exit::ExitCode, published::PublishedSet, record::CommandLogLine, study};
use fsarena_report::{commands::format_logged_command, published};
use fsarena_store::RunDir;
use serde_json::{Value, json};

/// Show a run, a study, an application, a filesystem or published figures
///
/// For a run, fsarena prints the resolved plan and every command that it executed. For a study or application, the plan, to
/// copy and change. For a filesystem, its option sets and what each gives to mkfs and mount. For published figures, the
/// tables as their author printed them, with computed totals. `--format sql` prints the statements that add the views
/// `samples_tidy` and `comparisons` to the `run.db` of a run that an earlier version made.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Run (id, beginning of the id, directory, `latest`), study, application, filesystem, or `published:NAME`
    #[arg(id = "what", value_name = "WHAT")]
    name: String,
    /// Format on standard output: term or json; for published figures also md; for a run also sql
    #[arg(long, default_value = "term", value_parser = format_parser())]
    format: String,
    #[command(flatten)]
    runs: RunsDir,
}

/// The statements that add the views to the database of a run.
const SQL_FORMAT: &str = "sql";

/// The formats that `--format` accepts.
fn format_parser() -> PossibleValuesParser {
    PossibleValuesParser::new(fsarena_report::page::FORMATS.into_iter().chain([SQL_FORMAT]))
}

/// Finds what the argument names and prints it.
pub fn run(args: Args) -> CommandResult {
    if let Some(name) = args.name.strip_prefix("published:") {
        output::print_page(&published::published_page(&published::find_published(name)?)?, &args.format)
    } else if let Some(study) = study::find(&args.name) {
        let published: Vec<String> = study.published_sets()?.iter().map(PublishedSet::name).collect();
        print_text_or_json(&args.format, "a study", study.plan_toml.into(), || {
            let (name, source, plan) = (study.name, study.source, plan_table(study.name, study.plan_toml)?);
            Ok(json!({ "study": name, "source": source, "published": published, "plan": plan }))
        })
    } else if let Some((name, plan)) = study::shipped_plan(&args.name) {
        print_text_or_json(&args.format, "an application", plan.into(), || {
            Ok(json!({ "application": name, "plan": plan_table(&name, plan)? }))
        })
    } else if let Some(filesystem) = list::filesystem(&args.name)? {
        let sets = lay_out_table(filesystem.option_sets(), output::width()).map_err(output::serialization_failure)?;
        print_text_or_json(&args.format, "a filesystem", format!("{}\n{sets}", filesystem.introduction()), || {
            Ok(json!(filesystem))
        })
    } else {
        let run = RunDir::find(&args.runs.dir, &args.name).map_err(|error| suggest_study(error, &args.name))?;
        if args.format == SQL_FORMAT {
            return output::print_text(fsarena_store::views_sql(&run.plan()?));
        }
        let (plan, commands) = (run.plan()?, read_commands(&run)?);
        print_text_or_json(&args.format, "a run", run_text(&run, &commands)?, || {
            let path = run.path().display().to_string();
            Ok(json!({ "run": run.id(), "path": path, "plan": plan, "commands": commands }))
        })
    }
}

/// Prints text or JSON, as `format` requires. An error about another format names the `kind` of the shown thing.
fn print_text_or_json(
    format: &str,
    kind: &str,
    text: String,
    json: impl FnOnce() -> Result<Value, Failure>,
) -> CommandResult {
    match format {
        "term" => output::print_text(text),
        "json" => output::print_json(&json()?),
        other => usage_error(format!("--format {other}: fsarena shows {kind} as term or json")),
    }
}

/// The failure of an unknown name: suggests a study or application with a similar name if there is one, else `error`.
fn suggest_study(error: fsarena_store::Error, name: &str) -> Failure {
    match nearest(name, study::shipped_plan_names()) {
        Some(study) => unknown_name("run, study or application", name, [study]).into(),
        None => error.into(),
    }
}

/// Parses a plan of fsarena as a table.
fn plan_table(name: &str, plan: &str) -> Result<toml::Value, Failure> {
    toml::from_str(plan).map_err(|error| Failure::new(ExitCode::Internal, format!("{name}: {error}")))
}

/// Reads the commands that a run executed.
fn read_commands(run: &RunDir) -> Result<Vec<CommandLogLine>, Failure> {
    let mut commands = vec![];
    fsarena_store::for_each_command(run, &mut |line| commands.push(line.clone()))?;
    Ok(commands)
}

/// The resolved plan of a run and its commands, as text.
fn run_text(run: &RunDir, commands: &[CommandLogLine]) -> Result<String, Failure> {
    let file = run.plan_file();
    let plan = std::fs::read_to_string(&file).map_err(Failure::for_path(&file))?;
    let lines: Vec<String> = commands.iter().map(|line| format_logged_command(&line.command)).collect();
    let count = match lines.len() {
        0 => "no commands: the run ended before its first one".into(),
        count => plural(count, "command"),
    };
    Ok(format!("# {}\n\n{plan}\n# {count}\n{}\n", run.path().display(), lines.join("\n")))
}
