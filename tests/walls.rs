//! The walls of the house: which crate may use which, and which module of the broker. Read from the imports, so that a
//! change that would let something low know something high has to move a wall first, and say so here.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// The crates from the ground up. Each may use those before it.
const CRATES: [&str; 13] = [
    "openmetrics",
    "wire",
    "security",
    "storage",
    "platform",
    "configuration",
    "quorum",
    "metadata",
    "coordinator",
    "client",
    "broker",
    "lab",
    "console",
];

/// The modules of the broker from the ground up. Each may use those before it.
const BROKER: [&str; 27] = [
    "close_reason",
    "session",
    "memory",
    "frame",
    "threads",
    "blocking_pool",
    "security",
    "stream",
    "stats",
    "quotas",
    "partition",
    "replication",
    "cluster",
    "controller",
    "coordination",
    "fetch_sessions",
    "broker",
    "lifecycle",
    "maintenance",
    "exposition",
    "api",
    "net",
    "journal",
    "server",
    "recover",
    "simulation",
    "lib",
];

/// Crates that use nothing of those between them and the ones named here, whatever the order allows. The console says
/// who may do what by the decision of the broker itself (`metadata::acl`, of the settings that it is told): a second
/// implementation of it would differ one day.
const APART: [(&str, &[&str]); 4] = [
    ("security", &[]),
    ("client", &["wire", "security"]),
    ("lab", &["openmetrics", "wire", "client"]),
    ("console", &["openmetrics", "wire", "client", "configuration", "metadata"]),
];

/// What the modules of a crate use of each other.
type Arrows = BTreeMap<String, BTreeSet<String>>;

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn crate_dir(name: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("crates").join(name)
}

/// The source files below a folder, as the names of their modules and their code: without comments and unit tests.
fn sources(dir: &Path) -> Vec<(Vec<String>, String)> {
    let mut found = Vec::new();
    let mut left = vec![(dir.to_owned(), Vec::new())];
    while let Some((dir, path)) = left.pop() {
        for entry in dir.read_dir().expect("a crate has sources").map(|entry| entry.expect("it can be listed")) {
            let name = entry.file_name().into_string().expect("names of files are text");
            let mut path = path.clone();
            path.push(name.trim_end_matches(".rs").to_owned());
            if entry.path().is_dir() {
                left.push((entry.path(), path));
            } else if name.ends_with(".rs") {
                found.push((path, code(&read(&entry.path()))));
            }
        }
    }
    found
}

fn is_of_tests(path: &[String]) -> bool {
    let is_of_tests = |name: &String| name == "tests" || name.ends_with("_tests") || name.starts_with("fake_");
    path.iter().any(is_of_tests)
}

fn code(text: &str) -> String {
    let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    let mut is_for_tests = false;
    let mut code = String::new();
    for line in text.lines().map(|line| line.split("//").next().unwrap_or_default()) {
        let is_after_attribute = std::mem::replace(&mut is_for_tests, line.trim() == "#[cfg(test)]");
        let is_import_of_tests = is_after_attribute && line.contains("use ");
        if !(is_for_tests || is_import_of_tests) {
            code.push_str(line);
            code.push('\n');
        }
    }
    code
}

/// The first names of the paths that begin with `root`, as `crate::{a::B, c}` and `crate::a::B` have them.
fn used<'a>(code: &'a str, root: &str) -> Vec<&'a str> {
    let is_whole = |at: usize| !code[..at].ends_with(|before: char| before.is_alphanumeric() || "_:$".contains(before));
    let after = code.match_indices(root).filter(|(at, _)| is_whole(*at)).map(|(at, _)| &code[at + root.len()..]);
    after.flat_map(|rest| if rest.starts_with('{') { first_names(rest) } else { vec![name(rest)] }).collect()
}

fn name(text: &str) -> &str {
    let end = text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len());
    &text[..end]
}

/// Of `{a::B, c::{D, E}}`: a and c.
fn first_names(text: &str) -> Vec<&str> {
    let (mut depth, mut names) = (0, Vec::new());
    for (at, c) in text.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            break;
        }
        if depth == 1 && (c == ',' || at == 0) {
            names.push(name(text[at + 1..].trim_start()));
        }
    }
    names
}

/// What the top-level modules of a crate use of each other. What the root of the crate passes on counts as the module's
/// that it comes from.
fn arrows(crate_name: &str) -> Arrows {
    let mut sources = sources(&crate_dir(crate_name).join("src"));
    sources.retain(|(path, _)| !is_of_tests(path) && !path.contains(&"simulation".to_owned()));
    let modules: BTreeSet<&str> = sources.iter().map(|(path, _)| path[0].as_str()).collect();
    let root = sources.iter().find(|(path, _)| path[..] == ["lib"]).map_or("", |(_, code)| code);
    let mut passed_on = BTreeMap::new();
    for item in root.split("pub use ").skip(1).filter_map(|rest| rest.split(';').next()) {
        let module = name(item.trim_start_matches("self::"));
        for name in item.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|name| !name.is_empty()) {
            if modules.contains(module) && !modules.contains(name) {
                passed_on.insert(name, module);
            }
        }
    }
    let mut arrows = Arrows::new();
    for (path, code) in sources.iter().filter(|(path, _)| path[0] != "main") {
        let from_root = if path.len() == 1 && path[0] != "lib" { used(code, "super::") } else { Vec::new() };
        let to = used(code, "crate::").into_iter().chain(from_root);
        let to = to.map(|name| *passed_on.get(name).unwrap_or(&name));
        let to = to.filter(|name| modules.contains(name) && *name != path[0] && path[0] != "lib");
        arrows.entry(path[0].clone()).or_default().extend(to.map(str::to_owned));
    }
    arrows
}

