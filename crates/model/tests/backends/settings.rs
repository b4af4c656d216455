//! Settings that `connect` refuses.

use slipform_model::{BackendConfig, connect};
use slipform_types::BackendKind::{Embedded, OpenAi};

/// Asserts that this `base_url` is refused with this message, which does not show the password.
fn check(base_url: &str, expected: &str) {
    let mut config = BackendConfig::new("mine", OpenAi);
    config.base_url = Some(base_url.to_owned());
    let error = connect(&config, &|_| None).unwrap_err();
    assert_eq!(error.to_string(), format!("backends.mine.base_url: {expected}"));
    assert!(!format!("{error:?}").contains("hunter2"), "{error:?}");
}

#[test]
fn base_url_with_password_is_refused_and_hidden() {
    let expected = "must not contain a user name or password; put the key into a variable and name the variable in \
                    api_key_env";
    check("http://user:hunter2@localhost/v1", expected);
    check("https://hunter2@localhost/v1", expected);
    check(
        "http://user:hunter2@localhost:99999/v1",
        "the value is not a URL; write it as http://HOST:PORT/v1",
    );
    check("http://user:hunter2@", "the value is not a URL; write it as http://HOST:PORT/v1");
    check("ftp://user:hunter2@localhost/v1", "the value does not begin with http:// or https://");
    check("user:hunter2@localhost", "the value does not begin with http:// or https://");
}

#[test]
fn base_url_with_query_or_fragment_is_refused() {
    let expected = "must not have a query or fragment, because paths are appended to it";
    check("http://localhost/v1?key=hunter2", expected);
    check("http://localhost/v1#top", expected);
}

#[test]
fn invalid_base_url_is_shown() {
    check("localhost/v1", "'localhost/v1' is not a URL; write it as http://HOST:PORT/v1");
    check("file:///etc/passwd", "'file:///etc/passwd' does not begin with http:// or https://");
}

#[test]
fn embedded_kind_is_refused_with_a_remedy() {
    let error = connect(&BackendConfig::new("mine", Embedded), &|_| None).unwrap_err();
    assert!(error.to_string().contains("configure a backend in slipform.toml"), "{error}");
}
