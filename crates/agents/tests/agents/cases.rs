//! Cases as data: each agent file in `cases/` has an `.expect` file with the expected blueprint or
//! problems. `UPDATE_EXPECT=1 cargo test` rewrites them.

use std::fs;
use std::path::{Path, PathBuf};

use expect_test::expect_file;
use slipform_agents::{Checked, Format, Problems, parse};

fn rendered(result: &Result<Checked, Problems>) -> String {
    match result {
        Ok(checked) => {
            let warnings: String =
                checked.warnings.iter().map(|warning| format!("warning: {warning}\n")).collect();
            format!("{warnings}{}\n", serde_json::to_string_pretty(&checked.blueprint).unwrap())
        }
        Err(problems) => format!("{problems}\n"),
    }
}

fn cases() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases");
    let mut files: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|file| Format::of(file).is_some());
    files.sort();
    files
}

#[test]
fn every_case_matches_its_expectation() {
    let cases = cases();
    assert!(cases.len() > 20);
    for file in cases {
        let text = fs::read_to_string(&file).unwrap();
        let stem = file.file_stem().unwrap().to_str().unwrap();
        let result = parse(&text, Format::of(&file).unwrap(), Some(stem));
        let name = file.file_name().unwrap().to_str().unwrap();
        expect_file![file.with_file_name(format!("{name}.expect"))].assert_eq(&rendered(&result));
    }
}

#[test]
fn checked_blueprint_passes_check_again() {
    for file in cases() {
        let text = fs::read_to_string(&file).unwrap();
        let Ok(checked) = parse(&text, Format::of(&file).unwrap(), Some("a")) else { continue };
        let again = slipform_agents::check(&serde_json::to_value(&checked.blueprint).unwrap(), None);
        assert_eq!(again.expect("a blueprint").blueprint, checked.blueprint, "{}", file.display());
    }
}
