//! Reads `slipform.toml` and the environment: backends, tiers, server, tool, analytics and MCP settings.

use std::collections::BTreeMap;
use std::fs;
use std::ops::RangeInclusive;
use std::path::Path;

use anyhow::{Context as _, Result, bail};
use serde::Deserialize;
use slipform_coordinator::StoreOptions;
use slipform_coordinator::http::TlsFiles;
use slipform_model::{BackendConfig, connect};
use slipform_runner::{CommandPattern, ProjectPolicy};
use slipform_types::{BackendKind, Blueprint, closest, env};

use crate::gateway::GatewaySettings;
use crate::secrets;

/// The settings file of a project.
pub(crate) const FILE: &str = "slipform.toml";

/// The name of the embedded backend, which always exists.
const EMBEDDED: &str = "embedded";

/// The tier of agents without `tier` and `escalation`.
const DEFAULT_TIER: &str = "default";

/// The tiers that need no mapping. An unmapped one uses the default backend.
const STANDARD_TIERS: [&str; 4] = [DEFAULT_TIER, "small", "medium", "large"];

/// The models of OpenAI and Anthropic if no model is configured.
const OPENAI_MODEL: &str = "gpt-4.1-mini";
const ANTHROPIC_MODEL: &str = "claude-haiku-4-5";

/// The valid range of `server.lease_seconds`. A shorter lease expires on a busy machine; a longer one delays the recovery
/// of a dead runner's runs.
const LEASE_SECONDS: RangeInclusive<u32> = 1..=3_600;

/// The valid range of `server.db_connections`. PostgreSQL itself allows 100 by default.
const DB_CONNECTIONS: RangeInclusive<u32> = 1..=1_000;

/// The contents of the settings file.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    default_backend: Option<String>,
    #[serde(default)]
    backends: BTreeMap<String, BackendConfig>,
    #[serde(default)]
    tiers: BTreeMap<String, String>,
    #[serde(default)]
    server: ServerSettings,
    #[serde(default)]
    tools: ToolSettings,
    #[serde(default)]
    analytics: AnalyticsSettings,
    #[serde(default)]
    mcp: McpSettings,
    #[serde(default)]
    gateway: GatewaySettings,
}

/// The section `[mcp]`: what MCP clients see.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct McpSettings {
    /// The agents that clients see; all if it is not set.
    pub(crate) agents: Option<Vec<String>>,
    /// Whether clients see the tools that start, read and stop sessions.
    pub(crate) session_tools: bool,
}

impl Default for McpSettings {
    fn default() -> Self {
        McpSettings { agents: None, session_tools: true }
    }
}

/// The section `[tools]`: permissions of tools in the project.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct ToolSettings {
    /// The commands that `check:criteria` may run, such as `cargo test`.
    pub(crate) commands: Vec<CommandPattern>,
    /// Whether programs that agents start are confined to the project, where the kernel has Landlock.
    pub(crate) confine_programs: bool,
    /// Patterns of files that tools may read although they may contain keys, such as `.env.example`.
    pub(crate) readable: Vec<String>,
}

impl Default for ToolSettings {
    fn default() -> Self {
        ToolSettings { commands: Vec::new(), confine_programs: true, readable: Vec::new() }
    }
}

/// The section `[analytics]`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct AnalyticsSettings {
    /// Whether analytics files are written; on by default.
    pub(crate) enabled: bool,
}

impl Default for AnalyticsSettings {
    fn default() -> Self {
        AnalyticsSettings { enabled: true }
    }
}

