//! The coordinator that commands use: the store of this project in this process, or a coordinator over HTTP. Commands are
//! written against [`CallerApi`]. Only `run` asks which one it has, because a store in this process needs a runner.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context as _, Result, bail};
use slipform_agents::contract::EnvironmentDefaults;
use slipform_api::{CallerApi, Client, Connection, shown_url};
use slipform_coordinator::AppOptions;
use slipform_types::env;

use crate::backends::environment;
use crate::local_coordinator::LocalCoordinator;
use crate::{admin_token, secrets};

/// The variable with the coordinator's URL.
pub(crate) const URL_VARIABLE: &str = env::SLIPFORM_URL;

/// The variable with the token for the coordinator.
pub(crate) const TOKEN_VARIABLE: &str = env::SLIPFORM_TOKEN;

/// The project folder with Slipform's state.
const STATE_FOLDER: &str = ".slipform";

/// The database with the project's own runs.
const DATABASE: &str = ".slipform/slipform.db";

/// A coordinator for one command.
pub(crate) struct Coordinator {
    /// The coordinator's operations.
    pub(crate) api: Arc<dyn CallerApi>,
    /// Set if the coordinator is in this process.
    pub(crate) local: Option<LocalCoordinator>,
}

impl Coordinator {
    /// Opens the coordinator from `--server` or `SLIPFORM_URL`, otherwise the store of this project.
    pub(crate) async fn open(server: Option<&str>) -> Result<Coordinator> {
        match client(server)? {
            Some(client) => Ok(Coordinator::remote(client)),
            None => Ok(Coordinator::local(LocalCoordinator::open(&project()?).await?)),
        }
    }

    /// As [`Coordinator::open`], for commands that only read. They create no store in a project that has none.
    pub(crate) async fn open_to_read(server: Option<&str>) -> Result<Coordinator> {
        match client(server)? {
            Some(client) => Ok(Coordinator::remote(client)),
            None => Ok(Coordinator::local(LocalCoordinator::open_to_read(&project()?).await?)),
        }
    }

    /// As [`Coordinator::open`], for commands that submit runs. A store that does not exist yet is created by
    /// [`Coordinator::create_store`], so that a request that is refused leaves no trace.
    pub(crate) async fn open_to_run(server: Option<&str>) -> Result<Coordinator> {
        match client(server)? {
            Some(client) => Ok(Coordinator::remote(client)),
            None => Ok(Coordinator::local(LocalCoordinator::open_to_run(&project()?).await?)),
        }
    }

    /// As [`Coordinator::open`], for a command that serves callers and performs their runs.
    pub(crate) async fn open_to_serve(server: Option<&str>) -> Result<Coordinator> {
        match client(server)? {
            Some(client) => Ok(Coordinator::remote(client)),
            None => Ok(Coordinator::local(LocalCoordinator::open_to_serve(&project()?).await?)),
        }
    }

    /// Creates the project's store if [`Coordinator::open_to_run`] found none.
    pub(crate) async fn create_store(self) -> Result<Coordinator> {
        match self.local {
            Some(local) => Ok(Coordinator::local(local.create_store().await?)),
            None => Ok(self),
        }
    }

    fn remote(client: Client) -> Coordinator {
        Coordinator { api: Arc::new(client), local: None }
    }

    fn local(local: LocalCoordinator) -> Coordinator {
        Coordinator { api: Arc::new(local.app.clone()), local: Some(local) }
    }
}

fn project() -> Result<std::path::PathBuf> {
    std::env::current_dir().context("cannot read the current folder")
}

/// Returns whether the project has a store.
pub(crate) fn has_store(project: &Path) -> bool {
    project.join(DATABASE).exists()
}

/// Returns the database address of the project's own store. Restricts an existing state folder to its owner.
pub(crate) fn database(project: &Path) -> String {
    if project.join(STATE_FOLDER).is_dir() {
        // An error means that another user owns the folder, which then keeps its mode.
        let _ = restrict_to_owner(&project.join(STATE_FOLDER));
    }
    format!("sqlite:{}", project.join(DATABASE).display())
}

