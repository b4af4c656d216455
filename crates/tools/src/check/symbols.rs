//! Searches the project's code for a symbol or a library that a criterion names.
//!
//! The search knows the usual forms of definitions, exports and imports. A form that it knows proves a claim;
//! a name that no file mentions disproves it. Everything in between stays undecided.

use std::ops::ControlFlow;

use grep_matcher::Matcher as _;
use grep_regex::RegexMatcher;
use slipform_types::protected_folder;

use super::Finding;
use super::files::{line_at, matcher};
use crate::Error;
use crate::fs::text;
use crate::project::{Cancellation, EntryKind, FILE_BYTES_MAX, Project, ProjectPath, Walk, WalkEntry};

/// Endings of files that hold prose or data. What they mention is not part of the code.
const PROSE_ENDINGS: [&str; 13] = [
    ".md",
    ".markdown",
    ".mdx",
    ".rst",
    ".adoc",
    ".txt",
    ".log",
    ".csv",
    ".jsonl",
    ".svg",
    ".lock",
    ".patch",
    ".diff",
];

/// Names of files and folders that tools generate from other files.
const GENERATED: [&str; 5] =
    ["node_modules", "package-lock.json", "pnpm-lock.yaml", "npm-shrinkwrap.json", "go.sum"];

/// Endings of files in JavaScript and TypeScript.
const SCRIPT_ENDINGS: [&str; 10] =
    [".js", ".jsx", ".ts", ".tsx", ".mjs", ".cjs", ".mts", ".cts", ".vue", ".svelte"];

/// Returns whether a form applies to the file at a path.
type FileFilter = fn(&str) -> bool;

/// A claim about a symbol or a library.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Claim {
    /// The symbol is defined.
    Defined,
    /// The symbol is exported.
    Exported,
    /// The symbol is defined and does what it should. Its existence alone proves nothing.
    Implemented,
    /// The library is imported.
    Used,
    /// The library is used in some way. An import alone proves nothing.
    UsedSomehow,
    /// The name may be a library or describe the code. Its absence proves nothing.
    UsedPerhaps,
}

/// A symbol or library to search for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SymbolCheck {
    pub(super) name: String,
    pub(super) claim: Claim,
    /// The only file to search. `None` for the whole project.
    pub(super) path: Option<String>,
}

/// The search for one symbol.
struct Search<'a> {
    check: &'a SymbolCheck,
    /// The only file to search, or why it is not searched. `None` for the whole project.
    path: Option<Result<ProjectPath, Error>>,
    mention: RegexMatcher,
    /// The forms to look for, once a file mentions the name. Compiling them takes longer than most searches.
    forms: Option<Forms>,
    /// The line that proves the claim.
    proof: Option<String>,
    /// The first definition that is not exported.
    defined: Option<String>,
    /// Whether all definitions are in languages whose exports are known.
    is_known_language: bool,
    mentioned: Option<String>,
}

/// The compiled forms of definitions, exports or imports of a name.
struct Forms {
    /// Forms that prove the claim, each with the files that it applies to.
    proofs: Vec<(FileFilter, RegexMatcher)>,
    definition: RegexMatcher,
}

impl Forms {
    fn compile(check: &SymbolCheck) -> Result<Forms, Error> {
        let name = name_pattern(check);
        let compile = |(applies, pattern): (FileFilter, String)| Ok((applies, matcher(&pattern)?));
        let proofs: Result<Vec<_>, Error> = proofs(check, &name).into_iter().map(compile).collect();
        Ok(Forms { proofs: proofs?, definition: matcher(&definition(&name))? })
    }
}

/// Decides claims by one walk over the project's code.
pub(super) fn search(
    project: &Project,
    checks: &[&SymbolCheck],
    cancel: &Cancellation,
) -> Result<Vec<Finding>, Error> {
    let mut searches: Vec<Search<'_>> =
        checks.iter().map(|check| Search::new(project, check)).collect::<Result<_, _>>()?;
    let mut is_complete = true;
    if searches.iter().any(|search| search.path.is_none()) {
        let mut visit = |found: WalkEntry| {
            if found.kind != EntryKind::File || !is_code(&found.path) {
                return Ok(ControlFlow::Continue(()));
            }
            if found.metadata.is_some_and(|metadata| metadata.len() > FILE_BYTES_MAX) {
                is_complete = false;
                return Ok(ControlFlow::Continue(()));
            }
            let path = ProjectPath::trusted(found.path);
            // Skip files that may hold keys, are binary or have been removed since.
            if let Ok(content) = project.read(&path).and_then(|bytes| text(&path, bytes)) {
                let mut searches = searches.iter_mut().filter(|search| search.path.is_none());
                searches.try_for_each(|search| search.file(&path, &content))?;
            }
            Ok(ControlFlow::Continue(()))
        };
        let is_whole = Walk::new(project, cancel, &mut visit).run(&ProjectPath::trusted(String::new()))?;
        is_complete &= is_whole;
    }
    searches
        .into_iter()
        .map(|mut search| {
            cancel.check()?;
            let path = match search.path.take() {
                None => return Ok(search.finding(is_complete)),
                Some(Ok(path)) => path,
                Some(Err(error)) => return Ok((None, format!("not decided: {error}"))),
            };
            if project.is_missing(&path) {
                return Ok((Some(false), format!("{} does not exist", path.as_str())));
            }
            Ok(match project.read(&path).and_then(|bytes| text(&path, bytes)) {
                Ok(content) => {
                    search.file(&path, &content)?;
                    search.finding(true)
                }
                Err(error) => (None, format!("not decided: {error}")),
            })
        })
        .collect()
}

