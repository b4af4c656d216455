//! Certificates for tests of TLS.

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, KeyUsagePurpose};

/// A certificate authority that exists for one test.
pub struct TestAuthority {
    /// Its certificate in PEM.
    pub certificate: String,
    issuer: Issuer<'static, KeyPair>,
}

/// A certificate and its private key, both in PEM.
#[derive(Debug, Clone)]
pub struct TestCertificate {
    /// The certificate.
    pub certificate: String,
    /// The private key.
    pub key: String,
}

impl TestAuthority {
    /// Creates an authority.
    pub fn new(name: &str) -> TestAuthority {
        let mut params = CertificateParams::new(Vec::new()).expect("no names");
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let key = KeyPair::generate().expect("a key");
        let certificate = params.self_signed(&key).expect("a certificate").pem();
        TestAuthority { certificate, issuer: Issuer::new(params, key) }
    }

    /// Issues a certificate for these host names and addresses.
    pub fn issue(&self, names: &[&str]) -> TestCertificate {
        let names = names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
        let params = CertificateParams::new(names).expect("valid names");
        let key = KeyPair::generate().expect("a key");
        let certificate = params.signed_by(&key, &self.issuer).expect("a certificate").pem();
        TestCertificate { certificate, key: key.serialize_pem() }
    }
}

impl std::fmt::Debug for TestAuthority {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("TestAuthority").finish_non_exhaustive()
    }
}

/// Creates a certificate for these names that no authority has issued. It is an authority itself, as those that
/// `openssl req -x509` makes.
pub fn self_signed(names: &[&str]) -> TestCertificate {
    let names = names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
    let mut params = CertificateParams::new(names).expect("valid names");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().expect("a key");
    let certificate = params.self_signed(&key).expect("a certificate").pem();
    TestCertificate { certificate, key: key.serialize_pem() }
}
