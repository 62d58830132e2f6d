//! The process of squid: its configuration, its start and end, its CPU time, and its shared memory.

use crate::service::{Service, ServiceDef, last_lines};
use crate::task::{Result, TaskError, failed_to};
use crate::web::CacheSettings;
use fsarena_core::setting_text::setting;
use fsarena_sys::{cpu, kernel::SysRoot, user::User};
use rustix::process::Signal;
use std::fs::File;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Squid as a server. Debian runs it as the user proxy.
pub const SERVICE_DEF: ServiceDef = ServiceDef { name: "squid", users: &["proxy"], end_signal: Signal::KILL };
/// Time limit for an orderly shutdown.
const STOP_TIMEOUT: Duration = Duration::from_secs(30);
/// Prefix of the service names of squids, before a number. The names of squid's shared memory start with the service
/// name.
const SERVICE_PREFIX: &str = "fsarena";
/// Suffix of the lock file, which shows whether the squid of a service name is alive.
const LOCK_SUFFIX: &str = "-lock";
/// The directory of squid's shared memory.
pub const MEMORY_DIR: &str = "/dev/shm";

/// The configuration of a squid: its cache, its directories and its user.
#[derive(Debug, Clone)]
pub struct SquidInstallation {
    /// How squid stores objects: `aufs`, `ufs` or `rock`.
    pub store: String,
    /// The size and the directories of its cache.
    pub cache: CacheSettings,
    /// The directory of the cache, on the filesystem under test.
    pub cache_dir: PathBuf,
    /// The directory of all other files (configuration, log, pid), on the source disk.
    pub run_dir: PathBuf,
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

impl SquidInstallation {
    /// Creates the directories, and the cache in them (`squid -z`).
    ///
    /// # Errors
    /// If the directories cannot be created, squid's user cannot reach them, or their paths have blanks.
    pub fn create(&self) -> Result<()> {
        for dir in [&self.cache_dir, &self.run_dir] {
            check_path(dir)?;
            SERVICE_DEF.make_owned_dir(dir, self.user.as_ref())?;
        }
        let config = self.write_config(3128)?;
        let memory = SharedMemory::claim(Path::new(MEMORY_DIR))?;
        let output = self.command(&config, &memory, &["-z", "-N"]).output().map_err(TaskError::io("start squid -z"))?;
        if output.status.success() {
            return Ok(());
        }
        let stderr = String::from_utf8_lossy(&output.stderr);
        Err(TaskError::Unfit(format!("squid -z failed ({}): {}", output.status, last_lines(&stderr))))
    }

    /// Writes the configuration file, which switches off everything but the cache on disk, and returns its path.
    fn write_config(&self, port: u16) -> Result<PathBuf> {
        let (cache_dir, run_dir) = (self.cache_dir.display(), self.run_dir.display());
        let (store, mib, (first, second)) = (&self.store, self.cache.bytes >> 20, self.cache.level_directories);
        let levels = if store == "rock" { String::new() } else { format!(" {first} {second}") };
        let text = format!(
            "http_port 127.0.0.1:{port}\nhttp_access allow localhost\nhttp_access deny all\n\
             visible_hostname fsarena\nmaximum_object_size 4 MB\ncache_dir {store} {cache_dir} {mib}{levels}\n\
             cache_mem 0\nmaximum_object_size_in_memory 0 KB\nmemory_cache_mode disk\n\
             cache_replacement_policy lru\npinger_enable off\nnetdb_filename none\nicp_port 0\ndigest_generation off\n\
             client_db off\naccess_log none\ncache_store_log none\nlogfile_rotate 0\n\
             cache_log {run_dir}/cache.log\npid_filename {run_dir}/squid.pid\ncoredump_dir {run_dir}\n\
             shutdown_lifetime 0 seconds\nmax_filedescriptors 4096\ndns_nameservers 127.0.0.1\n"
        );
        let file = self.run_dir.join("squid.conf");
        SERVICE_DEF.write_owned_file(&file, &text, self.user.as_ref())?;
        Ok(file)
    }

