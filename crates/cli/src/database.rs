//! The database of the coordinator: its address, from arguments, variables and settings, and opening it.
//!
//! A PostgreSQL address can contain a password. [`hide_argument`] takes it out of the process list; every other place
//! for it is in `docs/guides/service.md`.

use std::ffi::OsString;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, anyhow, bail};
use slipform_api::Code;
use slipform_coordinator::{
    App, AppOptions, Registry, StoreError, StoreOptions, address_passwords, backup, shown_address,
};
use slipform_types::env;
use tokio::time::{Instant, sleep};

use crate::backends::environment;
use crate::settings::{self, ServerSettings};
use crate::{coordinator, output, secrets};

/// The option that names the database.
const OPTION: &str = "--db";

/// The URL schemes of supported databases.
const STORES: [&str; 3] = ["sqlite", "postgres", "postgresql"];

/// First and maximum delay between two attempts to reach the database at start.
const BACK_OFF: Duration = Duration::from_millis(250);
const BACK_OFF_MAX: Duration = Duration::from_secs(5);

/// Interval of messages while the database cannot be reached for the same reason.
const MESSAGE_INTERVAL: Duration = Duration::from_secs(60);

/// The address of the coordinator's database.
pub(crate) struct Database {
    /// Accepted by the store. May contain a password.
    address: String,
}

impl Database {
    /// Returns the database from `--db`, `SLIPFORM_DB`, or the settings, otherwise the file of the project. Its
    /// password is redacted from now on. Prints a warning about a password that others may be able to read.
    pub(crate) fn find(project: &Path, given: Option<&str>, settings: &ServerSettings) -> Result<Database> {
        let from_variable = environment(env::SLIPFORM_DB).filter(|address| !address.is_empty());
        let address = match given.map(str::to_owned).or(from_variable) {
            Some(given) => parse(project, &given)?,
            None => match (&settings.db, &settings.db_env) {
                (Some(given), _) => {
                    let address = parse(project, given)?;
                    output::lines(settings_warning(project, &address));
                    address
                }
                (None, Some(variable)) => {
                    let Some(given) = environment(variable).filter(|address| !address.is_empty()) else {
                        bail!(
                            "{}: server.db_env names the variable `{variable}`, which is not set; export it with the \
                             address of the database",
                            settings::FILE
                        );
                    };
                    parse(project, &given)?
                }
                (None, None) => coordinator::database(project),
            },
        };
        let database = Database { address };
        let passwords = address_passwords(&database.address).into_iter();
        let from_variable = environment(env::PGPASSWORD).filter(|_| database.is_postgres());
        passwords.chain(from_variable).for_each(secrets::add);
        Ok(database)
    }

    /// Returns the address for messages, without its password.
    pub(crate) fn shown(&self) -> String {
        shown_address(&self.address)
    }

    /// Returns a name for the database in files. It does not change with the password.
    pub(crate) fn key(&self) -> String {
        if address_passwords(&self.address).is_empty() { self.address.clone() } else { self.shown() }
    }

    /// Returns the variables that hold the password or may hold it, which programs of agents must not see.
    pub(crate) fn private_variables(&self, settings: &ServerSettings) -> Vec<String> {
        let password = self.is_postgres().then(|| env::PGPASSWORD.to_owned());
        [env::SLIPFORM_DB.to_owned()].into_iter().chain(settings.db_env.clone()).chain(password).collect()
    }

    fn is_postgres(&self) -> bool {
        !self.address.starts_with("sqlite:")
    }

    /// Copies the database to a new file while it is in use.
    pub(crate) async fn back_up(&self, file: &Path) -> Result<()> {
        Ok(backup(&self.address, file).await?)
    }

    /// Opens the database once.
    pub(crate) async fn open(
        &self,
        store: &StoreOptions,
        registry: Arc<Registry>,
        options: AppOptions,
    ) -> Result<App> {
        let opened = App::open_with(&self.address, store, registry, options).await;
        opened.map_err(|error| self.failure(&error))
    }

    /// Opens the database. Waits up to `limit`, or forever, while PostgreSQL cannot be reached or accepts no
    /// connections. A wrong password, an unknown database and the like are errors at once.
    pub(crate) async fn open_when_reachable(
        &self,
        store: &StoreOptions,
        registry: Arc<Registry>,
        options: AppOptions,
        limit: Option<Duration>,
    ) -> Result<App> {
        let deadline = limit.map(|limit| Instant::now() + limit);
        let mut back_off = BACK_OFF;
        let mut shown: Option<(String, Instant)> = None;
        loop {
            let opened = App::open_with(&self.address, store, registry.clone(), options.clone()).await;
            let reason = match opened {
                Ok(app) => {
                    if shown.is_some() {
                        output::lines([format!("slipform: {} is reachable", self.shown())]);
                    }
                    return Ok(app);
                }
                Err(StoreError::Unavailable(reason)) if self.is_postgres() => reason,
                Err(error) => return Err(self.failure(&error)),
            };
            if deadline.is_some_and(|deadline| Instant::now() + back_off > deadline) {
                return Err(self.failure(&StoreError::Unavailable(reason)));
            }
            let is_new =
                shown.as_ref().is_none_or(|(last, at)| *last != reason || at.elapsed() >= MESSAGE_INTERVAL);
            if is_new {
                output::lines([format!(
                    "slipform: waiting for the database {}: {reason}; retrying at least every {} s; Ctrl-C ends",
                    self.shown(),
                    BACK_OFF_MAX.as_secs()
                )]);
                shown = Some((reason, Instant::now()));
            }
            sleep(back_off).await;
            back_off = (back_off * 2).min(BACK_OFF_MAX);
        }
    }

