//! A headless Chromium, driven by chromedriver as a person would: pages are opened, keys are pressed,
//! and scripts read what is shown. It knows nothing about the pages.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};
use ureq::Agent;

use crate::error::{Error, Result};
use crate::folder::RunFolder;
use crate::process::{Server, free_port, with_free_ports};
use crate::wait::PATIENCE;

/// A browser with one window. Dropping it ends the browser.
pub struct Browser {
    agent: Agent,
    session: String,
    _server: Server,
    folder: RunFolder,
}

/// The colour scheme that the browser requests from a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColourScheme {
    Light,
    Dark,
}

/// A program of the machine. Debian's chromium needs a hundred libraries, so it is not unpacked
/// into the cache, but installed by `.ci/chromium.sh`.
fn installed(program: &str) -> Result<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .map(|folder| folder.join(program))
        .find(|file| file.is_file())
        .ok_or_else(|| {
            Error::missing(
                "chromium",
                format!("{program} is not in PATH; .ci/chromium.sh installs it"),
            )
        })
}

impl Browser {
    /// Starts it with a window of 1300 by 800 points.
    ///
    /// # Errors
    /// [`Error::Missing`] where chromium or chromedriver is not installed; otherwise when it does
    /// not start.
    pub fn start(scheme: ColourScheme) -> Result<Self> {
        let (driver, chromium) = (installed("chromedriver")?, installed("chromium")?);
        let folder = RunFolder::new()?;
        let agent = Agent::config_builder()
            .proxy(None)
            .http_status_as_error(false)
            .timeout_global(Some(PATIENCE))
            .build()
            .new_agent();
        let (server, base) = with_free_ports(|| {
            let port = free_port()?;
            let arguments = [format!("--port={port}")];
            let mut server = Server::start("chromedriver", &driver, &arguments, folder.path())?;
            let base = format!("http://127.0.0.1:{port}");
            server.wait_ready(PATIENCE, || {
                agent.get(format!("{base}/status")).call().is_ok()
            })?;
            Ok((server, base))
        })?;
        let mut browser = Self {
            agent,
            session: format!("{base}/session"),
            _server: server,
            folder,
        };
        let session = browser.post("", &capabilities(&chromium, scheme, browser.folder.path()))?;
        let id = session["sessionId"].as_str().unwrap_or_default();
        browser.session = format!("{base}/session/{id}");
        Ok(browser)
    }

    fn post(&self, path: &str, body: &Value) -> Result<Value> {
        let url = format!("{}{path}", self.session);
        let failed = |why: &dyn ToString| Error::unreadable(&url, why.to_string());
        let mut answer = self
            .agent
            .post(&url)
            .content_type("application/json")
            .send(body.to_string())
            .map_err(|why| failed(&why))?;
        let text = answer
            .body_mut()
            .with_config()
            .limit(64 << 20)
            .read_to_string()
            .map_err(|why| failed(&why))?;
        let mut answered: Value = serde_json::from_str(&text).map_err(|why| failed(&why))?;
        match answer.status().is_success() {
            true => Ok(answered["value"].take()),
            false => Err(failed(&text)),
        }
    }

    /// Opens a file, with what stands after its name in the address, such as `#part`.
    ///
    /// # Errors
    /// Fails if it is not loaded.
    pub fn open(&self, file: &Path, after: &str) -> Result<()> {
        // Another page first: a new fragment alone loads nothing.
        self.post("/url", &json!({"url": "about:blank"}))?;
        let url = format!("file://{}{after}", file.display());
        self.post("/url", &json!({"url": url})).map(drop)
    }

    /// Shows pages as in a window of this size, in points. A real window has a least width.
    ///
    /// # Errors
    /// Fails if the browser does not take the size.
    pub fn resize(&self, width: u32, height: u32) -> Result<()> {
        let size =
            json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false});
        let command = json!({"cmd": "Emulation.setDeviceMetricsOverride", "params": size});
        self.post("/goog/cdp/execute", &command).map(drop)
    }

    /// Runs a script of the test on the page and returns its result. Waits for a promise.
    ///
    /// # Errors
    /// Fails if the script does.
    pub fn evaluate(&self, script: &str) -> Result<Value> {
        let body = json!({"script": script, "args": []});
        self.post("/execute/sync", &body)
    }

    /// Presses keys, one after the other, in what has the focus.
    ///
    /// # Errors
    /// Fails if the browser does not take them.
    pub fn press(&self, keys: &str) -> Result<()> {
        let actions: Vec<Value> = keys
            .chars()
            .flat_map(|key| ["keyDown", "keyUp"].map(|kind| json!({"type": kind, "value": key})))
            .collect();
        let body = json!({"actions": [{"type": "key", "id": "keyboard", "actions": actions}]});
        self.post("/actions", &body).map(drop)
    }

    /// Errors and warnings of the console since the last call, refused requests included.
    ///
    /// # Errors
    /// Fails if the browser does not tell them.
    pub fn complaints(&self) -> Result<Vec<String>> {
        let entries = self.post("/se/log", &json!({"type": "browser"}))?;
        let entries = entries.as_array().cloned().unwrap_or_default();
        Ok(entries
            .iter()
            .map(|entry| entry["message"].as_str().unwrap_or_default().to_owned())
            .collect())
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // chromedriver ends the browser with the session; after SIGTERM alone it may not.
        let _ = self
            .agent
            .delete(&self.session)
            .config()
            .timeout_global(Some(Duration::from_secs(10)))
            .build()
            .call();
    }
}

fn capabilities(chromium: &Path, scheme: ColourScheme, folder: &Path) -> Value {
    let mut arguments = vec![
        "--headless=new".to_owned(),
        "--disable-gpu".to_owned(),
        "--disable-dev-shm-usage".to_owned(),
        // Its sandbox needs rights that root in a container lacks; the pages are our own.
        "--no-sandbox".to_owned(),
        "--no-proxy-server".to_owned(),
        "--disable-background-networking".to_owned(),
        "--force-device-scale-factor=1".to_owned(),
        "--window-size=1300,800".to_owned(),
        format!("--user-data-dir={}", folder.join("profile").display()),
    ];
    if scheme == ColourScheme::Dark {
        arguments.push("--blink-settings=preferredColorScheme=0".to_owned());
    }
    json!({"capabilities": {"alwaysMatch": {
        "goog:loggingPrefs": {"browser": "ALL"},
        "goog:chromeOptions": {"binary": chromium, "args": arguments},
    }}})
}
