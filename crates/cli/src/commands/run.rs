//! `fsarena run`: question in, answer out.

mod dry;
mod flags;
mod overrides;
mod resume;
mod session;
mod stages;

pub use flags::Args;
pub use overrides::kernel_level;

use crate::failure::{Failure, Outcome};
use crate::progress::Progress;
use crate::vocabulary;
use fsarena_core::event::{Note, NoteKind};
use fsarena_core::exit::ExitCode;
use fsarena_core::matrix;
use fsarena_core::plan::Plan;
use fsarena_core::plan::file::PlanFile;
use fsarena_core::plan::resolve::resolve;
use fsarena_core::study;
use fsarena_run::preflight;
use fsarena_store::RunDir;
use fsarena_sys::kernel::Kernel;
use std::path::Path;

/// Runs a study or a plan, stores every sample, and prints the answer.
pub fn run(args: Args) -> Outcome {
    if args.resume.is_none() {
        let (origin, file) = read_plan(&args)?;
        if !file.0.stages.is_empty() {
            handle_signals()?;
            args.check_outputs()?;
            return stages::run(&args, &origin, &file, &Kernel::host());
        }
        if args.after.is_some() {
            return Err(Failure::new(ExitCode::Usage, format!("--after: {origin} has no stages")));
        }
    }
    run_plan(args, load)
}

fn handle_signals() -> Result<(), Failure> {
    fsarena_sys::cancel::install()
        .map_err(|error| Failure::new(ExitCode::Internal, format!("signals: {error}")))
}

/// Runs the plan that `load` makes of the arguments, where they name no run to go on with.
pub fn run_plan(args: Args, load: impl FnOnce(&Args, &Kernel) -> Result<Plan, Failure>) -> Outcome {
    let kernel = Kernel::host();
    handle_signals()?;
    args.check_outputs()?;
    let (plan, run) = match &args.resume {
        Some(name) => {
            let run = RunDir::find(&args.runs.runs, name)?;
            let record = fsarena_store::read(&run)?;
            if record.status.complete {
                return resume::answer(record, &run, &args);
            }
            if !args.dry_run {
                resume::clear_the_way(&kernel, &args)?;
            }
            (record.plan, Some(run))
        }
        None => (load(&args, &kernel)?, None),
    };
    let stage = plan.stage.is_some().then(|| plan.clone());
    let (code, run) = once(&args, &kernel, plan, run)?;
    if let Some((plan, run)) = stage.zip(run) {
        stages::hint(&args, &plan, &run);
    }
    Ok(code)
}

/// Runs one plan, as a new run or on with one, and answers. The run, where there is one.
fn once(
    args: &Args,
    kernel: &Kernel,
    plan: Plan,
    run: Option<RunDir>,
) -> Result<(ExitCode, Option<RunDir>), Failure> {
    let variants = matrix::expand(&plan);
    let mut check = preflight::check(kernel, &plan, &variants, &args.runs.runs)?;
    if args.dry_run {
        return Ok((dry::print_plan(&plan, &variants, &check)?, None));
    }
    let plan = preflight::decided(plan, &mut check)?;
    let run = match run {
        Some(run) => run,
        None => RunDir::create(&args.runs.runs, &plan, env!("CARGO_PKG_VERSION"))?,
    };
    let progress = Progress::new(args.quiet).of(&plan);
    if let Some(text) = args.guest_by_itself(&plan) {
        progress.say(&text);
        check.remarks.push(Note::new(NoteKind::Remark, text));
    }
    let again = RunDir::open(run.path())?;
    let code = session::Session { kernel: kernel.clone(), plan, variants, check, run, progress }.go(args)?;
    Ok((code, Some(again)))
}

/// Runs a plan and stores it, without an answer of its own. A signal ends it with what was measured until then.
pub fn keep(plan: Plan, runs: &Path, quiet: bool) -> Result<RunDir, Failure> {
    let kernel = Kernel::host();
    let variants = matrix::expand(&plan);
    let mut check = preflight::check(&kernel, &plan, &variants, runs)?;
    let plan = preflight::decided(plan, &mut check)?;
    let run = RunDir::create(runs, &plan, env!("CARGO_PKG_VERSION"))?;
    let progress = Progress::new(quiet).of(&plan);
    session::Session { kernel, plan, variants, check, run, progress }.keep()
}

/// Plan::load: a study by its name or a plan by its path, under what the command line says.
fn load(args: &Args, kernel: &Kernel) -> Result<Plan, Failure> {
    let (origin, file) = read_plan(args)?;
    let mut over = args.overrides(kernel)?;
    over.where_it_ran(&file.0)?;
    Ok(resolve(&origin, &file, &over, &vocabulary::collect(kernel, &over)?)?)
}

/// The plan that the arguments name, as it was written, and what errors call it.
pub fn read_plan(args: &Args) -> Result<(String, (PlanFile, String)), Failure> {
    let name = args.plan.as_deref().unwrap_or(study::DEFAULT);
    let (origin, bytes) = match study::find(name) {
        Some(study) => (format!("study {name}"), study.plan.as_bytes().to_vec()),
        None => (name.to_string(), read(name)?),
    };
    let file = PlanFile::parse(&origin, &bytes)?;
    Ok((origin, file))
}

fn read(name: &str) -> Result<Vec<u8>, Failure> {
    let path = Path::new(name);
    let meta = path.metadata().map_err(|error| {
        let studies: Vec<&str> = study::STUDIES.iter().map(|study| study.name).collect();
        let message =
            format!("{name:?} is neither a study ({}) nor a plan file: {error}", studies.join(", "));
        Failure::new(ExitCode::Usage, message)
    })?;
    if !meta.is_file() {
        // Opening a named pipe could wait for ever.
        return Err(Failure::new(ExitCode::Usage, format!("{name}: not a regular file, so not a plan")));
    }
    // Read no more than shows that it is too large.
    let mut bytes = Vec::new();
    let limit = fsarena_core::plan::file::MAX_BYTES as u64 + 1;
    std::fs::File::open(path)
        .and_then(|file| std::io::Read::read_to_end(&mut std::io::Read::take(file, limit), &mut bytes))
        .map_err(Failure::file(path))?;
    Ok(bytes)
}
