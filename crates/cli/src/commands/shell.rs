//! `fsarena shell`: a shell on a fresh filesystem, in a guest.

use super::run::{absolute_kernel_level, environment_variable};
use crate::commands::{handle_signals, run_unstored};
use crate::failure::print_message;
use crate::failure::{CommandResult, Failure, usage_error};
use crate::flags::{absolute_path, absolute_text, parse_byte_size};
use bytesize::ByteSize;
use fsarena_core::plan::file::PlanFile;
use fsarena_core::plan::resolve::Overrides;
use fsarena_core::plan::{Backing, Emulator, GuestPlan};
use fsarena_core::{exit::ExitCode, factor};
use fsarena_run::{Destination, RunRequest, ShellSession, registry};
use std::path::PathBuf;
use toml::{Table, Value};

/// Open a shell on a fresh filesystem in a guest kernel
///
/// The shell is yours, with the programs and files of this machine, which it cannot change: what it writes outside the
/// filesystem vanishes with the guest. Its working directory is the filesystem. Needs no root. fsarena ends with the exit
/// code of the shell.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Where to run: qemu
    #[arg(long, value_name = "WHERE", value_parser = ["qemu"], default_value = "qemu")]
    on: String,
    /// Filesystem to make
    #[arg(long, value_name = "FS", default_value = "ext4")]
    fs: String,
    /// Option set of the filesystem (list them: `fsarena list filesystems`)
    #[arg(long, value_name = "SET")]
    options: Option<String>,
    /// Additional mkfs arguments
    #[arg(long, value_name = "ARGS", allow_hyphen_values = true)]
    mkfs: Option<String>,
    /// Additional mount options, comma-separated
    #[arg(long, value_name = "OPTIONS")]
    mount: Option<String>,
    /// Image size [default: 2GiB]
    #[arg(long, value_name = "SIZE", value_parser = parse_byte_size)]
    size: Option<ByteSize>,
    /// Guest kernel: a path, or `debian:6.1`
    #[arg(long, value_name = "KERNEL")]
    kernel: Option<String>,
    /// Directory with the modules of a kernel that is named by path
    #[arg(long, value_name = "DIR")]
    modules: Option<PathBuf>,
    /// Guest memory [default: 1GiB]
    #[arg(long, value_name = "SIZE", value_parser = parse_byte_size)]
    guest_memory: Option<ByteSize>,
    /// File or directory of yours to copy to the source disk; the shell finds it at its own path, and as $FSARENA_INPUT
    #[arg(long, value_name = "PATH")]
    input: Option<PathBuf>,
    /// Environment variable of the shell: `NAME=VALUE`, or `NAME` for its value here; repeatable
    #[arg(long, value_name = "VARIABLE")]
    env: Vec<String>,
    /// Program and arguments to run instead of your shell
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
}

/// The size of the image by default.
const DEFAULT_IMAGE_SIZE: ByteSize = ByteSize::gib(2);

/// Runs the shell, and ends the process with its exit code.
pub fn run(args: Args) -> CommandResult {
    handle_signals()?;
    let mut command = args.command.clone();
    if command.is_empty() {
        let shell = std::env::var("SHELL").ok().filter(|shell| !shell.is_empty());
        command.push(shell.unwrap_or_else(|| "/bin/sh".into()));
    }
    let parsed_plan = PlanFile::parse("the command line", args.plan_text(&command)?.as_bytes())?;
    let plan = registry::resolve(&parsed_plan, &args.overrides()?)?;
    let session = ShellSession::new(command);
    let mut request = RunRequest::new(plan, Destination::ConsumersOnly(std::env::temp_dir()));
    request.shell = Some(session.clone());
    if session.is_terminal {
        print_message(&format!("fsarena: starting a guest with {}", args.fs));
    }
    run_unstored(request, &mut [])?;
    match session.exit_code() {
        Some(0) => Ok(ExitCode::Done),
        // Everything that the guest needed has been removed.
        Some(code) => std::process::exit(code),
        None => Err(Failure::new(ExitCode::Internal, "the guest ended without an exit code of the shell")),
    }
}

impl Args {
    /// The plan of one cell that runs this command.
    fn plan_text(&self, command: &[String]) -> Result<String, Failure> {
        let mut workload = Table::from_iter([
            ("use".to_string(), Value::from("command")),
            ("task".into(), vec![Value::Table(Table::from_iter([("run".into(), command.to_vec().into())]))].into()),
        ]);
        if let Some(input) = &self.input {
            workload.insert("input".into(), absolute_text(input)?.into());
        }
        let variables = self.env.iter().map(|variable| environment_variable(variable));
        workload.insert("env".into(), variables.collect::<Result<Vec<_>, _>>()?.into());
        let plan = Table::from_iter([
            ("name".to_string(), Value::from("shell")),
            ("title".into(), "A shell".into()),
            ("question".into(), "What does the filesystem do?".into()),
            ("idle".into(), Table::from_iter([("timeout".to_string(), Value::from("1ms"))]).into()),
            ("workload".into(), vec![Value::Table(workload)].into()),
        ]);
        Ok(plan.to_string())
    }

    /// The overrides that make a guest with one filesystem.
    fn overrides(&self) -> Result<Overrides, Failure> {
        if self.fs.contains(',') {
            return usage_error("--fs: a shell has one filesystem");
        }
        let default_plan = GuestPlan::of(Emulator::Qemu);
        let guest = GuestPlan {
            modules: self.modules.as_deref().map(absolute_path).transpose()?,
            memory: self.guest_memory.unwrap_or(default_plan.memory),
            ..default_plan
        };
        let kernel = self.kernel.as_deref().map(absolute_kernel_level).transpose()?;
        let levels = [
            (factor::FS, Some(self.fs.clone())),
            (factor::OPTIONS, self.options.clone()),
            (factor::MKFS, self.mkfs.clone()),
            (factor::MOUNT, self.mount.clone()),
            (factor::KERNEL, kernel),
        ];
        let levels = levels.into_iter().filter_map(|(id, level)| Some((id.to_string(), vec![level?])));
        Ok(Overrides {
            rounds: Some(1),
            factors: levels.collect(),
            backing: Some(Backing::Guest(guest)),
            size: Some(self.size.unwrap_or(DEFAULT_IMAGE_SIZE)),
            ..Overrides::default()
        })
    }
}
