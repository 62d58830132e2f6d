//! The process of squid, from its configuration to its end.

use crate::service::{Service, ServiceDef, last_lines};
use crate::task::{Result, TaskError, at};
use crate::web::CacheShape;
use fsarena_sys::{cpu, kernel::SysRoot, user::User};
use rustix::process::Signal;
use std::fs::File;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The server squid. Debian runs it as user proxy.
pub const DEF: ServiceDef = ServiceDef { name: "squid", users: &["proxy"], end: Signal::KILL };
/// Time limit for an orderly shutdown.
const STOP_TIMEOUT: Duration = Duration::from_secs(30);
/// The start of its service name; a number follows. The names of its shared memory start with the service name.
const NAME: &str = "fsarena";
/// Suffix of the lock file, which shows whether the squid of a service name is alive.
const LOCK: &str = "-lock";
/// The directory of squid's shared memory.
pub const MEMORY: &str = "/dev/shm";

/// The directories, the cache and the user of a squid.
#[derive(Debug, Clone)]
pub struct SquidDirs {
    /// How it stores objects: `aufs`, `ufs`, `rock`.
    pub store: String,
    /// The size and the directories of its cache.
    pub shape: CacheShape,
    /// The directory of the cache, on the filesystem under test.
    pub cache: PathBuf,
    /// The directory of all other files (configuration, log, pid), on the source disk.
    pub run: PathBuf,
    /// The user of squid, if it is not the user of this process.
    pub user: Option<User>,
}

/// A running squid. Dropping it kills squid and then removes its shared memory.
pub struct Squid {
    service: Service,
    _memory: SharedMemory,
    /// The address that it listens on.
    pub address: SocketAddr,
}

impl SquidDirs {
    /// Creates the directories, and the cache in them (`squid -z`).
    ///
    /// # Errors
    /// If the directories cannot be created, or squid's user cannot reach them.
    pub fn make(&self) -> Result<()> {
        for dir in [&self.cache, &self.run] {
            DEF.make_dir(dir, self.user.as_ref())?;
        }
        let config = self.configure(3128)?;
        let memory = SharedMemory::claim(Path::new(MEMORY))?;
        let output = self
            .command(&config, &memory, &["-z", "-N"])
            .output()
            .map_err(TaskError::io("start squid -z"))?;
        if output.status.success() {
            return Ok(());
        }
        let said = String::from_utf8_lossy(&output.stderr);
        Err(TaskError::Unfit(format!("squid -z failed ({}): {}", output.status, last_lines(&said))))
    }

    /// Writes the configuration, which switches off everything but the cache on disk.
    fn configure(&self, port: u16) -> Result<PathBuf> {
        let (cache, run) = (self.cache.display(), self.run.display());
        let (store, mib, (first, second)) = (&self.store, self.shape.bytes >> 20, self.shape.levels);
        let levels = if store == "rock" { String::new() } else { format!(" {first} {second}") };
        let text = format!(
            "http_port 127.0.0.1:{port}\nhttp_access allow localhost\nhttp_access deny all\n\
             visible_hostname fsarena\nmaximum_object_size 4 MB\ncache_dir {store} {cache} {mib}{levels}\n\
             cache_mem 0\nmaximum_object_size_in_memory 0 KB\nmemory_cache_mode disk\n\
             cache_replacement_policy lru\npinger_enable off\nnetdb_filename none\nicp_port 0\ndigest_generation off\n\
             client_db off\naccess_log none\ncache_store_log none\nlogfile_rotate 0\n\
             cache_log {run}/cache.log\npid_filename {run}/squid.pid\ncoredump_dir {run}\n\
             shutdown_lifetime 0 seconds\nmax_filedescriptors 4096\ndns_nameservers 127.0.0.1\n"
        );
        let file = self.run.join("squid.conf");
        DEF.write_file(&file, &text, self.user.as_ref())?;
        Ok(file)
    }

    /// Makes the command of squid with these arguments, as its user.
    fn command(&self, config: &Path, memory: &SharedMemory, args: &[&str]) -> Command {
        let mut command = DEF.command(Path::new("squid"), self.user.as_ref());
        command.args(args).arg("-f").arg(config).args(["-n", &memory.service]);
        command
    }
}

