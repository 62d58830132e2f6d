//! Tests of the book and the README: their command lines parse, their plans resolve, and their links have targets.

use crate::args::{Cli, EXIT_CODES};
use crate::doc_pages::{Block, pages, read_page, repository_root, split_page};
use clap::{CommandFactory, Parser};
use fsarena_core::{factor, number::percent, plan::file::PlanFile, plan::resolve::Overrides};
use fsarena_fs::{def::FsDef, filesystems::FILESYSTEMS};
use fsarena_load::workloads::WORKLOADS;
use fsarena_run::{axes, registry};
use fsarena_stats::power::rounds_to_pass;
use regex::Regex;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// The fenced blocks of all pages.
fn all_blocks() -> Vec<Block> {
    pages().iter().flat_map(|page| split_page(page).0).collect()
}

/// The words of a command line of fsarena, without its prompt, its comment, and redirections of the shell. None if the line
/// is not a command of fsarena.
fn words_of_command_line(line: &str) -> Option<Vec<String>> {
    let line = line.strip_prefix("$ ").unwrap_or(line);
    let line = line.starts_with("fsarena ").then_some(line)?;
    let words = shlex::split(line).unwrap_or_else(|| panic!("not a shell command: {line}"));
    Some(words.into_iter().take_while(|word| ![">", "|", "&&", "2>"].contains(&word.as_str())).collect())
}

#[test]
fn every_command_line_in_the_book_parses() {
    let (mut count, mut errors) = (0, vec![]);
    for block in all_blocks() {
        // Where commands have a prompt, the other lines are what they print.
        let has_prompts = block.text.lines().any(|line| line.starts_with("$ "));
        let text = block.text.replace("\\\n", "");
        let commands = text.lines().filter(|line| !has_prompts || line.starts_with("$ "));
        for words in commands.filter_map(words_of_command_line) {
            count += 1;
            let (page, line) = (block.page.display(), words.join(" "));
            // clap returns help as an error too, but does not print it to standard error.
            if let Err(error) = Cli::try_parse_from(&words)
                && error.use_stderr()
            {
                errors.push(format!("{page}: {line}: {error}"));
            }
            let is_study_name =
                |word: &&String| word.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || "/_".contains(c));
            let takes_study = matches!(words[1].as_str(), "run" | "ab");
            let study = words.get(2).filter(|_| takes_study).filter(is_study_name);
            if study.is_some_and(|name| fsarena_core::study::shipped_plan(name).is_none()) {
                errors.push(format!("{page}: {line}: unknown study"));
            }
        }
    }
    assert!(errors.is_empty(), "{}", errors.join("\n"));
    assert!(count > 80, "only {count} command lines were found");
}

#[test]
fn the_page_of_exit_codes_equals_the_help() {
    let page = repository_root().join("docs/reference/exit-codes.md");
    let texts: Vec<String> = split_page(&page).0.into_iter().map(|block| block.text).collect();
    assert_eq!(texts, [format!("{EXIT_CODES}\n")]);
}

#[test]
fn every_plan_in_the_book_resolves() {
    let mut count = 0;
    for block in all_blocks().iter().filter(|block| block.language == "toml" && block.text.contains("[[workload]]")) {
        count += 1;
        let page = block.page.display();
        // A page may show only the workload of a plan.
        let head = if block.text.contains("name = ") { "" } else { "name = \"part\"\n[factors]\nfs = \"ext4\"\n" };
        let text = format!("{head}{}", block.text);
        let parsed_plan = PlanFile::parse("plan.toml", text.as_bytes()).unwrap_or_else(|e| panic!("{page}: {e}"));
        if let Err(failure) = registry::resolve(&parsed_plan, &Overrides::default()) {
            panic!("{page}: {failure}");
        }
    }
    assert!(count > 0, "no plan was found");
}

/// Flags in the prose that are those of other programs: rustc, fio, hyperfine, dbench, docker, mkfs and cp.
const FOREIGN_FLAGS: &[&str] = &[
    "--ramp_time",
    "--random_distribution",
    "--number_ios",
    "--io_size",
    "--create_on_open",
    "--zero_buffers",
    "--rate_iops",
    "--stonewall",
    "--thinktime",
    "--bssplit",
    "--write_bw_log",
    "--remap-path-prefix",
    "--output-format",
    "--client",
    "--gtod_reduce",
    "--status-interval",
    "--export-json",
    "--machine-readable",
    "--skip-cleanup",
    "--privileged",
    "--roo",
    "--rootdir",
    "--metadata",
    "--reflink",
];