/// The section `[server]`: defaults for `slipform serve`. Command line arguments take precedence.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ServerSettings {
    /// The listen address, `ADDRESS:PORT`.
    pub(crate) listen: Option<String>,
    /// The database: `sqlite:PATH` or `postgres://…`.
    pub(crate) db: Option<String>,
    /// The name of the variable with the database address, for an address with a password.
    pub(crate) db_env: Option<String>,
    /// The maximum number of connections to PostgreSQL for transactions, 1 to 1000; default 12.
    pub(crate) db_connections: Option<u32>,
    /// The PEM file with the certificate for HTTPS, and with those of intermediate authorities.
    pub(crate) tls_cert: Option<String>,
    /// The PEM file with the private key of the certificate.
    pub(crate) tls_key: Option<String>,
    /// Whether a proxy with TLS forwards all requests. Every request then needs a token, on loopback addresses too.
    #[serde(default)]
    pub(crate) behind_proxy: bool,
    /// The number of concurrent runs of the runner in the same process.
    pub(crate) slots: Option<u32>,
    /// The time without a heartbeat after which a runner's runs return to the queue, in seconds, 1 to 3600; default 15. A
    /// short lease recovers the runs of a dead runner sooner, but tolerates only short pauses of a live one.
    pub(crate) lease_seconds: Option<u32>,
    /// The number of days after which ended sessions are deleted; unlimited if not set.
    pub(crate) retention_days: Option<u32>,
    /// The maximum number of ended sessions to keep; unlimited if not set.
    pub(crate) retention_sessions: Option<u32>,
}

impl ServerSettings {
    /// Returns the options of the store.
    pub(crate) fn store_options(&self) -> StoreOptions {
        let default = StoreOptions::default();
        let connections = self.db_connections.map_or(default.connections, |count| count as usize);
        StoreOptions { connections, ..default }
    }

    /// Returns the files for HTTPS, relative to the project; `None` for plain HTTP.
    pub(crate) fn tls_files(&self, project: &Path) -> Option<TlsFiles> {
        let (certificate, key) = self.tls_cert.as_ref().zip(self.tls_key.as_ref())?;
        Some(TlsFiles { certificate: project.join(certificate), key: project.join(key) })
    }

    fn check(&self) -> Result<()> {
        if self.tls_cert.is_some() != self.tls_key.is_some() {
            bail!("{FILE}: set both server.tls_cert and server.tls_key, or neither");
        }
        if let Some(seconds) = self.lease_seconds.filter(|seconds| !LEASE_SECONDS.contains(seconds)) {
            let (shortest, longest) = LEASE_SECONDS.into_inner();
            bail!("{FILE}: server.lease_seconds is {seconds}; set it to {shortest} to {longest} seconds");
        }
        if let Some(count) = self.db_connections.filter(|count| !DB_CONNECTIONS.contains(count)) {
            let (fewest, most) = DB_CONNECTIONS.into_inner();
            bail!("{FILE}: server.db_connections is {count}; set it to {fewest} to {most}");
        }
        if self.db.is_some() && self.db_env.is_some() {
            bail!("{FILE}: server.db and server.db_env are both set; remove one of them");
        }
        // Not repeated in the message: it may be the address itself, with its password.
        if self.db_env.as_deref().is_some_and(|name| !is_variable_name(name)) {
            bail!(
                "{FILE}: server.db_env is not the name of a variable; write a name such as SLIPFORM_DATABASE, and export \
                 the variable with the address"
            );
        }
        Ok(())
    }
}

fn is_variable_name(name: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    !name.is_empty() && name.bytes().all(is_part) && !name.as_bytes()[0].is_ascii_digit()
}

/// The validated settings of a project.
#[derive(Debug)]
pub(crate) struct Settings {
    pub(crate) backends: BTreeMap<String, BackendConfig>,
    pub(crate) default_backend: String,
    tiers: BTreeMap<String, String>,
    pub(crate) server: ServerSettings,
    pub(crate) tools: ToolSettings,
    pub(crate) analytics: AnalyticsSettings,
    pub(crate) mcp: McpSettings,
    pub(crate) gateway: GatewaySettings,
    /// The variable that configures the default backend; `None` if the file or nothing does.
    chosen_by: Option<&'static str>,
}

