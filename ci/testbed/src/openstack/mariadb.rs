//! A MariaDB of Debian on loopback, unpacked into the cache and never installed.

use std::fs::{self, File};
use std::io::Read;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use super::python::Python;
use super::{neutron, template, write};
use crate::debian::debian_file;
use crate::error::{Error, Result};
use crate::folder::RunFolder;
use crate::process::{Server, free_port, isolated, with_free_ports};
use crate::wait::PATIENCE;

const PROBE_LIMIT: Duration = Duration::from_secs(1);
/// What the server needs that not every system has.
const LIBRARIES: [(&str, &str); 3] = [
    ("libaio1", "libaio.so.1"),
    ("libnuma1", "libnuma.so.1"),
    ("liburing2", "liburing.so.2"),
];
/// What makes a new server's own tables, in this order, as `mariadb-install-db` has it.
const OWN_TABLES: [&str; 3] = [
    "mysql_system_tables.sql",
    "mysql_performance_tables.sql",
    "mysql_system_tables_data.sql",
];
/// One statement in each line, as `--init-file` wants it.
const ACCOUNT: &str = "create database if not exists neutron character set utf8mb4;\n\
                       create user if not exists 'neutron'@'127.0.0.1' identified by 'neutron';\n\
                       grant all on neutron.* to 'neutron'@'127.0.0.1';\n";

/// Where the server lies, and what it needs.
#[derive(Debug)]
pub(super) struct Programs {
    root: PathBuf,
    libraries: String,
}

impl Programs {
    pub(super) fn find() -> Result<Self> {
        let server = debian_file("mariadb-server-core", "usr/sbin/mariadbd")?;
        let root = server.ancestors().nth(2).unwrap_or(&server).to_owned();
        let mut folders = Vec::new();
        for (package, library) in LIBRARIES {
            let file = format!("usr/lib/{}-linux-gnu/{library}", std::env::consts::ARCH);
            let path = debian_file(package, &file)?;
            folders.push(path.parent().unwrap_or(&path).display().to_string());
        }
        Ok(Self {
            root,
            libraries: folders.join(":"),
        })
    }

    fn server(&self) -> PathBuf {
        self.root.join("sbin/mariadbd")
    }

    /// The flags of every run. Nothing here has to survive a power cut.
    fn arguments(&self, data: &Path) -> Vec<String> {
        let root = self.root.display();
        vec![
            "--no-defaults".to_owned(),
            // Ignored unless root runs it, who would be refused otherwise.
            "--user=root".to_owned(),
            format!("--basedir={root}"),
            format!("--lc-messages-dir={root}/share/mysql"),
            format!("--datadir={}", data.display()),
            "--innodb-flush-log-at-trx-commit=0".to_owned(),
            "--innodb-buffer-pool-size=128M".to_owned(),
            "--innodb-log-file-size=16M".to_owned(),
            "--skip-name-resolve".to_owned(),
        ]
    }

    /// The tables that the server itself needs, in a folder that is empty.
    fn install(&self, data: &Path, folder: &Path) -> Result<()> {
        let mut script = "create database mysql;\nuse mysql;\n".to_owned();
        for name in OWN_TABLES {
            let path = self.root.join("share/mysql").join(name);
            script += &fs::read_to_string(&path).map_err(Error::file(&path))?;
        }
        let input = write(folder, "install.sql", &script)?;
        let input = File::open(&input).map_err(Error::file(&input))?;
        let program = self.server();
        let mut command: Command = isolated(&program, folder);
        command
            .env("LD_LIBRARY_PATH", &self.libraries)
            .args(self.arguments(data))
            .arg("--bootstrap");
        let output = command
            .stdin(Stdio::from(input))
            .output()
            .map_err(Error::file(&program))?;
        if output.status.success() {
            return Ok(());
        }
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        Err(Error::Failed {
            program: "mariadbd --bootstrap".to_owned(),
            stderr,
        })
    }
}

/// A running MariaDB. Dropping it stops it.
#[derive(Debug)]
pub(super) struct MariaDb {
    _server: Server,
    port: u16,
}

impl MariaDb {
    /// Starts it on what lies in `state`.
    pub(super) fn start(programs: &Programs, state: &Path, folder: &Path) -> Result<Self> {
        let init = write(folder, "account.sql", ACCOUNT)?;
        let port = free_port()?;
        let mut arguments = vec![
            format!("LD_LIBRARY_PATH={}", programs.libraries),
            programs.server().display().to_string(),
        ];
        arguments.extend(programs.arguments(&data(state)));
        arguments.extend([
            "--bind-address=127.0.0.1".to_owned(),
            format!("--port={port}"),
            // Relative to the data, as a socket's path must be short.
            "--socket=socket".to_owned(),
            format!("--pid-file={}", folder.join("mariadb.pid").display()),
            format!("--init-file={}", init.display()),
        ]);
        let mut server = Server::start("mariadb", Path::new("/usr/bin/env"), &arguments, folder)?;
        server.wait_ready(PATIENCE, || greets(port))?;
        Ok(Self {
            _server: server,
            port,
        })
    }

    /// The database as SQLAlchemy writes it.
    pub(super) fn url(&self) -> String {
        format!(
            "mysql+pymysql://neutron:neutron@127.0.0.1:{}/neutron?charset=utf8mb4",
            self.port
        )
    }
}

/// Data with Neutron's tables, which Neutron's own migrations have made.
pub(super) fn template(python: &Python, programs: &Programs) -> Result<PathBuf> {
    template::find_or_prepare(&python.templates(), "neutron-mariadb", |state| {
        let folder = RunFolder::new()?;
        let data = data(state);
        fs::create_dir_all(&data).map_err(Error::file(&data))?;
        programs.install(&data, folder.path())?;
        let server = with_free_ports(|| MariaDb::start(programs, state, folder.path()))?;
        neutron::migrate(python, folder.path(), &server.url())
    })
}

fn data(state: &Path) -> PathBuf {
    state.join("mariadb")
}

/// A MariaDB speaks first.
fn greets(port: u16) -> bool {
    let Ok(mut connection) = TcpStream::connect(("127.0.0.1", port)) else {
        return false;
    };
    let is_limited = connection.set_read_timeout(Some(PROBE_LIMIT)).is_ok();
    is_limited && connection.read_exact(&mut [0]).is_ok()
}