    /// Makes the command of squid with these arguments, as its user.
    fn command(&self, config: &Path, memory: &SharedMemory, args: &[&str]) -> Command {
        let mut command = SERVICE_DEF.command(Path::new("squid"), self.user.as_ref());
        command.args(args).arg("-f").arg(config).args(["-n", &memory.service_name]);
        command
    }
}

/// Checks that squid reads a path in its configuration as one word.
fn check_path(path: &Path) -> Result<()> {
    if !path.to_string_lossy().contains(char::is_whitespace) {
        return Ok(());
    }
    let runs = setting("runs", "/var/tmp/runs");
    Err(TaskError::Unfit(format!(
        "squid cannot read paths with blanks, such as {path:?}; keep the runs elsewhere: {runs}"
    )))
}

impl Squid {
    /// Starts squid and waits until it has read its cache and accepts connections.
    ///
    /// # Errors
    /// If squid does not start. The error has the last lines of its log.
    pub fn start(installation: &SquidInstallation) -> Result<Squid> {
        // A free port on loopback.
        let free_address = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|listener| listener.local_addr());
        let address = free_address.map_err(TaskError::io("look for a free port"))?;
        let config = installation.write_config(address.port())?;
        // An existing log belongs to an earlier squid.
        let log_path = installation.run_dir.join("cache.log");
        let _ = std::fs::remove_file(&log_path);
        let memory = SharedMemory::claim(Path::new(MEMORY_DIR))?;
        let mut command = installation.command(&config, &memory, &["-N"]);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let mut squid = Squid { service: SERVICE_DEF.start(command, &log_path)?, _memory: memory, address };
        let is_ready = |log: &str| {
            let has_read_cache = log.contains("Finished rebuilding storage from disk")
                || log.contains("Finished loading") && log.contains("Rock");
            has_read_cache && TcpStream::connect(address).is_ok()
        };
        squid.service.wait_for_log(is_ready)?;
        Ok(squid)
    }

    /// Checks that squid has not ended.
    ///
    /// # Errors
    /// If squid has ended. The error has the last lines of its log.
    pub fn check_running(&self) -> Result<()> {
        if self.service.has_ended() {
            let log = self.service.last_log_lines();
            return Err(TaskError::Unfit(format!("squid ended while the clients sent requests: {log}")));
        }
        Ok(())
    }

    /// Shuts squid down in order, so that it writes its index to disk.
    ///
    /// # Errors
    /// If squid does not end within the time limit.
    pub fn stop(mut self) -> Result<()> {
        self.service.stop(Signal::TERM, STOP_TIMEOUT).map(drop)
    }

    /// CPU time of all threads of squid in nanoseconds. Its helper processes do nothing with this configuration.
    pub fn cpu_ns(&self) -> u64 {
        cpu::process_cpu_ns(self.service.pid()).unwrap_or(0)
    }

    /// User and system time in clock ticks, to split [`Squid::cpu_ns`] by.
    pub fn ticks(&self) -> (u64, u64) {
        cpu::user_and_system_ticks(&SysRoot::host(), self.service.pid()).unwrap_or((0, 0))
    }
}

/// The shared memory of a squid, identified by its service name. Dropping it removes the memory, and also the memory of
/// squids whose fsarena has ended. A squid that shuts down in order has removed it already.
///
/// A process id does not identify a squid, because each cell can have a separate PID namespace. Instead, a locked file
/// beside the memory shows that its owner is alive.
struct SharedMemory {
    service_name: String,
    _lock: File,
}

