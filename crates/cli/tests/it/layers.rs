//! Inside a crate, files form layers as crates do: no two files need each other.

use regex::Regex;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use walkdir::WalkDir;

static DEFINITION: LazyLock<Regex> = LazyLock::new(|| {
    let kinds = "fn|struct|enum|trait|type|const|static|union|macro_rules!";
    let visible = r"(?:pub(?:\([^)]*\))? )?";
    Regex::new(&format!(r"(?m)^ *{visible}(?:const |async |unsafe )*(?:{kinds}) ([[:word:]]+)")).unwrap()
});
static USE_ITEM: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"(?ms)^ *(?:pub(?:\([^)]*\))? )?use ([^;]+);").unwrap());
static PATH: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"(?-u:\b)(?:[a-z_][[:word:]]*::)+[[:word:]]+").unwrap());

type Module = Vec<String>;

/// The modules of a crate: the names that each defines, the names that it imports with their paths, and the paths in its
/// text.
#[derive(Default)]
struct Crate {
    defined: BTreeMap<Module, BTreeSet<String>>,
    imported: BTreeMap<Module, BTreeMap<String, Module>>,
    paths: BTreeMap<Module, Vec<Module>>,
}

impl Crate {
    fn read(src: &Path) -> Crate {
        let mut parsed = Crate::default();
        for (module, file) in modules(src) {
            let text = without_tests_and_comments(&std::fs::read_to_string(file).unwrap());
            let mut imported = BTreeMap::new();
            for captures in USE_ITEM.captures_iter(&text) {
                expand_use_tree(&[], &captures[1], &mut imported);
            }
            let body = USE_ITEM.replace_all(&text, "");
            let paths = PATH.find_iter(&body).map(|path| path_parts(path.as_str())).collect();
            let defined = DEFINITION.captures_iter(&text).map(|captures| captures[1].to_string()).collect();
            parsed.defined.insert(module.clone(), defined);
            parsed.imported.insert(module.clone(), imported);
            parsed.paths.insert(module, paths);
        }
        parsed
    }

    /// The module that defines the item of a path in a module. None for a module, or an item of another crate. Follows
    /// imports up to `steps` times.
    fn defining_module(&self, module: &Module, path: &[String], steps: u32) -> Option<Module> {
        let first = path.first()?;
        let (mut current, mut rest) = match first.as_str() {
            "crate" => (vec![], &path[1..]),
            "self" => (module.clone(), &path[1..]),
            "super" => {
                let levels = path.iter().take_while(|part| *part == "super").count();
                (module[..module.len().checked_sub(levels)?].to_vec(), &path[levels..])
            }
            _ if self.defined.contains_key(&[module.as_slice(), &path[..1]].concat()) => (module.clone(), path),
            name => {
                let target = self.imported[module].get(name).filter(|target| steps > 0 && target.len() > 1)?;
                return self.defining_module(module, &[target, &path[1..]].concat(), steps - 1);
            }
        };
        while let Some(name) = rest.first() {
            let inner = [current.as_slice(), std::slice::from_ref(name)].concat();
            if self.defined.contains_key(&inner) {
                (current, rest) = (inner, &rest[1..]);
                continue;
            }
            if let Some(target) = self.imported[&current].get(name).filter(|_| !self.defined[&current].contains(name)) {
                return self.defining_module(&current, &[target, &rest[1..]].concat(), steps.checked_sub(1)?);
            }
            return Some(current);
        }
        None
    }

    /// The modules of the crate that each module needs.
    fn needs(&self) -> BTreeMap<&Module, BTreeSet<Module>> {
        let paths = |module| self.imported[module].values().chain(&self.paths[module]);
        let needs = |module| paths(module).filter_map(|path| self.defining_module(module, path, 12));
        self.defined.keys().map(|module| (module, needs(module).filter(|need| need != module).collect())).collect()
    }
}

/// `src/a/b.rs` is the module `a::b`; `lib.rs` and `main.rs` are the root.
fn modules(src: &Path) -> BTreeMap<Module, PathBuf> {
    let files = WalkDir::new(src).into_iter().map(|entry| entry.unwrap().into_path());
    let sources = files.filter(|path| path.extension().is_some_and(|end| end == "rs"));
    let module = |path: PathBuf| {
        let relative = path.strip_prefix(src).unwrap().with_extension("");
        let mut module: Module = relative.iter().map(|part| part.to_str().unwrap().to_string()).collect();
        module.retain(|part| !["lib", "main"].contains(&part.as_str()));
        (module, path)
    };
    sources.filter(|path| !path.ends_with("tests.rs")).map(module).collect()
}

