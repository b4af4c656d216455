//! Parses a criterion in words into the task that decides it.
//!
//! Only sentences of a known form are decided: that paths exist, that a file contains a text, that a function
//! or another symbol is defined or exported, that a library is used, and that a command passes. A sentence of
//! another form stays undecided, because a wrong decision is worse than none.

use super::criterion::{FileCheck, PathKind, Task};
use super::symbols::{Claim, SymbolCheck};

/// Phrases in front of a criterion that say nothing about it.
const LEADS: [&str; 12] = [
    "check that ",
    "check if ",
    "check whether ",
    "verify that ",
    "verify ",
    "ensure that ",
    "ensure ",
    "make sure that ",
    "make sure ",
    "confirm that ",
    "confirm ",
    "there is ",
];

/// Phrases after a criterion that say nothing about it.
const TAILS: [&str; 6] = [
    " in the project",
    " in the repository",
    " in the repo",
    " in the codebase",
    " at the root",
    " successfully",
];

/// Words around a path that do not change what is said about it.
const PATH_WORDS: [&str; 11] =
    ["the", "a", "an", "new", "named", "called", "source", "test", "config", "configuration", "both"];

/// Words for a symbol of a program.
const SYMBOL_KINDS: [&str; 14] = [
    "function",
    "method",
    "class",
    "struct",
    "enum",
    "interface",
    "type",
    "trait",
    "constant",
    "const",
    "variable",
    "component",
    "hook",
    "symbol",
];

/// Words that make a sentence one about all symbols.
const QUANTIFIERS: [&str; 7] = ["all", "every", "each", "any", "no", "some", "everything"];

/// Words for a library.
const LIBRARY_KINDS: [&str; 8] =
    ["library", "package", "crate", "module", "framework", "dependency", "gem", "sdk"];

/// Subjects that stand for the whole project.
const PROJECT_SUBJECTS: [&str; 10] =
    ["", "it", "project", "code", "codebase", "app", "application", "program", "service", "implementation"];

/// Returns the task that decides a sentence, or `None` if its form is unknown.
pub(super) fn parse(words: &str) -> Option<Task> {
    let words = without_lead(words.trim());
    parse_command(words)
        .or_else(|| parse_existence(words))
        .or_else(|| parse_symbol(words))
        .or_else(|| parse_content(words))
        .or_else(|| parse_use(words))
}

/// Removes phrases that say nothing, and the full stop.
fn without_lead(words: &str) -> &str {
    let mut words = words.trim_end_matches(['.', '!']).trim();
    if let Some(rest) = LEADS.iter().find_map(|lead| strip_prefix(words, lead)) {
        words = rest.trim_start();
    }
    if let Some(rest) = TAILS.iter().find_map(|tail| strip_suffix(words, tail)) {
        words = rest.trim_end();
    }
    words
}

/// Strips a prefix without regard to case.
fn strip_prefix<'w>(words: &'w str, prefix: &str) -> Option<&'w str> {
    let start = words.get(..prefix.len())?;
    start.eq_ignore_ascii_case(prefix).then(|| &words[prefix.len()..])
}

/// Strips a suffix without regard to case.
fn strip_suffix<'w>(words: &'w str, suffix: &str) -> Option<&'w str> {
    let at = words.len().checked_sub(suffix.len())?;
    words.get(at..)?.eq_ignore_ascii_case(suffix).then(|| &words[..at])
}

/// Strips the first of these suffixes that fits, and returns what it means.
fn strip_one_of<'w, T: Copy>(words: &'w str, suffixes: &[(&str, T)]) -> Option<(&'w str, T)> {
    suffixes.iter().find_map(|(suffix, meaning)| Some((strip_suffix(words, suffix)?, *meaning)))
}

fn is_one_of(word: &str, list: &[&str]) -> bool {
    list.iter().any(|known| known.eq_ignore_ascii_case(word))
}

