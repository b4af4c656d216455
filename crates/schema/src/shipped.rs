//! The schemas that come with the program. They are in this crate because contract enforcement must recognise
//! them.

use std::sync::LazyLock;

use crate::{Schema, universal};

/// The name and the file text of each shipped schema.
const SHIPPED: [(&str, &str); 2] = [
    (universal::NAME, include_str!("../schemas/universal-agent-response.json")),
    ("action-envelope", include_str!("../schemas/action-envelope.json")),
];

/// A schema that comes with the program.
#[derive(Debug)]
pub struct Shipped {
    /// The name in the schema registry.
    pub name: &'static str,
    /// The file's text, byte for byte, for users who paste it into a server's settings.
    pub text: &'static str,
    /// The compiled schema.
    pub schema: Schema,
}

/// Returns the schemas that come with the program.
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
