//! What a test says to Neutron and Keystone: JSON in, JSON out, with a token that is fetched when
//! it is needed.

use std::sync::{Arc, Mutex, PoisonError};

use serde_json::{Value, json};
use ureq::Agent;
use ureq::http::{self, Request};

use super::keystone::{
    ADMIN_PASSWORD, ADMIN_PROJECT, ADMIN_USER, DOMAIN, MEMBER_PASSWORD, MEMBER_PROJECT, MEMBER_USER,
};
use crate::error::{Error, Result};
use crate::wait::PATIENCE;

const UNAUTHORIZED: u16 = 401;

/// Who asks.
#[derive(Debug, Clone)]
pub enum Credentials {
    /// A user of [`DOMAIN`] in a project of it.
    Password {
        /// The user's name.
        user: String,
        /// The user's password.
        password: String,
        /// The project's name.
        project: String,
    },
    /// An application credential, which knows its user and project.
    Application {
        /// Its id.
        id: String,
        /// Its secret.
        secret: String,
    },
}

impl Credentials {
    /// [`MEMBER_USER`].
    #[must_use]
    pub fn member() -> Self {
        Self::password(MEMBER_USER, MEMBER_PASSWORD, MEMBER_PROJECT)
    }

    /// [`ADMIN_USER`].
    #[must_use]
    pub fn admin() -> Self {
        Self::password(ADMIN_USER, ADMIN_PASSWORD, ADMIN_PROJECT)
    }

    /// A user by name.
    #[must_use]
    pub fn password(user: &str, password: &str, project: &str) -> Self {
        Self::Password {
            user: user.to_owned(),
            password: password.to_owned(),
            project: project.to_owned(),
        }
    }

    /// The body of the login.
    fn login(&self) -> Value {
        let domain = json!({"id": DOMAIN});
        match self {
            Self::Password {
                user,
                password,
                project,
            } => json!({"auth": {
                "identity": {
                    "methods": ["password"],
                    "password": {"user": {"name": user, "domain": domain, "password": password}},
                },
                "scope": {"project": {"name": project, "domain": domain}},
            }}),
            Self::Application { id, secret } => json!({"auth": {"identity": {
                "methods": ["application_credential"],
                "application_credential": {"id": id, "secret": secret},
            }}}),
        }
    }
}

/// What came back, whatever the status.
#[derive(Debug, Clone)]
pub struct Answer {
    /// The request's method and path.
    request: (String, String),
    /// The HTTP status.
    pub status: u16,
    /// The body as JSON; `Null` if it is absent or is not JSON.
    pub body: Value,
}

impl Answer {
    /// The `type` of Neutron's error, such as `MacAddressInUse`; empty where it is no error of
    /// Neutron's.
    #[must_use]
    pub fn kind(&self) -> &str {
        self.body["NeutronError"]["type"]
            .as_str()
            .unwrap_or_default()
    }

    /// The body, if the status is one of success.
    ///
    /// # Errors
    /// [`Error::Status`] otherwise.
    pub fn success(self) -> Result<Value> {
        if (200..300).contains(&self.status) {
            return Ok(self.body);
        }
        let (method, path) = self.request.clone();
        Err(Error::Status {
            method,
            path,
            status: self.status,
            message: self.message(),
        })
    }

    fn message(&self) -> String {
        match (
            self.kind(),
            self.body["NeutronError"]["message"].as_str(),
            self.body["error"]["message"].as_str(),
        ) {
            (kind, Some(message), _) => format!("{kind}: {message}"),
            (_, None, Some(message)) => message.to_owned(),
            (_, None, None) => self.body.to_string(),
        }
    }
}

/// Who is logged in.
#[derive(Debug)]
struct Login {
    token: String,
    user: String,
    project: String,
}

/// One user's way to both services, past the fault proxies. A path that starts with `/v3` is
/// Keystone's, any other Neutron's.
#[derive(Debug)]
pub struct Session {
    agent: Agent,
    keystone: String,
    neutron: String,
    credentials: Credentials,
    login: Mutex<Option<Arc<Login>>>,
}

impl Session {
    pub(super) fn new(keystone: &str, neutron: &str, credentials: Credentials) -> Self {
        let agent = Agent::config_builder()
            // A proxy of the environment is for other hosts.
            .proxy(None)
            .http_status_as_error(false)
            .allow_non_standard_methods(true)
            .timeout_global(Some(PATIENCE))
            .build()
            .new_agent();
        let (keystone, neutron) = (keystone.to_owned(), neutron.to_owned());
        Self {
            agent,
            keystone,
            neutron,
            credentials,
            login: Mutex::new(None),
        }
    }

    /// Reads.
    ///
    /// # Errors
    /// Fails if the service says no.
    pub fn get(&self, path: &str) -> Result<Value> {
        self.exchange("GET", path, None)?.success()
    }