/// What the modules in one folder use of each other, for each folder below the root.
fn arrows_in_folders(src: &Path) -> BTreeMap<Vec<String>, Arrows> {
    let mut sources = sources(src);
    sources.retain(|(path, _)| !is_of_tests(path));
    let mut folders = BTreeMap::new();
    for (path, _) in &sources {
        (1..path.len()).for_each(|depth| _ = folders.insert(path[..depth].to_vec(), Arrows::new()));
    }
    for (folder, arrows) in &mut folders {
        let root = format!("crate::{}::", folder.join("::"));
        let depth = folder.len();
        let inside = || sources.iter().filter(|(path, _)| path.len() > depth && path.starts_with(folder));
        let modules: BTreeSet<&str> = inside().map(|(path, _)| path[depth].as_str()).collect();
        for (path, code) in inside() {
            let by_super = if path.len() == depth + 1 { used(code, "super::") } else { Vec::new() };
            let to = used(code, &root).into_iter().chain(by_super);
            let to = to.filter(|name| modules.contains(name) && *name != path[depth]);
            arrows.entry(path[depth].clone()).or_default().extend(to.map(str::to_owned));
        }
    }
    folders
}

/// Modules that can be reached from themselves.
fn in_circles(arrows: &Arrows) -> Vec<&str> {
    let comes_back = |start: &String| {
        let (mut seen, mut left) = (BTreeSet::new(), vec![start]);
        while let Some(module) = left.pop() {
            for next in arrows.get(module).into_iter().flatten() {
                if next == start {
                    return true;
                }
                if seen.insert(next) {
                    left.push(next);
                }
            }
        }
        false
    };
    arrows.keys().filter(|module| comes_back(module)).map(String::as_str).collect()
}

#[test]
fn no_modules_of_a_crate_use_each_other_in_a_circle() {
    for name in CRATES {
        let arrows = arrows(name);
        assert!(!arrows.is_empty(), "{name} has modules");
        let circle = in_circles(&arrows);
        let uses = circle.iter().map(|module| (module, &arrows[*module])).collect::<Vec<_>>();
        assert!(circle.is_empty(), "crates/{name} has modules that use each other in a circle: {uses:?}");
    }
}

#[test]
fn no_modules_of_a_folder_use_each_other_in_a_circle() {
    let binary = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    for src in CRATES.map(|name| crate_dir(name).join("src")).iter().chain([&binary]) {
        for (folder, arrows) in arrows_in_folders(src) {
            let circle = in_circles(&arrows);
            assert!(circle.is_empty(), "{}/{} has a circle: {circle:?}", src.display(), folder.join("/"));
        }
    }
}

#[test]
fn no_module_of_the_broker_uses_one_above_it() {
    let floor = |name: &str| {
        BROKER.iter().position(|known| *known == name).unwrap_or_else(|| panic!("which floor is {name} on?"))
    };
    for (module, used) in arrows("broker") {
        for other in used {
            assert!(floor(&other) < floor(&module), "{module} uses {other}, which is above it");
        }
    }
}

#[test]
fn no_crate_uses_one_above_it() {
    let found: BTreeSet<String> = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("crates")
        .read_dir()
        .expect("there are crates")
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .collect();
    assert_eq!(found, CRATES.map(str::to_owned).into(), "each crate has its floor");
    for (floor, of) in CRATES.iter().enumerate() {
        let manifest = read(&crate_dir(of).join("Cargo.toml"));
        let dependencies = manifest.split("[dependencies]").nth(1).and_then(|rest| rest.split("\n[").next());
        let dependencies = dependencies.unwrap_or_default().lines().map(name);
        for used in dependencies.filter(|used| CRATES.contains(used)) {
            let is_below = CRATES.iter().position(|known| *known == used) < Some(floor);
            assert!(is_below, "{of} uses {used}, which is above it");
            let may_use = APART.iter().find(|(apart, _)| apart == of).is_none_or(|(_, may)| may.contains(&used));
            assert!(may_use, "{of} uses {used}, and stands apart from it");
        }
    }
}

/// What the tests above go by.
#[test]
fn imports_are_read_as_they_are_written() {
    let text = "use crate::a::B;\nuse crate::{c::{D, E}, f}; // crate::comment\n#[cfg(test)]\nuse crate::g;\nlet x = \
                $crate::h; crate::i::j()\n#[cfg(test)]\nmod tests {\n    use crate::k;";
    let code = code(text);
    assert_eq!(used(&code, "crate::"), ["a", "c", "f", "i"]);
    let arrows = |pairs: &[(&str, &str)]| {
        let mut arrows = Arrows::new();
        pairs.iter().for_each(|(from, to)| _ = arrows.entry((*from).to_owned()).or_default().insert((*to).to_owned()));
        arrows
    };
    assert_eq!(in_circles(&arrows(&[("a", "b"), ("b", "c"), ("c", "b")])), ["b", "c"]);
    assert!(in_circles(&arrows(&[("a", "b"), ("a", "c"), ("b", "c")])).is_empty());
}
