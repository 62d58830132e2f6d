//! One squid, from its configuration to its end.
//!
//! It dies with this process whatever ends that, because the kernel kills it then; and it carries the mark of the
//! undo journal like every other command.

use super::settings::Chosen;
use crate::task::Error;
use fsarena_sys::argv;
use fsarena_sys::cpu;
use fsarena_sys::kernel::Kernel;
use fsarena_sys::said::shown;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How long it may take to come up, and to go.
const PATIENCE: Duration = Duration::from_secs(30);
/// How its service name begins; the process id follows. Its shared memory bears that name.
const NAME: &str = "fsarena";
/// The user that Debian's squid runs as.
const USER: &str = "proxy";

/// Where a squid has its files.
#[derive(Debug, Clone)]
pub struct Ground {
    /// The cache, on the filesystem under test.
    pub cache: PathBuf,
    /// Everything else: configuration, log, pid. On the other disk.
    pub run: PathBuf,
}

/// A squid that is running. Dropping it kills it.
pub struct Squid {
    child: Child,
    /// Where it listens.
    pub address: SocketAddr,
}

impl Ground {
    /// Makes the directories, and the cache in them (`squid -z`).
    ///
    /// # Errors
    /// Where they cannot be made, or squid's user may not reach them.
    pub fn make(&self, chosen: &Chosen) -> Result<(), Error> {
        for dir in [&self.cache, &self.run] {
            std::fs::create_dir_all(dir).map_err(Error::io(format!("make {}", dir.display())))?;
            own(dir)?;
            reachable(dir)?;
        }
        let config = self.configure(chosen, 0)?;
        let mut command = command(&config, &["-z", "-N"]);
        let output = command.output().map_err(Error::io("start squid -z"))?;
        match output.status.success() {
            true => Ok(()),
            false => {
                let said = String::from_utf8_lossy(&output.stderr);
                Err(Error::Unfit(format!("squid -z failed ({}): {}", output.status, last_lines(&said))))
            }
        }
    }

    /// The configuration: everything off that is not the cache on disk.
    fn configure(&self, chosen: &Chosen, port: u16) -> Result<PathBuf, Error> {
        let (cache, run) = (self.cache.display(), self.run.display());
        let (first, second) = chosen.levels;
        let store = match chosen.store.as_str() {
            "rock" => format!("cache_dir rock {cache} {}", chosen.cache_mib),
            kind => format!("cache_dir {kind} {cache} {} {first} {second}", chosen.cache_mib),
        };
        let text = format!(
            "http_port 127.0.0.1:{}\nhttp_access allow localhost\nhttp_access deny all\n\
             visible_hostname fsarena\nmaximum_object_size 4 MB\n{store}\n\
             cache_mem 0\nmaximum_object_size_in_memory 0 KB\nmemory_cache_mode disk\n\
             cache_replacement_policy lru\npinger_enable off\nnetdb_filename none\nicp_port 0\ndigest_generation off\n\
             client_db off\naccess_log none\ncache_store_log none\nlogfile_rotate 0\n\
             cache_log {run}/cache.log\npid_filename {run}/squid.pid\ncoredump_dir {run}\n\
             shutdown_lifetime 0 seconds\nmax_filedescriptors 4096\ndns_nameservers 127.0.0.1\n",
            if port == 0 { 3128 } else { port },
        );
        let file = self.run.join("squid.conf");
        std::fs::write(&file, text).map_err(Error::io(format!("write {}", file.display())))?;
        Ok(file)
    }

    fn log(&self) -> PathBuf {
        self.run.join("cache.log")
    }
}

impl Squid {
    /// Starts one and waits until it has read its cache and answers.
    ///
    /// # Errors
    /// If squid does not start; with the last lines of its log.
    pub fn start(ground: &Ground, chosen: &Chosen) -> Result<Squid, Error> {
        let port = free_port()?;
        let config = ground.configure(chosen, port)?;
        // An existing log belongs to an earlier squid.
        let _ = std::fs::remove_file(ground.log());
        let mut command = command(&config, &["-N"]);
        command.process_group(0).stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn().map_err(Error::io("start squid"))?;
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let mut squid = Squid { child, address };
        squid.wait_until_up(ground)?;
        Ok(squid)
    }

