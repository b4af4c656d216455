//! TLS to PostgreSQL: each `sslmode` against servers with and without certificates.

use slipform_store::{Error, Options, RegistryKind, Store};
use slipform_testkit::{PostgresServer, TestAuthority, TestFolder, self_signed, wait_until_async};

/// Opens the database, and returns whether its connections are encrypted.
async fn is_encrypted(server: &PostgresServer, address: &str) -> Result<bool, Error> {
    let store = Store::open(address, &Options::default()).await?;
    store.ping().await?;
    let sql = "SELECT bool_and(ssl) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid)
               WHERE application_name = 'slipform' AND datname = current_database()";
    Ok(server.query(address.split('?').next().unwrap(), sql) == [["t"]])
}

/// Returns the message of a refusal that trying again does not fix.
async fn refusal(address: &str) -> String {
    match Store::open(address, &Options::default()).await {
        Err(Error::Unsuitable(message)) => message,
        other => panic!("{address}: {other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn sslmode_decides_about_encryption_and_verification() {
    let Some(server) = PostgresServer::start() else { return };
    let (authority, other) = (TestAuthority::new("ours"), TestAuthority::new("another"));
    let folder = TestFolder::with_files(
        "roots",
        &[("ours.pem", &authority.certificate), ("other.pem", &other.certificate)],
    );
    let (ours, others) = (folder.join("ours.pem"), folder.join("other.pem"));
    let (ours, others) = (ours.display(), others.display());
    let address = server.create_database("tls");

    // Without TLS on the server.
    assert!(!is_encrypted(&server, &address).await.unwrap());
    assert!(!is_encrypted(&server, &format!("{address}?sslmode=prefer")).await.unwrap());
    for mode in ["require".to_owned(), format!("verify-full&sslrootcert={ours}")] {
        let refused = refusal(&format!("{address}?sslmode={mode}")).await;
        assert!(refused.starts_with("PostgreSQL does not offer TLS"), "{refused}");
    }

    // The certificate is for another name than the address has.
    let named = authority.issue(&["db.internal", "localhost"]);
    server.use_certificate(&named.certificate, &named.key);
    let by_name = address.replace("127.0.0.1", "localhost");
    for (address, query, encrypted) in [
        (&address, "", true),
        (&address, "?sslmode=disable", false),
        (&address, "?sslmode=prefer", true),
        (&address, "?sslmode=require", true),
        (&address, &format!("?sslmode=require&sslrootcert={ours}"), true),
        (&address, &format!("?sslmode=verify-ca&sslrootcert={ours}"), true),
        (&by_name, &format!("?sslrootcert={ours}&sslmode=verify-full"), true),
    ] {
        assert_eq!(
            is_encrypted(&server, &format!("{address}{query}")).await.unwrap(),
            encrypted,
            "{address}{query}"
        );
    }
    for (address, query, message) in [
        (&address, format!("sslmode=require&sslrootcert={others}"), "UnknownIssuer"),
        (&address, format!("sslmode=verify-ca&sslrootcert={others}"), "UnknownIssuer"),
        (&by_name, format!("sslmode=verify-full&sslrootcert={others}"), "UnknownIssuer"),
        (&by_name, "sslmode=verify-full&sslrootcert=system".to_owned(), "UnknownIssuer"),
        (&address, format!("sslmode=verify-full&sslrootcert={ours}"), "not valid for name"),
        (
            &address,
            "sslmode=verify-full&sslrootcert=/nonexistent".to_owned(),
            "cannot read the certificates in /nonexistent",
        ),
    ] {
        let refused = refusal(&format!("{address}?{query}")).await;
        assert!(refused.contains(message), "{query}: {refused}");
    }
    let unknown = Store::open(&format!("{address}?sslmode=sometimes"), &Options::default()).await;
    assert!(
        matches!(&unknown, Err(Error::Address(message)) if message.contains("verify-full")),
        "{unknown:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn trusted_self_signed_certificate_is_accepted_under_its_name_only() {
    let Some(server) = PostgresServer::start() else { return };
    let certificate = self_signed(&["localhost"]);
    server.use_certificate(&certificate.certificate, &certificate.key);
    let folder = TestFolder::with_files("self-signed", &[("root.pem", &certificate.certificate)]);
    let address = server.create_database("self_signed");
    let query = format!("sslmode=verify-full&sslrootcert={}", folder.join("root.pem").display());
    let by_name = address.replace("127.0.0.1", "localhost");
    assert!(is_encrypted(&server, &format!("{by_name}?{query}")).await.unwrap());
    let refused = refusal(&format!("{address}?{query}")).await;
    assert!(refused.contains("not valid for name"), "{refused}");
}

#[tokio::test(flavor = "multi_thread")]
async fn encrypted_store_authenticates_notifies_and_survives_a_restart() {
    let Some(server) = PostgresServer::start() else { return };
    let authority = TestAuthority::new("ours");
    let certificate = authority.issue(&["localhost"]);
    server.use_certificate(&certificate.certificate, &certificate.key);
    let folder = TestFolder::with_files("notified", &[("root.pem", &authority.certificate)]);
    let address = server.create_database("notified");
    let user = server.create_user("app", "secret", &address).replace("app@127.0.0.1", "app:secret@localhost");
    let address = format!("{user}?sslmode=verify-full&sslrootcert={}", folder.join("root.pem").display());
    let (store, other) = (
        Store::open(&address, &Options::default()).await.unwrap(),
        Store::open(&address, &Options::default()).await.unwrap(),
    );
    let mut notifications = other.notifications();
    assert!(store.add(RegistryKind::Agents, "before", "{}").await.unwrap());
    notifications.changed().await.unwrap();
    server.crash();
    server.restart();
    assert!(store.add(RegistryKind::Agents, "after", "{}").await.unwrap());
    wait_until_async("the other store reads it", async || {
        other.entries(RegistryKind::Agents).await.is_ok_and(|entries| entries.len() == 2)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn preferred_tls_is_left_out_for_a_user_that_the_server_refuses_with_tls() {
    let Some(server) = PostgresServer::start() else { return };
    let certificate = self_signed(&["localhost"]);
    server.use_certificate(&certificate.certificate, &certificate.key);
    let address = server.create_database("plain_only");
    server.query(&address, "CREATE ROLE plain LOGIN SUPERUSER");
    server.add_access_rules(&["hostssl all plain all reject"]);
    let address = address.replace("postgres@", "plain@");
    assert!(!is_encrypted(&server, &address).await.unwrap());
    let refused = refusal(&format!("{address}?sslmode=require")).await;
    assert!(refused.contains("pg_hba.conf rejects connection"), "{refused}");
}