    /// Creates.
    ///
    /// # Errors
    /// Fails if the service says no.
    pub fn post(&self, path: &str, body: &Value) -> Result<Value> {
        self.exchange("POST", path, Some(body))?.success()
    }

    /// Changes. A `Null` is no body at all.
    ///
    /// # Errors
    /// Fails if the service says no.
    pub fn put(&self, path: &str, body: &Value) -> Result<Value> {
        self.exchange("PUT", path, Some(body).filter(|body| !body.is_null()))?
            .success()
    }

    /// Deletes.
    ///
    /// # Errors
    /// Fails if the service says no.
    pub fn delete(&self, path: &str) -> Result<Value> {
        self.exchange("DELETE", path, None)?.success()
    }

    /// Any request, for tests that look at the status. Logs in again once when the token is good no
    /// more.
    ///
    /// # Errors
    /// Fails if there is no answer, or the login fails.
    pub fn exchange(&self, method: &str, path: &str, body: Option<&Value>) -> Result<Answer> {
        self.exchange_with(method, path, &[], body)
    }

    /// As [`Session::exchange`], with further headers, such as `If-Match`.
    ///
    /// # Errors
    /// Fails if there is no answer, or the login fails.
    pub fn exchange_with(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: Option<&Value>,
    ) -> Result<Answer> {
        let answer = self.send(method, path, headers, body)?;
        if answer.status != UNAUTHORIZED {
            return Ok(answer);
        }
        self.held().take();
        self.send(method, path, headers, body)
    }

    /// The token as it is sent.
    ///
    /// # Errors
    /// Fails if the login fails.
    pub fn token(&self) -> Result<String> {
        Ok(self.login()?.token.clone())
    }

    /// The user's id.
    ///
    /// # Errors
    /// Fails if the login fails.
    pub fn user_id(&self) -> Result<String> {
        Ok(self.login()?.user.clone())
    }

    /// The project's id.
    ///
    /// # Errors
    /// Fails if the login fails.
    pub fn project_id(&self) -> Result<String> {
        Ok(self.login()?.project.clone())
    }

    fn held(&self) -> std::sync::MutexGuard<'_, Option<Arc<Login>>> {
        self.login.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn login(&self) -> Result<Arc<Login>> {
        let mut held = self.held();
        if let Some(login) = &*held {
            return Ok(login.clone());
        }
        let login = Arc::new(self.log_in()?);
        *held = Some(login.clone());
        Ok(login)
    }

    fn log_in(&self) -> Result<Login> {
        let (method, path) = ("POST", "/v3/auth/tokens");
        let response = self.run(method, path, &[], Some(&self.credentials.login()))?;
        let token = response
            .headers()
            .get("X-Subject-Token")
            .and_then(|token| token.to_str().ok())
            .map(str::to_owned);
        let body = read(method, path, response)?.success()?;
        let text = |pointer| {
            body.pointer(pointer)
                .and_then(Value::as_str)
                .unwrap_or_default()
                .to_owned()
        };
        Ok(Login {
            token: token.ok_or_else(|| Error::unreadable(path, "no X-Subject-Token"))?,
            user: text("/token/user/id"),
            project: text("/token/project/id"),
        })
    }

    fn send(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: Option<&Value>,
    ) -> Result<Answer> {
        let login = self.login()?;
        let headers = [&[("X-Auth-Token", &*login.token)], headers].concat();
        read(method, path, self.run(method, path, &headers, body)?)
    }

    fn run(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: Option<&Value>,
    ) -> Result<http::Response<ureq::Body>> {
        let base = if path.starts_with("/v3") {
            &self.keystone
        } else {
            &self.neutron
        };
        let mut request = Request::builder()
            .method(method)
            .uri(format!("{base}{path}"));
        for &(name, value) in headers {
            request = request.header(name, value);
        }
        let answer = match body {
            // Neutron refuses a DELETE with any body.
            None => request
                .body(())
                .map_err(ureq::Error::from)
                .and_then(|request| self.agent.run(request)),
            Some(value) => {
                let request = request
                    .header("Content-Type", "application/json")
                    .body(value.to_string());
                request
                    .map_err(ureq::Error::from)
                    .and_then(|request| self.agent.run(request))
            }
        };
        answer.map_err(failed(method, path))
    }
}

fn read(method: &str, path: &str, response: http::Response<ureq::Body>) -> Result<Answer> {
    let status = response.status().as_u16();
    let mut body = response.into_body();
    let text = body
        .with_config()
        .limit(u64::MAX)
        .read_to_vec()
        .map_err(failed(method, path))?;
    let body = serde_json::from_slice(&text).unwrap_or_default();
    Ok(Answer {
        request: (method.to_owned(), path.to_owned()),
        status,
        body,
    })
}

fn failed(method: &str, path: &str) -> impl FnOnce(ureq::Error) -> Error {
    let (method, path) = (method.to_owned(), path.to_owned());
    move |source| Error::Request {
        method,
        path,
        source: Box::new(source),
    }
}
