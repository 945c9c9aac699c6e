//! ADD: a NIC goes to a Pod, with the addresses of its port. Nothing is done to it before a record
//! is on the disk and Neutron has told all.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Instant;

use crate::cni::{Attachment, CniError, ErrorCode, Interface};
use crate::nic::{
    Given, Kind, Link, Mark, NicSettings, NodeRoute, Record, Refusal, Step, Taken, Which,
    candidates, configure, find, find_handed, given, hand_over, is_to_be_had, port_of,
};
use crate::vm_nic::back::Node;
use crate::vm_nic::change::Places;
use crate::vm_nic::namespace::Namespace;
use crate::vm_nic::records::{Held, Kept, Records};
use crate::vm_nic::{kernel_fault, look};
use openstack::HttpNeutron;

/// NICs that are named at most where none will do.
const MOST_TOLD: usize = 8;

/// A request for a NIC.
pub(super) struct Adding<'a> {
    pub(super) network: &'a str,
    pub(super) attachment: &'a Attachment,
    pub(super) wanted: &'a NicSettings,
    pub(super) neutron: &'a HttpNeutron,
    pub(super) node: &'a Node,
    pub(super) pod: &'a Namespace,
    pub(super) records: &'a Records,
    /// For what is asked.
    pub(super) until: Instant,
    /// For giving back what was taken.
    pub(super) last: Instant,
}