impl SharedMemory {
    /// Claims a service name that no other squid has.
    fn claim(dir: &Path) -> Result<SharedMemory> {
        let nanoseconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_nanos());
        let service_name = format!("{SERVICE_PREFIX}{nanoseconds:x}");
        // The file gets its final name only after it is locked, so others never see it unlocked.
        let (unlocked_path, path) =
            (dir.join(format!(".{service_name}{LOCK_SUFFIX}")), dir.join(format!("{service_name}{LOCK_SUFFIX}")));
        let lock = File::create_new(&unlocked_path).map_err(failed_to("make", &unlocked_path))?;
        lock.lock().map_err(failed_to("lock", &unlocked_path))?;
        std::fs::rename(&unlocked_path, &path).map_err(failed_to("make", &path))?;
        Ok(SharedMemory { service_name, _lock: lock })
    }

    /// Removes the memory of this squid and of those whose lock file is unlocked.
    fn remove_unused(&self, dir: &Path) {
        let file_names = || std::fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.file_name());
        for lock_name in file_names() {
            // Other programs have lock files in this directory, too.
            let service_name = lock_name.to_str().and_then(|name| name.strip_suffix(LOCK_SUFFIX));
            let Some(service_name) = service_name.filter(|name| name.starts_with(SERVICE_PREFIX)) else { continue };
            if service_name != self.service_name && !is_unlocked(&dir.join(&lock_name)) {
                continue;
            }
            let memory_prefix = format!("{service_name}-");
            for name in file_names().filter(|name| *name != lock_name) {
                if name.to_str().is_some_and(|name| name.starts_with(&memory_prefix)) {
                    // Another run may have removed it already.
                    let _ = std::fs::remove_file(dir.join(name));
                }
            }
            let _ = std::fs::remove_file(dir.join(&lock_name));
        }
    }
}

impl Drop for SharedMemory {
    fn drop(&mut self) {
        self.remove_unused(Path::new(MEMORY_DIR));
    }
}

/// Whether a file can be read and no process has locked it. Every user can put a link or a pipe in its directory: a link
/// does not count, and opening a pipe does not wait for a writer.
fn is_unlocked(path: &Path) -> bool {
    let opened = File::options().read(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(path);
    opened.is_ok_and(|file| file.try_lock().is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_that_squid_would_split_are_refused() {
        assert!(check_path(Path::new("/var/tmp/runs/1.d/cache")).is_ok());
        let error = check_path(Path::new("/var/my runs/cache")).unwrap_err().to_string();
        assert_eq!(
            error,
            "squid cannot read paths with blanks, such as \"/var/my runs/cache\"; keep the runs elsewhere: runs=/var/tmp/runs"
        );
    }

    #[test]
    fn the_memory_of_ended_squids_is_removed_and_that_of_running_ones_stays() {
        let dir = tempfile::tempdir().unwrap();
        let [own, running, killed] = [(); 3].map(|()| SharedMemory::claim(dir.path()).unwrap());
        for memory in [&own, &running, &killed] {
            std::fs::write(dir.path().join(format!("{}-cf__queues.shm", memory.service_name)), "").unwrap();
        }
        std::fs::write(dir.path().join("fsarena-a-run"), "").unwrap();
        // Opening a pipe without O_NONBLOCK would wait for a writer.
        for name in ["other-lock", "fsarena1-lock"] {
            let mode = rustix::fs::Mode::from_raw_mode(0o600);
            let path = dir.path().join(name);
            rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, mode, 0).unwrap();
        }
        // As if its process had been killed.
        let SharedMemory { _lock: lock, .. } = &killed;
        lock.unlock().unwrap();
        own.remove_unused(dir.path());
        let mut remaining_files: Vec<String> = std::fs::read_dir(dir.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        remaining_files.sort();
        let service_name = &running.service_name;
        assert_eq!(
            remaining_files,
            [
                "fsarena-a-run".into(),
                format!("{service_name}-cf__queues.shm"),
                format!("{service_name}{LOCK_SUFFIX}"),
                "other-lock".into()
            ]
        );
    }
}
