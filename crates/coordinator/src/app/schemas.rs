//! The schema registry.

use std::sync::Arc;

use serde_json::Value;
use slipform_api::{Code, Error, Problem, SchemaRequest, SchemaSummary, SchemaView, Verdict};
use slipform_schema::{Schema, Shipped, Warning, lint, schema_hash, shipped};
use slipform_store::{RegistryEntry, RegistryKind};
use slipform_types::timestamp;

use super::{App, errors, is_reserved_name};
use crate::registry::{FromFile, is_schema_name, shadow_warning};

impl App {
    /// Returns every registered schema, sorted by name.
    ///
    /// # Errors
    /// Fails if the store is unavailable.
    pub async fn schemas(&self) -> Result<Vec<SchemaSummary>, Error> {
        let files = self.registry().files();
        let mut views: Vec<SchemaSummary> =
            files.schemas.iter().map(|(name, file)| from_file(name, file).into()).collect();
        for named in self.store().entries(RegistryKind::Schemas).await.map_err(errors::store)? {
            if !files.schemas.contains_key(&named.name) {
                views.push(from_store(named).into());
            }
        }
        for known in shipped() {
            if !views.iter().any(|view| view.name == known.name) {
                views.push(from_shipped(known).into());
            }
        }
        views.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(views)
    }

    /// Returns a registered schema.
    ///
    /// # Errors
    /// Returns `SchemaNotFound` for an unknown name.
    pub async fn schema(&self, name: &str) -> Result<SchemaView, Error> {
        let files = self.registry().files();
        let view = match files.schemas.get(name) {
            Some(file) => Some(from_file(name, file)),
            None => {
                let named = self.store().entry(RegistryKind::Schemas, name).await.map_err(errors::store)?;
                named.map(from_store).or_else(|| shipped_schema(name).map(from_shipped))
            }
        };
        let view = view.ok_or_else(|| errors::no_schema(name))?;
        let schema = view.schema.clone();
        let warnings = self.inner.check_pool.run(move || warnings_of(&schema)).await?;
        Ok(SchemaView { warnings, ..view })
    }

    /// Returns the JSON Schema of a name. Refuses a schema whose file was never valid.
    pub(super) async fn registered_schema(&self, name: &str) -> Result<Value, Error> {
        let view = self.schema(name).await?;
        match (view.hash.is_some(), view.problems.first()) {
            (false, Some(problem)) => {
                Err(Error::new(Code::InvalidSchema, format!("schema `{name}`: {problem}")))
            }
            _ => Ok(view.schema),
        }
    }

    /// Registers a schema. Registered schemas are immutable.
    ///
    /// # Errors
    /// Returns `InvalidSchema`, `SchemaExists`, `ManagedByFile`, or `InvalidRequest` for an invalid name.
    pub async fn add_schema(&self, request: &SchemaRequest) -> Result<SchemaView, Error> {
        let name = &request.name;
        if !is_schema_name(name) {
            let message =
                "invalid schema name; use 1 to 100 letters, digits, `_`, `-` and `.`, not starting with `.`";
            return Err(Error::new(Code::InvalidRequest, message));
        }
        if is_reserved_name(name) {
            let message = format!("`{name}` is reserved for the route that checks schemas; use another name");
            return Err(Error::new(Code::InvalidRequest, message));
        }
        self.refuse_schema_file(name)?;
        if shipped_schema(name).is_some() {
            let message = format!("schema `{name}` comes with the program; use another name");
            return Err(Error::new(Code::SchemaExists, message));
        }
        let schema = request.schema.clone();
        let compiled = self.inner.check_pool.run(move || Schema::compile(&schema).map(drop)).await?;
        compiled.map_err(|error| errors::invalid_schema(&error))?;
        let text = request.schema.to_string();
        let description = request.description.as_deref();
        let added = self.store().add_described(RegistryKind::Schemas, name, &text, description).await;
        if added.map_err(errors::store)? {
            self.schema(name).await
        } else {
            let message = format!("schema `{name}` already exists and is immutable; use another name");
            Err(Error::new(Code::SchemaExists, message))
        }
    }

