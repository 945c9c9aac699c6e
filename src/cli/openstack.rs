//! Where OpenStack's credentials are, as its own clients find them.

use std::path::PathBuf;

use super::Common;
use super::failure::Failure;
use ipam_controller::{CloudsLocation, OpenStack, Reach};
use ipam_desired::Desired;

/// The file's names, the likelier first.
const NAMES: [&str; 2] = ["clouds.yaml", "clouds.yml"];

impl Common {
    /// The OpenStack that flags, environment and files name. Nothing is read yet.
    pub(super) fn openstack(&self, reach: Reach) -> OpenStack {
        let named = self
            .clouds_file
            .clone()
            .or_else(|| variable("OS_CLIENT_CONFIG_FILE").map(PathBuf::from));
        let cloud = self.os_cloud.clone().or_else(|| variable("OS_CLOUD"));
        OpenStack::new(
            CloudsLocation {
                named,
                searched: searched(),
                cloud,
            },
            reach,
        )
    }

    /// The same, after a look at the credentials where pools need them.
    pub(super) async fn openstack_for(
        &self,
        desired: &Desired,
        reach: Reach,
    ) -> Result<OpenStack, Failure> {
        let openstack = self.openstack(reach);
        openstack.log_in(desired).await?;
        Ok(openstack)
    }
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// Here, the person's folder, the machine's.
fn searched() -> Vec<PathBuf> {
    let of_person = variable("XDG_CONFIG_HOME").map(PathBuf::from);
    let of_person =
        of_person.or_else(|| variable("HOME").map(|home| PathBuf::from(home).join(".config")));
    let folders = [
        Some(PathBuf::from(".")),
        of_person.map(|folder| folder.join("openstack")),
        Some("/etc/openstack".into()),
    ];
    folders
        .into_iter()
        .flatten()
        .flat_map(|folder| NAMES.map(|name| folder.join(name)))
        .collect()
}
