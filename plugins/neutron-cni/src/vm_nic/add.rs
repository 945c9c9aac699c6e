//! ADD: moves a NIC to a Pod, with the addresses of its port. Nothing is done to the NIC before its
//! record is on the disk and Neutron has answered everything.

use std::collections::BTreeSet;
use std::time::Instant;

use crate::cni::{Attachment, CniError, ErrorCode, Interface};
use crate::kernel::namespace::Namespace;
use crate::kernel::{dump, kernel_error};
use crate::nic::{
    AttachmentKey, Kind, Link, NicSettings, NodeRoute, PortConfig, Record, Refusal, Step, TakenNic,
    Which, candidates, configure, find, find_moved, is_available, move_to_pod, port_config,
    port_of,
};
use crate::vm_nic::change::Namespaces;
use crate::vm_nic::records::{Held, Records, StoredRecords};
use crate::vm_nic::restore::Node;
use ipam_core::model::first_of;
use ipam_core::text::joined;
use openstack::HttpNeutron;

/// Limit of the NICs that an error names.
const MOST_TOLD: usize = 8;

/// An ADD of the plugin: moves a NIC of the VM into a Pod.
pub(super) struct AddOperation<'a> {
    pub(super) network: &'a str,
    pub(super) attachment: &'a Attachment,
    pub(super) wanted: &'a NicSettings,
    pub(super) neutron: &'a HttpNeutron,
    pub(super) node: &'a Node,
    pub(super) pod: &'a Namespace,
    pub(super) records: &'a Records,
    /// When requests and locks end.
    pub(super) until: Instant,
    /// When undoing a failed ADD ends.
    pub(super) deadline: Instant,
}

