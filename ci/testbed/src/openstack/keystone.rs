//! Keystone: who there is, and what its catalog names.

use std::path::{Path, PathBuf};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE;
use serde_json::{Value, json};

use super::python::Python;
use super::service::{Recipe, Service};
use super::session::{Credentials, Session};
use super::{Internal, template};
use crate::error::{Error, Result};
use crate::folder::RunFolder;
use crate::process::{free_port, with_free_ports};
use crate::vm::{HOST, HOST_IN_GUEST};

/// The domain of all users and projects, by id.
pub const DOMAIN: &str = "default";
/// The only region.
pub const REGION: &str = "RegionOne";
/// May do everything.
pub const ADMIN_USER: &str = "admin";
/// The administrator's password.
pub const ADMIN_PASSWORD: &str = "admin-secret";
/// The administrator's project.
pub const ADMIN_PROJECT: &str = "admin";
/// Has the role `member` in [`MEMBER_PROJECT`], and nothing else.
pub const MEMBER_USER: &str = "cni";
/// That user's password.
pub const MEMBER_PASSWORD: &str = "cni-secret";
/// That user's project.
pub const MEMBER_PROJECT: &str = "k8s";
/// Neutron itself.
pub const NEUTRON_USER: &str = "neutron";
/// Neutron's password.
pub const NEUTRON_PASSWORD: &str = "neutron-secret";
/// The project of the services.
pub const SERVICE_PROJECT: &str = "service";

const INTERFACES: [&str; 3] = ["public", "internal", "admin"];
/// Stands in a template's catalog, where no port is known yet.
const NOWHERE: &str = "http://127.0.0.1:1";
const NAME: &str = "keystone";
/// The fewest that bcrypt has: a login with Keystone's default of 12 takes a third of a second.
const PASSWORD_HASH_ROUNDS: u32 = 4;
pub(super) const DATABASE: &str = "keystone.sqlite";
/// Sets the URLs of endpoints; the tables are those of Keystone 30.
const POINT: &str = "import sqlite3, sys
database, triples = sys.argv[1], iter(sys.argv[2:])
with sqlite3.connect(database) as connection:
    for triple in zip(triples, triples, triples):
        found = connection.execute(
            'update endpoint set url = ? where interface = ? and service_id in (select id from service where type = ?)',
            triple)
        assert found.rowcount == 1, triple
";
const TOKEN_KEYS: &str = "fernet-keys";
const CREDENTIAL_KEYS: &str = "credential-keys";
const FERNET_KEY_LENGTH: usize = 32;

/// What Keystone is set to.
pub(super) struct Config<'a> {
    pub(super) state: &'a Path,
    pub(super) token_lifetime: Duration,
}

impl Config<'_> {
    fn text(&self) -> String {
        let (state, seconds) = (self.state.display(), self.token_lifetime.as_secs());
        format!(
            "[database]\nconnection = sqlite:///{state}/{DATABASE}\n\
             [token]\nprovider = fernet\nexpiration = {seconds}\n\
             [fernet_tokens]\nkey_repository = {state}/{TOKEN_KEYS}\n\
             [fernet_receipts]\nkey_repository = {state}/{TOKEN_KEYS}\n\
             [credential]\nkey_repository = {state}/{CREDENTIAL_KEYS}\n\
             [cache]\nenabled = false\n\
             [identity]\npassword_hash_rounds = {PASSWORD_HASH_ROUNDS}\n"
        )
    }

    fn write(&self, folder: &Path) -> Result<PathBuf> {
        super::write(&folder.join(NAME), "keystone.conf", &self.text())
    }
}

/// Keystone with these settings, not running yet.
pub(super) fn service(
    python: &Python,
    folder: &Path,
    port: u16,
    config: &Config<'_>,
) -> Result<Service> {
    config.write(folder)?;
    let recipe = Recipe {
        name: NAME,
        module: "keystone.wsgi.api:application",
        health: "/v3",
        environment: &[
            (
                "OS_KEYSTONE_CONFIG_DIR",
                folder.join(NAME).display().to_string(),
            ),
            ("OS_KEYSTONE_CONFIG_FILES", "keystone.conf".to_owned()),
        ],
        workers: 1,
        port,
    };
    Service::new(&python.file("bin/uwsgi"), folder, &recipe)
}

/// A database and keys with all users, projects and services; the endpoints name nothing yet.
pub(super) fn template(python: &Python) -> Result<PathBuf> {
    template::find_or_prepare(&python.templates(), NAME, |state| {
        let folder = RunFolder::new()?;
        let config = Config {
            state,
            token_lifetime: Duration::from_secs(3600),
        };
        let file = config.write(folder.path())?;
        write_keys(state)?;
        bootstrap(python, folder.path(), &file)?;
        let keystone = with_free_ports(|| {
            let keystone = service(python, folder.path(), free_port()?, &config)?;
            keystone.start()?;
            Ok(keystone)
        })?;
        fill(&Session::new(
            &keystone.direct_url(),
            NOWHERE,
            Credentials::admin(),
        ))
    })
}

