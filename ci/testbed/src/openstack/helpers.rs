//! What many tests do first: networks, subnets, ports, quotas and application credentials.

use serde_json::{Value, json};

use super::OpenStack;
use super::session::Credentials;
use crate::error::{Error, Result};

/// A secret that can be taken back, and that may be good for some requests only.
#[derive(Debug, Clone)]
pub struct ApplicationCredential {
    /// Its id.
    pub id: String,
    /// Its secret.
    pub secret: String,
}

impl From<&ApplicationCredential> for Credentials {
    fn from(credential: &ApplicationCredential) -> Self {
        let ApplicationCredential { id, secret } = credential.clone();
        Self::Application { id, secret }
    }
}

impl OpenStack {
    /// A network of the member's project; its id.
    ///
    /// # Errors
    /// Fails if Neutron says no.
    pub fn create_network(&self, name: &str) -> Result<String> {
        self.create("/v2.0/networks", "network", json!({"name": name}))
    }

    /// A subnet without DHCP, and with whatever `more` says (an object); its id.
    ///
    /// # Errors
    /// Fails if Neutron says no.
    pub fn create_subnet(&self, network: &str, cidr: &str, more: &Value) -> Result<String> {
        let version = if cidr.contains(':') { 6 } else { 4 };
        let subnet = json!({"network_id": network, "ip_version": version, "cidr": cidr, "enable_dhcp": false});
        self.create("/v2.0/subnets", "subnet", with(subnet, more))
    }

    /// A port, with whatever `more` says (an object); its id.
    ///
    /// # Errors
    /// Fails if Neutron says no.
    pub fn create_port(&self, network: &str, more: &Value) -> Result<String> {
        self.create(
            "/v2.0/ports",
            "port",
            with(json!({"network_id": network}), more),
        )
    }

    /// The member's ports that fit a query such as `network_id=ID&device_owner=x`.
    ///
    /// # Errors
    /// Fails if Neutron says no.
    pub fn ports(&self, query: &str) -> Result<Vec<Value>> {
        let path = format!("/v2.0/ports?{query}");
        match self.as_member().get(&path)?["ports"].take() {
            Value::Array(ports) => Ok(ports),
            _ => Err(Error::unreadable(path, "not a list of ports")),
        }
    }

    /// How many ports the member's project may have; -1 is any number. Fewer than there are is
    /// possible, too.
    ///
    /// # Errors
    /// Fails if Neutron says no.
    pub fn set_quota(&self, ports: i64) -> Result<()> {
        let path = format!("/v2.0/quotas/{}", self.as_member().project_id()?);
        self.as_admin()
            .put(&path, &json!({"quota": {"port": ports, "force": true}}))
            .map(drop)
    }

    /// A credential of the member. With access rules (a list of `{service, method, path}`) it is
    /// good for these requests only.
    ///
    /// # Errors
    /// Fails if Keystone says no.
    pub fn create_application_credential(
        &self,
        name: &str,
        access_rules: Option<&Value>,
    ) -> Result<ApplicationCredential> {
        let path = format!(
            "/v3/users/{}/application_credentials",
            self.as_member().user_id()?
        );
        let mut credential = json!({"name": name});
        if let Some(rules) = access_rules {
            credential["access_rules"] = rules.clone();
        }
        let answer = self
            .as_member()
            .post(&path, &json!({"application_credential": credential}))?;
        let text = |name: &str| {
            answer["application_credential"][name]
                .as_str()
                .unwrap_or_default()
                .to_owned()
        };
        Ok(ApplicationCredential {
            id: text("id"),
            secret: text("secret"),
        })
    }

    /// Takes a credential of the member back.
    ///
    /// # Errors
    /// Fails if Keystone says no.
    pub fn delete_application_credential(&self, credential: &ApplicationCredential) -> Result<()> {
        let user = self.as_member().user_id()?;
        self.as_member()
            .delete(&format!(
                "/v3/users/{user}/application_credentials/{}",
                credential.id
            ))
            .map(drop)
    }

    fn create(&self, path: &str, kind: &str, object: Value) -> Result<String> {
        let answer = self.as_member().post(path, &json!({ kind: object }))?;
        let id = answer[kind]["id"]
            .as_str()
            .ok_or_else(|| Error::unreadable(path, "an object without an id"))?;
        Ok(id.to_owned())
    }
}

/// The fields of `more` win.
fn with(mut object: Value, more: &Value) -> Value {
    if let (Some(fields), Some(more)) = (object.as_object_mut(), more.as_object()) {
        fields.extend(more.clone());
    }
    object
}
