//! Charts and pages as files, of a run from the store.

use crate::common::{Place, stored};

#[test]
fn charts_are_files_of_their_formats() {
    let place = Place::new();
    stored::run(&place.dir.join("runs"));
    place.expect(0, &["report", "--format", "csv", "--export", "svg=drawn"]);
    let names = |folder: &str, ending: &str| -> Vec<String> {
        let files = std::fs::read_dir(place.dir.join(folder)).unwrap();
        let name = |file: std::io::Result<std::fs::DirEntry>| file.unwrap().file_name().into_string().unwrap();
        let mut names: Vec<String> =
            files.map(name).map(|name| name.strip_suffix(ending).unwrap().to_string()).collect();
        names.sort();
        names
    };
    let drawn = names("drawn", ".svg");
    assert!(drawn.contains(&"ratios-elapsed".to_string()), "{drawn:?}");
    for name in &drawn {
        let svg = std::fs::read_to_string(place.dir.join(format!("drawn/{name}.svg"))).unwrap();
        assert!(svg.contains("<title") && svg.contains("<desc") && svg.contains("<text"), "{name}");
    }
    // A folder that is there already is written to again, and others are made with what they lie in.
    place.expect(0, &["report", "--format", "csv", "--export", "svg=drawn"]);
    place.expect(0, &["report", "--format", "csv", "--export", "svg=a/b/drawn"]);
    assert_eq!(names("a/b/drawn", ".svg"), drawn);
}

/// Markdown on standard output refers to the charts of the same command, and without them says how to get some.
#[test]
fn printed_markdown_refers_to_the_charts_drawn_with_it() {
    let place = Place::new();
    stored::run(&place.dir.join("runs"));
    let (text, _) = place.expect(0, &["report", "--format", "md", "--export", "svg=a/b c"]);
    let links: Vec<&str> = text.split("](").skip(1).map(|rest| rest.split_once(')').unwrap().0).collect();
    assert!(!links.is_empty(), "{text}");
    for link in links {
        assert!(place.dir.join(link.replace("%20", " ")).is_file(), "{link}");
    }
    let (text, _) = place.expect(0, &["report", "--format", "md", "--export", "md=report.md"]);
    assert!(!text.contains("](") && text.contains("--export svg=charts"), "{text}");
}

/// A database from elsewhere, damaged or only its beginning: one error that names it, and no half of a page.
#[test]
fn a_damaged_run_gives_no_page() {
    let place = Place::new();
    let database = stored::run(&place.dir.join("runs")).database_file();
    let whole = std::fs::read(&database).unwrap();
    let half = whole[..whole.len() / 2].to_vec();
    let mut spoiled = whole.clone();
    spoiled[4096..].fill(0xff);
    for (what, bytes) in [("half of it", half), ("rubbish", spoiled), ("nothing", vec![])] {
        std::fs::write(&database, bytes).unwrap();
        let (page, said) = place.expect(2, &["report", "--format", "html"]);
        assert!(page.is_empty() && said.contains("run.db") && said.lines().count() < 4, "{what}: {page}{said}");
    }
}

#[test]
fn a_page_holds_the_commands_of_the_run() {
    let place = Place::new();
    stored::run(&place.dir.join("runs"));
    let (page, _) = place.expect(0, &["report", "--format", "html"]);
    assert!(page.contains("Content-Security-Policy") && page.contains("a file\\nname"), "{page}");
}
