//! Neutron: ML2 without agents, so ports are kept and never bound.

use std::path::{Path, PathBuf};

use super::keystone::{NEUTRON_PASSWORD, NEUTRON_USER, SERVICE_PROJECT};
use super::python::Python;
use super::service::{Recipe, Service};
use super::{template, write};
use crate::error::Result;
use crate::folder::RunFolder;
use crate::process::free_port;

const NAME: &str = "neutron";
const FILE: &str = "neutron.conf";
/// Where SQLite keeps the tables.
pub(super) const DATABASE: &str = "neutron.sqlite";

/// Makes the tables from the models. Neutron's migrations are for MySQL only: of 29.0.0,
/// 1df244e556f5 alters constraints, which SQLite cannot.
const TABLES: &str = r#"import sys
from oslo_config import cfg
from neutron.common import config
config.register_common_config_options()
from neutron.db.migration.models import head
from oslo_db import options
from sqlalchemy import create_engine
options.set_defaults(cfg.CONF)
cfg.CONF(["--config-file", sys.argv[1]], project="neutron")
head.get_metadata().create_all(create_engine(cfg.CONF.database.connection))
"#;

/// What Neutron is set to.
pub(super) struct Config<'a> {
    pub(super) python: &'a Python,
    pub(super) state: &'a Path,
    /// As SQLAlchemy writes it.
    pub(super) database: &'a str,
    pub(super) keystone: &'a str,
    /// What it tells clients without a token.
    pub(super) public_keystone: &'a str,
    pub(super) max_allowed_address_pair: u32,
    pub(super) largest_page: Option<u32>,
}

impl Config<'_> {
    /// `router` is needed by two extensions that ML2 loads, and `openvswitch` by `trunk`. Without
    /// `service_type`, application credentials with access rules are refused whatever the rules
    /// say.
    fn text(&self) -> String {
        let Self {
            python,
            state,
            database,
            keystone,
            public_keystone,
            max_allowed_address_pair,
            largest_page,
        } = self;
        let largest_page = largest_page.map_or_else(|| "-1".to_owned(), |count| count.to_string());
        let (paste, state) = (python.file("etc/neutron/api-paste.ini"), state.display());
        format!(
            "[DEFAULT]\ncore_plugin = ml2\nservice_plugins = router,segments,trunk,qos\nauth_strategy = keystone\n\
             api_paste_config = {paste}\ntransport_url = fake://\nstate_path = {state}\n\
             notify_nova_on_port_status_changes = false\nnotify_nova_on_port_data_changes = false\n\
             dhcp_agent_notification = false\nmax_allowed_address_pair = {max_allowed_address_pair}\n\
             pagination_max_limit = {largest_page}\n\
             [oslo_messaging_notifications]\ndriver = noop\n\
             [oslo_concurrency]\nlock_path = {state}/lock\n\
             [database]\nconnection = {database}\n\
             [ml2]\ntype_drivers = local,flat,vlan,vxlan\ntenant_network_types = local\n\
             mechanism_drivers = openvswitch,logger\nextension_drivers = port_security,qos,dns\n\
             [ml2_type_flat]\nflat_networks = *\n\
             [keystone_authtoken]\nwww_authenticate_uri = {public_keystone}\nauth_url = {keystone}\n\
             auth_type = password\nusername = {NEUTRON_USER}\npassword = {NEUTRON_PASSWORD}\n\
             project_name = {SERVICE_PROJECT}\nuser_domain_id = default\nproject_domain_id = default\n\
             service_token_roles_required = true\nservice_type = network\n",
            paste = paste.display(),
        )
    }

    fn write(&self, folder: &Path) -> Result<PathBuf> {
        write(&folder.join(NAME), FILE, &self.text())
    }
}

/// Neutron with these settings, not running yet.
pub(super) fn service(
    python: &Python,
    folder: &Path,
    workers: u32,
    config: &Config<'_>,
) -> Result<Service> {
    config.write(folder)?;
    let recipe = Recipe {
        name: NAME,
        module: "neutron.wsgi.api:application",
        health: "/",
        environment: &[
            (
                "OS_NEUTRON_CONFIG_DIR",
                folder.join(NAME).display().to_string(),
            ),
            ("OS_NEUTRON_CONFIG_FILES", FILE.to_owned()),
        ],
        workers,
        port: free_port()?,
    };
    Service::new(&python.file("bin/uwsgi"), folder, &recipe)
}

pub(super) fn sqlite_url(state: &Path) -> String {
    format!("sqlite:///{}", state.join(DATABASE).display())
}

/// A file with all tables.
pub(super) fn sqlite_template(python: &Python) -> Result<PathBuf> {
    template::find_or_prepare(&python.templates(), "neutron-sqlite", |state| {
        let folder = RunFolder::new()?;
        let file = write_for_tables(python, folder.path(), &sqlite_url(state))?;
        let script = write(folder.path(), "tables.py", TABLES)?;
        python.run(
            "python",
            &[&script.display().to_string(), &file],
            folder.path(),
        )?;
        python.run(
            "neutron-db-manage",
            &["--config-file", &file, "stamp", "heads"],
            folder.path(),
        )
    })
}

/// Neutron's own migrations.
pub(super) fn migrate(python: &Python, folder: &Path, database: &str) -> Result<()> {
    let file = write_for_tables(python, folder, database)?;
    python.run(
        "neutron-db-manage",
        &["--config-file", &file, "upgrade", "heads"],
        folder,
    )
}

fn write_for_tables(python: &Python, folder: &Path, database: &str) -> Result<String> {
    let nowhere = "http://127.0.0.1:1/v3";
    let config = Config {
        python,
        state: folder,
        database,
        keystone: nowhere,
        public_keystone: nowhere,
        max_allowed_address_pair: 10,
        largest_page: None,
    };
    Ok(config.write(folder)?.display().to_string())
}
