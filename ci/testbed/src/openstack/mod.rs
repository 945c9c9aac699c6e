//! A real OpenStack on loopback: Keystone and Neutron under uWSGI, as deployments run them, with a
//! small catalog and three users.
//!
//! Packages come from the Python package index and, for MariaDB, from Debian; nothing is installed
//! outside the cache. A [`Faults`] stands in front of each of the two services, and the catalog
//! names those for everybody who asks for the public interface. It knows nothing of CNI.

mod helpers;
mod keystone;
mod mariadb;
mod neutron;
mod python;
mod reuse;
mod service;
mod session;
mod template;
#[cfg(test)]
mod tests;

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use crate::error::{Error, Result};
use crate::faults::Faults;
use crate::folder::RunFolder;
use crate::process::{free_port, with_free_ports};
use crate::vm::{HOST, HOST_IN_GUEST};

pub use helpers::ApplicationCredential;
pub use keystone::{
    ADMIN_PASSWORD, ADMIN_PROJECT, ADMIN_USER, DOMAIN, MEMBER_PASSWORD, MEMBER_PROJECT,
    MEMBER_USER, NEUTRON_PASSWORD, NEUTRON_USER, REGION, SERVICE_PROJECT,
};
pub use reuse::Borrowed;
pub use service::Service;
pub use session::{Answer, Credentials, Session};

use mariadb::{MariaDb, Programs};
use python::Python;
use reuse::Saved;

/// Where Neutron keeps its ports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Database {
    /// A file, with one worker, because several lock each other out: quick to start.
    Sqlite,
    /// As deployments have it, with two workers and the tables that Neutron's own migrations make:
    /// for races.
    MariaDb,
}

/// Whom the catalog's internal interface of Neutron is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Internal {
    /// This machine.
    Machine,
    /// A [`Guest`](crate::Guest), which has another name for this machine's loopback.
    Guest,
}

/// What an OpenStack is started with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Neutron's database. Keystone's is always a file.
    pub database: Database,
    /// How many `allowed_address_pairs` a port may have.
    pub max_allowed_address_pair: u32,
    /// The most objects in a page of a list; without it, as many as the client requests.
    pub largest_page: Option<u32>,
    /// Lifetime of a token in seconds. 2 is too short: Neutron itself uses such a token.
    pub token_lifetime: Duration,
    /// Whom the catalog's internal interface of Neutron is for.
    pub internal: Internal,
}

impl Default for Options {
    /// SQLite, and the defaults of Neutron and Keystone.
    fn default() -> Self {
        let (database, internal) = (Database::Sqlite, Internal::Machine);
        let token_lifetime = Duration::from_secs(3600);
        Self {
            database,
            max_allowed_address_pair: 10,
            largest_page: None,
            token_lifetime,
            internal,
        }
    }
}

/// A running OpenStack. Dropping it stops everything.
#[derive(Debug)]
pub struct OpenStack {
    neutron: Service,
    keystone: Service,
    member: Session,
    admin: Session,
    saved: Option<Saved>,
    // After what uses it: fields are dropped in this order.
    _database: Option<MariaDb>,
    _folder: RunFolder,
}

impl OpenStack {
    /// Starts it and waits until both services answer.
    ///
    /// The first start on a machine fetches packages and compiles one of them; that takes a minute
    /// or two.
    ///
    /// # Errors
    /// [`Error::Missing`] where Python or the packages cannot be had; otherwise when something
    /// cannot be built, or does not get ready.
    pub fn start(options: &Options) -> Result<Self> {
        let sources = Sources::prepare(options.database)?;
        with_free_ports(|| sources.start(options))
    }

    /// Neutron: its fault proxy, and its life.
    #[must_use]
    pub fn neutron(&self) -> &Service {
        &self.neutron
    }

    /// Keystone: its fault proxy, and its life.
    #[must_use]
    pub fn keystone(&self) -> &Service {
        &self.keystone
    }

    /// What a client calls `auth_url`; through the fault proxy.
    #[must_use]
    pub fn keystone_url(&self) -> String {
        format!("{}/v3", self.keystone.faults().url())
    }

    /// The same for a [`Guest`](crate::Guest).
    #[must_use]
    pub fn keystone_url_in_guest(&self) -> String {
        self.keystone_url().replace(HOST, HOST_IN_GUEST)
    }

    /// What the catalog names as the public interface of Neutron; through the fault proxy.
    #[must_use]
    pub fn neutron_url(&self) -> String {
        self.neutron.faults().url()
    }

