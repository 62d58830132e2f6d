//! `fsarena show`: a run, a study, an application, or published figures.

use crate::failure::{Failure, Outcome, usage};
use crate::{flags::Runs, output};
use fsarena_core::names::{find, nearest, unknown};
use fsarena_core::study::{self, Study};
use fsarena_core::{app, event::CommandRecord, exit::ExitCode, published::Published, record::LogLine, safe};
use fsarena_store::RunDir;
use serde_json::{Value, json};

/// Show a run, a study, an application or published figures
///
/// Of a run, fsarena prints the resolved plan and every command that it executed. Of a study or application, the plan:
/// copy it and change it. Of published figures, the tables as their author printed them, with computed totals.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Run (id, beginning of the id, directory, `latest`), study, application, or `published:NAME`
    what: String,
    /// Format on standard output: term or json; for published figures also md
    #[arg(long, default_value = "term", value_parser = fsarena_report::page::FORMATS)]
    format: String,
    #[command(flatten)]
    runs: Runs,
}

/// Shows.
pub fn run(args: Args) -> Outcome {
    if let Some(name) = args.what.strip_prefix("published:") {
        output::page(&fsarena_report::published::show(&published(name)?)?, &args.format)
    } else if let Some(study) = study::find(&args.what) {
        let published: Vec<String> = study.published()?.iter().map(Published::name).collect();
        print(&args.format, "a study", study.plan.into(), || {
            let (name, source, plan) = (study.name, study.source, table(study.name, study.plan)?);
            Ok(json!({ "study": name, "source": source, "published": published, "plan": plan }))
        })
    } else if let Some((name, plan)) = app::plan(&args.what) {
        print(&args.format, "an application", plan.into(), || {
            Ok(json!({ "application": name, "plan": table(&name, plan)? }))
        })
    } else {
        let run = RunDir::find(&args.runs.runs, &args.what).map_err(|error| or_study(error, &args.what))?;
        let (plan, commands) = (run.plan()?, commands(&run)?);
        print(&args.format, "a run", text_of(&run, &commands)?, || {
            Ok(json!({ "run": run.id(), "path": run.path(), "plan": plan, "commands": commands }))
        })
    }
}

/// Prints text for people, or JSON for programs.
fn print(format: &str, what: &str, text: String, json: impl FnOnce() -> Result<Value, Failure>) -> Outcome {
    match format {
        "term" => output::text(text),
        "json" => output::json(&json()?),
        other => usage(format!("--format {other}: fsarena shows {what} as term or json")),
    }
}

/// Proposes a study where the name is nearer to one than to a run.
fn or_study(error: fsarena_store::Error, name: &str) -> Failure {
    match nearest(name, app::names()) {
        Some(study) => unknown("run, study or application", name, [study]).into(),
        None => error.into(),
    }
}

/// Finds published figures by their name.
pub fn published(name: &str) -> Result<Published, Failure> {
    let sets = study::STUDIES.iter().map(Study::published).collect::<Result<Vec<_>, _>>()?.concat();
    let names: Vec<String> = sets.iter().map(|set| format!("published:{}", set.name())).collect();
    let named = names.iter().map(String::as_str).zip(&sets);
    Ok(find("published figures", &format!("published:{name}"), named, |(name, _)| name)?.1.clone())
}

/// A plan that ships with fsarena, as a table.
fn table(name: &str, plan: &str) -> Result<toml::Value, Failure> {
    toml::from_str(plan).map_err(|error| Failure::new(ExitCode::Internal, format!("{name}: {error}")))
}

fn commands(run: &RunDir) -> Result<Vec<LogLine>, Failure> {
    let mut commands = vec![];
    fsarena_store::commands(run, &mut |line| commands.push(line.clone()))?;
    Ok(commands)
}

fn text_of(run: &RunDir, commands: &[LogLine]) -> Result<String, Failure> {
    let file = run.plan_file();
    let plan = std::fs::read_to_string(&file).map_err(Failure::file(&file))?;
    let lines: Vec<String> = commands.iter().map(|line| command_line(&line.command)).collect();
    let count = match lines.len() {
        0 => "no commands: the run ended before its first one".into(),
        count => format!("{count} commands"),
    };
    Ok(format!("# {}\n\n{plan}\n# {count}\n{}\n", run.path().display(), lines.join("\n")))
}

/// A line of the command log, for people. Control characters in file names stay escaped.
fn command_line(command: &CommandRecord) -> String {
    let words: Vec<String> = command.argv.iter().map(|word| quoted(word)).collect();
    let more =
        if command.times > 1 { format!("  (and {} more alike)", command.times - 1) } else { String::new() };
    format!("{:>8} ms  {:<8}  {}{more}", command.ms, safe::line(&command.ended), words.join(" "))
}

fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,+%@^".contains(c);
    if !word.is_empty() && word.chars().all(plain) { word.into() } else { format!("{word:?}") }
}
