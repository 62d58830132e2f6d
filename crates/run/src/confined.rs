//! A workload in a process of few rights: the worker. The keeper starts it, mounts for it, and does what only root may.

use crate::executor::{Done, Failed};
use crate::protocol::{Answers, Line, Request, Rights, Role, write};
use crate::tasks::{make_root, perform};
use crate::{bench::Bench, child, work};
use fsarena_core::event::Outcome;
use fsarena_load::workload::Place;
use fsarena_sys::{Error, argv, kernel::SysRoot, limits, pid_namespace, process_output::lines, rights};
use std::io;
use std::path::{Path, PathBuf};

/// Gives this process the mounts and the rights of its role.
///
/// # Errors
/// Where the kernel refuses, or the user of a worker cannot reach its files.
pub fn begin(kernel: &SysRoot, request: &Request) -> Done {
    let refused = |error: io::Error| Failed::missing(format!("confining the workload: {error}"));
    match &request.role {
        Role::Keeper(Rights { namespace: true, .. }) => {
            let target = request.mount.as_ref().map_or(&request.root, |mount| &mount.target);
            rights::own_mounts(kernel, &[target, &request.root, &request.other]).map_err(refused)
        }
        Role::Alone | Role::Keeper(_) => Ok(()),
        Role::Worker(Rights { user, namespace, pid_namespace }) => {
            if *namespace {
                write_only_there(request, *pid_namespace).map_err(refused)?;
            }
            user.drop_privileges().map_err(refused)?;
            reach(request, &user.name)
        }
    }
}

/// The filesystem or device under test, the source disk, and what a workload is known to need besides.
fn write_only_there(request: &Request, own_proc: bool) -> io::Result<()> {
    let mut dirs = vec![request.other.clone()];
    dirs.extend(
        work::of_cell(&request.cell).ok().and_then(|(workload, _)| workload.writes_to()).map(PathBuf::from),
    );
    let mounted = request.mount.as_ref().map(|mount| mount.target.as_path());
    let is_device = Place::of(&request.cell.workload, &request.root, &request.other).is_device();
    if mounted.is_none() && !is_device {
        dirs.push(request.root.clone());
    }
    rights::write_only_to(&dirs, mounted, is_device.then_some(request.root.as_path()), own_proc)
}

/// Checks that this process, which has become the user of the workload, can pass through every directory above its files.
fn reach(request: &Request, user: &str) -> Done {
    for place in request.places() {
        let Err(error) = place.metadata() else { continue };
        let refusing = place.ancestors().skip(1).find(|above| above.metadata().is_ok()).unwrap_or(place);
        return Err(Failed::missing(format!(
            "the workload runs as user {user}, who cannot reach {}: {error}; keep the runs elsewhere (`--runs \
             /var/tmp/runs`), let everybody pass (`chmod a+x {}`), or run the workload as root (`--user root`)",
            place.display(),
            refusing.display()
        )));
    }
    Ok(())
}

/// Starts a worker for the tasks of a request and serves it until it ends.
///
/// # Errors
/// Those of the tasks, and those of the worker.
pub fn keep(request: &Request, rights: &Rights, bench: &mut Bench, answers: Answers) -> Done {
    let place = Place::of(&request.cell.workload, &request.root, &request.other);
    make_root(&place)?;
    if !rights.user.is_root() {
        let mut roots = request.mount.iter().map(|mount| &mount.target).chain([&place.root]);
        roots.try_for_each(|dir| rights.user.chown_to_user(dir).map_err(Error::io("giving away", dir)))?;
    }
    let served = serve(request, rights, bench, answers);
    served.unwrap_or_else(|error| {
        let why = format!("the process that runs the workload: {error}");
        Err(match limits::remedy(&error) {
            Some(remedy) => Failed::missing(format!("{why}; {remedy}")),
            None => Failed::internal(why),
        })
    })
}

fn serve(request: &Request, rights: &Rights, bench: &mut Bench, answers: Answers) -> io::Result<Done> {
    let mut errors = argv::memory_file("stderr")?;
    let mut command = child::command(errors.try_clone()?);
    if !rights.user.is_this_process() {
        // Commands of the workload find the home of their user, and not that of root.
        let home = rights.user.home.as_deref().unwrap_or(Path::new("/"));
        command.env("HOME", home).env("USER", &rights.user.name).env("LOGNAME", &rights.user.name);
    }
    // It waits for its request, so that it has started nothing yet where this process dies now.
    let mut worker =
        if rights.pid_namespace { pid_namespace::spawn(&mut command)? } else { limits::spawn(&mut command)? };
    let mut hear = || -> io::Result<Option<Outcome>> {
        let asked = Request { role: Role::Worker(rights.clone()), ..request.clone() };
        let (mut stdin, stdout) = child::ask(&mut worker, &asked)?;
        for line in lines(stdout) {
            match Line::read(&line).map_err(io::Error::other)? {
                Line::Event(event) => bench.say(event),
                Line::Ask(ask) => {
                    let done = perform(request, ask, bench, answers);
                    write(&mut stdin, &done.map_or_else(Outcome::from, |()| Outcome::Done))?;
                }
                Line::End(outcome) => return Ok(Some(outcome)),
            }
        }
        Ok(None)
    };
    let heard = hear();
    if heard.is_err() {
        // The filesystem is unmounted next.
        worker.kill()?;
    }
    let status = if rights.pid_namespace { pid_namespace::wait(&mut worker)? } else { worker.wait()? };
    Ok(match heard? {
        Some(Outcome::Failed { why, cause }) => Err(Failed { why, cause }),
        Some(_) => Ok(()),
        None => Err(child::ended("the process that runs the workload", status, &mut errors)?),
    })
}
