//! What shells complete, and the manual pages.

use crate::common::{self, Place, stored, text};
use fsarena_sys::testkit::program;
use std::process::Command;

/// What a shell prints that finds fsarena first in its path.
#[track_caller]
fn shell(place: &Place, program: &str, args: &[&str]) -> String {
    let path = std::env::var("PATH").unwrap_or_default();
    let mut command = Command::new(program);
    command.args(args).current_dir(&place.dir).env_clear().env("HOME", place.dir.join("home"));
    command.env("PATH", format!("{}:{path}", common::program().parent().unwrap().display()));
    let output = command.env("FSARENA_RUNS", place.runs()).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    text(&output.stdout)
}

/// What bash offers for the last of these words, which are parted as bash parts them.
#[track_caller]
fn bash(place: &Place, words: &[&str]) -> String {
    let quoted = shlex::try_join(words.iter().copied()).unwrap();
    let script = format!(
        "source <(fsarena completions bash); COMP_WORDS=(fsarena {quoted}); COMP_CWORD={}; _fsarena; echo \"${{COMPREPLY[*]}}\"",
        words.len()
    );
    shell(place, "bash", &["--norc", "-c", &script]).trim_end().to_string()
}

#[test]
fn bash_completes_names_that_fsarena_looks_up() {
    let place = Place::new();
    let id = stored::run(&place.runs()).id();
    for (words, offered) in [
        (&["rec"][..], "recover"),
        (&["run", "wi"], "wilton"),
        (&["run", "--fs", "ext4,xf"], "ext4,xfs"),
        (&["run", "--options", "noat"], "noatime"),
        (&["run", "--factor", "sched"], "scheduler="),
        // Bash parts words at = and :, and takes only what follows.
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
    ] {
        assert_eq!(bash(&place, words), offered, "{words:?}");
    }
}

#[test]
fn zsh_and_fish_complete_too() {
    let place = Place::new();
    if program("fish") {
        let script = "fsarena completions fish | source; complete -C 'fsarena run wi'; complete -C 'fsarena recov'";
        let offered = shell(&place, "fish", &["--no-config", "-c", script]);
        assert!(offered.starts_with("wilton\tWilton") && offered.contains("\nrecover\tClean up"), "{offered}");
    }
    if program("zsh") {
        // Only the line editor of zsh completes, so below the test asks as the script does.
        let script = "compdef() { functions $1 }; source <(fsarena completions zsh)";
        let function = shell(&place, "zsh", &["-f", "-c", script]);
        assert!(function.contains("COMPLETE=\"zsh\""), "{function}");
    }
    let mut asked = place.fsarena(&["--", "fsarena", "run", "wi"]);
    let offered = asked.env("COMPLETE", "zsh").env("_CLAP_COMPLETE_INDEX", "2").output().unwrap();
    assert!(text(&offered.stdout).starts_with("wilton:Wilton"), "{offered:?}");
    let (nushell, _) = place.expect(0, &["completions", "nushell"]);
    let studies = nushell.split("run plan\"").nth(1).unwrap().lines().nth(1).unwrap();
    assert!(studies.contains("\"wilton\"") && nushell.contains("export extern \"fsarena recover\""), "{nushell}");
}

/// Every command has a page, and groff finds no fault in any.
#[test]
fn manual_pages() {
    let place = Place::new();
    let home = place.dir.join("home");
    place.expect(0, &["man", "home"]);
    let (help, _) = place.expect(0, &["--help"]);
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
    if program("groff") {
        let mut groff = Command::new("groff");
        let output =
            groff.args(["-k", "-man", "-ww", "-Tutf8", "-z"]).args(&pages).current_dir(&home).output().unwrap();
        assert!(output.status.success() && output.stderr.is_empty(), "{}", text(&output.stderr));
    }
    let (_, said) = place.expect(2, &["man", "no/such"]);
    assert!(said.contains("no/such"), "{said}");
}