    fn wait_until_up(&mut self, ground: &Ground) -> Result<(), Error> {
        let begun = Instant::now();
        loop {
            let log = std::fs::read_to_string(ground.log()).unwrap_or_default();
            let rebuilt = log.contains("Finished rebuilding storage from disk")
                || log.contains("Finished loading") && log.contains("Rock");
            if rebuilt && TcpStream::connect(self.address).is_ok() {
                return Ok(());
            }
            let ended = self.child.try_wait().map_err(Error::io("wait for squid"))?;
            if let Some(status) = ended {
                return Err(Error::Unfit(format!("squid ended ({status}): {}", last_lines(&log))));
            }
            if begun.elapsed() > PATIENCE {
                let why = format!("squid was not up after {} s: {}", PATIENCE.as_secs(), last_lines(&log));
                return Err(Error::Unfit(why));
            }
            fsarena_sys::cancel::check().map_err(|error| Error::Unfit(error.to_string()))?;
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Ends it in its own way, so that its index is on disk.
    ///
    /// # Errors
    /// Where it does not go.
    pub fn stop(mut self) -> Result<(), Error> {
        if let Some(pid) = rustix::process::Pid::from_raw(self.child.id() as i32) {
            // It may have ended by itself; then there is nothing to end.
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        }
        let begun = Instant::now();
        while self.child.try_wait().map_err(Error::io("wait for squid"))?.is_none() {
            if begun.elapsed() > PATIENCE {
                return Err(Error::Unfit("squid did not end within 30 s of SIGTERM".into()));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }

    /// CPU time of squid in nanoseconds, of all its threads; its helpers do nothing here.
    pub fn cpu_ns(&self) -> u64 {
        cpu::process_ns(self.child.id() as i32).unwrap_or(0)
    }

    /// User and system time in clock ticks, to split [`Squid::cpu_ns`] by.
    pub fn ticks(&self) -> (u64, u64) {
        cpu::user_and_system(&Kernel::host(), self.child.id() as i32).unwrap_or((0, 0))
    }
}

impl Drop for Squid {
    fn drop(&mut self) {
        // Its helpers are in its group.
        if let Some(group) = rustix::process::Pid::from_raw(self.child.id() as i32) {
            let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
        }
        let _ = self.child.wait();
        forget_shared_memory();
    }
}

/// Removes the shared memory of squids that were killed: this process's own, and those of processes that are gone.
/// A squid that ends in its own way has removed it.
fn forget_shared_memory() {
    for entry in std::fs::read_dir("/dev/shm").into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let owner = name.strip_prefix(NAME).and_then(|rest| rest.split_once('-'));
        let Some(owner) = owner.and_then(|(owner, _)| owner.parse::<u32>().ok()) else { continue };
        if owner == std::process::id() || cpu::process_ns(owner as i32).is_none() {
            // Another run may have been quicker.
            let _ = std::fs::remove_file(entry.path());
        }
    }
}

/// squid with these arguments, as its own user where we are root, and killed when this process ends.
fn command(config: &Path, args: &[&str]) -> Command {
    let name = format!("{NAME}{}", std::process::id());
    let mut command = Command::new("squid");
    command.args(args).arg("-f").arg(config).args(["-n", &name]).stdin(Stdio::null()).envs(argv::mark());
    if let Some((user, group)) = user() {
        command.uid(user).gid(group);
    }
    // SAFETY: prctl is a bare system call. It follows the change of user, which would undo it.
    unsafe {
        command.pre_exec(|| {
            rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
            Ok(())
        });
    }
    command
}

/// The ids of squid's user, where we are root and there is one.
fn user() -> Option<(u32, u32)> {
    if !rustix::process::geteuid().is_root() {
        return None;
    }
    let users = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    let line = users.lines().find(|line| line.split(':').next() == Some(USER))?;
    let mut ids = line.split(':').skip(2).map(str::parse::<u32>);
    Some((ids.next()?.ok()?, ids.next()?.ok()?))
}

fn own(dir: &Path) -> Result<(), Error> {
    let Some((user, group)) = user() else { return Ok(()) };
    std::os::unix::fs::chown(dir, Some(user), Some(group))
        .map_err(Error::io(format!("give {} to user {USER}", dir.display())))
}

/// Every directory above has to let squid's user through.
fn reachable(dir: &Path) -> Result<(), Error> {
    let Some((user, group)) = user() else { return Ok(()) };
    let dir = dir.canonicalize().map_err(Error::io(format!("look for {}", dir.display())))?;
    for above in dir.ancestors() {
        let meta = above.metadata().map_err(Error::io(format!("look at {}", above.display())))?;
        let needed = match () {
            () if meta.uid() == user => 0o100,
            () if meta.gid() == group => 0o010,
            () => 0o001,
        };
        if meta.permissions().mode() & needed == 0 {
            return Err(Error::Unfit(format!(
                "squid runs as user {USER}, who may not pass through {above:?}; keep the runs elsewhere \
                 (`--runs /var/tmp/runs`), or chmod o+x it"
            )));
        }
    }
    Ok(())
}

/// A free port on loopback.
fn free_port() -> Result<u16, Error> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(Error::io("look for a free port"))?;
    Ok(listener.local_addr().map_err(Error::io("look for a free port"))?.port())
}

/// The last lines of what squid has said.
fn last_lines(text: &str) -> String {
    let lines: Vec<&str> = text.lines().rev().take(5).collect();
    shown(&lines.into_iter().rev().collect::<Vec<_>>().join("; ")).into()
}
