//! Resolves plain YAML scalars by the core schema of YAML 1.2, and refuses values that JSON cannot
//! represent.

use serde_json::{Number, Value};

/// Returns the value of an unquoted scalar, or the reason why it has none.
pub(super) fn plain(text: &str) -> Result<Value, String> {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return Ok(Value::Null),
        "true" | "True" | "TRUE" => return Ok(Value::Bool(true)),
        "false" | "False" | "FALSE" => return Ok(Value::Bool(false)),
        _ => {}
    }
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    if matches!(unsigned, ".inf" | ".Inf" | ".INF") || matches!(text, ".nan" | ".NaN" | ".NAN") {
        return Err(format!("JSON has no number for {text}; write a finite number, or text in quotes"));
    }
    if let Some((radix, digits)) = radix(text) {
        return u64::from_str_radix(digits, radix).map(Value::from).map_err(|_| too_large(text));
    }
    if !unsigned.is_empty() && unsigned.bytes().all(|byte| byte.is_ascii_digit()) {
        return whole(text, unsigned);
    }
    if is_fraction(unsigned) {
        // The parser of `f64` accepts every form of YAML: `1.`, `.5` and both signs.
        let float = text.parse::<f64>().ok().and_then(Number::from_f64);
        return float.map(Value::Number).ok_or_else(|| too_large(text));
    }
    Ok(Value::String(text.to_owned()))
}

fn too_large(text: &str) -> String {
    format!("the number {text} is too large for a JSON number; write it as text in quotes")
}

fn radix(text: &str) -> Option<(u32, &str)> {
    let (radix, digits) = match text.get(..2)? {
        "0o" => (8, &text[2..]),
        "0x" => (16, &text[2..]),
        _ => return None,
    };
    let is_digit = |character: char| character.is_digit(radix);
    (!digits.is_empty() && digits.chars().all(is_digit)).then_some((radix, digits))
}

fn whole(text: &str, digits: &str) -> Result<Value, String> {
    if digits.len() > 1 && digits.starts_with('0') {
        // YAML 1.1 reads it as octal, YAML 1.2 as decimal, and often it is a code with significant
        // zeros.
        return Err(format!(
            "{text} begins with a zero; write '{text}' in quotes for text, or the number without the zero"
        ));
    }
    let number = text.strip_prefix('+').unwrap_or(text);
    let signed = number.parse::<i64>().map(Value::from);
    signed.or_else(|_| number.parse::<u64>().map(Value::from)).map_err(|_| too_large(text))
}

/// Returns whether an unsigned text is `digits . digits exponent`, with digits on at least one
/// side.
fn is_fraction(unsigned: &str) -> bool {
    let (mantissa, exponent) = match unsigned.find(['e', 'E']) {
        Some(at) => (&unsigned[..at], Some(&unsigned[at + 1..])),
        None => (unsigned, None),
    };
    let (before, behind) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let has_digits = !before.is_empty() || !behind.is_empty();
    let exponent = exponent.is_none_or(|exponent| {
        let exponent = exponent.strip_prefix(['-', '+']).unwrap_or(exponent);
        !exponent.is_empty() && digits(exponent)
    });
    has_digits && digits(before) && digits(behind) && exponent
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn plain_scalars_follow_yaml_1_2_core_schema() {
        for (text, value) in [
            ("", json!(null)),
            ("~", json!(null)),
            ("True", json!(true)),
            ("yes", json!("yes")),
            ("no", json!("no")),
            ("on", json!("on")),
            ("0", json!(0)),
            ("-17", json!(-17)),
            ("+17", json!(17)),
            ("18446744073709551615", json!(18_446_744_073_709_551_615_u64)),
            ("0x1F", json!(31)),
            ("0o17", json!(15)),
            ("0xZZ", json!("0xZZ")),
            ("1.5", json!(1.5)),
            ("1.", json!(1.0)),
            (".5", json!(0.5)),
            ("-1e3", json!(-1000.0)),
            ("1_000", json!("1_000")),
            ("1.2.3", json!("1.2.3")),
            (".", json!(".")),
            ("-", json!("-")),
            ("e5", json!("e5")),
            ("12:30", json!("12:30")),
            ("2026-01-31", json!("2026-01-31")),
            ("ünï", json!("ünï")),
        ] {
            assert_eq!(plain(text), Ok(value), "{text}");
        }
        for text in [".inf", "-.INF", ".nan", "18446744073709551616", "1e999", "007", "-012"] {
            assert!(plain(text).is_err(), "{text}");
        }
    }
}
