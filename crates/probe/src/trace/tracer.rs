//! Starting and stopping a trace.

use crate::trace::options::{Options, Target};
use crate::trace::reader::{self, Finished};
use crate::trace::{
    Unavailable, profile::Profile, rings, sites, symbols::Symbols, tally::Tally, tracefs::not_permitted,
    user::UserMaps,
};
use fsarena_sys::kernel::SysRoot;
use rustix::event::EventfdFlags;
use std::{os::fd::OwnedFd, sync::Arc, thread::JoinHandle};

/// A running trace. Dropping it ends it.
#[derive(Debug)]
#[must_use = "the trace ends when dropped"]
pub struct Tracer {
    stop: Arc<OwnedFd>,
    reader: Option<JoinHandle<Finished>>,
    kernel: SysRoot,
    symbols: Symbols,
    cpu_event: Option<&'static str>,
    stacks: bool,
}

impl Tracer {
    /// Starts a trace on this machine.
    ///
    /// # Errors
    /// Where this kernel or user lacks something (the message says how to get it), or the process does not exist.
    pub fn start(options: &Options) -> Result<Tracer, Unavailable> {
        let kernel = SysRoot::host();
        all_there(&kernel, &options.target)?;
        let mut rings = rings::open(&kernel, options)?;
        // Now, because waits without names would be of no use.
        let symbols = Symbols::read(&kernel)?;
        let stop = rustix::event::eventfd(0, EventfdFlags::CLOEXEC)
            .map_err(|error| Unavailable::Reader(error.into()))?;
        let stop = Arc::new(stop);
        let tally = Tally::new(&options.target, UserMaps::new(&kernel));
        let cpu_event = rings.cpu_event;
        let begun = reader::now();
        for ring in &mut rings.rings {
            let refused = |error| not_permitted(&kernel, "switching a perf event on", error);
            ring.sampler.enable().map_err(refused)?;
        }
        let reader = std::thread::Builder::new().name("lock-trace".into()).spawn({
            let stop = stop.clone();
            move || reader::run(rings, begun, &stop, tally)
        });
        let reader = Some(reader.map_err(Unavailable::Reader)?);
        Ok(Tracer { stop, reader, kernel, symbols, cpu_event, stacks: options.stacks })
    }

    /// Ends the trace and returns its result.
    pub fn stop(mut self) -> Profile {
        let Finished { tally, duration_ns } = self.finish().expect("only stop and drop finish a trace");
        // A module may have been loaded since; where the list cannot be read any more, the first one holds.
        let symbols = Symbols::read(&self.kernel).unwrap_or_else(|_| std::mem::take(&mut self.symbols));
        let locks = sites::locks(&tally, &symbols);
        Profile {
            duration_ns,
            waits: locks.iter().map(|site| site.waits).sum(),
            total_wait_ns: locks.iter().map(|site| site.total_ns).sum(),
            locks,
            cpu: sites::cpu(&tally, &symbols),
            stacks: if self.stacks { sites::stacks(&tally, &symbols) } else { vec![] },
            cpu_samples: tally.cpu.values().sum(),
            cpu_event: self.cpu_event.map(str::to_string),
            lost: tally.lost,
            waits_without_begin: tally.pairing.without_begin,
            waits_without_end: tally.pairing.without_end,
        }
    }

    fn finish(&mut self) -> Option<Finished> {
        let reader = self.reader.take()?;
        // The counter is 0 until now, so there is room for 1.
        let _ = rustix::io::write(&*self.stop, &1_u64.to_ne_bytes());
        Some(reader.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    }
}

/// A process that is not there would look like one that waits for nothing.
fn all_there(kernel: &SysRoot, target: &Target) -> Result<(), Unavailable> {
    let Target::Pids(pids) = target else { return Ok(()) };
    match pids.iter().find(|pid| !kernel.path(&format!("proc/{pid}")).exists()) {
        Some(pid) => Err(Unavailable::NoProcess { pid: *pid }),
        None => Ok(()),
    }
}

impl Drop for Tracer {
    fn drop(&mut self) {
        self.finish();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_is_not_there_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("proc/7")).unwrap();
        let kernel = SysRoot::at(dir.path());
        all_there(&kernel, &Target::Pids(vec![7])).unwrap();
        all_there(&kernel, &Target::WholeMachine).unwrap();
        let error = all_there(&kernel, &Target::Pids(vec![7, 8])).unwrap_err();
        assert!(matches!(error, Unavailable::NoProcess { pid: 8 }), "{error}");
    }
}