/// Removes an article.
fn without_article(words: &str) -> &str {
    let words = words.trim();
    ["the ", "a ", "an "]
        .iter()
        .find_map(|article| strip_prefix(words, article))
        .unwrap_or(words)
        .trim_start()
}

/// Parses `cargo test passes` and `` `npm run build` succeeds``.
fn parse_command(words: &str) -> Option<Task> {
    let ends = [
        " passes",
        " pass",
        " succeeds",
        " exits with 0",
        " exits with status 0",
        " exits with code 0",
        " runs without errors",
    ];
    let command = ends.iter().find_map(|end| strip_suffix(words, end))?;
    let command = ["the command ", "command ", "running ", "run "]
        .iter()
        .find_map(|lead| strip_prefix(command, lead))
        .unwrap_or(command);
    let (command, is_quoted) = match quoted(command) {
        Some(inner) => (inner, true),
        None => (command, false),
    };
    // No shell is involved, so a command that needs one is not the command that would run.
    let is_plain = !command.contains(['|', '&', ';', '<', '>', '$', '"', '\'', '`', '*']);
    let argv: Vec<String> = command.split_whitespace().map(str::to_owned).collect();
    (is_plain && !argv.is_empty()).then_some(Task::RunWords { argv, is_quoted })
}

/// Parses `File X exists`, `Folders X and Y exist`, `X does not exist` and similar sentences.
fn parse_existence(words: &str) -> Option<Task> {
    let ends = [
        (" does not exist", true),
        (" doesn't exist", true),
        (" do not exist", true),
        (" no longer exists", true),
        (" has been deleted", true),
        (" has been removed", true),
        (" was deleted", true),
        (" was removed", true),
        (" is deleted", true),
        (" is removed", true),
        (" exists", false),
        (" exist", false),
        (" is present", false),
        (" are present", false),
        (" has been created", false),
        (" was created", false),
        (" is created", false),
    ];
    let named = ["file named ", "file called ", "a file ", "a folder ", "a directory "];
    let (subject, absent) = match strip_one_of(words, &ends) {
        Some(found) => found,
        None if named.iter().any(|start| strip_prefix(words, start).is_some()) => (words, false),
        None => return None,
    };
    let (paths, kind) = paths(subject)?;
    let check = |path| FileCheck { path, kind, absent, ..FileCheck::default() };
    Some(Task::Inspect(paths.into_iter().map(check).collect()))
}

/// Returns the paths that a subject consists of, and their type. `None` if the subject has other words.
fn paths(subject: &str) -> Option<(Vec<String>, PathKind)> {
    let (mut found, mut kind, mut unsure) = (Vec::new(), PathKind::Any, false);
    for word in split_words(subject) {
        let bare = word.trim_matches(',');
        match bare.to_lowercase().as_str() {
            "" | "and" | "&" => {}
            "file" | "files" => kind = PathKind::File,
            "folder" | "folders" | "directory" | "directories" => kind = PathKind::Folder,
            other if is_one_of(other, &PATH_WORDS) => {}
            _ => match quoted(bare) {
                Some(path) => found.push(path.to_owned()),
                None => {
                    unsure |= !is_path_like(bare);
                    found.push(bare.to_owned());
                }
            },
        }
    }
    // "The function exists" is not about a file named "function", but "File Makefile exists" is about one.
    let is_about_files =
        !unsure || (kind != PathKind::Any && found.len() == 1 && follows_kind(subject, &found[0]));
    (is_about_files && !found.is_empty()).then_some((found, kind))
}

/// Returns whether a word directly follows the word for its type, as in `File Makefile`.
fn follows_kind(subject: &str, word: &str) -> bool {
    let words = split_words(subject);
    let at = words.iter().position(|other| *other == word);
    let before = at.and_then(|at| at.checked_sub(1)).map(|at| words[at].to_lowercase());
    before.is_some_and(|before| ["file", "folder", "directory", "named", "called"].contains(&before.as_str()))
}

