//! An own certificate authority per control plane, and the API server's certificate.

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};

use crate::error::Result;

/// 10.0.2.2 is the host's loopback as a QEMU guest with user networking sees it.
const SERVER_NAMES: [&str; 3] = ["127.0.0.1", "localhost", "10.0.2.2"];

/// What the API server and its clients need, all as PEM.
#[derive(Debug)]
pub(crate) struct Certificates {
    pub(crate) authority: String,
    pub(crate) server: String,
    pub(crate) server_key: String,
    pub(crate) service_account_key: String,
    pub(crate) service_account_public_key: String,
}

impl Certificates {
    pub(crate) fn new() -> Result<Self> {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params
            .distinguished_name
            .push(DnType::CommonName, "cilium-ipam testbed");
        let authority = CertifiedIssuer::self_signed(params, KeyPair::generate()?)?;
        let server_key = KeyPair::generate()?;
        let account_key = KeyPair::generate()?;
        let names = SERVER_NAMES.map(str::to_owned);
        let server = CertificateParams::new(names)?.signed_by(&server_key, &authority)?;
        Ok(Self {
            authority: authority.pem(),
            server: server.pem(),
            server_key: server_key.serialize_pem(),
            service_account_key: account_key.serialize_pem(),
            service_account_public_key: account_key.public_key_pem(),
        })
    }
}
