//! Credentials in `clouds.yaml`, the format of OpenStack's clients: a password of a user in a
//! project, or an application credential. Tells which settings let others read or forge the
//! traffic. Must never show a secret.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use serde::Deserialize;

/// A cloud of a clouds file, and the credentials for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cloud {
    /// Address of Keystone with the version: `https://keystone.example/v3`.
    pub auth_url: String,
    pub access: Access,
    /// The region; `None` accepts any region with a network service.
    pub region: Option<String>,
    /// `public`, `internal` or `admin`.
    pub interface: String,
    /// File with the trusted certificates; `None` trusts the certificates of the machine.
    pub certificates: Option<String>,
    pub trust: Trust,
}

/// Whether certificates are verified.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Trust {
    /// An authority that the client trusts must have signed the certificates.
    #[default]
    Verified,
    /// `verify: false`: any certificate is accepted.
    Anything,
}

/// Credentials for Keystone.
#[derive(Clone, PartialEq, Eq)]
pub enum Access {
    /// A user's password, in a project.
    Password {
        username: String,
        user_domain: Named,
        password: String,
        project: Project,
    },
    /// An application credential: for one project, and revocable on its own.
    ApplicationCredential { id: String, secret: String },
}

/// An object of Keystone, by name or by id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Named {
    Name(String),
    Id(String),
}

/// A project.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Project {
    Id(String),
    /// Name of the project, and its domain.
    Name(String, Named),
}

impl fmt::Debug for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Access::Password {
                username, project, ..
            } => write!(f, "Password({username} in {project:?})"),
            Access::ApplicationCredential { id, .. } => write!(f, "ApplicationCredential({id})"),
        }
    }
}

/// Why a clouds file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum CloudsError {
    /// Not YAML, or not a clouds file. The message repeats nothing of it: it holds secrets.
    #[error("not a clouds file (see `openstack --os-cloud NAME token issue`)")]
    Syntax,
    #[error("it has no cloud `{0}`")]
    Unknown(String),
    /// The file has several clouds, and the caller names none.
    #[error("it has {0} clouds, and none is selected")]
    Several(usize),
    /// Not an address of Keystone.
    #[error(
        "`auth_url` (`authUrl`) is not an address like https://keystone.example/v3, without user and password"
    )]
    Address,
    #[error("unknown `auth_type` `{0}`; expected `v3applicationcredential` or `password`")]
    Kind(String),
    #[error("the cloud `{cloud}` has no `{field}`")]
    Lacks { cloud: String, field: &'static str },
}

/// The files where OpenStack's clients look for clouds, in order: in the current directory, in the
/// user's configuration (`$XDG_CONFIG_HOME` or `~/.config`), and in `/etc`.
pub fn clouds_files(user_configuration: Option<&Path>) -> Vec<PathBuf> {
    let folders = [
        Some(PathBuf::from(".")),
        user_configuration.map(|folder| folder.join("openstack")),
        Some(PathBuf::from("/etc/openstack")),
    ];
    folders
        .into_iter()
        .flatten()
        .flat_map(|folder| ["clouds.yaml", "clouds.yml"].map(|name| folder.join(name)))
        .collect()
}

#[derive(Deserialize)]
struct Written {
    clouds: BTreeMap<String, WrittenCloud>,
}

#[derive(Deserialize)]
struct WrittenCloud {
    auth_type: Option<String>,
    auth: WrittenAuth,
    region_name: Option<String>,
    interface: Option<String>,
    cacert: Option<String>,
    #[serde(default = "yes")]
    verify: bool,
}

fn yes() -> bool {
    true
}

#[derive(Default, Deserialize)]
struct WrittenAuth {
    auth_url: Option<String>,
    username: Option<String>,
    password: Option<String>,
    project_name: Option<String>,
    project_id: Option<String>,
    user_domain_name: Option<String>,
    user_domain_id: Option<String>,
    project_domain_name: Option<String>,
    project_domain_id: Option<String>,
    application_credential_id: Option<String>,
    application_credential_secret: Option<String>,
}

impl Cloud {
    /// Credentials in the form of the plugin of 2020: one domain for user and project.
    ///
    /// # Errors
    /// Fails if `auth_url` is not an address of Keystone.
    pub fn with_password(
        auth_url: &str,
        username: String,
        password: String,
        project: String,
        domain: String,
    ) -> Result<Cloud, CloudsError> {
        // Each cloud has a domain with the name `Default` and the id `default`. Both are in use.
        let domain = if domain == "default" {
            Named::Id(domain)
        } else {
            Named::Name(domain)
        };
        let project = Project::Name(project, domain.clone());
        let access = Access::Password {
            username,
            user_domain: domain,
            password,
            project,
        };
        Ok(Cloud {
            auth_url: versioned(auth_url)?,
            access,
            region: None,
            interface: "public".to_owned(),
            certificates: None,
            trust: Trust::Verified,
        })
    }