impl Settings {
    /// Reads the project's settings file and the environment, and installs their secrets for redaction.
    pub(crate) fn read(project: &Path, environment: &dyn Fn(&str) -> Option<String>) -> Result<Settings> {
        let path = project.join(FILE);
        let file = match fs::read_to_string(&path) {
            Ok(text) => parse(&text)?,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => File::default(),
            Err(error) => return Err(error).context(format!("cannot read {FILE}")),
        };
        let settings = Settings::of(file, environment)?;
        secrets::install(secrets::collect(&settings.backends));
        Ok(settings)
    }

    fn of(file: File, environment: &dyn Fn(&str) -> Option<String>) -> Result<Settings> {
        let mut backends = file.backends;
        for (name, backend) in &mut backends {
            backend.name.clone_from(name);
        }
        let from_environment = from_environment(environment)?;
        let chosen_by = (file.default_backend.is_none() && backends.is_empty()).then_some(());
        let chosen_by = chosen_by.and(from_environment.as_ref().map(|(_, variable)| *variable));
        let from_environment = from_environment.map(|(backend, _)| backend);
        let default_backend = match file.default_backend {
            Some(name) => name,
            None if backends.len() == 1 => backends.keys().next().cloned().unwrap_or_default(),
            None if backends.is_empty() => {
                from_environment.as_ref().map_or_else(|| EMBEDDED.to_owned(), |backend| backend.name.clone())
            }
            None => bail!(
                "{FILE}: default_backend is missing; set it to one of the backends: {}",
                backends.keys().cloned().collect::<Vec<_>>().join(", ")
            ),
        };
        if let Some(backend) = from_environment {
            backends.entry(backend.name.clone()).or_insert(backend);
        }
        backends
            .entry(EMBEDDED.to_owned())
            .or_insert_with(|| BackendConfig::new(EMBEDDED, BackendKind::Embedded));
        let File { tiers, server, tools, analytics, mcp, gateway, .. } = file;
        let settings =
            Settings { backends, default_backend, tiers, server, tools, analytics, mcp, gateway, chosen_by };
        settings.check()?;
        Ok(settings)
    }

    fn check(&self) -> Result<()> {
        self.server.check()?;
        self.gateway.check(self)?;
        let private = [Some(env::SLIPFORM_DB), self.server.db_env.as_deref()];
        for backend in self.backends.values() {
            if let Some(name) = backend.env.iter().find(|name| private.contains(&Some(name.as_str()))) {
                bail!(
                    "{FILE}: backends.{}.env names `{name}`, which holds the address of the database; programs must not \
                     see it",
                    backend.name
                );
            }
        }
        let policy = ProjectPolicy { readable: self.tools.readable.clone(), ..ProjectPolicy::default() };
        policy.check().with_context(|| format!("{FILE}: tools.readable"))?;
        let problems: Vec<String> = self.backends.values().flat_map(BackendConfig::problems).collect();
        if !problems.is_empty() {
            bail!("{FILE} or the environment: {}", problems.join("; "));
        }
        self.backend(&self.default_backend).context("default_backend")?;
        for (tier, backend) in &self.tiers {
            self.backend(backend).with_context(|| format!("tiers.{tier}"))?;
        }
        Ok(())
    }

    /// Returns a message about a default backend that an environment variable chose.
    pub(crate) fn environment_notice(&self) -> Option<String> {
        let (variable, name) = (self.chosen_by?, &self.default_backend);
        let model = self.backends.get(name).and_then(|backend| backend.model.as_ref());
        let model = model.map(|model| format!(", model `{model}`")).unwrap_or_default();
        Some(format!(
            "slipform: using backend `{name}`{model}, because {variable} is set; `--backend {EMBEDDED}` uses the built-in \
             model, and `default_backend` in {FILE} settles it"
        ))
    }

    /// Returns a backend by name.
    pub(crate) fn backend(&self, name: &str) -> Result<&BackendConfig> {
        self.backends.get(name).with_context(|| {
            let known = self.backends.keys().cloned().collect::<Vec<_>>().join(", ");
            format!("backend `{}` not found; available: {known}", shown_name(name))
        })
    }

