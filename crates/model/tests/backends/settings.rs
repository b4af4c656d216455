//! Addresses that are refused before anything is sent.

use slipform_model::{BackendConfig, connect};
use slipform_types::BackendKind::{Embedded, OpenAi};

/// Why a backend at this address is refused.
fn check(base_url: &str, expected: &str) {
    let mut config = BackendConfig::new("mine", OpenAi);
    config.base_url = Some(base_url.to_owned());
    let error = connect(&config, &|_| None).unwrap_err();
    assert_eq!(error.to_string(), format!("backends.mine.base_url: {expected}"));
    assert!(!format!("{error:?}").contains("hunter2"), "{error:?}");
}

#[test]
fn a_password_in_an_address_is_refused_and_never_repeated() {
    let expected = "must not hold a name or password; put the key into a variable and name it in api_key_env";
    check("http://user:hunter2@localhost/v1", expected);
    check("https://hunter2@localhost/v1", expected);
    check("http://user:hunter2@localhost:99999/v1", "it is not an address (invalid port number)");
    check("http://user:hunter2@", "it is not an address (empty host)");
    check("ftp://user:hunter2@localhost/v1", "it does not begin with http:// or https://");
    check("user:hunter2@localhost", "it does not begin with http:// or https://");
}

#[test]
fn an_address_that_cannot_be_extended_is_refused() {
    check("http://localhost/v1?key=hunter2", "must end with its path: paths are added to it");
    check("http://localhost/v1#top", "must end with its path: paths are added to it");
}

#[test]
fn an_address_that_is_none_is_shown() {
    check("localhost/v1", "'localhost/v1' is not an address (relative URL without a base)");
    check("file:///etc/passwd", "'file:///etc/passwd' does not begin with http:// or https://");
}

#[test]
fn a_build_without_a_model_says_what_to_do() {
    let error = connect(&BackendConfig::new("mine", Embedded), &|_| None).unwrap_err();
    assert!(error.to_string().contains("configure a backend in slipform.toml"), "{error}");
}