    /// Removes a schema from the registry. Runs that have already resolved it are unaffected.
    ///
    /// # Errors
    /// Returns `SchemaNotFound`, or `ManagedByFile` for files and shipped schemas.
    pub async fn remove_schema(&self, name: &str) -> Result<(), Error> {
        self.refuse_schema_file(name)?;
        if self.store().remove(RegistryKind::Schemas, name).await.map_err(errors::store)? {
            Ok(())
        } else if shipped_schema(name).is_some() {
            let message = format!("schema `{name}` comes with the program and cannot be removed");
            Err(Error::new(Code::ManagedByFile, message))
        } else {
            Err(errors::no_schema(name))
        }
    }

    /// Checks a schema without registering it.
    ///
    /// # Errors
    /// Returns `RateLimited` if too many checks wait.
    pub async fn validate_schema(&self, schema: &Value) -> Result<Verdict, Error> {
        let schema = schema.clone();
        let check = move || match Schema::compile(&schema) {
            Ok(_) => Verdict { valid: true, errors: Vec::new(), warnings: warnings_of(&schema) },
            Err(error) => Verdict {
                valid: false,
                errors: vec![Problem {
                    path: errors::schema_path(&error),
                    message: errors::schema_message(&error),
                    line: None,
                }],
                warnings: Vec::new(),
            },
        };
        self.inner.check_pool.run(check).await
    }

    fn refuse_schema_file(&self, name: &str) -> Result<(), Error> {
        match self.registry().files().schemas.get(name) {
            None => Ok(()),
            Some(file) => {
                let message =
                    format!("schema `{name}` is defined by {}; edit that file", file.path.display());
                Err(Error::new(Code::ManagedByFile, message))
            }
        }
    }
}

fn from_file(name: &str, file: &FromFile<(Arc<Value>, String)>) -> SchemaView {
    let schema = file.in_force.as_ref().map(|(schema, _)| (**schema).clone()).unwrap_or_default();
    SchemaView {
        name: name.to_owned(),
        description: own_description(&schema),
        source: "file".to_owned(),
        schema,
        hash: file.in_force.as_ref().map(|(_, hash)| hash.clone()),
        problems: file.problems.clone(),
        warnings: Vec::new(),
        created_at: None,
        modified_at: file.modified_at.map(timestamp),
    }
}

fn from_store(named: RegistryEntry) -> SchemaView {
    let schema: Value = serde_json::from_str(&named.text).unwrap_or_default();
    SchemaView {
        description: named.description.or_else(|| own_description(&schema)),
        source: "api".to_owned(),
        // It compiled when it was saved.
        hash: Some(schema_hash(&schema)),
        problems: shadow_warning(&named.name, &schema).map(Problem::of_whole).into_iter().collect(),
        warnings: Vec::new(),
        name: named.name,
        schema,
        created_at: Some(timestamp(named.created_at)),
        modified_at: Some(timestamp(named.updated_at)),
    }
}

fn warnings_of(schema: &Value) -> Vec<Problem> {
    let warning = |warning: Warning| Problem { path: warning.path, message: warning.message, line: None };
    lint(schema).into_iter().map(warning).collect()
}

/// Returns the description that a schema has of itself.
fn own_description(schema: &Value) -> Option<String> {
    schema["description"].as_str().map(str::to_owned)
}

fn shipped_schema(name: &str) -> Option<&'static Shipped> {
    shipped().iter().find(|known| known.name == name)
}

fn from_shipped(known: &Shipped) -> SchemaView {
    let schema = known.schema.source().clone();
    SchemaView {
        name: known.name.to_owned(),
        description: own_description(&schema),
        source: "shipped".to_owned(),
        schema,
        hash: Some(known.schema.hash().to_owned()),
        problems: Vec::new(),
        warnings: Vec::new(),
        created_at: None,
        modified_at: None,
    }
}