    /// Returns the backend of a tier; the default backend if a standard tier is not mapped. Other tiers are mapped
    /// or mistyped.
    pub(crate) fn tier(&self, tier: &str) -> Result<&BackendConfig> {
        match self.tiers.get(tier) {
            Some(backend) => self.backend(backend),
            None if STANDARD_TIERS.contains(&tier) => self.backend(&self.default_backend),
            None => {
                let mapped = self.tiers.keys().map(String::as_str);
                let known: Vec<&str> = STANDARD_TIERS[1..].iter().copied().chain(mapped).collect();
                let advice = match closest(tier, known.iter().copied()) {
                    Some(meant) => format!("did you mean `{meant}`?"),
                    None => format!("map it to a backend under [tiers] in {FILE}"),
                };
                bail!("tier `{tier}` not found; {advice}")
            }
        }
    }

    /// Returns the escalation ladder of an agent. Adjacent unmapped tiers are one rung: both use the default backend, so
    /// escalating between them would ask the same model again.
    ///
    /// # Errors
    /// Returns an error if a tier is neither a standard one nor mapped.
    pub(crate) fn ladder(&self, blueprint: &Blueprint) -> Result<Vec<String>> {
        let mut ladder = Settings::tiers_of(blueprint);
        for tier in &ladder {
            self.tier(tier).with_context(|| format!("agent `{}`", blueprint.name))?;
        }
        ladder.dedup_by(|next, tier| !self.tiers.contains_key(next) && !self.tiers.contains_key(tier));
        Ok(ladder)
    }

    /// Returns why an agent could not use the backend of a tier, or of its default tier. `None` if it could. Servers
    /// are not contacted, and the weights of the embedded model are not looked for.
    pub(crate) fn tier_problem(
        &self,
        tier: Option<&str>,
        environment: &dyn Fn(&str) -> Option<String>,
    ) -> Option<String> {
        match self.tier(tier.unwrap_or(DEFAULT_TIER)) {
            Err(error) => Some(format!("{error:#}")),
            Ok(config) if config.kind == BackendKind::Embedded => None,
            Ok(config) => connect(config, environment).err().map(|error| error.to_string()),
        }
    }

    /// Returns the agent's tier and the tiers after it in `escalation`.
    fn tiers_of(blueprint: &Blueprint) -> Vec<String> {
        let first = blueprint.tier.clone();
        let mut ladder = blueprint.escalation.clone();
        match first {
            Some(tier) => match ladder.iter().position(|step| *step == tier) {
                Some(start) => ladder.drain(..start).for_each(drop),
                None => ladder.insert(0, tier),
            },
            None if ladder.is_empty() => ladder.push(DEFAULT_TIER.to_owned()),
            None => {}
        }
        ladder
    }
}

/// Parses the settings file. Errors name the line, but mask values that may be keys.
fn parse(text: &str) -> Result<File> {
    toml::from_str(text).map_err(|error| {
        let line =
            error.span().map_or(1, |span| text[..span.start.min(text.len())].matches('\n').count() + 1);
        let source = text.lines().nth(line - 1).unwrap_or_default().trim();
        let values = long_values(source);
        let mask = |text: &str| values.iter().fold(text.to_owned(), |text, value| text.replace(value, "…"));
        let field = error.message().split('`').nth(1).unwrap_or_default();
        let is_key = names_key(error.message()) || shown_name(field) != field;
        let named =
            error.message().trim().replace(&format!("`{field}`"), &format!("`{}`", shown_name(field)));
        let (message, mut source) = (mask(&without_type_names(&named)), mask(source));
        if is_key && let Some((field, _)) = source.split_once('=') {
            source = format!("{} = …", shown_name(field.trim()));
        }
        let advice = if is_key {
            "; do not put keys into this file: export an environment variable and name it in `api_key_env`"
        } else {
            ""
        };
        anyhow::anyhow!("{FILE}, line {line}: {message}{advice} (`{source}`)")
    })
}