/// The command with which fsarena starts itself as an agent. Users never type it.
const AGENT_COMMAND: &str = "agent";

/// The long flags of a command, including the global flags.
fn long_flags(command: &clap::Command) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for arg in command.get_arguments() {
        let spellings = arg.get_long().into_iter().chain(arg.get_all_aliases().into_iter().flatten());
        names.extend(spellings.map(|name| format!("--{name}")));
    }
    names
}

/// The pieces of code in the text of a page.
fn code_spans(prose: &str) -> Vec<String> {
    let spans = Regex::new("`([^`]+)`").unwrap();
    spans.captures_iter(prose).map(|span| span[1].to_string()).collect()
}

/// The commands and flags in a piece of code that the program does not have. Empty if the piece is neither a command line
/// nor a flag of fsarena.
fn unknown_names(cli: &clap::Command, span: &str) -> Vec<String> {
    let words: Vec<&str> = span.split_whitespace().collect();
    let command = words.get(1).filter(|word| words[0] == "fsarena" && word.starts_with(char::is_lowercase));
    let known: BTreeSet<String> = match command {
        Some(name) => match cli.find_subcommand(name) {
            Some(command) => long_flags(command),
            None if *name == AGENT_COMMAND => return vec![],
            None => return vec![format!("command {name}")],
        },
        None if words[0] == "fsarena" || words[0].starts_with("--") => {
            cli.get_subcommands().flat_map(long_flags).collect()
        }
        None => return vec![],
    };
    // The words after `--` are the command of a user.
    let flags = words.into_iter().take_while(|word| *word != "--").filter(|word| word.starts_with("--"));
    let names = flags.map(|word| word.split(['=', '[', ',']).next().unwrap());
    let is_unknown = |name: &&str| !known.contains(*name) && !FOREIGN_FLAGS.contains(name);
    names.filter(is_unknown).map(|name| format!("flag {name}")).collect()
}

#[test]
fn every_flag_in_the_prose_exists() {
    let mut cli = Cli::command();
    cli.build();
    let mut errors = vec![];
    // Decision records keep the names that were valid when they were written.
    for page in pages().into_iter().filter(|page| !page.starts_with(repository_root().join("docs/adr"))) {
        for span in code_spans(&split_page(&page).1) {
            let unknown = unknown_names(&cli, &span).into_iter();
            errors.extend(unknown.map(|name| format!("{}: `{span}`: unknown {name}", page.display())));
        }
    }
    assert!(errors.is_empty(), "{}", errors.join("\n"));
    assert_eq!(unknown_names(&cli, "fsarena run --rouds 8 -- cp --reflunk"), ["flag --rouds"]);
}

/// The ids of the settings of all workloads.
fn setting_ids() -> BTreeSet<&'static str> {
    WORKLOADS.iter().flat_map(|workload| workload.def().settings).map(|setting| setting.id).collect()
}

/// The code in the first column of all tables whose header row begins with the word `title`.
fn first_column(prose: &str, title: &str) -> Vec<String> {
    let (mut cells, mut in_table, mut cell_above) = (vec![], false, String::new());
    for line in prose.lines() {
        let first_cell = line.strip_prefix("| ").and_then(|line| line.split(" |").next());
        match first_cell {
            None => in_table = line.starts_with("|---") && cell_above.split(' ').next() == Some(title),
            Some(cell) if in_table => cells.extend(code_spans(cell)),
            Some(_) => {}
        }
        cell_above = first_cell.unwrap_or_default().to_string();
    }
    cells
}

#[test]
fn every_metric_in_the_command_lines_of_the_book_exists() {
    let metric_flag = Regex::new("--metric ([a-z0-9_,]+)").unwrap();
    for page in pages() {
        for flag in metric_flag.captures_iter(&read_page(&page)) {
            for name in flag[1].split(',') {
                assert!(crate::flags::parse_metric(name).is_ok(), "{}: {name}", page.display());
            }
        }
    }
}