impl Adding<'_> {
    /// Hands one over, or finds the one that was.
    pub(super) fn run(&self) -> Result<(Given, Interface), CniError> {
        let mark = Mark::new(self.network, self.attachment);
        let _lock = self.records.about(&mark, self.until)?;
        if let Some(held) = self.records.hold(&mark, self.until)? {
            if self.is_in_pod(&held.record)? {
                // What an earlier run gave stays, whatever Neutron says now.
                let given = self.given(&held.record)?;
                self.configure(&held.record, &given)?;
                return self.told(&held.record, given);
            }
            self.node
                .take_back(held, Some(&self.pod.netns.path), self.last)?;
        }
        let (held, given) = self.reserve()?;
        if !self.is_as_recorded(&held.record)? {
            // Nothing was done to it.
            let message = format!(
                "{} was changed while Neutron was asked",
                held.record.nic.name
            );
            held.forget()?;
            return Err(CniError::new(
                ErrorCode::TryAgainLater,
                message,
                "it will be tried again",
            ));
        }
        let done = self
            .hand_over(&held.record)
            .and_then(|()| self.configure(&held.record, &given));
        let told = done.and_then(|()| self.told(&held.record, given));
        told.map_err(|error| {
            match self
                .node
                .take_back(held, Some(&self.pod.netns.path), self.last)
            {
                Ok(()) => error,
                Err(why) => error.and_also(&format!("and the NIC is not back: {why}")),
            }
        })
    }

    /// Whether it is there, with its name.
    fn is_in_pod(&self, record: &Record) -> Result<bool, CniError> {
        if !record.netns.is(&self.pod.netns) || record.boot != self.node.boot {
            return Ok(false);
        }
        let (node, pod) = (self.links_of_node()?, self.links_of_pod()?);
        Ok(find_handed(record, &node, &pod).is_some_and(|link| link.name == record.interface))
    }

    fn given(&self, record: &Record) -> Result<Given, CniError> {
        let port = port_of(self.neutron, record.nic.mac, &self.wanted.networks)?;
        given(self.neutron, &port, self.wanted)
    }

    /// A NIC that nobody else has, and what its port gives.
    fn reserve(&self) -> Result<(Held, Given), CniError> {
        let mut passed_over = BTreeSet::new();
        let mut faults = Vec::new();
        loop {
            let held = self.choose(&passed_over).map_err(|none| {
                faults
                    .iter()
                    .fold(none, |none, also: &String| none.and_also(also))
            })?;
            match self.given(&held.record) {
                Ok(given) => return Ok((held, given)),
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

    /// Takes the next one, on paper.
    fn choose(&self, passed_over: &BTreeSet<u32>) -> Result<Held, CniError> {
        let _lock = self.records.choosing(self.until)?;
        self.node.mend(self.records, self.last)?;
        let links = self.links_of_node()?;
        let Kept {
            records,
            unreadable,
        } = self.records.all()?;
        let records: Vec<Record> = records.into_values().collect();
        let (free, mut refusals) = candidates(&links, &self.wanted.selection, &records);
        for link in free
            .into_iter()
            .filter(|link| !passed_over.contains(&link.index))
        {
            let is_its = |mark: &&Mark| link.alias.as_deref() == Some(mark.as_str());
            if let Some(mark) = unreadable.keys().find(is_its) {
                refusals.push(Refusal::Taken(
                    link.name.clone(),
                    format!("somebody: {}", unreadable[mark].message),
                ));
                continue;
            }
            let routes = self.routes(link)?;
            match (
                is_to_be_had(link, &routes, &self.wanted.selection),
                Taken::new(link, &routes),
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

    /// Whether the NIC is still to be had, and what it was when it was written down: Neutron may
    /// have taken its time.
    fn is_as_recorded(&self, record: &Record) -> Result<bool, CniError> {
        let links = self.links_of_node()?;
        let mut others: Vec<Record> = self.records.all()?.records.into_values().collect();
        others.retain(|other| other.mark != record.mark);
        let (free, _) = candidates(&links, &self.wanted.selection, &others);
        let Some(link) = find(record, &links).filter(|link| free.contains(link)) else {
            return Ok(false);
        };
        let routes = self.routes(link)?;
        let is_free = is_to_be_had(link, &routes, &self.wanted.selection).is_ok();
        Ok(is_free && Taken::new(link, &routes).as_ref() == Some(&record.nic))
    }

    /// None is to be had: why not, and who has some.
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
        let why: Vec<String> = refusals.iter().map(ToString::to_string).collect();
        let message = match why.is_empty() {
            true => format!(
                "this node has no such NIC that is free; it has {}",
                these(links)
            ),
            false => format!("no such NIC is free: {}", why.join(", ")),
        };
        let details = match refusals.first() {
            Some(Refusal::Configured(..)) if !is_any => {
                "say `\"takeConfigured\": \"restore\"` in `nic`, if the node can do without it"
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
            error.and_also(&format!("handed over at present: {}", handed.join(", ")))
        }
    }

    fn hand_over(&self, record: &Record) -> Result<(), CniError> {
        match hand_over(record, &self.links_of_node()?) {
            Some(steps) => steps.iter().try_for_each(|step| self.execute(record, step)),
            None => {
                let message = format!("{} went away", record.nic.name);
                Err(CniError::new(
                    ErrorCode::TryAgainLater,
                    message,
                    "it will be tried again",
                ))
            }
        }
    }

    fn configure(&self, record: &Record, given: &Given) -> Result<(), CniError> {
        let (node, pod) = (self.links_of_node()?, self.links_of_pod()?);
        let Some(link) = find_handed(record, &node, &pod) else {
            let message = format!("{} is not in the Pod any more", record.interface);
            return Err(CniError::new(
                ErrorCode::TryAgainLater,
                message,
                "it will be tried again",
            ));
        };
        configure(link, given)
            .iter()
            .try_for_each(|step| self.execute(record, step))
    }

    fn execute(&self, record: &Record, step: &Step) -> Result<(), CniError> {
        let places = Places {
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
        places
            .execute(step)
            .map_err(|why| kernel_fault(&what, &why))
    }

    fn told(&self, record: &Record, given: Given) -> Result<(Given, Interface), CniError> {
        let (node, pod) = (self.links_of_node()?, self.links_of_pod()?);
        let Some(link) =
            find_handed(record, &node, &pod).filter(|link| link.name == record.interface)
        else {
            let message = format!("{} is not in the Pod any more", record.interface);
            return Err(CniError::new(
                ErrorCode::TryAgainLater,
                message,
                "it will be tried again",
            ));
        };
        let interface = Interface {
            name: link.name.clone(),
            mac: record.nic.mac.to_string(),
            sandbox: self.pod.netns.path.display().to_string(),
            mtu: Some(link.mtu),
            pci: record.nic.pci.as_ref().map(ToString::to_string),
        };
        Ok((given, interface))
    }

    fn links_of_node(&self) -> Result<Vec<Link>, CniError> {
        look::links(&self.node.namespace.netlink)
            .map_err(|why| kernel_fault("the links of the node", &why))
    }

    fn routes(&self, link: &Link) -> Result<Vec<NodeRoute>, CniError> {
        let routes = look::routes(&self.node.namespace.netlink, link.index);
        routes.map_err(|why| kernel_fault("the routes of the node", &why))
    }

    fn links_of_pod(&self) -> Result<Vec<Link>, CniError> {
        look::links(&self.pod.netlink).map_err(|why| kernel_fault("the links of the Pod", &why))
    }
}

/// What there is to choose from, with what `drivers` would match.
fn these(links: &[Link]) -> String {
    let of = |link: &Link| {
        format!(
            "{} ({})",
            link.name,
            link.driver.as_deref().unwrap_or("no driver")
        )
    };
    let are: Vec<String> = links
        .iter()
        .filter(|link| !matches!(link.kind, Kind::Other(_)))
        .map(of)
        .collect();
    match are.len() {
        0 => "none at all".to_owned(),
        count if count > MOST_TOLD => format!(
            "{} and {} more",
            are[..MOST_TOLD].join(", "),
            count - MOST_TOLD
        ),
        _ => are.join(", "),
    }
}

/// Opens the Pod's namespace, which is another one than the node's.
pub(super) fn pod(path: &Path, node: &Node) -> Result<Namespace, CniError> {
    let wrong = |why: &dyn std::fmt::Display| {
        let message = format!("CNI_NETNS, {}: {why}", path.display());
        CniError::new(
            ErrorCode::InvalidEnvironment,
            message,
            "it is the path of the container's network namespace",
        )
    };
    let pod = Namespace::of_pod(path).map_err(|why| wrong(&why))?;
    if pod.netns.is(&node.namespace.netns) {
        return Err(wrong(&"it is the node's own namespace"));
    }
    Ok(pod)
}