/// Keys as `fernet_setup` and `credential_setup` make them, who want to know a user's name for
/// that: the next one and the one in use.
fn write_keys(state: &Path) -> Result<()> {
    for folder in [TOKEN_KEYS, CREDENTIAL_KEYS] {
        for number in [0, 1] {
            super::write(
                &state.join(folder),
                &number.to_string(),
                &URL_SAFE.encode([number; FERNET_KEY_LENGTH]),
            )?;
        }
    }
    Ok(())
}

fn bootstrap(python: &Python, folder: &Path, file: &Path) -> Result<()> {
    let file = file.display().to_string();
    let url = format!("{NOWHERE}/v3");
    let steps: [&[&str]; 2] = [
        &["db_sync"],
        &[
            "bootstrap",
            "--bootstrap-username",
            ADMIN_USER,
            "--bootstrap-password",
            ADMIN_PASSWORD,
            "--bootstrap-project-name",
            ADMIN_PROJECT,
            "--bootstrap-region-id",
            REGION,
            "--bootstrap-public-url",
            &url,
            "--bootstrap-internal-url",
            &url,
            "--bootstrap-admin-url",
            &url,
        ],
    ];
    for step in steps {
        let arguments = [&["--config-file", &file], step].concat();
        python.run("keystone-manage", &arguments, folder)?;
    }
    Ok(())
}

fn fill(admin: &Session) -> Result<()> {
    add_user(
        admin,
        SERVICE_PROJECT,
        NEUTRON_USER,
        NEUTRON_PASSWORD,
        "admin",
    )?;
    add_user(
        admin,
        MEMBER_PROJECT,
        MEMBER_USER,
        MEMBER_PASSWORD,
        "member",
    )?;
    let service = json!({"service": {"type": "network", "name": "neutron"}});
    let service = create(admin, "/v3/services", &service)?;
    for interface in INTERFACES {
        let endpoint = json!({"service_id": service, "interface": interface, "region_id": REGION, "url": NOWHERE});
        create(admin, "/v3/endpoints", &json!({"endpoint": endpoint}))?;
    }
    Ok(())
}

/// A project with one user.
fn add_user(admin: &Session, project: &str, user: &str, password: &str, role: &str) -> Result<()> {
    let project = json!({"project": {"name": project, "domain_id": DOMAIN}});
    let project = create(admin, "/v3/projects", &project)?;
    let user = json!({"user": {"name": user, "domain_id": DOMAIN, "password": password}});
    let user = create(admin, "/v3/users", &user)?;
    let path = format!("/v3/roles?name={role}");
    let roles = admin.get(&path)?;
    let role = roles["roles"][0]["id"]
        .as_str()
        .ok_or_else(|| Error::unreadable(path, "no such role"))?;
    admin
        .put(
            &format!("/v3/projects/{project}/users/{user}/roles/{role}"),
            &Value::Null,
        )
        .map(drop)
}

fn create(admin: &Session, path: &str, object: &Value) -> Result<String> {
    let answer = admin.post(path, object)?;
    let id = answer
        .as_object()
        .and_then(|answer| answer.values().next())
        .and_then(|object| object["id"].as_str());
    id.map(str::to_owned)
        .ok_or_else(|| Error::unreadable(path, "an object without an id"))
}

/// Points a copy of the template: the public interface to the fault proxies, past which the
/// services talk to each other. Before Keystone starts, because its API takes seconds for that.
pub(super) fn point_catalog(
    python: &Python,
    state: &Path,
    internal: Internal,
    [keystone, neutron]: [&Service; 2],
) -> Result<()> {
    let database = state.join(DATABASE).display().to_string();
    let mut arguments = vec!["-c".to_owned(), POINT.to_owned(), database];
    for (kind, service, path) in [("identity", keystone, "/v3"), ("network", neutron, "")] {
        for interface in INTERFACES {
            let base = match (interface, kind, internal) {
                ("public", ..) => service.faults().url(),
                // Keystone's own is what Neutron asks about tokens.
                ("internal", "network", Internal::Guest) => {
                    service.direct_url().replace(HOST, HOST_IN_GUEST)
                }
                _ => service.direct_url(),
            };
            arguments.extend([
                format!("{base}{path}"),
                interface.to_owned(),
                kind.to_owned(),
            ]);
        }
    }
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    python.run("python", &arguments, state)
}