/// Creates a folder that only its owner can read, because state files contain prompts and replies.
pub(crate) fn make_folder(folder: &Path) -> std::io::Result<()> {
    let mut builder = std::fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.recursive(true).create(folder)?;
    restrict_to_owner(folder)
}

/// Removes the permissions of other users from the state folder that contains `folder`.
fn restrict_to_owner(folder: &Path) -> std::io::Result<()> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        let state = folder.ancestors().find(|folder| folder.ends_with(STATE_FOLDER));
        if let Some((state, metadata)) = state.and_then(|state| Some((state, state.metadata().ok()?)))
            && metadata.permissions().mode() & 0o077 != 0
        {
            std::fs::set_permissions(state, std::fs::Permissions::from_mode(0o700))?;
        }
    }
    Ok(())
}

/// Returns a client of the coordinator from `--server` or `SLIPFORM_URL`, or `None` if neither is set.
pub(crate) fn client(server: Option<&str>) -> Result<Option<Client>> {
    let token = environment(TOKEN_VARIABLE).filter(|token| !token.is_empty());
    let project = std::env::current_dir().context("cannot read the current folder")?;
    let connect = |url: String| {
        if token.as_ref().is_some_and(|token| !token.bytes().all(|byte| byte.is_ascii_graphic())) {
            bail!(
                "{TOKEN_VARIABLE} contains characters that are not allowed in a token, such as a space or a line \
                 break; set it again"
            );
        }
        if !url.contains("://") {
            let shown = shown_url(&url);
            bail!("`{shown}` is not a coordinator URL; write http://HOST:PORT or https://HOST:PORT");
        }
        let client = with_authorities(Client::new(&Connection { url, token: token.clone() })?)?;
        // The user who runs a server of this project is its administrator and needs no token of their own.
        let own = client.host_and_port().filter(|_| token.is_none());
        match own.and_then(|(host, port)| admin_token::find(&project, host, port)) {
            Some((_, address)) => {
                let (project, ip, port) = (project.clone(), address.ip().to_string(), address.port());
                let source = move || Some(admin_token::find(&project, &ip, port)?.0);
                // A certificate is for the name in the URL, and proves that the name led to the server.
                let client = if client.is_https() {
                    client
                } else {
                    Client::new(&Connection { url: format!("http://{address}"), token: None })?
                };
                Ok(client.with_token_source(Arc::new(source)))
            }
            None => Ok(client),
        }
    };
    if let Some(url) = server {
        return connect(url.to_owned()).map(Some);
    }
    let Some(url) = environment(URL_VARIABLE).filter(|url| !url.is_empty()) else { return Ok(None) };
    let client = connect(url.clone()).with_context(|| format!("{URL_VARIABLE} is `{}`", shown_url(&url)))?;
    Ok(Some(client.named_by(URL_VARIABLE)))
}

/// Makes a client trust the certificates in the file that `SLIPFORM_CA` names.
fn with_authorities(client: Client) -> Result<Client> {
    let Some(file) = environment(env::SLIPFORM_CA).filter(|file| client.is_https() && !file.is_empty())
    else {
        return Ok(client);
    };
    let named = || format!("cannot use the certificates in {file} ({})", env::SLIPFORM_CA);
    let pem = std::fs::read(&file).with_context(named)?;
    client.with_authorities(&pem).with_context(named)
}

/// Returns the options of an in-process coordinator: defaults from the environment, and redaction of secrets.
pub(crate) fn options() -> Result<AppOptions> {
    let defaults = EnvironmentDefaults::from_lookup(environment)?;
    Ok(AppOptions {
        defaults,
        redact: Some(secrets::redact_json),
        derive_requests: Some(slipform_runner::derive_requests),
        ..AppOptions::default()
    })
}
