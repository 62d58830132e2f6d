//! Charts and pages of a stored run, as files.

use crate::common::{Sandbox, stored};

#[test]
fn charts_are_files_of_their_formats() {
    let sandbox = Sandbox::new();
    stored::store_run(&sandbox.dir.join("runs"));
    sandbox.expect(0, &["report", "--format", "csv", "--export", "svg=drawn"]);
    let names = |folder: &str, ending: &str| -> Vec<String> {
        let files = std::fs::read_dir(sandbox.dir.join(folder)).unwrap();
        let name = |file: std::io::Result<std::fs::DirEntry>| file.unwrap().file_name().into_string().unwrap();
        let mut names: Vec<String> =
            files.map(name).map(|name| name.strip_suffix(ending).unwrap().to_string()).collect();
        names.sort();
        names
    };
    let drawn = names("drawn", ".svg");
    assert!(drawn.contains(&"ratios-elapsed".to_string()), "{drawn:?}");
    for name in &drawn {
        let svg = std::fs::read_to_string(sandbox.dir.join(format!("drawn/{name}.svg"))).unwrap();
        assert!(svg.contains("<title") && svg.contains("<desc") && svg.contains("<text"), "{name}");
    }
    // An existing directory is overwritten; a missing one is made, with its parents.
    sandbox.expect(0, &["report", "--format", "csv", "--export", "svg=drawn"]);
    sandbox.expect(0, &["report", "--format", "csv", "--export", "svg=a/b/drawn"]);
    assert_eq!(names("a/b/drawn", ".svg"), drawn);
}

/// Markdown on standard output links to the charts that the same command draws. Without charts it has the command that draws
/// them.
#[test]
fn printed_markdown_refers_to_the_charts_drawn_with_it() {
    let sandbox = Sandbox::new();
    stored::store_run(&sandbox.dir.join("runs"));
    let (text, _) = sandbox.expect(0, &["report", "--format", "md", "--export", "svg=a/b c"]);
    let links: Vec<&str> = text.split("](").skip(1).map(|rest| rest.split_once(')').unwrap().0).collect();
    assert!(!links.is_empty(), "{text}");
    for link in links {
        assert!(sandbox.dir.join(link.replace("%20", " ")).is_file(), "{link}");
    }
    let (text, _) = sandbox.expect(0, &["report", "--format", "md", "--export", "md=report.md"]);
    assert!(!text.contains("](") && text.contains("--export svg=charts"), "{text}");
}

/// A truncated or damaged database gives one error that names it, and no part of a page.
#[test]
fn a_damaged_run_gives_no_page() {
    let sandbox = Sandbox::new();
    let database = stored::store_run(&sandbox.dir.join("runs")).database_file();
    let whole = std::fs::read(&database).unwrap();
    let half = whole[..whole.len() / 2].to_vec();
    let mut damaged = whole.clone();
    damaged[4096..].fill(0xff);
    for (content, bytes) in [("half of it", half), ("damaged", damaged), ("empty", vec![])] {
        std::fs::write(&database, bytes).unwrap();
        let (page, stderr) = sandbox.expect(2, &["report", "--format", "html"]);
        assert!(
            page.is_empty() && stderr.contains("run.db") && stderr.lines().count() < 4,
            "{content}: {page}{stderr}"
        );
    }
}

#[test]
fn a_page_holds_the_commands_of_the_run() {
    let sandbox = Sandbox::new();
    stored::store_run(&sandbox.dir.join("runs"));
    let (page, _) = sandbox.expect(0, &["report", "--format", "html"]);
    assert!(page.contains("Content-Security-Policy") && page.contains("a file\\nname"), "{page}");
}