#[test]
fn every_factor_and_setting_that_the_book_names_exists() {
    let (factors, settings) = (axes::all_factors(), setting_ids());
    let exists = |name: &str| match name.strip_prefix(factor::SETTING_PREFIX) {
        Some(setting) => settings.contains(setting),
        None => factor::find(name, &factors).is_ok(),
    };
    assert!(exists("set.journal") && !exists("set.jurnal") && !exists("speed"));
    let factor_flag = Regex::new(r"--factor ([a-z_.]+)=").unwrap();
    let set_flag = Regex::new(r"--set ([a-z_]+)=").unwrap();
    let (mut count, mut unknown) = (0, vec![]);
    for page in pages() {
        let (text, prose) = (read_page(&page), split_page(&page).1);
        let names_after =
            |flag: &Regex| -> Vec<String> { flag.captures_iter(&text).map(|found| found[1].to_string()).collect() };
        let factor_names = [names_after(&factor_flag), first_column(&prose, "factor")].concat();
        let setting_names = [names_after(&set_flag), first_column(&prose, "setting")].concat();
        count += factor_names.len() + setting_names.len();
        let unknown_factors = factor_names.iter().filter(|name| !exists(name));
        let unknown_settings = setting_names.iter().filter(|name| !settings.contains(name.as_str()));
        unknown.extend(unknown_factors.chain(unknown_settings).map(|name| format!("{}: {name}", page.display())));
    }
    assert!(unknown.is_empty(), "unknown factors or settings:\n{}", unknown.join("\n"));
    assert!(count > 80, "only {count} factors and settings were found");
}

/// The option sets of a filesystem, as a table.
fn option_set_table(def: &FsDef) -> String {
    let code = |words: &[&str], separator| {
        if words.is_empty() { String::new() } else { format!("`{}`", words.join(separator)) }
    };
    let rows = def.option_sets.iter().map(|set| {
        let devices = [("journal", set.journal), ("raid", set.raid)];
        let devices = devices.iter().filter(|(_, level)| !level.is_empty());
        let devices: String = devices.map(|(factor, level)| format!("; `{factor}={level}`")).collect();
        format!("| `{}` | {} | {} | {}{devices} |\n", set.id, code(set.mkfs, " "), code(set.mount, ","), set.help)
    });
    let rows: String = rows.collect();
    format!("## {}\n| option set | mkfs | mount | effect |\n|---|---|---|---|\n{rows}\n", def.id)
}

/// With `FSARENA_GUIDE=all` this test writes the tables instead, as other tests write the outputs of commands.
#[test]
fn the_option_sets_are_those_of_the_program() {
    let page = repository_root().join("docs/reference/option-sets.md");
    let page_text = read_page(&page);
    let (intro, _) = page_text.split_once("\n## ").expect("a table for each filesystem");
    let tables: String = FILESYSTEMS.iter().copied().map(option_set_table).collect();
    let expected = format!("{intro}\n{}\n", tables.trim_end());
    if std::env::var_os("FSARENA_GUIDE").is_some() {
        std::fs::write(&page, expected).unwrap();
    } else {
        assert_eq!(page_text, expected, "write the tables: make guide");
    }
}

/// The table of the rounds in which a gate passes an equal candidate, by noise and margin, and the minutes that these rounds
/// take at 10 seconds each.
fn gate_rounds_table() -> String {
    let margins = [0.002, 0.005, 0.01, 0.02, 0.05, 0.1];
    let table_row = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
    let header = std::iter::once("σ".into()).chain(margins.map(|margin| format!("margin {}", percent(margin))));
    let mut table = table_row(header.collect()) + "|---|---:|---:|---:|---:|---:|---:|\n";
    for sigma in [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1] {
        let rounds = margins.map(|margin| match rounds_to_pass(sigma, margin) {
            Some(rounds) => format!("{rounds} ({:.0} min)", (rounds as f64 / 6.0).ceil()),
            None => "over 400".into(),
        });
        table += &table_row(std::iter::once(percent(sigma)).chain(rounds).collect());
    }
    table
}

