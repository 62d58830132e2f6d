//! `fsarena completions` and `fsarena man`: print completion scripts and write manual pages, from the definitions of the
//! arguments.

use crate::failure::{CommandResult, Failure, printing_failure};
use crate::{complete, output};
use clap::{Command, ValueEnum};
use clap_complete::env::{EnvCompleter, Fish, Zsh};
use clap_complete::generate;
use clap_complete_nushell::Nushell;
use clap_mangen::Man;
use fsarena_core::exit::ExitCode;
use std::path::{Path, PathBuf};

/// Print a script that completes commands, flags and names in a shell
///
/// Packages install it. Without a package, add to the start-up file of the shell:
///
///   bash     source <(fsarena completions bash)
///   zsh      source <(fsarena completions zsh)     after compinit
///   fish     fsarena completions fish | source
///   nushell  fsarena completions nushell | save -f ~/.config/nushell/autoload/fsarena.nu
///
/// bash, zsh and fish call fsarena for the studies, runs, filesystems, factors,
/// tasks and metrics at each completion. The script for nushell has the names of
/// this version of fsarena, without runs.
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    /// Shell
    #[arg(value_enum)]
    shell: Shell,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Shell {
    Bash,
    Zsh,
    Fish,
    Nushell,
}

/// Prints the script.
pub fn run(args: Args, cli: Command) -> CommandResult {
    let mut script = Vec::new();
    let register = |shell: &dyn EnvCompleter, script: &mut Vec<u8>| {
        shell.write_registration("COMPLETE", "fsarena", "fsarena", "fsarena", script).map_err(printing_failure)
    };
    match args.shell {
        Shell::Bash => script.extend(include_bytes!("../complete/fsarena.bash")),
        Shell::Zsh => {
            register(&Zsh, &mut script)?;
            // zsh loads an installed script at the first TAB, and then expects the completions from the script itself.
            script.extend(b"[[ $funcstack[1] == _fsarena ]] && _clap_dynamic_completer_fsarena || true\n");
        }
        Shell::Fish => register(&Fish, &mut script)?,
        Shell::Nushell => generate(Nushell, &mut complete::add_fixed_values(cli), "fsarena", &mut script),
    }
    output::print_text(script)
}

/// Write the manual pages of all commands into a directory
#[derive(Debug, clap::Args)]
pub struct ManArgs {
    /// Existing directory
    #[arg(value_name = "DIR")]
    dir: PathBuf,
}

/// Writes `fsarena.1`, `fsarena-run.1` and so on.
pub fn write_man_pages(args: ManArgs, cli: Command) -> CommandResult {
    let mut command = cli.disable_help_subcommand(true);
    command.build();
    write_pages(&command, &args.dir).map_err(Failure::for_path(&args.dir))?;
    Ok(ExitCode::Done)
}

/// Writes the pages of a command and its subcommands.
fn write_pages(command: &Command, dir: &Path) -> std::io::Result<()> {
    let page = Man::new(command.clone()).source(concat!("fsarena ", env!("CARGO_PKG_VERSION"))).manual("fsarena");
    page.generate_to(dir)?;
    command.get_subcommands().filter(|command| !command.is_hide_set()).try_for_each(|command| write_pages(command, dir))
}
