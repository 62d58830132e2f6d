//! Completions of shells, and the manual pages.

use crate::common::{self, Sandbox, stored, text};
use fsarena_sys::testkit::has_program;
use std::process::Command;

/// Runs a shell whose path begins with the directory of fsarena. Returns its standard output.
#[track_caller]
fn run_shell(sandbox: &Sandbox, program: &str, args: &[&str]) -> String {
    let path = std::env::var("PATH").unwrap_or_default();
    let mut command = Command::new(program);
    command.args(args).current_dir(&sandbox.dir).env_clear().env("HOME", sandbox.dir.join("home"));
    command.env("PATH", format!("{}:{path}", common::program().parent().unwrap().display()));
    let output = command.env("FSARENA_RUNS", sandbox.runs_dir()).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    text(&output.stdout)
}

/// The completions of bash for the last of these words. Bash splits words also at `=` and `:`.
#[track_caller]
fn complete_in_bash(sandbox: &Sandbox, words: &[&str]) -> String {
    let quoted = shlex::try_join(words.iter().copied()).unwrap();
    let script = format!(
        "source <(fsarena completions bash); COMP_WORDS=(fsarena {quoted}); COMP_CWORD={}; _fsarena; echo \"${{COMPREPLY[*]}}\"",
        words.len()
    );
    run_shell(sandbox, "bash", &["--norc", "-c", &script]).trim_end().to_string()
}

#[test]
fn bash_completes_names_that_fsarena_looks_up() {
    let sandbox = Sandbox::new();
    let id = stored::store_run(&sandbox.runs_dir()).id();
    let baseline = sandbox.dir.join("elsewhere/baselines/main");
    std::fs::create_dir_all(&baseline).unwrap();
    std::fs::write(baseline.join("baseline.json"), "").unwrap();
    for (words, expected) in [
        (&["rec"][..], "recover"),
        (&["run", "wi"], "wilton"),
        (&["run", "--fs", "ext4,xf"], "ext4,xfs"),
        (&["run", "--options", "noat"], "noatime"),
        (&["run", "--factor", "sched"], "scheduler="),
        // Bash replaces only what follows `=` or `:`.
        (&["run", "--factor", "scheduler", "=", "none,bf"], "none,bfq"),
        (&["ab", "--a", "fs", "=", "ext4,options", "=", "noat"], "noatime"),
        (&["show", "published", ":", "piszcz-II"], "piszcz-II"),
        (&["run", "--on", "dir", ":", "sh"], "shims/"),
        (&["run", "--on", "zr"], "zram"),
        (&["run", "--workload", "coreu"], "coreutils"),
        (&["run", "--set", "driver", "=", "nat"], "native"),
        (&["run", "--weight", "rm"], "rm-tree="),
        (&["run", "piszcz", "--weight", "unta"], "untar="),
        (&["run", "--stage", "satu"], "saturation"),
        (&["run", "--metric", "elapsed,cpu_ut"], "elapsed,cpu_utilization"),
        (&["run", "--scale", "ti"], "tiny"),
        (&["run", "pl"], "plan.toml"),
        (&["report", &id[..12]], &id),
        (&["report", "--format", "juni"], "junit"),
        (&["compare", "latest", "late"], "latest"),
        (&["analyse", "--explain", "touc"], "touch"),
        (&["report", "--current", "xf"], "xfs"),
        (&["list", "fact"], "factors"),
        (&["run", "--runs", "nowhere", "--resume", "2"], ""),
        (&["ab", "--runs", "elsewhere", "--baseline", "mai"], "main"),
    ] {
        assert_eq!(complete_in_bash(&sandbox, words), expected, "{words:?}");
    }
}

#[test]
fn zsh_fish_and_nushell_complete_too() {
    let sandbox = Sandbox::new();
    if has_program("fish") {
        let script = "fsarena completions fish | source; complete -C 'fsarena run wi'; complete -C 'fsarena recov'";
        let completions = run_shell(&sandbox, "fish", &["--no-config", "-c", script]);
        assert!(
            completions.starts_with("wilton\tWilton") && completions.contains("\nrecover\tClean up"),
            "{completions}"
        );
    }
    if has_program("zsh") {
        // Only the line editor of zsh completes, so below the test runs what this function runs.
        let script = "compdef() { functions $1 }; source <(fsarena completions zsh)";
        let function = run_shell(&sandbox, "zsh", &["-f", "-c", script]);
        assert!(function.contains("COMPLETE=\"zsh\""), "{function}");
    }
    let mut completing = sandbox.fsarena(&["--", "fsarena", "run", "wi"]);
    let output = completing.env("COMPLETE", "zsh").env("_CLAP_COMPLETE_INDEX", "2").output().unwrap();
    assert!(text(&output.stdout).starts_with("wilton:Wilton"), "{output:?}");
    let (nushell, _) = sandbox.expect(0, &["completions", "nushell"]);
    let studies = nushell.split("run plan\"").nth(1).unwrap().lines().nth(1).unwrap();
    assert!(studies.contains("\"wilton\"") && nushell.contains("export extern \"fsarena recover\""), "{nushell}");
}

#[test]
fn every_command_has_a_manual_page_without_groff_warnings() {
    let sandbox = Sandbox::new();
    let home = sandbox.dir.join("home");
    sandbox.expect(0, &["man", "home"]);
    let (help, _) = sandbox.expect(0, &["--help"]);
    let commands = help.split("Commands:\n").nth(1).unwrap().split("\n\n").next().unwrap();
    let commands = commands.lines().filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    let commands = commands.filter_map(|line| line.split_whitespace().next()).filter(|name| *name != "help");
    let mut pages: Vec<String> = commands.map(|name| format!("fsarena-{name}.1")).collect();
    pages.push("fsarena.1".into());
    assert!(pages.len() > 15, "{pages:?}");
    assert_eq!(std::fs::read_dir(&home).unwrap().count(), pages.len());
    for page in &pages {
        let text = std::fs::read_to_string(home.join(page)).unwrap();
        assert!(text.contains(".SH DESCRIPTION") && text.contains(env!("CARGO_PKG_VERSION")), "{page}");
    }
    if has_program("groff") {
        let mut groff = Command::new("groff");
        let output =
            groff.args(["-k", "-man", "-ww", "-Tutf8", "-z"]).args(&pages).current_dir(&home).output().unwrap();
        assert!(output.status.success() && output.stderr.is_empty(), "{}", text(&output.stderr));
    }
    let (_, stderr) = sandbox.expect(2, &["man", "no/such"]);
    assert!(stderr.contains("no/such"), "{stderr}");
}