impl Squid {
    /// Starts squid and waits until it has read its cache and accepts connections.
    ///
    /// # Errors
    /// If squid does not start. The error has the last lines of its log.
    pub fn start(dirs: &SquidDirs) -> Result<Squid> {
        // A free port on loopback.
        let bound = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|listener| listener.local_addr());
        let address = bound.map_err(TaskError::io("look for a free port"))?;
        let config = dirs.configure(address.port())?;
        // An existing log belongs to an earlier squid.
        let log = dirs.run.join("cache.log");
        let _ = std::fs::remove_file(&log);
        let memory = SharedMemory::claim(Path::new(MEMORY))?;
        let mut command = dirs.command(&config, &memory, &["-N"]);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let mut squid = Squid { service: DEF.start(command, &log)?, _memory: memory, address };
        let up = |log: &str| {
            let rebuilt = log.contains("Finished rebuilding storage from disk")
                || log.contains("Finished loading") && log.contains("Rock");
            rebuilt && TcpStream::connect(address).is_ok()
        };
        squid.service.wait_until(up)?;
        Ok(squid)
    }

    /// Shuts squid down in order, so that its index is on disk.
    ///
    /// # Errors
    /// If squid does not end within the time limit.
    pub fn stop(self) -> Result<()> {
        self.service.stop(Signal::TERM, STOP_TIMEOUT)
    }

    /// CPU time of squid in nanoseconds, of all its threads; its helpers do nothing here.
    pub fn cpu_ns(&self) -> u64 {
        cpu::process_ns(self.service.pid()).unwrap_or(0)
    }

    /// User and system time in clock ticks, to split [`Squid::cpu_ns`] by.
    pub fn ticks(&self) -> (u64, u64) {
        cpu::user_and_system(&SysRoot::host(), self.service.pid()).unwrap_or((0, 0))
    }
}

/// The shared memory of a squid, by its service name. Dropping it removes the memory, and also that of squids whose fsarena
/// is gone. A squid that shuts down in order has removed it already.
///
/// A process id would not identify a squid, because each cell can have its own PID namespace. So a lock file beside the
/// memory, which its owner keeps locked, shows that the squid is alive.
struct SharedMemory {
    service: String,
    _lock: File,
}

impl SharedMemory {
    /// Claims a service name that no other squid has.
    fn claim(dir: &Path) -> Result<SharedMemory> {
        let nanoseconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_nanos());
        let service = format!("{NAME}{nanoseconds:x}");
        // Under its final name it is never seen unlocked.
        let (made, path) = (dir.join(format!(".{service}{LOCK}")), dir.join(format!("{service}{LOCK}")));
        let lock = File::create_new(&made).map_err(at("make", &made))?;
        lock.lock().map_err(at("lock", &made))?;
        std::fs::rename(&made, &path).map_err(at("make", &path))?;
        Ok(SharedMemory { service, _lock: lock })
    }

    /// Removes the memory of this squid and of those whose lock file is unlocked.
    fn sweep(&self, dir: &Path) {
        let names = || std::fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.file_name());
        for lock in names() {
            let Some(service) = lock.to_str().and_then(|name| name.strip_suffix(LOCK)) else { continue };
            if !service.starts_with(NAME) || (service != self.service && !is_unlocked(&dir.join(&lock))) {
                continue;
            }
            let memory = format!("{service}-");
            for name in names().filter(|name| *name != lock) {
                if name.to_str().is_some_and(|name| name.starts_with(&memory)) {
                    // Another run may have been quicker.
                    let _ = std::fs::remove_file(dir.join(name));
                }
            }
            let _ = std::fs::remove_file(dir.join(&lock));
        }
    }
}

impl Drop for SharedMemory {
    fn drop(&mut self) {
        self.sweep(Path::new(MEMORY));
    }
}

/// Whether a file can be read and nobody has locked it.
fn is_unlocked(path: &Path) -> bool {
    File::open(path).is_ok_and(|file| file.try_lock().is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_goes_with_its_owner_and_that_of_the_living_stays() {
        let dir = tempfile::tempdir().unwrap();
        let [own, living, killed] = [(); 3].map(|()| SharedMemory::claim(dir.path()).unwrap());
        for memory in [&own, &living, &killed] {
            std::fs::write(dir.path().join(format!("{}-cf__queues.shm", memory.service)), "").unwrap();
        }
        std::fs::write(dir.path().join("fsarena-a-run"), "").unwrap();
        // Its process is gone, and nobody cleaned up.
        let SharedMemory { _lock: lock, .. } = &killed;
        lock.unlock().unwrap();
        own.sweep(dir.path());
        let mut left: Vec<String> = std::fs::read_dir(dir.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        left.sort();
        let service = &living.service;
        assert_eq!(
            left,
            ["fsarena-a-run".into(), format!("{service}-cf__queues.shm"), format!("{service}{LOCK}")]
        );
    }
}