    /// Reads one cloud of a file; without a name, the only one.
    ///
    /// # Errors
    /// Fails if the file is invalid, or lacks the cloud or a required field.
    pub fn read(text: &str, name: Option<&str>) -> Result<Cloud, CloudsError> {
        let mut written: Written = serde_yaml::from_str(text).map_err(|_| CloudsError::Syntax)?;
        let name = match (name, written.clouds.len()) {
            (Some(name), _) => name.to_owned(),
            (None, 1) => written.clouds.keys().next().cloned().unwrap_or_default(),
            (None, many) => return Err(CloudsError::Several(many)),
        };
        let cloud = written
            .clouds
            .remove(&name)
            .ok_or_else(|| CloudsError::Unknown(name.clone()))?;
        let auth_url = needed(&name, "auth.auth_url", cloud.auth.auth_url.clone())?;
        Ok(Cloud {
            auth_url: versioned(&auth_url)?,
            access: Access::of(&name, cloud.auth_type.as_deref(), cloud.auth)?,
            region: cloud.region_name,
            interface: cloud.interface.unwrap_or_else(|| "public".to_owned()),
            certificates: cloud.cacert,
            trust: if cloud.verify {
                Trust::Verified
            } else {
                Trust::Anything
            },
        })
    }
}

impl Access {
    fn of(cloud: &str, kind: Option<&str>, auth: WrittenAuth) -> Result<Access, CloudsError> {
        let has_credential = auth.application_credential_id.is_some();
        let is_credential = match kind {
            Some("v3applicationcredential") => true,
            Some("password" | "v3password") => false,
            None => has_credential,
            Some(other) => return Err(CloudsError::Kind(other.chars().take(64).collect())),
        };
        if is_credential {
            let id = needed(
                cloud,
                "auth.application_credential_id",
                auth.application_credential_id,
            )?;
            let secret = needed(
                cloud,
                "auth.application_credential_secret",
                auth.application_credential_secret,
            )?;
            return Ok(Access::ApplicationCredential { id, secret });
        }
        let project = match auth.project_id {
            Some(id) => Project::Id(id),
            None => Project::Name(
                needed(cloud, "auth.project_name", auth.project_name)?,
                domain(auth.project_domain_id, auth.project_domain_name),
            ),
        };
        Ok(Access::Password {
            username: needed(cloud, "auth.username", auth.username)?,
            user_domain: domain(auth.user_domain_id, auth.user_domain_name),
            password: needed(cloud, "auth.password", auth.password)?,
            project,
        })
    }
}

fn domain(id: Option<String>, name: Option<String>) -> Named {
    match (id, name) {
        (Some(id), _) => Named::Id(id),
        (None, Some(name)) => Named::Name(name),
        (None, None) => Named::Id("default".to_owned()),
    }
}

fn needed(cloud: &str, field: &'static str, value: Option<String>) -> Result<String, CloudsError> {
    value
        .filter(|value| !value.is_empty())
        .ok_or_else(|| CloudsError::Lacks {
            cloud: cloud.to_owned(),
            field,
        })
}

/// Adds the version to Keystone's address if it has none.
fn versioned(auth_url: &str) -> Result<String, CloudsError> {
    let url = auth_url.trim_end_matches('/');
    let rest = url
        .strip_prefix("https://")
        .or_else(|| url.strip_prefix("http://"))
        .ok_or(CloudsError::Address)?;
    let is_possible = |byte: u8| byte.is_ascii_graphic() && !b"@?#\\\"<>{}|^`".contains(&byte);
    if rest.is_empty() || rest.starts_with('/') || !rest.bytes().all(is_possible) {
        return Err(CloudsError::Address);
    }
    Ok(if url.ends_with("/v3") {
        url.to_owned()
    } else {
        format!("{url}/v3")
    })
}

/// Why other users or machines could read the credentials, or answer in OpenStack's place.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
pub enum InsecureSetting {
    #[error(
        "Keystone is at {}, without TLS: others on the way can read the password",
        .0.escape_debug()
    )]
    PlainKeystone(String),
    #[error(
        "Keystone's catalogue has Neutron at {}, without TLS: others on the way can read the token",
        .0.escape_debug()
    )]
    PlainNeutron(String),
    #[error(
        "`verify: false`: any server on the way can answer in the place of {} and read the password",
        .0.escape_debug()
    )]
    Unverified(String),
}

impl InsecureSetting {
    /// The insecure settings of a cloud, and of its network service if the address is known. `http`
    /// on loopback is secure: the traffic stays on the machine.
    pub fn all_of(cloud: &Cloud, network_url: Option<&str>) -> Vec<InsecureSetting> {
        let keystone = is_plain(&cloud.auth_url)
            .then(|| InsecureSetting::PlainKeystone(cloud.auth_url.clone()));
        let neutron = network_url
            .filter(|url| is_plain(url))
            .map(|url| InsecureSetting::PlainNeutron(url.to_owned()));
        let unverified = (cloud.trust == Trust::Anything)
            .then(|| InsecureSetting::Unverified(cloud.auth_url.clone()));
        keystone
            .into_iter()
            .chain(neutron)
            .chain(unverified)
            .collect()
    }