impl AddOperation<'_> {
    /// Moves a NIC, or completes an earlier ADD.
    pub(super) fn run(&self) -> Result<(PortConfig, Interface), CniError> {
        let key = AttachmentKey::new(self.network, self.attachment);
        let _lock = self.records.lock_attachment(&key, self.until)?;
        if let Some(held) = self.records.hold(&key, self.until)? {
            if self.is_in_pod(&held.record)? {
                // The NIC of an earlier run stays.
                let config = self.port_config(&held.record)?;
                self.configure(&held.record, &config)?;
                return self.result(&held.record, config);
            }
            self.node
                .give_back(held, Some(&self.pod.netns.path), self.deadline)?;
        }
        let (held, config) = self.reserve()?;
        if !self.is_as_recorded(&held.record)? {
            // The NIC is still unchanged, so only its record is removed.
            let message = format!(
                "{} was changed during the requests to Neutron",
                held.record.nic.name
            );
            held.forget()?;
            return Err(CniError::new(
                ErrorCode::TryAgainLater,
                message,
                "the runtime will retry",
            ));
        }
        let done = self
            .move_to_pod(&held.record)
            .and_then(|()| self.configure(&held.record, &config));
        let result = done.and_then(|()| self.result(&held.record, config));
        result.map_err(|error| {
            match self
                .node
                .give_back(held, Some(&self.pod.netns.path), self.deadline)
            {
                Ok(()) => error,
                Err(why) => error.and_also(&format!("the NIC was not returned: {why}")),
            }
        })
    }

    /// Whether the NIC is in the Pod, under the name of the record.
    fn is_in_pod(&self, record: &Record) -> Result<bool, CniError> {
        if !record.netns.is(&self.pod.netns) || record.boot != self.node.boot {
            return Ok(false);
        }
        let (node, pod) = (self.links_of_node()?, self.links_of_pod()?);
        Ok(find_moved(record, &node, &pod).is_some_and(|link| link.name == record.interface))
    }

    fn port_config(&self, record: &Record) -> Result<PortConfig, CniError> {
        let port = port_of(self.neutron, record.nic.mac, &self.wanted.networks)?;
        port_config(self.neutron, &port, self.wanted)
    }

    /// Reserves a free NIC, and reads the NIC's port.
    fn reserve(&self) -> Result<(Held, PortConfig), CniError> {
        let mut passed_over = BTreeSet::new();
        let mut faults = Vec::new();
        loop {
            let held = self.choose(&passed_over).map_err(|none| {
                faults
                    .iter()
                    .fold(none, |none, also: &String| none.and_also(also))
            })?;
            match self.port_config(&held.record) {
                Ok(config) => return Ok((held, config)),
                Err(error) => {
                    passed_over.insert(held.record.nic.index);
                    held.forget()?;
                    let is_of_this_one = error.code == ErrorCode::InvalidConfiguration;
                    if !is_of_this_one || !matches!(self.wanted.selection.which, Which::Any { .. })
                    {
                        return Err(error);
                    }
                    faults.push(error.message);
                }
            }
        }
    }

    /// Writes the record of the next free NIC.
    fn choose(&self, passed_over: &BTreeSet<u32>) -> Result<Held, CniError> {
        let _lock = self.records.lock_choice(self.until)?;
        self.node.restore_all(self.records, self.deadline)?;
        let links = self.links_of_node()?;
        let StoredRecords {
            records,
            unreadable,
        } = self.records.all()?;
        let records: Vec<Record> = records.into_values().collect();
        let (free, mut refusals) = candidates(&links, &self.wanted.selection, &records);
        for link in free
            .into_iter()
            .filter(|link| !passed_over.contains(&link.index))
        {
            let is_its = |key: &&AttachmentKey| link.alias.as_deref() == Some(key.as_str());
            if let Some(key) = unreadable.keys().find(is_its) {
                refusals.push(Refusal::Taken(
                    link.name.clone(),
                    format!(
                        "an attachment with an unreadable record: {}",
                        unreadable[key].message
                    ),
                ));
                continue;
            }
            let routes = self.routes(link)?;
            match (
                is_available(link, &routes, &self.wanted.selection),
                TakenNic::new(link, &routes),
            ) {
                (Ok(()), Some(nic)) => {
                    let record = Record::new(
                        self.network,
                        self.attachment,
                        &self.node.boot,
                        &self.pod.netns,
                        nic,
                    );
                    return self.records.write(record);
                }
                (Err(refusal), _) => refusals.push(refusal),
                (Ok(()), None) => {}
            }
        }
        Err(self.none(&refusals, &records, &links))
    }

    /// Whether the NIC is still available and unchanged since its record: Neutron may have been slow.
    fn is_as_recorded(&self, record: &Record) -> Result<bool, CniError> {
        let links = self.links_of_node()?;
        let mut others: Vec<Record> = self.records.all()?.records.into_values().collect();
        others.retain(|other| other.mark != record.mark);
        let (free, _) = candidates(&links, &self.wanted.selection, &others);
        let Some(link) = find(record, &links).filter(|link| free.contains(link)) else {
            return Ok(false);
        };
        let routes = self.routes(link)?;
        let is_free = is_available(link, &routes, &self.wanted.selection).is_ok();
        Ok(is_free && TakenNic::new(link, &routes).as_ref() == Some(&record.nic))
    }

    /// The error if no NIC is available: the reasons, and the owners of NICs.
    fn none(&self, refusals: &[Refusal], records: &[Record], links: &[Link]) -> CniError {
        let is_any = matches!(self.wanted.selection.which, Which::Any { .. });
        let may_pass = is_any
            || refusals
                .iter()
                .all(|refusal| matches!(refusal, Refusal::Taken(..)));
        let code = if may_pass {
            ErrorCode::TryAgainLater
        } else {
            ErrorCode::InvalidConfiguration
        };
        let message = match refusals.is_empty() {
            true => format!(
                "this node has no {} NIC {}; it has {}",
                if is_any { "free" } else { "such" },
                self.wanted.selection.which,
                these(links)
            ),
            false => format!("no such NIC is free: {}", joined(refusals, ", ")),
        };
        let details = match refusals.first() {
            Some(Refusal::Configured(..)) if !is_any => {
                "set `\"takeConfigured\": \"restore\"` in `nic`, if the node does not need it"
            }
            _ => "see `nic` in the network's configuration, and `ip link` on the node",
        };
        let handed = records
            .iter()
            .map(|one| format!("{} to {}/{}", one.nic.name, one.container, one.interface));
        let handed: Vec<String> = handed.collect();
        let error = CniError::new(code, message, details);
        if handed.is_empty() {
            error
        } else {
            error.and_also(&format!("in Pods now: {}", handed.join(", ")))
        }
    }

    fn move_to_pod(&self, record: &Record) -> Result<(), CniError> {
        match move_to_pod(record, &self.links_of_node()?) {
            Some(steps) => steps.iter().try_for_each(|step| self.execute(record, step)),
            None => {
                let message = format!("{} disappeared", record.nic.name);
                Err(CniError::new(
                    ErrorCode::TryAgainLater,
                    message,
                    "the runtime will retry",
                ))
            }
        }
    }

    fn configure(&self, record: &Record, config: &PortConfig) -> Result<(), CniError> {
        let (node, pod) = (self.links_of_node()?, self.links_of_pod()?);
        let Some(link) = find_moved(record, &node, &pod) else {
            let message = format!("{} is not in the Pod any more", record.interface);
            return Err(CniError::new(
                ErrorCode::TryAgainLater,
                message,
                "the runtime will retry",
            ));
        };
        configure(link, config)
            .iter()
            .try_for_each(|step| self.execute(record, step))
    }

    fn execute(&self, record: &Record, step: &Step) -> Result<(), CniError> {
        let namespaces = Namespaces {
            node: &self.node.namespace,
            pod: Some(self.pod),
        };
        let what = match step {
            Step::Change(_, _, change) if change.to.is_some() => {
                format!("{} as {} of the Pod", record.nic.name, record.interface)
            }
            Step::Change(..) => format!("{} in the Pod", record.interface),
            Step::Name(_, _, name) | Step::Unname(_, _, name) => format!("the other name {name}"),
            Step::Address(_, _, address) => format!("the address {} of the Pod", address.address),
            Step::Route(_, _, route) => format!("the route of the Pod to {}", route.destination),
        };
        namespaces
            .execute(step)
            .map_err(|why| kernel_error(&what, &why))
    }

    fn result(
        &self,
        record: &Record,
        config: PortConfig,
    ) -> Result<(PortConfig, Interface), CniError> {
        let (node, pod) = (self.links_of_node()?, self.links_of_pod()?);
        let Some(link) =
            find_moved(record, &node, &pod).filter(|link| link.name == record.interface)
        else {
            let message = format!("{} is not in the Pod any more", record.interface);
            return Err(CniError::new(
                ErrorCode::TryAgainLater,
                message,
                "the runtime will retry",
            ));
        };
        let interface = Interface {
            name: link.name.clone(),
            mac: record.nic.mac.to_string(),
            sandbox: self.pod.netns.path.display().to_string(),
            mtu: Some(link.mtu),
            pci: record.nic.pci.as_ref().map(ToString::to_string),
        };
        Ok((config, interface))
    }

    fn links_of_node(&self) -> Result<Vec<Link>, CniError> {
        dump::links(&self.node.namespace.netlink)
            .map_err(|why| kernel_error("the links of the node", &why))
    }

    fn routes(&self, link: &Link) -> Result<Vec<NodeRoute>, CniError> {
        let routes = dump::routes(&self.node.namespace.netlink, link.index);
        routes.map_err(|why| kernel_error("the routes of the node", &why))
    }

    fn links_of_pod(&self) -> Result<Vec<Link>, CniError> {
        dump::links(&self.pod.netlink).map_err(|why| kernel_error("the links of the Pod", &why))
    }
}

/// The NICs of the node, with the drivers that `drivers` would match.
fn these(links: &[Link]) -> String {
    let of = |link: &Link| {
        format!(
            "{} ({})",
            link.name,
            link.driver.as_deref().unwrap_or("no driver")
        )
    };
    let are = links
        .iter()
        .filter(|link| !matches!(link.kind, Kind::Other(_)));
    match first_of(MOST_TOLD, are.map(of)) {
        none if none.is_empty() => "none".to_owned(),
        are => are,
    }
}
