//! Results that say what can be looked at: the files that they name have to be there, or to have been changed, and
//! criteria have to be as they were found, before they are taken.

use serde_json::Value;
use slipform_schema::{Violation, Violations};
use slipform_types::{Blueprint, Protocol, Reply};

use crate::cite::{CITED_MAX, Cited, cited};
use crate::criteria::contradictions;
use crate::decide::Rejection;
use crate::error::Error;
use crate::judge::Accepted;
use crate::plan::Plan;
use crate::prompt::Why;
use crate::state::State;

/// What is wrong with a result that names the wrong files.
const WRONG_FILES: (Why, &str) = (Why::Citation, "Output named files that do not exist or were not changed");

/// What is wrong with a result that says something else of a criterion than was found.
const CONTRADICTED: (Why, &str) = (Why::Contradiction, "Output contradicted what was checked");

/// A result that satisfies its contract and names files that nobody has seen.
#[derive(Debug, Clone)]
pub(crate) struct Looking {
    plan: Plan,
    accepted: Accepted,
    reply: Reply,
    cited: Vec<Cited>,
    /// The files that are to be looked for.
    pub(crate) paths: Vec<String>,
}

impl State {
    /// Takes a result, unless it contradicts what was checked, or names files that are not there or that were not
    /// changed. Files that nobody has seen are looked for first.
    pub(crate) fn look_or_finish(&mut self, plan: Plan, accepted: Accepted, reply: &Reply) {
        let Some(Blueprint { cites, changes, checks, .. }) = self.task.as_ref().map(|task| &*task.blueprint)
        else {
            return self.take(plan, accepted, reply);
        };
        let contradicted = contradictions(checks, &accepted.value, &self.tools.decided);
        if !contradicted.is_empty() {
            return self.refuse(plan, accepted.value, reply, contradicted, CONTRADICTED);
        }
        let (cited, changed) = (cited(cites, &accepted.value), cited(changes, &accepted.value));
        let mut wrong: Vec<Violation> = Vec::new();
        if cited.len() > CITED_MAX || changed.len() > CITED_MAX {
            wrong.push(violation("$", format!("names more than {CITED_MAX} files; name those that matter")));
        }
        for it in changed.iter().filter(|it| !self.tools.written.contains(&it.path)) {
            let message = format!("'{}' was not changed: no tool wrote to it", it.path);
            wrong.push(violation(&it.place, message));
        }
        if !wrong.is_empty() {
            return self.refuse(plan, accepted.value, reply, wrong, WRONG_FILES);
        }
        let mut paths: Vec<String> = cited.iter().map(|it| it.path.clone()).collect();
        paths.retain(|path| !self.tools.seen.contains(path));
        paths.sort();
        paths.dedup();
        if paths.is_empty() {
            return self.take(plan, accepted, reply);
        }
        self.looking = Some(Box::new(Looking { plan, accepted, reply: reply.clone(), cited, paths }));
    }

    /// It is known now which of the files that a result names are there.
    pub(crate) fn looked(&mut self, missing: &[String]) -> Result<(), Error> {
        let looking = self.looking.take();
        if self.was_cut_short() {
            return Ok(());
        }
        let looking = looking.ok_or(Error::Journal("files were looked for that nobody named"))?;
        let Looking { plan, accepted, reply, cited, .. } = *looking;
        let wrong: Vec<Violation> = cited
            .iter()
            .filter(|it| missing.contains(&it.path))
            .map(|it| violation(&it.place, format!("'{}' is not a file or folder of the project", it.path)))
            .collect();
        match wrong.is_empty() {
            true => self.take(plan, accepted, &reply),
            false => self.refuse(plan, accepted.value, &reply, wrong, WRONG_FILES),
        }
        Ok(())
    }

    /// Asks again for a result that says what is not so.
    fn refuse(
        &mut self,
        plan: Plan,
        value: Value,
        reply: &Reply,
        list: Vec<Violation>,
        (why, summary): (Why, &'static str),
    ) {
        let violations = Violations::capped(list);
        self.usage.failed(&value, &violations);
        self.correct(plan, reply, Rejection::unmet(why, violations.lines(), summary));
    }

    /// Asks for a result again that satisfies the schema and will not do all the same.
    pub(crate) fn correct(&mut self, plan: Plan, reply: &Reply, trouble: Rejection) {
        match plan.protocol {
            Protocol::Actions => self.correct_envelope(plan, reply, trouble),
            Protocol::Tools => self.ask_again(plan, reply, trouble, None),
        }
    }
}

pub(crate) fn violation(path: &str, message: String) -> Violation {
    Violation { path: path.to_owned(), message, schema_path: String::new(), value: Value::Null }
}
