//! The registry of schemas.

use serde_json::{Value, json};
use slipform_api::{Code, Error, SchemaRequest, SchemaView, Verdict};
use slipform_schema::{Schema, Shipped, lint, shipped};
use slipform_store::{RegistryEntry, RegistryKind};
use slipform_types::timestamp;

use super::{App, errors, is_verb};
use crate::registry::{is_schema_name, shadowing};

impl App {
    /// Throttle registered schema, by name.
    ///
    /// # Errors
    /// When the store does not answer.
    pub async fn schemas(&self) -> Result<Vec<SchemaView>, Error> {
        let files = self.registry().files();
        let mut views: Vec<SchemaView> = files
            .schemas
            .iter()
            .map(|(name, file)| SchemaView {
                name: name.clone(),
                source: "file".to_owned(),
                schema: file.in_force.as_ref().map(|(schema, _)| (**schema).clone()).unwrap_or_default(),
                hash: file.in_force.as_ref().map(|(_, hash)| hash.clone()),
                problems: file.problems.clone(),
                created_at: None,
            })
            .collect();
        for named in self.store().entries(RegistryKind::Schemas).await.map_err(errors::store)? {
            if !files.schemas.contains_key(&named.name) {
                views.push(from_store(named));
            }
        }
        for known in shipped() {
            if !views.iter().any(|view| view.name == known.name) {
                views.push(from_program(known));
            }
        }
        views.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(views)
    }

    /// A registered schema.
    ///
    /// # Errors
    /// When there is none.
    pub async fn schema(&self, name: &str) -> Result<SchemaView, Error> {
        let files = self.registry().files();
        if files.schemas.contains_key(name) {
            let view = self.schemas().await?.into_iter().find(|view| view.name == name);
            return view.ok_or_else(|| errors::no_schema(name));
        }
        let named = self.store().entry(RegistryKind::Schemas, name).await.map_err(errors::store)?;
        let view = named.map(from_store).or_else(|| of_program(name).map(from_program));
        view.ok_or_else(|| errors::no_schema(name))
    }

    /// The schema of a name, to be used.
    pub(super) async fn registered(&self, name: &str) -> Result<Value, Error> {
        let view = self.schema(name).await?;
        match (view.hash.is_some(), view.problems.first()) {
            (false, Some(problem)) => Err(Error::new(Code::InvalidSchema, problem.clone())),
            _ => Ok(view.schema),
        }
    }

    /// Registers a schema. What is registered is never changed.
    ///
    /// # Errors
    /// When it cannot be used, or the name is taken.
    pub async fn add_schema(&self, request: &SchemaRequest) -> Result<SchemaView, Error> {
        let name = &request.name;
        if !is_schema_name(name) {
            let message =
                "a schema's name has 1 to 100 letters, digits, '_', '-' and '.', and begins with no '.'";
            return Err(Error::new(Code::InvalidRequest, message));
        }
        if is_verb(name) {
            let message = format!(
                "no schema can be called '{name}': the address of that name checks schemas; use another name"
            );
            return Err(Error::new(Code::InvalidRequest, message));
        }
        self.refuse_schema_file(name)?;
        if of_program(name).is_some() {
            let message = format!("the schema '{name}' comes with the program; use another name");
            return Err(Error::new(Code::SchemaExists, message));
        }
        Schema::compile(&request.schema).map_err(|error| {
            let details = json!({"path": errors::schema_path(&error), "reason": error.to_string()});
            Error::new(Code::InvalidSchema, format!("the schema cannot be used: {error}")).with(details)
        })?;
        match self
            .store()
            .add(RegistryKind::Schemas, name, &request.schema.to_string())
            .await
            .map_err(errors::store)?
        {
            true => self.schema(name).await,
            false => {
                let message =
                    format!("there is a schema '{name}' already, and schemas never change; use another name");
                Err(Error::new(Code::SchemaExists, message))
            }
        }
    }

    /// Takes a schema out of the registry. Runs that have resolved it are not affected.
    ///
    /// # Errors
    /// When there is none, a file describes it, or it comes with the program.
    pub async fn remove_schema(&self, name: &str) -> Result<(), Error> {
        self.refuse_schema_file(name)?;
        match self.store().remove(RegistryKind::Schemas, name).await.map_err(errors::store)? {
            true => Ok(()),
            false if of_program(name).is_some() => {
                let message = format!("the schema '{name}' comes with the program and stays");
                Err(Error::new(Code::ManagedByFile, message))
            }
            false => Err(errors::no_schema(name)),
        }
    }

    /// Checks a schema without registering it.
    pub fn validate_schema(&self, schema: &Value) -> Verdict {
        match Schema::compile(schema) {
            Ok(_) => {
                let warnings = lint(schema).iter().map(|warning| json!(warning)).collect();
                Verdict { valid: true, errors: Vec::new(), warnings }
            }
            Err(error) => Verdict {
                valid: false,
                errors: vec![
                    json!({"path": errors::schema_path(&error), "message": errors::schema_message(&error)}),
                ],
                warnings: Vec::new(),
            },
        }
    }

    fn refuse_schema_file(&self, name: &str) -> Result<(), Error> {
        match self.registry().files().schemas.get(name) {
            None => Ok(()),
            Some(file) => {
                let message = format!("the schema '{name}' stands in {}; change that", file.path.display());
                Err(Error::new(Code::ManagedByFile, message))
            }
        }
    }
}

fn from_store(named: RegistryEntry) -> SchemaView {
    let schema: Value = serde_json::from_str(&named.text).unwrap_or_default();
    SchemaView {
        source: "api".to_owned(),
        hash: Schema::compile(&schema).ok().map(|schema| schema.hash().to_owned()),
        problems: shadowing(&named.name, &schema).into_iter().collect(),
        name: named.name,
        schema,
        created_at: Some(timestamp(named.created_at)),
    }
}

fn of_program(name: &str) -> Option<&'static Shipped> {
    shipped().iter().find(|known| known.name == name)
}

fn from_program(known: &Shipped) -> SchemaView {
    SchemaView {
        name: known.name.to_owned(),
        source: "shipped".to_owned(),
        schema: known.schema.source().clone(),
        hash: Some(known.schema.hash().to_owned()),
        problems: Vec::new(),
        created_at: None,
    }
}