/// Replaces Rust type names in a parser message by the TOML type that the file needs.
fn without_type_names(message: &str) -> String {
    match message.split_once("expected struct ") {
        Some((before, _)) => format!("{before}expected a table"),
        None => message.to_owned(),
    }
}

/// Returns a backend name for a message, masked if it looks like a misplaced key.
fn shown_name(name: &str) -> &str {
    let digits = name.bytes().filter(u8::is_ascii_digit).count();
    let is_key = name.starts_with("sk-") || name.starts_with("sk_") || (name.len() >= 20 && digits >= 4);
    if is_key { "…" } else { name }
}

/// The minimum length of a value that messages mask. Keys are longer; most other values are shorter.
const MASKED_CHARACTERS_MIN: usize = 12;

/// Returns the values of a line that may be keys by their length. URLs without a password are excluded.
fn long_values(source: &str) -> Vec<&str> {
    let is_part =
        |character: char| !character.is_whitespace() && !matches!(character, '"' | '\'' | ',' | '[' | ']');
    // A line without `=` is not TOML and may consist of a key.
    let values = source.split_once('=').map_or(source, |(_, values)| values);
    let words = values.split(|character: char| !is_part(character));
    let is_address = |word: &str| word.contains("://") && !word.contains(['@', '?']);
    words.filter(|word| word.chars().count() >= MASKED_CHARACTERS_MIN && !is_address(word)).collect()
}

/// Returns whether a message is about an unknown field with a secret-like name.
fn names_key(message: &str) -> bool {
    let Some(field) = message.strip_prefix("unknown field `").and_then(|rest| rest.split('`').next()) else {
        return false;
    };
    let field = field.to_ascii_lowercase();
    ["key", "token", "secret", "password"].iter().any(|word| field.contains(word))
}

/// Returns the backend that environment variables configure, and the variable that decides so.
fn from_environment(
    environment: &dyn Fn(&str) -> Option<String>,
) -> Result<Option<(BackendConfig, &'static str)>> {
    let read =
        |name: &str| environment(name).map(|value| value.trim().to_owned()).filter(|value| !value.is_empty());
    let (base_url, key) = (read(env::OPENAI_BASE_URL), read(env::OPENAI_API_KEY));
    if base_url.is_some() || key.is_some() {
        let mut backend = BackendConfig::new("openai", BackendKind::OpenAi);
        let is_official = base_url.is_none();
        backend.model = read(env::OPENAI_MODEL).or_else(|| is_official.then(|| OPENAI_MODEL.to_owned()));
        backend.base_url = base_url;
        backend.api_key_env = key.map(|_| env::OPENAI_API_KEY.to_owned());
        let variable = if is_official { env::OPENAI_API_KEY } else { env::OPENAI_BASE_URL };
        return Ok(Some((backend, variable)));
    }
    let (base_url, key) = (read(env::ANTHROPIC_BASE_URL), read(env::ANTHROPIC_API_KEY));
    if base_url.is_some() || key.is_some() {
        let mut backend = BackendConfig::new("anthropic", BackendKind::Anthropic);
        backend.model = read(env::ANTHROPIC_MODEL).or_else(|| Some(ANTHROPIC_MODEL.to_owned()));
        let variable = if base_url.is_none() { env::ANTHROPIC_API_KEY } else { env::ANTHROPIC_BASE_URL };
        backend.base_url = base_url;
        backend.api_key_env = key.map(|_| env::ANTHROPIC_API_KEY.to_owned());
        return Ok(Some((backend, variable)));
    }
    let Some(host) = read(env::OLLAMA_HOST) else { return Ok(None) };
    let mut backend = BackendConfig::new("ollama", BackendKind::OpenAi);
    backend.model = read(env::OLLAMA_MODEL);
    backend.dialect = Some("ollama".to_owned());
    backend.base_url = Some(ollama_url(&host));
    Ok(Some((backend, env::OLLAMA_HOST)))
}

