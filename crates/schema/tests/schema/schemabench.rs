//! Compares verdicts with the labels of real-world instances.

use slipform_schema::Schema;

#[test]
fn corpus_verdicts_agree_with_labels() {
    let Some(rows) = crate::support::rows() else { return };
    let (mut schemas, mut refused, mut agreed) = (0, 0, 0);
    let mut disagreements = Vec::new();
    for row in rows {
        schemas += 1;
        let id = row["id"].as_str().or(row["name"].as_str()).unwrap_or("?").to_owned();
        let schema = match Schema::compile(&row["schema"]) {
            Ok(schema) => schema,
            Err(error) => {
                println!("refused {id}: {error}");
                assert!(!error.to_string().is_empty());
                refused += 1;
                continue;
            }
        };
        for (index, test) in row["tests"].as_array().unwrap().iter().enumerate() {
            let expected = test["valid"].as_bool().unwrap();
            let violations = schema.violations(&test["data"]);
            assert_eq!(schema.is_valid(&test["data"]), violations.is_empty(), "{id} test {index}");
            if violations.is_empty() == expected {
                agreed += 1;
            } else {
                disagreements
                    .push(format!("{id} test {index}: labelled {expected}, {:?}", violations.lines()));
            }
        }
    }
    let total = agreed + disagreements.len();
    println!("{schemas} schemas, {refused} refused; {agreed} of {total} verdicts agree");
    for line in &disagreements {
        println!("  {line}");
    }
    assert!(disagreements.len() * 1000 <= total, "{disagreements:#?}");
}
