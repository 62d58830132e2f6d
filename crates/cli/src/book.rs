//! Tests that the book and the README are true: command lines parse, plans resolve, links lead somewhere.

use crate::args::{Cli, EXIT_CODES};
use clap::Parser;
use fsarena_core::{plan::file::PlanFile, plan::resolve::Overrides};
use fsarena_run::vocabulary;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// A fenced block of a page.
struct Block {
    page: PathBuf,
    language: String,
    text: String,
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// Every page of the book, and the README.
fn pages() -> Vec<PathBuf> {
    let mut pages = vec![root().join("README.md")];
    let mut dirs = vec![root().join("docs")];
    while let Some(dir) = dirs.pop() {
        for entry in std::fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            match path.extension().and_then(|extension| extension.to_str()) {
                Some("md") => pages.push(path),
                _ if path.is_dir() => dirs.push(path),
                _ => {}
            }
        }
    }
    pages.sort();
    pages
}

fn text(page: &Path) -> String {
    std::fs::read_to_string(page).unwrap_or_else(|error| panic!("{}: {error}", page.display()))
}

/// The fenced blocks of a page, and what is left of it without them.
fn split(page: &Path) -> (Vec<Block>, String) {
    let (mut blocks, mut prose, mut open) = (vec![], String::new(), None::<Block>);
    for line in text(page).lines() {
        match (line.trim_start().strip_prefix("```"), &mut open) {
            (Some(_), Some(_)) => blocks.extend(open.take()),
            (Some(language), None) => {
                let language = language.trim().to_string();
                open = Some(Block { page: page.into(), language, text: String::new() });
            }
            (None, Some(block)) => block.text += &format!("{line}\n"),
            (None, None) => prose += &format!("{line}\n"),
        }
    }
    assert!(open.is_none(), "{}: a block has no end", page.display());
    (blocks, prose)
}

fn blocks() -> Vec<Block> {
    pages().iter().flat_map(|page| split(page).0).collect()
}

/// The words of a command line of fsarena: without its prompt, its comment, and what a shell does around it.
fn command(line: &str) -> Option<Vec<String>> {
    let line = line.strip_prefix("$ ").unwrap_or(line);
    let line = line.starts_with("fsarena ").then_some(line)?;
    let words = shlex::split(line).unwrap_or_else(|| panic!("not a shell command: {line}"));
    Some(words.into_iter().take_while(|word| ![">", "|", "&&", "2>"].contains(&word.as_str())).collect())
}

#[test]
fn every_command_line_is_one_that_fsarena_takes() {
    let (mut seen, mut wrong) = (0, vec![]);
    for block in blocks() {
        for words in block.text.replace("\\\n", "").lines().filter_map(command) {
            seen += 1;
            let (page, line) = (block.page.display(), words.join(" "));
            // Printing help is an error to clap, but none that goes to standard error.
            if let Err(error) = Cli::try_parse_from(&words)
                && error.use_stderr()
            {
                wrong.push(format!("{page}: {line}: {error}"));
            }
            let study = matches!(words[1].as_str(), "run" | "ab").then(|| words.get(2)).flatten();
            let study = study.filter(|name| {
                name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || "/_".contains(c))
            });
            if study.is_some_and(|name| fsarena_core::app::plan(name).is_none()) {
                wrong.push(format!("{page}: {line}: unknown study"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(seen > 80, "only {seen} command lines were found");
}

#[test]
fn the_exit_codes_are_those_of_the_help() {
    let page = root().join("docs/reference/exit-codes.md");
    let texts: Vec<String> = split(&page).0.into_iter().map(|block| block.text).collect();
    assert_eq!(texts, [format!("{EXIT_CODES}\n")]);
}

#[test]
fn every_plan_resolves() {
    let mut seen = 0;
    for block in
        blocks().iter().filter(|block| block.language == "toml" && block.text.contains("[[workload]]"))
    {
        seen += 1;
        let page = block.page.display();
        // A page may show only the workload of a plan.
        let head =
            if block.text.contains("name = ") { "" } else { "name = \"part\"\n[factors]\nfs = \"ext4\"\n" };
        let text = format!("{head}{}", block.text);
        let written = PlanFile::parse("plan.toml", text.as_bytes()).unwrap_or_else(|e| panic!("{page}: {e}"));
        if let Err(failure) = vocabulary::resolve(&written, &Overrides::default()) {
            panic!("{page}: {failure}");
        }
    }
    assert!(seen > 0, "no plan was found");
}

/// The targets of a page's links: what stands in `](…)`, `href="…"` and `src="…"`.
fn links(prose: &str) -> Vec<String> {
    let after = |open: &str, close: char| -> Vec<String> {
        let parts = prose.split(open).skip(1);
        parts.filter_map(|part| part.split_once(close)).map(|(link, _)| link.to_string()).collect()
    };
    [after("](", ')'), after("href=\"", '"'), after("src=\"", '"')].concat()
}

/// The anchors of a page's headings, as mdBook and GitHub make them.
fn anchors(page: &Path) -> BTreeSet<String> {
    let prose = split(page).1;
    let headings = prose.lines().filter_map(|line| line.strip_prefix('#'));
    let anchor = |heading: &str| -> String {
        let heading = heading.trim_start_matches('#').trim().to_lowercase();
        let kept = heading.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
        kept.map(|c| if c == ' ' { '-' } else { c }).collect()
    };
    headings.map(anchor).collect()
}

#[test]
fn every_link_leads_somewhere() {
    let mut broken = vec![];
    for page in pages() {
        let local = |link: &String| !link.contains("://") && !link.starts_with("mailto:");
        for link in links(&split(&page).1).into_iter().filter(local) {
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
    let docs = root().join("docs");
    let summary = links(&text(&docs.join("SUMMARY.md")));
    let listed: BTreeSet<PathBuf> = summary.iter().map(|link| docs.join(link)).collect();
    let outside = [root().join("README.md"), docs.join("SUMMARY.md")];
    let pages: BTreeSet<PathBuf> = pages().into_iter().filter(|page| !outside.contains(page)).collect();
    assert_eq!(pages, listed);
}

#[test]
fn mdbook_builds_the_book() {
    let out = tempfile::tempdir().unwrap();
    let mut mdbook = std::process::Command::new("mdbook");
    match mdbook.arg("build").arg("--dest-dir").arg(out.path()).arg(root().join("docs")).output() {
        Err(_) => eprintln!("skipped: mdbook is not installed (cargo install mdbook)"),
        Ok(output) => {
            let words = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success() && !words.contains("ERROR"), "{words}");
            assert!(out.path().join("index.html").exists(), "{words}");
        }
    }
}