/// Splits a text at whitespace outside quotes.
fn split_words(text: &str) -> Vec<&str> {
    let (mut words, mut start, mut quote) = (Vec::new(), None, None);
    for (index, character) in text.char_indices() {
        match quote {
            Some(open) if character == open => quote = None,
            Some(_) => {}
            None if character.is_whitespace() => {
                if let Some(start) = start.take() {
                    words.push(&text[start..index]);
                }
                continue;
            }
            None if ['"', '\'', '`'].contains(&character) && start.is_none() => quote = Some(character),
            None => {}
        }
        start.get_or_insert(index);
    }
    words.extend(start.map(|start| &text[start..]));
    words
}

/// Returns whether a word looks like a path: `src/a`, `a.rs` or `.gitignore`, but not `e.g.` or `and/or`.
fn is_path_like(word: &str) -> bool {
    let is_plain = |character: char| character.is_alphanumeric() || "/._-@+".contains(character);
    let has_name =
        word.rsplit('/').find(|part| !part.is_empty()).is_some_and(|name| name != "or" && name != "..");
    let dot = word.trim_end_matches('/').rfind('.');
    let has_ending = dot.is_some_and(|at| word[at + 1..].chars().next().is_some_and(char::is_alphanumeric));
    word.chars().all(is_plain) && has_name && (word.contains('/') || has_ending)
}

/// Returns the path of a subject such as `The file src/a.rs`.
fn one_path(subject: &str) -> Option<String> {
    let (mut paths, kind) = paths(subject)?;
    (paths.len() == 1 && kind != PathKind::Folder).then(|| paths.remove(0))
}

/// Parses `X contains Y` and `X does not contain Y`.
fn parse_content(words: &str) -> Option<Task> {
    let verbs = [
        (" exists and contains ", false),
        (" does not contain ", true),
        (" doesn't contain ", true),
        (" does not include ", true),
        (" does not mention ", true),
        (" contains no ", true),
        (" contains ", false),
        (" includes ", false),
        (" mentions ", false),
    ];
    let (subject, text, absent) = verbs.iter().find_map(|(verb, absent)| {
        let at = words.find(verb)?;
        Some((&words[..at], words[at + verb.len()..].trim(), *absent))
    })?;
    let path = one_path(subject)?;
    let stated = ["the text ", "the string ", "the word ", "the line ", "the phrase ", "a line "];
    let stated = stated.iter().find_map(|lead| strip_prefix(text, lead));
    let text = stated.unwrap_or(text);
    let check = |text: &str, is_loose| FileCheck {
        path: path.clone(),
        contains: Some(text.to_owned()),
        absent,
        is_loose,
        ..FileCheck::default()
    };
    if text.is_empty() {
        return None;
    }
    let parts = split_words(text);
    let texts: Vec<&str> = parts.iter().filter(|part| !is_one_of(part, &["and", "&"])).copied().collect();
    let quoted: Option<Vec<&str>> = texts.iter().map(|part| quoted(part.trim_end_matches(','))).collect();
    let checks = match quoted {
        Some(quoted) => quoted.into_iter().map(|text| check(text, false)).collect(),
        // A plain lower-case word or a phrase may describe the content instead of quoting it.
        None => {
            let is_word = !text.contains(char::is_whitespace);
            let is_plain = text.chars().all(|letter| letter.is_lowercase() || letter == '.');
            vec![check(text, !is_word || (is_plain && stated.is_none()))]
        }
    };
    Some(Task::Inspect(checks))
}

/// Returns a text without the quotes around it.
fn quoted(text: &str) -> Option<&str> {
    let text = text.trim();
    ['"', '\'', '`'].iter().find_map(|quote| {
        let inner = text.strip_prefix(*quote)?.strip_suffix(*quote)?;
        (!inner.is_empty() && !inner.contains(*quote)).then_some(inner)
    })
}

/// Parses `Function f() is exported`, `Class C is defined in src/a.ts` and `src/a.ts exports f`.
fn parse_symbol(words: &str) -> Option<Task> {
    parse_exporting_file(words).or_else(|| parse_symbol_sentence(words)).map(Task::Search)
}

