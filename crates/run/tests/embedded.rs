//! A program that embeds fsarena: it must be able to become an agent, and it makes one run at a time.

use fsarena_core::event::Event;
use fsarena_core::plan::file::PlanFile;
use fsarena_core::plan::resolve::Overrides;
use fsarena_core::plan::{Backing, Plan};
use fsarena_run::{Destination, RunError, RunOutcome, RunRequest, execute, registry, run_as_agent_if_requested};
use std::path::Path;

const PLAN: &str = "
name = 'embedded'
[stop]
rounds = 1
[idle]
timeout = '100ms'
[[workload]]
use = 'tree'
tree_files = 10
driver = 'native'
";

fn main() {
    let dir = tempfile::tempdir().unwrap();
    // SAFETY: no other thread runs yet.
    unsafe { std::env::set_var("FSARENA_STATE_DIR", dir.path().join("state")) };
    a_program_that_cannot_become_an_agent_is_refused(dir.path());
    run_as_agent_if_requested();
    a_run_beside_another_is_refused_and_does_not_disturb_it(dir.path());
    a_run_after_another_succeeds(dir.path());
}

fn plan(dir: &Path) -> Plan {
    let over = Overrides {
        backing: Some(Backing::Dir),
        factors: vec![("dir".into(), vec![dir.to_str().unwrap().into()])],
        ..Overrides::default()
    };
    registry::resolve(&PlanFile::parse("a plan", PLAN.as_bytes()).unwrap(), &over).unwrap()
}

fn request(dir: &Path) -> RunRequest {
    RunRequest::new(plan(dir), Destination::NewRun(dir.join("runs")))
}

fn is_complete(outcome: RunOutcome) -> bool {
    fsarena_store::read(&outcome.run.unwrap()).unwrap().status.complete
}

fn a_program_that_cannot_become_an_agent_is_refused(dir: &Path) {
    let error = execute(request(dir), &mut []).unwrap_err();
    assert!(error.to_string().contains("call fsarena_run::run_as_agent_if_requested first"), "{error}");
    assert!(!dir.join("runs").exists());
}

fn a_run_beside_another_is_refused_and_does_not_disturb_it(dir: &Path) {
    let mut refused = vec![];
    let mut run_another = |event: &Event| -> Result<(), RunError> {
        if let Event::CellStarted { .. } = event {
            refused.push(execute(request(dir), &mut []).unwrap_err().to_string());
        }
        Ok(())
    };
    let outcome = execute(request(dir), &mut [&mut run_another]).unwrap();
    assert!(is_complete(outcome));
    assert_eq!(refused, ["this process is executing another run: wait until it has ended"]);
    assert_eq!(std::fs::read_dir(dir.join("runs")).unwrap().count(), 1);
}

fn a_run_after_another_succeeds(dir: &Path) {
    assert!(is_complete(execute(request(dir), &mut []).unwrap()));
}
