//! Inside a crate, files form layers as crates do: no two files need each other.

use regex::Regex;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use walkdir::WalkDir;

static DEFINED: LazyLock<Regex> = LazyLock::new(|| {
    let kinds = "fn|struct|enum|trait|type|const|static|union|macro_rules!";
    let visible = r"(?:pub(?:\([^)]*\))? )?";
    Regex::new(&format!(r"(?m)^ *{visible}(?:const |async |unsafe )*(?:{kinds}) ([[:word:]]+)")).unwrap()
});
static USED: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"(?ms)^ *(?:pub(?:\([^)]*\))? )?use ([^;]+);").unwrap());
static NAMED: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"(?-u:\b)(?:[a-z_][[:word:]]*::)+[[:word:]]+").unwrap());

type Module = Vec<String>;

/// The files of a crate as modules: what each defines, what it imports, and by what name.
#[derive(Default)]
struct Crate {
    defined: BTreeMap<Module, BTreeSet<String>>,
    imported: BTreeMap<Module, BTreeMap<String, Module>>,
    named: BTreeMap<Module, Vec<Module>>,
}

impl Crate {
    fn read(src: &Path) -> Crate {
        let mut read = Crate::default();
        for (module, file) in modules(src) {
            let text = without_tests(&std::fs::read_to_string(file).unwrap());
            let mut imported = BTreeMap::new();
            for found in USED.captures_iter(&text) {
                expand(&[], &found[1], &mut imported);
            }
            let body = USED.replace_all(&text, "");
            let named = NAMED.find_iter(&body).map(|path| parts(path.as_str())).collect();
            let defined = DEFINED.captures_iter(&text).map(|found| found[1].to_string()).collect();
            read.defined.insert(module.clone(), defined);
            read.imported.insert(module.clone(), imported);
            read.named.insert(module, named);
        }
        read
    }

    /// The file that defines what a path means in a module; none where that is another crate's, or only a module.
    fn file_of(&self, module: &Module, path: &[String], steps: u32) -> Option<Module> {
        let first = path.first()?;
        let (mut at, mut rest) = match first.as_str() {
            "crate" => (vec![], &path[1..]),
            "self" => (module.clone(), &path[1..]),
            "super" => {
                let above = path.iter().take_while(|part| *part == "super").count();
                (module[..module.len().checked_sub(above)?].to_vec(), &path[above..])
            }
            _ if self.defined.contains_key(&[module.as_slice(), &path[..1]].concat()) => (module.clone(), path),
            name => {
                let meant = self.imported[module].get(name).filter(|meant| steps > 0 && meant.len() > 1)?;
                return self.file_of(module, &[meant, &path[1..]].concat(), steps - 1);
            }
        };
        while let Some(name) = rest.first() {
            let below = [at.as_slice(), std::slice::from_ref(name)].concat();
            if self.defined.contains_key(&below) {
                (at, rest) = (below, &rest[1..]);
                continue;
            }
            if let Some(meant) = self.imported[&at].get(name).filter(|_| !self.defined[&at].contains(name)) {
                return self.file_of(&at, &[meant, &rest[1..]].concat(), steps.checked_sub(1)?);
            }
            return Some(at);
        }
        None
    }

    fn needs(&self) -> BTreeMap<&Module, BTreeSet<Module>> {
        let paths = |module| self.imported[module].values().chain(&self.named[module]);
        let needs = |module| paths(module).filter_map(|path| self.file_of(module, path, 12));
        self.defined.keys().map(|module| (module, needs(module).filter(|need| need != module).collect())).collect()
    }
}

/// `src/a/b.rs` is the module `a::b`; `lib.rs` and `main.rs` are the root.
fn modules(src: &Path) -> BTreeMap<Module, PathBuf> {
    let files = WalkDir::new(src).into_iter().map(|entry| entry.unwrap().into_path());
    let rust = files.filter(|path| path.extension().is_some_and(|end| end == "rs"));
    let module = |path: PathBuf| {
        let below = path.strip_prefix(src).unwrap().with_extension("");
        let mut module: Module = below.iter().map(|part| part.to_str().unwrap().to_string()).collect();
        module.retain(|part| !["lib", "main"].contains(&part.as_str()));
        (module, path)
    };
    rust.filter(|path| !path.ends_with("tests.rs")).map(module).collect()
}