/// Parses `src/a.ts exports f` and `src/a.ts defines the class C`.
fn parse_exporting_file(words: &str) -> Option<Vec<SymbolCheck>> {
    let verbs = [
        (" exports ", Claim::Exported),
        (" defines ", Claim::Defined),
        (" declares ", Claim::Defined),
        (" contains the function ", Claim::Defined),
        (" contains a function ", Claim::Defined),
        (" contains the class ", Claim::Defined),
        (" contains a class ", Claim::Defined),
    ];
    let (subject, names, claim) = verbs.iter().find_map(|(verb, claim)| {
        let at = words.find(verb)?;
        Some((&words[..at], &words[at + verb.len()..], *claim))
    })?;
    let path = one_path(subject)?;
    let names = symbol_names(names, true)?;
    Some(names.into_iter().map(|name| SymbolCheck { name, claim, path: Some(path.clone()) }).collect())
}

fn parse_symbol_sentence(words: &str) -> Option<Vec<SymbolCheck>> {
    let (words, path) = match words.rfind(" in ").or_else(|| words.rfind(" from ")) {
        Some(at) => {
            let rest = &words[at..];
            let place = strip_prefix(rest, " in ").or_else(|| strip_prefix(rest, " from "))?;
            (&words[..at], Some(one_path(place)?))
        }
        None => (words, None),
    };
    let ends = [
        (" is exported", Claim::Exported),
        (" are exported", Claim::Exported),
        (" is defined", Claim::Defined),
        (" are defined", Claim::Defined),
        (" is declared", Claim::Defined),
        (" are declared", Claim::Defined),
        (" exists", Claim::Defined),
        (" exist", Claim::Defined),
        (" is implemented", Claim::Implemented),
        (" are implemented", Claim::Implemented),
    ];
    let (names, claim) = match strip_one_of(words, &ends) {
        Some(found) => found,
        None => (strip_prefix(words, "exports ")?, Claim::Exported),
    };
    let names = symbol_names(names, false)?;
    Some(names.into_iter().map(|name| SymbolCheck { name, claim, path: path.clone() }).collect())
}

/// Returns the names of symbols in a text such as `the functions f() and g()`. Plain words are names only
/// after a word for a symbol, or if `is_list` says that names stand here.
fn symbol_names(text: &str, is_list: bool) -> Option<Vec<String>> {
    let (mut names, mut has_kind) = (Vec::new(), is_list);
    let words = split_words(without_article(text));
    if words.iter().any(|word| is_one_of(word, &QUANTIFIERS)) {
        return None;
    }
    for word in words {
        let bare = word.trim_matches(',');
        let singular = bare.strip_suffix('s').unwrap_or(bare);
        if is_one_of(bare, &SYMBOL_KINDS)
            || is_one_of(singular, &SYMBOL_KINDS)
            || is_one_of(bare, &["classes"])
        {
            has_kind = true;
        } else if !is_one_of(bare, &["and", "&", "both", "the", "named", "called", "async", ""]) {
            let inner = quoted(bare);
            let name = inner.unwrap_or(bare);
            let is_called = name.ends_with("()");
            let name = name.strip_suffix("()").unwrap_or(name);
            // "The loginUser function" names a symbol before the word for it, "the new function" does not.
            let is_name = has_kind || is_called || inner.is_some() || is_compound(name);
            if !is_identifier(name) || !is_name {
                return None;
            }
            names.push(name.to_owned());
        }
    }
    (!names.is_empty()).then_some(names)
}

/// Returns whether a name consists of several words, such as `loginUser` and `login_user`.
fn is_compound(name: &str) -> bool {
    let is_inner_capital =
        name.chars().zip(name.chars().skip(1)).any(|(one, next)| one.is_lowercase() && next.is_uppercase());
    is_inner_capital || name.trim_matches('_').contains('_')
}

