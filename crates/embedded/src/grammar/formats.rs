//! Patterns for the `format` keyword that all validators accept.

/// A calendar date. 29 February is allowed in years divisible by 4 but not by 100.
const DATE: &str = "(?:[0-9]{4}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)|02-(?:0[1-9]|1[0-9]|2[0-8]))|[0-9]{2}(?:0[48]|[2468][048]|[13579][26])-02-29)";

const TIME: &str =
    "(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\\.[0-9]{1,6})?(?:Z|[+-](?:0[0-9]|1[0-3]):[0-5][0-9])";

/// A label of a host name, without consecutive hyphens, which mark an encoded name.
const LABEL: &str = "[a-z0-9]{1,16}(?:-[a-z0-9]{1,12}){0,3}";

const OCTET: &str = "(?:[0-9]|[1-9][0-9]|1[0-9]{2}|2[0-4][0-9]|25[0-5])";

/// One character of a path, query or fragment.
const SEGMENT: &str = "(?:[A-Za-z0-9._~!$&'()*+,;=:@-]|%[0-9A-F]{2})";

/// Base64 text whose unused bits are zero.
pub(super) const BASE64: &str =
    "^(?:[A-Za-z0-9+/]{4}){0,60}(?:[A-Za-z0-9+/][AQgw]==|[A-Za-z0-9+/]{2}[AEIMQUYcgkosw048]=)?$";

/// Returns an anchored pattern whose matches all have the format; `None` for unknown formats.
pub(super) fn pattern(format: &str) -> Option<String> {
    let host = format!("{LABEL}(?:\\.{LABEL}){{0,4}}");
    let tail = format!("(?:/{SEGMENT}{{0,40}}){{0,6}}(?:\\?{SEGMENT}{{0,60}})?(?:#{SEGMENT}{{0,40}})?");
    let uri =
        format!("(?:https?|ftp)://{host}(?::[1-9][0-9]{{1,3}})?{tail}|(?:urn|mailto|tag):{SEGMENT}{{1,60}}");
    let pattern = match format {
        "date" => DATE.to_owned(),
        "time" => TIME.to_owned(),
        "date-time" => format!("{DATE}T{TIME}"),
        "duration" => {
            let time = "T(?:[0-9]{1,4}H(?:[0-9]{1,4}M(?:[0-9]{1,4}S)?)?|[0-9]{1,4}M(?:[0-9]{1,4}S)?|[0-9]{1,4}S)";
            let date = "(?:[0-9]{1,4}Y(?:[0-9]{1,4}M(?:[0-9]{1,4}D)?)?|[0-9]{1,4}M(?:[0-9]{1,4}D)?|[0-9]{1,4}D)";
            format!("P(?:{date}(?:{time})?|{time}|[0-9]{{1,4}}W)")
        }
        "email" | "idn-email" => {
            format!("[A-Za-z0-9_+-]{{1,30}}(?:\\.[A-Za-z0-9_+-]{{1,15}}){{0,2}}@{LABEL}(?:\\.{LABEL}){{1,3}}")
        }
        "hostname" | "idn-hostname" => host,
        "ipv4" => format!("{OCTET}(?:\\.{OCTET}){{3}}"),
        "ipv6" => "[0-9a-f]{1,4}(?::[0-9a-f]{1,4}){7}|(?:[0-9a-f]{1,4}(?::[0-9a-f]{1,4}){0,2})?::[0-9a-f]{1,4}(?::[0-9a-f]{1,4}){0,3}".to_owned(),
        "uri" | "iri" => uri,
        "uri-reference" | "iri-reference" => format!("{uri}|{tail}"),
        "uri-template" => format!("(?:https?://{host})?(?:/(?:[A-Za-z0-9._~-]{{1,30}}|\\{{[a-z][a-z0-9_]{{0,20}}\\}})){{1,6}}"),
        "uuid" => "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}".to_owned(),
        "json-pointer" => "(?:/[A-Za-z0-9_-]{0,40}){0,8}".to_owned(),
        "relative-json-pointer" => "(?:0|[1-9][0-9]?)(?:#|(?:/[A-Za-z0-9_-]{0,40}){0,8})".to_owned(),
        "regex" => "\\^?(?:[A-Za-z0-9_ /:,@-]|\\\\[dws.]|\\.|\\[[a-z0-9]{1,8}\\]|\\([a-z0-9|]{1,20}\\)){1,60}\\$?".to_owned(),
        _ => return None,
    };
    Some(format!("^(?:{pattern})$"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn format_patterns_compile_and_match() {
        for format in [
            "date",
            "time",
            "date-time",
            "duration",
            "email",
            "hostname",
            "ipv4",
            "ipv6",
            "uri",
            "uri-reference",
            "uri-template",
            "uuid",
            "json-pointer",
            "relative-json-pointer",
            "regex",
        ] {
            let rx = super::super::pattern::compile_exact(&pattern(format).unwrap()).unwrap();
            assert_eq!(rx.matches_something(), Some(true), "{format}");
        }
        let date = super::super::pattern::compile_exact(&pattern("date").unwrap()).unwrap();
        assert!(date.matches("\"2024-02-29\"") && !date.matches("\"2023-02-29\""));
    }
}