/// With `FSARENA_GUIDE=all` this test writes the table instead.
#[test]
fn the_rounds_of_gates_are_computed() {
    let page = repository_root().join("docs/guide/gate.md");
    let page_text = read_page(&page);
    let (before, rest) = page_text.split_once("<!-- rounds -->\n").expect("a mark before the table");
    let (_, after) = rest.split_once("<!-- end -->").expect("a mark after it");
    let expected = format!("{before}<!-- rounds -->\n{}<!-- end -->{after}", gate_rounds_table());
    if std::env::var_os("FSARENA_GUIDE").is_some() {
        std::fs::write(&page, expected).unwrap();
    } else {
        assert_eq!(page_text, expected, "write the table: make guide");
    }
}

/// The targets of a page's links: the text in `](…)`, `href="…"` and `src="…"`.
fn links(prose: &str) -> Vec<String> {
    let texts_between = |open: &str, close: char| -> Vec<String> {
        let parts = prose.split(open).skip(1);
        parts.filter_map(|part| part.split_once(close)).map(|(link, _)| link.to_string()).collect()
    };
    [texts_between("](", ')'), texts_between("href=\"", '"'), texts_between("src=\"", '"')].concat()
}

/// The anchors of a page's headings, as mdBook and GitHub make them.
fn anchors(page: &Path) -> BTreeSet<String> {
    let prose = split_page(page).1;
    let headings = prose.lines().filter_map(|line| line.strip_prefix('#'));
    let anchor = |heading: &str| -> String {
        let heading = heading.trim_start_matches('#').trim().to_lowercase();
        let letters = heading.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
        letters.map(|c| if c == ' ' { '-' } else { c }).collect()
    };
    headings.map(anchor).collect()
}

#[test]
fn every_link_has_a_target() {
    let mut broken = vec![];
    for page in pages() {
        let is_local = |link: &String| !link.contains("://") && !link.starts_with("mailto:");
        for link in links(&split_page(&page).1).into_iter().filter(is_local) {
            let (path, anchor) = link.split_once('#').unwrap_or((&link, ""));
            let target = if path.is_empty() { page.clone() } else { page.parent().unwrap().join(path) };
            if !target.exists() || (!anchor.is_empty() && !anchors(&target).contains(anchor)) {
                broken.push(format!("{}: {link}", page.display()));
            }
        }
    }
    assert!(broken.is_empty(), "broken links:\n{}", broken.join("\n"));
}

#[test]
fn the_summary_lists_every_page() {
    let docs = repository_root().join("docs");
    let summary = links(&read_page(&docs.join("SUMMARY.md")));
    let listed: BTreeSet<PathBuf> = summary.iter().map(|link| docs.join(link)).collect();
    let outside = [repository_root().join("README.md"), docs.join("SUMMARY.md"), docs.join("scale.md")];
    // Decision records are for those who change fsarena: the contributing pages link to them.
    let is_in_book = |page: &PathBuf| !outside.contains(page) && !page.starts_with(docs.join("adr"));
    let pages: BTreeSet<PathBuf> = pages().into_iter().filter(is_in_book).collect();
    assert_eq!(pages, listed);
    // A page of the book must not link to a page outside the book, because the built book does not have it.
    for page in &listed {
        let is_outside = |link: &String| {
            let target = page.parent().unwrap().join(link.split('#').next().unwrap());
            link.contains(".md") && target.canonicalize().is_ok_and(|target| !listed.contains(&target))
        };
        let links = links(&split_page(page).1).into_iter().filter(|link| !link.contains("://"));
        assert_eq!(links.filter(is_outside).collect::<Vec<_>>(), [""; 0], "{}", page.display());
    }
}

/// A reader decides on the first screen whether to continue.
#[test]
fn the_readme_is_short_and_shows_how_to_start() {
    let readme = read_page(&repository_root().join("README.md"));
    assert!(readme.lines().count() <= 120, "{} lines", readme.lines().count());
    for step in ["$ make && sudo make install", "`make run`", "`make test`", "$ fsarena run "] {
        assert!(readme.contains(step), "{step}");
    }
}

#[test]
fn mdbook_builds_the_book() {
    let out = tempfile::tempdir().unwrap();
    let mut mdbook = std::process::Command::new("mdbook");
    match mdbook.arg("build").arg("--dest-dir").arg(out.path()).arg(repository_root().join("docs")).output() {
        Err(_) => eprintln!("skipped: mdbook is not installed (cargo install mdbook)"),
        Ok(output) => {
            let errors = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success() && !errors.contains("ERROR"), "{errors}");
            assert!(out.path().join("index.html").exists(), "{errors}");
        }
    }
}
