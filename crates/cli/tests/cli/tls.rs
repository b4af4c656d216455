//! Coordinators with TLS, their commands and runners, and the warnings about those without.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Stdio;

use serde_json::json;
use slipform_testkit::TestAuthority;

use crate::support::{Project, Server, Serving, request};

/// A procedural agent, which needs no model.
const ECHO: &str = "type: procedural\ncommand: [sh, -c, 'echo {}']\n";

/// Creates a project with a certificate for `localhost`, and the file of its authority.
fn project(name: &str, settings: &str) -> (Project, String) {
    let authority = TestAuthority::new("ours");
    let certificate = authority.issue(&["localhost"]);
    let settings = format!("[server]\ntls_cert = \"tls/cert.pem\"\ntls_key = \"tls/key.pem\"\n{settings}");
    let project = Project::new(name)
        .file("slipform.toml", &settings)
        .file("agents/echo.yaml", ECHO)
        .file("tls/cert.pem", &certificate.certificate)
        .file("tls/key.pem", &certificate.key)
        .file("ca.pem", &authority.certificate);
    fs::set_permissions(project.folder.join("tls/key.pem"), fs::Permissions::from_mode(0o600)).unwrap();
    let authority = project.folder.join("ca.pem").display().to_string();
    (project, authority)
}

fn localhost(url: &str) -> String {
    url.replace("127.0.0.1", "localhost")
}

#[test]
fn commands_reach_a_coordinator_over_tls() {
    let (served, authority) = project("tls-commands", "");
    let serving = Serving::start(&served, &[]);
    let url = serving.address();
    assert!(url.starts_with("https://127.0.0.1:"), "{url}");
    let url = localhost(&url);
    for (variable, value) in [("SLIPFORM_CA", authority.as_str()), ("SSL_CERT_FILE", &authority)] {
        let caller = Project::new("tls-caller").variable(variable, value);
        let ran = caller.run(&["run", "echo", "-p", "x", "--server", &url]);
        assert_eq!((ran.status, ran.stdout.as_str()), (0, "{}\n"), "{variable}: {}", ran.all());
    }
    // A command in the project of the server sends the local admin token.
    let own = served.variable("SLIPFORM_CA", &authority).variable("SLIPFORM_URL", &url);
    assert_eq!(own.run(&["runs", "list"]).status, 0);

    let stranger = Project::new("tls-stranger");
    let ran = stranger.run(&["runs", "list", "--server", &url]);
    assert!(ran.status == 3 && ran.stderr.contains("UnknownIssuer; set SLIPFORM_CA"), "{}", ran.all());
    let ran = stranger.run(&["runs", "list", "--server", &url.replace("https", "http")]);
    assert!(ran.status == 2 && ran.stderr.contains("this server uses TLS; write https://"), "{}", ran.all());
    let wrong = Project::new("tls-wrong").variable("SLIPFORM_CA", &authority);
    let ran = wrong.run(&["runs", "list", "--server", &url.replace("localhost", "127.0.0.1")]);
    assert!(ran.status == 3 && ran.stderr.contains("not valid for name"), "{}", ran.all());
    for file in ["/nonexistent", "/dev/null"] {
        let ran =
            Project::new("tls-no-ca").variable("SLIPFORM_CA", file).run(&["runs", "list", "--server", &url]);
        assert!(ran.status == 2 && ran.stderr.contains("cannot use the certificates in"), "{}", ran.all());
    }
}

#[test]
fn https_to_a_server_without_tls_is_explained() {
    let served = Project::new("tls-plain");
    let serving = Serving::start(&served, &["--no-runner"]);
    let url = serving.address().replace("http", "https");
    let ran = Project::new("tls-plain-caller").run(&["runs", "list", "--server", &url]);
    assert!(ran.status == 3 && ran.stderr.contains("write http:// instead of https://"), "{}", ran.all());
}

#[test]
fn runner_works_for_a_coordinator_over_tls() {
    let (served, authority) = project("tls-runner-served", "");
    let serving = Serving::start(&served, &["--no-runner"]);
    let url = localhost(&serving.address());
    let elsewhere = Project::new("tls-runner").variable("SLIPFORM_CA", &authority);
    let mut command = elsewhere.command(&["runner", "--coordinator", &url]);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let _runner = Server(command.spawn().unwrap());
    let ran = elsewhere.run(&["run", "echo", "-p", "x", "--server", &url]);
    assert_eq!((ran.status, ran.stdout.as_str()), (0, "{}\n"), "{}", ran.all());
}

#[test]
fn unusable_tls_settings_are_refused() {
    let (served, _) = project("tls-unusable", "");
    fs::set_permissions(served.folder.join("tls/key.pem"), fs::Permissions::from_mode(0o644)).unwrap();
    let ran = served.run(&["serve", "--listen", "127.0.0.1:0"]);
    assert!(ran.status == 2 && ran.stderr.contains("run `chmod 600"), "{}", ran.all());
    let half = Project::new("tls-half").file("slipform.toml", "[server]\ntls_cert = \"a\"\n");
    let ran = half.run(&["serve", "--listen", "127.0.0.1:0"]);
    assert!(
        ran.status == 2 && ran.stderr.contains("set both server.tls_cert and server.tls_key"),
        "{}",
        ran.all()
    );
}

#[test]
fn public_address_without_tls_is_warned_about() {
    let warning = "without TLS: the network can read tokens";
    let is_warned = |project: &Project, listen: &str| {
        assert_eq!(project.run(&["token", "create", "x"]).status, 0);
        let serving = Serving::start_on(project, listen, &["--no-runner"]);
        serving.address();
        serving.log().contains(warning)
    };
    assert!(is_warned(&Project::new("tls-public"), "0.0.0.0:0"));
    assert!(!is_warned(&Project::new("tls-loopback"), "127.0.0.1:0"));
    assert!(!is_warned(&project("tls-public-encrypted", "").0, "0.0.0.0:0"));
    let proxied = Project::new("tls-proxied").file("slipform.toml", "[server]\nbehind_proxy = true\n");
    assert!(!is_warned(&proxied, "0.0.0.0:0"));
}

#[test]
fn server_behind_a_proxy_needs_tokens_on_loopback_too() {
    let project = Project::new("tls-behind").file("slipform.toml", "[server]\nbehind_proxy = true\n");
    let ran = project.run(&["serve", "--listen", "127.0.0.1:0"]);
    assert!(
        ran.status == 2 && ran.stderr.contains("server.behind_proxy is set, so every request needs a token")
    );
    let token = project.run(&["token", "create", "proxied"]).stdout;
    let serving = Serving::start(&project, &["--no-runner"]);
    let address = serving.address();
    assert_eq!(request(&address, "GET", "/runs", None, &json!(null)).0, 401);
    assert_eq!(request(&address, "GET", "/runs", Some(token.trim()), &json!(null)).0, 200);
}