/// Returns whether a file belongs to the project's code: not prose, not generated, and not a definition of
/// agents, which may quote the criterion.
fn is_code(path: &str) -> bool {
    let parts: Vec<&str> = path.split('/').collect();
    let is_prose =
        PROSE_ENDINGS.iter().any(|ending| path.ends_with(ending)) && !path.ends_with("requirements.txt");
    let is_settings = path == "slipform.toml";
    !is_prose
        && !is_settings
        && !parts.iter().any(|part| GENERATED.contains(part))
        && protected_folder(&parts).is_none()
}

fn is_script(path: &str) -> bool {
    SCRIPT_ENDINGS.iter().any(|ending| path.ends_with(ending))
}

fn is_rust(path: &str) -> bool {
    path.ends_with(".rs")
}

fn is_python(path: &str) -> bool {
    path.ends_with(".py") || path.ends_with(".pyi")
}

fn is_go(path: &str) -> bool {
    path.ends_with(".go")
}

/// Returns whether a file is in another language, of which only `public` is known.
fn is_other(path: &str) -> bool {
    !(is_script(path) || is_rust(path) || is_python(path) || is_go(path))
}

fn is_any(_path: &str) -> bool {
    true
}

impl<'a> Search<'a> {
    fn new(project: &Project, check: &'a SymbolCheck) -> Result<Search<'a>, Error> {
        let name = name_pattern(check);
        let locate = |path: &str| {
            let path = project.locate(path)?;
            if path.is_protected() {
                Err(path.refused("is not one of the project's files"))
            } else {
                Ok(path)
            }
        };
        let path = check.path.as_deref().map(locate);
        Ok(Search {
            check,
            path,
            mention: matcher(&format!(r"(?i:(?:^|[^\w$@-]){name}(?:$|[^\w$-]))"))?,
            forms: None,
            proof: None,
            defined: None,
            is_known_language: true,
            mentioned: None,
        })
    }

    /// Searches one file.
    fn file(&mut self, path: &ProjectPath, content: &str) -> Result<(), Error> {
        let line = |matcher: &RegexMatcher| {
            let found = matcher.find(content.as_bytes()).ok().flatten()?;
            let matched = content.get(found.start()..found.end()).unwrap_or_default();
            let offset = found.start() + matched.len() - matched.trim_start().len();
            Some(line_at(path, content, offset))
        };
        let mentioned = line(&self.mention).filter(|_| self.proof.is_none());
        let Some(mentioned) = mentioned else { return Ok(()) };
        self.mentioned.get_or_insert(mentioned);
        let forms = match self.forms.take() {
            Some(forms) => forms,
            None => Forms::compile(self.check)?,
        };
        let mut proofs = forms.proofs.iter().filter(|(applies, _)| applies(path.as_str()));
        self.proof = proofs.find_map(|(_, matcher)| line(matcher));
        if let (None, Claim::Exported, Some(found)) = (&self.proof, self.check.claim, line(&forms.definition))
        {
            self.is_known_language &= !is_other(path.as_str());
            self.defined.get_or_insert(found);
        }
        self.forms = Some(forms);
        Ok(())
    }

    /// Decides the claim. `is_complete` says whether the search saw all files.
    fn finding(self, is_complete: bool) -> Finding {
        let SymbolCheck { name, claim, .. } = self.check;
        match (self.proof, self.defined, self.mentioned) {
            (Some(line), ..) if !matches!(claim, Claim::Implemented | Claim::UsedSomehow) => {
                (Some(true), line)
            }
            (None, Some(line), _) if self.is_known_language => (Some(false), format!("not exported: {line}")),
            (Some(line), ..) | (None, Some(line), _) | (None, None, Some(line)) => {
                (None, format!("not decided: {line}"))
            }
            (None, None, None) if *claim == Claim::UsedPerhaps || !is_complete => {
                (None, format!("not decided: no file that was searched mentions '{name}'"))
            }
            (None, None, None) => match &self.check.path {
                Some(path) => (Some(false), format!("{path} does not mention '{name}'")),
                None => (Some(false), format!("no code of the project mentions '{name}'")),
            },
        }
    }
}

/// Returns the pattern of a name. Names of libraries differ in `-` and `_` between manifests and code.
fn name_pattern(check: &SymbolCheck) -> String {
    let is_library = matches!(check.claim, Claim::Used | Claim::UsedSomehow | Claim::UsedPerhaps);
    let escape = |character: char| match character {
        '-' | '_' if is_library => "[-_]".to_owned(),
        character if character.is_alphanumeric() || character == '_' => character.to_string(),
        character => format!("\\{character}"),
    };
    check.name.chars().map(escape).collect()
}

/// Returns the pattern of definitions in all languages.
fn definition(name: &str) -> String {
    let modifiers = "export|default|declare|abstract|async|static|const|unsafe|public|private|protected|internal|\
        override|final|virtual|open|inline|suspend|readonly|sealed|partial|pub(?:\\([^)]*\\))?|extern(?:\\s+\"[^\"]*\")?";
    let keywords = "function|fn|def|func|fun|class|struct|enum|interface|type|trait|const|let|var|val|static|record|\
        object|protocol|union|macro_rules!";
    format!(
        r"^[ \t]*(?:(?:{modifiers})\s+)*(?:{keywords})(?:\s*\*\s*|\s+)(?:\([^)]*\)\s*)?(?:self\.)?(?:mut\s+)?{name}(?:$|[^\w$])|^[ \t]*(?:export\s+|exports\.|module\.exports\.)?{name}\s*[:=]\s*(?:async\s*)?(?:function|\([^)]*\)\s*(?::[^=]+)?=>|\w+\s*=>|lambda|class)|^[ \t]*[\w<>,\[\]*&:~?. \t]*\b{name}\s*\([^;{{}}]*\)[^;{{}}()]*\{{"
    )
}

/// Returns the patterns that prove a claim, with the files that they apply to.
fn proofs(check: &SymbolCheck, name: &str) -> Vec<(FileFilter, String)> {
    let end = r"(?:$|[^\w$])";
    match check.claim {
        Claim::Defined | Claim::Implemented => vec![(is_any, definition(name))],
        Claim::Exported => {
            let kinds = "function|class|const|let|var|enum|interface|type|namespace";
            let items = "fn|struct|enum|trait|type|const|static|mod|union";
            let mut patterns: Vec<(FileFilter, String)> = vec![
                (
                    is_script,
                    format!(
                        r"^[ \t]*export\s+(?:default\s+)?(?:declare\s+)?(?:abstract\s+)?(?:async\s+)?(?:{kinds})(?:\s*\*\s*|\s+){name}{end}"
                    ),
                ),
                (
                    is_script,
                    format!(r"^[ \t]*export\s+(?:type\s*)?(?:default\s*)?\{{[^}}]*\b{name}\b[^}}]*\}}"),
                ),
                (is_script, format!(r"^[ \t]*export\s+default\s+{name}{end}")),
                (is_script, format!(r"^[ \t]*(?:module\.)?exports\.{name}\s*=")),
                (is_script, format!(r"^[ \t]*module\.exports\s*=\s*(?:{name}{end}|\{{[^}}]*\b{name}\b)")),
                (
                    is_rust,
                    format!(
                        r#"^[ \t]*pub\s+(?:(?:async|const|unsafe|extern(?:\s+"[^"]*")?)\s+)*(?:{items})\s+(?:mut\s+)?{name}{end}"#
                    ),
                ),
                (is_rust, format!(r"^[ \t]*pub\s+use\s+[^;]*\b{name}\b[^;]*;")),
                (is_other, format!(r"^[ \t]*(?:@\w+\s+)*public\s[^;{{}}=]*\b{name}{end}")),
            ];
            if !name.starts_with('_') {
                patterns.push((
                    is_python,
                    format!(r"^(?:async\s+)?(?:def|class)\s+{name}{end}|^{name}\s*(?::[^=\n]+)?="),
                ));
            }
            patterns.push((is_python, format!(r#"^__all__\s*\+?=\s*[\[(][^\])]*['"]{name}['"]"#)));
            if name.starts_with(char::is_uppercase) {
                patterns.push((is_go, definition(name)));
            }
            patterns
        }
        Claim::Used | Claim::UsedSomehow | Claim::UsedPerhaps => vec![
            (
                is_script,
                format!(
                    r#"^[^/*\n]*(?:\bfrom\s*|\bimport\s*\(?\s*|\brequire\s*\(\s*)['"]{name}(?:/[^'"]*)?['"]"#
                ),
            ),
            (is_python, format!(r"^[ \t]*(?:import|from)\s+(?:[\w.]+\s*,\s*)*{name}(?:$|[^\w-])")),
            (is_rust, format!(r"^[ \t]*(?:pub\s+)?(?:use|extern\s+crate)\s+(?:::)?{name}(?:$|[^\w-])")),
            (is_go, format!(r#"^[ \t]*(?:import\s+)?(?:[\w.]+\s+)?"(?:[^"]*/)?{name}(?:/[^"]*)?"[ \t\r]*$"#)),
            (is_other, format!(r"^[ \t]*(?:import|using|use)\s+(?:static\s+)?[\w.\\]*\b{name}{end}")),
            (
                is_other,
                format!(r#"^[ \t]*(?:#\s*include\s*[<"]|require(?:_once)?\s*\(?\s*['"]){name}(?:[/."'>])"#),
            ),
        ],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_proven(claim: Claim, name: &str, path: &str, line: &str) -> bool {
        let check = SymbolCheck { name: name.to_owned(), claim, path: None };
        let patterns = proofs(&check, &name_pattern(&check));
        let mut patterns = patterns.iter().filter(|(applies, _)| applies(path));
        patterns.any(|(_, pattern)| matcher(pattern).unwrap().is_match(line.as_bytes()).unwrap())
    }

    #[test]
    fn definitions_of_many_languages_are_found() {
        for line in [
            "function total(lines) {",
            "export async function total() {",
            "  const total = (lines) => 1",
            "    pub(crate) async fn total<T>(self) {",
            "def total(lines):",
            "    async def total(self):",
            "func total() int {",
            "func (c *Cart) total() int {",
            "fun total(): Int {",
            "  public static int total(List<Line> lines) {",
            "  total(lines: Line[]): number {",
            "class total:",
            "exports.total = function () {}",
            "  total: function () {}",
            "let total;",
        ] {
            assert!(is_proven(Claim::Defined, "total", "a.x", line), "{line}");
        }
        for line in [
            "// function total() {",
            "  return total(lines);",
            "  if (total(lines)) {",
            "# def total():",
            "function totals() {",
            "const subtotal = 1",
            "total = total + 1",
            "x = total(1)",
        ] {
            assert!(!is_proven(Claim::Defined, "total", "a.x", line), "{line}");
        }
    }

    #[test]
    fn exports_are_found_by_language() {
        for (path, line) in [
            ("a.ts", "export function total() {}"),
            ("a.ts", "export default async function total() {}"),
            ("a.ts", "export const total = 1"),
            ("a.ts", "export {\n  other,\n  total\n}"),
            ("a.js", "module.exports = { other, total }"),
            ("a.js", "exports.total = total"),
            ("a.rs", "pub fn total() {}"),
            ("a.rs", "pub use cart::{total, other};"),
            ("a.py", "def total():"),
            ("A.java", "    public int total() {"),
        ] {
            assert!(is_proven(Claim::Exported, "total", path, line), "{path} {line}");
        }
        for (path, line) in [
            ("a.ts", "function total() {}"),
            ("a.ts", "// export function total() {}"),
            ("a.ts", "export function totals() {}"),
            ("a.rs", "fn total() {}"),
            ("a.rs", "pub(crate) fn total() {}"),
            ("a.py", "    def total(self):"),
            ("a.go", "func total() {}"),
            ("A.java", "    private int total() {"),
        ] {
            assert!(!is_proven(Claim::Exported, "total", path, line), "{path} {line}");
        }
    }

    #[test]
    fn imports_are_found_by_language() {
        for (name, path, line) in [
            ("jsonwebtoken", "a.ts", "import jwt from 'jsonwebtoken'"),
            ("jsonwebtoken", "a.js", "const jwt = require(\"jsonwebtoken\")"),
            ("express", "a.ts", "import 'express'"),
            ("@acme/auth", "a.ts", "import { x } from '@acme/auth/tokens'"),
            ("requests", "a.py", "import os, requests"),
            ("flask", "a.py", "from flask import Flask"),
            ("serde-json", "a.rs", "use serde_json::Value;"),
            ("chi", "a.go", "\t\"github.com/go-chi/chi\""),
            ("slf4j", "A.java", "import org.slf4j.Logger;"),
            ("zlib", "a.c", "#include <zlib.h>"),
        ] {
            assert!(is_proven(Claim::Used, name, path, line), "{path} {line}");
        }
        for (name, path, line) in [
            ("jsonwebtoken", "a.ts", "// import jwt from 'jsonwebtoken'"),
            ("jsonwebtoken", "a.ts", "import jwt from 'jsonwebtoken-promise'"),
            ("requests", "a.py", "requests = []"),
        ] {
            assert!(!is_proven(Claim::Used, name, path, line), "{path} {line}");
        }
    }
}
