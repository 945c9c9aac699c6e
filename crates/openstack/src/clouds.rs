//! Credentials as OpenStack's clients keep them, in `clouds.yaml`: a password of a user in a
//! project, or an application credential. Secrets are never shown.

use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;

/// A cloud, and how to get in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cloud {
    /// Keystone, with its version: `https://keystone.example/v3`.
    pub auth_url: String,
    /// How to get in.
    pub access: Access,
    /// The region; `None` is whichever has a network service.
    pub region: Option<String>,
    /// `public`, `internal` or `admin`.
    pub interface: String,
    /// A file with the certificates that are trusted, instead of those of the machine.
    pub certificates: Option<String>,
    /// Whether certificates are looked at.
    pub trust: Trust,
}

/// How certificates are taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Trust {
    /// They must be signed by somebody who is trusted.
    #[default]
    Verified,
    /// Anything is believed, because the file says so.
    Anything,
}

/// How to get in.
#[derive(Clone, PartialEq, Eq)]
pub enum Access {
    /// A user's password, in a project.
    Password {
        /// The user.
        username: String,
        /// The user's domain.
        user_domain: Named,
        /// The secret.
        password: String,
        /// The project.
        project: Project,
    },
    /// An application credential: of one project, and revocable by itself.
    ApplicationCredential {
        /// Its id.
        id: String,
        /// The secret.
        secret: String,
    },
}

/// Something that Keystone knows by its name or by its id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Named {
    /// By its name.
    Name(String),
    /// By its id.
    Id(String),
}

/// A project.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Project {
    /// By its id, which no other has.
    Id(String),
    /// By its name in a domain.
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

/// Why a file of clouds cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum CloudsFault {
    /// It is not YAML, or not of clouds; what it says is not repeated, as it holds secrets.
    #[error("it is no file of clouds (see `openstack --os-cloud NAME token issue`)")]
    Syntax,
    /// There is no such cloud.
    #[error("it has no cloud `{0}`")]
    Unknown(String),
    /// None is named.
    #[error("it has {0} clouds, and nothing says which")]
    Several(usize),
    /// Keystone cannot be there.
    #[error(
        "`auth_url` (`authUrl`) is no address like https://keystone.example/v3, without a user or a password in it"
    )]
    Address,
    /// Another way to log in.
    #[error("`auth_type` is `{0}`, and neither `v3applicationcredential` nor `password`")]
    Kind(String),
    /// Something lacks.
    #[error("the cloud `{cloud}` has no `{field}`")]
    Lacks {
        /// The cloud.
        cloud: String,
        /// The field.
        field: &'static str,
    },
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
    /// As the plugin of 2020 was configured: one domain for both.
    ///
    /// # Errors
    /// An address where no Keystone can be.
    pub fn with_password(
        auth_url: &str,
        username: String,
        password: String,
        project: String,
        domain: String,
    ) -> Result<Cloud, CloudsFault> {
        // The domain that every cloud has is `Default` by name and `default` by id, and people
        // write both.
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

    /// One of a file; without a name the only one.
    ///
    /// # Errors
    /// A file that is something else, or has not what is needed.
    pub fn read(text: &str, name: Option<&str>) -> Result<Cloud, CloudsFault> {
        let mut written: Written = serde_yaml::from_str(text).map_err(|_| CloudsFault::Syntax)?;
        let name = match (name, written.clouds.len()) {
            (Some(name), _) => name.to_owned(),
            (None, 1) => written.clouds.keys().next().cloned().unwrap_or_default(),
            (None, many) => return Err(CloudsFault::Several(many)),
        };
        let cloud = written
            .clouds
            .remove(&name)
            .ok_or_else(|| CloudsFault::Unknown(name.clone()))?;
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
    fn of(cloud: &str, kind: Option<&str>, auth: WrittenAuth) -> Result<Access, CloudsFault> {
        let has_credential = auth.application_credential_id.is_some();
        let is_credential = match kind {
            Some("v3applicationcredential") => true,
            Some("password" | "v3password") => false,
            None => has_credential,
            Some(other) => return Err(CloudsFault::Kind(other.chars().take(64).collect())),
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

fn needed(cloud: &str, field: &'static str, value: Option<String>) -> Result<String, CloudsFault> {
    value
        .filter(|value| !value.is_empty())
        .ok_or_else(|| CloudsFault::Lacks {
            cloud: cloud.to_owned(),
            field,
        })
}

/// People write Keystone's address with its version and without.
fn versioned(auth_url: &str) -> Result<String, CloudsFault> {
    let url = auth_url.trim_end_matches('/');
    let rest = url
        .strip_prefix("https://")
        .or_else(|| url.strip_prefix("http://"))
        .ok_or(CloudsFault::Address)?;
    let is_possible = |byte: u8| byte.is_ascii_graphic() && !b"@?#\\\"<>{}|^`".contains(&byte);
    if rest.is_empty() || rest.starts_with('/') || !rest.bytes().all(is_possible) {
        return Err(CloudsFault::Address);
    }
    Ok(if url.ends_with("/v3") {
        url.to_owned()
    } else {
        format!("{url}/v3")
    })
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
    fn both_kinds_are_read_and_no_secret_is_shown() {
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
    fn only_addresses_are_asked() {
        for bad in [
            "keystone:5000/v3",
            "http://",
            "https:///v3",
            "http://u:hunter2@k/v3",
            "http://k/ v3",
            "ftp://k",
            "http://k/v3?x",
        ] {
            assert!(matches!(versioned(bad), Err(CloudsFault::Address)), "{bad}");
        }
        assert_eq!(
            versioned("http://[::1]:5000").unwrap(),
            "http://[::1]:5000/v3"
        );
    }

    #[test]
    fn what_lacks_is_named() {
        assert!(matches!(
            Cloud::read(FILE, None),
            Err(CloudsFault::Several(2))
        ));
        assert!(matches!(
            Cloud::read(FILE, Some("x")),
            Err(CloudsFault::Unknown(_))
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