    /// Converts an error of the store, which omits the address.
    fn failure(&self, error: &StoreError) -> anyhow::Error {
        let message = if self.is_postgres() {
            format!("cannot use the database {}: {error}", self.shown())
        } else {
            error.to_string()
        };
        match error {
            StoreError::Unavailable(_) => slipform_api::Error::new(Code::Unavailable, message).into(),
            _ => anyhow!(message),
        }
    }
}

/// Parses an address: a database URL, or the path of a SQLite file.
fn parse(project: &Path, given: &str) -> Result<String> {
    match given.split_once(':') {
        None => Ok(format!("sqlite:{}", project.join(given).display())),
        Some((kind, _)) if STORES.contains(&kind) => Ok(given.to_owned()),
        // The rest of the URL may contain a password and is not printed.
        Some((kind, _)) => bail!(
            "unknown database type `{kind}`; write the path of a file, sqlite:FILE or postgres://USER@HOST/DATABASE"
        ),
    }
}

/// Returns a warning about a password in the settings file.
fn settings_warning(project: &Path, address: &str) -> Option<String> {
    if address_passwords(address).is_empty() {
        return None;
    }
    let file = settings::FILE;
    let others = is_readable_by_others(&project.join(file));
    let who =
        if others { "other users of this machine and programs of agents" } else { "programs of agents" };
    let first = if others { format!("run `chmod 600 {file}`, and ") } else { String::new() };
    Some(format!(
        "slipform: warning: server.db in {file} contains a password, which {who} can read; {first}name a variable with \
         the address in `db_env` instead"
    ))
}

fn is_readable_by_others(path: &Path) -> bool {
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt as _;
        path.metadata().is_ok_and(|metadata| metadata.mode() & 0o044 != 0)
    }
    #[cfg(not(unix))]
    {
        let _ = path;
        false
    }
}

/// Takes a password in `--db` out of the process list: replaces this process by the same command, with the address in
/// `SLIPFORM_DB` instead. Call it first; it does nothing without a password.
///
/// # Errors
/// Returns an error if the process cannot be replaced.
pub(crate) fn hide_argument(given: Option<&str>) -> Result<()> {
    let Some(given) = given.filter(|given| !address_passwords(given).is_empty()) else { return Ok(()) };
    output::lines([format!(
        "slipform: warning: `{OPTION}` contains a password, which the shell's history keeps and the process list showed \
         until now; set {db}, {password} or `db_env` in {file} instead",
        db = env::SLIPFORM_DB,
        password = env::PGPASSWORD,
        file = settings::FILE
    )]);
    let error = replace_process(given);
    bail!(
        "cannot take the password in `{OPTION}` out of the process list: {error}; pass an address without a password, \
         and set {}",
        env::PGPASSWORD
    )
}

/// Starts this program again in the same process. Returns only if that fails.
#[cfg(unix)]
fn replace_process(address: &str) -> std::io::Error {
    use std::os::unix::process::CommandExt as _;
    // This path is valid even if an update has replaced the file.
    let own = Path::new("/proc/self/exe");
    let program = if own.exists() { Ok(own.to_owned()) } else { std::env::current_exe() };
    let program = match program {
        Ok(program) => program,
        Err(error) => return error,
    };
    let mut arguments = std::env::args_os();
    let mut command = std::process::Command::new(program);
    if let Some(name) = arguments.next() {
        command.arg0(name);
    }
    command.args(without_option(arguments, address)).env(env::SLIPFORM_DB, address).exec()
}

#[cfg(not(unix))]
fn replace_process(_: &str) -> std::io::Error {
    std::io::Error::from(std::io::ErrorKind::Unsupported)
}

/// Returns the arguments without `--db ADDRESS` and `--db=ADDRESS`.
fn without_option(arguments: impl Iterator<Item = OsString>, address: &str) -> Vec<OsString> {
    let joined = OsString::from(format!("{OPTION}={address}"));
    let mut kept: Vec<OsString> = Vec::new();
    for argument in arguments {
        let is_value = argument == address && kept.last().is_some_and(|last| last == OPTION);
        if is_value {
            kept.pop();
        } else if argument != joined {
            kept.push(argument);
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn database_option_is_removed_from_arguments() {
        let without =
            |arguments: &[&str]| without_option(arguments.iter().map(OsString::from), "postgres://a:b@c");
        let expected = ["serve", "--listen", "x"];
        assert_eq!(without(&["serve", "--db", "postgres://a:b@c", "--listen", "x"]), expected);
        assert_eq!(without(&["serve", "--db=postgres://a:b@c", "--listen", "x"]), expected);
        assert_eq!(without(&["serve", "--listen", "x", "--db", "postgres://a:b@c"]), expected);
    }
}