fn is_identifier(name: &str) -> bool {
    let is_part = |character: char| character.is_alphanumeric() || "_$".contains(character);
    name.chars().all(is_part) && name.chars().next().is_some_and(|first| !first.is_numeric())
}

/// Parses `Uses the X library` and `src/a.ts imports X`.
fn parse_use(words: &str) -> Option<Task> {
    let verbs = ["uses ", "use ", "imports ", "import ", "depends on "];
    let (subject, object) = verbs.iter().find_map(|verb| {
        if let Some(object) = strip_prefix(words, verb) {
            return Some(("", object));
        }
        let at = words.find(&format!(" {verb}"))?;
        Some((&words[..at], &words[at + verb.len() + 1..]))
    })?;
    let path = one_path(subject);
    let is_project = is_one_of(without_article(subject), &PROJECT_SUBJECTS);
    let object = split_words(without_article(object));
    let (name, rest) = object.split_first()?;
    let (is_quoted, name) = (quoted(name).is_some(), quoted(name).unwrap_or(name));
    let is_library = rest.first().is_some_and(|word| is_one_of(word, &LIBRARY_KINDS));
    let is_package = |character: char| character.is_alphanumeric() || "@/._-:".contains(character);
    if !name.chars().all(is_package) || !name.chars().any(char::is_alphanumeric) {
        return None;
    }
    // The purpose of a library, or the part that uses it, cannot be seen.
    let is_whole = rest.len() == usize::from(is_library) && (is_project || path.is_some());
    let is_marked = is_library || is_quoted || name.starts_with('@');
    let claim = match (is_marked, is_whole) {
        (true, true) => Claim::Used,
        (true, false) => Claim::UsedSomehow,
        // "Uses pagination" may describe the code instead of naming a library.
        (false, true) => Claim::UsedPerhaps,
        (false, false) => return None,
    };
    Some(Task::Search(vec![SymbolCheck { name: name.to_owned(), claim, path }]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file_check(path: &str) -> FileCheck {
        FileCheck { path: path.to_owned(), ..FileCheck::default() }
    }

    fn file(path: &str) -> FileCheck {
        FileCheck { kind: PathKind::File, ..file_check(path) }
    }

    fn containing(path: &str, text: &str) -> FileCheck {
        FileCheck { contains: Some(text.to_owned()), ..file_check(path) }
    }

    #[test]
    fn sentences_about_files_are_parsed() {
        for (words, expected) in [
            ("File src/a.rs exists", vec![file("src/a.rs")]),
            ("The file src/a.rs exists.", vec![file("src/a.rs")]),
            ("README.md exists", vec![file_check("README.md")]),
            ("The README.md file exists in the repository", vec![file("README.md")]),
            ("Verify that src/a.rs is present", vec![file_check("src/a.rs")]),
            ("There is a file docs/guide.md", vec![file("docs/guide.md")]),
            ("Files a.ts, b.ts and c/d.ts exist", vec![file("a.ts"), file("b.ts"), file("c/d.ts")]),
            ("  FILE `my notes.md` exists. ", vec![file("my notes.md")]),
            ("File Makefile exists", vec![file("Makefile")]),
            ("folder src/ exists", vec![FileCheck { kind: PathKind::Folder, ..file_check("src/") }]),
            ("src/old.rs does not exist", vec![FileCheck { absent: true, ..file_check("src/old.rs") }]),
            ("The file src/old.rs has been removed", vec![FileCheck { absent: true, ..file("src/old.rs") }]),
            ("src/a.rs contains main()", vec![containing("src/a.rs", "main()")]),
            (
                "src/a.rs contains loops",
                vec![FileCheck { is_loose: true, ..containing("src/a.rs", "loops") }],
            ),
            ("a.rs contains the word loops", vec![containing("a.rs", "loops")]),
            ("File Makefile contains \"run: all\"", vec![containing("Makefile", "run: all")]),
            ("`Makefile` contains 'a b'.", vec![containing("Makefile", "a b")]),
            ("CHANGELOG.md mentions `1.2.0`", vec![containing("CHANGELOG.md", "1.2.0")]),
            ("a.txt does not contain TODO", vec![FileCheck { absent: true, ..containing("a.txt", "TODO") }]),
            ("a.txt contains 'a' and 'b'", vec![containing("a.txt", "a"), containing("a.txt", "b")]),
            (
                "a.txt contains two words",
                vec![FileCheck { is_loose: true, ..containing("a.txt", "two words") }],
            ),
            ("a.txt exists and contains `x`", vec![containing("a.txt", "x")]),
        ] {
            assert_eq!(parse(words), Some(Task::Inspect(expected)), "{words}");
        }
    }

    #[test]
    fn sentences_about_code_are_parsed() {
        let search = |name: &str, claim, path: Option<&str>| {
            Some(Task::Search(vec![SymbolCheck {
                name: name.to_owned(),
                claim,
                path: path.map(str::to_owned),
            }]))
        };
        for (words, expected) in [
            ("Function generateToken() is exported", search("generateToken", Claim::Exported, None)),
            ("generateToken() is exported", search("generateToken", Claim::Exported, None)),
            (
                "The class `Cart` is defined in src/cart.ts",
                search("Cart", Claim::Defined, Some("src/cart.ts")),
            ),
            ("Function total exists", search("total", Claim::Defined, None)),
            ("src/cart.ts exports total", search("total", Claim::Exported, Some("src/cart.ts"))),
            ("src/cart.py defines the function total", search("total", Claim::Defined, Some("src/cart.py"))),
            ("Exports `total`", search("total", Claim::Exported, None)),
            ("The function retry is implemented", search("retry", Claim::Implemented, None)),
            ("Uses jsonwebtoken library", search("jsonwebtoken", Claim::Used, None)),
            ("The project uses the @acme/auth package", search("@acme/auth", Claim::Used, None)),
            ("src/a.ts imports `express`", search("express", Claim::Used, Some("src/a.ts"))),
            ("Uses the bcrypt library for hashing", search("bcrypt", Claim::UsedSomehow, None)),
            ("Uses pagination", search("pagination", Claim::UsedPerhaps, None)),
            ("Uses async/await", search("async/await", Claim::UsedPerhaps, None)),
            ("The loginUser function is exported", search("loginUser", Claim::Exported, None)),
        ] {
            assert_eq!(parse(words), expected, "{words}");
        }
        let Some(Task::Search(both)) = parse("Functions a() and b() are exported") else { panic!() };
        assert_eq!(both.iter().map(|check| check.name.as_str()).collect::<Vec<_>>(), ["a", "b"]);
    }

    #[test]
    fn sentences_about_commands_are_parsed() {
        let run = |argv: &[&str], is_quoted| {
            Some(Task::RunWords { argv: argv.iter().map(|word| (*word).to_owned()).collect(), is_quoted })
        };
        for (words, expected) in [
            ("cargo test passes", run(&["cargo", "test"], false)),
            ("`cargo test --workspace` succeeds.", run(&["cargo", "test", "--workspace"], true)),
            ("Running `npm test` passes", run(&["npm", "test"], true)),
            ("All tests pass", run(&["All", "tests"], false)),
            ("`cargo test && rm x` passes", None),
        ] {
            assert_eq!(parse(words), expected, "{words}");
        }
    }

    #[test]
    fn sentences_of_other_forms_are_not_parsed() {
        for words in [
            "",
            "exists",
            "File exists",
            "File with the settings exists",
            "Documentation for src/a.rs exists",
            "The function exists",
            "The output contains errors",
            "Output contains errors",
            "src/a.rs contains ",
            "Errors and/or warnings exist",
            "The API uses descriptive names for routes",
            "Everything is exported",
            "Every function is exported",
            "The new function is exported",
            "It is easy to read",
        ] {
            assert_eq!(parse(words), None, "{words}");
        }
    }
}