/// Tests may look at everything; comments name what they like.
fn without_tests(text: &str) -> String {
    let mut lines = text.lines();
    let mut kept = String::new();
    while let Some(line) = lines.next() {
        if line.trim() == "#[cfg(test)]" {
            let item = lines.by_ref().find(|line| !line.trim().starts_with("#[")).unwrap_or_default();
            let end = format!("{}}}", &item[..item.len() - item.trim_start().len()]);
            if !item.ends_with(';') {
                lines.by_ref().find(|line| line.starts_with(&end));
            }
        } else if !line.trim().starts_with("//") {
            kept.extend([line, "\n"]);
        }
    }
    kept
}

/// `a::{b, c as d}` as `b: a::b` and `d: a::c`.
fn expand(above: &[String], tree: &str, into: &mut BTreeMap<String, Module>) {
    let tree = tree.trim();
    if let Some((path, rest)) = tree.split_once('{') {
        let above = [above, &parts(path.trim_end_matches("::"))].concat();
        let mut depth = 0;
        let inner = rest.strip_suffix('}').unwrap();
        let split = inner.split(|c| {
            depth += i32::from(c == '{') - i32::from(c == '}');
            c == ',' && depth == 0
        });
        split.filter(|part| !part.trim().is_empty()).for_each(|part| expand(&above, part, into));
        return;
    }
    let (path, name) = tree.split_once(" as ").map_or((tree, None), |(path, name)| (path, Some(name)));
    let mut path = [above, &parts(path)].concat();
    if path.last().is_some_and(|last| ["self", "*"].contains(&last.as_str())) {
        path.pop();
    }
    let name = name.map(String::from).or_else(|| path.last().cloned());
    into.extend(name.map(|name| (name, path)));
}

fn parts(path: &str) -> Module {
    path.split("::").map(|part| part.trim().to_string()).filter(|part| !part.is_empty()).collect()
}

/// Takes away files that need none of the rest until no such file is left: what remains is a loop, or needs one.
fn in_loops(mut needs: BTreeMap<&Module, BTreeSet<Module>>) -> Vec<String> {
    loop {
        let left: BTreeSet<Module> = needs.keys().map(|module| (*module).clone()).collect();
        let needed: BTreeSet<Module> = needs.values().flatten().cloned().collect();
        let before = needs.len();
        needs.retain(|module, need| needed.contains(*module) && !need.is_disjoint(&left));
        if needs.len() == before {
            return needs.iter().map(|(module, need)| format!("{} needs {need:?}", module.join("::"))).collect();
        }
    }
}

#[test]
fn files_of_a_crate_form_layers_without_cycles() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let (mut seen, mut faults) = (0, vec![]);
    for entry in crates.read_dir().unwrap() {
        let dir = entry.unwrap().path();
        let read = Crate::read(&dir.join("src"));
        seen += read.defined.len();
        let loops = in_loops(read.needs());
        faults.extend(loops.iter().map(|file| format!("in {}, {file}", dir.display())));
    }
    assert!(faults.is_empty(), "files that need each other:\n{}", faults.join("\n"));
    assert!(seen > 250, "only {seen} files were read");
}

#[test]
fn a_cycle_of_files_is_found() {
    let dir = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(dir.path().join(name), text).unwrap();
    write("lib.rs", "mod above;\nmod below;\npub use above::{above as top, Other};\n");
    write("above.rs", "use crate::below::below;\npub struct Other;\npub fn above() { below() }\n");
    write("below.rs", "pub fn below() {}\n#[cfg(test)]\nmod tests {\n    use crate::Other;\n}\n");
    assert_eq!(in_loops(Crate::read(dir.path()).needs()), Vec::<String>::new());
    write("below.rs", "pub fn below() { crate::top() }\n");
    let loops = in_loops(Crate::read(dir.path()).needs());
    assert_eq!(loops.len(), 2, "{loops:?}");
}
