//! The schemas that come with the program. They stand here because whoever holds results against a contract has to
//! recognise them.

use std::sync::LazyLock;

use crate::{Schema, universal};

/// Each by its name, with its file.
const SHIPPED: [(&str, &str); 1] =
    [(universal::NAME, include_str!("../schemas/universal-agent-response.json"))];

/// A schema that comes with the program.
#[derive(Debug)]
pub struct Shipped {
    /// The name that it is registered under.
    pub name: &'static str,
    /// Its file, byte for byte, for servers that it is pasted into.
    pub text: &'static str,
    /// The schema itself.
    pub schema: Schema,
}

/// The schemas that come with the program.
pub fn shipped() -> &'static [Shipped] {
    static COMPILED: LazyLock<Vec<Shipped>> = LazyLock::new(|| {
        let compile = |(name, text): (&'static str, &'static str)| {
            let schema = Schema::compile(&serde_json::from_str(text).ok()?).ok()?;
            Some(Shipped { name, text, schema })
        };
        SHIPPED.into_iter().filter_map(compile).collect()
    });
    &COMPILED
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_shipped_schema_compiles() {
        assert_eq!(shipped().len(), SHIPPED.len());
    }
}
