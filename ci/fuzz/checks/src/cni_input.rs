//! What a container runtime says to the CNI plugins: `CNI_ARGS` in the first line, the
//! configuration of the network behind it.

use serde_json::Value;

use crate::safe_text::assert_harmless;
use neutron_cni::Settings;
use neutron_cni::cni::{Arguments, CniError};
use neutron_cni::nic::NicSettings;
use neutron_cni::unnumbered::PtpSettings;
use openstack::Cloud;

/// A shorter password could occur in a message that does not repeat it.
const SECRET: usize = 8;

/// The bytes are both.
pub fn check(data: &[u8]) {
    let line = data.iter().position(|byte| *byte == b'\n').unwrap_or(0);
    let (arguments, input) = data.split_at(line);
    let arguments = String::from_utf8_lossy(arguments);
    let written: Value = serde_json::from_slice(input).unwrap_or_default();
    let secret = written["ipam"]["openstackConf"]["password"]
        .as_str()
        .filter(|secret| secret.len() >= SECRET);
    let version = Settings::version_of(input);
    let refused = |error: &CniError| {
        let told = error.to_json(version).to_string();
        assert_harmless("an error", &told);
        assert!(told.len() < 4_000, "{} bytes", told.len());
        assert!(secret.is_none_or(|secret| !told.contains(secret)), "{told}");
    };
    let asked = Arguments::read(&arguments).unwrap_or_default();
    match Settings::read(input) {
        Err(error) => refused(&error),
        Ok(settings) => {
            assert!(secret.is_none_or(|secret| !format!("{settings:?}").contains(secret)));
            assert_eq!(settings.version, version);
            match settings.request(&asked) {
                Err(error) => refused(&error),
                Ok(request) => {
                    assert!(
                        !request.networks.is_empty()
                            && asked
                                .addresses
                                .iter()
                                .all(|one| request.addresses.contains(one))
                    )
                }
            }
        }
    }
    let interface = "eth0".parse().expect("the name of an interface");
    match PtpSettings::read(input)
        .and_then(|settings| Ok((settings.wanted()?, settings.previous(&interface)?)))
    {
        Err(error) => refused(&error),
        Ok((wanted, previous)) => {
            assert!(wanted.routes.len() <= 64 && (1..=16).contains(&previous.addresses.len()));
        }
    }
    match Settings::read_from(input, "neutron")
        .and_then(|settings| NicSettings::read(settings.written()))
    {
        Err(error) => refused(&error),
        Ok(_) => assert!(written["nic"].is_object()),
    }
    if let Ok(text) = std::str::from_utf8(input) {
        let _ = Cloud::read(text, None).map_err(|why| why.to_string());
    }
}