    /// How to fix the setting.
    pub fn way_out(&self) -> &'static str {
        match self {
            InsecureSetting::PlainKeystone(_) => {
                "serve Keystone over https, and set `auth_url` (`authUrl`) to it"
            }
            InsecureSetting::PlainNeutron(_) => {
                "set the endpoint to https: openstack endpoint set --url https://… ID"
            }
            InsecureSetting::Unverified(_) => {
                "remove `verify: false`, and name the certificates of the cloud's authority in `cacert`"
            }
        }
    }
}

fn is_plain(url: &str) -> bool {
    url.strip_prefix("http://")
        .is_some_and(|rest| !is_loopback(rest))
}

fn is_loopback(rest: &str) -> bool {
    let host = rest.split('/').next().unwrap_or_default();
    if host == "[::1]" || host.starts_with("[::1]:") {
        return true;
    }
    let host = host.split(':').next().unwrap_or_default();
    let is_ipv4 = host.split('.').count() == 4
        && host
            .bytes()
            .all(|byte| byte.is_ascii_digit() || byte == b'.');
    host.eq_ignore_ascii_case("localhost") || (is_ipv4 && host.starts_with("127."))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "
clouds:
  lab:
    auth: {auth_url: https://keystone.example/v3/, username: cni, password: hunter2, project_name: k8s}
    region_name: RegionOne
    interface: internal
    cacert: /etc/ssl/lab.pem
  prod:
    auth: {auth_url: https://keystone.example, application_credential_id: i, application_credential_secret: hunter2}
";

    #[test]
    fn both_kinds_of_credentials_are_read_and_no_secret_is_shown() {
        let lab = Cloud::read(FILE, Some("lab")).unwrap();
        assert_eq!(
            (lab.auth_url.as_str(), lab.interface.as_str()),
            ("https://keystone.example/v3", "internal")
        );
        let prod = Cloud::read(FILE, Some("prod")).unwrap();
        assert_eq!(prod.auth_url, "https://keystone.example/v3");
        assert!(!format!("{lab:?}{prod:?}").contains("hunter2"));
    }

    #[test]
    fn only_addresses_of_keystone_are_accepted() {
        for bad in [
            "keystone:5000/v3",
            "http://",
            "https:///v3",
            "http://u:hunter2@k/v3",
            "http://k/ v3",
            "ftp://k",
            "http://k/v3?x",
        ] {
            assert!(matches!(versioned(bad), Err(CloudsError::Address)), "{bad}");
        }
        assert_eq!(
            versioned("http://[::1]:5000").unwrap(),
            "http://[::1]:5000/v3"
        );
    }

    #[test]
    fn missing_parts_are_named() {
        assert!(matches!(
            Cloud::read(FILE, None),
            Err(CloudsError::Several(2))
        ));
        assert!(matches!(
            Cloud::read(FILE, Some("x")),
            Err(CloudsError::Unknown(_))
        ));
        let lacks = "clouds: {a: {auth: {auth_url: http://k, username: u, password: hunter2}}}";
        assert_eq!(
            Cloud::read(lacks, None).unwrap_err().to_string(),
            "the cloud `a` has no `auth.project_name`"
        );
        let syntax = Cloud::read("clouds: {a: {auth: hunter2}}", None)
            .unwrap_err()
            .to_string();
        assert!(!syntax.contains("hunter2"), "{syntax}");
    }
}

#[cfg(test)]
mod insecure_setting_tests {
    use super::*;

    fn weak(auth_url: &str, network_url: &str, trust: Trust) -> usize {
        let text = |text: &str| text.to_owned();
        let cloud =
            Cloud::with_password(auth_url, text("u"), text("hunter2"), text("p"), text("d"));
        let weak = InsecureSetting::all_of(
            &Cloud {
                trust,
                ..cloud.unwrap()
            },
            Some(network_url),
        );
        assert!(!format!("{weak:?}").contains("hunter2"));
        weak.len()
    }

    #[test]
    fn http_is_insecure_except_on_loopback() {
        assert_eq!(weak("https://k", "https://n:9696", Trust::Verified), 0);
        assert_eq!(weak("http://k:5000", "https://n", Trust::Verified), 1);
        assert_eq!(weak("https://k", "http://n:9696", Trust::Verified), 1);
        assert_eq!(weak("https://k", "https://n", Trust::Anything), 1);
        assert_eq!(weak("http://k", "http://n", Trust::Anything), 3);
        for host in [
            "127.0.0.1",
            "127.1.2.3:5000",
            "localhost:5000",
            "LOCALHOST",
            "[::1]",
            "[::1]:5000",
        ] {
            assert_eq!(
                weak(
                    &format!("http://{host}/identity"),
                    &format!("http://{host}"),
                    Trust::Verified
                ),
                0,
                "{host}"
            );
        }
        for host in [
            "127.0.0.1.example",
            "127.example",
            "localhost.example",
            "[::1:2]",
            "10.0.0.1",
            "1270.0.0.1",
        ] {
            assert_eq!(
                weak("https://k", &format!("http://{host}/v2.0"), Trust::Verified),
                1,
                "{host}"
            );
        }
    }
}