/// Removes tests, which may use everything, and comments, which may name everything.
fn without_tests_and_comments(text: &str) -> String {
    let mut lines = text.lines();
    let mut code = String::new();
    while let Some(line) = lines.next() {
        if line.trim() == "#[cfg(test)]" {
            let item = lines.by_ref().find(|line| !line.trim().starts_with("#[")).unwrap_or_default();
            let end = format!("{}}}", &item[..item.len() - item.trim_start().len()]);
            if !item.ends_with(';') {
                lines.by_ref().find(|line| line.starts_with(&end));
            }
        } else if !line.trim().starts_with("//") {
            code.extend([line, "\n"]);
        }
    }
    code
}

/// Adds the names of a `use` tree with their paths: of `a::{b, c as d}`, `b: a::b` and `d: a::c`.
fn expand_use_tree(prefix: &[String], tree: &str, imported: &mut BTreeMap<String, Module>) {
    let tree = tree.trim();
    if let Some((path, rest)) = tree.split_once('{') {
        let prefix = [prefix, &path_parts(path.trim_end_matches("::"))].concat();
        let mut depth = 0;
        let inner = rest.strip_suffix('}').unwrap();
        let split = inner.split(|c| {
            depth += i32::from(c == '{') - i32::from(c == '}');
            c == ',' && depth == 0
        });
        split.filter(|part| !part.trim().is_empty()).for_each(|part| expand_use_tree(&prefix, part, imported));
        return;
    }
    let (path, name) = tree.split_once(" as ").map_or((tree, None), |(path, name)| (path, Some(name)));
    let mut path = [prefix, &path_parts(path)].concat();
    if path.last().is_some_and(|last| ["self", "*"].contains(&last.as_str())) {
        path.pop();
    }
    let name = name.map(String::from).or_else(|| path.last().cloned());
    imported.extend(name.map(|name| (name, path)));
}

fn path_parts(path: &str) -> Module {
    path.split("::").map(|part| part.trim().to_string()).filter(|part| !part.is_empty()).collect()
}

/// Removes modules that need none of the others, or that no other needs, until there is no such module. Describes the
/// rest: cycles, and modules between them.
fn find_cycles(mut needs: BTreeMap<&Module, BTreeSet<Module>>) -> Vec<String> {
    loop {
        let remaining: BTreeSet<Module> = needs.keys().map(|module| (*module).clone()).collect();
        let needed: BTreeSet<Module> = needs.values().flatten().cloned().collect();
        let count_before = needs.len();
        needs.retain(|module, need| needed.contains(*module) && !need.is_disjoint(&remaining));
        if needs.len() == count_before {
            return needs.iter().map(|(module, need)| format!("{} needs {need:?}", module.join("::"))).collect();
        }
    }
}

#[test]
fn files_of_a_crate_form_layers_without_cycles() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let (mut module_count, mut faults) = (0, vec![]);
    for entry in crates.read_dir().unwrap() {
        let dir = entry.unwrap().path();
        let parsed = Crate::read(&dir.join("src"));
        module_count += parsed.defined.len();
        let cycles = find_cycles(parsed.needs());
        faults.extend(cycles.iter().map(|file| format!("in {}, {file}", dir.display())));
    }
    assert!(faults.is_empty(), "files that need each other:\n{}", faults.join("\n"));
    assert!(module_count > 250, "only {module_count} files were read");
}

#[test]
fn a_cycle_of_files_is_found() {
    let dir = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(dir.path().join(name), text).unwrap();
    write("lib.rs", "mod above;\nmod below;\npub use above::{above as top, Other};\n");
    write("above.rs", "use crate::below::below;\npub struct Other;\npub fn above() { below() }\n");
    write("below.rs", "pub fn below() {}\n#[cfg(test)]\nmod tests {\n    use crate::Other;\n}\n");
    assert_eq!(find_cycles(Crate::read(dir.path()).needs()), Vec::<String>::new());
    write("below.rs", "pub fn below() { crate::top() }\n");
    let cycles = find_cycles(Crate::read(dir.path()).needs());
    assert_eq!(cycles.len(), 2, "{cycles:?}");
}
