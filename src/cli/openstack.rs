//! Selects the OpenStack cloud by flags and environment variables, like OpenStack's own clients.

use std::path::PathBuf;
use std::sync::Arc;

use super::failure::Failure;
use super::{Common, output};
use ipam_controller::{CloudsLocation, OpenStack, Scope};
use ipam_desired::Desired;
use openstack::{SentRequest, clouds_files};

impl Common {
    /// The selected OpenStack cloud, or the recorded Neutron. Reads no files yet.
    pub(super) fn openstack(&self, scope: Scope) -> OpenStack {
        if let Some(path) = &self.neutron_file {
            return OpenStack::recorded(path.clone(), scope);
        }
        let named = self
            .clouds_file
            .clone()
            .or_else(|| variable("OS_CLIENT_CONFIG_FILE").map(PathBuf::from));
        let cloud = self.os_cloud.clone().or_else(|| variable("OS_CLOUD"));
        let openstack = OpenStack::new(
            CloudsLocation {
                named,
                searched: clouds_files(user_configuration().as_deref()),
                cloud,
            },
            scope,
        );
        match self.verbose {
            true => openstack.reporting(Arc::new(print_request)),
            false => openstack,
        }
    }

    /// Like [`Common::openstack`], but logs in if the files need OpenStack.
    pub(super) async fn openstack_for(
        &self,
        desired: &Desired,
        scope: Scope,
    ) -> Result<OpenStack, Failure> {
        let openstack = self.openstack(scope);
        openstack.log_in(desired).await?;
        Ok(openstack)
    }
}

fn print_request(request: &SentRequest<'_>) {
    let SentRequest {
        method,
        url,
        outcome,
        took,
    } = request;
    output::request(method, url, outcome, *took);
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

fn user_configuration() -> Option<PathBuf> {
    let named = variable("XDG_CONFIG_HOME").map(PathBuf::from);
    named.or_else(|| variable("HOME").map(|home| PathBuf::from(home).join(".config")))
}