    /// The user [`MEMBER_USER`] of [`MEMBER_PROJECT`]; past the fault proxies.
    #[must_use]
    pub fn as_member(&self) -> &Session {
        &self.member
    }

    /// The user [`ADMIN_USER`] of [`ADMIN_PROJECT`]; past the fault proxies.
    #[must_use]
    pub fn as_admin(&self) -> &Session {
        &self.admin
    }

    /// A session of this user that bypasses the fault proxies.
    #[must_use]
    pub fn session(&self, credentials: Credentials) -> Session {
        Session::new(
            &self.keystone.direct_url(),
            &self.neutron.direct_url(),
            credentials,
        )
    }
}

/// Fetches, builds and fills everything that a start needs, as the first start would. Call it
/// outside a test to make its progress visible.
///
/// # Errors
/// [`Error::Missing`] where Python or the packages cannot be had; otherwise when something cannot
/// be built.
pub fn prepare(database: Database) -> Result<()> {
    Sources::prepare(database).map(drop)
}

/// What a start needs, all of it found or prepared.
struct Sources {
    python: Python,
    programs: Option<Programs>,
    accounts: PathBuf,
    tables: PathBuf,
}

impl Sources {
    fn prepare(database: Database) -> Result<Self> {
        let python = Python::find_or_install()?;
        let programs = match database {
            Database::Sqlite => None,
            Database::MariaDb => Some(Programs::find()?),
        };
        let accounts = keystone::template(&python)?;
        let tables = match &programs {
            None => neutron::sqlite_template(&python)?,
            Some(programs) => mariadb::template(&python, programs)?,
        };
        Ok(Self {
            python,
            programs,
            accounts,
            tables,
        })
    }

    /// One attempt, in a folder of its own.
    fn start(&self, options: &Options) -> Result<OpenStack> {
        let folder = RunFolder::new()?;
        let state = folder.path().join("state");
        template::copy(&self.accounts, &state)?;
        template::copy(&self.tables, &state)?;
        let database = match &self.programs {
            None => None,
            Some(programs) => Some(MariaDb::start(programs, &state, folder.path())?),
        };
        let tables = database
            .as_ref()
            .map_or_else(|| neutron::sqlite_url(&state), MariaDb::url);
        let keystone_port = free_port()?;
        let keystone_config = keystone::Config {
            state: &state,
            token_lifetime: options.token_lifetime,
        };
        let keystone =
            keystone::service(&self.python, folder.path(), keystone_port, &keystone_config)?;
        let neutron_config = neutron::Config {
            python: &self.python,
            state: &state,
            database: &tables,
            keystone: &format!("{}/v3", keystone.direct_url()),
            public_keystone: &format!("{}/v3", keystone.faults().url()),
            max_allowed_address_pair: options.max_allowed_address_pair,
            largest_page: options.largest_page,
        };
        let neutron = neutron::service(
            &self.python,
            folder.path(),
            workers(options.database),
            &neutron_config,
        )?;
        keystone::point_catalog(
            &self.python,
            &state,
            options.internal,
            [&keystone, &neutron],
        )?;
        // Both load for a second or two, so they do it at the same time.
        keystone.launch()?;
        neutron.launch()?;
        keystone.wait_ready()?;
        let session =
            |credentials| Session::new(&keystone.direct_url(), &neutron.direct_url(), credentials);
        let (member, admin) = (
            session(Credentials::member()),
            session(Credentials::admin()),
        );
        neutron.wait_ready()?;
        let saved = match options.database {
            Database::Sqlite => Some(Saved::new(&self.python, &state)?),
            Database::MariaDb => None,
        };
        Ok(OpenStack {
            neutron,
            keystone,
            member,
            admin,
            saved,
            _database: database,
            _folder: folder,
        })
    }
}

/// SQLite answers 500 to most of what two workers write at the same time.
fn workers(database: Database) -> u32 {
    match database {
        Database::Sqlite => 1,
        Database::MariaDb => 2,
    }
}

/// Writes a file into a folder that may not be there yet.
fn write(folder: &std::path::Path, name: &str, text: &str) -> Result<PathBuf> {
    fs::create_dir_all(folder).map_err(Error::file(folder))?;
    let path = folder.join(name);
    fs::write(&path, text).map_err(Error::file(&path))?;
    Ok(path)
}

/// The fault proxy of a service that has not been started yet.
fn faults_before(port: u16) -> Result<Faults> {
    Faults::start(&format!("127.0.0.1:{port}"))
}