/// Converts `OLLAMA_HOST` to a URL as Ollama does: it is a host, a host and port, or a URL.
fn ollama_url(host: &str) -> String {
    let (scheme, rest) = host.split_once("://").unwrap_or(("http", host));
    let rest = rest.trim_end_matches('/');
    // For a server, 0.0.0.0 means all addresses; a client connects to the loopback address.
    let rest = rest.replace("0.0.0.0", "127.0.0.1");
    let has_port =
        rest.rsplit_once(':').is_some_and(|(_, port)| port.bytes().all(|byte| byte.is_ascii_digit()));
    let port = if has_port || scheme == "https" { "" } else { ":11434" };
    format!("{scheme}://{rest}{port}/v1")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(text: &str, variables: &[(&str, &str)]) -> Result<Settings> {
        let environment = |name: &str| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
        };
        Settings::of(parse(text)?, &environment)
    }

    fn refusal(text: &str) -> String {
        format!("{:#}", settings(text, &[]).unwrap_err())
    }

    #[test]
    fn invalid_settings_name_key_and_line() {
        let unknown =
            refusal("default_backend = \"a\"\n\n[backends.a]\nkind = \"openai\"\nbase_ulr = \"http://x\"\n");
        assert!(unknown.starts_with("slipform.toml, line 5: unknown field `base_ulr`"), "{unknown}");
        let kind = refusal("[backends.a]\nkind = \"opnai\"\n");
        assert!(kind.starts_with("slipform.toml, line 2: unknown variant `opnai`"), "{kind}");
        let broken = refusal("[backends.a\n");
        assert!(broken.starts_with("slipform.toml, line 1:"), "{broken}");
        let missing = refusal("default_backend = \"b\"\n[backends.a]\nkind = \"openai\"\n");
        assert_eq!(missing, "default_backend: backend `b` not found; available: a, embedded");
        let command = refusal("[tools]\ncommands = [\"cargo test\", \" \"]\n");
        assert!(command.starts_with("slipform.toml, line 2: an empty command allows nothing"), "{command}");
        let open = refusal("[tools]\ncommands = [\"sh *\"]\n");
        assert!(open.starts_with("slipform.toml, line 2: 'sh *' leaves open which program runs"), "{open}");
        let scalar = refusal("[backends]\na = \"x\"\n");
        assert!(scalar.ends_with("expected a table (`a = \"x\"`)"), "{scalar}");
        let database = "[server]\ndb_env = \"DATABASE\"\n[backends.a]\nkind = \"command\"\ncommand = [\"x\"]\nenv = [\"DATABASE\"]\n";
        let database = refusal(database);
        assert!(database.starts_with("slipform.toml: backends.a.env names `DATABASE`"), "{database}");
        let tier = refusal("[backends.a]\nkind = \"openai\"\n[tiers]\nlarge = \"b\"\n");
        assert_eq!(tier, "tiers.large: backend `b` not found; available: a, embedded");
    }

    #[test]
    fn environment_selects_backend_without_settings_file() {
        let of = |variables: &[(&str, &str)]| {
            let settings = settings("", variables).unwrap();
            let backend = settings.backend(&settings.default_backend).unwrap().clone();
            (backend.name, backend.base_url.unwrap_or_default(), backend.model.unwrap_or_default())
        };
        let owned = |a: &str, b: &str, c: &str| (a.to_owned(), b.to_owned(), c.to_owned());
        assert_eq!(of(&[]), owned("embedded", "", ""));
        assert_eq!(of(&[("OPENAI_API_KEY", "k")]), owned("openai", "", "gpt-4.1-mini"));
        assert_eq!(of(&[("OPENAI_BASE_URL", "http://x/v1")]), owned("openai", "http://x/v1", ""));
        assert_eq!(of(&[("ANTHROPIC_API_KEY", "k")]), owned("anthropic", "", "claude-haiku-4-5"));
        assert_eq!(of(&[("OLLAMA_HOST", "0.0.0.0")]), owned("ollama", "http://127.0.0.1:11434/v1", ""));
        assert_eq!(of(&[("OLLAMA_HOST", "https://gpu:9")]), owned("ollama", "https://gpu:9/v1", ""));
    }

    #[test]
    fn analytics_are_enabled_by_default() {
        let enabled = |text: &str| settings(text, &[]).unwrap().analytics.enabled;
        assert!(enabled("") && enabled("[analytics]\n") && !enabled("[analytics]\nenabled = false\n"));
        let unknown = refusal("[analytics]\nenable = false\n");
        assert!(unknown.starts_with("slipform.toml, line 2: unknown field `enable`"), "{unknown}");
    }

    #[test]
    fn adjacent_unmapped_tiers_are_one_rung() {
        let agent: Blueprint = serde_json::from_value(serde_json::json!({
            "name": "a", "tier": "small", "escalation": ["small", "medium", "large"],
        }))
        .unwrap();
        let ladder = |text: &str| settings(text, &[]).unwrap().ladder(&agent).unwrap();
        assert_eq!(ladder(""), ["small"]);
        let one = "[backends.a]\nkind = \"openai\"\n[tiers]\n";
        assert_eq!(ladder(&format!("{one}large = \"a\"")), ["small", "large"]);
        assert_eq!(ladder(&format!("{one}medium = \"a\"")), ["small", "medium", "large"]);
        assert_eq!(
            ladder(&format!("{one}small = \"a\"\nmedium = \"a\"\nlarge = \"a\"")),
            ["small", "medium", "large"]
        );
    }

    #[test]
    fn unmapped_tier_must_be_a_standard_one() {
        let text = "[backends.a]\nkind = \"openai\"\n[tiers]\nreasoning = \"a\"\n";
        let settings = settings(text, &[]).unwrap();
        for tier in ["default", "small", "medium", "large", "reasoning"] {
            assert_eq!(settings.tier(tier).unwrap().name, "a", "{tier}");
        }
        let refused = |tier: &str| settings.tier(tier).unwrap_err().to_string();
        assert_eq!(refused("smal"), "tier `smal` not found; did you mean `small`?");
        assert_eq!(refused("resoning"), "tier `resoning` not found; did you mean `reasoning`?");
        assert_eq!(
            refused("premium"),
            "tier `premium` not found; map it to a backend under [tiers] in slipform.toml"
        );
    }

    #[test]
    fn example_settings_file_is_valid() {
        let settings = settings(include_str!("../../../examples/slipform.toml"), &[]).unwrap();
        assert_eq!(settings.tier("large").unwrap().name, "claude");
        assert_eq!(settings.tier("medium").unwrap().name, "lmstudio");
        assert_eq!(settings.tools.commands, ["cargo test *".parse().unwrap()]);
        let documented = settings.backend("lmstudio").unwrap();
        let default = BackendConfig::new("lmstudio", BackendKind::OpenAi);
        assert_eq!(documented.timeout_seconds, default.timeout_seconds);
        assert_eq!(documented.idle_timeout_seconds, default.idle_timeout_seconds);
        assert_eq!(documented.connect_timeout_seconds, default.connect_timeout_seconds);
        assert_eq!(documented.max_concurrency, default.max_concurrency);
        assert_eq!(
            (documented.retries, documented.retry_base_seconds),
            (default.retries, default.retry_base_seconds)
        );
    }

    #[test]
    fn ladder_starts_at_the_tier_of_the_agent() {
        let ladder = |tier: Option<&str>, escalation: &[&str]| {
            Settings::tiers_of(&Blueprint {
                tier: tier.map(str::to_owned),
                escalation: escalation.iter().map(|&step| step.to_owned()).collect(),
                ..Blueprint::default()
            })
        };
        assert_eq!(ladder(None, &[]), ["default"]);
        assert_eq!(ladder(Some("small"), &[]), ["small"]);
        assert_eq!(ladder(Some("small"), &["small", "large"]), ["small", "large"]);
        assert_eq!(ladder(Some("large"), &["small", "large"]), ["large"]);
        assert_eq!(ladder(Some("tiny"), &["small", "large"]), ["tiny", "small", "large"]);
    }
}
